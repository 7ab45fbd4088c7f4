/* summary.c - model/summary.h. */
#include "model/summary.h"

#include <stdlib.h>

#include "base/assert.h"
#include "model/roles.h"

static void count_type(rl_summary *out, const rl_gguf_tensor *tensor)
{
    uint32_t i = 0;
    while (i < out->n_types && out->types[i].type != tensor->type)
        i++;
    RL_ASSERT(i < RL_SUMMARY_TYPES);
    if (i == out->n_types)
        out->types[out->n_types++] =
            (rl_summary_type){ .type = tensor->type, .name = rl_gguf_tensor_type_name(tensor) };
    out->types[i].n_tensors++;
    out->types[i].bytes += tensor->bytes;
}

static void count_class(rl_summary *out, uint64_t expert_bytes)
{
    uint32_t i = 0;
    while (i < out->n_classes && out->classes[i].slot_bytes != expert_bytes)
        i++;
    if (i == out->n_classes)
        out->classes[out->n_classes++] = (rl_summary_class){ .slot_bytes = expert_bytes };
    out->classes[i].n_layers++;
}

static int by_bytes(const void *a, const void *b)
{
    const rl_summary_type *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->type < y->type ? -1 : 1;
}

static int by_slot_bytes(const void *a, const void *b)
{
    const rl_summary_class *x = a, *y = b;
    return x->slot_bytes < y->slot_bytes ? 1 : -1;
}

static void count_layer(rl_summary *out, const rl_weights_layer *layer)
{
    for (int i = 0; i < RL_ROLE_COUNT; i++) {
        const rl_gguf_tensor *tensor = rl_role_tensor(layer, (rl_role_id)i);
        if (!tensor) continue;
        switch (rl_roles[i].part) {
        case RL_PART_RECURRENT: out->recurrent_bytes += tensor->bytes; break;
        case RL_PART_ATTENTION: out->attention_bytes += tensor->bytes; break;
        case RL_PART_ROUTER: out->router_bytes += tensor->bytes; break;
        case RL_PART_SHARED: out->shared_bytes += tensor->bytes; break;
        case RL_PART_NORM: out->norm_bytes += tensor->bytes; break;
        case RL_PART_EXPERT: out->expert_bytes += tensor->bytes; break;
        }
    }
}

void rl_summary_make(rl_summary *out, const rl_weights *weights)
{
    const rl_config *c = weights->config;
    *out = (rl_summary){ .n_tensors = rl_gguf_n_tensors(weights->gguf),
                         .n_experts = (uint64_t)c->n_layer * c->n_expert };
    for (uint64_t i = 0; i < out->n_tensors; i++) {
        const rl_gguf_tensor *tensor = rl_gguf_tensor_at(weights->gguf, i);
        out->tensor_bytes += tensor->bytes;
        count_type(out, tensor);
    }
    uint32_t n_recurrent = 0;
    for (uint32_t i = 0; i < c->n_layer; i++) {
        const rl_weights_layer *layer = &weights->layers[i];
        n_recurrent += c->recurrent[i];
        count_layer(out, layer);
        count_class(out, layer->expert_bytes);
        out->routed_token_bytes += c->n_expert_used * layer->expert_bytes;
        if (layer->expert_bytes > out->largest_expert_bytes)
            out->largest_expert_bytes = layer->expert_bytes;
    }
    out->norm_bytes += weights->output_norm->bytes;
    out->head_bytes = weights->head->bytes;
    out->embedding_bytes = weights->tied ? 0 : weights->embedding->bytes;
    out->dense_bytes = out->recurrent_bytes + out->attention_bytes + out->head_bytes +
                       out->router_bytes + out->shared_bytes + out->norm_bytes;
    out->other_bytes =
        out->tensor_bytes - out->expert_bytes - out->embedding_bytes - out->dense_bytes;

    uint64_t state_values = (uint64_t)rl_config_value_width(c) * c->delta_dim;
    uint64_t window_values = (uint64_t)(c->conv_taps - 1) * rl_config_conv_channels(c);
    out->weight_token_bytes = out->dense_bytes + out->routed_token_bytes;
    out->delta_state_bytes = 2 * 4 * state_values * n_recurrent;
    out->conv_state_bytes = 2 * 4 * window_values * n_recurrent;
    out->token_bytes = out->weight_token_bytes + out->delta_state_bytes + out->conv_state_bytes;
    out->kv_position_bytes = (uint64_t)(c->n_layer - n_recurrent) * 2 * 2 * rl_config_kv_width(c);
    qsort(out->types, out->n_types, sizeof out->types[0], by_bytes);
    qsort(out->classes, out->n_classes, sizeof out->classes[0], by_slot_bytes);
}
