/* summary.h - what is in a model file, and what one token reads of it: the figures of `info`.
 *
 * "Bytes per token" means batch 1 at depth 0: every dense weight once, K experts of every layer,
 * the recurrent state read and written. The KV cache comes on top, per cached position.
 * Threads: pure functions. */
#ifndef RL_MODEL_SUMMARY_H
#define RL_MODEL_SUMMARY_H

#include "model/weights.h"

enum { RL_SUMMARY_TYPES = 48, RL_SUMMARY_CLASSES = RL_MAX_LAYERS };

typedef struct rl_summary_type {
    uint32_t type; /* ggml id */
    const char *name;
    uint64_t n_tensors, bytes;
} rl_summary_type;

/* Layers whose experts have the same size. */
typedef struct rl_summary_class {
    uint64_t slot_bytes; /* of one expert */
    uint32_t n_layers;
} rl_summary_class;

typedef struct rl_summary {
    uint64_t n_tensors, tensor_bytes; /* of the whole file */
    uint64_t expert_bytes;            /* routed experts of the trunk */
    uint64_t embedding_bytes;         /* token_embd where it is only read row by row; 0 if tied */
    uint64_t dense_bytes;             /* everything else that the trunk uses */
    uint64_t other_bytes;             /* MTP blocks and tensors that the engine ignores */

    /* dense weights by part; they sum to dense_bytes */
    uint64_t recurrent_bytes, attention_bytes, head_bytes, router_bytes, shared_bytes, norm_bytes;

    /* per token */
    uint64_t routed_token_bytes; /* K experts of every layer */
    uint64_t weight_token_bytes; /* dense + routed */
    uint64_t delta_state_bytes;  /* recurrent matrices, read and written, f32 */
    uint64_t conv_state_bytes;   /* convolution windows, read and written, f32 */
    uint64_t token_bytes;        /* all of the above: depth 0 */
    uint64_t kv_position_bytes;  /* on top per cached position, f16 */

    uint64_t largest_expert_bytes, n_experts; /* of all layers */
    rl_summary_type types[RL_SUMMARY_TYPES];  /* by bytes, descending */
    uint32_t n_types;
    rl_summary_class classes[RL_SUMMARY_CLASSES]; /* largest first */
    uint32_t n_classes;
} rl_summary;

void rl_summary_make(rl_summary *out, const rl_weights *weights);

#endif
