/* test_sampled.c - sampled text is the same whether it is drawn from the largest logits, which came
 * with the token, or from all of them, whatever happens to the session in between.
 *
 * On a host emulation of the routed step (the engine's side alone, every way of decoding, loads that
 * fail) and on whatever Vulkan device is there. After every token drawn, the row is read and a
 * second sampler of the same history draws from it. */
#include "support/golden.h"

#include <math.h>
#include <unistd.h>

#include "engine/decode.h"
#include "engine/sampler.h"
#include "support/fake_routed.h"
#ifdef RL_HAVE_VULKAN
#include "support/vulkan.h"
#endif

enum { N_VOCAB = 512 };

typedef struct play {
    rl_engine *engine;
    rl_session *session, *other;
    rl_sampler *drawn, *row;       /* the text's, and its twin */
    rl_sampler *aside, *aside_row; /* draws in between, and its twin */
    uint32_t n_listed;             /* tokens that came with their largest */
} play;

static const char *model(void) /* rl_test_fixture() has only so many places */
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", rl_test_fixture("models/tiny-s-Q8_0.gguf"));
    return path;
}

static rl_sampler *sampler(const rl_sampler_params *params)
{
    rl_error err = { "" };
    rl_sampler *s;
    assert_ok(rl_sampler_create(&s, params, N_VOCAB, &err));
    return s;
}

static void open_play(play *p, const golden_setup *setup, const rl_sampler_params *params)
{
    rl_error err = { "" };
    uint32_t prompt[11];
    memset(p, 0, sizeof *p);
    golden_open(setup, 256, &p->engine, &p->session);
    assert_int_equal(p->engine->net.shape.n_vocab, N_VOCAB);
    assert_ok(rl_session_open(&p->other, p->engine, &(rl_session_params){ .n_ctx = 256 }, &err));
    p->drawn = sampler(params);
    p->row = sampler(params);
    const rl_sampler_params hot = { .temperature = 1.2f, .top_k = 30, .seed = 17 };
    p->aside = sampler(&hot);
    p->aside_row = sampler(&hot);
    for (uint32_t i = 0; i < 11; i++) {
        prompt[i] = 13 * i % 500;
        rl_sampler_accept(p->drawn, prompt[i]);
        rl_sampler_accept(p->row, prompt[i]);
    }
    assert_ok(rl_session_feed(p->session, prompt, 11, &err));
}

static void close_play(play *p)
{
    rl_sampler_destroy(p->drawn);
    rl_sampler_destroy(p->row);
    rl_sampler_destroy(p->aside);
    rl_sampler_destroy(p->aside_row);
    rl_session_destroy(p->other);
    rl_session_destroy(p->session);
    rl_engine_close(p->engine);
}

/* The list against a plain search: every entry stands behind the one before, and the row has no
 * further one in between. */
static void check_list(const rl_top_logits *top, const float *row)
{
    uint32_t n_before = 0;
    assert_int_equal(top->n, RL_TOP_LOGITS);
    assert_false(top->all);
    for (uint32_t i = 0; i < top->n; i++) {
        assert_true(top->logits[i] == row[top->tokens[i]]);
        assert_true(!i || top->logits[i] < top->logits[i - 1] ||
                    (top->logits[i] == top->logits[i - 1] && top->tokens[i] > top->tokens[i - 1]));
    }
    uint32_t last = top->tokens[top->n - 1];
    for (uint32_t i = 0; i < N_VOCAB; i++)
        n_before += row[i] > row[last] || (row[i] == row[last] && i < last);
    assert_int_equal(n_before, top->n - 1);
}

/* Draws a token and leaves the session's logits where they are. */
static uint32_t draw(play *p)
{
    rl_error err = { "" };
    uint32_t token;
    bool listed = p->engine->left == p->session && p->session->has_top;
    assert_ok(rl_session_sample(p->session, p->drawn, &token, &err));
    p->n_listed += listed;
    return token;
}

/* The row gives the same. */
static void confirm(play *p, uint32_t token)
{
    bool listed = p->engine->left == p->session && p->session->has_top;
    const float *row = rl_session_logits(p->session);
    if (listed) check_list(&p->session->top, row);
    assert_int_equal(token, rl_sampler_sample(p->row, row));
}

/* One more draw from the same logits by another sampler, then the row. */
static void draw_aside(play *p, rl_session *session)
{
    rl_error err = { "" };
    uint32_t token;
    assert_ok(rl_session_sample(session, p->aside, &token, &err));
    assert_int_equal(token, rl_sampler_sample(p->aside_row, rl_session_logits(session)));
}

