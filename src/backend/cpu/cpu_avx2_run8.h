/* cpu_avx2_run8.h - AVX2 kernels for the types of 256 weights (RUN8 order, cpu_matrix.h). A part of
 * cpu_kernels_avx2.c.
 *
 * A run is worked on in two halves: half H holds blocks 4H .. 4H + 3, one 64-bit lane each, in four
 * vectors k. load_NAME(block, H) brings one half into registers; matvec and unpack are the same
 * loader with different ends, so that they cannot disagree. Codebook entries are loaded one by one:
 * AVX2's gathers are slow on too many machines. */

typedef struct half_run {
    __m256i w[4], s[2], m;
} half_run;

/* ---- small pieces ---------------------------------------------------------------------------- */

/* 16 bytes to four 64-bit lanes of 4 bytes; 8 to lanes of 2; 4 to lanes of 1. */
INLINE __m256i lanes4(const void *p)
{
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(p));
}

INLINE __m256i lanes2(const void *p)
{
    return _mm256_cvtepu16_epi64(_mm_loadl_epi64(p));
}

INLINE __m256i lanes1(const void *p)
{
    return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)rl_load_u32(p)));
}

INLINE __m256i lanes1_of(uint32_t bytes)
{
    return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)bytes));
}

/* The low 16 bits of every 64-bit lane, four times. */
INLINE __m256i four_times(__m256i x)
{
    const __m256i at = _mm256_set_epi64x(0x0908090809080908, 0x0100010001000100, 0x0908090809080908,
                                         0x0100010001000100);
    return _mm256_shuffle_epi8(x, at);
}

/* m of the fold types: -offset times the scales. */
INLINE __m256i fold(__m256i s0, __m256i s1, int offset)
{
    __m256i both = _mm256_blend_epi16(s0, s1, 0xcc);
    return _mm256_mullo_epi16(both, _mm256_set1_epi16((short)-offset));
}

/* Odd scales 2 c + 1 from lanes that hold 2 c under `mask`. */
INLINE __m256i odd_scales(__m256i lanes, int mask)
{
    __m256i s = _mm256_and_si256(lanes, _mm256_set1_epi64x(mask));
    return four_times(_mm256_or_si256(s, _mm256_set1_epi64x(1)));
}

/* Table bytes t = offset + magnitude; where sign byte k of a lane has a bit, offset - magnitude. */
INLINE __m256i with_signs(__m256i t, __m256i sign_bytes, int k, int offset)
{
    const __m256i first = _mm256_set_epi64x(0x0808080808080808, 0, 0x0808080808080808, 0);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread =
        _mm256_shuffle_epi8(sign_bytes, _mm256_add_epi8(first, _mm256_set1_epi8((char)k)));
    __m256i negative = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bits), bits);
    __m256i other = _mm256_sub_epi8(_mm256_set1_epi8((char)(2 * offset)), t);
    return _mm256_blendv_epi8(t, other, negative);
}

/* Seven sign bits in each byte; the eighth makes the number of minus signs even. */
INLINE __m256i with_parity(__m256i seven)
{
    const __m256i parity = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m256i y = _mm256_xor_si256(seven, _mm256_srli_epi64(seven, 4));
    y = _mm256_and_si256(y, _mm256_set1_epi8(15));
    return _mm256_or_si256(seven, _mm256_shuffle_epi8(parity, y));
}

/* Four 7-bit sign indices at the bottom of every lane, to four sign bytes. */
INLINE __m256i sign_bytes(__m256i x)
{
    __m256i f = _mm256_and_si256(x, _mm256_set1_epi64x(0x7f));
    f = _mm256_or_si256(f, _mm256_and_si256(_mm256_slli_epi64(x, 1), _mm256_set1_epi64x(0x7f00)));
    f = _mm256_or_si256(f, _mm256_and_si256(_mm256_slli_epi64(x, 2), _mm256_set1_epi64x(0x7f0000)));
    f = _mm256_or_si256(f,
                        _mm256_and_si256(_mm256_slli_epi64(x, 3), _mm256_set1_epi64x(0x7f000000)));
    return with_parity(f);
}

INLINE __m256i entries8(const uint64_t *table, size_t a, size_t b, size_t c, size_t d)
{
    return _mm256_set_epi64x((long long)table[d], (long long)table[c], (long long)table[b],
                             (long long)table[a]);
}

