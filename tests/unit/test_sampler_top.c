/* test_sampler_top.c - a token drawn from the largest logits is the token drawn from all of them.
 *
 * Two samplers of the same parameters and history go along side by side: one is handed the row, the
 * other the list first and the row only when it says that the list is not enough. They may never
 * differ, also not in what they draw next. */
#include "support/test.h"

#include "engine/sampler.h"

#include <math.h>

enum { MOST = 3000 };

static const float *sorted; /* what by_order() looks at */

static int by_order(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (sorted[a] != sorted[b]) return sorted[a] > sorted[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* What a device would find, by sorting; at most `most` of it. */
static rl_top_logits list_of(const float *logits, uint32_t n, uint32_t most)
{
    static uint32_t ids[MOST];
    rl_top_logits list = { 0 };
    uint32_t n_ids = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(logits[i]) && logits[i] != -INFINITY) ids[n_ids++] = i;
    sorted = logits;
    qsort(ids, n_ids, sizeof *ids, by_order);
    list.n = n_ids < most ? n_ids : most;
    list.all = n_ids <= most;
    for (uint32_t i = 0; i < list.n; i++) {
        list.tokens[i] = ids[i];
        list.logits[i] = logits[ids[i]];
    }
    return list;
}

static rl_sampler *create(const rl_sampler_params *params, uint32_t n_vocab)
{
    rl_error err = { "" };
    rl_sampler *s = NULL;
    assert_ok(rl_sampler_create(&s, params, n_vocab, &err));
    return s;
}

static float uniform(uint64_t *random)
{
    return (float)(rl_test_random(random) >> 40) * 0x1p-24f;
}

/* 0 .. n-1 */
static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)((rl_test_random(random) >> 20) % n);
}

/* Logits of several kinds: smooth, stepped (many equal), nearly flat, few that are numbers, endless. */
static void fill(float *logits, uint32_t n, uint32_t kind, uint64_t *random)
{
    for (uint32_t i = 0; i < n; i++) {
        float x = rl_test_random_normal(random);
        switch (kind) {
        case 0: logits[i] = 3 * x; break;
        case 1: logits[i] = floorf(4 * x) / 2; break;
        case 2: logits[i] = 1 + 1e-4f * floorf(3 * x); break;
        case 3: logits[i] = below(random, n) < 40 ? x : i % 2 ? NAN : -INFINITY; break;
        case 4: logits[i] = i % 97 == 5 ? INFINITY : i % 31 ? 100 * x : -0.0f; break;
        default: logits[i] = 8 - 0.01f * (float)i; break;
        }
    }
}

/* Of the lists that leave something out. */
typedef struct tally {
    uint32_t tokens, by_list;
} tally;

/* One text of `n_tokens` by these parameters, on logits of that kind. */
static tally check_text(const rl_sampler_params *params, uint32_t n_vocab, uint32_t kind,
                        uint32_t list_size, uint32_t n_tokens, uint64_t *random)
{
    static float logits[MOST];
    rl_sampler *row = create(params, n_vocab), *top = create(params, n_vocab);
    tally t = { 0 };
    fill(logits, n_vocab, kind, random);
    for (uint32_t i = below(random, 80); i > 0; i--) { /* a prompt */
        uint32_t token = below(random, n_vocab);
        rl_sampler_accept(row, token);
        rl_sampler_accept(top, token);
    }
    for (uint32_t i = 0; i < n_tokens; i++) {
        if (i % 4 == 3) fill(logits, n_vocab, kind, random);
        rl_top_logits list = list_of(logits, n_vocab, list_size);
        uint32_t want = rl_sampler_sample(row, logits), got = UINT32_MAX;
        bool decided = rl_sampler_sample_top(top, &list, &got);
        if (decided && rl_sampler_needs(top) > list.n) assert_true(list.all);
        if (!decided) got = rl_sampler_sample(top, logits);
        if (got != want)
            fail_msg("token %u of %u: %u by %s, %u by all logits (kind %u, list of %u: T %g, k %u, "
                     "p %g, min %g, repeat %g, presence %g, window %u, %zu biases)",
                     i, n_vocab, got, decided ? "the list" : "the row afterwards", want, kind,
                     list.n, params->temperature, params->top_k, params->top_p, params->min_p,
                     params->repeat_penalty, params->presence_penalty, params->penalty_window,
                     params->n_bias);
        t.tokens += !list.all;
        t.by_list += decided && !list.all;
    }
    rl_sampler_destroy(row);
    rl_sampler_destroy(top);
    return t;
}

