/* oracle_backend.c - the oracle's table: memory, states, and the simple stages. */
#include "backend/oracle/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "quant/quant.h"

static oracle *self(rl_backend *be)
{
    return (oracle *)be;
}

/* ---- opening and memory ---------------------------------------------------------------------- */

static void oracle_close(rl_backend *be)
{
    oracle *o = self(be);
    if (!o) return;
    rl_pool_destroy(o->pool);
    for (uint32_t i = 0; i < o->n_weights; i++)
        free(o->weights[i]);
    free(o->weights);
    for (uint32_t i = 0; i < o->n_classes; i++)
        free(o->classes[i].memory);
    free(o->classes);
    free(o->residency);
    free(o->row_scratch);
    double *buffers[] = { o->x,     o->h,        o->in,         o->z,     o->ba,     o->key,
                          o->value, o->y,        o->router,     o->scale, o->shared, o->act,
                          o->act2,  o->gathered, o->expert_out, o->logits };
    for (size_t i = 0; i < RL_COUNT_OF(buffers); i++)
        free(buffers[i]);
    free(o->ids);
    free(o->weights_out);
    free(o);
}

static rl_status oracle_open(rl_backend **out, const rl_backend_params *params, rl_error *err)
{
    *out = NULL;
    oracle *o = calloc(1, sizeof *o);
    if (!o) return rl_fail(err, RL_NOMEM, "no memory for the oracle backend");
    o->base.ops = &rl_backend_oracle;
    rl_status status =
        rl_pool_create(&o->pool, params->n_threads ? params->n_threads : rl_cpu_count(), err);
    if (status) {
        oracle_close(&o->base);
        return status;
    }
    *out = &o->base;
    return RL_OK;
}

static void oracle_get_caps(const rl_backend *be, rl_backend_caps *out)
{
    *out = (rl_backend_caps){ .slots_host_writable = true };
    snprintf(out->description, sizeof out->description, "oracle, %u threads",
             rl_pool_threads(((const oracle *)be)->pool));
}

static void oracle_get_counters(const rl_backend *be, rl_backend_counters *out)
{
    *out = ((const oracle *)be)->counters;
}

static bool oracle_supports(const rl_backend *be, uint32_t type, bool expert)
{
    (void)be;
    (void)expert;
    return rl_quant_find(type) != NULL;
}

static rl_status oracle_weight_alloc(rl_backend *be, rl_weight *weight, const char *name,
                                     rl_error *err)
{
    oracle *o = self(be);
    bool fits = rl_quant_bytes(rl_quant_find(weight->type), (uint64_t)weight->rows * weight->cols,
                               &weight->bytes);
    RL_ASSERT(fits);
    uint8_t **list = realloc(o->weights, (o->n_weights + 1) * sizeof *list);
    if (!list) return rl_fail(err, RL_NOMEM, "no memory for tensor %s", name);
    o->weights = list;
    uint8_t *memory = malloc(weight->bytes);
    if (!memory)
        return rl_fail(err, RL_NOMEM, "no memory for tensor %s (%llu bytes)", name,
                       (unsigned long long)weight->bytes);
    o->weights[o->n_weights++] = memory;
    weight->host = memory;
    weight->address = 0;
    return RL_OK;
}

static rl_status oracle_weight_write(rl_backend *be, const rl_weight *weight, uint64_t offset,
                                     const void *bytes, uint64_t n, rl_error *err)
{
    (void)be;
    (void)err;
    RL_ASSERT(offset + n <= weight->bytes);
    memcpy((uint8_t *)weight->host + offset, bytes, n);
    return RL_OK;
}

static rl_status oracle_pool_create(rl_backend *be, uint32_t n_classes, const uint64_t *bytes,
                                    const uint32_t *count, rl_error *err)
{
    oracle *o = self(be);
    RL_ASSERT(!o->classes);
    o->classes = calloc(n_classes, sizeof *o->classes);
    if (!o->classes) return rl_fail(err, RL_NOMEM, "no memory for the expert pool");
    o->n_classes = n_classes;
    for (uint32_t i = 0; i < n_classes; i++) {
        o->classes[i] = (oracle_slot_class){ .bytes = bytes[i], .count = count[i] };
        o->classes[i].memory = calloc(count[i], bytes[i]);
        if (!o->classes[i].memory)
            return rl_fail(err, RL_NOMEM, "no memory for %u expert slots of %llu bytes", count[i],
                           (unsigned long long)bytes[i]);
    }
    return RL_OK;
}