INLINE uint64_t entries4(const uint32_t *table, size_t a, size_t b)
{
    return table[a] | (uint64_t)table[b] << 32;
}

/* ---- products -------------------------------------------------------------------------------- */

/* acc plus half H of one run. The order of the float operations is the contract of this table. */
INLINE __m256 add_half(__m256 acc, const half_run *u, float d, float dmin, const rl_act_run8 *a,
                       int H, bool has_min)
{
    __m256i sum = _mm256_setzero_si256();
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256i pairs = _mm256_maddubs_epi16(u->w[k], load32(a->q + 64 * k + 32 * H));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, u->s[k / 2]));
    }
    __m256i shift = _mm256_madd_epi16(u->m, load32(a->sums + 16 * H));
    __m256 scale = _mm256_loadu_ps(a->d + 8 * H);
    if (!has_min) sum = _mm256_add_epi32(sum, shift);
    acc = _mm256_fmadd_ps(_mm256_set1_ps(d), _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale), acc);
    if (has_min)
        acc = _mm256_fnmadd_ps(_mm256_set1_ps(dmin),
                               _mm256_mul_ps(_mm256_cvtepi32_ps(shift), scale), acc);
    return acc;
}

/* ---- loaders: 1 bit -------------------------------------------------------------------------- */

/* m of the 1-bit types: -9 or -7 times the scales; `negative`: 16-bit lanes of groups whose shift is
 * -1/8. */
INLINE __m256i shift_and_fold(__m256i s0, __m256i s1, __m256i negative)
{
    __m256i both = _mm256_blend_epi16(s0, s1, 0xcc);
    __m256i by = _mm256_add_epi16(negative, negative);
    return _mm256_mullo_epi16(both, _mm256_sub_epi16(by, _mm256_set1_epi16(7)));
}

INLINE half_run load_iq1_s(const rl_block_iq1_s *x, int H)
{
    half_run u;
    const uint8_t *low = x->qs + 16 * H;
    __m256i high = lanes2(x->qh[4 * H]);
    size_t top[4];
    for (int b = 0; b < 4; b++)
        top[b] = rl_load_u16(x->qh[4 * H + b]);
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        size_t i[4];
        V_UNROLL
        for (int b = 0; b < 4; b++)
            i[b] = low[4 * b + k] | (top[b] << 8 >> (3 * k) & 0x700);
        u.w[k] = entries8(rl_cpu_grid_iq1s, i[0], i[1], i[2], i[3]);
    }
    u.s[0] = u.s[1] = odd_scales(_mm256_srli_epi64(high, 11), 14);
    u.m = shift_and_fold(u.s[0], u.s[1], _mm256_srai_epi16(four_times(high), 15));
    return u;
}

INLINE float d_iq1_s(const rl_block_iq1_s *x)
{
    return half(x->d) * 0.125f;
}

INLINE half_run load_iq1_m(const rl_block_iq1_m *x, int H)
{
    half_run u;
    /* indices of all 16 groups: low byte, and three bits of a nibble above it */
    uint16_t index[16];
    __m128i nibbles = _mm_loadl_epi64((const void *)(x->qh + 8 * H));
    __m256i top = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(nibbles, nibbles));
    top = _mm256_mullo_epi16(top, _mm256_set1_epi32(0x00100100)); /* times 256, times 16 */
    __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(x->qs + 16 * H)));
    low = _mm256_or_si256(low, _mm256_and_si256(top, _mm256_set1_epi16(0x700)));
    _mm256_storeu_si256((void *)index, low);
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = entries8(rl_cpu_grid_iq1s, index[k], index[4 + k], index[8 + k], index[12 + k]);
    /* 3-bit code p = 2b + h at bit 16 (b / 2) + 3 (2 (b % 2) + h), to bits 1 .. 3 */
    __m256i words = _mm256_set1_epi64x((long long)((uint64_t)rl_load_u32(x->scales[2 * H]) << 1));
    u.s[0] = odd_scales(_mm256_srlv_epi64(words, _mm256_setr_epi64x(0, 6, 16, 22)), 14);
    u.s[1] = odd_scales(_mm256_srlv_epi64(words, _mm256_setr_epi64x(3, 9, 19, 25)), 14);
    /* the shift's sign is the bit above the three, now bit 11 */
    u.m = shift_and_fold(u.s[0], u.s[1], _mm256_srai_epi16(_mm256_slli_epi16(top, 4), 15));
    return u;
}

