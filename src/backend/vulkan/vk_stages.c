/* vk_stages.c - the stage calls of backend.h.
 *
 * Batches of many tokens, and batches that are observed, record stage by stage into one command
 * buffer, which is submitted where the host has to read something. A single token that nobody
 * observes goes by segments (vk_routed.c): its stage calls record nothing, route() and head() submit
 * what was recorded when its state was created. */
#include <string.h>

#include "backend/vulkan/vk_backend.h"
#include "base/assert.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        rl_status try_status = (call);                                                             \
        if (try_status) return try_status;                                                         \
    } while (0)

/* ---- submitting ------------------------------------------------------------------------------------- */

rl_status rl_vk_submit(rl_vk_backend *vk, const VkCommandBuffer *buffers, uint32_t n, rl_error *err)
{
    uint64_t uploads = rl_vk_uploader_value(vk->uploader);
    rl_vk_point wait = { rl_vk_uploader_semaphore(vk->uploader), uploads };
    uint32_t n_waits = uploads > vk->uploads_seen;
    TRY(rl_vk_stream_submit(vk->stream, buffers, n, &wait, n_waits, &vk->last_value, err));
    vk->uploads_seen = uploads;
    return RL_OK;
}

rl_status rl_vk_wait(rl_vk_backend *vk, rl_error *err)
{
    return rl_vk_stream_wait(vk->stream, vk->last_value, vk->spin_us, err);
}

rl_status rl_vk_stage_cmd(rl_vk_backend *vk, rl_vk_cmd **out, rl_error *err)
{
    if (!vk->dirty) TRY(rl_vk_cmd_begin(&vk->cmd, true, err));
    vk->dirty = true;
    rl_vk_cmd_barrier_copies(&vk->cmd);
    *out = &vk->cmd;
    return RL_OK;
}

rl_status rl_vk_stage_flush(rl_vk_backend *vk, rl_error *err)
{
    if (!vk->dirty) return RL_OK;
    vk->dirty = false;
    rl_vk_cmd_barrier_to_host(&vk->cmd);
    TRY(rl_vk_cmd_end(&vk->cmd, err));
    TRY(rl_vk_submit(vk, &vk->cmd.handle, 1, err));
    TRY(rl_vk_wait(vk, err));
    vk->lists_used = 0;
    return RL_OK;
}

rl_status rl_vk_read(rl_vk_backend *vk, const rl_vk_span *span, uint64_t offset, void *out,
                     uint64_t bytes, rl_error *err)
{
    uint8_t *to = out;
    while (bytes) { /* through the logits' place, the largest that the host reads */
        uint64_t n = bytes < vk->out.logits.bytes ? bytes : vk->out.logits.bytes;
        TRY(rl_vk_cmd_begin(&vk->copy, true, err));
        rl_vk_cmd_barrier_copies(&vk->copy);
        rl_vk_cmd_copy(&vk->copy, span, offset, &vk->out.logits, 0, n);
        rl_vk_cmd_barrier_to_host(&vk->copy);
        TRY(rl_vk_cmd_end(&vk->copy, err));
        TRY(rl_vk_submit(vk, &vk->copy.handle, 1, err));
        TRY(rl_vk_wait(vk, err));
        memcpy(to, vk->out.logits.host, n);
        to += n;
        offset += n;
        bytes -= n;
    }
    return RL_OK;
}

/* ---- a batch ------------------------------------------------------------------------------------------ */

rl_status rl_vk_begin(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    RL_ASSERT(batch->n >= 1 && batch->n <= vk->max_batch && !vk->dirty);
    uint32_t k = vk->net->shape.n_expert_used;
    vk->batch = *batch;
    vk->now = batch->n == 1 ? &batch->state->block : &vk->block;
    vk->by_segments = batch->n == 1 && !batch->observed;
    for (uint32_t c = 0; c < vk->n_classes; c++)
        if (vk->slot_counts[c] < k) vk->by_segments = false;
    vk->lists_used = 0;
    vk->n_parts = 0;
    vk->counters.tokens += batch->n;
    rl_vk_block_fill(vk->now, &vk->net->shape, batch, batch->state->side, false);
    return vk->by_segments ? rl_vk_segments_record(vk, batch->state, err) : RL_OK;
}

/* Begins one stage: false in r->cmd when there is nothing to record. */
static rl_status begin_stage(rl_vk_backend *vk, rl_vk_recording *r, rl_error *err)
{
    vk->counters.stages++;
    *r =
        (rl_vk_recording){ .vk = vk, .state = vk->batch.state, .block = vk->now, .n = vk->batch.n };
    if (vk->by_segments) return RL_OK;
    return rl_vk_stage_cmd(vk, &r->cmd, err);
}

