/* load.c - from tensors of a file to weights of a backend.
 *
 * Matrices keep their type and go over in pieces; vectors that every backend wants as F32 (norms,
 * convolution taps, gates) are decoded on the way. The legacy fused projection is taken apart row
 * by row, so that no backend ever sees it. On the way a sample of every tensor is hashed: the
 * fingerprint tells models apart that share their shapes. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/engine.h"
#include "engine/hash.h"
#include "quant/quant.h"

enum { PIECE = 4 << 20, SAMPLE = 4096 };

typedef struct loader {
    rl_engine *engine;
    uint8_t *piece; /* [PIECE] */
    uint64_t done, total;
} loader;

static rl_status read_tensor(const rl_engine *e, const rl_gguf_tensor *t, uint64_t at, void *out,
                             size_t bytes, rl_error *err)
{
    rl_error why = { "" };
    rl_status status =
        rl_file_read(rl_gguf_part(e->file, t->part), t->offset + at, out, bytes, &why);
    if (status) return rl_fail(err, status, "tensor %s: %.400s", t->name, why.text);
    return RL_OK;
}

static rl_status progress(loader *l, uint64_t bytes, rl_error *err)
{
    l->done += bytes;
    return rl_engine_progress(l->engine, "loading weights", l->done, l->total, err);
}

/* Every tensor that computes comes through here once. */
static rl_status check_type(const loader *l, const rl_gguf_tensor *t, bool expert, rl_error *err)
{
    if (l->engine->ops->supports(l->engine->be, t->type, expert)) return RL_OK;
    return rl_fail(err, RL_UNSUPPORTED, "%s: tensor %s is %s, which the %s backend cannot compute",
                   rl_gguf_path(l->engine->file), t->name, rl_quant_find(t->type)->name,
                   l->engine->ops->name);
}

/* A matrix as it is. */
static rl_status load_matrix(loader *l, const rl_gguf_tensor *t, rl_weight *out, rl_error *err)
{
    rl_engine *e = l->engine;
    *out = (rl_weight){ .type = t->type,
                        .cols = (uint32_t)t->dims[0],
                        .rows = (uint32_t)rl_tensor_rows(t) };
    rl_status status = check_type(l, t, false, err);
    if (!status) status = e->ops->weight_alloc(e->be, out, t->name, err);
    for (uint64_t at = 0; !status && at < t->bytes; at += PIECE) {
        size_t n = t->bytes - at < PIECE ? (size_t)(t->bytes - at) : PIECE;
        status = read_tensor(l->engine, t, at, l->piece, n, err);
        if (!status) status = e->ops->weight_write(e->be, out, at, l->piece, n, err);
        if (!status) status = progress(l, n, err);
    }
    return status;
}

/* A small tensor as F32, with the given number of columns. */
static rl_status load_f32(loader *l, const rl_gguf_tensor *t, uint32_t cols, rl_weight *out,
                          rl_error *err)
{
    rl_engine *e = l->engine;
    uint64_t n = t->dims[0] * rl_tensor_rows(t);
    RL_ASSERT(n % cols == 0);
    *out = (rl_weight){ .type = RL_QUANT_F32, .cols = cols, .rows = (uint32_t)(n / cols) };
    uint8_t *raw = malloc(t->bytes);
    float *values = malloc(n * sizeof *values);
    rl_status status = RL_OK;
    if (!raw || !values) status = rl_fail(err, RL_NOMEM, "no memory for tensor %s", t->name);
    if (!status) status = read_tensor(l->engine, t, 0, raw, t->bytes, err);
    if (!status) status = e->ops->weight_alloc(e->be, out, t->name, err);
    if (!status) {
        rl_quant_decode(rl_quant_find(t->type), raw, n, values);
        status = e->ops->weight_write(e->be, out, 0, values, n * sizeof *values, err);
    }
    if (!status) status = progress(l, t->bytes, err);
    free(raw);
    free(values);
    return status;
}

/* One modern projection out of the fused ssm_in: whole rows change places. */
static rl_status load_rows(loader *l, const rl_gguf_tensor *t, const char *name, uint32_t rows,
                           const rl_row_run *runs, uint32_t n_runs, rl_weight *out, rl_error *err)
{
    rl_engine *e = l->engine;
    uint64_t row_bytes = rl_tensor_row_bytes(t);
    *out = (rl_weight){ .type = t->type, .cols = (uint32_t)t->dims[0], .rows = rows };
    rl_status status = check_type(l, t, false, err);
    if (!status) status = e->ops->weight_alloc(e->be, out, name, err);
    for (uint32_t r = 0; !status && r < n_runs; r++) {
        uint64_t bytes = runs[r].rows * row_bytes;
        for (uint64_t at = 0; !status && at < bytes; at += PIECE) {
            size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
            status = read_tensor(l->engine, t, runs[r].source * row_bytes + at, l->piece, n, err);
            if (!status)
                status = e->ops->weight_write(e->be, out, runs[r].target * row_bytes + at, l->piece,
                                              n, err);
            if (!status) status = progress(l, n, err);
        }
    }
    return status;
}

static rl_status load_legacy(loader *l, const rl_gguf_tensor *t, rl_delta_weights *out,
                             rl_error *err)
{
    const rl_config *c = &l->engine->config;
    rl_row_run *runs = calloc(3 * (size_t)c->n_key_head, sizeof *runs);
    if (!runs) return rl_fail(err, RL_NOMEM, "no memory for the row map of tensor %s", t->name);
    uint32_t n = rl_weights_qkv_runs(c, runs);
    rl_status status =
        load_rows(l, t, "attn_qkv", rl_config_conv_channels(c), runs, n, &out->qkv, err);
    if (!status) {
        n = rl_weights_gate_runs(c, runs);
        status = load_rows(l, t, "attn_gate", rl_config_value_width(c), runs, n, &out->gate, err);
    }
    free(runs);
    return status;
}

