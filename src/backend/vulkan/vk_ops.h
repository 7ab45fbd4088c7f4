/* vk_ops.h - one function per kernel: it picks the variant and the grid, and records the dispatch.
 *
 * Nothing here waits or knows a model. Every function records into `cmd` and places no barrier: the
 * caller knows what depends on what. Addresses are device addresses; see shader_types.h for the
 * meaning of each field.
 *
 * Errors: only from making a pipeline the first time. Threads: one owner. */
#ifndef RL_BACKEND_VULKAN_VK_OPS_H
#define RL_BACKEND_VULKAN_VK_OPS_H

#include "backend/vulkan/shaders/shader_types.h"
#include "backend/vulkan/vk_cmd.h"

typedef struct rl_vk_ops {
    rl_vk_device *device;
    rl_vk_pipelines *pipelines;
    rl_vk_arena *arena;
    rl_vk_span tables;
    bool software;
    uint32_t subgroup;    /* lanes, as the device reports */
    uint32_t workgroup;   /* largest of matvec where products are not balanced over units */
    uint32_t groups;      /* workgroups that a dispatch should have at least */
    uint32_t tile_tokens; /* most tokens of one rl_vk_tile */
    uint32_t shallow;     /* before this position a token takes the attention for few keys */
    uint64_t
        byte_weights; /* products of at least so many weights are products of bytes; 0: none  */
    bool links;       /* stages of a token may follow each other without barriers (vk_link.h) */
    uint32_t lanes;   /* how many the device needs busy at a time: row teams get smaller below */
} rl_vk_ops;

/* Uploads the codebooks. cache_file as for rl_vk_pipelines_create. On failure nothing is owned. */
RL_MUST_CHECK rl_status rl_vk_ops_init(rl_vk_ops *ops, rl_vk_device *device, rl_vk_uploader *up,
                                       const char *cache_file, rl_error *err);
void rl_vk_ops_fini(rl_vk_ops *ops);

/* The push structs below are filled by the caller but for `tables`, `row_bytes` and `link`. Every kernel but
 * embed, norm, matmul and moe_sum leaves everything as it is when push.token says halt (matvec: when it
 * says another value than push.despite), or hands on void numbers (vk_link.h). Which addresses are those of
 * numbered values follows from the stage that is recorded. */

/* x = rows of the embedding table: n tokens. */
RL_MUST_CHECK rl_status rl_vk_op_embed(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t type, uint32_t n,
                                       const rl_embed_push *push, rl_error *err);

/* y = rms(x) * weight: n rows. */
RL_MUST_CHECK rl_status rl_vk_op_norm(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n,
                                      const rl_norm_push *push, rl_error *err);

/* y = W x, token by token. */
typedef struct rl_vk_matvec {
    uint32_t type;      /* of W                          */
    uint32_t input;     /* RL_INPUT_...                  */
    uint32_t matrix;    /* RL_MATRIX_...                 */
    uint32_t add;       /* RL_ADD_...: y = ... + push.add */
    uint32_t n_ranks;   /* grid y: 1 when not routed     */
    uint32_t n_tokens;  /* grid z                        */
    uint32_t parts;     /* RL_INPUT_HEADS: partial sums per head */
    bool floats;        /* not as products of bytes: must agree to the bit with another kernel    */
    uint32_t beside;    /* rows of other products that run at the same time */
    uint32_t team_rows; /* rows per team of lanes; 0: as many as the device can fill */
    /* A router's product, one token with RL_INPUT_NORM: the workgroup that is last chooses, too. Of
     * the push, .logits and .n_expert follow from the product. NULL: nobody chooses. `arrivals` is
     * the address of a word that is 0, and is so again when all have run: at a time only for this. In a
     * stage whose end is numbered, it is that of the numbered choice, RL_CHOICE_WORDS per rank. */
    const rl_route_push *choice;
    uint64_t arrivals;
    rl_matvec_push push;
} rl_vk_matvec;
RL_MUST_CHECK rl_status rl_vk_op_matvec(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matvec *m,
                                        rl_error *err);

