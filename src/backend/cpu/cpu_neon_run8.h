/* cpu_neon_run8.h - NEON kernels for the types of 256 weights (RUN8 order, cpu_matrix.h). A part of
 * cpu_neon_body.h.
 *
 * A run is worked on in four quarters: quarter Q holds blocks 2Q and 2Q + 1, one 64-bit lane each, in
 * four vectors k. load_NAME(block, Q) brings one quarter into registers; matvec and unpack are the
 * same loader with different ends, so that they cannot disagree.
 *
 * Integer sums are completed per block before they become floats, so that all NEON tables, also the
 * matrix multiplications of i8mm, do the same float operations in the same order. */

typedef struct quarter {
    uint8x16_t w[4];
    int16x8_t s[2], m;
} quarter;

/* ---- small pieces ---------------------------------------------------------------------------- */

INLINE uint64x2_t lanes(uint64_t first, uint64_t second)
{
    return vcombine_u64(vcreate_u64(first), vcreate_u64(second));
}

INLINE uint8x16_t bytes_of(uint64x2_t x)
{
    return vreinterpretq_u8_u64(x);
}

INLINE uint8x16_t shift_right(uint64x2_t x, int first, int second)
{
    return bytes_of(vshlq_u64(x, vcombine_s64(vcreate_s64((uint64_t)(int64_t)-first),
                                              vcreate_s64((uint64_t)(int64_t)-second))));
}

/* One number per block, four times. */
INLINE int16x8_t four_times(int first, int second)
{
    return vcombine_s16(vdup_n_s16((int16_t)first), vdup_n_s16((int16_t)second));
}

/* One number per half of each block, twice: groups 0, 1 and groups 2, 3. */
INLINE int16x8_t by_halves(int16x8_t s0, int16x8_t s1)
{
    return vreinterpretq_s16_s32(vtrn1q_s32(vreinterpretq_s32_s16(s0), vreinterpretq_s32_s16(s1)));
}

/* m of the fold types: -offset times the scales. */
INLINE int16x8_t fold(int16x8_t s0, int16x8_t s1, int offset)
{
    return vmulq_n_s16(by_halves(s0, s1), (int16_t)-offset);
}

/* Table bytes t = offset + magnitude; where the sign byte k of a lane has a bit, offset - magnitude. */
INLINE uint8x16_t with_signs(uint8x16_t t, uint8x16_t sign_bytes, int k, int offset)
{
    const uint8x16_t bits = bytes_of(vdupq_n_u64(0x8040201008040201));
    uint8x16_t at = vcombine_u8(vdup_n_u8((uint8_t)k), vdup_n_u8((uint8_t)(8 + k)));
    uint8x16_t negative = vtstq_u8(vqtbl1q_u8(sign_bytes, at), bits);
    return vbslq_u8(negative, vsubq_u8(vdupq_n_u8((uint8_t)(2 * offset)), t), t);
}

/* Seven sign bits in each byte; the eighth makes the number of minus signs even. */
INLINE uint8x16_t with_parity(uint8x16_t seven)
{
    return vorrq_u8(seven, vshlq_n_u8(vcntq_u8(seven), 7));
}

/* Four 7-bit sign indices at the bottom of every lane, to four sign bytes. */
INLINE uint8x16_t sign_bytes(uint64x2_t x)
{
    uint64x2_t f = vandq_u64(x, vdupq_n_u64(0x7f));
    f = vorrq_u64(f, vandq_u64(vshlq_n_u64(x, 1), vdupq_n_u64(0x7f00)));
    f = vorrq_u64(f, vandq_u64(vshlq_n_u64(x, 2), vdupq_n_u64(0x7f0000)));
    f = vorrq_u64(f, vandq_u64(vshlq_n_u64(x, 3), vdupq_n_u64(0x7f000000)));
    return with_parity(bytes_of(f));
}

INLINE uint8x16_t entries8(const uint64_t *table, size_t first, size_t second)
{
    return bytes_of(vcombine_u64(vld1_u64(table + first), vld1_u64(table + second)));
}

INLINE uint64_t entries4(const uint32_t *table, size_t first, size_t second)
{
    return table[first] | (uint64_t)table[second] << 32;
}

