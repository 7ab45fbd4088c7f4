/* cpu_vectors.h - the vector operations of cpu_kernels.h by name, one set per instruction set: any
 * (plain C), avx2, avx512, neon. Private to src/backend/cpu. */
#ifndef RL_BACKEND_CPU_VECTORS_H
#define RL_BACKEND_CPU_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#define RL_CPU_DECLARE_VECTORS(set)                                                                \
    float rl_cpu_dot_##set(const float *a, const float *b, size_t n);                              \
    void rl_cpu_axpy_##set(float *y, float a, const float *x, size_t n);                           \
    void rl_cpu_add_##set(float *y, const float *x, size_t n);                                     \
    void rl_cpu_scale_##set(float *x, float a, size_t n);                                          \
    void rl_cpu_rms_norm_##set(float *out, const float *x, const float *weight, size_t n,          \
                               float eps);                                                         \
    void rl_cpu_silu_mul_##set(float *out, const float *gate, const float *x, size_t n);           \
    void rl_cpu_sigmoid_mul_##set(float *out, const float *gate, const float *x, size_t n);        \
    void rl_cpu_to_f16_##set(uint16_t *out, const float *x, size_t n);

RL_CPU_DECLARE_VECTORS(any)
#if defined(__x86_64__)
RL_CPU_DECLARE_VECTORS(avx2)
RL_CPU_DECLARE_VECTORS(avx512)
#elif defined(__aarch64__)
RL_CPU_DECLARE_VECTORS(neon)
#endif

/* The fields of an rl_cpu_kernels. */
#define RL_CPU_VECTORS(set)                                                                        \
    .dot = rl_cpu_dot_##set, .axpy = rl_cpu_axpy_##set, .add = rl_cpu_add_##set,                   \
    .scale = rl_cpu_scale_##set, .rms_norm = rl_cpu_rms_norm_##set,                                \
    .silu_mul = rl_cpu_silu_mul_##set, .sigmoid_mul = rl_cpu_sigmoid_mul_##set,                    \
    .to_f16 = rl_cpu_to_f16_##set

#endif