/* Any parameters, any logits, lists of any length. Stands against: a token outside of the list that
 * would have been drawn, weights that are summed in another order, a draw that is counted twice. */
static void sampler_top_is_the_same_text(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 2, 60, 127, 128, 129, 500, 2999 };
    static const float temperatures[] = { 0, 1e-6f, 0.7f, 1, 4, 1e30f };
    uint64_t random = 5;
    tally all = { 0 };
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t n_vocab = sizes[below(&random, 8)];
        rl_logit_bias bias[5];
        rl_sampler_params p = {
            .temperature = temperatures[below(&random, 6)],
            .top_k = below(&random, 3) ? 1 + below(&random, below(&random, 2) ? 25 : 400) : 0,
            .top_p = below(&random, 2) ? uniform(&random) : (float)below(&random, 2),
            .min_p = below(&random, 2) ? uniform(&random) * uniform(&random) : 0,
            .repeat_penalty = below(&random, 2) ? 0.9f + uniform(&random) : 0,
            .presence_penalty = below(&random, 2) ? 2 * uniform(&random) - 0.2f : 0,
            .penalty_window = below(&random, 3) ? 0 : 1 + below(&random, 300),
            .seed = i,
            .bias = bias,
            .n_bias = below(&random, 2) ? below(&random, 6) : 0,
        };
        for (uint32_t b = 0; b < p.n_bias; b++)
            bias[b] = (rl_logit_bias){ below(&random, n_vocab),
                                       below(&random, 3) ? -4 * uniform(&random) : -INFINITY };
        if (p.n_bias && !below(&random, 4)) bias[0].bias = below(&random, 2) ? 2 : INFINITY;
        uint32_t list_size = below(&random, 3) ? RL_TOP_LOGITS : 1 + below(&random, 127);
        tally t = check_text(&p, n_vocab, below(&random, 6), list_size, 8, &random);
        all.tokens += t.tokens;
        all.by_list += t.by_list;
    }
    printf("%u of %u tokens by the list\n", all.by_list, all.tokens);
    assert_in_range(all.by_list, all.tokens / 5, all.tokens * 4 / 5);
}

/* What people use is never sent to the row, even when the window of penalties is full of the largest.
 * Stands against: a list that is asked for and then not enough, every time. */
static void sampler_top_serves_usual_settings(void **state)
{
    (void)state;
    const rl_logit_bias no_end[] = { { 7, -INFINITY }, { 90, -INFINITY } };
    const rl_sampler_params ways[] = {
        { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f },
        { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .presence_penalty = 1.5f },
        { .temperature = 0.6f,
          .top_k = 20,
          .top_p = 0.95f,
          .min_p = 0.01f,
          .repeat_penalty = 1.1f },
        { .temperature = 0.8f,
          .top_k = 40,
          .repeat_penalty = 1.1f,
          .presence_penalty = 2,
          .bias = no_end,
          .n_bias = 2 },
        { .temperature = 1, .top_k = 60, .min_p = 0.05f, .presence_penalty = 100 },
        { .temperature = 1, .top_k = 100 },
        { .repeat_penalty = 1.3f, .presence_penalty = 100 }, /* the largest, but not again */
        { .bias = no_end, .n_bias = 2 },
    };
    static float logits[MOST];
    uint64_t random = 9;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (uint32_t kind = 0; kind < 6; kind++) {
            rl_sampler *row = create(&ways[w], MOST), *top = create(&ways[w], MOST);
            assert_in_range(rl_sampler_needs(top), 1, RL_TOP_LOGITS);
            fill(logits, MOST, kind, &random);
            rl_top_logits list = list_of(logits, MOST, RL_TOP_LOGITS);
            for (uint32_t i = 0; i < 200; i++) {
                uint32_t got;
                if (i % 9 == 0) /* the whole window */
                    for (uint32_t r = 0; r < 64 && r < list.n; r++) {
                        rl_sampler_accept(row, list.tokens[r]);
                        rl_sampler_accept(top, list.tokens[r]);
                    }
                if (!rl_sampler_sample_top(top, &list, &got))
                    fail_msg("way %zu, logits %u, token %u: the list is not enough", w, kind, i);
                assert_int_equal(got, rl_sampler_sample(row, logits));
            }
            rl_sampler_destroy(row);
            rl_sampler_destroy(top);
        }
}

