/* cpu_kernels_dotprod.c - the table for NEON with dot products (ARMv8.2). */
#if defined(__aarch64__)

#define RL_NEON_DOT  1
#define RL_NEON_I8MM 0
#include "backend/cpu/cpu_neon_body.h"

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_dotprod = { .name = "dotprod",
                                                RL_CPU_VECTORS(neon),
                                                .matrix = &ops };

#else
typedef int rl_cpu_no_dotprod; /* another architecture */
#endif
