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

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
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

void rl_cpu_to_f16_any(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = rl_f16_from_f32(x[i]);
}
