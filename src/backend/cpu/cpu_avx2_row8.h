/* cpu_avx2_row8.h - AVX2 kernels for the types with a float scale per 32 weights (ROW8 order,
 * cpu_matrix.h). A part of cpu_kernels_avx2.c. One vector is one block. */

typedef struct row {
    __m256i w[8]; /* signed */
    __m256 d, m;
} row;

typedef struct row_sum {
    __m256 products, shifts;
} row_sum;

INLINE row_sum add_row(row_sum acc, const row *u, const rl_act_row8 *a)
{
    float scale[8];
    _mm256_storeu_ps(scale, _mm256_mul_ps(u->d, _mm256_loadu_ps(a->d)));
    V_UNROLL
    for (int b = 0; b < 8; b++) {
        /* |w| times x with the sign of w */
        __m256i x = _mm256_sign_epi8(load32(a->q + 32 * b), u->w[b]);
        __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(u->w[b]), x),
                                        _mm256_set1_epi16(1));
        acc.products =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale[b]), acc.products);
    }
    acc.shifts = _mm256_fmadd_ps(u->m, _mm256_loadu_ps(a->c), acc.shifts);
    return acc;
}

INLINE float reduce_row(row_sum acc)
{
    return v_sum(_mm256_add_ps(acc.products, acc.shifts));
}

INLINE __m256 halves8(const uint8_t *first, size_t stride)
{
    uint16_t h[8];
    V_UNROLL
    for (int b = 0; b < 8; b++)
        memcpy(h + b, first + b * stride, 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)h));
}

/* 16 bytes of nibbles to 32 bytes, low nibbles first. */
INLINE __m256i nibbles32(const uint8_t *qs)
{
    __m128i bytes = _mm_loadu_si128((const void *)qs);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Bit i of a word as bit 4 of byte i. */
INLINE __m256i fifth_bits(const uint8_t qh[4])
{
    __m256i word = _mm256_set1_epi32((int)rl_load_u32(qh));
    const __m256i at =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(word, at), bits);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bits), _mm256_set1_epi8(16));
}

INLINE __m256i iq4_values(__m256i codes)
{
    __m128i values = _mm_loadu_si128((const void *)rl_iq4nl_values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes);
}

/* 2^(e - 128): the exponent field, and two subnormals at its end. */
INLINE __m256 half_e8m0(__m256i e)
{
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

/* The loader of a type: `weights` is the vector of block x[b], `shift` the eight minimums. */
#define ROW8_LOADER(lower, weights, shift)                                                         \
    INLINE row load_##lower(const rl_block_##lower *x)                                             \
    {                                                                                              \
        row u;                                                                                     \
        V_UNROLL                                                                                   \
        for (int b = 0; b < 8; b++)                                                                \
            u.w[b] = weights;                                                                      \
        u.d = halves8(x->d, sizeof *x);                                                            \
        u.m = shift;                                                                               \
        return u;                                                                                  \
    }

ROW8_LOADER(q8_0, load32(x[b].qs), _mm256_setzero_ps())
ROW8_LOADER(q4_0, _mm256_sub_epi8(nibbles32(x[b].qs), _mm256_set1_epi8(8)), _mm256_setzero_ps())
ROW8_LOADER(q4_1, nibbles32(x[b].qs), halves8(x->m, sizeof *x))
ROW8_LOADER(q5_0,
            _mm256_sub_epi8(_mm256_or_si256(nibbles32(x[b].qs), fifth_bits(x[b].qh)),
                            _mm256_set1_epi8(16)),
            _mm256_setzero_ps())
ROW8_LOADER(q5_1, _mm256_or_si256(nibbles32(x[b].qs), fifth_bits(x[b].qh)),
            halves8(x->m, sizeof *x))
ROW8_LOADER(iq4_nl, iq4_values(nibbles32(x[b].qs)), _mm256_setzero_ps())

INLINE row load_mxfp4(const rl_block_mxfp4 *x)
{
    row u;
    __m128i table = _mm_loadu_si128((const void *)rl_mxfp4_values);
    int32_t e[8];
    V_UNROLL
    for (int b = 0; b < 8; b++) {
        u.w[b] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles32(x[b].qs));
        e[b] = x[b].e;
    }
    u.d = half_e8m0(load32(e));
    u.m = _mm256_setzero_ps();
    return u;
}

INLINE row load_iq4_xs(const rl_block_iq4_xs *x)
{
    row u;
    V_UNROLL
    for (int b = 0; b < 8; b++)
        u.w[b] = iq4_values(nibbles32(x->qs + 16 * b));
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
    V_UNROLL
    for (int b = 0; b < 8; b++)
        _mm256_store_si256((void *)(o->w + 32 * b), u->w[b]);
    _mm256_store_ps(o->d, u->d);
    _mm256_store_ps(o->m, u->m);
}

INLINE row stored_row(const rl_wgt_row8 *o)
{
    row u;
    V_UNROLL
    for (int b = 0; b < 8; b++)
        u.w[b] = load32(o->w + 32 * b);
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
            row_sum acc = { _mm256_setzero_ps(), _mm256_setzero_ps() };                            \
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

static void tile_row(const rl_cpu_tile *tile)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const rl_wgt_row8 *w = (const void *)((const uint8_t *)tile->rows + r * tile->row_bytes);
        for (uint32_t t = 0; t < tile->n_tokens; t++) {
            const rl_act_row8 *a = tile->act[t];
            row_sum acc = { _mm256_setzero_ps(), _mm256_setzero_ps() };
            for (uint32_t i = 0; i < tile->n_runs; i++) {
                row u = stored_row(w + i);
                acc = add_row(acc, &u, a + i);
            }
            tile->y[t][r] = reduce_row(acc);
        }
    }
}
