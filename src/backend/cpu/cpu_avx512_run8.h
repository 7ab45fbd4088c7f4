/* cpu_avx512_run8.h - AVX-512 kernels for the types of 256 weights (RUN8 order, cpu_matrix.h).
 * A part of cpu_avx512_body.h.
 *
 * One 64-byte vector is one k of the order: lane pair b belongs to block b. A load_NAME() brings one
 * block of the file into this form in registers; matvec and unpack are the same loader with
 * different ends, so that they cannot disagree. */

typedef struct run {
    __m512i w[4], s[2], m;
    float d, dmin;
} run;

/* ---- small pieces ---------------------------------------------------------------------------- */

/* 32 bytes to eight 64-bit lanes of 4 bytes; 16 to lanes of 2; 8 to lanes of 1. */
INLINE __m512i lanes4(const void *p)
{
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256(p));
}

INLINE __m512i lanes2(const void *p)
{
    return _mm512_cvtepu16_epi64(_mm_loadu_si128(p));
}

INLINE __m512i lanes1(const void *p)
{
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64(p));
}

INLINE __m512i lanes1_of(uint64_t bytes)
{
    return _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((long long)bytes));
}

/* (x & mask) | other, per bit. */
INLINE __m512i and_or(__m512i x, __m512i mask, __m512i other)
{
    return _mm512_ternarylogic_epi64(x, mask, other, 0xea);
}

/* The low 16 bits of every 64-bit lane, four times. */
INLINE __m512i four_times(__m512i x)
{
    const __m512i at =
        _mm512_broadcast_i32x4(_mm_set_epi64x(0x0908090809080908, 0x0100010001000100));
    return _mm512_shuffle_epi8(x, at);
}

/* m of the fold types: -offset times the scales of both halves, in 16-bit lanes 4b and 4b + 1. */
INLINE __m512i fold(__m512i s0, __m512i s1, int offset)
{
    __m512i both = _mm512_mask_blend_epi16(0x22222222, s0, s1);
    return _mm512_mullo_epi16(both, _mm512_set1_epi16((short)-offset));
}

/* Eight 64-bit, sixteen 32-bit table entries by index. */
INLINE __m512i fetch8(const uint64_t *table, __m512i index)
{
    return _mm512_i64gather_epi64(index, (const void *)table, 8);
}

INLINE __m512i fetch4(const uint32_t *table, __m512i index)
{
    return _mm512_i32gather_epi32(index, (const void *)table, 4);
}

/* Table bytes t = offset + magnitude; where `negative` has a bit, offset - magnitude. */
INLINE __m512i with_signs(__m512i t, __mmask64 negative, int offset)
{
    return _mm512_mask_sub_epi8(t, negative, _mm512_set1_epi8((char)(2 * offset)), t);
}

/* Sign masks. `bytes` holds per 64-bit lane four sign bytes, those of k = 0 .. 3. */
INLINE __mmask64 sign_mask(__m512i bytes, int k)
{
#if RL_AVX512_VNNI
    const __m512i first = _mm512_set1_epi64(0x0706050403020100);
    return _mm512_bitshuffle_epi64_mask(bytes,
                                        _mm512_add_epi8(first, _mm512_set1_epi8((char)(8 * k))));
#else
    __m512i spread = _mm512_shuffle_epi8(
        bytes, _mm512_add_epi8(_mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0,
                                                0x0808080808080808, 0, 0x0808080808080808, 0),
                               _mm512_set1_epi8((char)k)));
    return _mm512_test_epi8_mask(spread, _mm512_set1_epi64((long long)0x8040201008040201));
#endif
}

/* Four 7-bit sign indices at bits `at` + 7 k of every lane, to four sign bytes: the eighth sign
 * makes the number of minus signs even. */
