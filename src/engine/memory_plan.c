/* memory_plan.c - engine/memory_plan.h: sums over shapes, nothing is taken here. */
#include "engine/memory_plan.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "cache/preload.h"
#include "engine/session.h"
#include "model/summary.h"
#include "text/tokenizer.h"

static const struct {
    const char *key, *name;
} parts[RL_MEMORY_N_PARTS] = {
    [RL_MEMORY_DENSE] = { "dense", "dense weights" },
    [RL_MEMORY_EMBEDDING] = { "embedding", "token embedding" },
    [RL_MEMORY_POOL] = { "pool", "expert pool" },
    [RL_MEMORY_KV] = { "attention_cache", "attention keys and values" },
    [RL_MEMORY_STATE] = { "state", "recurrent state, two copies" },
    [RL_MEMORY_TOKENIZER] = { "tokenizer", "tokenizer and file directory" },
    [RL_MEMORY_BATCH] = { "batch", "prefill buffers" },
    [RL_MEMORY_READ] = { "read_buffers", "read buffers" },
};

const char *rl_memory_part_key(rl_memory_part part)
{
    RL_ASSERT(part < RL_MEMORY_N_PARTS);
    return parts[part].key;
}

const char *rl_memory_part_name(rl_memory_part part)
{
    RL_ASSERT(part < RL_MEMORY_N_PARTS);
    return parts[part].name;
}

