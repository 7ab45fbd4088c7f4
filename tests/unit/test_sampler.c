/* test_sampler.c - every step of sampling by itself, their order, and the promise that the same
 * seed gives the same tokens on every machine. */
#include "support/test.h"

#include "engine/sampler.h"

#include <math.h>

enum { VOCAB = 8 };

static rl_sampler *create(rl_sampler_params params, uint32_t n_vocab)
{
    rl_error err;
    rl_sampler *s = NULL;
    assert_ok(rl_sampler_create(&s, &params, n_vocab, &err));
    return s;
}

/* Draws n times from the same logits without history (no penalties on), counting tokens. */
static void draw_many(rl_sampler_params params, const float *logits, uint32_t n_vocab, uint32_t n,
                      uint32_t *counts)
{
    rl_sampler *s = create(params, n_vocab);
    memset(counts, 0, n_vocab * sizeof *counts);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token = rl_sampler_sample(s, logits);
        assert_true(token < n_vocab);
        counts[token]++;
    }
    rl_sampler_destroy(s);
}

/* Counts must agree with softmax(logits / temperature) over the tokens of `allowed`, by a
 * chi-square test; 40 is far beyond what 7 degrees of freedom yield by chance. */
static void expect_softmax(const uint32_t *counts, uint32_t n, const float *logits,
                           double temperature, const bool *allowed)
{
    double total = 0, chi = 0;
    for (int i = 0; i < VOCAB; i++)
        if (allowed[i]) total += exp(logits[i] / temperature);
    for (int i = 0; i < VOCAB; i++) {
        if (!allowed[i]) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        double expected = n * exp(logits[i] / temperature) / total;
        double d = counts[i] - expected;
        chi += d * d / expected;
    }
    if (chi > 40) fail_msg("chi-square %.1f", chi);
}

static const float sample_logits[VOCAB] = { 0.5f, 2.0f, -1.0f, 1.5f, 0.0f, 1.0f, -0.5f, 2.5f };
static const bool all[VOCAB] = { true, true, true, true, true, true, true, true };

static void sampler_exp_is_exact_enough(void **state)
{
    (void)state;
    for (double x = 0; x > -700; x -= 0.00917) {
        double want = exp(x), got = rl_sampler_exp(x);
        if (fabs(got - want) > 1e-13 * want) fail_msg("exp(%g) is %.17g, not %.17g", x, got, want);
    }
    assert_true(rl_sampler_exp(0) == 1);
    assert_true(rl_sampler_exp(-800) == 0);
    assert_true(rl_sampler_exp(-INFINITY) == 0);
    assert_true(isnan(rl_sampler_exp(NAN)));
}

/* Fixed draws, computed by a program of its own: stands against a silent change of the stream,
 * which would change every seeded text. */
static void sampler_random_stream_is_fixed(void **state)
{
    (void)state;
    double sum = 0;
    for (uint64_t i = 0; i < 100000; i++)
        sum += (double)(rl_sampler_random(7, i) >> 11) * 0x1p-53;
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
    assert_true(rl_sampler_random(1, 0) != rl_sampler_random(2, 0));
    /* Neighbouring seeds must not be one stream shifted by one. */
    assert_true(rl_sampler_random(1, 1) != rl_sampler_random(2, 0));
    assert_true(rl_sampler_random(0, 0) == 0xa706dd2f4d197e6f);
    assert_true(rl_sampler_random(42, 3) == 0x113e5dec6f8fd8a8);
    assert_true(rl_sampler_random(UINT64_MAX, UINT64_MAX) == 0x445018e305810b78);
}

static void sampler_greedy_takes_the_lower_id_of_equals(void **state)
{
    (void)state;
    float logits[VOCAB] = { 0, 3, 1, 3, 3, 2, -1, 0 };
    rl_sampler *s = create((rl_sampler_params){ .seed = 9 }, VOCAB);
    assert_true(rl_sampler_is_plain_greedy(s));
    for (int i = 0; i < 10; i++)
        assert_int_equal(rl_sampler_sample(s, logits), 1);
    rl_sampler_destroy(s);
}

