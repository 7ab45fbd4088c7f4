/* cpu_kernels_avx512vnni.c - the table for AVX-512 with VNNI, VBMI and BITALG. Only called after
 * cpu_select.c has seen the features. */
#if defined(__x86_64__)

#define RL_AVX512_VNNI 1
#include "backend/cpu/cpu_avx512_body.h"

static const rl_cpu_matrix_ops ops = RL_CPU_FAST_OPS;

const rl_cpu_kernels rl_cpu_kernels_avx512vnni = { .name = "avx512vnni",
                                                   RL_CPU_VECTORS(avx512),
                                                   .matrix = &ops };

#else
typedef int rl_cpu_no_avx512vnni; /* another architecture */
#endif
