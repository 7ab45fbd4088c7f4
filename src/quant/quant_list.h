/* quant_list.h - every tensor type of GGUF that can hold weights, once.
 *
 * RL_QUANT_LIST names each type with its id in files, the weights per block, and the bytes per
 * block; the structs below say where the fields of a block lie. Everything else (size table,
 * decoders, kernel tables, shaders) is an expansion of this list, so a type cannot be half there.
 *
 * Block structs are made of bytes only: blocks have odd sizes and lie anywhere in a file, so their
 * alignment is 1. Read f16 fields with rl_quant_f16(), wider ones with rl_load_*().
 * Source of every layout: docs/formats.md. */
#ifndef RL_QUANT_QUANT_LIST_H
#define RL_QUANT_QUANT_LIST_H

#include "base/bytes.h"

/*        name     lower    id  weights  bytes */
#define RL_QUANT_LIST(X)                                                                           \
    X(F32, f32, 0, 1, 4)                                                                           \
    X(F16, f16, 1, 1, 2)                                                                           \
    X(Q4_0, q4_0, 2, 32, 18)                                                                       \
    X(Q4_1, q4_1, 3, 32, 20)                                                                       \
    X(Q5_0, q5_0, 6, 32, 22)                                                                       \
    X(Q5_1, q5_1, 7, 32, 24)                                                                       \
    X(Q8_0, q8_0, 8, 32, 34)                                                                       \
    X(Q2_K, q2_k, 10, 256, 84)                                                                     \
    X(Q3_K, q3_k, 11, 256, 110)                                                                    \
    X(Q4_K, q4_k, 12, 256, 144)                                                                    \
    X(Q5_K, q5_k, 13, 256, 176)                                                                    \
    X(Q6_K, q6_k, 14, 256, 210)                                                                    \
    X(Q8_K, q8_k, 15, 256, 292)                                                                    \
    X(IQ2_XXS, iq2_xxs, 16, 256, 66)                                                               \
    X(IQ2_XS, iq2_xs, 17, 256, 74)                                                                 \
    X(IQ3_XXS, iq3_xxs, 18, 256, 98)                                                               \
    X(IQ1_S, iq1_s, 19, 256, 50)                                                                   \
    X(IQ4_NL, iq4_nl, 20, 32, 18)                                                                  \
    X(IQ3_S, iq3_s, 21, 256, 110)                                                                  \
    X(IQ2_S, iq2_s, 22, 256, 82)                                                                   \
    X(IQ4_XS, iq4_xs, 23, 256, 136)                                                                \
    X(IQ1_M, iq1_m, 29, 256, 56)                                                                   \
    X(BF16, bf16, 30, 1, 2)                                                                        \
    X(TQ1_0, tq1_0, 34, 256, 54)                                                                   \
    X(TQ2_0, tq2_0, 35, 256, 66)                                                                   \
    X(MXFP4, mxfp4, 39, 32, 17)                                                                    \
    X(NVFP4, nvfp4, 40, 64, 36)                                                                    \
    X(Q1_0, q1_0, 41, 128, 18)                                                                     \
    X(Q2_0, q2_0, 42, 64, 18)

/* RL_QUANT_F32 = 0 ... as stored in files. */
enum rl_quant_type {
#define X(name, lower, id, weights, bytes) RL_QUANT_##name = (id),
    RL_QUANT_LIST(X)
#undef X
        RL_QUANT_ID_END = 43 /* all ids above are smaller */
};

/* ---- float ---------------------------------------------------------------------------------- */

typedef struct rl_block_f32 {
    uint8_t value[4];
} rl_block_f32;

typedef struct rl_block_f16 {
    uint8_t value[2];
} rl_block_f16;

typedef struct rl_block_bf16 {
    uint8_t value[2];
} rl_block_bf16;

/* ---- 32 weights ----------------------------------------------------------------------------- */

typedef struct rl_block_q4_0 {
    uint8_t d[2];   /* f16 scale                                              */
    uint8_t qs[16]; /* low nibbles: weights 0..15, high nibbles: 16..31       */
} rl_block_q4_0;

typedef struct rl_block_q4_1 {
    uint8_t d[2];
    uint8_t m[2]; /* f16, added to every weight */
    uint8_t qs[16];
} rl_block_q4_1;

typedef struct rl_block_q5_0 {
    uint8_t d[2];
    uint8_t qh[4]; /* bit i: fifth bit of weight i */
    uint8_t qs[16];
} rl_block_q5_0;

typedef struct rl_block_q5_1 {
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qh[4];
    uint8_t qs[16];
} rl_block_q5_1;

typedef struct rl_block_q8_0 {
    uint8_t d[2];
    int8_t qs[32];
} rl_block_q8_0;

typedef struct rl_block_iq4_nl {
    uint8_t d[2];
    uint8_t qs[16]; /* indices into rl_iq4nl_values */
} rl_block_iq4_nl;

/* ---- K: 256 weights in groups with small integer scales -------------------------------------- */

typedef struct rl_block_q2_k {
    uint8_t scales[16]; /* per 16 weights: low nibble scale, high nibble minimum */
    uint8_t qs[64];     /* 2-bit codes, four planes per 32 bytes                 */
    uint8_t d[2];
    uint8_t dmin[2];
} rl_block_q2_k;