static void sampler_temperature_follows_softmax(void **state)
{
    (void)state;
    uint32_t counts[VOCAB];
    const float temperatures[] = { 0.3f, 1.0f, 2.5f };
    for (size_t i = 0; i < 3; i++) {
        draw_many((rl_sampler_params){ .temperature = temperatures[i], .seed = 5 }, sample_logits,
                  VOCAB, 200000, counts);
        expect_softmax(counts, 200000, sample_logits, temperatures[i], all);
    }
}

static void sampler_tiny_temperature_is_greedy(void **state)
{
    (void)state;
    uint32_t counts[VOCAB];
    draw_many((rl_sampler_params){ .temperature = 1e-38f }, sample_logits, VOCAB, 1000, counts);
    assert_int_equal(counts[7], 1000);
}

static void sampler_top_k_keeps_k(void **state)
{
    (void)state;
    uint32_t counts[VOCAB];
    const uint32_t order[VOCAB] = { 7, 1, 3, 5, 0, 4, 6, 2 };
    for (uint32_t k = 1; k <= VOCAB; k++) {
        bool allowed[VOCAB] = { false };
        for (uint32_t i = 0; i < k; i++)
            allowed[order[i]] = true;
        draw_many((rl_sampler_params){ .temperature = 1, .top_k = k, .seed = k }, sample_logits,
                  VOCAB, 50000, counts);
        expect_softmax(counts, 50000, sample_logits, 1, allowed);
    }
}

/* Of equal logits at the border top-k keeps the lower ids. */
static void sampler_top_k_breaks_ties_by_id(void **state)
{
    (void)state;
    float logits[VOCAB] = { 1, 2, 1, 1, 2, 1, 1, 0 };
    uint32_t counts[VOCAB];
    draw_many((rl_sampler_params){ .temperature = 1, .top_k = 4 }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 1, (bool[VOCAB]){ 1, 1, 1, 0, 1, 0, 0, 0 });
}

static void sampler_top_p_keeps_the_smallest_set(void **state)
{
    (void)state;
    /* Probabilities 0.5, 0.25, 0.125, 0.125 of tokens 4, 2, 1 and 3. */
    const float ln2 = 0.693147180559945f;
    float logits[VOCAB] = {
        -INFINITY, -2 * ln2, -ln2, -2 * ln2, 0, -INFINITY, -INFINITY, -INFINITY
    };
    uint32_t counts[VOCAB];
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 0.4f }, logits, VOCAB, 2000, counts);
    assert_int_equal(counts[4], 2000);
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 0.7f }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 1, (bool[VOCAB]){ 0, 0, 1, 0, 1, 0, 0, 0 });
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 0.8f }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 1, (bool[VOCAB]){ 0, 1, 1, 0, 1, 0, 0, 0 });
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 1 }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 1, (bool[VOCAB]){ 0, 1, 1, 1, 1, 0, 0, 0 });
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 1e-6f }, logits, VOCAB, 500, counts);
    assert_int_equal(counts[4], 500);
}

/* top-p counts the probabilities of what top-k left: of 0.5, 0.25 they are 2/3 and 1/3. */
static void sampler_top_p_follows_top_k(void **state)
{
    (void)state;
    const float ln2 = 0.693147180559945f;
    float logits[4] = { 0, -ln2, -2 * ln2, -2 * ln2 };
    uint32_t counts[4];
    draw_many((rl_sampler_params){ .temperature = 1, .top_p = 0.6f }, logits, 4, 2000, counts);
    assert_true(counts[1] > 0);
    draw_many((rl_sampler_params){ .temperature = 1, .top_k = 2, .top_p = 0.6f }, logits, 4, 2000,
              counts);
    assert_int_equal(counts[0], 2000);
}

