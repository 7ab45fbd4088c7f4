/* cpu_kernels_i8mm.c - the table for NEON with dot products and 8-bit matrix
 * multiplication (ARMv8.6). */
#if defined(__aarch64__)

#define RL_NEON_DOT  1
#define RL_NEON_I8MM 1
#include "backend/cpu/cpu_neon_body.h"

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_i8mm = { .name = "i8mm", RL_CPU_VECTORS(neon), .matrix = &ops };

#else
typedef int rl_cpu_no_i8mm; /* another architecture */
#endif
