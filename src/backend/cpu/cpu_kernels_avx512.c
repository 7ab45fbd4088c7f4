/* cpu_kernels_avx512.c - the table for AVX-512 (F, BW, VL, DQ) without VNNI. Only called after
 * cpu_select.c has seen the features. */
#if defined(__x86_64__)

#define RL_AVX512_VNNI 0
#include "backend/cpu/cpu_avx512_body.h"

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_avx512 = { .name = "avx512",
                                               RL_CPU_VECTORS(avx512),
                                               .matrix = &ops };

static const rl_cpu_matrix_ops exact_ops = RL_CPU_EXACT_OPS;

const rl_cpu_kernels rl_cpu_kernels_exact_avx512 = { .name = "exact",
                                                     RL_CPU_VECTORS(avx512),
                                                     .matrix = &exact_ops };

#else
typedef int rl_cpu_no_avx512; /* another architecture */
#endif
