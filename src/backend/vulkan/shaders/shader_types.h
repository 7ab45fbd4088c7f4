/* shader_types.h - what C and the shaders must agree on: structs in GPU memory and push constants.
 *
 * Read by both compilers. Every struct is laid out alike by C and by std430: 64-bit members first,
 * then 32-bit ones, size a multiple of 8 where a 64-bit member is inside. The C side asserts sizes.
 * Addresses are device addresses of f32 arrays unless a comment says otherwise. */
#ifndef RL_SHADER_TYPES_H
#define RL_SHADER_TYPES_H

#ifdef GL_core_profile
#define RL_U64 uint64_t
#define RL_U32 uint
#define RL_F32 float
#else
#include <stddef.h>
#include <stdint.h>
#define RL_U64 uint64_t
#define RL_U32 uint32_t
#define RL_F32 float
#endif

/* ---- the codebook buffer: 32-bit words, made by vk_tables.c ------------------------------------- */

#define RL_TABLE_IQ1     0    /* 2048 x u16: 8 codes of 2 bits: 0: 0, 1: +1, 3: -1 */
#define RL_TABLE_IQ2_XXS 1024 /* 256 x 8 bytes                                     */
#define RL_TABLE_IQ2_XS  1536 /* 512 x 8 bytes                                     */
#define RL_TABLE_IQ2_S   2560 /* 1024 x 8 bytes                                    */
#define RL_TABLE_IQ3_XXS 4608 /* 256 x 4 bytes                                     */
#define RL_TABLE_IQ3_S   4864 /* 512 x 4 bytes                                     */
#define RL_TABLE_IQ4_NL  5376 /* 16 x f32                                          */
#define RL_TABLE_MXFP4   5392 /* 16 x f32                                          */

/* The same for products of bytes (RL_INTEGER): */
#define RL_TABLE_PACKED_IQ1 5408 /* 2048 words: 8 codes of 4 bits, the weight + 1              */
#define RL_TABLE_PACKED     6432 /* added to one of IQ2 or IQ3: entries of plain bytes         */
#define RL_TABLE_WORDS      11808

/* ---- what changes from token to token -------------------------------------------------------------- */

/* One per recorded token or batch, in memory that the host writes and kernels read. Arrays that belong to it (token ids, angles) have addresses of their own. */
struct rl_vk_token {
    RL_U32 halt; /* layer + 1 of the first layer with an absent expert; kernels then return, but for
                        those that take numbered values                                          */
    RL_U32 position; /* of the batch's first token                                               */
    RL_U32 side;     /* which copy of the recurrent state is read: 0 or 1                        */
    RL_U32 n;        /* tokens                                                                   */
    RL_U32 check;    /* not 0: an absent expert halts                                            */
    RL_U32 turn;     /* linked stages: how many tokens have been through them, this one included */
    RL_U64 counters; /* linked stages: u32 [n_layer], RL_LINK_STRIDE bytes apart                 */
    RL_U32 late;     /* set when a linked stage has waited too long                              */
    RL_U32 unused[3];
};

/* ---- stages that follow each other without a barrier (link.glsl) ---------------------------------- */

/* Specialisation constant LINK, a sum: */
#define RL_LINK_TAKES   1 /* what the kernel reads of this token is numbered   */
#define RL_LINK_GIVES   2 /* what it writes for the next stages is numbered    */
#define RL_LINK_WAITS   4 /* for the stage before, which is counted            */
#define RL_LINK_ARRIVES 8 /* this stage is counted                             */

/* push.link: the layer, and in the low bits how many workgroups the counted stage before has. */
#define RL_LINK_LAYER  16
#define RL_LINK_GROUPS 0xffff
#define RL_LINK_STRIDE 128 /* bytes between counters: each has a line of the cache */

/* A numbered value: u64, the value below and its number above: the token's turn, and in the low bits the
 * layer that it is for. */
#define RL_NUMBER_LAYER 10
#define RL_NUMBER_VOID  0x80000000u /* the token has halted before */