INLINE __m512i sign_bytes(__m512i lanes, int at)
{
    __m512i f;
#if RL_AVX512_VNNI
    const __m512i windows =
        _mm512_add_epi8(_mm512_set1_epi64(0x150e0700150e0700), _mm512_set1_epi8((char)at));
    f = _mm512_and_si512(_mm512_multishift_epi64_epi8(windows, lanes), _mm512_set1_epi8(0x7f));
    __m512i parity = _mm512_slli_epi64(_mm512_popcnt_epi8(f), 7);
    return and_or(parity, _mm512_set1_epi8((char)0x80), f);
#else
    __m512i x = _mm512_srli_epi64(lanes, (unsigned)at);
    f = _mm512_and_si512(x, _mm512_set1_epi64(0x7f));
    f = and_or(_mm512_slli_epi64(x, 1), _mm512_set1_epi64(0x7f00), f);
    f = and_or(_mm512_slli_epi64(x, 2), _mm512_set1_epi64(0x7f0000), f);
    f = and_or(_mm512_slli_epi64(x, 3), _mm512_set1_epi64(0x7f000000), f);
    __m512i y = _mm512_xor_si512(f, _mm512_srli_epi64(f, 4)); /* bits 0..2: pairs 4 apart */
    y = _mm512_and_si512(y, _mm512_set1_epi8(0x0f));
    /* bit 3 has no partner inside its byte but came from bit 7, which is 0 */
    const __m512i parity = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    return _mm512_or_si512(f, _mm512_shuffle_epi8(parity, y));
#endif
}

/* ---- products -------------------------------------------------------------------------------- */

/* sum + pairs of 16-bit products */
INLINE __m512i add_products16(__m512i sum, __m512i a, __m512i b)
{
#if RL_AVX512_VNNI
    return _mm512_dpwssd_epi32(sum, a, b);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}

/* acc plus one run of one token. The order of the float operations is the contract of this table. */
INLINE __m512 add_run(__m512 acc, const run *u, const rl_act_run8 *a, bool has_min)
{
    __m512i sum = _mm512_setzero_si512(), shift = _mm512_setzero_si512();
    for (int k = 0; k < 4; k++) {
        __m512i pairs = _mm512_maddubs_epi16(u->w[k], load64(a->q + 64 * k));
        sum = add_products16(sum, pairs, u->s[k / 2]);
    }
    __m512 d = _mm512_loadu_ps(a->d);
    if (has_min)
        shift = add_products16(shift, u->m, load64(a->sums));
    else
        sum = add_products16(sum, u->m, load64(a->sums));
    acc = _mm512_fmadd_ps(_mm512_set1_ps(u->d), _mm512_mul_ps(_mm512_cvtepi32_ps(sum), d), acc);
    if (has_min)
        acc = _mm512_fnmadd_ps(_mm512_set1_ps(u->dmin), _mm512_mul_ps(_mm512_cvtepi32_ps(shift), d),
                               acc);
    return acc;
}

/* ---- loaders: 1 bit -------------------------------------------------------------------------- */

INLINE run load_iq1_s(const rl_block_iq1_s *x)
{
    run u;
    const __m512i low8 = _mm512_set1_epi64(0xff), high3 = _mm512_set1_epi64(0x700);
    __m512i low = lanes4(x->qs), high = lanes2(x->qh);
    __mmask8 negative = _mm512_test_epi64_mask(high, _mm512_set1_epi64(0x8000));
    __m512i top[4] = { _mm512_slli_epi64(high, 8), _mm512_slli_epi64(high, 5),
                       _mm512_slli_epi64(high, 2), _mm512_srli_epi64(high, 1) };
    for (int k = 0; k < 4; k++) {
        __m512i index = _mm512_and_si512(_mm512_srli_epi64(low, 8 * (unsigned)k), low8);
        index = and_or(top[k], high3, index);
        __m512i t = fetch8(rl_cpu_grid_iq1s, index);
        u.w[k] = _mm512_mask_sub_epi64(t, negative, t, _mm512_set1_epi8(2));
    }
    __m512i s = and_or(_mm512_srli_epi64(high, 11), _mm512_set1_epi64(14), _mm512_set1_epi64(1));
    u.s[0] = u.s[1] = four_times(s);
    u.m = fold(u.s[0], u.s[1], 9);
    u.d = half(x->d) * 0.125f;
    u.dmin = 0;
    return u;
}