static void *oracle_slot_host(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    const oracle *o = (const oracle *)be;
    RL_ASSERT(slot_class < o->n_classes && index < o->classes[slot_class].count);
    return o->classes[slot_class].memory + o->classes[slot_class].bytes * index;
}

static uint64_t oracle_slot_address(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    return (uint64_t)(uintptr_t)oracle_slot_host(be, slot_class, index);
}

static rl_status oracle_slot_write(rl_backend *be, uint32_t slot_class, uint32_t index,
                                   uint64_t offset, const void *bytes, uint64_t n, rl_error *err)
{
    (void)err;
    RL_ASSERT(offset + n <= self(be)->classes[slot_class].bytes);
    memcpy((uint8_t *)oracle_slot_host(be, slot_class, index) + offset, bytes, n);
    return RL_OK;
}

static void oracle_residency_set(rl_backend *be, uint32_t layer, uint32_t expert, uint64_t address)
{
    oracle *o = self(be);
    o->residency[(size_t)layer * o->net->shape.n_expert + expert] =
        (const uint8_t *)(uintptr_t)address;
}

static uint64_t oracle_residency_get(const rl_backend *be, uint32_t layer, uint32_t expert)
{
    const oracle *o = (const oracle *)be;
    return (uintptr_t)o->residency[(size_t)layer * o->net->shape.n_expert + expert];
}

/* ---- attach ---------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Values per token of each activation buffer, in the order of the fields of `oracle`. */
typedef struct widths {
    uint32_t in, y, ff;
} widths;

static widths widths_of(const rl_shape *s)
{
    return (widths){
        .in = larger(rl_shape_conv_channels(s), 2 * s->n_head * s->head_dim),
        .y = larger(s->n_value_head * s->delta_dim, s->n_head * s->head_dim),
        .ff = larger(s->n_ff_expert, s->n_ff_shared),
    };
}

static rl_status oracle_attach(rl_backend *be, const rl_net *net, uint32_t max_batch, rl_error *err)
{
    oracle *o = self(be);
    const rl_shape *s = &net->shape;
    RL_ASSERT(!o->net && max_batch >= 1);
    if (s->conv_taps > 16 || s->delta_dim > 1024 || s->head_dim > 1024)
        return rl_fail(err, RL_UNSUPPORTED,
                       "oracle: heads of more than 1024 values or more than 16 convolution taps");
    o->net = net;
    o->max_batch = max_batch;
    widths w = widths_of(s);
    o->longest_row = larger(larger(s->n_embd, w.y), w.ff);
    struct {
        double **buffer;
        uint64_t per_token;
    } buffers[] = {
        { &o->x, s->n_embd },
        { &o->h, s->n_embd },
        { &o->in, w.in },
        { &o->z, (uint64_t)s->n_value_head * s->delta_dim },
        { &o->ba, 2 * (uint64_t)s->n_value_head },
        { &o->key, (uint64_t)s->n_head_kv * s->head_dim },
        { &o->value, (uint64_t)s->n_head_kv * s->head_dim },
        { &o->y, w.y },
        { &o->router, s->n_expert },
        { &o->scale, 1 },
        { &o->shared, s->n_embd },
        { &o->act, w.ff },
        { &o->act2, w.ff },
        { &o->gathered, s->n_embd },
        { &o->expert_out, (uint64_t)s->n_expert_used * s->n_embd },
    };
    bool complete = true;
    for (size_t i = 0; i < RL_COUNT_OF(buffers); i++) {
        *buffers[i].buffer = calloc(max_batch, buffers[i].per_token * sizeof(double));
        complete = complete && *buffers[i].buffer;
    }
    o->logits = calloc((size_t)RL_HEAD_ROWS * s->n_vocab, sizeof *o->logits);
    o->ids = calloc((size_t)max_batch * s->n_expert_used, sizeof *o->ids);
    o->weights_out = calloc((size_t)max_batch * s->n_expert_used, sizeof *o->weights_out);
    o->row_scratch = calloc((size_t)rl_pool_threads(o->pool) * o->longest_row, sizeof(float));
    o->residency = calloc((size_t)s->n_layer * s->n_expert, sizeof *o->residency);
    if (!complete || !o->logits || !o->ids || !o->weights_out || !o->row_scratch || !o->residency)
        return rl_fail(err, RL_NOMEM, "no memory for batches of %u tokens", max_batch);
    return RL_OK;
}

