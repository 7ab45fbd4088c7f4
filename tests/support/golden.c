/* golden.c - tests/support/golden.h. */
#include "support/golden.h"

#include <math.h>

bool golden_may_be_late;

/* A token that runs again with barriers gives the same numbers: nobody would see that links do not work. */
static void refuse_late(void *context, const char *text)
{
    (void)context;
    if (!golden_may_be_late && strstr(text, "kernels in order")) fail_msg("%s", text);
}

void golden_open(const golden_setup *setup, uint32_t n_ctx, rl_engine **engine,
                 rl_session **session)
{
    rl_error err = { "" };
    rl_engine_params params = { .ops = setup->ops ? setup->ops : rl_backend_find(setup->backend),
                                .speculative = setup->speculative,
                                .isa = setup->isa,
                                .n_threads = setup->n_threads ? setup->n_threads : 2,
                                .n_batch = setup->n_batch,
                                .cache_bytes = setup->cache_bytes,
                                .no_prefetch = setup->no_prefetch,
                                .settle_ahead = setup->settle_ahead,
                                .note = refuse_late };
    assert_ok(rl_engine_open(engine, setup->model, &params, &err));
    rl_session_params session_params = { .n_ctx = n_ctx,
                                         .key_f32 = !setup->kv_f16,
                                         .value_f32 = !setup->kv_f16 };
    assert_ok(rl_session_open(session, *engine, &session_params, &err));
}

static void close_both(rl_engine *engine, rl_session *session)
{
    rl_session_destroy(session);
    rl_engine_close(engine);
}

/* ---- logits ---------------------------------------------------------------------------------- */

static double log_sum_exp(const float *logits, uint32_t n)
{
    double largest = logits[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > largest) largest = logits[i];
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logits[i] - largest);
    return largest + log(sum);
}

static uint32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void compare_position(golden_result *r, const float *got, const float *want, uint32_t n)
{
    double l2 = rl_test_relative_l2(got, want, n), largest = rl_test_max_abs(got, want, n);
    if (!(l2 <= r->worst_l2)) r->worst_l2 = l2;
    if (!(largest <= r->worst_abs)) r->worst_abs = largest;
    double lse_got = log_sum_exp(got, n), lse_want = log_sum_exp(want, n), kl = 0;
    for (uint32_t i = 0; i < n; i++)
        kl += exp(want[i] - lse_want) * ((want[i] - lse_want) - (got[i] - lse_got));
    if (!(kl <= r->max_kl)) r->max_kl = kl;
    r->mean_kl += kl;
    r->same_top1 += argmax(got, n) == argmax(want, n);
    r->positions++;
}

typedef struct collector {
    const int32_t *positions, *tokens;
    uint32_t n_positions, n_tokens, n_vocab, base;
    const float *want;
    golden_result *result;
    double nll;
} collector;

static bool collect(void *context, size_t index, const float *logits)
{
    collector *c = context;
    uint32_t at = c->base + (uint32_t)index;
    for (uint32_t i = 0; i < c->n_positions; i++)
        if ((uint32_t)c->positions[i] == at)
            compare_position(c->result, logits, c->want + (size_t)i * c->n_vocab, c->n_vocab);
    if (at + 1 < c->n_tokens) c->nll += log_sum_exp(logits, c->n_vocab) - logits[c->tokens[at + 1]];
    return true;
}