INLINE run load_iq1_m(const rl_block_iq1_m *x)
{
    run u;
    const __m512i low8 = _mm512_set1_epi64(0xff), high3 = _mm512_set1_epi64(0x700);
    __m512i low = lanes4(x->qs), high = lanes2(x->qh);
    __m512i top[4] = { _mm512_slli_epi64(high, 8), _mm512_slli_epi64(high, 4), high,
                       _mm512_srli_epi64(high, 4) };
    for (int k = 0; k < 4; k++) {
        __m512i index = _mm512_and_si512(_mm512_srli_epi64(low, 8 * (unsigned)k), low8);
        index = and_or(top[k], high3, index);
        __mmask8 negative = _mm512_test_epi64_mask(top[k], _mm512_set1_epi64(0x800));
        __m512i t = fetch8(rl_cpu_grid_iq1s, index);
        u.w[k] = _mm512_mask_sub_epi64(t, negative, t, _mm512_set1_epi8(2));
    }
    /* 3-bit code p = 2b + h at bit 16 (b / 2) + 3 (2 (b % 2) + h); rotate it to bits 1 .. 3 */
    uint64_t word = rl_load_u64(x->scales);
    __m512i words = _mm512_set1_epi64((long long)word);
    for (int h = 0; h < 2; h++) {
        __m512i by = h ? _mm512_setr_epi64(2, 8, 18, 24, 34, 40, 50, 56)
                       : _mm512_setr_epi64(-1, 5, 15, 21, 31, 37, 47, 53);
        __m512i s =
            and_or(_mm512_rorv_epi64(words, by), _mm512_set1_epi64(14), _mm512_set1_epi64(1));
        u.s[h] = four_times(s);
    }
    u.m = fold(u.s[0], u.s[1], 9);
    u.d = _cvtsh_ss((unsigned short)_pext_u64(word, 0xf000f000f000f000)) * 0.125f;
    u.dmin = 0;
    return u;
}

/* ---- loaders: 2 and 3 bits ------------------------------------------------------------------- */

INLINE run load_iq2_xxs(const rl_block_iq2_xxs *x)
{
    run u;
    const __m512i low8 = _mm512_set1_epi64(0xff);
    __m512i groups = load64(x->groups), signs = sign_bytes(groups, 32);
    for (int k = 0; k < 4; k++) {
        __m512i index = _mm512_and_si512(_mm512_srli_epi64(groups, 8 * (unsigned)k), low8);
        u.w[k] = with_signs(fetch8(rl_cpu_grid_iq2xxs, index), sign_mask(signs, k), 43);
    }
    __m512i s = and_or(_mm512_srli_epi64(groups, 59), _mm512_set1_epi64(30), _mm512_set1_epi64(1));
    u.s[0] = u.s[1] = four_times(s);
    u.m = fold(u.s[0], u.s[1], 43);
    u.d = half(x->d) * 0.125f;
    u.dmin = 0;
    return u;
}

/* Scales 2 c + 1 from one byte per block: low nibble first half, high nibble second half. */
INLINE void nibble_scales(run *u, const uint8_t scales[8])
{
    __m512i bytes = lanes1(scales);
    const __m512i mask = _mm512_set1_epi64(30), one = _mm512_set1_epi64(1);
    u->s[0] = four_times(and_or(_mm512_slli_epi64(bytes, 1), mask, one));
    u->s[1] = four_times(and_or(_mm512_srli_epi64(bytes, 3), mask, one));
    u->m = fold(u->s[0], u->s[1], 43);
}

