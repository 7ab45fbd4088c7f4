/* cpu_float_body.h - products with weights in f32, on the names of cpu_simd.h: the float types of
 * every vector table, and all types of their `exact` sisters. Included once per instruction set.
 *
 * A dot product has two sums, of the even and of the odd vectors of the columns, whoever asks. */
#include "backend/cpu/cpu_matrix.h"
#include "backend/cpu/cpu_simd.h"

/* n_rows x n_tokens products (at most 4, constants where this is expanded) of n columns. */
#define FLOAT_KERNELS(lower, type, load, load_n)                                                   \
    V_INLINE void dots_##lower(const uint8_t *rows, size_t row_bytes, uint32_t n_rows,             \
                               const float *const *x, uint32_t n_tokens, uint32_t n, float *out)   \
    {                                                                                              \
        vec even[4], odd[4];                                                                       \
        V_UNROLL                                                                                   \
        for (uint32_t i = 0; i < n_rows * n_tokens; i++)                                           \
            even[i] = odd[i] = v_set(0);                                                           \
        uint32_t c = 0;                                                                            \
        for (; c + 2 * V_LANES <= n; c += 2 * V_LANES) {                                           \
            V_UNROLL                                                                               \
            for (uint32_t r = 0; r < n_rows; r++) {                                                \
                const type *w = (const void *)(rows + r * row_bytes);                              \
                vec first = load(w + c), second = load(w + c + V_LANES);                           \
                V_UNROLL                                                                           \
                for (uint32_t t = 0; t < n_tokens; t++) {                                          \
                    uint32_t i = r * n_tokens + t;                                                 \
                    even[i] = v_fma(first, v_load(x[t] + c), even[i]);                             \
                    odd[i] = v_fma(second, v_load(x[t] + c + V_LANES), odd[i]);                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        V_UNROLL                                                                                   \
        for (uint32_t r = 0; r < n_rows; r++) {                                                    \
            const type *w = (const void *)(rows + r * row_bytes);                                  \
            V_UNROLL                                                                               \
            for (uint32_t t = 0; t < n_tokens; t++) {                                              \
                uint32_t i = r * n_tokens + t, at = c;                                             \
                if (n - at >= V_LANES) {                                                           \
                    even[i] = v_fma(load(w + at), v_load(x[t] + at), even[i]);                     \
                    at += V_LANES;                                                                 \
                }                                                                                  \
                if (at < n)                                                                        \
                    odd[i] = v_fma(load_n(w + at, n - at), v_load_n(x[t] + at, n - at), odd[i]);   \
                out[i] = v_sum(v_add(even[i], odd[i]));                                            \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void matvec_##lower(const uint8_t *data, size_t row_bytes, uint32_t n_rows,             \
                               uint32_t cols, const void *act, float *y)                           \
    {                                                                                              \
        const float *x = act;                                                                      \
        uint32_t r = 0;                                                                            \
        for (; r + 4 <= n_rows; r += 4)                                                            \
            dots_##lower(data + r * row_bytes, row_bytes, 4, &x, 1, cols, y + r);                  \
        for (; r < n_rows; r++)                                                                    \
            dots_##lower(data + r * row_bytes, row_bytes, 1, &x, 1, cols, y + r);                  \
    }                                                                                              \
    static void unpack_##lower(const uint8_t *data, uint32_t cols, void *out)                      \
    {                                                                                              \
        const type *w = (const void *)data;                                                        \
        float *to = out;                                                                           \
        uint32_t c = 0;                                                                            \
        for (; c + V_LANES <= cols; c += V_LANES)                                                  \
            v_store(to + c, load(w + c));                                                          \
        if (c < cols) v_store_n(to + c, load_n(w + c, cols - c), cols - c);                        \
    }

FLOAT_KERNELS(f32, float, v_load, v_load_n)
FLOAT_KERNELS(f16, uint16_t, v_load16, v_load16_n)
FLOAT_KERNELS(bf16, uint16_t, v_loadb16, v_loadb16_n)

static void tile_float(const rl_cpu_tile *tile)
{
    const float *const *x = (const float *const *)tile->act;
    float out[4];
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const uint8_t *w = (const uint8_t *)tile->rows + r * tile->row_bytes;
        uint32_t t = 0;
        for (; t + 4 <= tile->n_tokens; t += 4) {
            dots_f32(w, 0, 1, x + t, 4, tile->n_runs, out);
            for (uint32_t i = 0; i < 4; i++)
                tile->y[t + i][r] = out[i];
        }
        for (; t < tile->n_tokens; t++)
            dots_f32(w, 0, 1, x + t, 1, tile->n_runs, tile->y[t] + r);
    }
}

/* Entries of a type table: F32, F16 and BF16 for every table; all the others for `exact`. */
#define FLOAT_TYPES                                                                                \
    [RL_QUANT_F32] = { RL_KIND_FLOAT, unpack_f32, matvec_f32 },                                    \
    [RL_QUANT_F16] = { RL_KIND_FLOAT, unpack_f16, matvec_f16 },                                    \
    [RL_QUANT_BF16] = { RL_KIND_FLOAT, unpack_bf16, matvec_bf16 }
