/* cpu_neon_body.h - the matrix kernels for arm64; included by three files.
 *
 * RL_NEON_DOT   the dot product instructions of ARMv8.2 are there
 * RL_NEON_I8MM  and the 8-bit matrix multiplication of ARMv8.6, used for two rows by two tokens */
#include <arm_neon.h>

#include "backend/cpu/cpu_grids.h"
#include "backend/cpu/cpu_matrix.h"
#include "backend/cpu/cpu_vectors.h"
#include "quant/codebooks.h"

#include "backend/cpu/cpu_float_body.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float half(const uint8_t field[2])
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(rl_load_u16(field)))), 0);
}

#include "backend/cpu/cpu_neon_run8.h"
#include "backend/cpu/cpu_neon_row8.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* One block to codes, the same rounding as the portable code; short blocks are filled up with zeros.
 * Sums of the four groups of 8 codes. */
INLINE float quantise32(const float *x, uint32_t n, int8_t q[32], int16_t sums[4])
{
    float padded[32] = { 0 };
    if (n < 32) {
        memcpy(padded, x, n * sizeof *x);
        x = padded;
    }
    float32x4_t v[8], max = vdupq_n_f32(0);
    V_UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = vld1q_f32(x + 4 * i);
        max = vmaxq_f32(max, vabsq_f32(v[i]));
    }
    float most = v_top(max), d = most / 127.0f, inverse = 127.0f / most;
    if (!(d >= 0x1p-120f)) d = inverse = 0;
    d = rl_cpu_act_scale(d);
    int16x8_t w[4];
    V_UNROLL
    for (int i = 0; i < 4; i++)
        w[i] = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse))),
                            vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse))));
    V_UNROLL
    for (int h = 0; h < 2; h++) {
        int8x16_t bytes = vcombine_s8(vqmovn_s16(w[2 * h]), vqmovn_s16(w[2 * h + 1]));
        vst1q_s8(q + 16 * h, bytes);
        sums[2 * h] = vaddlv_s8(vget_low_s8(bytes));
        sums[2 * h + 1] = vaddlv_s8(vget_high_s8(bytes));
    }
    return d;
}

INLINE uint32_t left_of(uint32_t cols, uint32_t first)
{
    return first >= cols ? 0 : cols - first < 32 ? cols - first : 32;
}

static void quantise_run8(const float *x, uint32_t cols, rl_act_run8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++) {
        for (uint32_t b = 0; b < 8; b++) {
            int8_t q[32];
            uint32_t at = first + 32 * b;
            out->d[2 * b] = out->d[2 * b + 1] =
                quantise32(x + at, left_of(cols, at), q, out->sums + 4 * b);
            for (uint32_t k = 0; k < 4; k++)
                memcpy(out->q + 64 * k + 8 * b, q + 8 * k, 8);
        }
    }
}

static void quantise_row8(const float *x, uint32_t cols, rl_act_row8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++)
        for (uint32_t b = 0; b < 8; b++) {
            int16_t sums[4];
            uint32_t at = first + 32 * b;
            out->d[b] = quantise32(x + at, left_of(cols, at), out->q + 32 * b, sums);
            out->c[b] = out->d[b] * (float)(sums[0] + sums[1] + sums[2] + sums[3]);
        }
}
