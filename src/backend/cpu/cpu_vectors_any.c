/* cpu_vectors_any.c - the vector operations in plain C, for every machine. */
#include "backend/cpu/cpu_vectors.h"

#include <math.h>

#include "base/bytes.h"

#define LANES 16 /* independent sums: accurate, and the compiler can vectorise them */

float rl_cpu_dot_any(const float *a, const float *b, size_t n)
{
    float sum[LANES] = { 0 };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            sum[l] += a[i + l] * b[i + l];
    for (size_t l = 0; i + l < n; l++)
        sum[l] += a[i + l] * b[i + l];
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

void rl_cpu_axpy_any(float *y, float a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

void rl_cpu_add_any(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void rl_cpu_scale_any(float *x, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

void rl_cpu_rms_norm_any(float *out, const float *x, const float *weight, size_t n, float eps)
{
    float scale = 1.0f / sqrtf(rl_cpu_dot_any(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

void rl_cpu_l2_norm_any(float *out, const float *x, size_t n, float eps, float gain)
{
    float scale = gain / sqrtf(rl_cpu_dot_any(x, x, n) + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale;
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

void rl_cpu_silu_any(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= sigmoid(x[i]);
}

void rl_cpu_silu_mul_any(float *out, const float *gate, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gate[i] * sigmoid(gate[i]) * x[i];
}

void rl_cpu_sigmoid_mul_any(float *out, const float *gate, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sigmoid(gate[i]) * x[i];
}

float rl_cpu_max_any(const float *x, size_t n)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] > max) max = x[i];
    return max;
}

float rl_cpu_exp_sum_any(float *x, float subtract, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - subtract);
        sum += x[i];
    }
    return sum;
}

void rl_cpu_softmax_any(float *x, size_t n)
{
    float sum = rl_cpu_exp_sum_any(x, rl_cpu_max_any(x, n), n);
    rl_cpu_scale_any(x, 1.0f / sum, n);
}

void rl_cpu_to_f16_any(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = rl_f16_from_f32(x[i]);
}

void rl_cpu_from_f16_any(float *out, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = rl_f32_from_f16(x[i]);
}

void rl_cpu_scores_f32_any(float *out, size_t out_stride, const float *q, uint32_t n_q,
                           uint32_t dim, const float *k, size_t k_stride, uint32_t n_pos)
{
    for (uint32_t p = 0; p < n_pos; p++)
        for (uint32_t h = 0; h < n_q; h++)
            out[h * out_stride + p] = rl_cpu_dot_any(q + (size_t)h * dim, k + p * k_stride, dim);
}

void rl_cpu_mix_f32_any(float *y, const float *w, size_t w_stride, uint32_t n_q, uint32_t dim,
                        const float *v, size_t v_stride, uint32_t n_pos)
{
    for (uint32_t p = 0; p < n_pos; p++)
        for (uint32_t h = 0; h < n_q; h++)
            rl_cpu_axpy_any(y + (size_t)h * dim, w[h * w_stride + p], v + p * v_stride, dim);
}

#define PIECE 256 /* f16 values converted at once */

void rl_cpu_scores_f16_any(float *out, size_t out_stride, const float *q, uint32_t n_q,
                           uint32_t dim, const uint16_t *k, size_t k_stride, uint32_t n_pos)
{
    float piece[PIECE];
    for (uint32_t p = 0; p < n_pos; p++)
        for (uint32_t i = 0; i < dim; i += PIECE) {
            uint32_t n = dim - i < PIECE ? dim - i : PIECE;
            rl_cpu_from_f16_any(piece, k + p * k_stride + i, n);
            for (uint32_t h = 0; h < n_q; h++) {
                float part = rl_cpu_dot_any(q + (size_t)h * dim + i, piece, n);
                float *to = out + h * out_stride + p;
                *to = i ? *to + part : part;
            }
        }
}

void rl_cpu_mix_f16_any(float *y, const float *w, size_t w_stride, uint32_t n_q, uint32_t dim,
                        const uint16_t *v, size_t v_stride, uint32_t n_pos)
{
    float piece[PIECE];
    for (uint32_t p = 0; p < n_pos; p++)
        for (uint32_t i = 0; i < dim; i += PIECE) {
            uint32_t n = dim - i < PIECE ? dim - i : PIECE;
            rl_cpu_from_f16_any(piece, v + p * v_stride + i, n);
            for (uint32_t h = 0; h < n_q; h++)
                rl_cpu_axpy_any(y + (size_t)h * dim + i, w[h * w_stride + p], piece, n);
        }
}

void rl_cpu_delta_step_any(float *to, const float *from, const float *q, const float *key,
                           const float *v, float decay, float beta, uint32_t n_key,
                           uint32_t n_value, float *out)
{
    float error[PIECE], read[PIECE];
    for (uint32_t first = 0; first < n_value; first += PIECE) {
        uint32_t n = n_value - first < PIECE ? n_value - first : PIECE;
        for (uint32_t i = 0; i < n; i++)
            error[i] = read[i] = 0;
        for (uint32_t r = 0; r < n_key; r++)
            rl_cpu_axpy_any(error, key[r], from + (size_t)r * n_value + first, n);
        for (uint32_t i = 0; i < n; i++)
            error[i] = beta * (v[first + i] - decay * error[i]);
        for (uint32_t r = 0; r < n_key; r++) {
            const float *old = from + (size_t)r * n_value + first;
            float *new = to + (size_t)r *n_value + first;
            for (uint32_t i = 0; i < n; i++) {
                new[i] = decay *old[i] + key[r] * error[i];
                read[i] += q[r] * new[i];
            }
        }
        for (uint32_t i = 0; i < n; i++)
            out[first + i] = read[i];
    }
}
