/* cpu_avx512_run8.h - AVX-512 kernels for the types of 256 weights (RUN8 order, cpu_matrix.h).
 * A part of cpu_avx512_body.h.
 *
 * One 64-byte vector is one k of the order: lane pair b belongs to block b. A load_NAME() brings one
 * block of the file into this form in registers; matvec and unpack are the same loader with
 * different ends, so that they cannot disagree. */

typedef struct run {
    __m512i w[4], s[2], m;
    /* where both halves of a block share a scale: it in 32-bit lanes, and m before scaling */
    __m512i scale, unscaled;
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

/* The low, or high, 32 bits of every 64-bit lane, twice. */
INLINE __m512i low_twice(__m512i x)
{
    return _mm512_shuffle_epi32(x, _MM_PERM_CCAA);
}

INLINE __m512i high_twice(__m512i x)
{
    return _mm512_shuffle_epi32(x, _MM_PERM_DDBB);
}

/* Odd scales 2 c + 1 from 32-bit lanes that hold 2 c under `mask`. */
INLINE __m512i odd_scales(__m512i x, int mask)
{
    return and_or(x, _mm512_set1_epi32(mask), _mm512_set1_epi32(1));
}

/* One scale per block: in 32-bit lanes as it is, in 16-bit lanes four times. */
INLINE void one_scale(run *u, __m512i scale)
{
    u->scale = scale;
    u->s[0] = u->s[1] = _mm512_or_si512(scale, _mm512_slli_epi32(scale, 16));
}

/* Byte k of every 64-bit lane, alone. */
INLINE __m512i byte_of(__m512i x, int k)
{
    const __m512i at = _mm512_broadcast_i32x4(
        _mm_set_epi64x((long long)0x8080808080808008, (long long)0x8080808080808000));
    return _mm512_shuffle_epi8(x, _mm512_add_epi8(at, _mm512_set1_epi64(k)));
}

/* Scales of both halves where m wants them: groups 0 and 1, groups 2 and 3 of every block. */
INLINE __m512i by_halves(__m512i s0, __m512i s1)
{
    return _mm512_mask_blend_epi16(0xcccccccc, s0, s1);
}

/* m of the fold types: -offset times the scales. */
INLINE __m512i fold(__m512i s0, __m512i s1, int offset)
{
    return _mm512_mullo_epi16(by_halves(s0, s1), _mm512_set1_epi16((short)-offset));
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

/* The sign mask of group k of all blocks; `bytes` holds the four sign bytes of a block per 64-bit
 * lane. */
INLINE __mmask64 sign_mask(__m512i bytes, int k)
{
#if RL_AVX512_VNNI
    const __m512i first = _mm512_set1_epi64(0x0706050403020100);
    return _mm512_bitshuffle_epi64_mask(bytes,
                                        _mm512_add_epi8(first, _mm512_set1_epi8((char)(8 * k))));
#else
    const __m512i first = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808080808080808, 0));
    __m512i spread = _mm512_shuffle_epi8(bytes, _mm512_add_epi8(first, _mm512_set1_epi8((char)k)));
    return _mm512_test_epi8_mask(spread, _mm512_set1_epi64((long long)0x8040201008040201));
#endif
}

#if !RL_AVX512_VNNI
/* Seven sign bits in each byte; the eighth makes the number of minus signs even. */
INLINE __m512i with_parity(__m512i seven)
{
    const __m512i parity = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    __m512i y = _mm512_xor_si512(seven, _mm512_srli_epi64(seven, 4));
    y = _mm512_and_si512(y, _mm512_set1_epi8(0x0f));
    return _mm512_or_si512(seven, _mm512_shuffle_epi8(parity, y));
}
#endif

/* Four 7-bit sign indices at bits `at` + 7 k of every lane, prepared for sign_mask7(): with VNNI byte
 * k holds seven signs and byte 4 + k their parity, otherwise byte k holds all eight. */
