/* cpu_vectors_avx512.c - the vector operations, compiled for avx512. */
#if defined(__x86_64__)

#define SET(name) rl_cpu_##name##_avx512
#include "backend/cpu/cpu_vectors_body.h"

#else
typedef int rl_cpu_no_vectors_avx512; /* another architecture */
#endif