/* min-p alone: by the list when the last of it falls short, and then drawn by ascending id. */
static void sampler_top_serves_min_p(void **state)
{
    (void)state;
    const rl_sampler_params p = { .temperature = 1, .min_p = 0.05f, .seed = 4 };
    static float logits[MOST];
    for (uint32_t i = 0; i < MOST; i++)
        logits[i] = (float)(i * 7919 % MOST) / 100; /* 300 within ln(20) of the largest */
    rl_top_logits list = list_of(logits, MOST, RL_TOP_LOGITS);
    rl_sampler *s = create(&p, MOST);
    uint32_t token;
    assert_false(rl_sampler_sample_top(s, &list, &token));
    rl_sampler_destroy(s);
    for (uint32_t i = 0; i < MOST; i++)
        logits[i] *= 4; /* 75 */
    rl_sampler *row = create(&p, MOST), *top = create(&p, MOST);
    assert_in_range(rl_sampler_needs(top), 1, RL_TOP_LOGITS);
    list = list_of(logits, MOST, RL_TOP_LOGITS);
    for (uint32_t i = 0; i < 500; i++) {
        assert_true(rl_sampler_sample_top(top, &list, &token));
        assert_int_equal(token, rl_sampler_sample(row, logits));
    }
    rl_sampler_destroy(row);
    rl_sampler_destroy(top);
}

/* Nothing less than all logits will do, and nobody pretends otherwise. */
static void sampler_top_knows_what_needs_all(void **state)
{
    (void)state;
    const rl_logit_bias up = { 2, 0.1f };
    const rl_sampler_params ways[] = {
        { .temperature = 1 },
        { .temperature = 1, .top_p = 0.9f },
        { .temperature = 1, .top_p = 0.9f, .min_p = 0.5f },
        { .temperature = 1, .top_k = MOST, .top_p = 0.9f },
        { .temperature = 1, .top_k = 20, .bias = &up, .n_bias = 1 },
        { .temperature = 1, .top_k = 20, .presence_penalty = -0.1f },
        { .temperature = 1, .top_k = 20, .repeat_penalty = 0.9f },
        { .bias = &up, .n_bias = 1 },
    };
    static float logits[MOST];
    uint64_t random = 2;
    fill(logits, MOST, 0, &random);
    rl_top_logits list = list_of(logits, MOST, RL_TOP_LOGITS), none = { 0 };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        rl_sampler *s = create(&ways[w], MOST);
        uint32_t token = 77;
        assert_int_equal(rl_sampler_needs(s), UINT32_MAX);
        assert_false(rl_sampler_sample_top(s, &list, &token));
        assert_false(rl_sampler_sample_top(s, &none, &token));
        assert_int_equal(token, 77);
        rl_sampler_destroy(s);
    }
}

/* Penalties that push what is here below what may not be here. Every place in the list is tried as
 * the border. Stands against: an unlisted logit that nobody has seen, but that is larger now. */
static void sampler_top_sees_what_falls_below(void **state)
{
    (void)state;
    static float logits[MOST];
    uint32_t refused = 0;
    for (uint32_t i = 0; i < MOST; i++)
        logits[i] = i < 200 ? (float)(200 - i) : -1000;
    for (uint32_t k = 1; k <= RL_TOP_LOGITS; k++)
        for (uint32_t n_struck = 0; n_struck <= 80; n_struck += 8) {
            const rl_sampler_params p = { .temperature = 100,
                                          .top_k = k,
                                          .presence_penalty = 150,
                                          .penalty_window = 80,
                                          .seed = k };
            rl_sampler *row = create(&p, MOST), *top = create(&p, MOST);
            rl_top_logits list = list_of(logits, MOST, RL_TOP_LOGITS);
            for (uint32_t i = 0; i < n_struck; i++) {
                rl_sampler_accept(row, i);
                rl_sampler_accept(top, i);
            }
            uint32_t got, want = rl_sampler_sample(row, logits);
            bool decided = rl_sampler_sample_top(top, &list, &got);
            /* RL_TOP_LOGITS - n_struck stand where they stood; one more shows that k cuts */
            assert_int_equal(decided, k <= RL_TOP_LOGITS - n_struck && k < RL_TOP_LOGITS);
            if (decided) assert_int_equal(got, want);
            refused += !decided;
            rl_sampler_destroy(row);
            rl_sampler_destroy(top);
        }
    assert_true(refused > 100);
}

RL_TEST_MAIN(RL_TEST(sampler, top_is_the_same_text), RL_TEST(sampler, top_serves_usual_settings),
             RL_TEST(sampler, top_serves_min_p), RL_TEST(sampler, top_knows_what_needs_all),
             RL_TEST(sampler, top_sees_what_falls_below))
