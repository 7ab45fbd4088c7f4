/* cpu_simd.h - float vectors under one set of names: AVX-512, AVX2 with FMA and F16C, or NEON,
 * whichever the including file is compiled for. Private to src/backend/cpu; everything is static,
 * so nothing of it can end up in a file that runs on older machines.
 *
 * V_LANES floats per vector. The _n forms touch only the first n < V_LANES elements of memory; the
 * other lanes are 0. */
#ifndef RL_BACKEND_CPU_SIMD_H
#define RL_BACKEND_CPU_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define V_INLINE static inline __attribute__((always_inline, unused))

/* Unrolls the next loop completely, so that arrays indexed by it live in registers. */
#if defined(__clang__)
#define V_UNROLL _Pragma("clang loop unroll(full)")
#else
#define V_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)
#include <immintrin.h>

#define V_LANES 16
typedef __m512 vec;

V_INLINE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
V_INLINE void v_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a);
}
V_INLINE __mmask16 v_mask(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}
V_INLINE vec v_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(v_mask(n), p);
}
V_INLINE void v_store_n(float *p, vec a, size_t n)
{
    _mm512_mask_storeu_ps(p, v_mask(n), a);
}
V_INLINE vec v_load16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
V_INLINE vec v_loadb16(const uint16_t *p) /* bf16 */
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
V_INLINE void v_store16(uint16_t *p, vec a)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
V_INLINE vec v_set(float a)
{
    return _mm512_set1_ps(a);
}
V_INLINE vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
V_INLINE vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
V_INLINE vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
V_INLINE vec v_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
V_INLINE vec v_fma(vec a, vec b, vec c) /* a b + c */
{
    return _mm512_fmadd_ps(a, b, c);
}
V_INLINE vec v_fnma(vec a, vec b, vec c) /* c - a b */
{
    return _mm512_fnmadd_ps(a, b, c);
}
V_INLINE vec v_min(vec a, vec b) /* b where either is NaN */
{
    return _mm512_min_ps(a, b);
}
V_INLINE vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
V_INLINE vec v_round(vec a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
V_INLINE vec v_scale2(vec a, vec n) /* a 2^n, n whole */
{
    return _mm512_scalef_ps(a, n);
}
V_INLINE float v_sum(vec a)
{
    return _mm512_reduce_add_ps(a);
}
V_INLINE float v_top(vec a)
{
    return _mm512_reduce_max_ps(a);
}

#elif defined(__AVX2__)
#include <immintrin.h>

#define V_LANES 8
typedef __m256 vec;

V_INLINE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
V_INLINE void v_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a);
}
V_INLINE __m256i v_mask(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
V_INLINE vec v_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, v_mask(n));
}
V_INLINE void v_store_n(float *p, vec a, size_t n)
{
    _mm256_maskstore_ps(p, v_mask(n), a);
}
V_INLINE vec v_load16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
V_INLINE vec v_loadb16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
V_INLINE void v_store16(uint16_t *p, vec a)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
V_INLINE vec v_set(float a)
{
    return _mm256_set1_ps(a);
}
V_INLINE vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
V_INLINE vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
V_INLINE vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
V_INLINE vec v_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
V_INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
V_INLINE vec v_fnma(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
V_INLINE vec v_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}
V_INLINE vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
V_INLINE vec v_round(vec a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
V_INLINE vec v_pow2(__m256i n) /* -126 <= n <= 127 */
{
    __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_castsi256_ps(bits);
}
V_INLINE vec v_scale2(vec a, vec n) /* in two steps, so that subnormals and infinity come out */
{
    __m256i whole = _mm256_cvtps_epi32(n), part = _mm256_srai_epi32(whole, 1);
    return v_mul(v_mul(a, v_pow2(part)), v_pow2(_mm256_sub_epi32(whole, part)));
}
V_INLINE float v_sum(vec a)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
V_INLINE float v_top(vec a)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#elif defined(__ARM_NEON)
#include <arm_neon.h>

#define V_LANES 4
typedef float32x4_t vec;

V_INLINE vec v_load(const float *p)
{
    return vld1q_f32(p);
}
V_INLINE void v_store(float *p, vec a)
{
    vst1q_f32(p, a);
}
V_INLINE vec v_load_n(const float *p, size_t n)
{
    float padded[4] = { 0 };
    memcpy(padded, p, n * sizeof *p);
    return vld1q_f32(padded);
}
V_INLINE void v_store_n(float *p, vec a, size_t n)
{
    float padded[4];
    vst1q_f32(padded, a);
    memcpy(p, padded, n * sizeof *p);
}
V_INLINE vec v_load16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
V_INLINE vec v_loadb16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
V_INLINE void v_store16(uint16_t *p, vec a)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
V_INLINE vec v_set(float a)
{
    return vdupq_n_f32(a);
}
V_INLINE vec v_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}
V_INLINE vec v_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}
V_INLINE vec v_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}
V_INLINE vec v_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}
V_INLINE vec v_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
V_INLINE vec v_fnma(vec a, vec b, vec c)
{
    return vfmsq_f32(c, a, b);
}
V_INLINE vec v_min(vec a, vec b)
{
    return vminq_f32(a, b);
}
V_INLINE vec v_max(vec a, vec b)
{
    return vmaxq_f32(a, b);
}
V_INLINE vec v_round(vec a)
{
    return vrndnq_f32(a);
}
V_INLINE vec v_pow2(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
V_INLINE vec v_scale2(vec a, vec n)
{
    int32x4_t whole = vcvtnq_s32_f32(n), part = vshrq_n_s32(whole, 1);
    return v_mul(v_mul(a, v_pow2(part)), v_pow2(vsubq_s32(whole, part)));
}
V_INLINE float v_sum(vec a)
{
    return vaddvq_f32(a);
}
V_INLINE float v_top(vec a)
{
    return vmaxvq_f32(a);
}

#else
#error "cpu_simd.h needs AVX-512, AVX2 or NEON"
#endif

V_INLINE vec v_load16_n(const uint16_t *p, size_t n)
{
    uint16_t padded[V_LANES] = { 0 };
    memcpy(padded, p, n * sizeof *p);
    return v_load16(padded);
}

V_INLINE vec v_loadb16_n(const uint16_t *p, size_t n)
{
    uint16_t padded[V_LANES] = { 0 };
    memcpy(padded, p, n * sizeof *p);
    return v_loadb16(padded);
}

V_INLINE void v_store16_n(uint16_t *p, vec a, size_t n)
{
    uint16_t padded[V_LANES];
    v_store16(padded, a);
    memcpy(p, padded, n * sizeof *p);
}

/* exp(x): x = n ln 2 + r, |r| <= ln 2 / 2, Taylor series to the seventh power (1e-9 there), and the
 * power of two put back. Beyond the range of f32: 0 or infinity. NaN stays NaN. */
V_INLINE vec v_exp(vec x)
{
    x = v_min(v_set(90.0f), v_max(v_set(-105.0f), x));
    vec n = v_round(v_mul(x, v_set(0x1.715476p0f)));
    vec r = v_fnma(n, v_set(0x1.62e4p-1f), x); /* ln 2 in two parts */
    r = v_fnma(n, v_set(0x1.7f7d1cp-20f), r);
    vec p = v_set(1.0f / 5040);
    p = v_fma(p, r, v_set(1.0f / 720));
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_scale2(p, n);
}

V_INLINE vec v_sigmoid(vec x)
{
    return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_set(0), x))));
}

#endif
