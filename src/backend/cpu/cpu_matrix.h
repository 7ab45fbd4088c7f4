/* cpu_matrix.h - what the kernel files of the cpu backend share: how activations and unpacked
 * weights lie in memory, and the table of matrix operations. Private to src/backend/cpu.
 *
 * Integer products work on runs of 256 columns. A run holds 8 blocks of 32, each with an
 * activation scale of its own. Two orders of the 256 bytes exist:
 *
 *   ROW8  in order; block b is bytes 32 b .. 32 b + 31. For types whose blocks are 32 weights.
 *   RUN8  interleaved by groups of 8: byte 64 k + 8 b + j holds column 32 b + 8 k + j (k < 4,
 *         b < 8, j < 8). Four vectors of 64 bytes (or 4 x 2 of 32, 4 x 4 of 16); in each of them
 *         lane pair b belongs to block b. So the integer products of all four add up before the
 *         one multiplication with the activation scales, and codebook entries (8 weights) are
 *         whole lanes.
 *
 * RUN8 weights ("unpacked"): unsigned bytes w <= 127, which times x and summed in pairs stay
 * below 2^15, so that 8 x 8 -> 16 bit multiply-adds never saturate. Per run:
 *
 *   M[b] = sum_k m[4b+k] sums[4b+k]
 *   I[b] = sum_k s[k/2][b] * sum_j w x    (fold types: + M[b])
 *   y   += d * sum_b D[b] I[b]            (min types:  - dmin * sum_b D[b] M[b])
 *
 * with D the activation scale and sums[4b+k] the sum of the block's group k of activations.
 * Fold types store code + offset in w and -offset * s in m; I is then the exact signed product.
 *
 * ROW8 weights: signed bytes, per block  y += D d I + m D sum. */
#ifndef RL_BACKEND_CPU_MATRIX_H
#define RL_BACKEND_CPU_MATRIX_H

#include "backend/cpu/cpu_kernels.h"

#define RL_CPU_RUN   256 /* columns per run                                    */
#define RL_CPU_TILE  8   /* tokens that a tile kernel takes at once, at most   */
#define RL_CPU_ALIGN 64

typedef struct rl_act_run8 {
    int8_t q[256];
    float d[16];      /* scale of block b at 2b and 2b + 1                   */
    int16_t sums[32]; /* 4b + k: sum of group k of block b                   */
} rl_act_run8;

typedef struct rl_act_row8 {
    int8_t q[256];
    float d[8];
    float c[8]; /* d times the sum of the block */
} rl_act_row8;

typedef struct rl_wgt_run8 {
    uint8_t w[256];
    int16_t s[2][32]; /* s[h][4b .. 4b + 3]: scale of groups k = 2h, 2h + 1 of block b */
    int16_t m[32];    /* 4b + k: for the sum of group k of block b                    */
    float d;
    float dmin; /* 0 for fold types */
    uint8_t unused[56];
} rl_wgt_run8;

typedef struct rl_wgt_row8 {
    int8_t w[256];
    float d[8];
    float m[8];
} rl_wgt_row8;

_Static_assert(sizeof(rl_act_run8) == 384 && sizeof(rl_act_row8) == 320, "whole cache lines");
_Static_assert(sizeof(rl_wgt_run8) == 512 && sizeof(rl_wgt_row8) == 320, "whole cache lines");

typedef enum rl_cpu_kind {
    RL_KIND_FLOAT, /* decoded to f32                                */
    RL_KIND_FOLD,  /* RUN8, offset folded into I                    */
    RL_KIND_FOLD1, /* and both halves of a block have the same scale */
    RL_KIND_MIN,   /* RUN8, separate minimum                        */
    RL_KIND_MIN1,  /* and both halves of a block have the same scale */
    RL_KIND_ROW,   /* ROW8                                          */
    RL_KINDS
} rl_cpu_kind;