/* A numbered choice: as many such words per rank. */
#define RL_CHOICE_WORDS  4
#define RL_CHOICE_SLOT   0 /* two: address of the slot; 0: absent */
#define RL_CHOICE_WEIGHT 2 /* f32                                 */

/* ---- push constants ------------------------------------------------------------------------------ */

/* How product.glsl and matmul.comp read their input (specialisation constant INPUT). */
#define RL_INPUT_PLAIN  0 /* x                                                           */
#define RL_INPUT_NORM   1 /* rms(x) * aux: aux [cols] are the norm's weights             */
#define RL_INPUT_HEADS  2 /* x scaled per head: aux [cols / head][parts] sums of squares */
#define RL_INPUT_SWIGLU 3 /* silu(x) * aux                                               */

/* What is added to the product (ADD). */
#define RL_ADD_NOTHING  0
#define RL_ADD_PLAIN    1
#define RL_ADD_NUMBERED 2

#define RL_VK_MAX_HEADS 256 /* cols / head of RL_INPUT_HEADS */

/* How product.glsl finds its matrix (MATRIX). */
#define RL_MATRIX_PLAIN       0 /* at w                                                          */
#define RL_MATRIX_PAIR        1 /* two: at w and w + second; the output is silu(first) * second  */
#define RL_MATRIX_ROUTED      2 /* in the slot of the expert of rank WorkGroupID.y, at w bytes   */
#define RL_MATRIX_ROUTED_PAIR 3

struct rl_matvec_push {
    RL_U64 w;      /* address of the weights, or their offset in the slot             */
    RL_U64 second; /* bytes from the first to the second matrix of a pair             */
    RL_U64 x;
    RL_U64 aux;
    RL_U64 y;
    RL_U64 add; /* added to y; read only with the constant ADD                     */
    RL_U64 ids; /* routed: u32 [token][rank], expert numbers, or a numbered choice; otherwise, and
                         if y is numbered: where it goes without numbers too, 0: nowhere  */
    RL_U64 residency; /* routed: u64 [n_expert] of the layer, slot addresses; 0: absent  */
    RL_U64 tables;    /* codebooks                                                       */
    RL_U64 token;     /* rl_vk_token                                                     */
    RL_U32 cols, rows;
    RL_U32 row_bytes;
    RL_U32 head;    /* RL_INPUT_HEADS: values per head                                 */
    RL_U32 x_rank;  /* routed: floats from one rank's input to the next                */
    RL_U32 ranks;   /* routed: K                                                       */
    RL_U32 mask;    /* routed: ranks that take part, one bit each                      */
    RL_U32 x_token; /* floats from one token's input to the next (WorkGroupID.z)       */
    RL_U32 y_token;
    RL_F32 eps;
    RL_U32 despite; /* a halt of this value does not stop the product                  */
    RL_U32 link;    /* RL_LINK_LAYER                                                   */
};

struct rl_embed_push {
    RL_U64 w;      /* the table [n_vocab][cols] */
    RL_U64 tokens; /* u32 [n]                   */
    RL_U64 y;      /* [n][cols]                 */
    RL_U64 tables;
    RL_U32 cols, row_bytes;
};

struct rl_norm_push {
    RL_U64 x;      /* [n][cols]                        */
    RL_U64 weight; /* [cols]                           */
    RL_U64 y;      /* [n][cols]                        */
    RL_U32 cols;
    RL_F32 eps;
};

/* Y = X W^T for many tokens. */
struct rl_matmul_push {
    RL_U64 w;         /* address of the weights, or their offset in the slot               */
    RL_U64 x;         /* [..][cols]                                                        */
    RL_U64 aux;       /* as for matvec; of x's shape for SWIGLU                            */
    RL_U64 y;         /* [..][rows]                                                        */
    RL_U64 add;       /* [..][rows]                                                        */
    RL_U64 tiles;     /* routed: rl_vk_tile, one per WorkGroupID.y                         */
    RL_U64 list;      /* routed: u32, rows of y in the order of the tiles                  */
    RL_U64 residency; /* routed: u64 [n_expert]                                            */
    RL_U64 tables;
    RL_U32 cols, rows, row_bytes;
    RL_U32 n;      /* rows of x; not routed                                             */
    RL_U32 divide; /* routed: x's row is list[i] / divide                               */
    RL_U32 head, parts;
    RL_F32 eps;
};