static void sampler_min_p_is_relative_to_the_largest(void **state)
{
    (void)state;
    const float ln2 = 0.693147180559945f;
    float logits[VOCAB] = { 1 - 3 * ln2, 1, 1 - 2 * ln2, 1 - ln2, -9, -9, -9, -9 };
    uint32_t counts[VOCAB];
    draw_many((rl_sampler_params){ .temperature = 1, .min_p = 0.2f }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 1, (bool[VOCAB]){ 0, 1, 1, 1, 0, 0, 0, 0 });
    /* Temperature comes first: at 2 the shares are the square roots. */
    draw_many((rl_sampler_params){ .temperature = 2, .min_p = 0.3f }, logits, VOCAB, 20000, counts);
    expect_softmax(counts, 20000, logits, 2, (bool[VOCAB]){ 1, 1, 1, 1, 0, 0, 0, 0 });
    draw_many((rl_sampler_params){ .temperature = 1, .min_p = 1 }, logits, VOCAB, 500, counts);
    assert_int_equal(counts[1], 500);
}

static void sampler_repeat_penalty_divides_or_multiplies(void **state)
{
    (void)state;
    float positive[3] = { 4.0f, 2.5f, 1.0f }, negative[3] = { -1.0f, -1.5f, -9.0f };
    rl_sampler *s = create((rl_sampler_params){ .repeat_penalty = 2 }, 3);
    assert_false(rl_sampler_is_plain_greedy(s));
    assert_int_equal(rl_sampler_sample(s, positive), 0); /* 4.0 */
    assert_int_equal(rl_sampler_sample(s, positive), 1); /* 2.0 against 2.5 */
    assert_int_equal(rl_sampler_sample(s, positive), 0); /* 2.0 against 1.25 */
    rl_sampler_destroy(s);
    s = create((rl_sampler_params){ .repeat_penalty = 2 }, 3);
    assert_int_equal(rl_sampler_sample(s, negative), 0);
    assert_int_equal(rl_sampler_sample(s, negative), 1); /* -2 against -1.5 */
    rl_sampler_destroy(s);
}

/* Subtracted once, however often the token stands in the window. */
static void sampler_presence_penalty_counts_once(void **state)
{
    (void)state;
    float logits[2] = { 2, 0.5f };
    rl_sampler *s = create((rl_sampler_params){ .presence_penalty = 1 }, 2);
    for (int i = 0; i < 5; i++)
        rl_sampler_accept(s, 0);
    assert_int_equal(rl_sampler_sample(s, logits), 0);
    rl_sampler_destroy(s);
}

static void sampler_penalties_forget_what_left_the_window(void **state)
{
    (void)state;
    float logits[4] = { 2, 1.5f, 0, 0 };
    rl_sampler *s = create((rl_sampler_params){ .presence_penalty = 1, .penalty_window = 3 }, 4);
    rl_sampler_accept(s, 0);
    rl_sampler_accept(s, 2);
    rl_sampler_accept(s, 3);
    assert_int_equal(rl_sampler_sample(s, logits), 1); /* window 0 2 3 */
    assert_int_equal(rl_sampler_sample(s, logits), 0); /* window 2 3 1 */
    rl_sampler_destroy(s);
}

static void sampler_default_window_is_64(void **state)
{
    (void)state;
    float logits[3] = { 2, 1.5f, 0 };
    for (int n = 63; n <= 64; n++) {
        rl_sampler *s = create((rl_sampler_params){ .presence_penalty = 1 }, 3);
        rl_sampler_accept(s, 0);
        for (int i = 0; i < n; i++)
            rl_sampler_accept(s, 2);
        assert_int_equal(rl_sampler_sample(s, logits), n == 63 ? 1 : 0);
        rl_sampler_destroy(s);
    }
}

static void sampler_bias_adds_and_forbids(void **state)
{
    (void)state;
    float logits[VOCAB];
    memcpy(logits, sample_logits, sizeof logits);
    rl_logit_bias bias[] = { { 7, -INFINITY }, { 2, 10 } };
    rl_sampler *s = create((rl_sampler_params){ .bias = bias, .n_bias = 2 }, VOCAB);
    bias[0].token = 1; /* the list was copied */
    assert_false(rl_sampler_is_plain_greedy(s));
    assert_int_equal(rl_sampler_sample(s, logits), 2);
    rl_sampler_destroy(s);

    uint32_t counts[VOCAB];
    rl_logit_bias forbid = { 7, -INFINITY };
    draw_many((rl_sampler_params){ .temperature = 1, .bias = &forbid, .n_bias = 1 }, sample_logits,
              VOCAB, 20000, counts);
    expect_softmax(counts, 20000, sample_logits, 1, (bool[VOCAB]){ 1, 1, 1, 1, 1, 1, 1, 0 });
}

