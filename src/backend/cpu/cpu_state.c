/* cpu_state.c - one session's memory: the recurrent part, keys and values.
 *
 * A batch leaves everything that a forgotten batch needs: the convolution's columns have two copies,
 * one is read and the other written. A delta matrix S has two copies for batches of several tokens.
 * A single token needs no second copy: it is S and what the last token still owes it (rl_cpu_delta);
 * the next token pays that in place, which does not change the value of the state, and leaves its
 * own debt in the other copy of `owed`. So S moves through the caches once per token, and commit
 * only says which copies count. Keys and values are written at their positions; what lies behind
 * the session's end is never read.
 *
 * Inside, a delta matrix is kept in blocks of 16 columns, and keys in blocks of 16 positions, so that
 * the kernels walk memory in order. The exchange form (backend.h) knows nothing of that. */
#include "backend/cpu/cpu_backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { TYPE_F32 = 0, TYPE_F16 = 1 };

typedef struct sizes {
    size_t conv, delta, owed; /* floats of one copy  */
    size_t keys, values;      /* bytes of a layer's cache */
} sizes;

static size_t value_bytes(uint32_t type)
{
    return type == TYPE_F16 ? 2 : 4;
}

static sizes layer_sizes(const rl_shape *s, const rl_state *state)
{
    const size_t d = s->head_dim, ctx = state->padded_ctx;
    return (sizes){
        .conv = rl_align_up((size_t)(s->conv_taps - 1) * rl_shape_conv_channels(s), 16),
        .delta = (size_t)s->n_value_head * rl_cpu_pad(s->delta_dim) * s->delta_dim,
        .owed = (size_t)s->n_value_head * rl_cpu_owed_width(s->delta_dim),
        .keys = s->n_head_kv * ctx * d * value_bytes(state->params.key_type),
        .values =
            s->n_head_kv * ctx * rl_cpu_pad(s->head_dim) * value_bytes(state->params.value_type),
    };
}

rl_status rl_cpu_state_create(rl_backend *be, rl_state **out, const rl_state_params *params,
                              rl_error *err)
{
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &cpu->shape;
    RL_ASSERT(cpu->net && params->n_ctx);
    *out = NULL;
    if (params->key_type > TYPE_F16 || params->value_type > TYPE_F16)
        return rl_fail(err, RL_UNSUPPORTED, "keys and values are kept as F32 or F16");
    if (params->n_ctx > (1u << 30))
        return rl_fail(err, RL_INVALID, "a context of %u tokens is too long", params->n_ctx);
    rl_state *state = calloc(1, sizeof *state);
    if (state) state->layers = calloc(s->n_layer, sizeof *state->layers);
    if (!state || !state->layers) {
        rl_cpu_state_destroy(be, state);
        return rl_fail(err, RL_NOMEM, "no memory for a session");
    }
    state->params = *params;
    state->padded_ctx = (uint32_t)rl_align_up(params->n_ctx, RL_CPU_ATTN_BLOCK);
    const sizes size = layer_sizes(s, state);
    size_t whole = 0;
    for (int pass = 0; pass < 2; pass++) { /* first the sum, then the pointers */
        uint8_t *base = state->memory.bytes;
        size_t at = 0;
        for (uint32_t i = 0; i < s->n_layer; i++) {
            rl_cpu_state_layer *l = &state->layers[i];
            if (cpu->net->layers[i].recurrent) {
                for (int copy = 0; copy < 2; copy++) {
                    if (pass) l->delta[copy] = (float *)(void *)(base + at);
                    at += rl_align_up(size.delta * sizeof(float), 64);
                    if (pass) l->conv[copy] = (float *)(void *)(base + at);
                    at += rl_align_up(size.conv * sizeof(float), 64);
                    if (pass) l->owed[copy] = (float *)(void *)(base + at);
                    at += rl_align_up(size.owed * sizeof(float), 64);
                }
            } else {
                if (pass) l->keys = base + at;
                at += rl_align_up(size.keys, 64);
                if (pass) l->values = base + at;
                at += rl_align_up(size.values, 64);
            }
        }
        whole = at;
        if (pass) continue;
        rl_status status = rl_cpu_map(&state->memory, whole, "a session", err);
        if (status) {
            rl_cpu_state_destroy(be, state);
            return status;
        }
    }
    *out = state;
    return RL_OK;
}

void rl_cpu_state_destroy(rl_backend *be, rl_state *state)
{
    (void)be;
    if (!state) return;
    rl_cpu_unmap(&state->memory);
    free(state->layers);
    free(state);
}

rl_status rl_cpu_state_reset(rl_backend *be, rl_state *state, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const sizes size = layer_sizes(&cpu->shape, state);
    for (uint32_t i = 0; i < cpu->shape.n_layer; i++) {
        rl_cpu_state_layer *l = &state->layers[i];
        if (!cpu->net->layers[i].recurrent) continue; /* positions from 0 on will be written anew */
        memset(l->conv[state->current], 0, size.conv * sizeof(float));
        memset(l->delta[state->current_delta], 0, size.delta * sizeof(float));
        l->owes = false;
    }
    state->written = 0;
    return RL_OK;
}