/* Tokens of one expert that one workgroup takes. */
struct rl_vk_tile {
    RL_U32 expert, first, count, unused;
};

struct rl_delta_push {
    RL_U64 u;      /* [n][channels]  projections before the convolution   */
    RL_U64 z;      /* [n][Hv D]      output gate                          */
    RL_U64 ba;     /* [n][2 Hv]      b and a, interleaved per key head    */
    RL_U64 conv_w; /* [channels][taps]                                    */
    RL_U64 dt;     /* [Hv]                                                */
    RL_U64 a;      /* [Hv]                                                */
    RL_U64 norm;   /* [D]                                                 */
    RL_U64 conv;   /* [2][taps - 1][channels]   state, both copies        */
    RL_U64 state;  /* [2][Hv][D][D]             state, both copies        */
    RL_U64 y;      /* [n][Hv D]      gated, norm's weight in, not scaled  */
    RL_U64 sums;   /* [n][Hv][parts] sums of squares of what y was before */
    RL_U64 token;
    RL_U32 n_key_head, n_value_head;
    RL_U32 taps;
    RL_U32 link;
};

struct rl_attn_prep_push {
    RL_U64 q;      /* [n][Hq][2 d]  query, gate; the query is changed in place */
    RL_U64 k;      /* [n][Hkv][d]                                              */
    RL_U64 v;      /* [n][Hkv][d]                                              */
    RL_U64 q_norm; /* [d]                                                      */
    RL_U64 k_norm; /* [d]                                                      */
    RL_U64 keys;   /* cache [n_ctx][Hkv d], f32 or f16                         */
    RL_U64 values;
    RL_U64 rope; /* [n][n_rot / 2] pairs (cosine, sine)                      */
    RL_U64 token;
    RL_U32 n_head, n_head_kv, n_rot;
    RL_F32 eps;
};

struct rl_attn_push {
    RL_U64 q; /* [n][Hq][2 d]                                     */
    RL_U64 k; /* FUSED: [n][Hkv][d] of this token                 */
    RL_U64 v;
    RL_U64 q_norm;
    RL_U64 k_norm;
    RL_U64 keys;
    RL_U64 values;
    RL_U64 rope;
    RL_U64 parts; /* [n][splits][Hq][d + 2]: sums, maximum, weight    */
    RL_U64 token;
    RL_U32 n_head, n_head_kv, n_rot;
    RL_U32 splits;
    RL_F32 eps;
    RL_U32 from, until; /* positions of the first token; at others nothing happens */
    RL_U32 link;
};

struct rl_attn_out_push {
    RL_U64 parts;
    RL_U64 q; /* [n][Hq][2 d]: the gates                          */
    RL_U64 y; /* [n][Hq d]                                        */
    RL_U64 token;
    RL_U32 n_head;
    RL_U32 splits;
    RL_U32 link, unused;
};

struct rl_route_push {
    RL_U64 logits;    /* [n][E]                                            */
    RL_U64 forced;    /* FORCED: u32 [n][K]                                */
    RL_U64 ids;       /* u32 [n][K]                                        */
    RL_U64 weights;   /* [n][K]                                            */
    RL_U64 publish;   /* u32 [n][K], where the host reads                  */
    RL_U64 residency; /* u64 [E] of the layer                              */
    RL_U64 token;
    RL_U32 n_expert, k;
    RL_U32 layer;
    RL_U32 unused;
};

#ifndef GL_core_profile
typedef struct rl_route_push rl_route_push;
#endif

