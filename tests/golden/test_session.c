/* test_session.c - what a session promises, whatever the backend: any split of a text gives the same
 * numbers, coming back gives the same bits, and so does every size of the expert pool. */
#include "support/golden.h"

#include <unistd.h>

static const char MODEL[] = "tiny-s-Q8_0"; /* four layers, 16 experts of which 4 are used */

typedef struct fixture {
    rl_engine *engine;
    rl_session *session;
    uint32_t n_vocab;
} fixture;

static golden_setup setup_for(const char *backend)
{
    if (!rl_backend_find(backend)) rl_test_skip("no backend %s in this build", backend);
    return (golden_setup){ .model = rl_test_fixture("models/%s.gguf", MODEL), .backend = backend };
}

static fixture open_fixture(const golden_setup *setup)
{
    fixture f;
    golden_open(setup, 700, &f.engine, &f.session);
    f.n_vocab = f.engine->net.shape.n_vocab;
    return f;
}

static void close_fixture(fixture *f)
{
    rl_session_destroy(f->session);
    rl_engine_close(f->engine);
}

static void random_tokens(uint32_t *tokens, uint32_t n, uint32_t n_vocab)
{
    uint64_t seed = 42;
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)(rl_test_random(&seed) % n_vocab);
}

static void feed(fixture *f, const uint32_t *tokens, uint32_t n)
{
    rl_error err = { "" };
    assert_ok(rl_session_feed(f->session, tokens, n, &err));
}

/* A copy of the present logits; the caller frees. */
static float *take_logits(const fixture *f)
{
    float *copy = malloc(f->n_vocab * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, rl_session_logits(f->session), f->n_vocab * sizeof *copy);
    return copy;
}

/* Stands against: a chunk border, a batch split or a single token that forgets some state. */
static void check_splits(const char *backend)
{
    static const uint32_t pieces[] = { 1, 7, 63, 64, 65, 100, 128 };
    rl_error err = { "" };
    golden_setup setup = setup_for(backend);
    fixture f = open_fixture(&setup);
    uint32_t tokens[200];
    random_tokens(tokens, 200, f.n_vocab);
    feed(&f, tokens, 200);
    float *whole = take_logits(&f);
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        assert_ok(rl_session_reset(f.session, &err));
        for (uint32_t at = 0; at < 200; at += pieces[p])
            feed(&f, tokens + at, 200 - at < pieces[p] ? 200 - at : pieces[p]);
        double l2 = rl_test_relative_l2(rl_session_logits(f.session), whole, f.n_vocab);
        if (!(l2 <= 1e-4)) fail_msg("pieces of %u tokens: relative L2 %.3g", pieces[p], l2);
    }
    free(whole);
    close_fixture(&f);
}

/* Stands against: a part of the state that is not in the file, or not restored bit by bit. */
static void check_save_and_load(const char *backend)
{
    rl_error err = { "" };
    golden_setup setup = setup_for(backend);
    fixture f = open_fixture(&setup);
    const char *path = rl_test_scratch("session-%s.bin", backend);
    uint32_t tokens[90];
    random_tokens(tokens, 90, f.n_vocab);
    assert_ok(rl_session_save(f.session, path, &err)); /* before anything was read */
    feed(&f, tokens, 3);
    assert_ok(rl_session_load(f.session, path, &err));
    assert_int_equal(rl_session_position(f.session), 0);
    feed(&f, tokens, 70);
    assert_ok(rl_session_save(f.session, path, &err));
    float *middle = take_logits(&f);
    feed(&f, tokens + 70, 20);
    float *end = take_logits(&f);
    assert_ok(rl_session_reset(f.session, &err));
    feed(&f, tokens + 5, 40); /* something else in every buffer */
    assert_ok(rl_session_load(f.session, path, &err));
    assert_int_equal(rl_session_position(f.session), 70);
    assert_memory_equal(rl_session_tokens(f.session), tokens, 70 * sizeof *tokens);
    assert_memory_equal(rl_session_logits(f.session), middle, f.n_vocab * sizeof *middle);
    feed(&f, tokens + 70, 20);
    assert_memory_equal(rl_session_logits(f.session), end, f.n_vocab * sizeof *end);
    free(middle);
    free(end);
    close_fixture(&f);
}

