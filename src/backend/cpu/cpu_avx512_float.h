/* cpu_avx512_float.h - AVX-512 kernels for weights multiplied in f32. A part of cpu_avx512_body.h. */

INLINE __m512 lanes_f32(const void *p, size_t i, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps(mask, (const float *)p + i);
}

INLINE __m512 lanes_f16(const void *p, size_t i, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)p + i));
}

INLINE __m512 lanes_bf16(const void *p, size_t i, __mmask16 mask)
{
    __m256i h = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)p + i);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* n_rows x n_tokens dot products of n columns, two sums each: columns 0..15 and 16..31 of every 32.
 * n_rows and n_tokens are constants where this is expanded; rows lie row_bytes apart. */
#define FLOAT_DOTS(lower)                                                                          \
    INLINE void dots_##lower(const uint8_t *rows, size_t row_bytes, uint32_t n_rows,               \
                             const float *const *x, uint32_t n_tokens, uint32_t n, float *out)     \
    {                                                                                              \
        __m512 acc[8][2];                                                                          \
        for (uint32_t i = 0; i < n_rows * n_tokens; i++)                                           \
            acc[i][0] = acc[i][1] = _mm512_setzero_ps();                                           \
        for (uint32_t c = 0; c < n; c += 32)                                                       \
            for (uint32_t part = 0; part < 2; part++) {                                            \
                uint32_t at = c + 16 * part, left = n > at ? n - at : 0;                           \
                __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);              \
                __m512 v[8];                                                                       \
                for (uint32_t t = 0; t < n_tokens; t++)                                            \
                    v[t] = lanes_f32(x[t], at, mask);                                              \
                for (uint32_t r = 0; r < n_rows; r++) {                                            \
                    __m512 w = lanes_##lower(rows + r * row_bytes, at, mask);                      \
                    for (uint32_t t = 0; t < n_tokens; t++) {                                      \
                        uint32_t i = r * n_tokens + t;                                             \
                        acc[i][part] = _mm512_fmadd_ps(w, v[t], acc[i][part]);                     \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        for (uint32_t i = 0; i < n_rows * n_tokens; i++)                                           \
            out[i] = _mm512_reduce_add_ps(_mm512_add_ps(acc[i][0], acc[i][1]));                    \
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
    }

FLOAT_DOTS(f32)
FLOAT_DOTS(f16)
FLOAT_DOTS(bf16)

static void unpack_f16(const uint8_t *data, uint32_t cols, void *out)
{
    for (uint32_t i = 0; i < cols; i += 16) {
        __mmask16 mask = cols - i >= 16 ? 0xffff : (__mmask16)((1u << (cols - i)) - 1);
        _mm512_mask_storeu_ps((float *)out + i, mask, lanes_f16(data, i, mask));
    }
}

static void unpack_bf16(const uint8_t *data, uint32_t cols, void *out)
{
    for (uint32_t i = 0; i < cols; i += 16) {
        __mmask16 mask = cols - i >= 16 ? 0xffff : (__mmask16)((1u << (cols - i)) - 1);
        _mm512_mask_storeu_ps((float *)out + i, mask, lanes_bf16(data, i, mask));
    }
}

static void tile_float(const rl_cpu_tile *tile)
{
    const float *const *x = (const float *const *)tile->act;
    float out[8];
    uint32_t t = 0;
    for (; t < tile->n_tokens; t += 4) {
        uint32_t n = tile->n_tokens - t < 4 ? tile->n_tokens - t : 4;
        for (uint32_t r = 0; r < tile->n_rows; r++) {
            const uint8_t *w = (const uint8_t *)tile->rows + r * tile->row_bytes;
            if (n == 4) dots_f32(w, 0, 1, x + t, 4, tile->n_runs, out);
            for (uint32_t i = 0; i < n; i++) {
                if (n < 4) dots_f32(w, 0, 1, x + t + i, 1, tile->n_runs, out + i);
                tile->y[t + i][r] = out[i];
            }
        }
    }
}