/* Logits that are no numbers must neither be chosen nor spoil the others. */
static void sampler_survives_nan_and_infinity(void **state)
{
    (void)state;
    uint32_t counts[VOCAB];
    float odd[VOCAB] = { NAN, 1, -INFINITY, NAN, 2, -NAN, 1, 0 };
    const rl_sampler_params ways[] = {
        { .temperature = 0 },
        { .temperature = 1 },
        { .temperature = 1, .top_k = 7 },
        { .temperature = 1, .top_k = 2 },
        { .temperature = 1, .top_p = 0.999f },
        { .temperature = 1, .min_p = 0.01f, .repeat_penalty = 1.5f, .presence_penalty = 0.5f },
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        draw_many(ways[i], odd, VOCAB, 3000, counts);
        assert_int_equal(counts[0] + counts[2] + counts[3] + counts[5], 0);
        float endless[VOCAB] = { 1, INFINITY, 5, NAN, -3, 900, -INFINITY, 0 };
        draw_many(ways[i], endless, VOCAB, 300, counts);
        assert_int_equal(counts[1], 300);
        float nothing[VOCAB] = { NAN, NAN, -INFINITY, NAN, NAN, NAN, NAN, NAN };
        draw_many(ways[i], nothing, VOCAB, 10, counts);
        assert_int_equal(counts[0], 10);
    }
}

/* Against a plain program: sort everything, walk. Large vocabularies with many equal logits. */
typedef struct reference {
    double logit, weight;
    uint32_t token;
} reference;

static int by_order(const void *pa, const void *pb)
{
    const reference *a = pa, *b = pb;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

static uint32_t reference_sample(const float *logits, uint32_t n, const rl_sampler_params *p,
                                 uint64_t draw)
{
    reference *c = malloc(n * sizeof *c);
    assert_non_null(c);
    double top = -INFINITY, total = 0;
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > top) top = logits[i];
    for (uint32_t i = 0; i < n; i++)
        c[i] = (reference){ logits[i], rl_sampler_exp((logits[i] - top) / p->temperature), i };
    if ((p->top_k && p->top_k < n) || p->top_p > 0) {
        if (!(p->top_k && p->top_k < n))
            for (uint32_t i = 0; i < n; i++)
                total += c[i].weight;
        qsort(c, n, sizeof *c, by_order);
        if (p->top_k && p->top_k < n) {
            n = p->top_k;
            for (uint32_t i = 0; i < n; i++)
                total += c[i].weight;
        }
        double sum = 0;
        for (uint32_t i = 0; p->top_p > 0 && i < n; i++) {
            sum += c[i].weight;
            if (sum >= p->top_p * total) n = i + 1;
        }
    }
    double left = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        left += c[i].weight;
    double mark = (double)(rl_sampler_random(p->seed, draw) >> 11) * 0x1p-53 * left;
    uint32_t token = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += c[i].weight;
        token = c[i].token;
        if (sum > mark) break;
    }
    free(c);
    return token;
}

static void sampler_agrees_with_a_plain_program(void **state)
{
    (void)state;
    uint64_t random = 11;
    const uint32_t sizes[] = { 1, 2, 3, 17, 1000, 20011 };
    const rl_sampler_params ways[] = {
        { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .seed = 3 },
        { .temperature = 1.5f, .top_p = 0.95f, .seed = 4 },
        { .temperature = 1, .top_k = 1, .seed = 5 },
        { .temperature = 3, .top_k = 999, .seed = 6 },
        { .temperature = 1, .seed = 7 },
    };
    for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++) {
        float *logits = malloc(sizes[z] * sizeof *logits);
        assert_non_null(logits);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            rl_sampler *s = create(ways[w], sizes[z]);
            for (uint32_t i = 0; i < 20; i++) {
                for (uint32_t v = 0; v < sizes[z]; v++) /* steps of 1/4: many are equal */
                    logits[v] = floorf(rl_test_random_normal(&random) * 8) / 4;
                uint32_t want = reference_sample(logits, sizes[z], &ways[w], i);
                assert_int_equal(rl_sampler_sample(s, logits), want);
            }
            rl_sampler_destroy(s);
        }
        free(logits);
    }
}

