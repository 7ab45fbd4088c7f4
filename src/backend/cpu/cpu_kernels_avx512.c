/* cpu_kernels_avx512.c - the table for AVX-512 (F, BW, VL, DQ) without VNNI. Only called after
 * cpu_select.c has seen the features. */
#if defined(__x86_64__)

#define RL_AVX512_VNNI 0
#include "backend/cpu/cpu_avx512_body.h"

const rl_cpu_kernels rl_cpu_kernels_avx512 = { .name = "avx512",
                                               RL_CPU_VECTORS(avx512),
                                               .matrix = &ops };

#else
typedef int rl_cpu_no_avx512; /* another architecture */
#endif