/* What may happen between two tokens. */
static void interfere(play *p, uint32_t i)
{
    rl_error err = { "" };
    const uint32_t few[] = { 4, 5, 6 }, never = N_VOCAB;
    switch (i % 9) {
    case 0: break;
    case 1: assert_int_equal(rl_session_feed(p->session, &never, 1, &err), RL_INVALID); break;
    case 2: assert_ok(rl_session_feed(p->other, few, 1, &err)); break;
    case 3: assert_ok(rl_session_feed(p->other, few, 3, &err)); break;
    case 4: assert_ok(rl_session_checkpoint(p->session, &err)); break;
    case 5: { /* a branch: saved here, continued there */
        const char *path = rl_test_scratch("sampled-%ld.session", (long)getpid());
        rl_session *branch;
        assert_ok(rl_session_save(p->session, path, &err));
        assert_ok(rl_session_open(
            &branch, p->engine,
            &(rl_session_params){ .n_ctx = 256, .key_f32 = true, .value_f32 = true }, &err));
        assert_ok(rl_session_load(branch, path, &err));
        unlink(path);
        for (uint32_t t = 0; t < 3; t++) {
            draw_aside(p, branch);
            assert_ok(rl_session_feed(branch, &few[t], 1, &err));
        }
        draw_aside(p, branch);
        rl_session_destroy(branch);
        break;
    }
    case 6: draw_aside(p, p->session); break;
    case 7: { /* forward and back to here */
        assert_ok(rl_session_checkpoint(p->session, &err));
        uint32_t here = rl_session_position(p->session);
        assert_ok(rl_session_feed(p->session, few, 1, &err));
        assert_ok(rl_session_feed(p->session, few + 1, 1, &err));
        assert_ok(rl_session_rewind(p->session, here, &err));
        break;
    }
    case 8: assert_non_null(rl_session_logits(p->session)); break;
    }
}

/* Samplers that the list serves always, sometimes, never; the last asks for the largest only. */
static const rl_sampler_params kinds[] = {
    { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .presence_penalty = 1.5f, .seed = 1 },
    { .temperature = 1, .min_p = 0.4f, .seed = 2 },
    { .repeat_penalty = 1.2f },
    { .temperature = 0.9f, .top_p = 0.9f, .seed = 3 },
    { .temperature = 0 },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void check_text(const golden_setup *setup, const rl_sampler_params *params, uint32_t n,
                       bool disturbed)
{
    play p;
    rl_error err = { "" };
    open_play(&p, setup, params);
    for (uint32_t i = 0; i < n; i++) {
        if (disturbed && i % 2) interfere(&p, i / 2);
        uint32_t token = draw(&p);
        if (disturbed && i % 4 < 2) interfere(&p, i / 4 + 3);
        if (i % 3 || disturbed) {
            confirm(&p, token);
        } else { /* overwritten by the next token without having been read */
            uint32_t again;
            assert_ok(rl_session_sample(p.session, p.row, &again, &err));
            assert_int_equal(again, token);
        }
        assert_ok(rl_session_feed(p.session, &token, 1, &err));
    }
    bool asks = !rl_sampler_is_plain_greedy(p.drawn) && rl_sampler_needs(p.drawn) <= RL_TOP_LOGITS;
    printf("T %g, k %u, p %g, min %g: %u of %u tokens came with a list\n", params->temperature,
           params->top_k, params->top_p, params->min_p, p.n_listed, n);
    if (!disturbed) assert_int_equal(p.n_listed, asks ? n - 1 : 0);
    if (disturbed && asks) assert_true(p.n_listed > n / 4);
    close_play(&p);
}

static void check_way(golden_setup setup, const char *way, uint64_t cache_bytes, uint32_t n,
                      bool disturbed)
{
    setup.speculative = way;
    setup.cache_bytes = cache_bytes;
    check_text(&setup, &kinds[0], n, disturbed);
}

/* The smallest pool that the model can run in, times two: misses in every token. */
static uint64_t small_pool(const golden_setup *setup)
{
    rl_engine *engine;
    rl_session *session;
    golden_open(setup, 16, &engine, &session);
    uint64_t bytes = 2 * rl_experts_plan(engine->experts)->minimum_bytes;
    rl_session_destroy(session);
    rl_engine_close(engine);
    return bytes;
}

/* ---- on the host ---------------------------------------------------------------------------------- */

static golden_setup host_setup(void)
{
    return (golden_setup){ .model = model(), .backend = "fake-routed", .ops = fake_routed_ops() };
}

static void sampled_every_way(void **state)
{
    (void)state;
    static const char *const ways[] = { "0", "restart", "resume", "gated", "auto" };
    const golden_setup setup = host_setup();
    const uint64_t pool = small_pool(&setup);
    for (uint32_t w = 0; w < 5; w++)
        for (int disturbed = 0; disturbed < 2; disturbed++) {
            check_way(setup, ways[w], 0, 40, disturbed);
            check_way(setup, ways[w], pool, 40, disturbed);
        }
}

static void sampled_every_sampler(void **state)
{
    (void)state;
    const golden_setup setup = host_setup();
    for (uint32_t k = 0; k < N_KINDS; k++)
        for (int disturbed = 0; disturbed < 2; disturbed++)
            check_text(&setup, &kinds[k], 60, disturbed);
}

/* A sampler after another one: what came with a token was asked for by the one before.
 * Stands against: a list that is missing, or taken, when the wish has changed. */
static void check_changing(const golden_setup *setup, uint32_t n)
{
    play p;
    rl_error err = { "" };
    rl_sampler *drawn[N_KINDS], *row[N_KINDS];
    uint64_t random = 3;
    open_play(&p, setup, &kinds[0]);
    for (uint32_t k = 0; k < N_KINDS; k++) {
        drawn[k] = sampler(&kinds[k]);
        row[k] = sampler(&kinds[k]);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)(rl_test_random(&random) >> 33) % N_KINDS, token;
        assert_ok(rl_session_sample(p.session, drawn[k], &token, &err));
        assert_int_equal(token, rl_sampler_sample(row[k], rl_session_logits(p.session)));
        assert_ok(rl_session_feed(p.session, &token, 1, &err));
    }
    for (uint32_t k = 0; k < N_KINDS; k++) {
        rl_sampler_destroy(drawn[k]);
        rl_sampler_destroy(row[k]);
    }
    close_play(&p);
}