INLINE __m512i signs7(__m512i lanes, int at)
{
#if RL_AVX512_VNNI
    const __m512i windows =
        _mm512_add_epi8(_mm512_set1_epi64(0x150e0700150e0700), _mm512_set1_epi8((char)at));
    __m512i f = _mm512_multishift_epi64_epi8(windows, lanes);
    return _mm512_mask_popcnt_epi8(f, 0xf0f0f0f0f0f0f0f0,
                                   _mm512_and_si512(f, _mm512_set1_epi8(0x7f)));
#else
    __m512i x = _mm512_srli_epi64(lanes, (unsigned)at);
    __m512i f = _mm512_and_si512(x, _mm512_set1_epi64(0x7f));
    f = and_or(_mm512_slli_epi64(x, 1), _mm512_set1_epi64(0x7f00), f);
    f = and_or(_mm512_slli_epi64(x, 2), _mm512_set1_epi64(0x7f0000), f);
    return with_parity(and_or(_mm512_slli_epi64(x, 3), _mm512_set1_epi64(0x7f000000), f));
#endif
}

INLINE __mmask64 sign_mask7(__m512i signs, int k)
{
#if RL_AVX512_VNNI
    const __m512i first = _mm512_set1_epi64(0x2006050403020100);
    return _mm512_bitshuffle_epi64_mask(signs,
                                        _mm512_add_epi8(first, _mm512_set1_epi8((char)(8 * k))));
#else
    return sign_mask(signs, k);
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

/* The float part: acc plus the integer sums of one run. The order is the contract of this table; the
 * integers before it are exact, so there the kernels may take any way. */
INLINE __m512 add_sums(__m512 acc, __m512i sum, __m512i shift, __m512 d, __m512 dmin,
                       const rl_act_run8 *a, bool has_min)
{
    __m512 scale = _mm512_loadu_ps(a->d);
    acc = _mm512_fmadd_ps(d, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), acc);
    if (has_min) acc = _mm512_fnmadd_ps(dmin, _mm512_mul_ps(_mm512_cvtepi32_ps(shift), scale), acc);
    return acc;
}

/* acc plus one run of one token, from the fields that are stored, too. `same` says that both halves
 * of a block have the same scale. */
INLINE __m512 add_run(__m512 acc, const run *u, __m512 d, __m512 dmin, const rl_act_run8 *a,
                      bool has_min, bool same)
{
    __m512i sum = _mm512_setzero_si512(), shift = sum;
#if RL_AVX512_VNNI
    if (same) {
        for (int k = 0; k < 4; k++)
            sum = _mm512_dpbusd_epi32(sum, u->w[k], load64(a->q + 64 * k));
        sum = _mm512_mullo_epi32(sum, _mm512_srli_epi32(u->s[0], 16));
    } else
#endif
        for (int k = 0; k < 4; k++) {
            __m512i pairs = _mm512_maddubs_epi16(u->w[k], load64(a->q + 64 * k));
            sum = add_products16(sum, pairs, u->s[same ? 0 : k / 2]);
        }
    if (has_min)
        shift = add_products16(shift, u->m, load64(a->sums));
    else
        sum = add_products16(sum, u->m, load64(a->sums));
    return add_sums(acc, sum, shift, d, dmin, a, has_min);
}

/* The same for a run that was just loaded. */
INLINE __m512 add_loaded(__m512 acc, const run *u, __m512 d, __m512 dmin, const rl_act_run8 *a,
                         bool has_min, bool same)
{
#if RL_AVX512_VNNI
    if (same) {
        __m512i sum = _mm512_setzero_si512(), shift = sum;
        for (int k = 0; k < 4; k++)
            sum = _mm512_dpbusd_epi32(sum, u->w[k], load64(a->q + 64 * k));
        if (has_min)
            shift = _mm512_dpwssd_epi32(shift, u->m, load64(a->sums));
        else
            sum = _mm512_dpwssd_epi32(sum, u->unscaled, load64(a->sums));
        sum = _mm512_mullo_epi32(sum, u->scale);
        return add_sums(acc, sum, shift, d, dmin, a, has_min);
    }
#endif
    return add_run(acc, u, d, dmin, a, has_min, same);
}

/* ---- loaders: 1 bit -------------------------------------------------------------------------- */

/* Indices of group k: byte k, and three bits above it from bit 32 + `at` of the lanes. */
INLINE __m512i index_1bit(__m512i lanes, int k, int at)
{
#if RL_AVX512_VNNI
    __m512i windows = _mm512_set1_epi64((32 + at) << 8 | 8 * k);
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(windows, lanes), _mm512_set1_epi64(0x7ff));
#else
    return and_or(_mm512_srli_epi64(lanes, 24 + (unsigned)at), _mm512_set1_epi64(0x700),
                  byte_of(lanes, k));
#endif
}