rl_status rl_vk_embed(rl_backend *be, rl_error *err)
{
    rl_vk_recording r;
    TRY(begin_stage(rl_vk_of(be), &r, err));
    return r.cmd ? rl_vk_record_embed(&r, err) : RL_OK;
}

#define STAGE(name)                                                                                \
    rl_status rl_vk_##name(rl_backend *be, uint32_t layer, rl_error *err)                          \
    {                                                                                              \
        rl_vk_recording r;                                                                         \
        TRY(begin_stage(rl_vk_of(be), &r, err));                                                   \
        return r.cmd ? rl_vk_record_##name(&r, layer, err) : RL_OK;                                \
    }
STAGE(delta_in)
STAGE(delta_step)
STAGE(attn_in)
STAGE(attn_step)
STAGE(mix_out)
STAGE(moe_in)
#undef STAGE

rl_status rl_vk_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                      rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint32_t k = vk->net->shape.n_expert_used;
    uint64_t bytes = 4ull * vk->batch.n * k;
    rl_vk_recording r;
    TRY(begin_stage(vk, &r, err));
    vk->n_parts = 0;
    if (!r.cmd) {
        RL_ASSERT(!forced); /* choices are forced in observed batches only */
        TRY(rl_vk_submit(vk, &r.state->segments[layer].handle, 1, err));
        TRY(rl_vk_wait(vk, err));
        vk->waiting_at = layer;
        memcpy(ids, vk->out.choices.host + layer * bytes, bytes);
        return RL_OK;
    }
    uint64_t forced_at = 0;
    if (forced) {
        RL_ASSERT(vk->lists_used + bytes <= vk->lists.bytes);
        memcpy(vk->lists.host + vk->lists_used, forced, bytes);
        forced_at = vk->lists.address + vk->lists_used;
        vk->lists_used += (bytes + 15) / 16 * 16;
    }
    TRY(rl_vk_record_route(&r, layer, vk->out.ids.address, forced_at, err));
    TRY(rl_vk_stage_flush(vk, err));
    memcpy(ids, vk->out.ids.host, bytes);
    return RL_OK;
}

rl_status rl_vk_route_ahead(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint32_t k = vk->net->shape.n_expert_used;
    rl_vk_recording r = { .vk = vk, .state = vk->batch.state, .block = vk->now, .n = vk->batch.n };
    RL_ASSERT(r.n == 1 && (!vk->by_segments || vk->net->layers[layer].guessed));
    if (!vk->by_segments) { /* otherwise the segment of the layer before has published it */
        TRY(rl_vk_stage_cmd(vk, &r.cmd, err));
        TRY(rl_vk_record_ahead_in(&r, layer, err));
        rl_vk_cmd_barrier(r.cmd);
        TRY(rl_vk_record_ahead_route(&r, layer, err));
        TRY(rl_vk_stage_flush(vk, err));
    }
    memcpy(ids, vk->out.ahead.host + 4ull * layer * k, 4ull * k);
    return RL_OK;
}

rl_status rl_vk_moe_shared(rl_backend *be, uint32_t layer, rl_error *err)
{
    rl_vk_recording r;
    TRY(begin_stage(rl_vk_of(be), &r, err));
    if (!r.cmd) return RL_OK;
    TRY(rl_vk_record_shared_up(&r, layer, err));
    rl_vk_cmd_barrier(r.cmd);
    return rl_vk_record_shared_down(&r, layer, err);
}

/* One token: these ranks, each result kept apart. */
static rl_status record_ranks(rl_vk_recording *r, uint32_t layer, const rl_expert_group *groups,
                              uint32_t n_groups, rl_error *err)
{
    uint32_t mask = 0;
    for (uint32_t g = 0; g < n_groups; g++)
        for (uint32_t i = 0; i < groups[g].n; i++)
            mask |= 1u << groups[g].assign[i];
    TRY(rl_vk_record_experts_up(r, layer, mask, err));
    rl_vk_cmd_barrier(r->cmd);
    return rl_vk_record_experts_down(r, layer, mask, err);
}

rl_status rl_vk_moe_experts(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                            uint32_t n_groups, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    rl_vk_recording r;
    TRY(begin_stage(vk, &r, err));
    vk->counters.expert_passes += n_groups;
    if (r.cmd)
        return r.n == 1 ? record_ranks(&r, layer, groups, n_groups, err)
                        : rl_vk_record_groups(&r, layer, groups, n_groups, err);
    /* The next segment computes them; remember which there are, in case they cannot stay. */
    for (uint32_t g = 0; g < n_groups; g++) {
        RL_ASSERT(vk->n_parts < RL_MAX_EXPERTS_USED && groups[g].n == 1);
        vk->part_assign[vk->n_parts] = groups[g].assign[0];
        vk->parts[vk->n_parts] = (rl_expert_group){ .expert = groups[g].expert, .n = 1 };
        vk->n_parts++;
    }
    return RL_OK;
}

