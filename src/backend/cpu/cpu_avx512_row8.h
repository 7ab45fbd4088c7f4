/* cpu_avx512_row8.h - AVX-512 kernels for the types with a float scale per 32 weights (ROW8 order,
 * cpu_matrix.h). A part of cpu_avx512_body.h. */

typedef struct row {
    __m512i w[4]; /* signed; blocks 2j and 2j + 1 */
    __m256 d, m;
} row;

typedef struct row_sum {
    __m512 products;
    __m256 shifts;
} row_sum;

INLINE row_sum add_row(row_sum acc, const row *u, const rl_act_row8 *a)
{
    __m512 scale = _mm512_castps256_ps512(_mm256_mul_ps(u->d, _mm256_loadu_ps(a->d)));
    for (int j = 0; j < 4; j++) {
        /* |w| times x with the sign of w */
        __m512i x = load64(a->q + 64 * j), zero = _mm512_setzero_si512();
        __m512i size = _mm512_abs_epi8(u->w[j]);
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(u->w[j]), zero, x);
#if RL_AVX512_VNNI
        __m512i sum = _mm512_dpbusd_epi32(zero, size, x);
#else
        __m512i sum = _mm512_madd_epi16(_mm512_maddubs_epi16(size, x), _mm512_set1_epi16(1));
#endif
        const __m512i at =
            _mm512_add_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                             _mm512_set1_epi32(2 * j));
        acc.products = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_permutexvar_ps(at, scale),
                                       acc.products);
    }
    acc.shifts = _mm256_fmadd_ps(u->m, _mm256_loadu_ps(a->c), acc.shifts);
    return acc;
}

INLINE float reduce_row(row_sum acc)
{
    return _mm512_reduce_add_ps(acc.products) +
           _mm512_reduce_add_ps(_mm512_zextps256_ps512(acc.shifts));
}

INLINE __m256 halves8(const uint8_t *first, size_t stride)
{
    uint16_t h[8];
    for (int b = 0; b < 8; b++)
        memcpy(h + b, first + b * stride, 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)h));
}

/* 16 bytes of nibbles to 32 bytes, low nibbles first; two blocks to one vector. */
INLINE __m256i nibbles32(const uint8_t *qs)
{
    __m128i bytes = _mm_loadu_si128((const void *)qs);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

INLINE __m512i two(__m256i first, __m256i second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/* Bit i of a word as bit 4 of byte i. */
INLINE __m256i fifth_bits(const uint8_t qh[4])
{
    return _mm256_maskz_set1_epi8(rl_load_u32(qh), 16);
}

INLINE __m256i iq4_values(__m256i codes)
{
    __m128i values = _mm_loadu_si128((const void *)rl_iq4nl_values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes);
}

INLINE row load_q8_0(const rl_block_q8_0 *x)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] = two(_mm256_loadu_si256((const void *)x[2 * j].qs),
                     _mm256_loadu_si256((const void *)x[2 * j + 1].qs));
    u.d = halves8(x->d, sizeof *x);
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_q4_0(const rl_block_q4_0 *x)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] = _mm512_sub_epi8(two(nibbles32(x[2 * j].qs), nibbles32(x[2 * j + 1].qs)),
                                 _mm512_set1_epi8(8));
    u.d = halves8(x->d, sizeof *x);
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_q4_1(const rl_block_q4_1 *x)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] = two(nibbles32(x[2 * j].qs), nibbles32(x[2 * j + 1].qs));
    u.d = halves8(x->d, sizeof *x);
    u.m = halves8(x->m, sizeof *x);
    return u;
}

INLINE row load_q5_0(const rl_block_q5_0 *x)
{
    row u;
    for (int j = 0; j < 4; j++) {
        __m512i low = two(nibbles32(x[2 * j].qs), nibbles32(x[2 * j + 1].qs));
        __m512i high = two(fifth_bits(x[2 * j].qh), fifth_bits(x[2 * j + 1].qh));
        u.w[j] = _mm512_sub_epi8(_mm512_or_si512(low, high), _mm512_set1_epi8(16));
    }
    u.d = halves8(x->d, sizeof *x);
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_q5_1(const rl_block_q5_1 *x)
{
    row u;
    for (int j = 0; j < 4; j++) {
        __m512i low = two(nibbles32(x[2 * j].qs), nibbles32(x[2 * j + 1].qs));
        __m512i high = two(fifth_bits(x[2 * j].qh), fifth_bits(x[2 * j + 1].qh));
        u.w[j] = _mm512_or_si512(low, high);
    }
    u.d = halves8(x->d, sizeof *x);
    u.m = halves8(x->m, sizeof *x);
    return u;
}

INLINE row load_iq4_nl(const rl_block_iq4_nl *x)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] = two(iq4_values(nibbles32(x[2 * j].qs)), iq4_values(nibbles32(x[2 * j + 1].qs)));
    u.d = halves8(x->d, sizeof *x);
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_mxfp4(const rl_block_mxfp4 *x)
{
    row u;
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)rl_mxfp4_values));
    int32_t e[8];
    for (int j = 0; j < 4; j++) {
        __m512i codes = two(nibbles32(x[2 * j].qs), nibbles32(x[2 * j + 1].qs));
        u.w[j] = _mm512_shuffle_epi8(table, codes);
        e[2 * j] = x[2 * j].e;
        e[2 * j + 1] = x[2 * j + 1].e;
    }
    /* 2^(e - 128): the exponent field, and two subnormals at its end */
    __m256i wide = _mm256_loadu_si256((const void *)e);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(wide, _mm256_set1_epi32(1)), 23);
    __mmask8 small = _mm256_cmplt_epi32_mask(wide, _mm256_set1_epi32(2));
    u.d = _mm256_castsi256_ps(
        _mm256_mask_sllv_epi32(normal, small, _mm256_set1_epi32(0x00200000), wide));
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_iq4_xs(const rl_block_iq4_xs *x)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] =
            two(iq4_values(nibbles32(x->qs + 32 * j)), iq4_values(nibbles32(x->qs + 32 * j + 16)));
    const __m256i nibble = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i pair = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)rl_load_u32(x->scales_l)), nibble);
    __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(rl_load_u16(x->scales_h)), pair);
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4);
    __m256i s = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    u.d = _mm256_mul_ps(_mm256_cvtepi32_ps(s), _mm256_set1_ps(half(x->d)));
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE void store_row(rl_wgt_row8 *o, const row *u)
{
    for (int j = 0; j < 4; j++)
        _mm512_store_si512(o->w + 64 * j, u->w[j]);
    _mm256_store_ps(o->d, u->d);
    _mm256_store_ps(o->m, u->m);
}

