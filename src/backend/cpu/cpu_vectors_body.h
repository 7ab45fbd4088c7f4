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

void SET(l2_norm)(float *out, const float *x, size_t n, float eps, float gain)
{
    vec factor = v_set(gain / sqrtf(SET(dot)(x, x, n) + eps));
    EACH_VECTOR(n, { STORE(out, v_mul(LOAD(x), factor)); });
}

void SET(silu)(float *x, size_t n)
{
    EACH_VECTOR(n, {
        vec v = LOAD(x);
        STORE(x, v_mul(v, v_sigmoid(v)));
    });
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

float SET(max)(const float *x, size_t n)
{
    vec most = v_set(-INFINITY);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES)
        most = v_max(most, v_load(x + i));
    float max = v_top(most);
    for (; i < n; i++)
        if (x[i] > max) max = x[i];
    return max;
}

float SET(exp_sum)(float *x, float subtract, size_t n)
{
    vec by = v_set(subtract), sum = v_set(0);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
        vec e = v_exp(v_sub(v_load(x + i), by));
        v_store(x + i, e);
        sum = v_add(sum, e);
    }
    float total = v_sum(sum);
    if (i < n) {
        float last[V_LANES];
        v_store(last, v_exp(v_sub(v_load_n(x + i, n - i), by)));
        for (size_t l = 0; i + l < n; l++) {
            x[i + l] = last[l];
            total += last[l];
        }
    }
    return total;
}

void SET(softmax)(float *x, size_t n)
{
    float sum = SET(exp_sum)(x, SET(max)(x, n), n);
    SET(scale)(x, 1.0f / sum, n);
}

void SET(to_f16)(uint16_t *out, const float *x, size_t n)
{
    EACH_VECTOR(n, { STORE16(out, LOAD(x)); });
}