void rl_memory_shape(rl_shape *out, const rl_config *c)
{
    *out = (rl_shape){
        .n_layer = c->n_layer,
        .n_embd = c->n_embd,
        .n_vocab = c->n_vocab,
        .rms_eps = c->rms_eps,
        .n_head = c->n_head,
        .n_head_kv = c->n_head_kv,
        .head_dim = c->head_dim,
        .n_rot = c->n_rot,
        .rope_base = c->rope_base,
        .conv_taps = c->conv_taps,
        .n_key_head = c->n_key_head,
        .n_value_head = c->n_value_head,
        .delta_dim = c->delta_dim,
        .n_expert = c->n_expert,
        .n_expert_used = c->n_expert_used,
        .n_ff_expert = c->n_ff_expert,
        .n_ff_shared = c->n_ff_shared,
    };
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Where in its block a matrix begins, if that is so for every expert and vectors may begin there. */
static uint64_t place_in_block(const rl_slice *first, const rl_slice *second)
{
    enum { VECTOR = 32 };
    uint64_t place = first->offset % RL_EXPERT_BLOCK;
    return second->offset % RL_EXPERT_BLOCK == place && place % VECTOR == 0 ? place : 0;
}

static bool are_large(const rl_slice matrices[RL_EXPERT_MATRICES])
{
    bool large = true;
    for (uint32_t m = 0; m < RL_EXPERT_MATRICES; m++)
        large = large && matrices[m].bytes >= RL_EXPERT_LARGE &&
                matrices[m].bytes % RL_EXPERT_BLOCK == 0;
    return large;
}

rl_expert_layout rl_memory_expert_layout(const rl_weights *weights, uint32_t layer, bool in_place)
{
    const rl_weights_layer *l = &weights->layers[layer];
    rl_slice first[RL_EXPERT_MATRICES], second[RL_EXPERT_MATRICES];
    rl_weights_expert(weights, layer, 0, first);
    rl_weights_expert(weights, layer, weights->config->n_expert > 1 ? 1 : 0, second);
    rl_expert_layout out = {
        .gate_type = rl_weights_expert_type(l, RL_EXPERT_GATE),
        .up_type = rl_weights_expert_type(l, RL_EXPERT_UP),
        .down_type = rl_weights_expert_type(l, RL_EXPERT_DOWN),
    };
    uint64_t *const offsets[] = { &out.gate_offset, &out.up_offset, &out.down_offset };
    bool large = are_large(first);
    for (uint32_t m = 0; m < RL_EXPERT_MATRICES; m++) {
        *offsets[m] = out.bytes + (large && in_place ? place_in_block(&first[m], &second[m]) : 0);
        out.bytes += rl_align_up(first[m].bytes, RL_EXPERT_ALIGN) + (large ? RL_EXPERT_BLOCK : 0);
    }
    return out;
}

/* Where the places agree, what a read brings beside the matrix is what its own blocks have room for,
 * as long as it is less than a block on either side. */
size_t rl_memory_expert_slack(const rl_slice matrices[RL_EXPERT_MATRICES])
{
    return are_large(matrices) ? RL_EXPERT_BLOCK - 1 : 0;
}

size_t rl_memory_largest_range(const rl_weights *weights)
{
    uint64_t largest = 1;
    rl_slice slices[RL_EXPERT_MATRICES];
    for (uint32_t layer = 0; layer < weights->config->n_layer; layer++) {
        rl_weights_expert(weights, layer, 0, slices);
        for (uint32_t m = 0; m < RL_EXPERT_MATRICES; m++)
            if (slices[m].bytes > largest) largest = slices[m].bytes;
    }
    return (size_t)largest;
}

rl_status rl_memory_plan_pool(rl_cache_plan *out, const rl_weights *weights, uint64_t budget_bytes,
                              rl_error *err)
{
    const rl_config *c = weights->config;
    uint64_t *layer_bytes = calloc(c->n_layer, sizeof *layer_bytes);
    if (!layer_bytes) return rl_fail(err, RL_NOMEM, "no memory for the plan of the expert pool");
    for (uint32_t i = 0; i < c->n_layer; i++)
        layer_bytes[i] = rl_memory_expert_layout(weights, i, false).bytes;
    rl_cache_plan_params params = {
        .n_layer = c->n_layer,
        .n_expert = c->n_expert,
        .n_expert_used = c->n_expert_used,
        .layer_bytes = layer_bytes,
        .align = RL_EXPERT_ALIGN,
        .budget_bytes = budget_bytes,
        .name = rl_gguf_path(weights->gguf),
    };
    rl_status status = rl_cache_plan_init(out, &params, err);
    free(layer_bytes);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Activations, logits, and the lists of engine.c, session.c and experts.c. */
static uint64_t batch_bytes(const rl_memory_request *r, const rl_shape *shape, uint32_t n_batch,
                            uint32_t n_ctx)
{
    uint64_t pairs = (uint64_t)n_batch * shape->n_expert_used;
    return r->ops->batch_bytes(shape, n_batch) + 2 * sizeof(uint32_t) * pairs +
           sizeof(float) * (RL_HEAD_ROWS + 1) * (uint64_t)shape->n_vocab +
           sizeof(uint32_t) * (uint64_t)n_ctx;
}

static uint64_t read_bytes(const rl_memory_request *r)
{
    uint64_t largest = rl_memory_largest_range(r->weights);
    uint64_t bytes = rl_stream_buffer_bytes((size_t)largest);
    if (!r->pool || !r->pool->full) return bytes;
    uint64_t chunk = largest > RL_PRELOAD_CHUNK_BYTES ? largest : RL_PRELOAD_CHUNK_BYTES;
    uint64_t chunks = RL_PRELOAD_DEPTH * chunk;
    return bytes + (chunks < r->pool->full_bytes ? chunks : r->pool->full_bytes);
}

void rl_memory_plan_make(rl_memory_plan *out, const rl_memory_request *r)
{
    RL_ASSERT(out && r->weights && r->ops);
    const rl_config *c = r->weights->config;
    rl_summary summary;
    rl_shape shape;
    rl_summary_make(&summary, r->weights);
    rl_memory_shape(&shape, c);
    uint32_t n_ctx = r->n_ctx ? r->n_ctx : RL_DEFAULT_CONTEXT;
    uint32_t n_batch = r->n_batch ? r->n_batch : RL_DEFAULT_BATCH;
    if (n_ctx > c->n_ctx_train) n_ctx = c->n_ctx_train;
    if (n_batch > c->n_ctx_train) n_batch = c->n_ctx_train;
    *out = (rl_memory_plan){ .n_ctx = n_ctx, .n_batch = n_batch };
    out->bytes[RL_MEMORY_DENSE] = summary.dense_bytes;
    out->bytes[RL_MEMORY_EMBEDDING] = summary.embedding_bytes;
    out->bytes[RL_MEMORY_POOL] = r->pool ? r->pool->bytes : 0;
    /* kv_position_bytes: keys and values, both f16 */
    out->bytes[RL_MEMORY_KV] =
        summary.kv_position_bytes / 2 * ((r->key_f32 ? 2 : 1) + (r->value_f32 ? 2 : 1)) * n_ctx;
    out->bytes[RL_MEMORY_STATE] = summary.delta_state_bytes + summary.conv_state_bytes;
    out->bytes[RL_MEMORY_TOKENIZER] =
        rl_gguf_memory_bytes(r->weights->gguf) + rl_tokenizer_planned_bytes(r->weights->gguf);
    out->bytes[RL_MEMORY_BATCH] = batch_bytes(r, &shape, n_batch, n_ctx);
    out->bytes[RL_MEMORY_READ] = read_bytes(r);
    for (int i = 0; i < RL_MEMORY_N_PARTS; i++)
        out->total += out->bytes[i];
    out->checkpoints = RL_MAX_CHECKPOINTS *
                       (out->bytes[RL_MEMORY_STATE] / 2 + sizeof(float) * (uint64_t)shape.n_vocab);
}
