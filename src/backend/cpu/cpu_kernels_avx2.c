/* cpu_kernels_avx2.c - the table for AVX2 with FMA and F16C. Only called after cpu_select.c has
 * seen the features. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "backend/cpu/cpu_grids.h"
#include "backend/cpu/cpu_matrix.h"
#include "backend/cpu/cpu_vectors.h"
#include "quant/codebooks.h"

#include "backend/cpu/cpu_float_body.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE float half(const uint8_t field[2])
{
    return _cvtsh_ss(rl_load_u16(field));
}

#include "backend/cpu/cpu_avx2_run8.h"
#include "backend/cpu/cpu_avx2_row8.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* 32 floats to bytes, the same rounding as the portable code. */
INLINE __m256i quantise32(const float *x, float *d)
{
    __m256 v[4], max = _mm256_setzero_ps();
    const __m256 sign = _mm256_set1_ps(-0.0f);
    V_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        max = _mm256_max_ps(max, _mm256_andnot_ps(sign, v[i]));
    }
    float most = v_top(max);
    *d = most / 127.0f;
    float inverse = 127.0f / most;
    if (!(*d >= 0x1p-120f)) *d = inverse = 0;
    *d = rl_cpu_act_scale(*d);
    __m256i q[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

#include "backend/cpu/cpu_x86_quantise.h"

/* ---- the tables ------------------------------------------------------------------------------ */

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_avx2 = { .name = "avx2", RL_CPU_VECTORS(avx2), .matrix = &ops };

static const rl_cpu_matrix_ops exact_ops = RL_CPU_EXACT_OPS;

const rl_cpu_kernels rl_cpu_kernels_exact_avx2 = { .name = "exact",
                                                   RL_CPU_VECTORS(avx2),
                                                   .matrix = &exact_ops };

#else
typedef int rl_cpu_no_avx2; /* another architecture */
#endif
