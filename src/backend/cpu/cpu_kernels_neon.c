/* cpu_kernels_neon.c - the table for NEON, which every arm64 machine has. */
#if defined(__aarch64__)

#define RL_NEON_DOT  0
#define RL_NEON_I8MM 0
#include "backend/cpu/cpu_neon_body.h"

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_neon = { .name = "neon", RL_CPU_VECTORS(neon), .matrix = &ops };

static const rl_cpu_matrix_ops exact_ops = RL_CPU_EXACT_OPS;

const rl_cpu_kernels rl_cpu_kernels_exact_neon = { .name = "exact",
                                                   RL_CPU_VECTORS(neon),
                                                   .matrix = &exact_ops };

#else
typedef int rl_cpu_no_neon; /* another architecture */
#endif