void SET(from_f16)(float *out, const uint16_t *x, size_t n)
{
    EACH_VECTOR(n, { STORE(out, LOAD16(x)); });
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The same code for f32 and f16 caches: `type` of an element, and how a vector of it is loaded. */
#define ATTENTION(suffix, type, load, load_n)                                                      \
    /* heads x positions (constants where this is expanded) dot products */                        \
    V_INLINE void scores_##suffix(float *out, size_t out_stride, const float *q, uint32_t n_q,     \
                                  uint32_t dim, const type *k, size_t k_stride, uint32_t n_pos)    \
    {                                                                                              \
        vec sum[4][2];                                                                             \
        V_UNROLL                                                                                   \
        for (uint32_t h = 0; h < n_q; h++)                                                         \
            V_UNROLL                                                                               \
        for (uint32_t p = 0; p < n_pos; p++)                                                       \
            sum[h][p] = v_set(0);                                                                  \
        for (uint32_t i = 0; i < dim; i += V_LANES) {                                              \
            uint32_t n = dim - i < V_LANES ? dim - i : V_LANES;                                    \
            vec key[2];                                                                            \
            V_UNROLL                                                                               \
            for (uint32_t p = 0; p < n_pos; p++) {                                                 \
                const type *from = k + p * k_stride + i;                                           \
                key[p] = n == V_LANES ? load(from) : load_n(from, n);                              \
            }                                                                                      \
            V_UNROLL                                                                               \
            for (uint32_t h = 0; h < n_q; h++) {                                                   \
                const float *from = q + (size_t)h * dim + i;                                       \
                vec query = n == V_LANES ? v_load(from) : v_load_n(from, n);                       \
                V_UNROLL                                                                           \
                for (uint32_t p = 0; p < n_pos; p++)                                               \
                    sum[h][p] = v_fma(query, key[p], sum[h][p]);                                   \
            }                                                                                      \
        }                                                                                          \
        V_UNROLL                                                                                   \
        for (uint32_t h = 0; h < n_q; h++)                                                         \
            V_UNROLL                                                                               \
        for (uint32_t p = 0; p < n_pos; p++)                                                       \
            out[h * out_stride + p] = v_sum(sum[h][p]);                                            \
    }                                                                                              \
    void SET(scores_##suffix)(float *out, size_t out_stride, const float *q, uint32_t n_q,         \
                              uint32_t dim, const type *k, size_t k_stride, uint32_t n_pos)        \
    {                                                                                              \
        for (uint32_t p = 0; p < n_pos; p += 2) {                                                  \
            const type *row = k + p * k_stride;                                                    \
            uint32_t h = 0, pair = n_pos - p >= 2;                                                 \
            for (; h + 4 <= n_q; h += 4)                                                           \
                if (pair)                                                                          \
                    scores_##suffix(out + h * out_stride + p, out_stride, q + (size_t)h * dim, 4,  \
                                    dim, row, k_stride, 2);                                        \
                else                                                                               \
                    scores_##suffix(out + h * out_stride + p, out_stride, q + (size_t)h * dim, 4,  \
                                    dim, row, k_stride, 1);                                        \
            for (; h < n_q; h++)                                                                   \
                if (pair)                                                                          \
                    scores_##suffix(out + h * out_stride + p, out_stride, q + (size_t)h * dim, 1,  \
                                    dim, row, k_stride, 2);                                        \
                else                                                                               \
                    scores_##suffix(out + h * out_stride + p, out_stride, q + (size_t)h * dim, 1,  \
                                    dim, row, k_stride, 1);                                        \
        }                                                                                          \
    }                                                                                              \
    /* n_q (a constant) heads, one or two vectors of the row, all positions */                     \
    V_INLINE void mix_##suffix(float *y, const float *w, size_t w_stride, uint32_t n_q,            \
                               uint32_t dim, const type *v, size_t v_stride, uint32_t n_pos,       \
                               uint32_t n_vec)                                                     \
    {                                                                                              \
        vec sum[4][2];                                                                             \
        V_UNROLL                                                                                   \
        for (uint32_t h = 0; h < n_q; h++)                                                         \
            V_UNROLL                                                                               \
        for (uint32_t j = 0; j < n_vec; j++)                                                       \
            sum[h][j] = v_load(y + (size_t)h * dim + j * V_LANES);                                 \
        for (uint32_t p = 0; p < n_pos; p++) {                                                     \
            vec value[2];                                                                          \
            V_UNROLL                                                                               \
            for (uint32_t j = 0; j < n_vec; j++)                                                   \
                value[j] = load(v + p * v_stride + j * V_LANES);                                   \
            V_UNROLL                                                                               \
            for (uint32_t h = 0; h < n_q; h++) {                                                   \
                vec weight = v_set(w[h * w_stride + p]);                                           \
                V_UNROLL                                                                           \
                for (uint32_t j = 0; j < n_vec; j++)                                               \
                    sum[h][j] = v_fma(weight, value[j], sum[h][j]);                                \
            }                                                                                      \
        }                                                                                          \
        V_UNROLL                                                                                   \
        for (uint32_t h = 0; h < n_q; h++)                                                         \
            V_UNROLL                                                                               \
        for (uint32_t j = 0; j < n_vec; j++)                                                       \
            v_store(y + (size_t)h * dim + j * V_LANES, sum[h][j]);                                 \
    }                                                                                              \
    void SET(mix_##suffix)(float *y, const float *w, size_t w_stride, uint32_t n_q, uint32_t dim,  \
                           const type *v, size_t v_stride, uint32_t n_pos)                         \
    {                                                                                              \
        enum { ROWS = 32 }; /* positions whose values stay in the nearest cache for all heads */   \
        for (uint32_t first = 0; first < n_pos; first += ROWS) {                                   \
            uint32_t n = n_pos - first < ROWS ? n_pos - first : ROWS;                              \
            const type *rows = v + first * v_stride;                                               \
            for (uint32_t h = 0; h < n_q;) {                                                       \
                uint32_t some = n_q - h >= 4 ? 4 : 1, i = 0;                                       \
                float *to = y + (size_t)h * dim;                                                   \
                const float *by = w + h * w_stride + first;                                        \
                for (; i + 2 * V_LANES <= dim; i += 2 * V_LANES)                                   \
                    if (some == 4)                                                                 \
                        mix_##suffix(to + i, by, w_stride, 4, dim, rows + i, v_stride, n, 2);      \
                    else                                                                           \
                        mix_##suffix(to + i, by, w_stride, 1, dim, rows + i, v_stride, n, 2);      \
                for (; i + V_LANES <= dim; i += V_LANES)                                           \
                    for (uint32_t j = 0; j < some; j++)                                            \
                        mix_##suffix(to + (size_t)j * dim + i, by + j * w_stride, w_stride, 1,     \
                                     dim, rows + i, v_stride, n, 1);                               \
                for (uint32_t j = 0; j < some && i < dim; j++) {                                   \
                    vec sum = v_load_n(to + (size_t)j * dim + i, dim - i);                         \
                    for (uint32_t p = 0; p < n; p++)                                               \
                        sum = v_fma(v_set(by[j * w_stride + p]),                                   \
                                    load_n(rows + p * v_stride + i, dim - i), sum);                \
                    v_store_n(to + (size_t)j * dim + i, sum, dim - i);                             \
                }                                                                                  \
                h += some;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }

ATTENTION(f32, float, v_load, v_load_n)
ATTENTION(f16, uint16_t, v_load16, v_load16_n)

/* ---- delta rule ------------------------------------------------------------------------------ */

/* n_vec (a constant) vectors of every row. */
V_INLINE void delta_columns(float *to, const float *from, const float *q, const float *key,
                            const float *v, float decay, float beta, uint32_t n_key, size_t stride,
                            float *out, uint32_t n_vec)
{
    vec held[8], read[8], fade = v_set(decay);
    V_UNROLL
    for (uint32_t j = 0; j < n_vec; j++)
        held[j] = v_set(0);
    for (uint32_t r = 0; r < n_key; r++) {
        vec factor = v_set(key[r]);
        V_UNROLL
        for (uint32_t j = 0; j < n_vec; j++)
            held[j] = v_fma(factor, v_load(from + r * stride + j * V_LANES), held[j]);
    }
    V_UNROLL
    for (uint32_t j = 0; j < n_vec; j++) {
        held[j] = v_mul(v_set(beta), v_fnma(fade, held[j], v_load(v + j * V_LANES)));
        read[j] = v_set(0);
    }
    for (uint32_t r = 0; r < n_key; r++) {
        vec factor = v_set(key[r]), query = v_set(q[r]);
        V_UNROLL
        for (uint32_t j = 0; j < n_vec; j++) {
            vec old = v_load(from + r * stride + j * V_LANES);
            vec new = v_fma(fade, old, v_mul(factor, held[j]));
            v_store(to + r * stride + j * V_LANES, new);
            read[j] = v_fma(query, new, read[j]);
        }
    }
    V_UNROLL
    for (uint32_t j = 0; j < n_vec; j++)
        v_store(out + j * V_LANES, read[j]);
}

void SET(delta_step)(float *to, const float *from, const float *q, const float *key, const float *v,
                     float decay, float beta, uint32_t n_key, uint32_t n_value, float *out)
{
    enum { WIDE = V_LANES == 8 ? 4 : 8 }; /* AVX2 has 16 registers, the others 32 */
    uint32_t i = 0;
    for (; i + WIDE * V_LANES <= n_value; i += WIDE * V_LANES)
        delta_columns(to + i, from + i, q, key, v + i, decay, beta, n_key, n_value, out + i, WIDE);
    for (; i + V_LANES <= n_value; i += V_LANES)
        delta_columns(to + i, from + i, q, key, v + i, decay, beta, n_key, n_value, out + i, 1);
    for (; i < n_value; i++) {
        float held = 0, read = 0;
        for (uint32_t r = 0; r < n_key; r++)
            held += key[r] * from[(size_t)r * n_value + i];
        float error = beta * (v[i] - decay * held);
        for (uint32_t r = 0; r < n_key; r++) {
            float new = decay *from[(size_t)r * n_value + i] + key[r] * error;
            to[(size_t)r * n_value + i] = new;
            read += q[r] * new;
        }
        out[i] = read;
    }
}
