/* cpu_vectors_avx2.c - the vector operations, compiled for avx2. */
#if defined(__x86_64__)

#define SET(name) rl_cpu_##name##_avx2
#include "backend/cpu/cpu_vectors_body.h"

#else
typedef int rl_cpu_no_vectors_avx2; /* another architecture */
#endif