/* Fixed vectors: what these seeds give must never change, on any machine. */
static void sampler_seeded_text_is_fixed(void **state)
{
    (void)state;
    const rl_sampler_params ways[] = {
        { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .seed = 1 },
        { .temperature = 1.0f, .min_p = 0.05f, .repeat_penalty = 1.1f, .seed = 2 },
        { .temperature = 1.3f, .presence_penalty = 0.5f, .seed = 3 },
    };
    static const uint32_t want[3][12] = {
        { 13, 21, 57, 25, 44, 0, 47, 62, 41, 26, 47, 43 },
        { 13, 6, 57, 41, 53, 53, 1, 14, 58, 26, 8, 32 },
        { 34, 40, 48, 52, 47, 36, 62, 60, 27, 42, 9, 18 },
    };
    for (size_t w = 0; w < 3; w++) {
        rl_sampler *s = create(ways[w], 64);
        uint64_t random = 77;
        for (size_t i = 0; i < 12; i++) {
            float logits[64]; /* made of integers, so that no library function can differ */
            for (int v = 0; v < 64; v++)
                logits[v] = (float)(int)(rl_test_random(&random) % 4096) / 512.0f - 2.0f;
            assert_int_equal(rl_sampler_sample(s, logits), want[w][i]);
        }
        rl_sampler_destroy(s);
    }
}

static void sampler_refuses_nonsense(void **state)
{
    (void)state;
    rl_logit_bias outside = { VOCAB, 1 }, not_a_number = { 1, NAN };
    const struct {
        rl_sampler_params params;
        const char *about;
    } cases[] = {
        { { .temperature = -1 }, "temperature" },
        { { .temperature = NAN }, "temperature" },
        { { .temperature = INFINITY }, "temperature" },
        { { .top_p = 1.5f }, "top-p" },
        { { .top_p = -0.1f }, "top-p" },
        { { .top_p = NAN }, "top-p" },
        { { .min_p = 2 }, "min-p" },
        { { .repeat_penalty = -1 }, "repeat penalty" },
        { { .presence_penalty = NAN }, "presence penalty" },
        { { .bias = &outside, .n_bias = 1 }, "logit bias for token 8" },
        { { .bias = &not_a_number, .n_bias = 1 }, "logit bias of token 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_error err = { "" };
        rl_sampler *s = (rl_sampler *)&err;
        assert_int_equal(rl_sampler_create(&s, &cases[i].params, VOCAB, &err), RL_INVALID);
        assert_null(s);
        if (!strstr(err.text, cases[i].about)) fail_msg("%s", err.text);
    }
}

RL_TEST_MAIN(RL_TEST(sampler, exp_is_exact_enough), RL_TEST(sampler, random_stream_is_fixed),
             RL_TEST(sampler, greedy_takes_the_lower_id_of_equals),
             RL_TEST(sampler, temperature_follows_softmax),
             RL_TEST(sampler, tiny_temperature_is_greedy), RL_TEST(sampler, top_k_keeps_k),
             RL_TEST(sampler, top_k_breaks_ties_by_id),
             RL_TEST(sampler, top_p_keeps_the_smallest_set), RL_TEST(sampler, top_p_follows_top_k),
             RL_TEST(sampler, min_p_is_relative_to_the_largest),
             RL_TEST(sampler, repeat_penalty_divides_or_multiplies),
             RL_TEST(sampler, presence_penalty_counts_once),
             RL_TEST(sampler, penalties_forget_what_left_the_window),
             RL_TEST(sampler, default_window_is_64), RL_TEST(sampler, bias_adds_and_forbids),
             RL_TEST(sampler, survives_nan_and_infinity),
             RL_TEST(sampler, agrees_with_a_plain_program), RL_TEST(sampler, seeded_text_is_fixed),
             RL_TEST(sampler, refuses_nonsense))