static void sampled_changing_samplers(void **state)
{
    (void)state;
    const golden_setup setup = host_setup();
    check_changing(&setup, 100);
}

/* Tokens whose experts cannot be read: the session has what it had, also the list, and goes on. */
static void sampled_failed_tokens(void **state)
{
    (void)state;
    static const char *const ways[] = { "0", "restart", "resume", "gated" };
    golden_setup setup = host_setup();
    size_t bytes;
    char *file = rl_test_read(setup.model, &bytes);
    setup.cache_bytes = small_pool(&setup);
    for (uint32_t w = 0; w < 4; w++) {
        play p;
        rl_error err = { "" };
        uint32_t failures = 0;
        char copy[4096];
        snprintf(copy, sizeof copy, "%s", rl_test_scratch("sampled-%s.gguf", ways[w]));
        FILE *out = fopen(copy, "wb");
        assert_int_equal(fwrite(file, 1, bytes, out), bytes);
        fclose(out);
        setup.model = copy;
        setup.speculative = ways[w];
        open_play(&p, &setup, &kinds[0]);
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t token = draw(&p), again;
            assert_ok(rl_session_sample(p.session, p.row, &again, &err));
            assert_int_equal(again, token);
            assert_int_equal(truncate(copy, (off_t)(bytes / 2 + i * 997 % (bytes / 2))), 0);
            rl_status status = rl_session_feed(p.session, &token, 1, &err);
            out = fopen(copy, "r+b");
            assert_int_equal(fwrite(file, 1, bytes, out), bytes);
            fclose(out);
            if (!status) continue;
            failures++;
            draw_aside(&p, p.session); /* the list, then the row, behind what the token has left */
            assert_ok(rl_session_feed(p.session, &token, 1, &err));
        }
        printf("%s: %u of 40 tokens failed once\n", ways[w], failures);
        assert_true(failures > 10 && p.n_listed == 39);
        close_play(&p);
        unlink(copy);
    }
    free(file);
}

/* ---- on a device ---------------------------------------------------------------------------------- */

#ifdef RL_HAVE_VULKAN
static golden_setup device_setup(void)
{
    rl_vk_device_close(rl_test_vulkan_open()); /* skips without a device */
    return (golden_setup){ .model = model(), .backend = "vulkan" };
}

static void sampled_every_way_vulkan(void **state)
{
    (void)state;
    const golden_setup setup = device_setup();
    const uint64_t pool = small_pool(&setup);
    check_way(setup, "auto", 0, 20, false);
    check_way(setup, "auto", 0, 36, true);
    check_way(setup, "0", pool, 16, true);
    check_way(setup, "restart", pool, 16, true);
    check_way(setup, "resume", pool, 16, true);
    check_way(setup, "gated", pool, 16, true);
}

static void sampled_every_sampler_vulkan(void **state)
{
    (void)state;
    const golden_setup setup = device_setup();
    check_text(&setup, &kinds[1], 36, true);
    check_text(&setup, &kinds[2], 36, true);
    check_changing(&setup, 40);
}
#else
static void sampled_every_way_vulkan(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
static void sampled_every_sampler_vulkan(void **state)
{
    sampled_every_way_vulkan(state);
}
#endif

RL_TEST_MAIN(RL_TEST(sampled, every_way), RL_TEST(sampled, every_sampler),
             RL_TEST(sampled, changing_samplers), RL_TEST(sampled, failed_tokens),
             RL_TEST(sampled, every_way_vulkan), RL_TEST(sampled, every_sampler_vulkan))
