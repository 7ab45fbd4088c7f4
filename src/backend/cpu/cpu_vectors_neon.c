/* cpu_vectors_neon.c - the vector operations, compiled for NEON. */
#if defined(__aarch64__)

#define SET(name) rl_cpu_##name##_neon
#include "backend/cpu/cpu_vectors_body.h"

#else
typedef int rl_cpu_no_vectors_neon; /* another architecture */
#endif