INLINE row stored_row(const rl_wgt_row8 *o)
{
    row u;
    for (int j = 0; j < 4; j++)
        u.w[j] = load64(o->w + 64 * j);
    u.d = _mm256_loadu_ps(o->d);
    u.m = _mm256_loadu_ps(o->m);
    return u;
}

/* Rows that are no multiple of 256 columns end with a run that the portable unpacker fills up. */
#define ROW8_KERNELS(lower, blocks_per_run)                                                        \
    static void unpack_##lower(const uint8_t *data, uint32_t cols, void *out)                      \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)data;                                            \
        rl_wgt_row8 *o = out;                                                                      \
        for (uint32_t n = cols / RL_CPU_RUN; n; n--, x += (blocks_per_run), o++) {                 \
            rl_cpu_prefetch(x, (blocks_per_run) * sizeof *x);                                      \
            row u = load_##lower(x);                                                               \
            store_row(o, &u);                                                                      \
        }                                                                                          \
        if (cols % RL_CPU_RUN) rl_cpu_unpack_##lower##_any((const void *)x, cols % RL_CPU_RUN, o); \
    }                                                                                              \
    static void matvec_##lower(const uint8_t *data, size_t row_bytes, uint32_t n_rows,             \
                               uint32_t cols, const void *act, float *y)                           \
    {                                                                                              \
        for (uint32_t r = 0; r < n_rows; r++, data += row_bytes) {                                 \
            const rl_block_##lower *x = (const void *)data;                                        \
            const rl_act_row8 *a = act;                                                            \
            row_sum acc = { _mm512_setzero_ps(), _mm256_setzero_ps() };                            \
            for (uint32_t n = cols / RL_CPU_RUN; n; n--, x += (blocks_per_run), a++) {             \
                rl_cpu_prefetch(x, (blocks_per_run) * sizeof *x);                                  \
                row u = load_##lower(x);                                                           \
                acc = add_row(acc, &u, a);                                                         \
            }                                                                                      \
            if (cols % RL_CPU_RUN) {                                                               \
                rl_wgt_row8 last;                                                                  \
                rl_cpu_unpack_##lower##_any((const void *)x, cols % RL_CPU_RUN, &last);            \
                row u = stored_row(&last);                                                         \
                acc = add_row(acc, &u, a);                                                         \
            }                                                                                      \
            y[r] = reduce_row(acc);                                                                \
        }                                                                                          \
    }

ROW8_KERNELS(q4_0, 8)
ROW8_KERNELS(q4_1, 8)
ROW8_KERNELS(q5_0, 8)
ROW8_KERNELS(q5_1, 8)
ROW8_KERNELS(q8_0, 8)
ROW8_KERNELS(iq4_nl, 8)
ROW8_KERNELS(mxfp4, 8)
ROW8_KERNELS(iq4_xs, 1)

INLINE void row8_row(const rl_wgt_row8 *w, uint32_t n_runs, const rl_cpu_tile *tile, uint32_t first,
                     uint32_t n, uint32_t r)
{
    row_sum acc[4];
    for (uint32_t t = 0; t < n; t++)
        acc[t] = (row_sum){ _mm512_setzero_ps(), _mm256_setzero_ps() };
    for (uint32_t i = 0; i < n_runs; i++, w++) {
        row u = stored_row(w);
        for (uint32_t t = 0; t < n; t++)
            acc[t] = add_row(acc[t], &u, (const rl_act_row8 *)tile->act[first + t] + i);
    }
    for (uint32_t t = 0; t < n; t++)
        tile->y[first + t][r] = reduce_row(acc[t]);
}

static void tile_row(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const rl_wgt_row8 *w = (const void *)((const uint8_t *)tile->rows + r * tile->row_bytes);
        uint32_t t = 0;
        for (; t + 4 <= tile->n_tokens; t += 4)
            row8_row(w, tile->n_runs, tile, t, 4, r);
        for (; t < tile->n_tokens; t++)
            row8_row(w, tile->n_runs, tile, t, 1, r);
    }
}