/* ---- loaders: 1 bit -------------------------------------------------------------------------- */

/* m of the 1-bit types: -9 times the scales where the lane of `high` has the bit of its lane of
 * `bits` (the group's shift is -1/8), otherwise -7 times. */
INLINE int16x8_t shift_and_fold(int16x8_t s0, int16x8_t s1, uint32_t high0, uint32_t high1,
                                uint64_t bits)
{
    uint16x8_t high = vcombine_u16(vdup_n_u16((uint16_t)high0), vdup_n_u16((uint16_t)high1));
    uint16x8_t negative = vtstq_u16(high, vreinterpretq_u16_u64(vdupq_n_u64(bits)));
    int16x8_t by = vbslq_s16(negative, vdupq_n_s16(-9), vdupq_n_s16(-7));
    return vmulq_s16(by_halves(s0, s1), by);
}

INLINE quarter load_iq1_s(const rl_block_iq1_s *x, int Q)
{
    quarter u;
    const uint8_t *low = x->qs + 8 * Q;
    uint32_t h0 = rl_load_u16(x->qh[2 * Q]), h1 = rl_load_u16(x->qh[2 * Q + 1]);
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = entries8(rl_cpu_grid_iq1s, low[k] | (h0 << 8 >> (3 * k) & 0x700),
                          low[4 + k] | (h1 << 8 >> (3 * k) & 0x700));
    u.s[0] = u.s[1] = four_times((h0 >> 11 & 14) | 1, (h1 >> 11 & 14) | 1);
    u.m = shift_and_fold(u.s[0], u.s[1], h0, h1, 0x8000800080008000);
    return u;
}

INLINE float d_iq1_s(const rl_block_iq1_s *x)
{
    return half(x->d) * 0.125f;
}

INLINE quarter load_iq1_m(const rl_block_iq1_m *x, int Q)
{
    quarter u;
    const uint8_t *low = x->qs + 8 * Q;
    uint32_t h0 = rl_load_u16(x->qh + 4 * Q), h1 = rl_load_u16(x->qh + 4 * Q + 2);
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = entries8(rl_cpu_grid_iq1s, low[k] | (h0 << 8 >> (4 * k) & 0x700),
                          low[4 + k] | (h1 << 8 >> (4 * k) & 0x700));
    uint32_t word = (uint32_t)rl_load_u16(x->scales[Q]) << 1; /* four 3-bit codes, now at bit 1 */
    u.s[0] = four_times((word & 14) | 1, (word >> 6 & 14) | 1);
    u.s[1] = four_times((word >> 3 & 14) | 1, (word >> 9 & 14) | 1);
    u.m = shift_and_fold(u.s[0], u.s[1], h0, h1, 0x8000080000800008);
    return u;
}

INLINE float d_iq1_m(const rl_block_iq1_m *x)
{
    uint64_t words = rl_load_u64(x->scales);
    return rl_f32_from_f16((uint16_t)((words >> 12 & 0xf) | (words >> 24 & 0xf0) |
                                      (words >> 36 & 0xf00) | (words >> 48 & 0xf000))) *
           0.125f;
}

/* ---- loaders: 2 and 3 bits ------------------------------------------------------------------- */

INLINE quarter load_iq2_xxs(const rl_block_iq2_xxs *x, int Q)
{
    quarter u;
    const uint8_t *p = x->groups + 16 * Q;
    uint32_t w0 = rl_load_u32(p + 4), w1 = rl_load_u32(p + 12);
    uint8x16_t signs = sign_bytes(lanes(w0, w1));
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = with_signs(entries8(rl_cpu_grid_iq2xxs, p[k], p[8 + k]), signs, k, 43);
    u.s[0] = u.s[1] = four_times((int)(w0 >> 27 & 30) | 1, (int)(w1 >> 27 & 30) | 1);
    u.m = fold(u.s[0], u.s[1], 43);
    return u;
}

INLINE float d_iq2_xxs(const rl_block_iq2_xxs *x)
{
    return half(x->d) * 0.125f;
}