/* Stands against: a rewind that keeps traces of what was taken back. */
static void check_rewind(const char *backend)
{
    rl_error err = { "" };
    golden_setup setup = setup_for(backend);
    fixture f = open_fixture(&setup);
    uint32_t tokens[120], at;
    random_tokens(tokens, 120, f.n_vocab);
    feed(&f, tokens, 30);
    assert_ok(rl_session_checkpoint(f.session, &err));
    feed(&f, tokens + 30, 30);
    float *want = take_logits(&f);
    assert_ok(rl_session_checkpoint(f.session, &err));
    feed(&f, tokens + 60, 60);
    assert_ok(rl_session_rewind(f.session, 45, &err)); /* the newest inside is at 30 */
    at = rl_session_position(f.session);
    assert_int_equal(at, 30);
    feed(&f, tokens + 30, 30);
    assert_memory_equal(rl_session_logits(f.session), want, f.n_vocab * sizeof *want);
    for (uint32_t i = 0; i < 6; i++) { /* more checkpoints than are kept */
        feed(&f, tokens + 60 + i, 1);
        assert_ok(rl_session_checkpoint(f.session, &err));
    }
    assert_ok(rl_session_rewind(f.session, 10, &err));
    assert_int_equal(rl_session_position(f.session), 0);
    assert_null(rl_session_logits(f.session));
    feed(&f, tokens, 60);
    double l2 = rl_test_relative_l2(rl_session_logits(f.session), want, f.n_vocab);
    assert_true(l2 <= 1e-4);
    free(want);
    close_fixture(&f);
}

/* Every pool size gives the same bits: minimum, twice that, half, everything. With 4 slots a prefill
 * of 200 tokens wants 16 experts per layer, so they pass in waves. */
static void check_pool_sizes(const char *backend)
{
    rl_error err = { "" };
    golden_setup setup = setup_for(backend);
    fixture f = open_fixture(&setup);
    uint32_t tokens[220];
    random_tokens(tokens, 220, f.n_vocab);
    feed(&f, tokens, 200);
    float *prefill = take_logits(&f);
    for (uint32_t i = 200; i < 220; i++)
        feed(&f, tokens + i, 1);
    float *decode = take_logits(&f);
    uint64_t minimum = rl_experts_plan(f.engine->experts)->minimum_bytes;
    uint64_t full = rl_experts_plan(f.engine->experts)->full_bytes;
    close_fixture(&f);
    const uint64_t sizes[] = { minimum, 2 * minimum, full / 2, full };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        setup.cache_bytes = sizes[i];
        f = open_fixture(&setup);
        feed(&f, tokens, 200);
        assert_memory_equal(rl_session_logits(f.session), prefill, f.n_vocab * sizeof *prefill);
        for (uint32_t t = 200; t < 220; t++)
            feed(&f, tokens + t, 1);
        assert_memory_equal(rl_session_logits(f.session), decode, f.n_vocab * sizeof *decode);
        rl_cache_check(rl_experts_cache(f.engine->experts));
        assert_int_equal(rl_cache_count(rl_experts_cache(f.engine->experts), RL_CACHE_NONE).pinned,
                         0);
        close_fixture(&f);
    }
    rl_engine *engine = NULL;
    rl_engine_params params = { .ops = rl_backend_find(backend),
                                .n_threads = 1,
                                .cache_bytes = minimum - 1 };
    assert_int_equal(rl_engine_open(&engine, setup.model, &params, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "MiB"));
    free(prefill);
    free(decode);
}

/* Each dense weight is walked once per batch, however long the batch is.
 * Stands against: a prefill that is a loop over tokens. */