INLINE float d_iq1_m(const rl_block_iq1_m *x)
{
    uint64_t words = rl_load_u64(x->scales);
    unsigned bits = (unsigned)((words >> 12 & 0xf) | (words >> 24 & 0xf0) | (words >> 36 & 0xf00) |
                               (words >> 48 & 0xf000));
    return _cvtsh_ss((unsigned short)bits) * 0.125f;
}

/* ---- loaders: 2 and 3 bits ------------------------------------------------------------------- */

INLINE half_run load_iq2_xxs(const rl_block_iq2_xxs *x, int H)
{
    half_run u;
    const uint8_t *p = x->groups + 32 * H;
    __m256i words = _mm256_srli_epi64(load32(p), 32), signs = sign_bytes(words);
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = with_signs(entries8(rl_cpu_grid_iq2xxs, p[k], p[8 + k], p[16 + k], p[24 + k]),
                            signs, k, 43);
    u.s[0] = u.s[1] = odd_scales(_mm256_srli_epi64(words, 27), 30);
    u.m = fold(u.s[0], u.s[1], 43);
    return u;
}

INLINE float d_iq2_xxs(const rl_block_iq2_xxs *x)
{
    return half(x->d) * 0.125f;
}

/* One byte per block: low nibble first half, high nibble second half. */
INLINE void nibble_scales(half_run *u, const uint8_t *scales)
{
    __m256i bytes = lanes1(scales);
    u->s[0] = odd_scales(_mm256_slli_epi64(bytes, 1), 30);
    u->s[1] = odd_scales(_mm256_srli_epi64(bytes, 3), 30);
    u->m = fold(u->s[0], u->s[1], 43);
}

INLINE half_run load_iq2_xs(const rl_block_iq2_xs *x, int H)
{
    half_run u;
    __m256i codes = load32(x->qs + 32 * H);
    __m256i signs = with_parity(_mm256_srli_epi16(codes, 9));
    uint16_t index[16];
    _mm256_storeu_si256((void *)index, _mm256_and_si256(codes, _mm256_set1_epi16(511)));
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = with_signs(
            entries8(rl_cpu_grid_iq2xs, index[k], index[4 + k], index[8 + k], index[12 + k]), signs,
            2 * k, 43);
    nibble_scales(&u, x->scales + 4 * H);
    return u;
}

INLINE float d_iq2_xs(const rl_block_iq2_xs *x)
{
    return half(x->d) * 0.125f;
}

INLINE half_run load_iq2_s(const rl_block_iq2_s *x, int H)
{
    half_run u;
    const uint8_t *low = x->qs + 16 * H, *high = x->qh + 4 * H;
    __m256i signs = lanes4(x->signs + 16 * H);
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        size_t i[4];
        V_UNROLL
        for (int b = 0; b < 4; b++)
            i[b] = low[4 * b + k] | ((size_t)high[b] << (8 - 2 * k) & 0x300);
        u.w[k] = with_signs(entries8(rl_cpu_grid_iq2s, i[0], i[1], i[2], i[3]), signs, k, 43);
    }
    nibble_scales(&u, x->scales + 4 * H);
    return u;
}

INLINE float d_iq2_s(const rl_block_iq2_s *x)
{
    return half(x->d) * 0.125f;
}

INLINE half_run load_iq3_xxs(const rl_block_iq3_xxs *x, int H)
{
    half_run u;
    const uint8_t *p = x->qs + 32 * H;
    __m256i words = lanes4(x->gas[4 * H]), signs = sign_bytes(words);
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        uint64_t e[4];
        V_UNROLL
        for (int b = 0; b < 4; b++)
            e[b] = entries4(rl_cpu_grid_iq3xxs, p[8 * b + 2 * k], p[8 * b + 2 * k + 1]);
        u.w[k] = with_signs(entries8(e, 0, 1, 2, 3), signs, k, 62);
    }
    u.s[0] = u.s[1] = odd_scales(_mm256_srli_epi64(words, 27), 30);
    u.m = fold(u.s[0], u.s[1], 62);
    return u;
}

INLINE float d_iq3_xxs(const rl_block_iq3_xxs *x)
{
    return half(x->d) * 0.25f;
}