/* Whether a product with a matrix of this type can have a choice. */
bool rl_vk_op_can_choose(const rl_vk_ops *ops, uint32_t type);

/* Y = X W^T, tile by tile. The input RL_INPUT_NORM is not offered: norm first. */
typedef struct rl_vk_matmul {
    uint32_t type;
    uint32_t input;
    bool add;
    uint32_t n_tiles; /* routed: > 0, each of at most ops.tile_tokens; 0: push.n rows of x */
    rl_matmul_push push;
} rl_vk_matmul;
RL_MUST_CHECK rl_status rl_vk_op_matmul(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matmul *m,
                                        rl_error *err);

/* Columns that one workgroup of delta_step takes: the parts of push.sums are delta_dim / this. */
uint32_t rl_vk_delta_cols(uint32_t delta_dim);
RL_MUST_CHECK rl_status rl_vk_op_delta_step(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t delta_dim,
                                            const rl_delta_push *push, rl_error *err);

/* Attention: prep (batches only), then the pieces, then their union. */
typedef struct rl_vk_cache_types {
    uint32_t head_dim;
    bool key_f16, value_f16;
} rl_vk_cache_types;
/* Pieces of the positions (rl_attn_push.splits) that keep the device's compute units busy with one
 * token, at most RL_VK_MOST_SPLITS. */
#define RL_VK_MOST_SPLITS 256
uint32_t rl_vk_op_attn_splits(const rl_vk_ops *ops, uint32_t head_dim, uint32_t n_head,
                              uint32_t n_head_kv);
RL_MUST_CHECK rl_status rl_vk_op_attn_prep(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n,
                                           const rl_vk_cache_types *types,
                                           const rl_attn_prep_push *push, rl_error *err);
RL_MUST_CHECK rl_status rl_vk_op_attn(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, bool fused,
                                      const rl_vk_cache_types *types, const rl_attn_push *push,
                                      rl_error *err);
RL_MUST_CHECK rl_status rl_vk_op_attn_out(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n,
                                          uint32_t head_dim, const rl_attn_out_push *push,
                                          rl_error *err);

/* Choice of experts for n tokens. */
RL_MUST_CHECK rl_status rl_vk_op_route(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, bool forced,
                                       const rl_route_push *push, rl_error *err);

/* The chosen experts' last matrices and the sum, in one; and the sum alone. input: plain, swiglu. */
RL_MUST_CHECK rl_status rl_vk_op_experts_down(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t type,
                                              uint32_t input, const rl_experts_down_push *push,
                                              rl_error *err);
RL_MUST_CHECK rl_status rl_vk_op_moe_sum(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n,
                                         const rl_moe_sum_push *push, rl_error *err);

/* The largest of push.n numbers: two dispatches with a barrier between; scratch holds
 * RL_VK_ARGMAX_GROUPS pairs, the result is the pair at push.best. */
enum { RL_VK_ARGMAX_GROUPS = 128 };
RL_MUST_CHECK rl_status rl_vk_op_argmax(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_argmax_push *push,
                                        uint64_t scratch, rl_error *err);

/* The largest RL_VK_TOP of push.n <= RL_VK_TOP_MOST numbers, in the order of rl_top_logits: two
 * dispatches with a barrier between. push.lists holds RL_VK_TOP_LIST_WORDS words of scratch,
 * push.result RL_VK_TOP_RESULT_WORDS; push.groups is filled in. */
enum {
    RL_VK_TOP_LIST_WORDS = 2 * RL_VK_TOP_GROUPS * RL_VK_TOP,
    RL_VK_TOP_RESULT_WORDS = 2 * (1 + RL_VK_TOP)
};
RL_MUST_CHECK rl_status rl_vk_op_top(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_top_push *push,
                                     rl_error *err);

/* Whether the backend has kernels for this tensor type. */
bool rl_vk_type_is_known(uint32_t type);

#endif