/* One byte per block: low nibble first half, high nibble second half. */
INLINE void nibble_scales(quarter *u, const uint8_t *s)
{
    u->s[0] = four_times((s[0] & 15) << 1 | 1, (s[1] & 15) << 1 | 1);
    u->s[1] = four_times(s[0] >> 3 | 1, s[1] >> 3 | 1);
    u->m = fold(u->s[0], u->s[1], 43);
}

INLINE quarter load_iq2_xs(const rl_block_iq2_xs *x, int Q)
{
    quarter u;
    const uint8_t *p = x->qs + 16 * Q;
    uint8x16_t signs =
        with_parity(vreinterpretq_u8_u16(vshrq_n_u16(vreinterpretq_u16_u8(vld1q_u8(p)), 9)));
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = with_signs(entries8(rl_cpu_grid_iq2xs, rl_load_u16(p + 2 * k) & 511,
                                     rl_load_u16(p + 8 + 2 * k) & 511),
                            signs, 2 * k, 43);
    nibble_scales(&u, x->scales + 2 * Q);
    return u;
}

INLINE float d_iq2_xs(const rl_block_iq2_xs *x)
{
    return half(x->d) * 0.125f;
}

INLINE quarter load_iq2_s(const rl_block_iq2_s *x, int Q)
{
    quarter u;
    const uint8_t *low = x->qs + 8 * Q;
    uint32_t h0 = x->qh[2 * Q], h1 = x->qh[2 * Q + 1];
    uint8x16_t signs =
        bytes_of(lanes(rl_load_u32(x->signs + 8 * Q), rl_load_u32(x->signs + 8 * Q + 4)));
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = with_signs(entries8(rl_cpu_grid_iq2s, low[k] | (h0 << (8 - 2 * k) & 0x300),
                                     low[4 + k] | (h1 << (8 - 2 * k) & 0x300)),
                            signs, k, 43);
    nibble_scales(&u, x->scales + 2 * Q);
    return u;
}

INLINE float d_iq2_s(const rl_block_iq2_s *x)
{
    return half(x->d) * 0.125f;
}

INLINE quarter load_iq3_xxs(const rl_block_iq3_xxs *x, int Q)
{
    quarter u;
    const uint8_t *p = x->qs + 16 * Q;
    uint32_t w0 = rl_load_u32(x->gas[2 * Q]), w1 = rl_load_u32(x->gas[2 * Q + 1]);
    uint8x16_t signs = sign_bytes(lanes(w0, w1));
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        uint64x2_t t = lanes(entries4(rl_cpu_grid_iq3xxs, p[2 * k], p[2 * k + 1]),
                             entries4(rl_cpu_grid_iq3xxs, p[8 + 2 * k], p[9 + 2 * k]));
        u.w[k] = with_signs(bytes_of(t), signs, k, 62);
    }
    u.s[0] = u.s[1] = four_times((int)(w0 >> 27 & 30) | 1, (int)(w1 >> 27 & 30) | 1);
    u.m = fold(u.s[0], u.s[1], 62);
    return u;
}

INLINE float d_iq3_xxs(const rl_block_iq3_xxs *x)
{
    return half(x->d) * 0.25f;
}

INLINE quarter load_iq3_s(const rl_block_iq3_s *x, int Q)
{
    quarter u;
    const uint8_t *p = x->qs + 16 * Q;
    uint32_t h0 = x->qh[2 * Q], h1 = x->qh[2 * Q + 1];
    uint8x16_t signs =
        bytes_of(lanes(rl_load_u32(x->signs + 8 * Q), rl_load_u32(x->signs + 8 * Q + 4)));
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        int a = 8 - 2 * k, b = 7 - 2 * k;
        uint64x2_t t = lanes(entries4(rl_cpu_grid_iq3s, p[2 * k] | (h0 << a & 0x100),
                                      p[2 * k + 1] | (h0 << b & 0x100)),
                             entries4(rl_cpu_grid_iq3s, p[8 + 2 * k] | (h1 << a & 0x100),
                                      p[9 + 2 * k] | (h1 << b & 0x100)));
        u.w[k] = with_signs(bytes_of(t), signs, k, 15);
    }
    int s = x->scales[Q];
    u.s[0] = u.s[1] = four_times((s & 15) << 1 | 1, s >> 3 | 1);
    u.m = fold(u.s[0], u.s[1], 15);
    return u;
}