typedef struct rl_block_q3_k {
    uint8_t hmask[32]; /* bit i/32 of byte i%32: third bit of weight i */
    uint8_t qs[64];
    uint8_t scales[12]; /* sixteen 6-bit scales, biased by 32           */
    uint8_t d[2];
} rl_block_q3_k;

typedef struct rl_block_q4_k {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12]; /* eight 6-bit scales and eight 6-bit minimums  */
    uint8_t qs[128];    /* 32 bytes hold 64 weights: low nibbles first  */
} rl_block_q4_k;

typedef struct rl_block_q5_k {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qh[32]; /* bit i/32 of byte i%32: fifth bit of weight i */
    uint8_t qs[128];
} rl_block_q5_k;

typedef struct rl_block_q6_k {
    uint8_t ql[128];   /* 64 bytes hold the low nibbles of 128 weights */
    uint8_t qh[64];    /* 2-bit planes                                 */
    int8_t scales[16]; /* per 16 weights                               */
    uint8_t d[2];      /* the last field here                          */
} rl_block_q6_k;

typedef struct rl_block_q8_k {
    uint8_t d[4]; /* f32 */
    int8_t qs[256];
    uint8_t sums[32]; /* i16 sums of 16 codes each; not needed to decode */
} rl_block_q8_k;

/* ---- grids: 256 weights, codebook entries of 8 or 4 ------------------------------------------ */

typedef struct rl_block_iq2_xxs {
    uint8_t d[2];
    uint8_t groups[64]; /* per 32 weights: 4 grid indices, then u32 of 4 x 7 sign bits + scale */
} rl_block_iq2_xxs;

typedef struct rl_block_iq2_xs {
    uint8_t d[2];
    uint8_t qs[64];    /* u16 per 8 weights: 9 bits grid index, 7 bits sign index */
    uint8_t scales[8]; /* a nibble per 16 weights                                 */
} rl_block_iq2_xs;

typedef struct rl_block_iq2_s {
    uint8_t d[2];
    uint8_t qs[32];    /* low 8 index bits per 8 weights */
    uint8_t signs[32]; /* one bit per weight             */
    uint8_t qh[8];     /* two more index bits            */
    uint8_t scales[8];
} rl_block_iq2_s;

typedef struct rl_block_iq3_xxs {
    uint8_t d[2];
    uint8_t qs[64];    /* index per 4 weights               */
    uint8_t gas[8][4]; /* u32 per 32 weights: signs + scale */
} rl_block_iq3_xxs;

typedef struct rl_block_iq3_s {
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t qh[8]; /* ninth index bit per 4 weights */
    uint8_t signs[32];
    uint8_t scales[4]; /* a nibble per 32 weights       */
} rl_block_iq3_s;

typedef struct rl_block_iq1_s {
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t qh[8][2]; /* u16 per 32 weights: 4 x 3 index bits, 3 scale bits, sign of the shift */
} rl_block_iq1_s;

typedef struct rl_block_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];       /* nibble per 8 weights: 3 index bits, sign of the shift              */
    uint8_t scales[4][2]; /* u16: 4 x 3 scale bits (per 16 weights), top nibble: a quarter of d */
} rl_block_iq1_m;

typedef struct rl_block_iq4_xs {
    uint8_t d[2];
    uint8_t scales_h[2]; /* two high bits per 32 weights  */
    uint8_t scales_l[4]; /* four low bits per 32 weights  */
    uint8_t qs[128];     /* 16 bytes per 32 weights, laid out like IQ4_NL */
} rl_block_iq4_xs;

/* ---- ternary, fp4, and the small ones -------------------------------------------------------- */

typedef struct rl_block_tq1_0 {
    uint8_t qs[48]; /* five base-3 digits per byte */
    uint8_t qh[4];  /* four base-3 digits per byte */
    uint8_t d[2];
} rl_block_tq1_0;

typedef struct rl_block_tq2_0 {
    uint8_t qs[64];
    uint8_t d[2];
} rl_block_tq2_0;

typedef struct rl_block_mxfp4 {
    uint8_t e; /* exponent of the scale */
    uint8_t qs[16];
} rl_block_mxfp4;

typedef struct rl_block_nvfp4 {
    uint8_t scales[4]; /* E4M3 per 16 weights                          */
    uint8_t qs[32];    /* 8 bytes per 16 weights: low nibbles first    */
} rl_block_nvfp4;

typedef struct rl_block_q1_0 {
    uint8_t d[2];
    uint8_t qs[16]; /* one bit per weight */
} rl_block_q1_0;

typedef struct rl_block_q2_0 {
    uint8_t d[2];
    uint8_t qs[16]; /* two bits per weight, in order */
} rl_block_q2_0;

#define X(name, lower, id, weights, bytes)                                                         \
    _Static_assert(sizeof(rl_block_##lower) == (bytes), #name);                                    \
    _Static_assert((id) < RL_QUANT_ID_END, #name);
RL_QUANT_LIST(X)
#undef X

static inline float rl_quant_f16(const uint8_t field[2])
{
    return rl_f32_from_f16(rl_load_u16(field));
}

#endif
