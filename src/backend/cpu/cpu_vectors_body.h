/* cpu_vectors_body.h - the vector operations on the names of cpu_simd.h. Included once per
 * instruction set, with SET(name) giving the function's full name.
 *
 * Every loop is whole vectors, then one shorter one. What the operations compute is said in
 * cpu_kernels.h, and once more by cpu_vectors_any.c. */
#include <math.h>

#include "backend/cpu/cpu_simd.h"
#include "backend/cpu/cpu_vectors.h"

/* body with `LOAD(p)` and `STORE(p, v)` at element i, for all of n elements */
#define EACH_VECTOR(n, body)                                                                       \
    do {                                                                                           \
        size_t i = 0;                                                                              \
        for (; i + V_LANES <= (n); i += V_LANES) {                                                 \
            const size_t count = V_LANES;                                                          \
            body                                                                                   \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const size_t count = (n)-i;                                                            \
            body                                                                                   \
        }                                                                                          \
    } while (0)
#define LOAD(p)       (count == V_LANES ? v_load((p) + i) : v_load_n((p) + i, count))
#define LOAD16(p)     (count == V_LANES ? v_load16((p) + i) : v_load16_n((p) + i, count))
#define STORE(p, v)   (count == V_LANES ? v_store((p) + i, v) : v_store_n((p) + i, v, count))
#define STORE16(p, v) (count == V_LANES ? v_store16((p) + i, v) : v_store16_n((p) + i, v, count))

float SET(dot)(const float *a, const float *b, size_t n)
{
    vec sum[4] = { v_set(0), v_set(0), v_set(0), v_set(0) };
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES)
        V_UNROLL
    for (size_t l = 0; l < 4; l++)
        sum[l] = v_fma(v_load(a + i + l * V_LANES), v_load(b + i + l * V_LANES), sum[l]);
    for (; i + V_LANES <= n; i += V_LANES)
        sum[0] = v_fma(v_load(a + i), v_load(b + i), sum[0]);
    if (i < n) sum[1] = v_fma(v_load_n(a + i, n - i), v_load_n(b + i, n - i), sum[1]);
    return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

void SET(axpy)(float *y, float a, const float *x, size_t n)
{
    vec factor = v_set(a);
    EACH_VECTOR(n, { STORE(y, v_fma(factor, LOAD(x), LOAD(y))); });
}

void SET(add)(float *y, const float *x, size_t n)
{
    EACH_VECTOR(n, { STORE(y, v_add(LOAD(y), LOAD(x))); });
}

void SET(scale)(float *x, float a, size_t n)
{
    vec factor = v_set(a);
    EACH_VECTOR(n, { STORE(x, v_mul(LOAD(x), factor)); });
}

void SET(rms_norm)(float *out, const float *x, const float *weight, size_t n, float eps)
{
    vec factor = v_set(1.0f / sqrtf(SET(dot)(x, x, n) / (float)n + eps));
    EACH_VECTOR(n, { STORE(out, v_mul(v_mul(LOAD(x), factor), LOAD(weight))); });
}

void SET(silu_mul)(float *out, const float *gate, const float *x, size_t n)
{
    EACH_VECTOR(n, {
        vec v = LOAD(gate);
        STORE(out, v_mul(v_mul(v, v_sigmoid(v)), LOAD(x)));
    });
}

void SET(sigmoid_mul)(float *out, const float *gate, const float *x, size_t n)
{
    EACH_VECTOR(n, { STORE(out, v_mul(v_sigmoid(LOAD(gate)), LOAD(x))); });
}

void SET(to_f16)(uint16_t *out, const float *x, size_t n)
{
    EACH_VECTOR(n, { STORE16(out, LOAD(x)); });
}
