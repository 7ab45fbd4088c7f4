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