INLINE half_run load_iq3_s(const rl_block_iq3_s *x, int H)
{
    half_run u;
    const uint8_t *p = x->qs + 32 * H, *high = x->qh + 4 * H;
    __m256i signs = lanes4(x->signs + 16 * H);
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        uint64_t e[4];
        V_UNROLL
        for (int b = 0; b < 4; b++)
            e[b] = entries4(rl_cpu_grid_iq3s,
                            p[8 * b + 2 * k] | ((size_t)high[b] << (8 - 2 * k) & 0x100),
                            p[8 * b + 2 * k + 1] | ((size_t)high[b] << (7 - 2 * k) & 0x100));
        u.w[k] = with_signs(entries8(e, 0, 1, 2, 3), signs, k, 15);
    }
    __m256i words = _mm256_set1_epi64x((long long)rl_load_u16(x->scales + 2 * H) << 1);
    u.s[0] = u.s[1] = odd_scales(_mm256_srlv_epi64(words, _mm256_setr_epi64x(0, 4, 8, 12)), 30);
    u.m = fold(u.s[0], u.s[1], 15);
    return u;
}

INLINE float d_iq3_s(const rl_block_iq3_s *x)
{
    return half(x->d);
}

/* ---- loaders: K ------------------------------------------------------------------------------ */

/* Eight bytes in all four lanes. */
INLINE __m256i all_lanes(const uint8_t *p)
{
    return _mm256_set1_epi64x((long long)rl_load_u64(p));
}

INLINE __m256i shift_right(__m256i x, int a, int b, int c, int d)
{
    return _mm256_srlv_epi64(x, _mm256_setr_epi64x(a, b, c, d));
}

/* 2-bit planes: half H of the run is bytes 32H .. 32H + 31, lane b takes bits 2b. */
INLINE __m256i planes(const uint8_t qs[64], int H, int k)
{
    return _mm256_and_si256(shift_right(all_lanes(qs + 32 * H + 8 * k), 0, 2, 4, 6),
                            _mm256_set1_epi8(3));
}

INLINE half_run load_q2_k(const rl_block_q2_k *x, int H)
{
    half_run u;
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = planes(x->qs, H, k);
    /* byte 2b + h: scale in the low nibble, minimum in the high one */
    __m256i bytes = lanes2(x->scales + 8 * H);
    u.s[0] = _mm256_and_si256(four_times(bytes), _mm256_set1_epi16(15));
    u.s[1] = _mm256_and_si256(four_times(_mm256_srli_epi64(bytes, 8)), _mm256_set1_epi16(15));
    const __m256i twice =
        _mm256_set_epi64x((long long)0x8009800980088008, (long long)0x8001800180008000,
                          (long long)0x8009800980088008, (long long)0x8001800180008000);
    __m256i mins = _mm256_and_si256(_mm256_srli_epi64(bytes, 4), _mm256_set1_epi64x(0x0f0f));
    u.m = _mm256_shuffle_epi8(mins, twice);
    return u;
}

/* Signed scales, byte 2b + h of eight for half h of block b. */
INLINE void byte_scales(half_run *u, uint64_t scales, int offset)
{
    __m256i lanes = _mm256_cvtepu16_epi64(_mm_cvtsi64_si128((long long)scales));
    u->s[0] = _mm256_srai_epi16(four_times(_mm256_slli_epi64(lanes, 8)), 8);
    u->s[1] = _mm256_srai_epi16(four_times(lanes), 8);
    u->m = fold(u->s[0], u->s[1], offset);
}

INLINE half_run load_q3_k(const rl_block_q3_k *x, int H)
{
    half_run u;
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        /* bit 4H + b of every byte, to bit 2; the doubled mask never crosses a byte's top */
        __m256i high = _mm256_srli_epi64(all_lanes(x->hmask + 8 * k), 4 * H);
        high = _mm256_and_si256(high, _mm256_setr_epi64x(0x0101010101010101, 0x0202020202020202,
                                                         0x0404040404040404, 0x0808080808080808));
        high = _mm256_or_si256(_mm256_sllv_epi64(high, _mm256_setr_epi64x(2, 1, 0, 64)),
                               _mm256_srlv_epi64(high, _mm256_setr_epi64x(64, 64, 64, 1)));
        u.w[k] = _mm256_or_si256(planes(x->qs, H, k), high);
    }
    uint32_t a = rl_load_u32(x->scales) >> (4 * H), b = rl_load_u32(x->scales + 4) >> (4 * H);
    uint32_t c = rl_load_u32(x->scales + 8) >> (4 * H);
    const uint32_t low = 0x0f0f0f0f, two = 0x03030303;
    uint64_t six = ((a & low) | (c & two) << 4) | (uint64_t)((b & low) | (c >> 2 & two) << 4) << 32;
    /* minus 32 in every byte: 6-bit numbers, so flipping bit 5 and copying it upwards does it */
    six ^= 0x2020202020202020;
    six |= (six & 0x2020202020202020) << 1 | (six & 0x2020202020202020) << 2;
    byte_scales(&u, six, 4);
    return u;
}

