/* forward.c - the model in reading order.
 *
 * One batch of tokens, from ids to logits, as the stages of backend.h. Whether a stage computes at
 * once or is recorded for a device is the backend's business; which experts are in memory is
 * experts.c's. A new architecture of the family changes a stage here, not the engine around it. */
#include "engine/forward.h"

#include "base/assert.h"
#include "base/clock.h"
#include "engine/experts.h"

/* Local shorthand: leave the function on failure. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        rl_status try_status = (call);                                                             \
        if (try_status) return try_status;                                                         \
    } while (0)

const char *rl_stage_name(rl_stage stage)
{
    static const char *const names[RL_STAGES] = {
        [RL_STAGE_EMBED] = "embed",           [RL_STAGE_DELTA_IN] = "delta_in",
        [RL_STAGE_DELTA_STEP] = "delta_step", [RL_STAGE_ATTN_IN] = "attn_in",
        [RL_STAGE_ATTN_STEP] = "attn_step",   [RL_STAGE_MIX_OUT] = "mix_out",
        [RL_STAGE_MOE_IN] = "moe_in",         [RL_STAGE_ROUTE] = "route",
        [RL_STAGE_EXPERTS] = "experts",       [RL_STAGE_MOE_OUT] = "moe_out",
        [RL_STAGE_LAYERS] = "layers",         [RL_STAGE_HEAD] = "head",
    };
    return names[stage];
}

/* The time since the last call, or since the batch began, belongs to `stage`. */
static void charge(rl_engine *e, rl_stage stage)
{
    if (!e->times_stages) return;
    const uint64_t now = rl_clock_ns();
    e->stage_times.ns[stage] += now - e->stage_since;
    e->stage_since = now;
}

static rl_status observe(rl_engine *e, const rl_forward *f, rl_forward_point point, uint32_t layer,
                         rl_error *err)
{
    if (!f->hooks || !f->hooks->observe) return RL_OK;
    return f->hooks->observe(f->hooks->context, e, point, layer, f->batch.n, err);
}

/* x += mixer(norm(x)): gated delta net or gated attention. */
static rl_status mixer(rl_engine *e, uint32_t layer, rl_error *err)
{
    if (e->net.layers[layer].recurrent) {
        TRY(e->ops->delta_in(e->be, layer, err));
        charge(e, RL_STAGE_DELTA_IN);
        TRY(e->ops->delta_step(e->be, layer, err));
        charge(e, RL_STAGE_DELTA_STEP);
    } else {
        TRY(e->ops->attn_in(e->be, layer, err));
        charge(e, RL_STAGE_ATTN_IN);
        TRY(e->ops->attn_step(e->be, layer, err));
        charge(e, RL_STAGE_ATTN_STEP);
    }
    TRY(e->ops->mix_out(e->be, layer, err));
    charge(e, RL_STAGE_MIX_OUT);
    return RL_OK;
}

/* x += experts(norm(x)) + shared expert. */
static rl_status moe(rl_engine *e, const rl_forward *f, uint32_t layer, rl_error *err)
{
    const uint32_t *forced = NULL;
    if (f->hooks && f->hooks->force) forced = f->hooks->force(f->hooks->context, layer, f->batch.n);
    TRY(e->ops->moe_in(e->be, layer, err));
    charge(e, RL_STAGE_MOE_IN);
    TRY(observe(e, f, RL_AFTER_ROUTER, layer, err));
    TRY(e->ops->route(e->be, layer, forced, e->ids, err));
    charge(e, RL_STAGE_ROUTE);
    TRY(observe(e, f, RL_AFTER_ROUTE, layer, err));
    TRY(rl_experts_run(e->experts, layer, e->ids, f->batch.n, err));
    charge(e, RL_STAGE_EXPERTS);
    TRY(e->ops->moe_out(e->be, layer, err));
    charge(e, RL_STAGE_MOE_OUT);
    return RL_OK;
}

rl_status rl_forward_leave(rl_engine *e, const rl_forward *f, rl_error *err)
{
    f->left->left = true;
    if (f->batch.top) e->ops->routed->read_top(e->be, f->left->top);
    return e->ops->routed->read_logits(e->be, NULL, &f->left->best, err);
}

/* The last stage where nobody waits for the logits but to take the largest. */
static rl_status head_left(rl_engine *e, const rl_forward *f, rl_error *err)
{
    RL_ASSERT(f->batch.n == 1 && !f->hooks);
    TRY(e->ops->head(e->be, 0, 1, NULL, err));
    charge(e, RL_STAGE_HEAD);
    return rl_forward_leave(e, f, err);
}

static rl_status head(rl_engine *e, const rl_forward *f, rl_error *err)
{
    uint32_t n_vocab = e->net.shape.n_vocab;
    if (f->left && e->ops->routed && f->first_logits < f->batch.n) return head_left(e, f, err);
    for (uint32_t first = f->first_logits; first < f->batch.n; first += RL_HEAD_ROWS) {
        uint32_t rows = f->batch.n - first < RL_HEAD_ROWS ? f->batch.n - first : RL_HEAD_ROWS;
        TRY(e->ops->head(e->be, first, rows, e->logit_rows, err));
        charge(e, RL_STAGE_HEAD);
        TRY(observe(e, f, RL_AFTER_HEAD, 0, err));
        for (uint32_t i = 0; i < rows; i++)
            if (!f->each(f->context, first + i, e->logit_rows + (size_t)i * n_vocab))
                return rl_fail(err, RL_INTERRUPTED, "stopped by the caller");
    }
    return RL_OK;
}

static rl_status stages(rl_engine *e, const rl_forward *f, rl_error *err)
{
    TRY(e->ops->embed(e->be, err));
    charge(e, RL_STAGE_EMBED);
    TRY(observe(e, f, RL_AFTER_EMBED, 0, err));
    const uint32_t n_layer = e->net.shape.n_layer;
    for (uint32_t layer = 0; layer < n_layer; layer++) {
        TRY(mixer(e, layer, err));
        TRY(observe(e, f, RL_AFTER_MIXER, layer, err));
        TRY(moe(e, f, layer, err));
        TRY(observe(e, f, RL_AFTER_MOE, layer, err));
        if (f->progress_total)
            TRY(rl_engine_progress(e, "reading the prompt",
                                   f->progress_done + (uint64_t)f->batch.n * (layer + 1) / n_layer,
                                   f->progress_total, err));
    }
    return head(e, f, err);
}

rl_status rl_forward_run(rl_engine *e, const rl_forward *f, rl_error *err)
{
    TRY(e->ops->begin(e->be, &f->batch, err));
    rl_experts_begin(e->experts, f->batch.n);
    if (e->times_stages) e->stage_since = rl_clock_ns();
    rl_status status = stages(e, f, err);
    /* Also after a failure: nothing may be in flight when the caller goes on. */
    rl_status end = e->ops->end(e->be, status ? NULL : err);
    if (e->times_stages && !status && !end) e->stage_times.n_tokens += f->batch.n;
    rl_experts_end(e->experts);
    return status ? status : end;
}
