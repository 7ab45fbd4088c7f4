/* vk_state.c - a session's memory on the device: recurrent state twice, the KV cache, parameters.
 *
 * The exchange form of backend.h is the form in memory, so reading and writing are plain copies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_backend.h"
#include "base/assert.h"
#include "base/bytes.h"

/* ---- parameter blocks ------------------------------------------------------------------------------ */

rl_status rl_vk_block_init(rl_vk_block *block, rl_vk_arena *upload, uint32_t n, uint32_t n_rot,
                           rl_error *err)
{
    uint64_t ids_at = sizeof(rl_vk_token), rope_at = rl_align_up(ids_at + 4ull * n, 64);
    rl_status status =
        rl_vk_arena_take(upload, rope_at + 4ull * n * n_rot + 64, 256, &block->span, err);
    if (status) return status;
    block->max_tokens = n;
    block->token = block->span.address;
    block->ids = block->span.address + ids_at;
    block->rope = block->span.address + rope_at;
    return RL_OK;
}

void rl_vk_block_fill(const rl_vk_block *block, const rl_shape *shape, const rl_batch *batch,
                      uint32_t side, bool check)
{
    RL_ASSERT(batch->n <= block->max_tokens);
    uint8_t *host = block->span.host;
    rl_vk_token token = {
        .position = batch->position, .side = side, .n = batch->n, .check = check
    };
    memcpy(host, &token, sizeof token);
    memcpy(host + (block->ids - block->token), batch->tokens, 4ull * batch->n);
    float *rope = (float *)(void *)(host + (block->rope - block->token));
    uint32_t half = shape->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        double frequency = pow(shape->rope_base, -2.0 * i / shape->n_rot);
        for (uint32_t t = 0; t < batch->n; t++) {
            double angle = (batch->position + t) * frequency;
            rope[2 * ((size_t)t * half + i)] = (float)cos(angle);
            rope[2 * ((size_t)t * half + i) + 1] = (float)sin(angle);
        }
    }
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

static uint64_t conv_bytes(const rl_shape *s) /* of one copy */
{
    return 4ull * (s->conv_taps - 1) * rl_shape_conv_channels(s);
}

static uint64_t delta_bytes(const rl_shape *s)
{
    return 4ull * s->n_value_head * s->delta_dim * s->delta_dim;
}

static uint64_t row_bytes(const rl_shape *s, uint32_t type) /* of a cache, one position */
{
    return (uint64_t)s->n_head_kv * s->head_dim * (type == 1 ? 2 : 4);
}

static uint64_t state_bytes(const rl_net *net, const rl_state_params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < net->shape.n_layer; i++)
        bytes += net->layers[i].recurrent
                     ? 2 * (conv_bytes(&net->shape) + delta_bytes(&net->shape)) + 1024
                     : p->n_ctx * (row_bytes(&net->shape, p->key_type) +
                                   row_bytes(&net->shape, p->value_type)) +
                           1024;
    return bytes;
}

/* ---- life -------------------------------------------------------------------------------------------- */

static rl_status take_layers(rl_vk_backend *vk, rl_state *state, rl_error *err)
{
    const rl_net *net = vk->net;
    const rl_shape *s = &net->shape;
    rl_status status = RL_OK;
    for (uint32_t i = 0; i < s->n_layer && !status; i++) {
        rl_vk_layer_state *l = &state->layers[i];
        uint64_t first, second;
        if (net->layers[i].recurrent) {
            first = 2 * conv_bytes(s);
            second = 2 * delta_bytes(s);
        } else {
            first = state->params.n_ctx * row_bytes(s, state->params.key_type);
            second = state->params.n_ctx * row_bytes(s, state->params.value_type);
        }
        status = rl_vk_arena_take(state->arena, first, 256,
                                  net->layers[i].recurrent ? &l->conv : &l->keys, err);
        if (!status)
            status = rl_vk_arena_take(state->arena, second, 256,
                                      net->layers[i].recurrent ? &l->delta : &l->values, err);
    }
    return status;
}

/* Where counters and numbered values begin, from `at` on. Returns the bytes of all. */
static uint64_t place_numbered(const rl_vk_backend *vk, uint64_t at, rl_vk_numbered *n)
{
    const rl_shape *s = &vk->net->shape;
    const rl_vk_widths w = rl_vk_widths_of(s);
    const struct {
        uint64_t *place, n;
    } all[] = {
        { &n->x, w.x },
        { &n->mixed, w.x },
        { &n->u, w.u },
        { &n->z, w.z },
        { &n->ba, w.ba },
        { &n->k, w.k },
        { &n->v, w.v },
        { &n->y, w.y },
        { &n->sums, w.sums },
        { &n->parts, vk->decode_splits * w.part },
        { &n->router, w.router },
        { &n->scale, 1 },
        { &n->shared_gate, w.shared },
        { &n->shared_up, w.shared },
        { &n->choice, (uint64_t)s->n_expert_used * RL_CHOICE_WORDS },
    };
    uint64_t first = at;
    n->counters = at;
    at += (uint64_t)RL_LINK_STRIDE * s->n_layer;
    for (size_t i = 0; i < RL_COUNT_OF(all); i++) {
        at = rl_align_up(at, 256);
        *all[i].place = at;
        at += 8 * rl_align_up(all[i].n, 128);
    }
    return at - first;
}