/* One token: its router's product, of which one workgroup makes the choice (router.comp). */
struct rl_router_push {
    RL_U64 w;            /* [E][cols]                                            */
    RL_U64 x;            /* [cols]                                               */
    RL_U64 aux;          /* [cols] weights of the norm                           */
    RL_U64 arrivals;     /* u32: workgroups that are done; zero before and after; if the logits are
                            numbered, where the choice goes, numbered too        */
    rl_route_push route; /* .logits: where the product goes                      */
    RL_U32 cols, row_bytes;
    RL_U32 despite; /* as in rl_matvec_push */
    RL_F32 eps;
    RL_U32 link, unused;
};

/* One token: products of the chosen experts' last matrices, summed with everything else. */
struct rl_experts_down_push {
    RL_U64 w;   /* offset in the slot                                */
    RL_U64 x;   /* [K][cols]                                         */
    RL_U64 aux; /* RL_INPUT_SWIGLU: of x's shape */
    RL_U64 ids, weights, residency;
    RL_U64 scale;   /* one float: logit of the shared expert's scale     */
    RL_U64 shared_; /* [rows]                                            */
    RL_U64 add;     /* [rows]: what y is added to                        */
    RL_U64 y;       /* [rows], may be the same                           */
    RL_U64 tables, token;
    RL_U32 cols, rows, row_bytes, k;
    RL_U32 link, unused;
};

struct rl_moe_sum_push {
    RL_U64 d;       /* [n][K][rows]                                        */
    RL_U64 weights; /* [n][K]                                              */
    RL_U64 scale;   /* [n]                                                 */
    RL_U64 shared_; /* [n][rows]                                           */
    RL_U64 y;       /* [n][rows], in place                                 */
    RL_U32 rows, k;
};

/* The largest of many numbers and where it stands. */
struct rl_argmax_push {
    RL_U64 x;    /* [n] floats, or pairs (float, index) with PAIRS         */
    RL_U64 best; /* pairs, one per workgroup                               */
    RL_U64 token;
    RL_U32 n, per_group;
};

/* The largest RL_VK_TOP of up to RL_VK_TOP_MOST numbers, in order: pieces of at most RL_VK_TOP_SHARE
 * numbers per invocation, then all pieces in one workgroup. */
#define RL_VK_TOP        128
#define RL_VK_TOP_GROUPS 64
#define RL_VK_TOP_SHARE  16
#define RL_VK_TOP_MOST   (RL_VK_TOP_GROUPS * 256 * RL_VK_TOP_SHARE)

struct rl_top_push {
    RL_U64 x;      /* [n]                                                              */
    RL_U64 lists;  /* u64 [groups][RL_VK_TOP]: what the pieces hand on                 */
    RL_U64 result; /* u32 pairs: (how many, 0), (bits of a number, its index) ...      */
    RL_U64 token;
    RL_U32 n, groups;
};

#ifndef GL_core_profile
#define RL_STRUCT(name, bytes)                                                                     \
    typedef struct name name;                                                                      \
    _Static_assert(sizeof(name) == (bytes), #name " is laid out otherwise by shaders");
RL_STRUCT(rl_vk_token, 48)
RL_STRUCT(rl_vk_tile, 16)
RL_STRUCT(rl_matvec_push, 128)
RL_STRUCT(rl_embed_push, 40)
RL_STRUCT(rl_norm_push, 32)
RL_STRUCT(rl_matmul_push, 104)
RL_STRUCT(rl_delta_push, 112)
RL_STRUCT(rl_attn_prep_push, 88)
RL_STRUCT(rl_attn_push, 112)
RL_STRUCT(rl_attn_out_push, 48)
RL_STRUCT(rl_route_push, 72)
RL_STRUCT(rl_router_push, 128)
RL_STRUCT(rl_experts_down_push, 120)
RL_STRUCT(rl_moe_sum_push, 48)
RL_STRUCT(rl_argmax_push, 32)
RL_STRUCT(rl_top_push, 40)
#undef RL_STRUCT
#endif

#endif