void golden_sequences(const golden_setup *setup, uint32_t piece, golden_result *out)
{
    static const uint32_t lengths[] = { 1, 5, 63, 64, 65, 200 };
    rl_error err = { "" };
    expect_set set;
    rl_engine *engine;
    rl_session *session;
    expect_open(&set, setup->expect);
    golden_open(setup, 256, &engine, &session);
    *out = (golden_result){ 0 };
    for (size_t s = 0; s < sizeof lengths / sizeof lengths[0]; s++) {
        char name[64];
        collector c = { .n_vocab = engine->net.shape.n_vocab, .result = out };
        snprintf(name, sizeof name, "seq.%u.tokens", lengths[s]);
        c.tokens = expect_i32(&set, name, &c.n_tokens);
        snprintf(name, sizeof name, "seq.%u.positions", lengths[s]);
        c.positions = expect_i32(&set, name, &c.n_positions);
        snprintf(name, sizeof name, "seq.%u.logits", lengths[s]);
        c.want = expect_f32(&set, name);
        assert_ok(rl_session_reset(session, &err));
        while (c.base < c.n_tokens) {
            uint32_t left = c.n_tokens - c.base, now = piece && piece < left ? piece : left;
            assert_ok(rl_session_feed_each(session, (const uint32_t *)c.tokens + c.base, now,
                                           collect, &c, &err));
            c.base += now;
        }
        if (lengths[s] == 200) {
            const float *nll = expect_f32(&set, "seq.200.nll");
            double want = 0;
            for (uint32_t i = 0; i + 1 < c.n_tokens; i++)
                want += nll[i];
            out->nll_difference = (c.nll - want) / (c.n_tokens - 1);
        }
    }
    out->mean_kl /= out->positions;
    printf("%s on %s%s%s: relative L2 %.3g, max abs %.3g, KL mean %.3g max %.3g, top-1 %u of %u, "
           "NLL difference %.3g\n",
           setup->model, setup->backend, setup->isa ? " " : "", setup->isa ? setup->isa : "",
           out->worst_l2, out->worst_abs, out->mean_kl, out->max_kl, out->same_top1, out->positions,
           out->nll_difference);
    close_both(engine, session);
    expect_close(&set);
}

/* ---- layer by layer -------------------------------------------------------------------------- */

typedef struct tracer {
    const expect_set *set;
    double tolerance;
    float *before; /* the residual stream one point earlier */
    float *now, *difference;
} tracer;

static void compare_stage(const tracer *t, const float *got, const char *format, uint32_t layer,
                          const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "trace.l%u.%s", layer, format);
    const expect_array *want = expect_find(t->set, "%s", format[0] == 't' ? format : name);
    if (!want) fail_msg("no stored array %s", name);
    double l2 = rl_test_relative_l2(got, want->data, want->n);
    if (!(l2 <= t->tolerance))
        fail_msg("layer %u, %s: relative L2 %.3g exceeds %.3g", layer, what, l2, t->tolerance);
}

/* The stream grew by `what`; the stored trace has the growth. */
static void compare_growth(tracer *t, rl_engine *e, uint32_t n, const char *array, uint32_t layer,
                           const char *what)
{
    rl_error err = { "" };
    size_t values = (size_t)n * e->net.shape.n_embd;
    assert_ok(e->ops->read_tap(e->be, RL_TAP_HIDDEN, t->now, &err));
    for (size_t i = 0; i < values; i++)
        t->difference[i] = t->now[i] - t->before[i];
    /* The growth may be much smaller than the stream it is a difference of: f32 rounding of the
     * stream sets the floor. */
    tracer loose = *t;
    loose.tolerance = t->tolerance + 1e-5;
    compare_stage(&loose, t->difference, array, layer, what);
    memcpy(t->before, t->now, values * sizeof *t->now);
}

static rl_status trace_point(void *context, rl_engine *e, rl_forward_point point, uint32_t layer,
                             uint32_t n, rl_error *caller)
{
    rl_error err = { "" };
    (void)caller;
    tracer *t = context;
    uint32_t k = e->net.shape.n_expert_used;
    switch (point) {
    case RL_AFTER_EMBED:
        assert_ok(e->ops->read_tap(e->be, RL_TAP_HIDDEN, t->before, &err));
        compare_stage(t, t->before, "trace.embd", 0, "embedding");
        break;
    case RL_AFTER_MIXER: compare_growth(t, e, n, "mix", layer, "mixer output"); break;
    case RL_AFTER_ROUTER:
        assert_ok(e->ops->read_tap(e->be, RL_TAP_ROUTER, t->now, &err));
        compare_stage(t, t->now, "router", layer, "router logits");
        break;
    case RL_AFTER_ROUTE: {
        const expect_array *experts = expect_find(t->set, "trace.l%u.experts", layer);
        for (uint32_t i = 0; i < n * k; i++)
            if ((uint32_t)((const int32_t *)experts->data)[i] != e->ids[i])
                fail_msg("layer %u, choice of experts: token %u rank %u chose %u, not %d", layer,
                         i / k, i % k, e->ids[i], ((const int32_t *)experts->data)[i]);
        assert_ok(e->ops->read_tap(e->be, RL_TAP_ROUTE_WEIGHTS, t->now, &err));
        compare_stage(t, t->now, "weights", layer, "expert weights");
        break;
    }
    case RL_AFTER_MOE:
        compare_growth(t, e, n, "moe", layer, "expert output");
        compare_stage(t, t->now, "out", layer, "layer output");
        break;
    case RL_AFTER_HEAD:
        assert_ok(e->ops->read_tap(e->be, RL_TAP_FINAL_NORM, t->now, &err));
        compare_stage(t, t->now, "trace.result_norm", 0, "final norm");
        break;
    }
    return RL_OK;
}