static void check_weight_passes(const char *backend)
{
    golden_setup setup = setup_for(backend);
    setup.n_batch = 128;
    fixture f = open_fixture(&setup);
    uint32_t tokens[640];
    random_tokens(tokens, 640, f.n_vocab);
    rl_backend_counters before, after;
    f.engine->ops->get_counters(f.engine->be, &before);
    feed(&f, tokens, 640);
    f.engine->ops->get_counters(f.engine->be, &after);
    /* A delta layer has 4 projections, an attention layer 4; router, shared gate and 3 shared
     * matrices in both. The head runs once, for the last token. */
    uint64_t per_batch = 0;
    for (uint32_t i = 0; i < f.engine->net.shape.n_layer; i++)
        per_batch += 4 + 5;
    assert_int_equal(after.tokens - before.tokens, 640);
    assert_int_equal(after.dense_passes - before.dense_passes, 5 * per_batch + 1);
    assert_int_equal(after.host_fallbacks, 0);
    close_fixture(&f);
}

/* A batch reads and walks every expert that it needs once per layer, also when the pool holds so few
 * that they pass in waves.
 * Stands against: an expert that is thrown out in the middle of its tokens and read again. */
static void check_expert_reads(const char *backend)
{
    golden_setup setup = setup_for(backend);
    setup.n_batch = 128;
    fixture f = open_fixture(&setup);
    setup.cache_bytes = rl_experts_plan(f.engine->experts)->minimum_bytes;
    close_fixture(&f);
    f = open_fixture(&setup);
    uint32_t tokens[128];
    random_tokens(tokens, 128, f.n_vocab);
    rl_backend_counters before, after;
    f.engine->ops->get_counters(f.engine->be, &before);
    feed(&f, tokens, 128);
    f.engine->ops->get_counters(f.engine->be, &after);
    const rl_cache *cache = rl_experts_cache(f.engine->experts);
    uint64_t distinct = 0;
    for (uint32_t i = 0; i < f.engine->net.shape.n_layer; i++)
        distinct += rl_cache_distinct(cache, RL_CACHE_PREFILL, i);
    assert_true(distinct > rl_cache_count(cache, RL_CACHE_NONE).slots);
    assert_int_equal(rl_cache_get_figures(cache, RL_CACHE_PREFILL).misses, distinct);
    assert_int_equal(after.expert_passes - before.expert_passes, distinct);
    close_fixture(&f);
}

static void check_limits(const char *backend)
{
    rl_error err = { "" };
    golden_setup setup = setup_for(backend);
    fixture f = open_fixture(&setup);
    uint32_t tokens[700];
    random_tokens(tokens, 700, f.n_vocab);
    feed(&f, tokens, 690);
    float *before = take_logits(&f);
    assert_int_equal(rl_session_feed(f.session, tokens, 11, &err), RL_FULL);
    assert_int_equal(rl_session_position(f.session), 690);
    uint32_t foreign = f.n_vocab;
    assert_int_equal(rl_session_feed(f.session, &foreign, 1, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "vocabulary"));
    assert_memory_equal(rl_session_logits(f.session), before, f.n_vocab * sizeof *before);
    feed(&f, tokens, 10);
    free(before);
    close_fixture(&f);
}

