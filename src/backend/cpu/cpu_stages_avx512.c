/* cpu_stages_avx512.c - cpu_stages.h for x86-64 with AVX-512 F and VL. */
#include "backend/cpu/cpu_stages.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define L            16
#define QT           8
#define TABLE        rl_cpu_stages_avx512
#define SLOW_HALF    0
#define ISA          "avx512"
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)

static inline __m512 load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

#include "backend/cpu/cpu_stages_body.h"
#else
typedef int cpu_stages_avx512_is_for_x86; /* a file must not be empty */
#endif