static bool go_on(void *context, size_t index, const float *logits)
{
    (void)context, (void)index, (void)logits;
    return true;
}

void golden_trace(const golden_setup *setup, double tolerance)
{
    rl_error err = { "" };
    expect_set set;
    rl_engine *engine;
    rl_session *session;
    uint32_t n;
    expect_open(&set, setup->expect);
    golden_open(setup, 256, &engine, &session);
    const int32_t *tokens = expect_i32(&set, "trace.tokens", &n);
    const rl_shape *s = &engine->net.shape;
    size_t room = (size_t)n * (s->n_embd + s->n_expert) * sizeof(float);
    tracer t = { .set = &set, .tolerance = tolerance };
    t.before = malloc(room);
    t.now = malloc(room);
    t.difference = malloc(room);
    rl_forward_hooks hooks = { .context = &t, .observe = trace_point };
    assert_ok(
        rl_session_feed_hooked(session, (const uint32_t *)tokens, n, go_on, NULL, &hooks, &err));
    for (uint32_t layer = 0; layer < s->n_layer; layer++) {
        static const char *const names[] = { "conv_state", "state" };
        static const rl_state_part parts[] = { RL_STATE_CONV, RL_STATE_DELTA };
        for (uint32_t p = 0; p < 2; p++) {
            const expect_array *want = expect_find(&set, "trace.l%u.%s", layer, names[p]);
            if (!want) continue;
            float *got = malloc(want->n * sizeof *got);
            assert_ok(
                engine->ops->state_read(engine->be, session->state, layer, parts[p], 0, got, &err));
            double l2 = rl_test_relative_l2(got, want->data, want->n);
            if (!(l2 <= tolerance + 1e-6))
                fail_msg("layer %u, %s: relative L2 %.3g", layer, names[p], l2);
            free(got);
        }
    }
    free(t.before);
    free(t.now);
    free(t.difference);
    close_both(engine, session);
    expect_close(&set);
}

/* ---- greedy ---------------------------------------------------------------------------------- */

uint32_t golden_greedy(const golden_setup *setup, double gap)
{
    rl_error err = { "" };
    expect_set set;
    rl_engine *engine;
    rl_session *session;
    uint32_t compared = 0;
    expect_open(&set, setup->expect);
    golden_open(setup, 256, &engine, &session);
    for (uint32_t g = 0; g < 2; g++) {
        char name[64];
        uint32_t n_prompt, n_tokens, n_vocab = engine->net.shape.n_vocab;
        snprintf(name, sizeof name, "greedy.%u.prompt", g);
        const int32_t *prompt = expect_i32(&set, name, &n_prompt);
        snprintf(name, sizeof name, "greedy.%u.tokens", g);
        const int32_t *tokens = expect_i32(&set, name, &n_tokens);
        snprintf(name, sizeof name, "greedy.%u.gap", g);
        const float *gaps = expect_f32(&set, name);
        assert_ok(rl_session_reset(session, &err));
        assert_ok(rl_session_feed(session, (const uint32_t *)prompt, n_prompt, &err));
        for (uint32_t i = 0; i < n_tokens && gaps[i] >= gap; i++) {
            uint32_t token = argmax(rl_session_logits(session), n_vocab);
            if (token != (uint32_t)tokens[i])
                fail_msg("greedy %u: token %u is %u, not %d (stored gap %.3g)", g, i, token,
                         tokens[i], gaps[i]);
            assert_ok(rl_session_feed(session, &token, 1, &err));
            compared++;
        }
    }
    close_both(engine, session);
    expect_close(&set);
    return compared;
}