static uint64_t oracle_batch_bytes(const rl_shape *s, uint32_t max_batch)
{
    widths w = widths_of(s);
    uint64_t per_token = 4 * (uint64_t)s->n_embd + w.in + w.y + 2 * (uint64_t)w.ff + 1 +
                         (uint64_t)s->n_value_head * (s->delta_dim + 2) +
                         2 * (uint64_t)s->n_head_kv * s->head_dim + s->n_expert +
                         (uint64_t)s->n_expert_used * (s->n_embd + 1);
    return (per_token * max_batch + (uint64_t)RL_HEAD_ROWS * s->n_vocab) * sizeof(double);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void oracle_state_destroy(rl_backend *be, rl_state *state)
{
    (void)be;
    if (!state) return;
    for (uint32_t i = 0; state->layers && i < state->n_layer; i++) {
        oracle_layer_state *l = &state->layers[i];
        free(l->conv[0]);
        free(l->conv[1]);
        free(l->delta[0]);
        free(l->delta[1]);
        free(l->key);
        free(l->value);
    }
    free(state->layers);
    free(state);
}

/* Bytes of one part in exchange form, which is also how it lies here. */
static uint64_t part_bytes(const oracle *o, const rl_state_params *p, rl_state_part part,
                           uint32_t n_tokens)
{
    const rl_shape *s = &o->net->shape;
    uint64_t row = (uint64_t)s->n_head_kv * s->head_dim * n_tokens;
    switch (part) {
    case RL_STATE_CONV: return (uint64_t)(s->conv_taps - 1) * rl_shape_conv_channels(s) * 4;
    case RL_STATE_DELTA: return (uint64_t)s->n_value_head * s->delta_dim * s->delta_dim * 4;
    case RL_STATE_KEY: return row * (p->key_type == 0 ? 4 : 2);
    case RL_STATE_VALUE: return row * (p->value_type == 0 ? 4 : 2);
    }
    return 0;
}

static rl_status oracle_state_create(rl_backend *be, rl_state **out, const rl_state_params *params,
                                     rl_error *err)
{
    oracle *o = self(be);
    *out = NULL;
    RL_ASSERT(params->key_type <= 1 && params->value_type <= 1);
    rl_state *state = calloc(1, sizeof *state);
    if (!state) return rl_fail(err, RL_NOMEM, "no memory for a session");
    state->params = *params;
    state->n_layer = o->net->shape.n_layer;
    state->layers = calloc(state->n_layer, sizeof *state->layers);
    bool complete = state->layers != NULL;
    for (uint32_t i = 0; complete && i < state->n_layer; i++) {
        oracle_layer_state *l = &state->layers[i];
        if (o->net->layers[i].recurrent) {
            for (uint32_t c = 0; c < 2; c++) {
                l->conv[c] = calloc(1, part_bytes(o, params, RL_STATE_CONV, 0) + 1);
                l->delta[c] = calloc(1, part_bytes(o, params, RL_STATE_DELTA, 0));
                complete = complete && l->conv[c] && l->delta[c];
            }
        } else {
            l->key = malloc(part_bytes(o, params, RL_STATE_KEY, params->n_ctx));
            l->value = malloc(part_bytes(o, params, RL_STATE_VALUE, params->n_ctx));
            complete = l->key && l->value;
        }
    }
    if (!complete) {
        oracle_state_destroy(be, state);
        return rl_fail(err, RL_NOMEM, "no memory for a session of %u tokens", params->n_ctx);
    }
    *out = state;
    return RL_OK;
}

static uint8_t *part_memory(const rl_state *state, uint32_t layer, rl_state_part part)
{
    oracle_layer_state *l = &state->layers[layer];
    switch (part) {
    case RL_STATE_CONV: return (uint8_t *)l->conv[state->current];
    case RL_STATE_DELTA: return (uint8_t *)l->delta[state->current];
    case RL_STATE_KEY: return l->key;
    case RL_STATE_VALUE: return l->value;
    }
    return NULL;
}

static rl_status oracle_state_reset(rl_backend *be, rl_state *state, rl_error *err)
{
    oracle *o = self(be);
    (void)err;
    for (uint32_t i = 0; i < state->n_layer; i++) {
        if (!o->net->layers[i].recurrent) continue;
        memset(part_memory(state, i, RL_STATE_CONV), 0,
               part_bytes(o, &state->params, RL_STATE_CONV, 0));
        memset(part_memory(state, i, RL_STATE_DELTA), 0,
               part_bytes(o, &state->params, RL_STATE_DELTA, 0));
    }
    return RL_OK;
}

static void oracle_state_commit(rl_backend *be, rl_state *state)
{
    (void)be;
    state->current = !state->current;
}

static rl_status oracle_state_read(rl_backend *be, const rl_state *state, uint32_t layer,
                                   rl_state_part part, uint32_t n_tokens, void *out, rl_error *err)
{
    (void)err;
    RL_ASSERT(n_tokens <= state->params.n_ctx);
    memcpy(out, part_memory(state, layer, part),
           part_bytes(self(be), &state->params, part, n_tokens));
    return RL_OK;
}

static rl_status oracle_state_write(rl_backend *be, rl_state *state, uint32_t layer,
                                    rl_state_part part, uint32_t n_tokens, const void *bytes,
                                    rl_error *err)
{
    (void)err;
    RL_ASSERT(n_tokens <= state->params.n_ctx);
    memcpy(part_memory(state, layer, part), bytes,
           part_bytes(self(be), &state->params, part, n_tokens));
    return RL_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void project(oracle *o, const rl_weight *w, const double *x, double *y)
{
    oracle_matmul(o, w, x, o->batch.n, y);
    o->counters.dense_passes++;
}

static rl_status oracle_begin(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    oracle *o = self(be);
    (void)err;
    RL_ASSERT(batch->n >= 1 && batch->n <= o->max_batch);
    o->batch = *batch;
    o->counters.tokens += batch->n;
    return RL_OK;
}

static rl_status oracle_embed(rl_backend *be, rl_error *err)
{
    oracle *o = self(be);
    (void)err;
    uint32_t width = o->net->shape.n_embd;
    for (uint32_t t = 0; t < o->batch.n; t++) {
        oracle_decode_row(&o->net->embedding, o->batch.tokens[t], o->row_scratch);
        for (uint32_t i = 0; i < width; i++)
            o->x[(size_t)t * width + i] = o->row_scratch[i];
    }
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_delta_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    const rl_layer *l = &o->net->layers[layer];
    (void)err;
    oracle_rms_norm(o->x, &l->mix_norm, o->net->shape.rms_eps, o->batch.n, o->h);
    project(o, &l->delta.qkv, o->h, o->in);
    project(o, &l->delta.gate, o->h, o->z);
    project(o, &l->delta.ba, o->h, o->ba);
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_delta_step_stage(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    oracle_delta_step(self(be), layer);
    self(be)->counters.stages++;
    return RL_OK;
}

static rl_status oracle_attn_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    const rl_layer *l = &o->net->layers[layer];
    (void)err;
    oracle_rms_norm(o->x, &l->mix_norm, o->net->shape.rms_eps, o->batch.n, o->h);
    project(o, &l->attn.q, o->h, o->in);
    project(o, &l->attn.k, o->h, o->key);
    project(o, &l->attn.v, o->h, o->value);
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_attn_step_stage(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    oracle_attn_step(self(be), layer);
    self(be)->counters.stages++;
    return RL_OK;
}

static void add_to_hidden(oracle *o, const double *more)
{
    for (size_t i = 0; i < (size_t)o->batch.n * o->net->shape.n_embd; i++)
        o->x[i] += more[i];
}

static rl_status oracle_mix_out(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    const rl_layer *l = &o->net->layers[layer];
    (void)err;
    project(o, l->recurrent ? &l->delta.out : &l->attn.out, o->y, o->h);
    add_to_hidden(o, o->h);
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_moe_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    const rl_layer *l = &o->net->layers[layer];
    (void)err;
    oracle_rms_norm(o->x, &l->moe_norm, o->net->shape.rms_eps, o->batch.n, o->h);
    project(o, &l->router, o->h, o->router);
    project(o, &l->shared_scale, o->h, o->scale);
    for (uint32_t t = 0; t < o->batch.n; t++)
        o->scale[t] = oracle_sigmoid(o->scale[t]);
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                              rl_error *err)
{
    oracle *o = self(be);
    const rl_shape *s = &o->net->shape;
    uint32_t k = s->n_expert_used;
    (void)layer;
    (void)err;
    float logits[1024];
    RL_ASSERT(s->n_expert <= RL_COUNT_OF(logits));
    for (uint32_t t = 0; t < o->batch.n; t++) {
        for (uint32_t e = 0; e < s->n_expert; e++)
            logits[e] = (float)o->router[(size_t)t * s->n_expert + e];
        uint32_t *chosen = o->ids + (size_t)t * k;
        float *weights = o->weights_out + (size_t)t * k;
        if (forced) {
            memcpy(chosen, forced + (size_t)t * k, k * sizeof *chosen);
            rl_router_weights(logits, chosen, k, weights);
        } else {
            rl_router_topk(logits, s->n_expert, k, chosen, weights);
        }
    }
    memcpy(ids, o->ids, (size_t)o->batch.n * k * sizeof *ids);
    o->counters.stages++;
    return RL_OK;
}

/* out [n][H] = down( silu(gate h) * (up h) ) */
static void gated_mlp(oracle *o, const rl_weight *gate, const rl_weight *up, const rl_weight *down,
                      const double *h, uint32_t n, double *out)
{
    oracle_matmul(o, gate, h, n, o->act);
    oracle_matmul(o, up, h, n, o->act2);
    for (size_t i = 0; i < (size_t)n * gate->rows; i++)
        o->act[i] = oracle_silu(o->act[i]) * o->act2[i];
    oracle_matmul(o, down, o->act, n, out);
}

static rl_status oracle_moe_shared(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    const rl_layer *l = &o->net->layers[layer];
    uint32_t width = o->net->shape.n_embd;
    (void)err;
    gated_mlp(o, &l->shared_gate, &l->shared_up, &l->shared_down, o->h, o->batch.n, o->shared);
    for (uint32_t t = 0; t < o->batch.n; t++)
        for (uint32_t i = 0; i < width; i++)
            o->shared[(size_t)t * width + i] *= o->scale[t];
    o->counters.dense_passes += 3;
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_moe_experts(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                                    uint32_t n_groups, rl_error *err)
{
    oracle *o = self(be);
    const rl_shape *s = &o->net->shape;
    const rl_expert_layout *x = &o->net->layers[layer].expert;
    uint32_t width = s->n_embd, k = s->n_expert_used;
    (void)err;
    for (uint32_t g = 0; g < n_groups; g++) {
        uint8_t *slot =
            (uint8_t *)(uintptr_t)o->residency[(size_t)layer * s->n_expert + groups[g].expert];
        RL_ASSERT(slot);
        rl_weight gate = { .type = x->gate_type, .rows = s->n_ff_expert, .cols = width };
        rl_weight up = { .type = x->up_type, .rows = s->n_ff_expert, .cols = width };
        rl_weight down = { .type = x->down_type, .rows = width, .cols = s->n_ff_expert };
        gate.host = slot + x->gate_offset;
        up.host = slot + x->up_offset;
        down.host = slot + x->down_offset;
        for (uint32_t i = 0; i < groups[g].n; i++)
            memcpy(o->gathered + (size_t)i * width,
                   o->h + (size_t)(groups[g].assign[i] / k) * width, width * sizeof(double));
        gated_mlp(o, &gate, &up, &down, o->gathered, groups[g].n, o->gathered);
        for (uint32_t i = 0; i < groups[g].n; i++)
            memcpy(o->expert_out + (size_t)groups[g].assign[i] * width,
                   o->gathered + (size_t)i * width, width * sizeof(double));
        o->counters.expert_passes++;
    }
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_moe_out(rl_backend *be, uint32_t layer, rl_error *err)
{
    oracle *o = self(be);
    uint32_t width = o->net->shape.n_embd, k = o->net->shape.n_expert_used;
    (void)layer;
    (void)err;
    for (uint32_t t = 0; t < o->batch.n; t++)
        for (uint32_t i = 0; i < width; i++) {
            double sum = o->shared[(size_t)t * width + i];
            for (uint32_t j = 0; j < k; j++)
                sum += (double)o->weights_out[(size_t)t * k + j] *
                       o->expert_out[((size_t)t * k + j) * width + i];
            o->x[(size_t)t * width + i] += sum;
        }
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_head(rl_backend *be, uint32_t first, uint32_t rows, float *logits,
                             rl_error *err)
{
    oracle *o = self(be);
    const rl_shape *s = &o->net->shape;
    (void)err;
    RL_ASSERT(rows <= RL_HEAD_ROWS && first + rows <= o->batch.n);
    oracle_rms_norm(o->x + (size_t)first * s->n_embd, &o->net->output_norm, s->rms_eps, rows, o->h);
    oracle_matmul(o, &o->net->head, o->h, rows, o->logits);
    o->counters.dense_passes++;
    for (size_t i = 0; i < (size_t)rows * s->n_vocab; i++)
        logits[i] = (float)o->logits[i];
    o->head_rows = rows;
    o->counters.stages++;
    return RL_OK;
}

static rl_status oracle_end(rl_backend *be, rl_error *err)
{
    (void)be;
    (void)err;
    return RL_OK;
}

static rl_status oracle_read_tap(rl_backend *be, rl_tap tap, float *out, rl_error *err)
{
    oracle *o = self(be);
    const rl_shape *s = &o->net->shape;
    const double *from = NULL;
    size_t n = 0;
    (void)err;
    switch (tap) {
    case RL_TAP_HIDDEN: from = o->x, n = (size_t)o->batch.n * s->n_embd; break;
    case RL_TAP_ROUTER: from = o->router, n = (size_t)o->batch.n * s->n_expert; break;
    case RL_TAP_FINAL_NORM: from = o->h, n = (size_t)o->head_rows * s->n_embd; break;
    case RL_TAP_ROUTE_WEIGHTS:
        memcpy(out, o->weights_out, (size_t)o->batch.n * s->n_expert_used * sizeof *out);
        return RL_OK;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (float)from[i];
    return RL_OK;
}

const rl_backend_ops rl_backend_oracle = {
    .name = "oracle",
    .open = oracle_open,
    .close = oracle_close,
    .get_caps = oracle_get_caps,
    .get_counters = oracle_get_counters,
    .supports = oracle_supports,
    .weight_alloc = oracle_weight_alloc,
    .weight_write = oracle_weight_write,
    .pool_create = oracle_pool_create,
    .slot_address = oracle_slot_address,
    .slot_host = oracle_slot_host,
    .slot_write = oracle_slot_write,
    .residency_set = oracle_residency_set,
    .residency_get = oracle_residency_get,
    .attach = oracle_attach,
    .batch_bytes = oracle_batch_bytes,
    .state_create = oracle_state_create,
    .state_destroy = oracle_state_destroy,
    .state_reset = oracle_state_reset,
    .state_commit = oracle_state_commit,
    .state_read = oracle_state_read,
    .state_write = oracle_state_write,
    .begin = oracle_begin,
    .embed = oracle_embed,
    .delta_in = oracle_delta_in,
    .delta_step = oracle_delta_step_stage,
    .attn_in = oracle_attn_in,
    .attn_step = oracle_attn_step_stage,
    .mix_out = oracle_mix_out,
    .moe_in = oracle_moe_in,
    .route = oracle_route,
    .moe_shared = oracle_moe_shared,
    .moe_experts = oracle_moe_experts,
    .moe_out = oracle_moe_out,
    .head = oracle_head,
    .end = oracle_end,
    .read_tap = oracle_read_tap,
};
