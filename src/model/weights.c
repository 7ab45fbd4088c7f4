/* weights.c - model/weights.h: names to tensors, shapes compared with the config. */
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "model/roles.h"
#include "quant/quant.h"

const rl_role rl_roles[RL_ROLE_COUNT] = {
#define X(member, text, row, rows, experts, of_layers, of_part, of_layout)                         \
    [RL_ROLE_##member] = {                                                                         \
        .name = text,                                                                              \
        .field = offsetof(rl_weights_layer, member),                                               \
        .dims = { RL_WIDTH_##row, RL_WIDTH_##rows, RL_WIDTH_##experts },                           \
        .layers = RL_ROLE_##of_layers,                                                             \
        .part = RL_PART_##of_part,                                                                 \
        .layout = RL_LAYOUT_##of_layout,                                                           \
    },
    RL_ROLE_LIST(X)
#undef X
};

void rl_widths(const rl_config *c, uint64_t widths[RL_WIDTH_COUNT])
{
    widths[RL_WIDTH_ONE] = 1;
    widths[RL_WIDTH_EMBD] = c->n_embd;
    widths[RL_WIDTH_VOCAB] = c->n_vocab;
    widths[RL_WIDTH_QUERY_GATE] = 2 * (uint64_t)rl_config_attn_width(c);
    widths[RL_WIDTH_ATTN] = rl_config_attn_width(c);
    widths[RL_WIDTH_KV] = rl_config_kv_width(c);
    widths[RL_WIDTH_HEAD] = c->head_dim;
    widths[RL_WIDTH_CONV] = rl_config_conv_channels(c);
    widths[RL_WIDTH_FUSED_IN] = rl_config_conv_channels(c) + (uint64_t)rl_config_value_width(c);
    widths[RL_WIDTH_VALUE] = rl_config_value_width(c);
    widths[RL_WIDTH_BA] = 2 * (uint64_t)c->n_value_head;
    widths[RL_WIDTH_VALUE_HEADS] = c->n_value_head;
    widths[RL_WIDTH_DELTA] = c->delta_dim;
    widths[RL_WIDTH_TAPS] = c->conv_taps;
    widths[RL_WIDTH_FF] = c->n_ff_expert;
    widths[RL_WIDTH_FF_PAIR] = 2 * (uint64_t)c->n_ff_expert;
    widths[RL_WIDTH_SHARED] = c->n_ff_shared;
    widths[RL_WIDTH_EXPERTS] = c->n_expert;
}

/* ---- one tensor ----------------------------------------------------------------------------- */

typedef struct opener {
    const rl_gguf *gguf;
    const rl_config *config;
    uint64_t widths[RL_WIDTH_COUNT];
    rl_error *err;
} opener;

/* "{2048, 512, 512}" without trailing ones. */
typedef struct shape_text {
    char text[96];
} shape_text;

static shape_text describe_shape(const uint64_t dims[4])
{
    shape_text out;
    int n = 4, used = 0;
    while (n > 1 && dims[n - 1] == 1)
        n--;
    for (int i = 0; i < n; i++)
        used += snprintf(out.text + used, sizeof out.text - (size_t)used, "%s%llu", i ? ", " : "{",
                         (unsigned long long)dims[i]);
    snprintf(out.text + used, sizeof out.text - (size_t)used, "}");
    return out;
}

static rl_status check_tensor(const opener *o, const rl_gguf_tensor *tensor,
                              const rl_width expected_dims[3])
{
    uint64_t expected[4] = { o->widths[expected_dims[0]], o->widths[expected_dims[1]],
                             o->widths[expected_dims[2]], 1 };
    const char *path = rl_file_path(rl_gguf_part(o->gguf, tensor->part));
    if (memcmp(expected, tensor->dims, sizeof expected))
        return rl_fail(
            o->err, RL_FORMAT, "%s: tensor %s has shape %s, the metadata ask for %s%s", path,
            tensor->name, describe_shape(tensor->dims).text, describe_shape(expected).text,
            expected_dims[1] == RL_WIDTH_VOCAB ? " (rows are tokens of the vocabulary)" : "");
    if (tensor->type == RL_QUANT_Q8_K || !rl_quant_find(tensor->type))
        return rl_fail(o->err, RL_UNSUPPORTED,
                       "%s: tensor %s has type %s, with which nothing can be computed", path,
                       tensor->name, rl_gguf_tensor_type_name(tensor));
    return RL_OK;
}

static rl_status missing(const opener *o, const char *name)
{
    return rl_fail(o->err, RL_FORMAT, "%s: tensor %s is missing", rl_gguf_path(o->gguf), name);
}

static rl_status find_global(const opener *o, const char *name, rl_width rows, bool optional,
                             const rl_gguf_tensor **out)
{
    *out = rl_gguf_find_tensor(o->gguf, name);
    if (!*out) return optional ? RL_OK : missing(o, name);
    return check_tensor(o, *out, (const rl_width[3]){ RL_WIDTH_EMBD, rows, RL_WIDTH_ONE });
}

/* ---- one layer ------------------------------------------------------------------------------ */

static const rl_gguf_tensor *layer_tensor(const opener *o, uint32_t layer, rl_role_id role,
                                          char name[96])
{
    snprintf(name, 96, "blk.%u.%s", layer, rl_roles[role].name);
    return rl_gguf_find_tensor(o->gguf, name);
}

/* Which of the two ways of storing a pair this layer uses. */
static rl_status choose_layout(const opener *o, uint32_t layer, rl_role_id first, rl_role_id second,
                               rl_role_id fused_role, bool *fused)
{
    char name[96], other[96];
    *fused = layer_tensor(o, layer, fused_role, name) != NULL;
    if (*fused && (layer_tensor(o, layer, first, other) || layer_tensor(o, layer, second, other)))
        return rl_fail(o->err, RL_FORMAT, "%s: both %s and %s are there: only one can be meant",
                       rl_gguf_path(o->gguf), name, other);
    return RL_OK;
}

static bool layer_has(const rl_role *role, bool recurrent, bool fused_in, bool fused_gate_up)
{
    if (role->layers == RL_ROLE_ATTENTION && recurrent) return false;
    if (role->layers == RL_ROLE_RECURRENT && !recurrent) return false;
    switch (role->layout) {
    case RL_LAYOUT_SPLIT_IN: return !fused_in;
    case RL_LAYOUT_FUSED_IN: return fused_in;
    case RL_LAYOUT_SPLIT_GU: return !fused_gate_up;
    case RL_LAYOUT_FUSED_GU: return fused_gate_up;
    case RL_LAYOUT_ONLY: break;
    }
    return true;
}

static rl_status open_layer(const opener *o, uint32_t index, rl_weights_layer *layer)
{
    bool fused_in, fused_gate_up;
    char name[96];
    rl_status status =
        choose_layout(o, index, RL_ROLE_qkv, RL_ROLE_gate, RL_ROLE_ssm_in, &fused_in);
    if (!status)
        status = choose_layout(o, index, RL_ROLE_gate_exps, RL_ROLE_up_exps, RL_ROLE_gate_up_exps,
                               &fused_gate_up);
    if (status) return status;
    for (int i = 0; i < RL_ROLE_COUNT; i++) {
        const rl_role *role = &rl_roles[i];
        if (!layer_has(role, o->config->recurrent[index], fused_in, fused_gate_up)) continue;
        const rl_gguf_tensor *tensor = layer_tensor(o, index, (rl_role_id)i, name);
        if (!tensor) return missing(o, name);
        status = check_tensor(o, tensor, role->dims);
        if (status) return status;
        memcpy((char *)layer + role->field, &tensor, sizeof tensor);
        if (role->part == RL_PART_EXPERT) layer->expert_bytes += tensor->bytes;
    }
    layer->expert_bytes /= o->config->n_expert; /* whole: every matrix is E equal pieces */
    return RL_OK;
}

/* ---- tensors that must not be ignored ------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static rl_status refuse_unknown(const opener *o)
{
    for (uint64_t i = 0; i < rl_gguf_n_tensors(o->gguf); i++) {
        const char *name = rl_gguf_tensor_at(o->gguf, i)->name;
        unsigned long block;
        char *end;
        if (!strncmp(name, "blk.", 4)) {
            block = strtoul(name + 4, &end, 10);
            if (*end == '.' && block >= o->config->n_layer) continue; /* MTP, not computed */
        }
        const char *why = NULL;
        if (ends_with(name, ".scale"))
            why = "a scale of a whole tensor";
        else if (ends_with(name, ".bias") && !ends_with(name, ".ssm_dt.bias"))
            why = "a bias";
        else if (strstr(name, "rope_freqs") || strstr(name, "rope_factors"))
            why = "a table of rotary frequencies";
        if (why)
            return rl_fail(o->err, RL_UNSUPPORTED,
                           "%s: tensor %s: %s is not supported for this architecture, and "
                           "ignoring it would give wrong results",
                           rl_gguf_path(o->gguf), name, why);
    }
    return RL_OK;
}