/* m of the 1-bit types: -9 times the scales of groups whose shift is -1/8, -7 times the others. */
INLINE __m512i shift_and_fold(__mmask32 negative)
{
    return _mm512_mask_blend_epi16(negative, _mm512_set1_epi16(-7), _mm512_set1_epi16(-9));
}

INLINE run load_iq1_s(const rl_block_iq1_s *x)
{
    run u;
    __m512i high = lanes2(x->qh);
    __m512i lanes = _mm512_or_si512(lanes4(x->qs), _mm512_slli_epi64(high, 32));
    for (int k = 0; k < 4; k++)
        u.w[k] = fetch8(rl_cpu_grid_iq1s, index_1bit(lanes, k, 3 * k));
    one_scale(&u, odd_scales(low_twice(_mm512_srli_epi64(high, 11)), 14));
    __mmask8 negative = _mm512_test_epi64_mask(high, _mm512_set1_epi64(0x8000));
    u.unscaled = _mm512_mask_blend_epi64(negative, _mm512_set1_epi16(-7), _mm512_set1_epi16(-9));
    u.m = _mm512_mullo_epi16(u.s[0], u.unscaled);
    return u;
}

INLINE run load_iq1_m(const rl_block_iq1_m *x)
{
    run u;
    __m512i lanes = _mm512_or_si512(lanes4(x->qs), _mm512_slli_epi64(lanes2(x->qh), 32));
    for (int k = 0; k < 4; k++)
        u.w[k] = fetch8(rl_cpu_grid_iq1s, index_1bit(lanes, k, 4 * k));
    /* 3-bit code p = 2b + h at bit 16 (b / 2) + 3 (2 (b % 2) + h) of the scale words */
    __m512i words = _mm512_set1_epi64((long long)rl_load_u64(x->scales));
    const __m512i bit = _mm512_setr_epi64(-1, 5, 15, 21, 31, 37, 47, 53); /* h = 0, less 1 */
    for (int h = 0; h < 2; h++) {
#if RL_AVX512_VNNI
        const __m512i at = _mm512_add_epi64(bit, _mm512_set1_epi64(3 * h));
        __m512i windows =
            _mm512_shuffle_epi8(at, _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808080808080808, 0)));
        __m512i s = _mm512_multishift_epi64_epi8(windows, words);
        u.s[h] = and_or(s, _mm512_set1_epi16(14), _mm512_set1_epi16(1));
#else
        __m512i s = _mm512_rorv_epi64(words, _mm512_add_epi64(bit, _mm512_set1_epi64(3 * h)));
        u.s[h] = four_times(and_or(s, _mm512_set1_epi64(14), _mm512_set1_epi64(1)));
#endif
    }
    /* the fourth bit of every nibble, in the order of the groups */
    const uint64_t fourth = 0x8888888888888888;
    uint64_t negative =
        _pext_u64(rl_load_u64(x->qh), fourth) | _pext_u64(rl_load_u64(x->qh + 8), fourth) << 16;
    u.m = _mm512_mullo_epi16(by_halves(u.s[0], u.s[1]), shift_and_fold((__mmask32)negative));
    return u;
}

/* ---- loaders: 2 and 3 bits ------------------------------------------------------------------- */

INLINE run load_iq2_xxs(const rl_block_iq2_xxs *x)
{
    run u;
    __m512i groups = load64(x->groups), signs = signs7(groups, 32);
    for (int k = 0; k < 4; k++)
        u.w[k] =
            with_signs(fetch8(rl_cpu_grid_iq2xxs, byte_of(groups, k)), sign_mask7(signs, k), 43);
    one_scale(&u, odd_scales(_mm512_srli_epi32(high_twice(groups), 27), 30));
    u.unscaled = _mm512_set1_epi16(-43);
    u.m = fold(u.s[0], u.s[1], 43);
    return u;
}

/* Scales 2 c + 1 from one byte per block: low nibble first half, high nibble second half. */
INLINE void nibble_scales(run *u, const uint8_t scales[8])
{
    const __m512i at = _mm512_set_epi64(
        (long long)0x8007800780078007, (long long)0x8006800680068006, (long long)0x8005800580058005,
        (long long)0x8004800480048004, (long long)0x8003800380038003, (long long)0x8002800280028002,
        (long long)0x8001800180018001, (long long)0x8000800080008000);
    const __m512i mask = _mm512_set1_epi16(30), one = _mm512_set1_epi16(1);
    __m512i bytes = _mm512_shuffle_epi8(_mm512_set1_epi64((long long)rl_load_u64(scales)), at);
    u->s[0] = and_or(_mm512_slli_epi16(bytes, 1), mask, one);
    u->s[1] = and_or(_mm512_srli_epi16(bytes, 3), mask, one);
    u->m = fold(u->s[0], u->s[1], 43);
}

