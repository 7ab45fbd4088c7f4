/* decode.c - the ways to decode a token.
 *
 * Which way (auto): when every expert has a slot, a token can miss only until all are loaded, and
 * RESUME is best from the first token on. Otherwise decode_policy.h compares the ways by wall time:
 * reading is part of it, because the ways overlap it differently. (Wall time less the time spent
 * waiting for reads preferred gated tokens that were 18 % slower.) */
#include "engine/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/experts.h"

struct rl_decoder {
    rl_engine *engine;
    rl_speculative mode;
    rl_decode_policy policy; /* asked when mode is auto and experts can be missing */
    rl_decode_counts counts;
    uint32_t *choices;  /* [n_layer][K] of the token under way */
    uint32_t n_touched; /* layers whose experts have their place in the LRU order */
};

bool rl_speculative_parse(const char *text, rl_speculative *out)
{
    static const struct {
        const char *word;
        rl_speculative mode;
    } words[] = { { "auto", RL_SPECULATIVE_AUTO },
                  { "0", RL_SPECULATIVE_OFF },
                  { "restart", RL_SPECULATIVE_RESTART },
                  { "resume", RL_SPECULATIVE_RESUME },
                  { "gated", RL_SPECULATIVE_GATED } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(text, words[i].word)) {
            *out = words[i].mode;
            return true;
        }
    return false;
}

rl_status rl_decoder_create(rl_decoder **out, rl_engine *engine, rl_speculative mode, rl_error *err)
{
    const rl_routed_ops *routed = engine->ops->routed;
    const rl_shape *s = &engine->net.shape;
    *out = NULL;
    if ((mode == RL_SPECULATIVE_RESTART || mode == RL_SPECULATIVE_RESUME) && !routed)
        return rl_fail(err, RL_UNSUPPORTED,
                       "RL_ENGINE_SPECULATIVE: the %s backend has no routed step",
                       engine->ops->name);
    if (mode == RL_SPECULATIVE_GATED && !(routed && routed->submit_gated))
        return rl_fail(err, RL_UNSUPPORTED,
                       "RL_ENGINE_SPECULATIVE: the %s backend has no gated step on this device",
                       engine->ops->name);
    rl_decoder *d = calloc(1, sizeof *d);
    if (d) d->choices = calloc((size_t)s->n_layer * s->n_expert_used, sizeof *d->choices);
    if (!d || !d->choices) {
        rl_decoder_destroy(d);
        return rl_fail(err, RL_NOMEM, "no memory for the decoder");
    }
    d->engine = engine;
    d->mode = mode;
    const bool available[RL_N_PATHS] = { [RL_PATH_SYNC] = true,
                                         [RL_PATH_RESTART] = routed != NULL,
                                         [RL_PATH_RESUME] = routed != NULL,
                                         [RL_PATH_GATED] = routed && routed->submit_gated };
    rl_decode_policy_init(&d->policy, available, s->n_layer);
    *out = d;
    return RL_OK;
}

void rl_decoder_destroy(rl_decoder *d)
{
    if (!d) return;
    free(d->choices);
    free(d);
}