INLINE float d_q3_k(const rl_block_q3_k *x)
{
    return half(x->d);
}

/* Scales and minimums of blocks 4H .. 4H + 3 in the 12 bytes of Q4_K and Q5_K. */
INLINE void six_bits(half_run *u, const uint8_t s[12], int H)
{
    uint32_t a = rl_load_u32(s), b = rl_load_u32(s + 4), c = rl_load_u32(s + 8);
    const uint32_t low = 0x0f0f0f0f, six = 0x3f3f3f3f, two = 0x03030303;
    uint32_t scales = H ? (c & low) | (a >> 6 & two) << 4 : a & six;
    uint32_t mins = H ? (c >> 4 & low) | (b >> 6 & two) << 4 : b & six;
    u->s[0] = u->s[1] = four_times(lanes1_of(scales));
    u->m = four_times(lanes1_of(mins));
}

/* Nibbles: half H is bytes 64H .. 64H + 63, 32 for two blocks; group k of each. */
INLINE __m256i nibbles(const uint8_t qs[128], int H, int k)
{
    const uint8_t *p = qs + 64 * H + 8 * k;
    __m256i bytes = _mm256_blend_epi32(all_lanes(p), all_lanes(p + 32), 0xf0);
    return _mm256_and_si256(shift_right(bytes, 0, 4, 0, 4), _mm256_set1_epi8(15));
}

INLINE half_run load_q4_k(const rl_block_q4_k *x, int H)
{
    half_run u;
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = nibbles(x->qs, H, k);
    six_bits(&u, x->scales, H);
    return u;
}

INLINE half_run load_q5_k(const rl_block_q5_k *x, int H)
{
    half_run u;
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256i high = all_lanes(x->qh + 8 * k); /* bit 4H + b, to bit 4 */
        high = H ? shift_right(high, 0, 1, 2, 3)
                 : _mm256_sllv_epi64(high, _mm256_setr_epi64x(4, 3, 2, 1));
        high = _mm256_and_si256(high, _mm256_set1_epi8(16));
        u.w[k] = _mm256_or_si256(nibbles(x->qs, H, k), high);
    }
    six_bits(&u, x->scales, H);
    return u;
}

INLINE half_run load_q6_k(const rl_block_q6_k *x, int H)
{
    half_run u;
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        const uint8_t *ql = x->ql + 64 * H + 8 * k;
        __m256i low = _mm256_blend_epi32(all_lanes(ql), all_lanes(ql + 32), 0xcc);
        low = _mm256_and_si256(shift_right(low, 0, 0, 4, 4), _mm256_set1_epi8(15));
        __m256i high = _mm256_and_si256(shift_right(all_lanes(x->qh + 32 * H + 8 * k), 0, 2, 4, 6),
                                        _mm256_set1_epi8(3));
        u.w[k] = _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
    }
    byte_scales(&u, rl_load_u64(x->scales + 8 * H), 32);
    return u;
}

INLINE float d_q6_k(const rl_block_q6_k *x)
{
    return half(x->d);
}

#define D_AND_MIN(lower)                                                                           \
    INLINE float d_##lower(const rl_block_##lower *x)                                              \
    {                                                                                              \
        return half(x->d);                                                                         \
    }                                                                                              \
    INLINE float dmin_##lower(const rl_block_##lower *x)                                           \
    {                                                                                              \
        return half(x->dmin);                                                                      \
    }
D_AND_MIN(q2_k)
D_AND_MIN(q4_k)
D_AND_MIN(q5_k)

/* ---- one token, unpacking, tiles ------------------------------------------------------------- */

INLINE void store_half(rl_wgt_run8 *o, const half_run *u, int H)
{
    V_UNROLL
    for (int k = 0; k < 4; k++)
        _mm256_store_si256((void *)(o->w + 64 * k + 32 * H), u->w[k]);
    _mm256_store_si256((void *)(o->s[0] + 16 * H), u->s[0]);
    _mm256_store_si256((void *)(o->s[1] + 16 * H), u->s[1]);
    _mm256_store_si256((void *)(o->m + 16 * H), u->m);
}