/* Some unpacked rows times some tokens. Rows lie row_bytes apart; y[t][r] is written. */
typedef struct rl_cpu_tile {
    const void *rows;
    size_t row_bytes;
    uint32_t n_rows;
    uint32_t n_runs; /* RUN8 and ROW8: runs of 256; float: columns */
    uint32_t n_tokens;
    const void *act[RL_CPU_TILE];
    float *y[RL_CPU_TILE];
} rl_cpu_tile;

typedef struct rl_cpu_type_ops {
    rl_cpu_kind kind;
    /* One row to n_runs unpacked runs (float: cols floats). Columns past cols become 0. */
    void (*unpack)(const uint8_t *row, uint32_t cols, void *out);
    /* y[r] = row r . act for r < n_rows; NULL: unpack and use the tile function. */
    void (*matvec)(const uint8_t *row, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                   const void *act, float *y);
} rl_cpu_type_ops;

typedef struct rl_cpu_matrix_ops {
    void (*quantise_run8)(const float *x, uint32_t cols, rl_act_run8 *out);
    void (*quantise_row8)(const float *x, uint32_t cols, rl_act_row8 *out);
    void (*tile[RL_KINDS])(const rl_cpu_tile *tile); /* by rl_cpu_kind */
    rl_cpu_type_ops type[RL_QUANT_ID_END];
} rl_cpu_matrix_ops;

/* The scale of a block of activations, kept to the eleven bits that Q8_0 keeps of its own. The codes
 * are still those of the full scale. */