INLINE float d_iq3_s(const rl_block_iq3_s *x)
{
    return half(x->d);
}

/* ---- loaders: K ------------------------------------------------------------------------------ */

INLINE uint64x2_t both_lanes(const uint8_t *p)
{
    return vdupq_n_u64(rl_load_u64(p));
}

/* 2-bit planes: quarter Q is bytes 32 (Q / 2) .. + 31, bits 4 (Q % 2) and two above. */
INLINE uint8x16_t planes(const uint8_t qs[64], int Q, int k)
{
    int bit = 4 * (Q % 2);
    return vandq_u8(shift_right(both_lanes(qs + 32 * (Q / 2) + 8 * k), bit, bit + 2),
                    vdupq_n_u8(3));
}

INLINE quarter load_q2_k(const rl_block_q2_k *x, int Q)
{
    quarter u;
    const uint8_t *s = x->scales + 4 * Q;
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = planes(x->qs, Q, k);
    u.s[0] = four_times(s[0] & 15, s[2] & 15);
    u.s[1] = four_times(s[1] & 15, s[3] & 15);
    u.m = by_halves(four_times(s[0] >> 4, s[2] >> 4), four_times(s[1] >> 4, s[3] >> 4));
    return u;
}

INLINE quarter load_q3_k(const rl_block_q3_k *x, int Q)
{
    quarter u;
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        /* bit 2Q, 2Q + 1 of every byte, to bit 2 */
        uint8x16_t high = shift_right(both_lanes(x->hmask + 8 * k), 2 * Q - 2, 2 * Q - 1);
        u.w[k] = vorrq_u8(planes(x->qs, Q, k), vandq_u8(high, vdupq_n_u8(4)));
    }
    int s[4];
    V_UNROLL
    for (int i = 0; i < 4; i++) {
        int g = 4 * Q + i, low = g < 8 ? x->scales[g] & 15 : x->scales[g - 8] >> 4;
        s[i] = (low | (x->scales[8 + g % 4] >> (2 * (g / 4)) & 3) << 4) - 32;
    }
    u.s[0] = four_times(s[0], s[2]);
    u.s[1] = four_times(s[1], s[3]);
    u.m = fold(u.s[0], u.s[1], 4);
    return u;
}

INLINE float d_q3_k(const rl_block_q3_k *x)
{
    return half(x->d);
}

/* Scales and minimums of blocks 2Q and 2Q + 1 in the 12 bytes of Q4_K and Q5_K. */
INLINE void six_bits(quarter *u, const uint8_t s[12], int Q)
{
    int scale[2], min[2];
    V_UNROLL
    for (int i = 0; i < 2; i++) {
        int b = 2 * Q + i;
        scale[i] = b < 4 ? s[b] & 63 : (s[b + 4] & 15) | (s[b - 4] >> 6) << 4;
        min[i] = b < 4 ? s[b + 4] & 63 : s[b + 4] >> 4 | (s[b] >> 6) << 4;
    }
    u->s[0] = u->s[1] = four_times(scale[0], scale[1]);
    u->m = four_times(min[0], min[1]);
}

/* Nibbles: quarter Q is bytes 32Q .. 32Q + 31, low nibbles one block, high nibbles the other. */
INLINE uint8x16_t nibbles(const uint8_t qs[128], int Q, int k)
{
    return vandq_u8(shift_right(both_lanes(qs + 32 * Q + 8 * k), 0, 4), vdupq_n_u8(15));
}

INLINE quarter load_q4_k(const rl_block_q4_k *x, int Q)
{
    quarter u;
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = nibbles(x->qs, Q, k);
    six_bits(&u, x->scales, Q);
    return u;
}

INLINE quarter load_q5_k(const rl_block_q5_k *x, int Q)
{
    quarter u;
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        uint8x16_t high = shift_right(both_lanes(x->qh + 8 * k), 2 * Q - 4, 2 * Q - 3);
        u.w[k] = vorrq_u8(nibbles(x->qs, Q, k), vandq_u8(high, vdupq_n_u8(16)));
    }
    six_bits(&u, x->scales, Q);
    return u;
}