/* The slots of this layer's experts are about to be used for others. A token that goes by segments
 * leaves them here: what it has is computed now, and the rest of it stage by stage. */
rl_status rl_vk_drain(rl_backend *be, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    if (vk->by_segments) {
        vk->by_segments = false;
        rl_vk_recording r = { .vk = vk, .state = vk->batch.state, .block = vk->now, .n = 1 };
        TRY(rl_vk_stage_cmd(vk, &r.cmd, err));
        TRY(rl_vk_record_shared_down(&r, vk->waiting_at, err)); /* the next segment's, otherwise */
        for (uint32_t i = 0; i < vk->n_parts; i++)
            vk->parts[i].assign = &vk->part_assign[i];
        if (vk->n_parts) TRY(record_ranks(&r, vk->waiting_at, vk->parts, vk->n_parts, err));
    }
    return rl_vk_stage_flush(vk, err);
}

rl_status rl_vk_moe_out(rl_backend *be, uint32_t layer, rl_error *err)
{
    rl_vk_recording r;
    TRY(begin_stage(rl_vk_of(be), &r, err));
    return r.cmd ? rl_vk_record_moe_sum(&r, layer, err) : RL_OK;
}

rl_status rl_vk_head(rl_backend *be, uint32_t first, uint32_t rows, float *logits, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint64_t bytes = 4ull * rows * vk->net->shape.n_vocab;
    rl_vk_recording r;
    RL_ASSERT(rows >= 1 && rows <= RL_HEAD_ROWS && first + rows <= vk->batch.n);
    TRY(begin_stage(vk, &r, err));
    vk->head_first = first;
    vk->head_rows = rows;
    if (!r.cmd) {
        VkCommandBuffer last[2] = { r.state->segments[vk->net->shape.n_layer].handle,
                                    r.state->top.handle };
        TRY(rl_vk_submit(vk, last, vk->batch.top ? 2 : 1, err));
        if (logits) return rl_vk_read(vk, &vk->buf.logits, 0, logits, bytes, err);
        return rl_vk_wait(vk, err);
    }
    TRY(rl_vk_record_head(&r, first, rows, err));
    rl_vk_cmd_barrier_copies(r.cmd);
    if (!logits) {
        TRY(rl_vk_record_best(&r, err));
        if (vk->batch.top) TRY(rl_vk_record_top(&r, err)); /* beside: both only read */
        return rl_vk_stage_flush(vk, err);
    }
    rl_vk_cmd_copy(r.cmd, &vk->buf.logits, 0, &vk->out.logits, 0, bytes);
    TRY(rl_vk_stage_flush(vk, err));
    memcpy(logits, vk->out.logits.host, bytes);
    return RL_OK;
}

/* What is recorded and not submitted, after a failure too, runs now: nothing is in flight behind this. */
rl_status rl_vk_end(rl_backend *be, rl_error *err)
{
    return rl_vk_stage_flush(rl_vk_of(be), err);
}

rl_status rl_vk_read_tap(rl_backend *be, rl_tap tap, float *out, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    const rl_shape *s = &vk->net->shape;
    uint64_t n = vk->batch.n;
    RL_ASSERT(vk->batch.observed);
    if (tap == RL_TAP_FINAL_NORM) {
        rl_vk_cmd *cmd;
        TRY(rl_vk_stage_cmd(vk, &cmd, err));
        rl_norm_push push = { .x = vk->buf.x.address + 4ull * vk->head_first * s->n_embd,
                              .weight = vk->net->output_norm.address,
                              .y = vk->buf.h.address,
                              .cols = s->n_embd,
                              .eps = s->rms_eps };
        TRY(rl_vk_op_norm(&vk->ops, cmd, vk->head_rows, &push, err));
    }
    TRY(rl_vk_stage_flush(vk, err));
    switch (tap) {
    case RL_TAP_HIDDEN: return rl_vk_read(vk, &vk->buf.x, 0, out, 4 * n * s->n_embd, err);
    case RL_TAP_ROUTER: return rl_vk_read(vk, &vk->buf.router, 0, out, 4 * n * s->n_expert, err);
    case RL_TAP_ROUTE_WEIGHTS:
        return rl_vk_read(vk, &vk->buf.weights, 0, out, 4 * n * s->n_expert_used, err);
    case RL_TAP_FINAL_NORM: break;
    }
    return rl_vk_read(vk, &vk->buf.h, 0, out, 4ull * vk->head_rows * s->n_embd, err);
}