rl_decode_counts rl_decoder_counts(const rl_decoder *d)
{
    return d->counts;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static rl_decode_path choose(const rl_decoder *d)
{
    switch (d->mode) {
    case RL_SPECULATIVE_OFF: return RL_PATH_SYNC;
    case RL_SPECULATIVE_RESTART: return RL_PATH_RESTART;
    case RL_SPECULATIVE_RESUME: return RL_PATH_RESUME;
    case RL_SPECULATIVE_GATED: return RL_PATH_GATED;
    case RL_SPECULATIVE_AUTO: break;
    }
    if (!d->engine->ops->routed) return RL_PATH_SYNC;
    if (rl_experts_plan(d->engine->experts)->full) return RL_PATH_RESUME;
    return rl_decode_policy_choose(&d->policy);
}

static void learn(rl_decoder *d, rl_decode_path path, uint64_t ns)
{
    const rl_experts *experts = d->engine->experts;
    if (d->mode != RL_SPECULATIVE_AUTO || rl_experts_plan(experts)->full) return;
    rl_decode_policy_learn(&d->policy, path, ns, rl_experts_layers_read(experts));
}

/* ---- the ways -------------------------------------------------------------------------------- */

/* Gives the experts of the layers before `layer` the place in the LRU order that the synchronous
 * step would have given them by now. */
static void touch_until(rl_decoder *d, uint32_t layer)
{
    rl_engine *e = d->engine;
    uint32_t k = e->net.shape.n_expert_used;
    e->ops->routed->read_choices(e->be, d->choices);
    for (; d->n_touched < layer; d->n_touched++)
        rl_experts_touch(e->experts, d->n_touched, d->choices + (size_t)d->n_touched * k);
}

static rl_status finish(rl_decoder *d, const rl_forward *f, rl_error *err)
{
    rl_engine *e = d->engine;
    if (d->n_touched < e->net.shape.n_layer) {
        e->ops->routed->read_choices(e->be, d->choices);
        rl_experts_touch_later(e->experts, d->n_touched, d->choices);
    }
    if (f->first_logits >= f->batch.n) return RL_OK;
    uint32_t best;
    if (f->left) return rl_forward_leave(e, f, err);
    rl_status status = e->ops->routed->read_logits(e->be, e->logit_rows, &best, err);
    if (!status && !f->each(f->context, 0, e->logit_rows))
        status = rl_fail(err, RL_INTERRUPTED, "stopped by the caller");
    return status;
}

/* RESUME, and RESTART until its first miss: then *missed says so and the token is to be forgotten. */
static rl_status run_routed(rl_decoder *d, const rl_forward *f, bool restart, bool *missed,
                            rl_error *err)
{
    rl_engine *e = d->engine;
    const rl_routed_ops *routed = e->ops->routed;
    rl_routed_outcome outcome;
    uint64_t resumes = 0;
    rl_status status = routed->submit(e->be, &f->batch, err);
    rl_experts_settle(e->experts); /* what the token before has used; the device is busy now */
    while (!status) {
        status = routed->wait(e->be, &outcome, err);
        if (status || outcome.complete) break;
        if (restart) {
            *missed = true;
            d->counts.restarted++;
            return RL_OK;
        }
        touch_until(d, outcome.layer);
        d->n_touched = outcome.layer + 1; /* this layer gets its place by being loaded */
        status = rl_experts_load(e->experts, outcome.layer, outcome.ids, false, err);
        if (status) break;
        status = routed->resume(e->be, outcome.layer, err);
        rl_experts_unload(e->experts);
        resumes++;
    }
    if (!status) status = finish(d, f, err);
    if (status) return status;
    d->counts.resumes += resumes;
    if (resumes)
        d->counts.resumed++;
    else
        d->counts.routed++;
    return RL_OK;
}

/* The device runs ahead up to the gate of a layer; the host reads its choice and loads. The experts
 * of a layer stay pinned until the choice of the next one is there: then nothing reads them. What is
 * read ahead of the next layer is taken from and given to the cache in the order of the synchronous
 * step; its slots are none that the device reads before the next gate. */
static rl_status run_gated(rl_decoder *d, const rl_forward *f, rl_error *err)
{
    rl_engine *e = d->engine;
    const rl_routed_ops *routed = e->ops->routed;
    uint32_t n_layer = e->net.shape.n_layer, ids[RL_MAX_EXPERTS_USED];
    rl_status status = routed->submit_gated(e->be, &f->batch, err);
    if (status) return status;
    rl_status loaded = RL_OK;
    for (uint32_t layer = 0; layer < n_layer && !loaded; layer++) {
        loaded = routed->await_choice(e->be, layer, ids, err);
        rl_experts_unload(e->experts);
        if (!loaded) loaded = rl_experts_load(e->experts, layer, ids, true, err);
        if (!loaded) loaded = routed->open_gate(e->be, layer, err);
        if (!loaded) loaded = rl_experts_read_ahead(e->experts, err);
    }
    /* After a failure the device still waits at its gates: wait() opens them halted. */
    rl_routed_outcome outcome;
    status = routed->wait(e->be, &outcome, loaded ? NULL : err);
    rl_experts_unload(e->experts);
    if (loaded || status) return loaded ? loaded : status;
    d->n_touched = n_layer;
    d->counts.gated++;
    return finish(d, f, err);
}

static rl_status run_sync(rl_decoder *d, const rl_forward *f, rl_error *err)
{
    rl_status status = rl_forward_run(d->engine, f, err);
    if (!status) d->counts.sync++;
    return status;
}

rl_status rl_decoder_run(rl_decoder *d, const rl_forward *f, rl_error *err)
{
    rl_engine *e = d->engine;
    rl_decode_path path = choose(d);
    bool missed = false;
    rl_status status;
    uint64_t start = rl_clock_ns();
    d->n_touched = 0;
    if (path == RL_PATH_SYNC) {
        status = run_sync(d, f, err);
    } else {
        rl_experts_begin(e->experts, 1);
        status = path == RL_PATH_GATED ? run_gated(d, f, err)
                                       : run_routed(d, f, path == RL_PATH_RESTART, &missed, err);
        rl_experts_end(e->experts);
        if (!status && missed) status = run_sync(d, f, err);
    }
    RL_DCHECK(rl_experts_consistent(e->experts));
    if (status) return status;
    learn(d, path, rl_clock_ns() - start);
    return RL_OK;
}