INLINE quarter load_q6_k(const rl_block_q6_k *x, int Q)
{
    quarter u;
    int half_run = Q / 2, odd = Q % 2; /* low nibbles: quarters 0 and 2, high ones: 1 and 3 */
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        const uint8_t *ql = x->ql + 64 * half_run + 8 * k;
        uint8x16_t low =
            shift_right(lanes(rl_load_u64(ql), rl_load_u64(ql + 32)), 4 * odd, 4 * odd);
        uint8x16_t high =
            shift_right(both_lanes(x->qh + 32 * half_run + 8 * k), 4 * odd - 4, 4 * odd - 2);
        u.w[k] = vorrq_u8(vandq_u8(low, vdupq_n_u8(15)), vandq_u8(high, vdupq_n_u8(0x30)));
    }
    const int8_t *s = x->scales + 4 * Q;
    u.s[0] = four_times(s[0], s[2]);
    u.s[1] = four_times(s[1], s[3]);
    u.m = fold(u.s[0], u.s[1], 32);
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

/* ---- products -------------------------------------------------------------------------------- */

/* One scale per block, 16 bits four times, as 32 bits twice. */
INLINE int32x4_t scale32(int16x8_t s)
{
    return vshrq_n_s32(vreinterpretq_s32_s16(s), 16);
}

/* Products of two vectors k, k + 1 that share their scales: 4 sums, two per block. */
INLINE int32x4_t dot_pair(const uint8x16_t w[2], const int8_t *x, int Q)
{
    int8x16_t w0 = vreinterpretq_s8_u8(w[0]), w1 = vreinterpretq_s8_u8(w[1]);
    int8x16_t x0 = vld1q_s8(x + 16 * Q), x1 = vld1q_s8(x + 64 + 16 * Q);
#if RL_NEON_DOT
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w0, x0), w1, x1);
#else
    int16x8_t first = vmull_s8(vget_low_s8(w0), vget_low_s8(x0));
    int16x8_t second = vmull_high_s8(w0, x0);
    first = vmlal_s8(first, vget_low_s8(w1), vget_low_s8(x1));
    second = vmlal_high_s8(second, w1, x1);
    return vpaddq_s32(vpaddlq_s16(first), vpaddlq_s16(second));
#endif
}

/* Scaled products of quarter Q, 4 sums, two per block. */
INLINE int32x4_t dot_quarter(const quarter *u, const rl_act_run8 *a, int Q)
{
    int32x4_t sum = vmulq_s32(dot_pair(u->w, a->q, Q), scale32(u->s[0]));
    return vmlaq_s32(sum, dot_pair(u->w + 2, a->q + 128, Q), scale32(u->s[1]));
}

/* m times the activation sums: two sums per block. */
INLINE int32x4_t shift_quarter(int16x8_t m, const rl_act_run8 *a, int Q)
{
    int16x8_t sums = vld1q_s16(a->sums + 8 * Q);
    return vpaddq_s32(vmull_s16(vget_low_s16(m), vget_low_s16(sums)), vmull_high_s16(m, sums));
}

/* The float part: acc plus four blocks from integer sums. The order is the contract of the tables. */
INLINE float32x4_t add_blocks(float32x4_t acc, int32x4_t sum, int32x4_t shift, float d, float dmin,
                              const rl_act_run8 *a, int H, bool has_min)
{
    float32x4_t scale = vuzp1q_f32(vld1q_f32(a->d + 8 * H), vld1q_f32(a->d + 8 * H + 4));
    if (!has_min) sum = vaddq_s32(sum, shift);
    acc = vfmaq_n_f32(acc, vmulq_f32(vcvtq_f32_s32(sum), scale), d);
    if (has_min) acc = vfmsq_f32(acc, vmulq_f32(vcvtq_f32_s32(shift), scale), vdupq_n_f32(dmin));
    return acc;
}

/* acc plus quarters 2H and 2H + 1 of one run. */
INLINE float32x4_t add_half(float32x4_t acc, const quarter u[2], float d, float dmin,
                            const rl_act_run8 *a, int H, bool has_min)
{
    int32x4_t sum = vpaddq_s32(dot_quarter(&u[0], a, 2 * H), dot_quarter(&u[1], a, 2 * H + 1));
    int32x4_t shift =
        vpaddq_s32(shift_quarter(u[0].m, a, 2 * H), shift_quarter(u[1].m, a, 2 * H + 1));
    return add_blocks(acc, sum, shift, d, dmin, a, H, has_min);
}