INLINE run load_iq2_xs(const rl_block_iq2_xs *x)
{
    run u;
    __m512i codes = load64(x->qs);
#if RL_AVX512_VNNI
    /* bit 0 of every word becomes the eighth sign, above it stay the seven */
    __m512i odd = _mm512_popcnt_epi16(_mm512_and_si512(codes, _mm512_set1_epi16((short)0xfe00)));
    __m512i bits = _mm512_ternarylogic_epi64(_mm512_set1_epi16(1), odd, codes, 0xca);
    const __m512i first = _mm512_set1_epi64(0x000f0e0d0c0b0a09);
#else
    __m512i word = _mm512_srli_epi16(codes, 9); /* seven signs in the low byte of each word */
    __m512i y = _mm512_and_si512(_mm512_xor_si512(word, _mm512_srli_epi16(word, 4)),
                                 _mm512_set1_epi16(0x0f));
    const __m512i parity = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    word = _mm512_or_si512(word, _mm512_shuffle_epi8(parity, y));
#endif
    for (int k = 0; k < 4; k++) {
        __m512i index =
            _mm512_and_si512(_mm512_srli_epi64(codes, 16 * (unsigned)k), _mm512_set1_epi64(511));
#if RL_AVX512_VNNI
        __mmask64 negative = _mm512_bitshuffle_epi64_mask(
            bits, _mm512_add_epi8(first, _mm512_set1_epi8((char)(16 * k))));
#else
        __mmask64 negative = sign_mask(word, 2 * k);
#endif
        u.w[k] = with_signs(fetch8(rl_cpu_grid_iq2xs, index), negative, 43);
    }
    nibble_scales(&u, x->scales);
    u.d = half(x->d) * 0.125f;
    u.dmin = 0;
    return u;
}

INLINE run load_iq2_s(const rl_block_iq2_s *x)
{
    run u;
    const __m512i low8 = _mm512_set1_epi64(0xff), high2 = _mm512_set1_epi64(0x300);
    __m512i low = lanes4(x->qs), high = lanes1(x->qh), signs = lanes4(x->signs);
    for (int k = 0; k < 4; k++) {
        __m512i index = _mm512_and_si512(_mm512_srli_epi64(low, 8 * (unsigned)k), low8);
        index = and_or(_mm512_slli_epi64(high, 8 - 2 * (unsigned)k), high2, index);
        u.w[k] = with_signs(fetch8(rl_cpu_grid_iq2s, index), sign_mask(signs, k), 43);
    }
    nibble_scales(&u, x->scales);
    u.d = half(x->d) * 0.125f;
    u.dmin = 0;
    return u;
}

/* Bytes 2k and 2k + 1 of every 64-bit lane as its two 32-bit halves. */
INLINE __m512i index_pairs(__m512i lanes, int k)
{
    const __m512i first = _mm512_set_epi64(
        (long long)0x8080800980808008, (long long)0x8080800180808000, (long long)0x8080800980808008,
        (long long)0x8080800180808000, (long long)0x8080800980808008, (long long)0x8080800180808000,
        (long long)0x8080800980808008, (long long)0x8080800180808000);
    return _mm512_shuffle_epi8(lanes, _mm512_add_epi8(first, _mm512_set1_epi8((char)(2 * k))));
}

INLINE run load_iq3_xxs(const rl_block_iq3_xxs *x)
{
    run u;
    __m512i codes = load64(x->qs), words = lanes4(x->gas), signs = sign_bytes(words, 0);
    for (int k = 0; k < 4; k++)
        u.w[k] =
            with_signs(fetch4(rl_cpu_grid_iq3xxs, index_pairs(codes, k)), sign_mask(signs, k), 62);
    __m512i s = and_or(_mm512_srli_epi64(words, 27), _mm512_set1_epi64(30), _mm512_set1_epi64(1));
    u.s[0] = u.s[1] = four_times(s);
    u.m = fold(u.s[0], u.s[1], 62);
    u.d = half(x->d) * 0.25f;
    u.dmin = 0;
    return u;
}

