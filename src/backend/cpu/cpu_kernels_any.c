/* cpu_kernels_any.c - the tables that every machine can run.
 *
 *   exact    f32 arithmetic on decoded weights, whatever their type
 *   scalar   8-bit activations and integer products, the same arithmetic as the vector tables
 *
 * `scalar` is complete; the other tables replace its entries one by one. */
#include "backend/cpu/cpu_matrix.h"

#include <math.h>

#include "backend/cpu/cpu_vectors.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* One block of 32 (fewer at the end of a row; the rest is zero): q = round(x / d), d = max|x|/127.
 * Returns d. Rounding is to nearest, ties to even, in every table. */
static float quantise32(const float *x, uint32_t n, int8_t q[32])
{
    float max = 0;
    for (uint32_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        if (size > max) max = size;
    }
    memset(q, 0, 32);
    float d = max / 127.0f;
    if (!(d >= 0x1p-120f)) return 0; /* all zero, or too small for 1/d */
    float inverse = 127.0f / max;
    for (uint32_t i = 0; i < n; i++)
        q[i] = (int8_t)lrintf(x[i] * inverse);
    return rl_cpu_act_scale(d);
}

static int sum8(const int8_t *q)
{
    int sum = 0;
    for (int i = 0; i < 8; i++)
        sum += q[i];
    return sum;
}

static uint32_t left_of(uint32_t cols, uint32_t first)
{
    return first >= cols ? 0 : cols - first < 32 ? cols - first : 32;
}

static void quantise_run8(const float *x, uint32_t cols, rl_act_run8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++) {
        memset(out->sums, 0, sizeof out->sums);
        for (uint32_t b = 0; b < 8; b++) {
            int8_t q[32];
            out->d[2 * b] = out->d[2 * b + 1] =
                quantise32(x + first + 32 * b, left_of(cols, first + 32 * b), q);
            for (uint32_t k = 0; k < 4; k++)
                memcpy(out->q + 64 * k + 8 * b, q + 8 * k, 8);
            for (uint32_t k = 0; k < 4; k++)
                out->sums[4 * b + k] = (int16_t)sum8(q + 8 * k);
        }
    }
}

static void quantise_row8(const float *x, uint32_t cols, rl_act_row8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++)
        for (uint32_t b = 0; b < 8; b++) {
            int8_t *q = out->q + 32 * b;
            out->d[b] = quantise32(x + first + 32 * b, left_of(cols, first + 32 * b), q);
            out->c[b] = out->d[b] * (float)(sum8(q) + sum8(q + 8) + sum8(q + 16) + sum8(q + 24));
        }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static const void *row_at(const rl_cpu_tile *tile, uint32_t r)
{
    return (const uint8_t *)tile->rows + r * tile->row_bytes;
}

static void tile_float(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t t = 0; t < tile->n_tokens; t++)
            tile->y[t][r] = rl_cpu_dot_any(row_at(tile, r), tile->act[t], tile->n_runs);
}

static inline int dot8(const uint8_t *w, const int8_t *q)
{
    int sum = 0;
    for (int j = 0; j < 8; j++)
        sum += w[j] * q[j];
    return sum;
}

static float run8_dot(const rl_wgt_run8 *w, const rl_act_run8 *a, uint32_t n_runs, bool has_min)
{
    float total = 0;
    for (uint32_t n = 0; n < n_runs; n++, w++, a++) {
        float products = 0, minimums = 0;
        for (int b = 0; b < 8; b++) {
            int product = 0, shift = 0;
            for (int k = 0; k < 4; k++) {
                product += w->s[k / 2][4 * b] * dot8(w->w + 64 * k + 8 * b, a->q + 64 * k + 8 * b);
                shift += w->m[4 * b + k] * a->sums[4 * b + k];
            }
            if (has_min)
                minimums += a->d[2 * b] * (float)shift;
            else
                product += shift;
            products += a->d[2 * b] * (float)product;
        }
        total += w->d * products;
        if (has_min) total -= w->dmin * minimums;
    }
    return total;
}

static void tile_fold(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t t = 0; t < tile->n_tokens; t++)
            tile->y[t][r] = run8_dot(row_at(tile, r), tile->act[t], tile->n_runs, false);
}

static void tile_min(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t t = 0; t < tile->n_tokens; t++)
            tile->y[t][r] = run8_dot(row_at(tile, r), tile->act[t], tile->n_runs, true);
}

static float row8_dot(const rl_wgt_row8 *w, const rl_act_row8 *a, uint32_t n_runs)
{
    float total = 0;
    for (uint32_t n = 0; n < n_runs; n++, w++, a++)
        for (int b = 0; b < 8; b++) {
            int product = 0;
            for (int i = 32 * b; i < 32 * b + 32; i++)
                product += w->w[i] * a->q[i];
            total += a->d[b] * w->d[b] * (float)product + w->m[b] * a->c[b];
        }
    return total;
}

static void tile_row(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t t = 0; t < tile->n_tokens; t++)
            tile->y[t][r] = row8_dot(row_at(tile, r), tile->act[t], tile->n_runs);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* `exact` decodes every type to f32. */
#define X(name, lower, id, weights, bytes)                                                         \
    void rl_cpu_decode_##lower(const uint8_t *row, uint32_t cols, void *out)                       \
    {                                                                                              \
        rl_quant_decode(rl_quant_find(id), row, cols, out);                                        \
    }
RL_QUANT_LIST(X)
#undef X

static const rl_cpu_matrix_ops exact_ops = {
    .quantise_run8 = quantise_run8,
    .quantise_row8 = quantise_row8,
    .tile = { [RL_KIND_FLOAT] = tile_float },
    .type = {
#define X(name, lower, id, weights, bytes) [id] = { RL_KIND_FLOAT, rl_cpu_decode_##lower, NULL },
        RL_QUANT_LIST(X)
#undef X
    },
};

static const rl_cpu_matrix_ops scalar_ops = {
    .quantise_run8 = quantise_run8,
    .quantise_row8 = quantise_row8,
    .tile = { [RL_KIND_FLOAT] = tile_float, [RL_KIND_FOLD] = tile_fold, [RL_KIND_FOLD1] = tile_fold,
[RL_KIND_MIN] = tile_min, [RL_KIND_MIN1] = tile_min, [RL_KIND_ROW] = tile_row },
    .type = {
#define X(name, lower, kind)                                                                       \
    [RL_QUANT_##name] = { RL_KIND_##kind, rl_cpu_unpack_##lower##_any, NULL },
        RL_CPU_KINDS(X)
#undef X
    },
};

const rl_cpu_kernels rl_cpu_kernels_exact = { .name = "exact",
                                              RL_CPU_VECTORS(any),
                                              .matrix = &exact_ops };
const rl_cpu_kernels rl_cpu_kernels_scalar = { .name = "scalar",
                                               RL_CPU_VECTORS(any),
                                               .matrix = &scalar_ops };