/* ---- one token, unpacking, tiles ------------------------------------------------------------- */

INLINE void store_quarter(rl_wgt_run8 *o, const quarter *u, int Q)
{
    V_UNROLL
    for (int k = 0; k < 4; k++)
        vst1q_u8(o->w + 64 * k + 16 * Q, u->w[k]);
    vst1q_s16(o->s[0] + 8 * Q, u->s[0]);
    vst1q_s16(o->s[1] + 8 * Q, u->s[1]);
    vst1q_s16(o->m + 8 * Q, u->m);
}

INLINE quarter stored_quarter(const rl_wgt_run8 *o, int Q)
{
    quarter u;
    V_UNROLL
    for (int k = 0; k < 4; k++)
        u.w[k] = vld1q_u8(o->w + 64 * k + 16 * Q);
    u.s[0] = vld1q_s16(o->s[0] + 8 * Q);
    u.s[1] = vld1q_s16(o->s[1] + 8 * Q);
    u.m = vld1q_s16(o->m + 8 * Q);
    return u;
}

#define RUN8_KERNELS(lower, minimum, has_min)                                                      \
    static void unpack_##lower(const uint8_t *row, uint32_t cols, void *out)                       \
    {                                                                                              \
        const rl_block_##lower *x = (const void *)row;                                             \
        rl_wgt_run8 *o = out;                                                                      \
        for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, o++) {                                   \
            rl_cpu_prefetch(x, sizeof *x);                                                         \
            V_UNROLL                                                                               \
            for (int Q = 0; Q < 4; Q++) {                                                          \
                quarter u = load_##lower(x, Q);                                                    \
                store_quarter(o, &u, Q);                                                           \
            }                                                                                      \
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
            float32x4_t acc = vdupq_n_f32(0);                                                      \
            for (uint32_t n = cols / RL_CPU_RUN; n; n--, x++, a++) {                               \
                rl_cpu_prefetch(x, sizeof *x);                                                     \
                float d = d_##lower(x), dmin = minimum;                                            \
                V_UNROLL                                                                           \
                for (int H = 0; H < 2; H++) {                                                      \
                    quarter u[2] = { load_##lower(x, 2 * H), load_##lower(x, 2 * H + 1) };         \
                    acc = add_half(acc, u, d, dmin, a, H, has_min);                                \
                }                                                                                  \
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
    float32x4_t acc[4];
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        acc[t] = vdupq_n_f32(0);
    for (uint32_t i = 0; i < n_runs; i++, w++) {
        V_UNROLL
        for (int H = 0; H < 2; H++) {
            quarter u[2] = { stored_quarter(w, 2 * H), stored_quarter(w, 2 * H + 1) };
            V_UNROLL
            for (uint32_t t = 0; t < n; t++)
                acc[t] = add_half(acc[t], u, w->d, w->dmin,
                                  (const rl_act_run8 *)tile->act[first + t] + i, H, has_min);
        }
    }
    V_UNROLL
    for (uint32_t t = 0; t < n; t++)
        tile->y[first + t][r] = v_sum(acc[t]);
}

#if RL_NEON_I8MM

/* One lane (block) of two vectors side by side: the 2 x 8 operand of a matrix multiplication. */
INLINE int8x16_t two_groups(const int8_t *first, const int8_t *second)
{
    return vcombine_s8(vld1_s8(first), vld1_s8(second));
}

/* Block sums of two rows (w) and two tokens (a): out[b] holds row 0 token 0, row 0 token 1, row 1
 * token 0, row 1 token 1 of block 4H + b. */
INLINE void multiply_blocks(const rl_wgt_run8 *const w[2], const rl_act_run8 *const a[2], int H,
                            int32x4_t out[4])
{
    V_UNROLL
    for (int b = 0; b < 4; b++) {
        int block = 4 * H + b;
        int32x4_t sum[2];
        V_UNROLL
        for (int h = 0; h < 2; h++) {
            sum[h] = vdupq_n_s32(0);
            V_UNROLL
            for (int k = 2 * h; k < 2 * h + 2; k++) {
                size_t at = 64 * (size_t)k + 8 * (size_t)block;
                sum[h] = vmmlaq_s32(
                    sum[h], two_groups((const int8_t *)w[0]->w + at, (const int8_t *)w[1]->w + at),
                    two_groups(a[0]->q + at, a[1]->q + at));
            }
        }
        int32x4_t s0 =
            vcombine_s32(vdup_n_s32(w[0]->s[0][4 * block]), vdup_n_s32(w[1]->s[0][4 * block]));
        int32x4_t s1 =
            vcombine_s32(vdup_n_s32(w[0]->s[1][4 * block]), vdup_n_s32(w[1]->s[1][4 * block]));
        out[b] = vmlaq_s32(vmulq_s32(sum[0], s0), sum[1], s1);
    }
}

INLINE void transpose(int32x4_t x[4])
{
    int32x4_t a = vtrn1q_s32(x[0], x[1]), b = vtrn2q_s32(x[0], x[1]);
    int32x4_t c = vtrn1q_s32(x[2], x[3]), d = vtrn2q_s32(x[2], x[3]);
    int64x2_t p = vreinterpretq_s64_s32(a), q = vreinterpretq_s64_s32(c);
    int64x2_t r = vreinterpretq_s64_s32(b), s = vreinterpretq_s64_s32(d);
    x[0] = vreinterpretq_s32_s64(vtrn1q_s64(p, q));
    x[1] = vreinterpretq_s32_s64(vtrn1q_s64(r, s));
    x[2] = vreinterpretq_s32_s64(vtrn2q_s64(p, q));
    x[3] = vreinterpretq_s32_s64(vtrn2q_s64(r, s));
}

/* Two rows and two tokens: integer sums by matrix multiplication, then the same float part. */
INLINE void run8_square(const rl_wgt_run8 *first, const rl_wgt_run8 *second, uint32_t n_runs,
                        const rl_cpu_tile *tile, uint32_t t, uint32_t r, bool has_min)
{
    float32x4_t acc[4] = { vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0) };
    for (uint32_t i = 0; i < n_runs; i++) {
        const rl_wgt_run8 *w[2] = { first + i, second + i };
        const rl_act_run8 *a[2] = { (const rl_act_run8 *)tile->act[t] + i,
                                    (const rl_act_run8 *)tile->act[t + 1] + i };
        V_UNROLL
        for (int H = 0; H < 2; H++) {
            int32x4_t sum[4];
            multiply_blocks(w, a, H, sum);
            transpose(sum);
            V_UNROLL
            for (int j = 0; j < 4; j++) {
                const rl_wgt_run8 *u = w[j / 2];
                const rl_act_run8 *x = a[j % 2];
                int32x4_t shift =
                    vpaddq_s32(shift_quarter(vld1q_s16(u->m + 16 * H), x, 2 * H),
                               shift_quarter(vld1q_s16(u->m + 16 * H + 8), x, 2 * H + 1));
                acc[j] = add_blocks(acc[j], sum[j], shift, u->d, u->dmin, x, H, has_min);
            }
        }
    }
    V_UNROLL
    for (int j = 0; j < 4; j++)
        tile->y[t + j % 2][r + j / 2] = v_sum(acc[j]);
}

#endif

INLINE void run8_tile(const rl_cpu_tile *tile, bool has_min)
{
    const uint8_t *row = tile->rows;
    uint32_t r = 0;
#if RL_NEON_I8MM
    for (; r + 2 <= tile->n_rows; r += 2, row += 2 * tile->row_bytes) {
        const rl_wgt_run8 *w0 = (const void *)row, *w1 = (const void *)(row + tile->row_bytes);
        uint32_t t = 0;
        for (; t + 2 <= tile->n_tokens; t += 2)
            run8_square(w0, w1, tile->n_runs, tile, t, r, has_min);
        if (t < tile->n_tokens) {
            run8_row(w0, tile->n_runs, tile, t, 1, r, has_min);
            run8_row(w1, tile->n_runs, tile, t, 1, r + 1, has_min);
        }
    }
#endif
    for (; r < tile->n_rows; r++, row += tile->row_bytes) {
        const rl_wgt_run8 *w = (const void *)row;
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