INLINE run load_iq3_s(const rl_block_iq3_s *x)
{
    run u;
    __m512i codes = load64(x->qs), signs = lanes4(x->signs);
    __m512i high = lanes1(x->qh);
    high = _mm512_or_si512(high, _mm512_slli_epi64(high, 32));
    for (int k = 0; k < 4; k++) {
        __m512i by = _mm512_set1_epi64((long long)(8 - 2 * k) | (long long)(7 - 2 * k) << 32);
        __m512i index =
            and_or(_mm512_sllv_epi32(high, by), _mm512_set1_epi32(0x100), index_pairs(codes, k));
        u.w[k] = with_signs(fetch4(rl_cpu_grid_iq3s, index), sign_mask(signs, k), 15);
    }
    __m512i words = _mm512_set1_epi64((long long)((uint64_t)rl_load_u32(x->scales) << 1));
    words = _mm512_srlv_epi64(words, _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28));
    u.s[0] = u.s[1] = four_times(and_or(words, _mm512_set1_epi64(30), _mm512_set1_epi64(1)));
    u.m = fold(u.s[0], u.s[1], 15);
    u.d = half(x->d);
    u.dmin = 0;
    return u;
}

/* ---- loaders: K ------------------------------------------------------------------------------ */

/* 2-bit planes of 64 bytes: lane b of the result is group k of block b, two bits per byte. */
INLINE __m512i planes(__m512i qs, int k, __m512i by)
{
    __m512i at = _mm512_add_epi64(_mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4), _mm512_set1_epi64(k));
    return _mm512_srlv_epi64(_mm512_permutexvar_epi64(at, qs), by);
}

INLINE run load_q2_k(const rl_block_q2_k *x)
{
    run u;
    __m512i qs = load64(x->qs);
    const __m512i by = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    for (int k = 0; k < 4; k++)
        u.w[k] = _mm512_and_si512(planes(qs, k, by), _mm512_set1_epi8(3));
    /* byte 2b + h: scale in the low nibble, minimum in the high one */
    __m512i bytes = lanes2(x->scales);
    u.s[0] = _mm512_and_si512(four_times(bytes), _mm512_set1_epi16(15));
    u.s[1] = _mm512_and_si512(four_times(_mm512_srli_epi64(bytes, 8)), _mm512_set1_epi16(15));
    __m512i mins = _mm512_and_si512(_mm512_srli_epi64(bytes, 4), _mm512_set1_epi64(0x0f0f));
    u.m = _mm512_and_si512(_mm512_or_si512(mins, _mm512_slli_epi64(mins, 8)),
                           _mm512_set1_epi64(0x000f000f));
    u.d = half(x->d);
    u.dmin = half(x->dmin);
    return u;
}

/* Signed scales, byte 2b + h for half h of block b. */
INLINE void byte_scales(run *u, __m128i scales, int offset)
{
    __m512i lanes = _mm512_cvtepu16_epi64(scales);
    u->s[0] = _mm512_srai_epi16(four_times(_mm512_slli_epi64(lanes, 8)), 8);
    u->s[1] = _mm512_srai_epi16(four_times(lanes), 8);
    u->m = fold(u->s[0], u->s[1], offset);
}

INLINE run load_q3_k(const rl_block_q3_k *x)
{
    run u;
    __m512i qs = load64(x->qs);
    const __m512i by = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    const __m512i to_bit2 = _mm512_setr_epi64(-2, -1, 0, 1, 2, 3, 4, 5);
    for (int k = 0; k < 4; k++) {
        __m512i low = _mm512_and_si512(planes(qs, k, by), _mm512_set1_epi8(3));
        __m512i high = _mm512_set1_epi64((long long)rl_load_u64(x->hmask + 8 * k));
        u.w[k] = and_or(_mm512_rorv_epi64(high, to_bit2), _mm512_set1_epi8(4), low);
    }
    uint32_t a = rl_load_u32(x->scales), b = rl_load_u32(x->scales + 4);
    uint32_t c = rl_load_u32(x->scales + 8);
    const uint32_t low = 0x0f0f0f0f, two = 0x03030303;
    __m128i scales = _mm_setr_epi32(
        (int)((a & low) | (c & two) << 4), (int)((b & low) | (c >> 2 & two) << 4),
        (int)((a >> 4 & low) | (c >> 4 & two) << 4), (int)((b >> 4 & low) | (c >> 6 & two) << 4));
    byte_scales(&u, _mm_sub_epi8(scales, _mm_set1_epi8(32)), 4);
    u.d = half(x->d);
    u.dmin = 0;
    return u;
}