#define RUN8_KERNELS(lower, minimum, has_min)                                                      \
    static void unpack_##lower(const uint8_t *row, uint32_t cols, void *out)                       \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)row;                                             \
        rl_wgt_run8 *o = out;                                                                      \
        for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, o++) {                                   \
            rl_cpu_prefetch(x, sizeof *x);                                                         \
            half_run first = load_##lower(x, 0), second = load_##lower(x, 1);                      \
            store_half(o, &first, 0);                                                              \
            store_half(o, &second, 1);                                                             \
            o->d = d_##lower(x);                                                                   \
            o->dmin = minimum;                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void matvec_##lower(const uint8_t *row, size_t row_bytes, uint32_t n_rows,              \
                               uint32_t cols, const void *act, float *y)                           \
    {                                                                                              \
        for (uint32_t r = 0; r < n_rows; r++, row += row_bytes) {                                  \
            const rl_block_##lower *x = (const void *)row;                                         \
            const rl_act_run8 *a = act;                                                            \
            __m256 acc = _mm256_setzero_ps();                                                      \
            for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, a++) {                               \
                rl_cpu_prefetch(x, sizeof *x);                                                     \
                float d = d_##lower(x), dmin = minimum;                                            \
                half_run first = load_##lower(x, 0);                                               \
                acc = add_half(acc, &first, d, dmin, a, 0, has_min);                               \
                half_run second = load_##lower(x, 1);                                              \
                acc = add_half(acc, &second, d, dmin, a, 1, has_min);                              \
            }                                                                                      \
            y[r] = v_sum(acc);                                                                     \
        }                                                                                          \
    }

RUN8_KERNELS(iq1_s, 0, false)
RUN8_KERNELS(iq1_m, 0, false)
RUN8_KERNELS(iq2_xxs, 0, false)
RUN8_KERNELS(iq2_xs, 0, false)
RUN8_KERNELS(iq2_s, 0, false)
RUN8_KERNELS(iq3_xxs, 0, false)
RUN8_KERNELS(iq3_s, 0, false)
RUN8_KERNELS(q2_k, dmin_q2_k(x), true)
RUN8_KERNELS(q3_k, 0, false)
RUN8_KERNELS(q4_k, dmin_q4_k(x), true)
RUN8_KERNELS(q5_k, dmin_q5_k(x), true)
RUN8_KERNELS(q6_k, 0, false)

/* n tokens (a constant where this is expanded) of one unpacked row. */
INLINE void run8_row(const rl_wgt_run8 *w, uint32_t n_runs, const rl_cpu_tile *tile, uint32_t first,
                     uint32_t n, uint32_t r, bool has_min)
{
    __m256 acc[4];
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[t] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < n_runs; i++, w++) {
        V_UNROLL
        for (int H = 0; H < 2; H++) {
            half_run u;
            V_UNROLL
            for (int k = 0; k < 4; k++)
                u.w[k] = load32(w->w + 64 * k + 32 * H);
            u.s[0] = load32(w->s[0] + 16 * H);
            u.s[1] = load32(w->s[1] + 16 * H);
            u.m = load32(w->m + 16 * H);
            V_UNROLL
            for (uint32_t t = 0; t < n; t++)
                acc[t] = add_half(acc[t], &u, w->d, w->dmin,
                                  (const rl_act_run8 *)tile->act[first + t] + i, H, has_min);
        }
    }
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        tile->y[first + t][r] = v_sum(acc[t]);
}

INLINE void run8_tile(const rl_cpu_tile *tile, bool has_min)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const rl_wgt_run8 *w = (const void *)((const uint8_t *)tile->rows + r * tile->row_bytes);
        uint32_t t = 0;
        for (; t + 4 <= tile->n_tokens; t += 4)
            run8_row(w, tile->n_runs, tile, t, 4, r, has_min);
        for (; t < tile->n_tokens; t++)
            run8_row(w, tile->n_runs, tile, t, 1, r, has_min);
    }
}

static void tile_fold(const rl_cpu_tile *tile)
{
    run8_tile(tile, false);
}

static void tile_min(const rl_cpu_tile *tile)
{
    run8_tile(tile, true);
}

/* Equal scales make no difference here. */
#define tile_fold1 tile_fold
#define tile_min1  tile_min
