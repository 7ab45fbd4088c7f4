/* weights.h - which tensor of the file plays which part in the network.
 *
 * Names become pointers once, at open; shapes are compared with the config, so that later code may
 * trust them. Two layouts of the delta net projections exist (qkv + gate, or the older fused
 * ssm_in), and two of the experts (gate + up, or fused): exactly one of each pair is set.
 * Types are only checked to be decodable; whether a backend can compute with one is its business.
 * Names and shapes: docs/formats-gguf.md, rules 18 and 19. Threads: immutable after open. */
#ifndef RL_MODEL_WEIGHTS_H
#define RL_MODEL_WEIGHTS_H

#include "gguf/gguf.h"
#include "model/config.h"

/* In file dims, {row length, rows, ...}. H, d ... as in config.h. Any float or quantised type. */
typedef struct rl_weights_layer {
    const rl_gguf_tensor *mix_norm; /* attn_norm {H}                                        */
    const rl_gguf_tensor *moe_norm; /* post_attention_norm {H}                              */

    /* recurrent layers, NULL in others */
    const rl_gguf_tensor *qkv;        /* attn_qkv {H, 2 Kd + Vd}; NULL when ssm_in is set     */
    const rl_gguf_tensor *gate;       /* attn_gate {H, Vd}; NULL when ssm_in is set           */
    const rl_gguf_tensor *ssm_in;     /* {H, 2 Kd + 2 Vd}, rows per key head: q, k, v, z      */
    const rl_gguf_tensor *ba;         /* ssm_ba {H, 2 Hv}                                     */
    const rl_gguf_tensor *conv;       /* ssm_conv1d {C, 2 Kd + Vd}                            */
    const rl_gguf_tensor *dt;         /* ssm_dt.bias {Hv}                                     */
    const rl_gguf_tensor *a;          /* ssm_a {Hv}                                           */
    const rl_gguf_tensor *delta_norm; /* ssm_norm {D}                                         */
    const rl_gguf_tensor *delta_out;  /* ssm_out {Vd, H}                                      */

    /* attention layers, NULL in others */
    const rl_gguf_tensor *q;        /* attn_q {H, 2 d n_head}, per head: query rows, gate rows */
    const rl_gguf_tensor *k, *v;    /* {H, d n_head_kv}                                        */
    const rl_gguf_tensor *q_norm;   /* {d}                                                     */
    const rl_gguf_tensor *k_norm;   /* {d}                                                     */
    const rl_gguf_tensor *attn_out; /* {d n_head, H}                                           */

    /* every layer */
    const rl_gguf_tensor *router;       /* ffn_gate_inp {H, E}                                 */
    const rl_gguf_tensor *shared_scale; /* ffn_gate_inp_shexp {H}                              */
    const rl_gguf_tensor *shared_gate;  /* {H, Fs}                                             */
    const rl_gguf_tensor *shared_up;    /* {H, Fs}                                             */
    const rl_gguf_tensor *shared_down;  /* {Fs, H}                                             */
    const rl_gguf_tensor *gate_exps;    /* {H, F, E}; NULL when gate_up_exps is set            */
    const rl_gguf_tensor *up_exps;      /* {H, F, E}; NULL when gate_up_exps is set            */
    const rl_gguf_tensor *gate_up_exps; /* {H, 2 F, E}, gate rows first                        */
    const rl_gguf_tensor *down_exps;    /* {F, H, E}                                           */

    uint64_t expert_bytes; /* gate + up + down of one expert, no padding */
} rl_weights_layer;

typedef struct rl_weights {
    const rl_gguf *gguf;               /* borrowed; must outlive the weights */
    const rl_config *config;           /* borrowed */
    const rl_gguf_tensor *embedding;   /* token_embd {H, n_vocab}                  */
    const rl_gguf_tensor *output_norm; /* {H}                                      */
    const rl_gguf_tensor *head;        /* output, or the embedding when tied       */
    bool tied;
    rl_weights_layer *layers; /* [n_layer] */
} rl_weights;

/* Fills *out for the trunk; MTP blocks and unknown tensors are ignored, except those that would
 * change the result (biases, *.scale, rope factors), which are refused by name. On success *out
 * owns its layer list: rl_weights_close(), also fine on a zeroed or failed one. */
RL_MUST_CHECK rl_status rl_weights_open(rl_weights *out, const rl_gguf *gguf,
                                        const rl_config *config, rl_error *err);
void rl_weights_close(rl_weights *weights);

/* ---- one expert in the file ------------------------------------------------------------------ */

enum { RL_EXPERT_GATE, RL_EXPERT_UP, RL_EXPERT_DOWN, RL_EXPERT_MATRICES };

/* A stretch of one part of the model's files. */
typedef struct rl_slice {
    uint32_t part;
    uint64_t offset; /* absolute in that part's file */
    uint64_t bytes;
} rl_slice;

/* Where gate, up and down of an expert lie: out[RL_EXPERT_GATE] ... In fused files gate and up are
 * neighbours. layer < n_layer and expert < E are asserted. */
void rl_weights_expert(const rl_weights *weights, uint32_t layer, uint32_t expert,
                       rl_slice out[RL_EXPERT_MATRICES]);

/* The ggml type of one of an expert's matrices in this layer. */
uint32_t rl_weights_expert_type(const rl_weights_layer *layer, uint32_t matrix);

/* ---- the legacy layout ----------------------------------------------------------------------- */

/* `rows` rows from row `source` of ssm_in are rows `target` and following of the modern tensor. */
typedef struct rl_row_run {
    uint32_t source, target, rows;
} rl_row_run;

/* The runs that make up attn_qkv (3 per key head) or attn_gate (1 per key head) out of ssm_in.
 * `runs` has room for 3 * n_key_head; the return value is how many were written. Every target row
 * is covered once. Rows are quantised independently, so whole rows can be copied as bytes. */
uint32_t rl_weights_qkv_runs(const rl_config *config, rl_row_run *runs);
uint32_t rl_weights_gate_runs(const rl_config *config, rl_row_run *runs);

/* Rows of a tensor seen as a matrix: the product of all dims but the first. */
static inline uint64_t rl_tensor_rows(const rl_gguf_tensor *tensor)
{
    return tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

static inline uint64_t rl_tensor_row_bytes(const rl_gguf_tensor *tensor)
{
    return tensor->bytes / rl_tensor_rows(tensor);
}

#endif
