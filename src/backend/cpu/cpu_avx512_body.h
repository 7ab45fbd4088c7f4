/* cpu_avx512_body.h - the matrix kernels for AVX-512 (F, BW, VL, DQ); included by two files.
 *
 * With RL_AVX512_VNNI set, products use VNNI's multiply-adds, and sign bits are fetched with the
 * bit gathers of VBMI and BITALG, which all machines with AVX-512 VNNI but the first have. */
#include <immintrin.h>

#include "backend/cpu/cpu_grids.h"
#include "backend/cpu/cpu_matrix.h"
#include "backend/cpu/cpu_vectors.h"
#include "quant/codebooks.h"

#include "backend/cpu/cpu_float_body.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i load64(const void *p)
{
    return _mm512_loadu_si512(p);
}

INLINE float half(const uint8_t field[2])
{
    return _cvtsh_ss(rl_load_u16(field));
}

/* The sum of 16 lanes, in the order of reduce8(). */
INLINE float reduce(__m512 x)
{
    x = _mm512_add_ps(x, _mm512_permute_ps(x, 0x4e)); /* lanes 2 apart, then 1 apart */
    x = _mm512_add_ps(x, _mm512_permute_ps(x, 0xb1));
    x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1)); /* quarters 1 apart, then 2 apart */
    return _mm512_cvtss_f32(_mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0x4e)));
}

/* Eight sums at once, the same bits for fewer shuffles: pairs are interleaved as they are added. */
INLINE __m256 reduce8(const __m512 x[8])
{
    __m512 pair[4], four[2];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        pair[i] = _mm512_add_ps(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]),
                                _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]));
    V_UNROLL
    for (int i = 0; i < 2; i++) {
        __m512d a = _mm512_castps_pd(pair[2 * i]), b = _mm512_castps_pd(pair[2 * i + 1]);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    __m512 eight = _mm512_add_ps(_mm512_shuffle_f32x4(four[0], four[1], 0x88),
                                 _mm512_shuffle_f32x4(four[0], four[1], 0xdd));
    eight = _mm512_add_ps(eight, _mm512_shuffle_f32x4(eight, eight, 0xb1));
    return _mm512_castps512_ps256(_mm512_shuffle_f32x4(eight, eight, 0x08));
}

#include "backend/cpu/cpu_avx512_run8.h"
#include "backend/cpu/cpu_avx512_row8.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* Sixteen floats x 2 of one block, the same rounding as the portable code. */
INLINE __m256i quantise32(const float *x, float *d)
{
    __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    *d = max / 127.0f;
    float inverse = 127.0f / max;
    if (!(*d >= 0x1p-120f)) *d = inverse = 0;
    *d = rl_cpu_act_scale(*d);
    __m512 by = _mm512_set1_ps(inverse);
    __m128i low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, by)));
    __m128i high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, by)));
    return _mm256_set_m128i(high, low);
}

#include "backend/cpu/cpu_x86_quantise.h"