INLINE run load_iq2_xs(const rl_block_iq2_xs *x)
{
    run u;
    __m512i codes = load64(x->qs), seven = _mm512_srli_epi16(codes, 9);
    __m512i indices = _mm512_and_si512(codes, _mm512_set1_epi16(511));
    const __m512i word = _mm512_broadcast_i32x4(
        _mm_set_epi64x((long long)0x8080808080800908, (long long)0x8080808080800100));
#if RL_AVX512_VNNI
    /* the low byte of every word becomes the parity of the seven signs above it */
    __m512i signs = _mm512_mask_popcnt_epi8(codes, 0x5555555555555555, seven);
    const __m512i first = _mm512_set1_epi64(0x000f0e0d0c0b0a09);
#else
    __m512i signs = with_parity(seven);
#endif
    for (int k = 0; k < 4; k++) {
        __m512i index = _mm512_shuffle_epi8(
            indices, _mm512_add_epi8(word, _mm512_set1_epi16((short)(2 * k * 0x101))));
#if RL_AVX512_VNNI
        __mmask64 negative = _mm512_bitshuffle_epi64_mask(
            signs, _mm512_add_epi8(first, _mm512_set1_epi8((char)(16 * k))));
#else
        __mmask64 negative = sign_mask(signs, 2 * k);
#endif
        u.w[k] = with_signs(fetch8(rl_cpu_grid_iq2xs, index), negative, 43);
    }
    nibble_scales(&u, x->scales);
    return u;
}

INLINE run load_iq2_s(const rl_block_iq2_s *x)
{
    run u;
    __m512i lanes = _mm512_or_si512(lanes4(x->qs), _mm512_slli_epi64(lanes1(x->qh), 32));
    __m512i signs = lanes4(x->signs);
    for (int k = 0; k < 4; k++) {
#if RL_AVX512_VNNI
        __m512i windows = _mm512_set1_epi64((32 + 2 * k) << 8 | 8 * k);
        __m512i index = _mm512_and_si512(_mm512_multishift_epi64_epi8(windows, lanes),
                                         _mm512_set1_epi64(0x3ff));
#else
        __m512i index = and_or(_mm512_srli_epi64(lanes, 24 + 2 * (unsigned)k),
                               _mm512_set1_epi64(0x300), byte_of(lanes, k));
#endif
        u.w[k] = with_signs(fetch8(rl_cpu_grid_iq2s, index), sign_mask(signs, k), 43);
    }
    nibble_scales(&u, x->scales);
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
    __m512i codes = load64(x->qs), words = lanes4(x->gas), signs = signs7(words, 0);
    for (int k = 0; k < 4; k++)
        u.w[k] =
            with_signs(fetch4(rl_cpu_grid_iq3xxs, index_pairs(codes, k)), sign_mask7(signs, k), 62);
    one_scale(&u, odd_scales(_mm512_srli_epi32(low_twice(words), 27), 30));
    u.unscaled = _mm512_set1_epi16(-62);
    u.m = fold(u.s[0], u.s[1], 62);
    return u;
}

INLINE run load_iq3_s(const rl_block_iq3_s *x)
{
    run u;
    __m512i codes = load64(x->qs), signs = lanes4(x->signs);
    __m512i high = low_twice(lanes1(x->qh));
    for (int k = 0; k < 4; k++) {
        __m512i by = _mm512_set1_epi64((long long)(8 - 2 * k) | (long long)(7 - 2 * k) << 32);
        __m512i index =
            and_or(_mm512_sllv_epi32(high, by), _mm512_set1_epi32(0x100), index_pairs(codes, k));
        u.w[k] = with_signs(fetch4(rl_cpu_grid_iq3s, index), sign_mask(signs, k), 15);
    }
    /* nibble b of the word, doubled */
    __m512i words = _mm512_set1_epi32((int)rl_load_u32(x->scales));
    const __m512i by =
        _mm512_setr_epi32(-1, -1, 3, 3, 7, 7, 11, 11, 15, 15, 19, 19, 23, 23, 27, 27);
    one_scale(&u, odd_scales(_mm512_rorv_epi32(words, by), 30));
    u.unscaled = _mm512_set1_epi16(-15);
    u.m = fold(u.s[0], u.s[1], 15);
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
    const __m512i twice = _mm512_broadcast_i32x4(
        _mm_set_epi64x((long long)0x8009800980088008, (long long)0x8001800180008000));
    __m512i mins = _mm512_and_si512(_mm512_srli_epi64(bytes, 4), _mm512_set1_epi64(0x0f0f));
    u.m = _mm512_shuffle_epi8(mins, twice);
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
    return u;
}

