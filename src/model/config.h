/* config.h - the checked hyper-parameters of a model of architecture qwen3next.
 *
 * Everything that later code multiplies, divides or indexes by was checked here: the ranges below
 * hold for every rl_config that rl_config_read() filled. Keys: docs/formats-gguf.md, rules 15-17.
 * Threads: plain data. */
#ifndef RL_MODEL_CONFIG_H
#define RL_MODEL_CONFIG_H

#include "gguf/gguf.h"

enum {
    RL_MAX_LAYERS = 512, /* MTP blocks included */
    RL_MAX_EXPERTS = 1024,
    RL_MAX_EXPERTS_PER_TOKEN = 32,
    RL_MAX_WIDTH = 1 << 20, /* of any vector of activations, and heads, and taps */
    RL_MAX_VOCAB = 1 << 24
};

typedef struct rl_config {
    char architecture[32]; /* "qwen3next"                                                     */
    char name[128];        /* general.name, printable; "" when absent                         */
    char file_type[32];    /* general.file_type as the usual name ("IQ2_XXS"); "" when absent */

    uint32_t n_layer; /* of the trunk, 1..512; MTP blocks are not counted               */
    uint32_t n_mtp;   /* MTP blocks behind them, blk.n_layer and up; ignored             */
    uint32_t n_ctx_train;
    uint32_t n_embd;  /* H                                                              */
    uint32_t n_vocab; /* tokens in the file, or rows of token_embd; 0 when neither      */
    float rms_eps;    /* finite, > 0                                                    */

    /* attention layers */
    uint32_t n_head, n_head_kv; /* n_head is a multiple of n_head_kv, both >= 1 */
    uint32_t head_dim;          /* d, keys and values alike                    */
    uint32_t n_rot;             /* even, <= head_dim                           */
    float rope_base;            /* finite, > 0                                 */

    /* gated delta net layers */
    uint32_t conv_taps;                /* C                                           */
    uint32_t n_key_head, n_value_head; /* Hk, Hv; Hv is a multiple of Hk               */
    uint32_t delta_dim;                /* D                                           */

    /* mixture of experts, every layer */
    uint32_t n_expert;      /* E, 1..1024                                              */
    uint32_t n_expert_used; /* K, 1..32, <= E                                          */
    uint32_t n_ff_expert;   /* F                                                       */
    uint32_t n_ff_shared;   /* Fs                                                      */

    bool recurrent[RL_MAX_LAYERS]; /* [n_layer] gated delta net, otherwise attention       */
} rl_config;

/* Widths that follow from the config; all fit 32 bits (checked when it was read). */
static inline uint32_t rl_config_key_width(const rl_config *c) /* Kd */
{
    return c->n_key_head * c->delta_dim;
}

static inline uint32_t rl_config_value_width(const rl_config *c) /* Vd */
{
    return c->n_value_head * c->delta_dim;
}

static inline uint32_t rl_config_conv_channels(const rl_config *c) /* 2 Kd + Vd */
{
    return 2 * rl_config_key_width(c) + rl_config_value_width(c);
}

static inline uint32_t rl_config_attn_width(const rl_config *c) /* n_head * head_dim */
{
    return c->n_head * c->head_dim;
}

static inline uint32_t rl_config_kv_width(const rl_config *c) /* n_head_kv * head_dim */
{
    return c->n_head_kv * c->head_dim;
}

/* Reads and checks. Which layers are recurrent: the tensors say so (ssm_out or attn_output); keys
 * that say otherwise are an error. Without tensors the keys decide, and without keys every fourth
 * layer is attention. The sentence in err names the file and the key at fault. */
RL_MUST_CHECK rl_status rl_config_read(rl_config *out, const rl_gguf *gguf, rl_error *err);

/* Only general.architecture: the first thing to ask of a file. RL_UNSUPPORTED names the other. */
RL_MUST_CHECK rl_status rl_config_check_architecture(const rl_gguf *gguf, rl_error *err);

/* A file without any tensor holds only metadata and a vocabulary: text functions work on it. */
static inline bool rl_config_vocab_only(const rl_gguf *gguf)
{
    return rl_gguf_n_tensors(gguf) == 0;
}

#endif