/* ---- open and close ------------------------------------------------------------------------- */

rl_status rl_weights_open(rl_weights *out, const rl_gguf *gguf, const rl_config *config,
                          rl_error *err)
{
    *out = (rl_weights){ .gguf = gguf, .config = config };
    opener o = { .gguf = gguf, .config = config, .err = err };
    rl_widths(config, o.widths);
    out->layers = calloc(config->n_layer, sizeof *out->layers);
    if (!out->layers)
        return rl_fail(err, RL_NOMEM, "%s: no memory for the layer list", rl_gguf_path(gguf));
    rl_status status = find_global(&o, "token_embd.weight", RL_WIDTH_VOCAB, false, &out->embedding);
    if (!status)
        status = find_global(&o, "output_norm.weight", RL_WIDTH_ONE, false, &out->output_norm);
    if (!status) status = find_global(&o, "output.weight", RL_WIDTH_VOCAB, true, &out->head);
    for (uint32_t i = 0; i < config->n_layer && !status; i++)
        status = open_layer(&o, i, &out->layers[i]);
    if (!status) status = refuse_unknown(&o);
    if (status) {
        rl_weights_close(out);
        return status;
    }
    out->tied = !out->head;
    if (out->tied) out->head = out->embedding;
    return RL_OK;
}

