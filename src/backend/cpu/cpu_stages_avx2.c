/* cpu_stages_avx2.c - cpu_stages.h for x86-64 with AVX2, FMA and F16C. */
#include "backend/cpu/cpu_stages.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define L            8
#define QT           4
#define TABLE        rl_cpu_stages_avx2
#define SLOW_HALF    0
#define ISA          "avx2"
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)

static inline __m256 load_half(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

#include "backend/cpu/cpu_stages_body.h"
#else
typedef int cpu_stages_avx2_is_for_x86; /* a file must not be empty */
#endif