/* Eight 6-bit scales and minimums in 12 bytes, as two words of eight bytes. */
INLINE void six_bits(run *u, const uint8_t s[12])
{
    uint64_t a = rl_load_u32(s), b = rl_load_u32(s + 4), c = rl_load_u32(s + 8);
    const uint64_t low = 0x0f0f0f0f, six = 0x3f3f3f3f, two = 0x03030303;
    uint64_t scales = (a & six) | ((c & low) | (a >> 6 & two) << 4) << 32;
    uint64_t mins = (b & six) | ((c >> 4 & low) | (b >> 6 & two) << 4) << 32;
    u->s[0] = u->s[1] = four_times(lanes1_of(scales));
    u->m = four_times(lanes1_of(mins));
}

/* Nibbles of 128 bytes, 32 bytes for 64 weights: lane b of the result is group k of block b. */
INLINE __m512i nibbles(__m512i first, __m512i second, int k)
{
    __m512i at =
        _mm512_add_epi64(_mm512_setr_epi64(0, 0, 4, 4, 8, 8, 12, 12), _mm512_set1_epi64(k));
    __m512i bytes = _mm512_permutex2var_epi64(first, at, second);
    bytes = _mm512_srlv_epi64(bytes, _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4));
    return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}

INLINE run load_q4_k(const rl_block_q4_k *x)
{
    run u;
    __m512i first = load64(x->qs), second = load64(x->qs + 64);
    for (int k = 0; k < 4; k++)
        u.w[k] = nibbles(first, second, k);
    six_bits(&u, x->scales);
    u.d = half(x->d);
    u.dmin = half(x->dmin);
    return u;
}

INLINE run load_q5_k(const rl_block_q5_k *x)
{
    run u;
    __m512i first = load64(x->qs), second = load64(x->qs + 64);
    const __m512i to_bit4 = _mm512_setr_epi64(-4, -3, -2, -1, 0, 1, 2, 3);
    for (int k = 0; k < 4; k++) {
        __m512i high = _mm512_set1_epi64((long long)rl_load_u64(x->qh + 8 * k));
        u.w[k] = and_or(_mm512_rorv_epi64(high, to_bit4), _mm512_set1_epi8(16),
                        nibbles(first, second, k));
    }
    six_bits(&u, x->scales);
    u.d = half(x->d);
    u.dmin = half(x->dmin);
    return u;
}

INLINE run load_q6_k(const rl_block_q6_k *x)
{
    run u;
    __m512i first = load64(x->ql), second = load64(x->ql + 64), qh = load64(x->qh);
    const __m512i to_bit4 = _mm512_setr_epi64(-4, -2, 0, 2, -4, -2, 0, 2);
    for (int k = 0; k < 4; k++) {
        __m512i at =
            _mm512_add_epi64(_mm512_setr_epi64(0, 4, 0, 4, 8, 12, 8, 12), _mm512_set1_epi64(k));
        __m512i low = _mm512_permutex2var_epi64(first, at, second);
        low = _mm512_srlv_epi64(low, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
        __m512i up =
            _mm512_add_epi64(_mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4), _mm512_set1_epi64(k));
        __m512i high = _mm512_rorv_epi64(_mm512_permutexvar_epi64(up, qh), to_bit4);
        u.w[k] = and_or(high, _mm512_set1_epi8(0x30), _mm512_and_si512(low, _mm512_set1_epi8(15)));
    }
    byte_scales(&u, _mm_loadu_si128((const void *)x->scales), 32);
    u.d = half(x->d);
    u.dmin = 0;
    return u;
}