/* Eight 6-bit scales and minimums in 12 bytes, as two words of eight bytes. */
INLINE void six_bits(run *u, const uint8_t s[12])
{
    uint64_t a = rl_load_u32(s), b = rl_load_u32(s + 4), c = rl_load_u32(s + 8);
    const uint64_t low = 0x0f0f0f0f, six = 0x3f3f3f3f, two = 0x03030303;
    uint64_t scales = (a & six) | ((c & low) | (a >> 6 & two) << 4) << 32;
    uint64_t mins = (b & six) | ((c >> 4 & low) | (b >> 6 & two) << 4) << 32;
    one_scale(u, low_twice(lanes1_of(scales)));
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
    return u;
}

/* ---- one token, unpacking, tiles ------------------------------------------------------------- */

INLINE void store_run(rl_wgt_run8 *o, const run *u)
{
    for (int k = 0; k < 4; k++)
        _mm512_store_si512(o->w + 64 * k, u->w[k]);
    _mm512_store_si512(o->s[0], u->s[0]);
    _mm512_store_si512(o->s[1], u->s[1]);
    _mm512_store_si512(o->m, u->m);
}

/* The scales of a block as floats, divided by 2^down, by way of memory: loads can spread them over all
 * lanes, a register would cost two shuffles. The processor converts, because scales of weights as
 * small as they are in practice (Q6_K) are subnormal in f16, where arithmetic on their bits is slow. */
typedef struct scales {
    float f[4];
} scales;

INLINE scales scales_of(uint32_t halves, uint32_t down)
{
    scales u;
    __m128 x = _mm_cvtph_ps(_mm_cvtsi32_si128((int)halves));
    if (down) x = _mm_mul_ps(x, _mm_set1_ps(rl_f32_from_bits((127 - down) << 23)));
    __asm__("vmovups %1, %0" : "=m"(u) : "v"(x));
    return u;
}

/* Where d and dmin lie: d first, or behind two other bytes at the end of the block. */
#define D_FIRST(x) rl_load_u32((x)->d), 0
#define D_LAST(x)  rl_load_u32((x)->d - 2), 1
/* IQ1_M's d is spread over the top nibbles of its four scale words. */
#define D_SPREAD(x) (uint32_t) _pext_u64(rl_load_u64((x)->scales), 0xf000f000f000f000), 0

/* d is divided by 2^down; with minimums dmin follows d. */
#define RUN8_KERNELS(lower, where, down, has_min, same)                                            \
    INLINE void scales_##lower(const rl_block_##lower *x, scales *u, const float **d)              \
    {                                                                                              \
        const struct {                                                                             \
            uint32_t halves, at;                                                                   \
        } w = { where(x) };                                                                        \
        *u = scales_of(w.halves, down);                                                            \
        *d = u->f + w.at;                                                                          \
    }                                                                                              \
    static void unpack_##lower(const uint8_t *row, uint32_t cols, void *out)                       \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)row;                                             \
        rl_wgt_run8 *o = out;                                                                      \
        for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, o++) {                                   \
            rl_cpu_prefetch(x, sizeof *x);                                                         \
            scales f;                                                                              \
            const float *d;                                                                        \
            scales_##lower(x, &f, &d);                                                             \
            run u = load_##lower(x);                                                               \
            store_run(o, &u);                                                                      \
            o->d = d[0];                                                                           \
            o->dmin = has_min ? d[1] : 0;                                                          \
        }                                                                                          \
    }                                                                                              \
    INLINE __m512 row_##lower(const uint8_t *row, uint32_t n_runs, const rl_act_run8 *a)           \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)row;                                             \
        __m512 acc = _mm512_setzero_ps();                                                          \
        for (; n_runs; n_runs--, x++, a++) {                                                       \
            rl_cpu_prefetch(x, sizeof *x);                                                         \
            scales f;                                                                              \
            const float *d;                                                                        \
            scales_##lower(x, &f, &d);                                                             \
            run u = load_##lower(x);                                                               \
            acc = add_loaded(acc, &u, _mm512_set1_ps(d[0]), _mm512_set1_ps(d[has_min]), a,         \
                             has_min, same);                                                       \
        }                                                                                          \
        return acc;                                                                                \
    }                                                                                              \
    static void matvec_##lower(const uint8_t *row, size_t row_bytes, uint32_t n_rows,              \
                               uint32_t cols, const void *act, float *y)                           \
    {                                                                                              \
        __m512 acc[8];                                                                             \
        for (uint32_t r = 0; r < n_rows; r++, row += row_bytes) {                                  \
            acc[r % 8] = row_##lower(row, cols / RL_CPU_RUN, act);                                 \
            if (r % 8 == 7) _mm256_storeu_ps(y + r - 7, reduce8(acc));                             \
        }                                                                                          \
        for (uint32_t r = n_rows & ~7u; r < n_rows; r++)                                           \
            y[r] = reduce(acc[r % 8]);                                                             \
    }

