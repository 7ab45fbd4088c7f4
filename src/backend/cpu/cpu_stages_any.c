/* cpu_stages_any.c - cpu_stages.h for what every processor of the architecture has: SSE2 on x86-64,
 * NEON on arm64, whatever the compiler finds elsewhere. */
#include "backend/cpu/cpu_stages.h"

#include "base/bytes.h"

#define L     4
#define QT    2
#define TABLE rl_cpu_stages_any
#define ISA   "any"

typedef float half_vf __attribute__((vector_size(16)));

#if defined(__aarch64__)
#include <arm_neon.h>

#define FMA(a, b, c) ((half_vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))

static inline half_vf load_half(const uint16_t *p)
{
    return (half_vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

#else
#define FMA(a, b, c) ((a) * (b) + (c)) /* no such instruction, so no choice */

static inline half_vf load_half(const uint16_t *p)
{
    return (half_vf){ rl_f32_from_f16(p[0]), rl_f32_from_f16(p[1]), rl_f32_from_f16(p[2]),
                      rl_f32_from_f16(p[3]) };
}

#endif

#include "backend/cpu/cpu_stages_body.h"