static rl_status load_delta(loader *l, const rl_weights_layer *t, rl_delta_weights *out,
                            rl_error *err)
{
    const rl_config *c = &l->engine->config;
    rl_status status = RL_OK;
    if (t->ssm_in) {
        status = load_legacy(l, t->ssm_in, out, err);
    } else {
        status = load_matrix(l, t->qkv, &out->qkv, err);
        if (!status) status = load_matrix(l, t->gate, &out->gate, err);
    }
    if (!status) status = load_matrix(l, t->ba, &out->ba, err);
    if (!status) status = load_f32(l, t->conv, c->conv_taps, &out->conv, err);
    if (!status) status = load_f32(l, t->dt, c->n_value_head, &out->dt, err);
    if (!status) status = load_f32(l, t->a, c->n_value_head, &out->a, err);
    if (!status) status = load_f32(l, t->delta_norm, c->delta_dim, &out->norm, err);
    if (!status) status = load_matrix(l, t->delta_out, &out->out, err);
    return status;
}

static rl_status load_attention(loader *l, const rl_weights_layer *t, rl_attn_weights *out,
                                rl_error *err)
{
    uint32_t d = l->engine->config.head_dim;
    rl_status status = load_matrix(l, t->q, &out->q, err);
    if (!status) status = load_matrix(l, t->k, &out->k, err);
    if (!status) status = load_matrix(l, t->v, &out->v, err);
    if (!status) status = load_f32(l, t->q_norm, d, &out->q_norm, err);
    if (!status) status = load_f32(l, t->k_norm, d, &out->k_norm, err);
    if (!status) status = load_matrix(l, t->attn_out, &out->out, err);
    return status;
}

static rl_status load_layer(loader *l, uint32_t index, rl_error *err)
{
    rl_engine *e = l->engine;
    const rl_weights_layer *t = &e->tensors.layers[index];
    rl_layer *out = &e->net.layers[index];
    uint32_t width = e->config.n_embd;
    out->recurrent = e->config.recurrent[index];
    out->expert = rl_memory_expert_layout(&e->tensors, index, !e->caps.device_memory);
    const rl_gguf_tensor *experts[] = { t->gate_exps, t->up_exps, t->gate_up_exps, t->down_exps };
    rl_status status = RL_OK;
    for (uint32_t i = 0; !status && i < RL_COUNT_OF(experts); i++)
        if (experts[i]) status = check_type(l, experts[i], true, err);
    if (!status) status = load_f32(l, t->mix_norm, width, &out->mix_norm, err);
    if (!status) status = load_f32(l, t->moe_norm, width, &out->moe_norm, err);
    if (!status)
        status = out->recurrent ? load_delta(l, t, &out->delta, err)
                                : load_attention(l, t, &out->attn, err);
    if (!status) status = load_matrix(l, t->router, &out->router, err);
    if (!status) status = load_f32(l, t->shared_scale, width, &out->shared_scale, err);
    if (!status) status = load_matrix(l, t->shared_gate, &out->shared_gate, err);
    if (!status) status = load_matrix(l, t->shared_up, &out->shared_up, err);
    if (!status) status = load_matrix(l, t->shared_down, &out->shared_down, err);
    return status;
}

rl_status rl_engine_fingerprint(const rl_engine *e, uint64_t *out, rl_error *err)
{
    uint8_t sample[SAMPLE];
    rl_hash hash = rl_hash_start();
    for (uint64_t i = 0; i < rl_gguf_n_tensors(e->file); i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(e->file, i);
        size_t n = t->bytes < SAMPLE ? (size_t)t->bytes : SAMPLE;
        rl_status status = read_tensor(e, t, 0, sample, n, err);
        if (status) return status;
        rl_hash_add(&hash, t->name, strlen(t->name));
        rl_hash_add(&hash, &t->type, sizeof t->type);
        rl_hash_add(&hash, t->dims, sizeof t->dims);
        rl_hash_add(&hash, sample, n);
    }
    *out = rl_hash_value(&hash);
    return RL_OK;
}

static uint64_t dense_bytes(const rl_engine *e)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < rl_gguf_n_tensors(e->file); i++)
        if (!strstr(rl_gguf_tensor_at(e->file, i)->name, "_exps."))
            bytes += rl_gguf_tensor_at(e->file, i)->bytes;
    return bytes;
}

rl_status rl_engine_load(rl_engine *e, rl_error *err)
{
    loader l = { .engine = e, .total = dense_bytes(e) };
    rl_memory_shape(&e->net.shape, &e->config);
    e->net.layers = calloc(e->config.n_layer, sizeof *e->net.layers);
    l.piece = malloc(PIECE);
    rl_status status = RL_OK;
    if (!e->net.layers || !l.piece)
        status = rl_fail(err, RL_NOMEM, "%s: no memory to load it", rl_gguf_path(e->file));
    if (!status) status = rl_engine_fingerprint(e, &e->fingerprint, err);
    if (!status) status = load_matrix(&l, e->tensors.embedding, &e->net.embedding, err);
    for (uint32_t i = 0; !status && i < e->config.n_layer; i++)
        status = load_layer(&l, i, err);
    if (!status)
        status = load_f32(&l, e->tensors.output_norm, e->config.n_embd, &e->net.output_norm, err);
    if (!status && e->tensors.tied)
        e->net.head = e->net.embedding;
    else if (!status)
        status = load_matrix(&l, e->tensors.head, &e->net.head, err);
    free(l.piece);
    return status;
}

void rl_engine_unload(rl_engine *e)
{
    free(e->net.layers); /* the weights themselves belong to the backend */
    e->net.layers = NULL;
}
