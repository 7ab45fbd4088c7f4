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
    void rl_cpu_l2_norm_##set(float *out, const float *x, size_t n, float eps, float gain);        \
    void rl_cpu_silu_##set(float *x, size_t n);                                                    \
    void rl_cpu_silu_mul_##set(float *out, const float *gate, const float *x, size_t n);           \
    void rl_cpu_sigmoid_mul_##set(float *out, const float *gate, const float *x, size_t n);        \
    float rl_cpu_max_##set(const float *x, size_t n);                                              \
    float rl_cpu_exp_sum_##set(float *x, float subtract, size_t n);                                \
    void rl_cpu_softmax_##set(float *x, size_t n);                                                 \
    void rl_cpu_to_f16_##set(uint16_t *out, const float *x, size_t n);                             \
    void rl_cpu_from_f16_##set(float *out, const uint16_t *x, size_t n);                           \
    void rl_cpu_scores_f16_##set(float *out, size_t out_stride, const float *q, uint32_t n_q,      \
                                 uint32_t dim, const uint16_t *k, size_t k_stride,                 \
                                 uint32_t n_pos);                                                  \
    void rl_cpu_scores_f32_##set(float *out, size_t out_stride, const float *q, uint32_t n_q,      \
                                 uint32_t dim, const float *k, size_t k_stride, uint32_t n_pos);   \
    void rl_cpu_mix_f16_##set(float *y, const float *w, size_t w_stride, uint32_t n_q,             \
                              uint32_t dim, const uint16_t *v, size_t v_stride, uint32_t n_pos);   \
    void rl_cpu_mix_f32_##set(float *y, const float *w, size_t w_stride, uint32_t n_q,             \
                              uint32_t dim, const float *v, size_t v_stride, uint32_t n_pos);      \
    void rl_cpu_delta_step_##set(float *to, const float *from, const float *q, const float *key,   \
                                 const float *v, float decay, float beta, uint32_t n_key,          \
                                 uint32_t n_value, float *out);

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
    .l2_norm = rl_cpu_l2_norm_##set, .silu = rl_cpu_silu_##set, .silu_mul = rl_cpu_silu_mul_##set, \
    .sigmoid_mul = rl_cpu_sigmoid_mul_##set, .max = rl_cpu_max_##set,                              \
    .exp_sum = rl_cpu_exp_sum_##set, .softmax = rl_cpu_softmax_##set,                              \
    .to_f16 = rl_cpu_to_f16_##set, .from_f16 = rl_cpu_from_f16_##set,                              \
    .scores_f16 = rl_cpu_scores_f16_##set, .scores_f32 = rl_cpu_scores_f32_##set,                  \
    .mix_f16 = rl_cpu_mix_f16_##set, .mix_f32 = rl_cpu_mix_f32_##set,                              \
    .delta_step = rl_cpu_delta_step_##set

#endif