/* ---- RUN8: one token, unpacking, tiles ------------------------------------------------------- */

INLINE void store_run(rl_wgt_run8 *o, const run *u)
{
    for (int k = 0; k < 4; k++)
        _mm512_store_si512(o->w + 64 * k, u->w[k]);
    _mm512_store_si512(o->s[0], u->s[0]);
    _mm512_store_si512(o->s[1], u->s[1]);
    _mm512_store_si512(o->m, u->m);
    o->d = u->d;
    o->dmin = u->dmin;
}

#define RUN8_KERNELS(lower, has_min)                                                               \
    static void unpack_##lower(const uint8_t *row, uint32_t cols, void *out)                       \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)row;                                             \
        rl_wgt_run8 *o = out;                                                                      \
        for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, o++) {                                   \
            run u = load_##lower(x);                                                               \
            store_run(o, &u);                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void matvec_##lower(const uint8_t *row, size_t row_bytes, uint32_t n_rows,              \
                               uint32_t cols, const void *act, float *y)                           \
    {                                                                                              \
        for (uint32_t r = 0; r < n_rows; r++, row += row_bytes) {                                  \
            const rl_block_##lower *x = (const void *)row;                                         \
            const rl_act_run8 *a = act;                                                            \
            __m512 acc = _mm512_setzero_ps();                                                      \
            for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, a++) {                               \
                run u = load_##lower(x);                                                           \
                acc = add_run(acc, &u, a, has_min);                                                \
            }                                                                                      \
            y[r] = _mm512_reduce_add_ps(acc);                                                      \
        }                                                                                          \
    }

RUN8_KERNELS(iq1_s, false)
RUN8_KERNELS(iq1_m, false)
RUN8_KERNELS(iq2_xxs, false)
RUN8_KERNELS(iq2_xs, false)
RUN8_KERNELS(iq2_s, false)
RUN8_KERNELS(iq3_xxs, false)
RUN8_KERNELS(iq3_s, false)
RUN8_KERNELS(q2_k, true)
RUN8_KERNELS(q3_k, false)
RUN8_KERNELS(q4_k, true)
RUN8_KERNELS(q5_k, true)
RUN8_KERNELS(q6_k, false)

/* n tokens (a constant where this is expanded) of one unpacked row. */
INLINE void run8_row(const rl_wgt_run8 *w, uint32_t n_runs, const rl_cpu_tile *tile, uint32_t first,
                     uint32_t n, uint32_t r, bool has_min)
{
    __m512 acc[8];
    for (uint32_t t = 0; t < n; t++)
        acc[t] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n_runs; i++, w++) {
        run u = { .d = w->d, .dmin = w->dmin };
        for (int k = 0; k < 4; k++)
            u.w[k] = _mm512_load_si512(w->w + 64 * k);
        u.s[0] = _mm512_load_si512(w->s[0]);
        u.s[1] = _mm512_load_si512(w->s[1]);
        u.m = _mm512_load_si512(w->m);
        for (uint32_t t = 0; t < n; t++)
            acc[t] = add_run(acc[t], &u, (const rl_act_run8 *)tile->act[first + t] + i, has_min);
    }
    for (uint32_t t = 0; t < n; t++)
        tile->y[first + t][r] = _mm512_reduce_add_ps(acc[t]);
}

INLINE void run8_tile(const rl_cpu_tile *tile, bool has_min)
{
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const rl_wgt_run8 *w = (const void *)((const uint8_t *)tile->rows + r * tile->row_bytes);
        uint32_t t = 0;
        for (; t + 8 <= tile->n_tokens; t += 8)
            run8_row(w, tile->n_runs, tile, t, 8, r, has_min);
        for (; t + 4 <= tile->n_tokens; t += 4)
            run8_row(w, tile->n_runs, tile, t, 4, r, has_min);
        for (; t + 2 <= tile->n_tokens; t += 2)
            run8_row(w, tile->n_runs, tile, t, 2, r, has_min);
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
