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

#define SLOW_HALF 0

#define FMA(a, b, c) ((half_vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))

static inline half_vf load_half(const uint16_t *p)
{
    return (half_vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

#else
#define SLOW_HALF    1
#define FMA(a, b, c) ((a) * (b) + (c)) /* no such instruction, so no choice */

/* rl_f32_from_f16 four times. */
static inline half_vf load_half(const uint16_t *p)
{
    typedef uint16_t u16x4 __attribute__((vector_size(8)));
    typedef int32_t i32x4 __attribute__((vector_size(16)));
    u16x4 h;
    memcpy(&h, p, sizeof h);
    const i32x4 wide = __builtin_convertvector(h, i32x4);
    const i32x4 rest = (wide & 0x7fff) << 13, odd = (wide & 0x7c00) == 0x7c00; /* infinity, NaN */
    const i32x4 small = (wide & 0x7c00) == 0, first = (small & 0x00800000) + 0x38000000;
    const half_vf zero =
        (half_vf)(small & 0x38800000); /* subnormals: a 1 in front, taken off again */
    const i32x4 number = (i32x4)((half_vf)(rest + first) - zero);
    return (half_vf)((wide & 0x8000) << 16 | (odd & (rest | 0x7f800000)) | (~odd & number));
}

#endif

#include "backend/cpu/cpu_stages_body.h"
