/* roles.h - every tensor of the family, once: its name, its shape, the layers that have it.
 *
 * One table binds names to the fields of rl_weights_layer. weights.c reads it to find and check
 * tensors, synth.c to write them, in this order: by name, as the published files have them. */
#ifndef RL_MODEL_ROLES_H
#define RL_MODEL_ROLES_H

#include "model/weights.h"

/* Lengths that shapes are made of. */
typedef enum rl_width {
    RL_WIDTH_ONE,
    RL_WIDTH_EMBD,        /* H              */
    RL_WIDTH_VOCAB,       /* n_vocab        */
    RL_WIDTH_QUERY_GATE,  /* 2 d n_head     */
    RL_WIDTH_ATTN,        /* d n_head       */
    RL_WIDTH_KV,          /* d n_head_kv    */
    RL_WIDTH_HEAD,        /* d              */
    RL_WIDTH_CONV,        /* 2 Kd + Vd      */
    RL_WIDTH_FUSED_IN,    /* 2 Kd + 2 Vd    */
    RL_WIDTH_VALUE,       /* Vd             */
    RL_WIDTH_BA,          /* 2 Hv           */
    RL_WIDTH_VALUE_HEADS, /* Hv             */
    RL_WIDTH_DELTA,       /* D              */
    RL_WIDTH_TAPS,        /* C              */
    RL_WIDTH_FF,          /* F              */
    RL_WIDTH_FF_PAIR,     /* 2 F            */
    RL_WIDTH_SHARED,      /* Fs             */
    RL_WIDTH_EXPERTS,     /* E              */
    RL_WIDTH_COUNT
} rl_width;

typedef enum rl_role_layers {
    RL_ROLE_ALL,       /* every layer */
    RL_ROLE_ATTENTION, /* attention layers */
    RL_ROLE_RECURRENT  /* gated delta net layers */
} rl_role_layers;

/* The part of the token's bytes that a tensor belongs to; see summary.h. */
typedef enum rl_role_part {
    RL_PART_RECURRENT,
    RL_PART_ATTENTION,
    RL_PART_ROUTER,
    RL_PART_SHARED,
    RL_PART_NORM,
    RL_PART_EXPERT
} rl_role_part;

/* A file has either all tensors of group 1 or those of group 2 of the same letter. */
typedef enum rl_role_layout {
    RL_LAYOUT_ONLY,     /* always there                         */
    RL_LAYOUT_SPLIT_IN, /* qkv + gate, or ...                   */
    RL_LAYOUT_FUSED_IN, /* ... ssm_in                           */
    RL_LAYOUT_SPLIT_GU, /* gate_exps + up_exps, or ...          */
    RL_LAYOUT_FUSED_GU  /* ... gate_up_exps                     */
} rl_role_layout;

/*   field         name behind "blk.N."         row           rows          experts  layers     part
 *   layout */
#define RL_ROLE_LIST(X)                                                                            \
    X(gate, "attn_gate.weight", EMBD, VALUE, ONE, RECURRENT, RECURRENT, SPLIT_IN)                  \
    X(k, "attn_k.weight", EMBD, KV, ONE, ATTENTION, ATTENTION, ONLY)                               \
    X(k_norm, "attn_k_norm.weight", HEAD, ONE, ONE, ATTENTION, ATTENTION, ONLY)                    \
    X(mix_norm, "attn_norm.weight", EMBD, ONE, ONE, ALL, NORM, ONLY)                               \
    X(attn_out, "attn_output.weight", ATTN, EMBD, ONE, ATTENTION, ATTENTION, ONLY)                 \
    X(q, "attn_q.weight", EMBD, QUERY_GATE, ONE, ATTENTION, ATTENTION, ONLY)                       \
    X(q_norm, "attn_q_norm.weight", HEAD, ONE, ONE, ATTENTION, ATTENTION, ONLY)                    \
    X(qkv, "attn_qkv.weight", EMBD, CONV, ONE, RECURRENT, RECURRENT, SPLIT_IN)                     \
    X(v, "attn_v.weight", EMBD, KV, ONE, ATTENTION, ATTENTION, ONLY)                               \
    X(down_exps, "ffn_down_exps.weight", FF, EMBD, EXPERTS, ALL, EXPERT, ONLY)                     \
    X(shared_down, "ffn_down_shexp.weight", SHARED, EMBD, ONE, ALL, SHARED, ONLY)                  \
    X(gate_exps, "ffn_gate_exps.weight", EMBD, FF, EXPERTS, ALL, EXPERT, SPLIT_GU)                 \
    X(router, "ffn_gate_inp.weight", EMBD, EXPERTS, ONE, ALL, ROUTER, ONLY)                        \
    X(shared_scale, "ffn_gate_inp_shexp.weight", EMBD, ONE, ONE, ALL, SHARED, ONLY)                \
    X(shared_gate, "ffn_gate_shexp.weight", EMBD, SHARED, ONE, ALL, SHARED, ONLY)                  \
    X(gate_up_exps, "ffn_gate_up_exps.weight", EMBD, FF_PAIR, EXPERTS, ALL, EXPERT, FUSED_GU)      \
    X(up_exps, "ffn_up_exps.weight", EMBD, FF, EXPERTS, ALL, EXPERT, SPLIT_GU)                     \
    X(shared_up, "ffn_up_shexp.weight", EMBD, SHARED, ONE, ALL, SHARED, ONLY)                      \
    X(moe_norm, "post_attention_norm.weight", EMBD, ONE, ONE, ALL, NORM, ONLY)                     \
    X(a, "ssm_a", VALUE_HEADS, ONE, ONE, RECURRENT, RECURRENT, ONLY)                               \
    X(ba, "ssm_ba.weight", EMBD, BA, ONE, RECURRENT, RECURRENT, ONLY)                              \
    X(conv, "ssm_conv1d.weight", TAPS, CONV, ONE, RECURRENT, RECURRENT, ONLY)                      \
    X(dt, "ssm_dt.bias", VALUE_HEADS, ONE, ONE, RECURRENT, RECURRENT, ONLY)                        \
    X(ssm_in, "ssm_in.weight", EMBD, FUSED_IN, ONE, RECURRENT, RECURRENT, FUSED_IN)                \
    X(delta_norm, "ssm_norm.weight", DELTA, ONE, ONE, RECURRENT, RECURRENT, ONLY)                  \
    X(delta_out, "ssm_out.weight", VALUE, EMBD, ONE, RECURRENT, RECURRENT, ONLY)

typedef enum rl_role_id {
#define X(field, name, row, rows, experts, layers, part, layout) RL_ROLE_##field,
    RL_ROLE_LIST(X)
#undef X
        RL_ROLE_COUNT
} rl_role_id;

typedef struct rl_role {
    const char *name;
    size_t field; /* offset of the pointer in rl_weights_layer */
    rl_width dims[3];
    rl_role_layers layers;
    rl_role_part part;
    rl_role_layout layout;
} rl_role;

extern const rl_role rl_roles[RL_ROLE_COUNT];

/* The lengths for one config: widths[RL_WIDTH_...]. */
void rl_widths(const rl_config *config, uint64_t widths[RL_WIDTH_COUNT]);

/* The tensor of a role in a layer, or NULL. */
static inline const rl_gguf_tensor *rl_role_tensor(const rl_weights_layer *layer, rl_role_id role)
{
    return *(const rl_gguf_tensor *const *)((const char *)layer + rl_roles[role].field);
}

#endif