void rl_weights_close(rl_weights *weights)
{
    if (!weights) return;
    free(weights->layers);
    *weights = (rl_weights){ 0 };
}

/* ---- experts -------------------------------------------------------------------------------- */

static rl_slice slice_of(const rl_gguf_tensor *tensor, uint64_t piece, uint64_t n_pieces)
{
    uint64_t bytes = tensor->bytes / n_pieces;
    return (
        rl_slice){ .part = tensor->part, .offset = tensor->offset + piece * bytes, .bytes = bytes };
}

void rl_weights_expert(const rl_weights *weights, uint32_t layer, uint32_t expert,
                       rl_slice out[RL_EXPERT_MATRICES])
{
    uint32_t n = weights->config->n_expert;
    RL_ASSERT(layer < weights->config->n_layer && expert < n);
    const rl_weights_layer *l = &weights->layers[layer];
    if (l->gate_up_exps) {
        out[RL_EXPERT_GATE] = slice_of(l->gate_up_exps, 2 * (uint64_t)expert, 2 * (uint64_t)n);
        out[RL_EXPERT_UP] = slice_of(l->gate_up_exps, 2 * (uint64_t)expert + 1, 2 * (uint64_t)n);
    } else {
        out[RL_EXPERT_GATE] = slice_of(l->gate_exps, expert, n);
        out[RL_EXPERT_UP] = slice_of(l->up_exps, expert, n);
    }
    out[RL_EXPERT_DOWN] = slice_of(l->down_exps, expert, n);
}

uint32_t rl_weights_expert_type(const rl_weights_layer *layer, uint32_t matrix)
{
    RL_ASSERT(matrix < RL_EXPERT_MATRICES);
    if (matrix == RL_EXPERT_DOWN) return layer->down_exps->type;
    if (layer->gate_up_exps) return layer->gate_up_exps->type;
    return matrix == RL_EXPERT_GATE ? layer->gate_exps->type : layer->up_exps->type;
}

/* ---- the legacy layout ---------------------------------------------------------------------- */

uint32_t rl_weights_qkv_runs(const rl_config *c, rl_row_run *runs)
{
    uint32_t d = c->delta_dim, values = rl_config_value_width(c) / c->n_key_head, n = 0;
    for (uint32_t g = 0; g < c->n_key_head; g++) {
        uint32_t base = g * (2 * d + 2 * values);
        runs[n++] = (rl_row_run){ base, g * d, d };
        runs[n++] = (rl_row_run){ base + d, rl_config_key_width(c) + g * d, d };
        runs[n++] = (rl_row_run){ base + 2 * d, 2 * rl_config_key_width(c) + g * values, values };
    }
    return n;
}

uint32_t rl_weights_gate_runs(const rl_config *c, rl_row_run *runs)
{
    uint32_t d = c->delta_dim, values = rl_config_value_width(c) / c->n_key_head;
    for (uint32_t g = 0; g < c->n_key_head; g++)
        runs[g] = (rl_row_run){ g * (2 * d + 2 * values) + 2 * d + values, g * values, values };
    return c->n_key_head;
}