rl_status rl_vk_state_create(rl_backend *be, rl_state **out, const rl_state_params *params,
                             rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    const rl_shape *s = &vk->net->shape;
    *out = NULL;
    rl_state *state = calloc(1, sizeof *state);
    if (!state) return rl_fail(err, RL_NOMEM, "no memory for a session");
    state->params = *params;
    state->layers = calloc(s->n_layer, sizeof *state->layers);
    rl_status status = RL_OK;
    if (!state->layers) status = rl_fail(err, RL_NOMEM, "no memory for a session");
    uint64_t handed = place_numbered(vk, 0, &state->numbered);
    uint64_t bytes = state_bytes(vk->net, params) + RL_VK_ARRIVALS_BYTES + handed + 4096;
    uint64_t slab = bytes < (1ull << 30) ? bytes : 1ull << 30;
    if (!status)
        status = rl_vk_arena_create(&state->arena, vk->device, RL_VK_PLACE_DEVICE, slab,
                                    "a session's state", err);
    if (!status)
        status = rl_vk_arena_take(state->arena, RL_VK_ARRIVALS_BYTES, 256, &state->arrivals, err);
    if (!status) status = rl_vk_arena_take(state->arena, handed, 256, &state->handed, err);
    if (!status) place_numbered(vk, state->handed.address, &state->numbered);
    if (!status) status = take_layers(vk, state, err);
    if (!status)
        status = rl_vk_arena_create(&state->upload, vk->device, RL_VK_PLACE_UPLOAD,
                                    4096 + 8ull * s->n_rot, "token parameters", err);
    if (!status) status = rl_vk_block_init(&state->block, state->upload, 1, s->n_rot, err);
    if (!status) status = rl_vk_state_reset(be, state, err);
    if (!status) status = rl_vk_segments_record(vk, state, err);
    if (status) {
        rl_vk_state_destroy(be, state);
        return status;
    }
    *out = state;
    return RL_OK;
}

void rl_vk_state_destroy(rl_backend *be, rl_state *state)
{
    if (!state) return;
    rl_vk_backend *vk = rl_vk_of(be);
    rl_vk_segments_free(vk, state);
    rl_vk_arena_destroy(state->upload);
    rl_vk_arena_destroy(state->arena);
    free(state->layers);
    free(state);
}

/* Both copies of the recurrent part become zero; the cache is overwritten before it is read. */
rl_status rl_vk_state_reset(rl_backend *be, rl_state *state, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    rl_status status = rl_vk_stage_flush(vk, err);
    if (!status) status = rl_vk_cmd_begin(&vk->copy, true, err);
    if (status) return status;
    rl_vk_cmd_fill(&vk->copy, &state->arrivals, 0, state->arrivals.bytes, 0);
    rl_vk_cmd_fill(&vk->copy, &state->handed, 0, state->handed.bytes, 0);
    for (uint32_t i = 0; i < vk->net->shape.n_layer; i++) {
        if (!vk->net->layers[i].recurrent) continue;
        rl_vk_layer_state *l = &state->layers[i];
        rl_vk_cmd_fill(&vk->copy, &l->conv, 0, l->conv.bytes, 0);
        rl_vk_cmd_fill(&vk->copy, &l->delta, 0, l->delta.bytes, 0);
    }
    status = rl_vk_cmd_end(&vk->copy, err);
    if (!status) status = rl_vk_submit(vk, &vk->copy.handle, 1, err);
    if (!status) status = rl_vk_wait(vk, err);
    if (!status) state->side = state->turn = 0; /* otherwise the session stays what it was */
    return status;
}

void rl_vk_state_commit(rl_backend *be, rl_state *state)
{
    (void)be;
    state->side = 1 - state->side;
}

/* ---- exchange ------------------------------------------------------------------------------------------ */

/* Where a part lies: the span, the first byte of the current copy, and how many bytes. */
static const rl_vk_span *find_part(const rl_vk_backend *vk, const rl_state *state, uint32_t layer,
                                   rl_state_part part, uint32_t n_tokens, uint64_t *offset,
                                   uint64_t *bytes)
{
    const rl_shape *s = &vk->net->shape;
    const rl_vk_layer_state *l = &state->layers[layer];
    *offset = 0;
    switch (part) {
    case RL_STATE_CONV:
        *bytes = conv_bytes(s);
        *offset = state->side * *bytes;
        return &l->conv;
    case RL_STATE_DELTA:
        *bytes = delta_bytes(s);
        *offset = state->side * *bytes;
        return &l->delta;
    case RL_STATE_KEY: *bytes = n_tokens * row_bytes(s, state->params.key_type); return &l->keys;
    case RL_STATE_VALUE: break;
    }
    *bytes = n_tokens * row_bytes(s, state->params.value_type);
    return &l->values;
}

rl_status rl_vk_state_read(rl_backend *be, const rl_state *state, uint32_t layer,
                           rl_state_part part, uint32_t n_tokens, void *out, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint64_t offset, bytes;
    const rl_vk_span *span = find_part(vk, state, layer, part, n_tokens, &offset, &bytes);
    rl_status status = rl_vk_stage_flush(vk, err);
    return status || !bytes ? status : rl_vk_read(vk, span, offset, out, bytes, err);
}

rl_status rl_vk_state_write(rl_backend *be, rl_state *state, uint32_t layer, rl_state_part part,
                            uint32_t n_tokens, const void *bytes_in, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint64_t offset, bytes;
    const rl_vk_span *span = find_part(vk, state, layer, part, n_tokens, &offset, &bytes);
    rl_status status = rl_vk_refuse_lost(vk->device, err); /* mapped memory takes anything */
    if (!status) status = rl_vk_stage_flush(vk, err);
    if (status || !bytes) return status;
    status = rl_vk_upload(vk->uploader, span, offset, bytes_in, bytes, err);
    return status ? status : rl_vk_uploader_finish(vk->uploader, err);
}
