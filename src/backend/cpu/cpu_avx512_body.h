/* cpu_avx512_body.h - the matrix kernels for AVX-512 (F, BW, VL, DQ); included by two files.
 *
 * With RL_AVX512_VNNI set, products use VNNI's multiply-adds, and sign bits are fetched with the
 * bit gathers of VBMI and BITALG, which all machines with AVX-512 VNNI but the first have. */
#include <immintrin.h>

#include "backend/cpu/cpu_grids.h"
#include "backend/cpu/cpu_matrix.h"
#include "backend/cpu/cpu_vectors.h"
#include "quant/codebooks.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i load64(const void *p)
{
    return _mm512_loadu_si512(p);
}

INLINE float half(const uint8_t field[2])
{
    return _cvtsh_ss(rl_load_u16(field));
}

#include "backend/cpu/cpu_avx512_run8.h"
#include "backend/cpu/cpu_avx512_row8.h"
#include "backend/cpu/cpu_avx512_float.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* Sixteen floats x 2 of one block, the same rounding as the portable code. */
INLINE __m256i quantise32(const float *x, float *d)
{
    __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    *d = max / 127.0f;
    float inverse = 127.0f / max;
    if (!(*d >= 0x1p-120f)) *d = inverse = 0;
    __m512 by = _mm512_set1_ps(inverse);
    __m128i low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, by)));
    __m128i high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, by)));
    return _mm256_set_m128i(high, low);
}

/* Sums of bytes 0..15 and 16..31. */
INLINE void sums16(__m256i q, int *low, int *high)
{
    __m256i sad =
        _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8((char)0x80)), _mm256_setzero_si256());
    *low = (int)(_mm256_extract_epi64(sad, 0) + _mm256_extract_epi64(sad, 1)) - 16 * 128;
    *high = (int)(_mm256_extract_epi64(sad, 2) + _mm256_extract_epi64(sad, 3)) - 16 * 128;
}

/* Block b of a run; short and missing blocks are filled up with zeros. */
INLINE __m256i quantise_block(const float *x, uint32_t cols, uint32_t first, float *d)
{
    if (first + 32 <= cols) return quantise32(x + first, d);
    float padded[32] = { 0 };
    if (first < cols) memcpy(padded, x + first, (cols - first) * sizeof *x);
    return quantise32(padded, d);
}

static void quantise_run8(const float *x, uint32_t cols, rl_act_run8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++) {
        memset(out->sums, 0, sizeof out->sums);
        for (uint32_t b = 0; b < 8; b++) {
            float d;
            int low, high;
            uint64_t groups[4];
            __m256i q = quantise_block(x, cols, first + 32 * b, &d);
            _mm256_storeu_si256((void *)groups, q);
            for (int k = 0; k < 4; k++)
                memcpy(out->q + 64 * k + 8 * b, &groups[k], 8);
            sums16(q, &low, &high);
            out->sums[4 * b] = (int16_t)low;
            out->sums[4 * b + 1] = (int16_t)high;
            out->d[2 * b] = out->d[2 * b + 1] = d;
        }
    }
}

static void quantise_row8(const float *x, uint32_t cols, rl_act_row8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++)
        for (uint32_t b = 0; b < 8; b++) {
            int low, high;
            __m256i q = quantise_block(x, cols, first + 32 * b, &out->d[b]);
            _mm256_storeu_si256((void *)(out->q + 32 * b), q);
            sums16(q, &low, &high);
            out->c[b] = out->d[b] * (float)(low + high);
        }
}

/* ---- the table ------------------------------------------------------------------------------- */

#define FAST(name, lower, kind)                                                                    \
    [RL_QUANT_##name] = { RL_KIND_##kind, unpack_##lower, matvec_##lower }
#define SLOW(name, lower, kind)                                                                    \
    [RL_QUANT_##name] = { RL_KIND_##kind, rl_cpu_unpack_##lower##_any, NULL }

static const rl_cpu_matrix_ops ops = {
    .quantise_run8 = quantise_run8,
    .quantise_row8 = quantise_row8,
    .tile = { [RL_KIND_FLOAT] = tile_float,
              [RL_KIND_FOLD] = tile_fold,
              [RL_KIND_MIN] = tile_min,
              [RL_KIND_ROW] = tile_row },
    .type = {
        [RL_QUANT_F32] = { RL_KIND_FLOAT, rl_cpu_unpack_f32_any, matvec_f32 },
        FAST(F16, f16, FLOAT), FAST(BF16, bf16, FLOAT),
        SLOW(Q8_K, q8_k, FLOAT), SLOW(NVFP4, nvfp4, FLOAT),
        FAST(Q2_K, q2_k, MIN), FAST(Q4_K, q4_k, MIN), FAST(Q5_K, q5_k, MIN),
        FAST(Q3_K, q3_k, FOLD), FAST(Q6_K, q6_k, FOLD),
        FAST(IQ2_XXS, iq2_xxs, FOLD), FAST(IQ2_XS, iq2_xs, FOLD), FAST(IQ2_S, iq2_s, FOLD),
        FAST(IQ3_XXS, iq3_xxs, FOLD), FAST(IQ3_S, iq3_s, FOLD),
        FAST(IQ1_S, iq1_s, FOLD), FAST(IQ1_M, iq1_m, FOLD),
        FAST(Q4_0, q4_0, ROW), FAST(Q4_1, q4_1, ROW), FAST(Q5_0, q5_0, ROW),
        FAST(Q5_1, q5_1, ROW), FAST(Q8_0, q8_0, ROW),
        FAST(IQ4_NL, iq4_nl, ROW), FAST(IQ4_XS, iq4_xs, ROW),
        SLOW(TQ1_0, tq1_0, ROW), SLOW(TQ2_0, tq2_0, ROW), SLOW(MXFP4, mxfp4, ROW),
        SLOW(Q1_0, q1_0, ROW), SLOW(Q2_0, q2_0, ROW),
    },
};