/* A session file of another model, a damaged one, or one too long changes nothing. */
static void session_refuses_foreign_files(void **state)
{
    (void)state;
    rl_error err = { "" };
    golden_setup setup = setup_for("oracle");
    fixture f = open_fixture(&setup);
    const char *path = rl_test_scratch("session-good.bin");
    const char *bad = rl_test_scratch("session-bad.bin");
    uint32_t tokens[40];
    random_tokens(tokens, 40, f.n_vocab);
    feed(&f, tokens, 40);
    assert_ok(rl_session_save(f.session, path, &err));
    /* A device is neither written to nor replaced. */
    unlink(bad);
    assert_int_equal(symlink("/dev/null", bad), 0);
    assert_int_equal(rl_session_save(f.session, bad, &err), RL_IO);
    assert_non_null(strstr(err.text, "not a regular file"));
    unlink(bad);
    assert_ok(rl_session_reset(f.session, &err));
    feed(&f, tokens, 3);
    float *before = take_logits(&f);

    size_t bytes;
    uint8_t *file = rl_test_read(path, &bytes);
    const size_t spots[] = { 0, 9, 17, 41, bytes / 2, bytes - 1 };
    for (size_t i = 0; i < sizeof spots / sizeof spots[0]; i++) {
        file[spots[i]] ^= 0x10;
        FILE *out = fopen(bad, "wb");
        assert_int_equal(fwrite(file, 1, bytes, out), bytes);
        fclose(out);
        file[spots[i]] ^= 0x10;
        assert_int_not_equal(rl_session_load(f.session, bad, &err), RL_OK);
        assert_non_null(strstr(err.text, bad));
    }
    const size_t lengths[] = { 0, 8, 39, 47, bytes - 1, bytes - 8 };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        FILE *out = fopen(bad, "wb");
        assert_int_equal(fwrite(file, 1, lengths[i], out), lengths[i]);
        fclose(out);
        assert_int_equal(rl_session_load(f.session, bad, &err), RL_FORMAT);
    }
    free(file);

    golden_setup other = setup;
    other.model = rl_test_fixture("models/tiny-s-F16.gguf");
    fixture g = open_fixture(&other);
    assert_int_equal(rl_session_load(g.session, path, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "another model"));
    close_fixture(&g);

    rl_session *small = NULL;
    rl_session_params params = { .n_ctx = 39, .key_f32 = true, .value_f32 = true };
    assert_ok(rl_session_open(&small, f.engine, &params, &err));
    assert_int_equal(rl_session_load(small, path, &err), RL_INVALID);
    rl_session_destroy(small);
    params = (rl_session_params){ .n_ctx = 60 }; /* f16 cache */
    assert_ok(rl_session_open(&small, f.engine, &params, &err));
    assert_int_equal(rl_session_load(small, path, &err), RL_INVALID);
    rl_session_destroy(small);

    assert_int_equal(rl_session_position(f.session), 3);
    assert_memory_equal(rl_session_logits(f.session), before, f.n_vocab * sizeof *before);
    free(before);
    close_fixture(&f);
}

/* Two sessions on one model do not see each other. */
static void session_two_on_one_model(void **state)
{
    (void)state;
    rl_error err = { "" };
    golden_setup setup = setup_for("oracle");
    fixture f = open_fixture(&setup);
    rl_session *second = NULL;
    rl_session_params params = { .n_ctx = 100, .key_f32 = true, .value_f32 = true };
    assert_ok(rl_session_open(&second, f.engine, &params, &err));
    uint32_t tokens[50];
    random_tokens(tokens, 50, f.n_vocab);
    feed(&f, tokens, 50);
    float *want = take_logits(&f);
    assert_ok(rl_session_reset(f.session, &err));
    for (uint32_t i = 0; i < 50; i += 10) {
        feed(&f, tokens + i, 10);
        assert_ok(rl_session_feed(second, tokens + (i + 10) % 50, 10, &err));
    }
    assert_true(rl_test_relative_l2(rl_session_logits(f.session), want, f.n_vocab) <= 1e-4);
    rl_session_destroy(second);
    free(want);
    close_fixture(&f);
}

#define BACKENDS(X) X(oracle) X(cpu)
#define CHECKS(X, backend)                                                                         \
    X(backend, splits)                                                                             \
    X(backend, save_and_load)                                                                      \
    X(backend, rewind)                                                                             \
    X(backend, pool_sizes)                                                                         \
    X(backend, weight_passes)                                                                      \
    X(backend, expert_reads)                                                                       \
    X(backend, limits)

#define DEFINE(backend, check)                                                                     \
    static void session_##check##_##backend(void **state)                                          \
    {                                                                                              \
        (void)state;                                                                               \
        check_##check(#backend);                                                                   \
    }
#define DEFINE_ALL(backend) CHECKS(DEFINE, backend)
BACKENDS(DEFINE_ALL)

#define LIST(backend, check) RL_TEST(session, check##_##backend),
#define LIST_ALL(backend)    CHECKS(LIST, backend)
RL_TEST_MAIN(BACKENDS(LIST_ALL) RL_TEST(session, refuses_foreign_files),
             RL_TEST(session, two_on_one_model))
