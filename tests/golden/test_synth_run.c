/* test_synth_run.c - synthetic models behave like models: they are run, not only written. */
#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "engine/session.h"
#include "model/synth.h"
#include "quant/quant.h"

typedef struct watch {
    rl_engine *engine;
    uint32_t *uses; /* [layer][expert] */
    double least_rms, most_rms;
    double logit_squares, logit_count, largest_logit;
} watch;

static void watch_hidden(watch *w, uint32_t n)
{
    rl_error err = { "" };
    uint32_t width = w->engine->config.n_embd;
    float *x = malloc((size_t)n * width * sizeof *x);
    assert_non_null(x);
    assert_ok(w->engine->ops->read_tap(w->engine->be, RL_TAP_HIDDEN, x, &err));
    for (uint32_t t = 0; t < n; t++) {
        double squares = 0;
        for (uint32_t i = 0; i < width; i++)
            squares += (double)x[t * width + i] * x[t * width + i];
        double rms = sqrt(squares / width);
        assert_true(isfinite(rms));
        if (rms < w->least_rms) w->least_rms = rms;
        if (rms > w->most_rms) w->most_rms = rms;
    }
    free(x);
}

static rl_status observe(void *context, rl_engine *engine, rl_forward_point point, uint32_t layer,
                         uint32_t n, rl_error *err)
{
    watch *w = context;
    (void)err;
    w->engine = engine;
    if (point == RL_AFTER_MIXER || point == RL_AFTER_MOE) {
        watch_hidden(w, n);
    } else if (point == RL_AFTER_ROUTE) {
        uint32_t k = engine->config.n_expert_used;
        for (uint32_t i = 0; i < n * k; i++)
            w->uses[layer * engine->config.n_expert + engine->ids[i]]++;
    }
    return RL_OK;
}

static bool watch_logits(void *context, size_t index, const float *logits)
{
    watch *w = context;
    (void)index;
    for (uint32_t i = 0; i < w->engine->config.n_vocab; i++) {
        w->logit_squares += (double)logits[i] * logits[i];
        w->logit_count++;
        if (fabsf(logits[i]) > w->largest_logit) w->largest_logit = fabsf(logits[i]);
    }
    return true;
}

/* Runs n random tokens; the least share of a layer's experts that was used at all. */
static double run(const rl_synth_params *params, uint32_t n, watch *w)
{
    rl_error err = { "" };
    rl_engine *engine = NULL;
    rl_session *session = NULL;
    const char *path = rl_test_scratch("synth_run_%s_%u.gguf", params->mix, n);
    assert_ok(rl_synth_write(params, path, &err));
    rl_engine_params ep = { .ops = rl_backend_find("oracle"), .n_threads = 2 };
    assert_ok(rl_engine_open(&engine, path, &ep, &err));
    rl_session_params sp = { .n_ctx = n, .key_f32 = true, .value_f32 = true };
    assert_ok(rl_session_open(&session, engine, &sp, &err));
    *w = (watch){ .least_rms = 1e30,
                  .uses = calloc((size_t)params->n_layer * params->n_expert, sizeof *w->uses) };
    uint32_t *tokens = calloc(n, sizeof *tokens);
    assert_true(tokens && w->uses);
    uint64_t seed = 99;
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)(rl_test_random(&seed) % params->n_vocab);
    rl_forward_hooks hooks = { .context = w, .observe = observe };
    assert_ok(rl_session_feed_hooked(session, tokens, n, watch_logits, w, &hooks, &err));
    double least = 1;
    for (uint32_t l = 0; l < params->n_layer; l++) {
        uint32_t used = 0;
        for (uint32_t e = 0; e < params->n_expert; e++)
            used += w->uses[l * params->n_expert + e] > 0;
        if ((double)used / params->n_expert < least) least = (double)used / params->n_expert;
    }
    free(tokens);
    free(w->uses);
    rl_session_destroy(session);
    rl_engine_close(engine);
    remove(path);
    return least;
}

static void expect_health(const char *what, const watch *w)
{
    double logit = sqrt(w->logit_squares / w->logit_count);
    if (w->least_rms < 1e-2 || w->most_rms > 1e3 || logit < 0.5 || logit > 10 ||
        w->largest_logit > 200)
        fail_msg("%s: hidden states %g to %g, logits %g, up to %g", what, w->least_rms, w->most_rms,
                 logit, w->largest_logit);
}

/* Many layers and experts: the residual stream must not explode, nor all tokens take one way.
 * Stands against: deep layers that see the same vector for every token. */
static void synth_spreads_over_experts(void **state)
{
    (void)state;
    rl_synth_params params;
    watch w;
    assert_true(rl_synth_preset("tiny", &params));
#ifdef RL_TEST_INSTRUMENTED
    params.n_layer = 4; /* the depth is for the plain build */
#else
    params.n_layer = 16;
#endif
    params.n_expert = 64;
    params.n_expert_used = 5;
    double least = run(&params, 512, &w);
    if (least < 0.9) fail_msg("a layer uses only %.0f %% of its experts", 100 * least);
    expect_health("many layers", &w);
}

/* One model of each type, and a tied one. */
static void synth_runs_in_every_type(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < rl_quant_count(); i++) {
        rl_synth_params params;
        watch w;
        if (rl_quant_at(i)->type == RL_QUANT_Q8_K) continue;
        assert_true(rl_synth_preset("tiny", &params));
        params.mix = rl_quant_at(i)->name;
        params.tied = i % 2;
        params.seed = i;
        run(&params, 24, &w);
        expect_health(params.mix, &w);
    }
}

RL_TEST_MAIN(RL_TEST(synth, spreads_over_experts), RL_TEST(synth, runs_in_every_type))