RUN8_KERNELS(iq1_s, D_FIRST, 3, false, true)
RUN8_KERNELS(iq1_m, D_SPREAD, 3, false, false)
RUN8_KERNELS(iq2_xxs, D_FIRST, 3, false, true)
RUN8_KERNELS(iq2_xs, D_FIRST, 3, false, false)
RUN8_KERNELS(iq2_s, D_FIRST, 3, false, false)
RUN8_KERNELS(iq3_xxs, D_FIRST, 2, false, true)
RUN8_KERNELS(iq3_s, D_FIRST, 0, false, true)
RUN8_KERNELS(q2_k, D_FIRST, 0, true, false)
RUN8_KERNELS(q3_k, D_LAST, 0, false, false)
RUN8_KERNELS(q4_k, D_FIRST, 0, true, true)
RUN8_KERNELS(q5_k, D_FIRST, 0, true, true)
RUN8_KERNELS(q6_k, D_LAST, 0, false, false)

/* n tokens (a constant where this is expanded) of one unpacked row. */
INLINE void run8_row(const rl_wgt_run8 *w, uint32_t n_runs, const rl_cpu_tile *tile, uint32_t first,
                     uint32_t n, uint32_t r, bool has_min, bool same)
{
    __m512 acc[8];
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[t] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n_runs; i++, w++) {
        run u;
        for (int k = 0; k < 4; k++)
            u.w[k] = _mm512_load_si512(w->w + 64 * k);
        u.s[0] = _mm512_load_si512(w->s[0]);
        u.s[1] = _mm512_load_si512(w->s[1]);
        u.m = _mm512_load_si512(w->m);
        __m512 d = _mm512_set1_ps(w->d), dmin = _mm512_set1_ps(w->dmin);
        V_UNROLL
        for (uint32_t t = 0; t < n; t++)
            acc[t] = add_run(acc[t], &u, d, dmin, (const rl_act_run8 *)tile->act[first + t] + i,
                             has_min, same);
    }
    float sum[8];
    if (n == 8) _mm256_storeu_ps(sum, reduce8(acc));
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        tile->y[first + t][r] = n == 8 ? sum[t] : reduce(acc[t]);
}

#define RUN8_TILE(name, has_min, same)                                                             \
    static void tile_##name(const rl_cpu_tile *tile)                                               \
    {                                                                                              \
        for (uint32_t r = 0; r < tile->n_rows; r++) {                                              \
            const rl_wgt_run8 *w =                                                                 \
                (const void *)((const uint8_t *)tile->rows + r * tile->row_bytes);                 \
            uint32_t n = tile->n_runs, t = 0;                                                      \
            for (; t + 8 <= tile->n_tokens; t += 8)                                                \
                run8_row(w, n, tile, t, 8, r, has_min, same);                                      \
            for (; t + 4 <= tile->n_tokens; t += 4)                                                \
                run8_row(w, n, tile, t, 4, r, has_min, same);                                      \
            for (; t + 2 <= tile->n_tokens; t += 2)                                                \
                run8_row(w, n, tile, t, 2, r, has_min, same);                                      \
            for (; t < tile->n_tokens; t++)                                                        \
                run8_row(w, n, tile, t, 1, r, has_min, same);                                      \
        }                                                                                          \
    }

RUN8_TILE(fold, false, false)
RUN8_TILE(fold1, false, true)
RUN8_TILE(min, true, false)
RUN8_TILE(min1, true, true)