static inline float rl_cpu_act_scale(float d)
{
    const uint32_t bits = rl_f32_bits(d);
    return rl_f32_from_bits((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

/* Asks for weights that are read soon: `bytes` from RL_CPU_AHEAD behind p on, which may lie outside
 * of the matrix. One thread's loads alone keep too few lines under way, and hardware prefetching
 * stops at every page. */
#define RL_CPU_AHEAD 4096
static inline __attribute__((always_inline)) void rl_cpu_prefetch(const void *p, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch((const uint8_t *)p + RL_CPU_AHEAD + line);
}

static inline uint32_t rl_cpu_runs(uint32_t cols)
{
    return (cols + RL_CPU_RUN - 1) / RL_CPU_RUN;
}

/* Where column i of a run lies in RUN8 order. */
static inline uint32_t rl_cpu_run8_at(uint32_t i)
{
    return 64 * (i % 32 / 8) + 8 * (i / 32) + i % 8;
}

/* The portable unpackers, complete: other tables start from them. cpu_unpack_any.c */
#define X(name, lower, id, weights, bytes)                                                         \
    void rl_cpu_unpack_##lower##_any(const uint8_t *row, uint32_t cols, void *out);
RL_QUANT_LIST(X)
#undef X

/* The kind of every type for tables with 8-bit activations. */
#define RL_CPU_KINDS(X)                                                                            \
    X(F32, f32, FLOAT)                                                                             \
    X(F16, f16, FLOAT)                                                                             \
    X(BF16, bf16, FLOAT)                                                                           \
    X(Q8_K, q8_k, FLOAT)                                                                           \
    X(NVFP4, nvfp4, FLOAT)                                                                         \
    X(Q2_K, q2_k, MIN)                                                                             \
    X(Q4_K, q4_k, MIN1)                                                                            \
    X(Q5_K, q5_k, MIN1)                                                                            \
    X(Q3_K, q3_k, FOLD)                                                                            \
    X(Q6_K, q6_k, FOLD)                                                                            \
    X(IQ2_XXS, iq2_xxs, FOLD1)                                                                     \
    X(IQ2_XS, iq2_xs, FOLD)                                                                        \
    X(IQ2_S, iq2_s, FOLD)                                                                          \
    X(IQ3_XXS, iq3_xxs, FOLD1)                                                                     \
    X(IQ3_S, iq3_s, FOLD1)                                                                         \
    X(IQ1_S, iq1_s, FOLD1)                                                                         \
    X(IQ1_M, iq1_m, FOLD)                                                                          \
    X(Q4_0, q4_0, ROW)                                                                             \
    X(Q4_1, q4_1, ROW)                                                                             \
    X(Q5_0, q5_0, ROW)                                                                             \
    X(Q5_1, q5_1, ROW)                                                                             \
    X(Q8_0, q8_0, ROW)                                                                             \
    X(IQ4_NL, iq4_nl, ROW)                                                                         \
    X(IQ4_XS, iq4_xs, ROW)                                                                         \
    X(TQ1_0, tq1_0, ROW)                                                                           \
    X(TQ2_0, tq2_0, ROW)                                                                           \
    X(MXFP4, mxfp4, ROW)                                                                           \
    X(Q1_0, q1_0, ROW)                                                                             \
    X(Q2_0, q2_0, ROW)

/* The matrix operations of a vector table, from the names that every kernel file defines, and of its
 * `exact` sister. */
#define RL_CPU_FAST(name, lower, kind)                                                             \
    [RL_QUANT_##name] = { RL_KIND_##kind, unpack_##lower, matvec_##lower }
#define RL_CPU_SLOW(name, lower, kind)                                                             \
    [RL_QUANT_##name] = { RL_KIND_##kind, rl_cpu_unpack_##lower##_any, NULL }
#define RL_CPU_FAST_OPS                                                                            \
    {                                                                                              \
        .quantise_run8 = quantise_run8, .quantise_row8 = quantise_row8,                            \
        .tile = { [RL_KIND_FLOAT] = tile_float, [RL_KIND_FOLD] = tile_fold,                        \
                  [RL_KIND_FOLD1] = tile_fold1, [RL_KIND_MIN] = tile_min,                          \
                  [RL_KIND_MIN1] = tile_min1,   [RL_KIND_ROW] = tile_row },                        \
        .type = {                                                                                  \
            FLOAT_TYPES,                                                                           \
            RL_CPU_SLOW(Q8_K, q8_k, FLOAT),                                                        \
            RL_CPU_SLOW(NVFP4, nvfp4, FLOAT),                                                      \
            RL_CPU_FAST(Q2_K, q2_k, MIN),                                                          \
            RL_CPU_FAST(Q4_K, q4_k, MIN1),                                                         \
            RL_CPU_FAST(Q5_K, q5_k, MIN1),                                                         \
            RL_CPU_FAST(Q3_K, q3_k, FOLD),                                                         \
            RL_CPU_FAST(Q6_K, q6_k, FOLD),                                                         \
            RL_CPU_FAST(IQ2_XXS, iq2_xxs, FOLD1),                                                  \
            RL_CPU_FAST(IQ2_XS, iq2_xs, FOLD),                                                     \
            RL_CPU_FAST(IQ2_S, iq2_s, FOLD),                                                       \
            RL_CPU_FAST(IQ3_XXS, iq3_xxs, FOLD1),                                                  \
            RL_CPU_FAST(IQ3_S, iq3_s, FOLD1),                                                      \
            RL_CPU_FAST(IQ1_S, iq1_s, FOLD1),                                                      \
            RL_CPU_FAST(IQ1_M, iq1_m, FOLD),                                                       \
            RL_CPU_FAST(Q4_0, q4_0, ROW),                                                          \
            RL_CPU_FAST(Q4_1, q4_1, ROW),                                                          \
            RL_CPU_FAST(Q5_0, q5_0, ROW),                                                          \
            RL_CPU_FAST(Q5_1, q5_1, ROW),                                                          \
            RL_CPU_FAST(Q8_0, q8_0, ROW),                                                          \
            RL_CPU_FAST(IQ4_NL, iq4_nl, ROW),                                                      \
            RL_CPU_FAST(IQ4_XS, iq4_xs, ROW),                                                      \
            RL_CPU_SLOW(TQ1_0, tq1_0, ROW),                                                        \
            RL_CPU_SLOW(TQ2_0, tq2_0, ROW),                                                        \
            RL_CPU_FAST(MXFP4, mxfp4, ROW),                                                        \
            RL_CPU_SLOW(Q1_0, q1_0, ROW),                                                          \
            RL_CPU_SLOW(Q2_0, q2_0, ROW)                                                           \
        }                                                                                          \
    }

/* Any type to f32, for `exact`. cpu_kernels_any.c */
#define X(name, lower, id, weights, bytes)                                                         \
    void rl_cpu_decode_##lower(const uint8_t *row, uint32_t cols, void *out);
RL_QUANT_LIST(X)
#undef X

#define RL_CPU_EXACT(name, lower) [RL_QUANT_##name] = { RL_KIND_FLOAT, rl_cpu_decode_##lower, NULL }
#define RL_CPU_EXACT_OPS                                                                           \
    {                                                                                              \
        .tile = { [RL_KIND_FLOAT] = tile_float }, .type = {                                        \
            FLOAT_TYPES,                                                                           \
            RL_CPU_EXACT(Q8_K, q8_k),                                                              \
            RL_CPU_EXACT(NVFP4, nvfp4),                                                            \
            RL_CPU_EXACT(Q2_K, q2_k),                                                              \
            RL_CPU_EXACT(Q4_K, q4_k),                                                              \
            RL_CPU_EXACT(Q5_K, q5_k),                                                              \
            RL_CPU_EXACT(Q3_K, q3_k),                                                              \
            RL_CPU_EXACT(Q6_K, q6_k),                                                              \
            RL_CPU_EXACT(IQ2_XXS, iq2_xxs),                                                        \
            RL_CPU_EXACT(IQ2_XS, iq2_xs),                                                          \
            RL_CPU_EXACT(IQ2_S, iq2_s),                                                            \
            RL_CPU_EXACT(IQ3_XXS, iq3_xxs),                                                        \
            RL_CPU_EXACT(IQ3_S, iq3_s),                                                            \
            RL_CPU_EXACT(IQ1_S, iq1_s),                                                            \
            RL_CPU_EXACT(IQ1_M, iq1_m),                                                            \
            RL_CPU_EXACT(Q4_0, q4_0),                                                              \
            RL_CPU_EXACT(Q4_1, q4_1),                                                              \
            RL_CPU_EXACT(Q5_0, q5_0),                                                              \
            RL_CPU_EXACT(Q5_1, q5_1),                                                              \
            RL_CPU_EXACT(Q8_0, q8_0),                                                              \
            RL_CPU_EXACT(IQ4_NL, iq4_nl),                                                          \
            RL_CPU_EXACT(IQ4_XS, iq4_xs),                                                          \
            RL_CPU_EXACT(TQ1_0, tq1_0),                                                            \
            RL_CPU_EXACT(TQ2_0, tq2_0),                                                            \
            RL_CPU_EXACT(MXFP4, mxfp4),                                                            \
            RL_CPU_EXACT(Q1_0, q1_0),                                                              \
            RL_CPU_EXACT(Q2_0, q2_0)                                                               \
        }                                                                                          \
    }

/* The tables, one per kernel file; which exist depends on the architecture of the build. */
extern const rl_cpu_kernels rl_cpu_kernels_exact;
extern const rl_cpu_kernels rl_cpu_kernels_scalar;
#if defined(__x86_64__)
extern const rl_cpu_kernels rl_cpu_kernels_exact_avx2;
extern const rl_cpu_kernels rl_cpu_kernels_exact_avx512;
extern const rl_cpu_kernels rl_cpu_kernels_avx2;
extern const rl_cpu_kernels rl_cpu_kernels_avx512;
extern const rl_cpu_kernels rl_cpu_kernels_avx512vnni;
#elif defined(__aarch64__)
extern const rl_cpu_kernels rl_cpu_kernels_exact_neon;
extern const rl_cpu_kernels rl_cpu_kernels_neon;
extern const rl_cpu_kernels rl_cpu_kernels_dotprod;
extern const rl_cpu_kernels rl_cpu_kernels_i8mm;
#endif

#endif
