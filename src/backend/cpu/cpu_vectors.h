/* cpu_vectors.h - the portable vector operations by name, so that the tables of other instruction
 * sets can fall back to them. Private to src/backend/cpu; what each computes: cpu_kernels.h. */
#ifndef RL_BACKEND_CPU_VECTORS_H
#define RL_BACKEND_CPU_VECTORS_H

#include <stddef.h>
#include <stdint.h>

float rl_cpu_dot_any(const float *a, const float *b, size_t n);
void rl_cpu_axpy_any(float *y, float a, const float *x, size_t n);
void rl_cpu_add_any(float *y, const float *x, size_t n);
void rl_cpu_scale_any(float *x, float a, size_t n);
void rl_cpu_rms_norm_any(float *out, const float *x, const float *weight, size_t n, float eps);
void rl_cpu_l2_norm_any(float *out, const float *x, size_t n, float eps, float gain);
void rl_cpu_silu_any(float *x, size_t n);
void rl_cpu_silu_mul_any(float *out, const float *gate, const float *x, size_t n);
void rl_cpu_sigmoid_mul_any(float *out, const float *gate, const float *x, size_t n);
float rl_cpu_max_any(const float *x, size_t n);
float rl_cpu_exp_sum_any(float *x, float subtract, size_t n);
void rl_cpu_softmax_any(float *x, size_t n);
void rl_cpu_to_f16_any(uint16_t *out, const float *x, size_t n);
void rl_cpu_from_f16_any(float *out, const uint16_t *x, size_t n);
void rl_cpu_scores_f16_any(float *out, size_t out_stride, const float *q, uint32_t n_q,
                           uint32_t dim, const uint16_t *k, size_t k_stride, uint32_t n_pos);
void rl_cpu_scores_f32_any(float *out, size_t out_stride, const float *q, uint32_t n_q,
                           uint32_t dim, const float *k, size_t k_stride, uint32_t n_pos);
void rl_cpu_mix_f16_any(float *y, const float *w, size_t w_stride, uint32_t n_q, uint32_t dim,
                        const uint16_t *v, size_t v_stride, uint32_t n_pos);
void rl_cpu_mix_f32_any(float *y, const float *w, size_t w_stride, uint32_t n_q, uint32_t dim,
                        const float *v, size_t v_stride, uint32_t n_pos);
void rl_cpu_delta_step_any(float *to, const float *from, const float *q, const float *key,
                           const float *v, float decay, float beta, uint32_t n_key,
                           uint32_t n_value, float *out);

#endif