void rl_cpu_state_commit(rl_backend *be, rl_state *state)
{
    const rl_cpu *cpu = rl_cpu_of(be);
    if (!state->written) return;
    state->current ^= 1;
    if (state->written > 1) state->current_delta ^= 1;
    for (uint32_t i = 0; i < cpu->shape.n_layer; i++)
        state->layers[i].owes = cpu->net->layers[i].recurrent;
    state->written = 0;
}

/* Pays what the last token owes to S. */
static void settle(rl_cpu *cpu, const rl_state *state, rl_cpu_state_layer *l)
{
    const rl_shape *s = &cpu->shape;
    const uint32_t padded = rl_cpu_pad(s->delta_dim);
    if (!l->owes) return;
    for (uint32_t head = 0; head < s->n_value_head; head++) {
        const float *owed =
            l->owed[state->current] + (size_t)head * rl_cpu_owed_width(s->delta_dim);
        cpu->stages->settle(&(rl_cpu_owed){
            .d = s->delta_dim,
            .state = l->delta[state->current_delta] + (size_t)head * padded * s->delta_dim,
            .decay = owed[2 * padded],
            .k = owed,
            .e = owed + padded,
        });
    }
    l->owes = false;
}

/* ---- exchange form ---------------------------------------------------------------------------- */

/* Copies S between [Hv][D][D] and the blocks; `in` moves it inside. */
static void move_delta(const rl_shape *s, float *blocks, float *plain, bool in)
{
    const uint32_t d = s->delta_dim, padded = rl_cpu_pad(d);
    for (uint32_t head = 0; head < s->n_value_head; head++)
        for (uint32_t n = 0; n < d; n++)
            for (uint32_t v = 0; v < d; v++) {
                float *block =
                    &blocks[(size_t)head * padded * d +
                            ((size_t)(v / RL_CPU_LANES) * d + n) * RL_CPU_LANES + v % RL_CPU_LANES];
                float *other = &plain[((size_t)head * d + n) * d + v];
                if (in)
                    *block = *other;
                else
                    *other = *block;
            }
}

/* Copies the first n positions between [n][n_head_kv][d] and the cache. */
static void move_cache(const rl_shape *s, const rl_state *state, uint8_t *cache, uint8_t *plain,
                       uint32_t n, bool keys, bool in)
{
    const uint32_t d = s->head_dim, padded = rl_cpu_pad(d);
    const size_t width = value_bytes(keys ? state->params.key_type : state->params.value_type);
    const size_t head_values = (size_t)state->padded_ctx * (keys ? d : padded);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t head = 0; head < s->n_head_kv; head++) {
            uint8_t *row = plain + ((size_t)t * s->n_head_kv + head) * d * width;
            uint8_t *base = cache + head * head_values * width;
            if (!keys) {
                uint8_t *at = base + (size_t)t * padded * width;
                memcpy(in ? at : row, in ? row : at, d * width);
                continue;
            }
            uint8_t *at =
                base + ((size_t)(t / RL_CPU_LANES) * d * RL_CPU_LANES + t % RL_CPU_LANES) * width;
            for (uint32_t i = 0; i < d; i++, at += RL_CPU_LANES * width, row += width)
                memcpy(in ? at : row, in ? row : at, width);
        }
}

/* Both directions: `bytes` is written to when `in` is false. Returns the bytes moved. */
static uint64_t move_part(rl_cpu *cpu, const rl_state *state, uint32_t layer, rl_state_part part,
                          uint32_t n_tokens, void *bytes, bool in)
{
    const rl_shape *s = &cpu->shape;
    RL_ASSERT(layer < s->n_layer);
    rl_cpu_state_layer *l = &state->layers[layer];
    const bool recurrent = part == RL_STATE_CONV || part == RL_STATE_DELTA;
    RL_ASSERT(cpu->net->layers[layer].recurrent == recurrent);
    if (part == RL_STATE_CONV) {
        const size_t size = (size_t)(s->conv_taps - 1) * rl_shape_conv_channels(s) * sizeof(float);
        float *conv = l->conv[state->current];
        memcpy(in ? (void *)conv : bytes, in ? bytes : (void *)conv, size);
        return size;
    }
    if (part == RL_STATE_DELTA) {
        settle(cpu, state, l);
        move_delta(s, l->delta[state->current_delta], bytes, in);
        return (uint64_t)s->n_value_head * s->delta_dim * s->delta_dim * sizeof(float);
    }
    RL_ASSERT(n_tokens <= state->params.n_ctx);
    const bool keys = part == RL_STATE_KEY;
    move_cache(s, state, keys ? l->keys : l->values, bytes, n_tokens, keys, in);
    return 0; /* no recurrent state */
}

rl_status rl_cpu_state_read(rl_backend *be, const rl_state *state, uint32_t layer,
                            rl_state_part part, uint32_t n_tokens, void *out, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    cpu->counters.state_bytes_copied += move_part(cpu, state, layer, part, n_tokens, out, false);
    return RL_OK;
}

rl_status rl_cpu_state_write(rl_backend *be, rl_state *state, uint32_t layer, rl_state_part part,
                             uint32_t n_tokens, const void *bytes, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    /* Moving inside only reads `bytes`. */
    cpu->counters.state_bytes_copied +=
        move_part(cpu, state, layer, part, n_tokens, (void *)(uintptr_t)bytes, true);
    return RL_OK;
}
