/* cpu_neon_row8.h - NEON kernels for the types with a float scale per 32 weights (ROW8 order,
 * cpu_matrix.h). A part of cpu_neon_body.h. Two vectors are one block. */

typedef struct row {
    int8x16_t w[16];
    float d[8], m[8];
} row;

typedef struct row_sum {
    float32x4_t products, shifts;
} row_sum;

/* Four sums of one block. */
INLINE int32x4_t dot_block(int8x16_t w0, int8x16_t w1, const int8_t *x)
{
    int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
#if RL_NEON_DOT
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w0, x0), w1, x1);
#else
    /* two products of -128 and 127 stay above -2^15 */
    int16x8_t first = vmull_s8(vget_low_s8(w0), vget_low_s8(x0));
    int16x8_t second = vmull_s8(vget_low_s8(w1), vget_low_s8(x1));
    first = vmlal_high_s8(first, w0, x0);
    second = vmlal_high_s8(second, w1, x1);
    return vpadalq_s16(vpaddlq_s16(first), second);
#endif
}

INLINE row_sum add_row(row_sum acc, const row *u, const rl_act_row8 *a)
{
    V_UNROLL
    for (int b = 0; b < 8; b++) {
        int32x4_t sum = dot_block(u->w[2 * b], u->w[2 * b + 1], a->q + 32 * b);
        acc.products = vfmaq_n_f32(acc.products, vcvtq_f32_s32(sum), u->d[b] * a->d[b]);
    }
    V_UNROLL
    for (int i = 0; i < 8; i += 4)
        acc.shifts = vfmaq_f32(acc.shifts, vld1q_f32(u->m + i), vld1q_f32(a->c + i));
    return acc;
}

INLINE float reduce_row(row_sum acc)
{
    return v_sum(vaddq_f32(acc.products, acc.shifts));
}

/* Bits i of a 16-bit word as bit 4 of byte i. */
INLINE uint8x16_t fifth_bits(uint32_t word)
{
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t spread = vcombine_u8(vdup_n_u8((uint8_t)word), vdup_n_u8((uint8_t)(word >> 8)));
    return vandq_u8(vtstq_u8(spread, bits), vdupq_n_u8(16));
}

/* Low (h = 0) or high nibbles of 16 bytes. */
INLINE uint8x16_t nibble16(const uint8_t *qs, int h)
{
    uint8x16_t bytes = vld1q_u8(qs);
    return h ? vshrq_n_u8(bytes, 4) : vandq_u8(bytes, vdupq_n_u8(15));
}

INLINE int8x16_t minus(uint8x16_t codes, uint8_t by)
{
    return vreinterpretq_s8_u8(vsubq_u8(codes, vdupq_n_u8(by)));
}

INLINE float e8m0(uint8_t e)
{
    return rl_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* The loader of a type: `weights` is half h of block x[b], `scale` and `shift` its two floats. */
#define ROW8_LOADER(lower, weights, scale, shift)                                                  \
    INLINE row load_##lower(const rl_block_##lower *x)                                             \
    {                                                                                              \
        row u;                                                                                     \
        V_UNROLL                                                                                   \
        for (int b = 0; b < 8; b++) {                                                              \
            V_UNROLL                                                                               \
            for (int h = 0; h < 2; h++)                                                            \
                u.w[2 * b + h] = weights;                                                          \
            u.d[b] = scale;                                                                        \
            u.m[b] = shift;                                                                        \
        }                                                                                          \
        return u;                                                                                  \
    }

ROW8_LOADER(q8_0, vld1q_s8(x[b].qs + 16 * h), half(x[b].d), 0)
ROW8_LOADER(q4_0, minus(nibble16(x[b].qs, h), 8), half(x[b].d), 0)
ROW8_LOADER(q4_1, minus(nibble16(x[b].qs, h), 0), half(x[b].d), half(x[b].m))
ROW8_LOADER(q5_0,
            minus(vorrq_u8(nibble16(x[b].qs, h), fifth_bits(rl_load_u16(x[b].qh + 2 * h))), 16),
            half(x[b].d), 0)
ROW8_LOADER(q5_1,
            minus(vorrq_u8(nibble16(x[b].qs, h), fifth_bits(rl_load_u16(x[b].qh + 2 * h))), 0),
            half(x[b].d), half(x[b].m))
ROW8_LOADER(iq4_nl, vqtbl1q_s8(vld1q_s8(rl_iq4nl_values), nibble16(x[b].qs, h)), half(x[b].d), 0)
ROW8_LOADER(mxfp4, vqtbl1q_s8(vld1q_s8(rl_mxfp4_values), nibble16(x[b].qs, h)), e8m0(x[b].e), 0)

INLINE row load_iq4_xs(const rl_block_iq4_xs *x)
{
    row u;
    float d = half(x->d);
    uint32_t low = rl_load_u32(x->scales_l), high = rl_load_u16(x->scales_h);
    V_UNROLL
    for (int b = 0; b < 8; b++) {
        V_UNROLL
        for (int h = 0; h < 2; h++)
            u.w[2 * b + h] = vqtbl1q_s8(vld1q_s8(rl_iq4nl_values), nibble16(x->qs + 16 * b, h));
        u.d[b] = d * (float)((int)((low >> (4 * b) & 15) | (high >> (2 * b) & 3) << 4) - 32);
        u.m[b] = 0;
    }
    return u;
}

INLINE void store_row(rl_wgt_row8 *o, const row *u)
{
    V_UNROLL
    for (int i = 0; i < 16; i++)
        vst1q_s8(o->w + 16 * i, u->w[i]);
    memcpy(o->d, u->d, sizeof o->d);
    memcpy(o->m, u->m, sizeof o->m);
}

INLINE row stored_row(const rl_wgt_row8 *o)
{
    row u;
    V_UNROLL
    for (int i = 0; i < 16; i++)
        u.w[i] = vld1q_s8(o->w + 16 * i);
    memcpy(u.d, o->d, sizeof u.d);
    memcpy(u.m, o->m, sizeof u.m);
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
            row_sum acc = { vdupq_n_f32(0), vdupq_n_f32(0) };                                      \
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
            row_sum acc = { vdupq_n_f32(0), vdupq_n_f32(0) };
            for (uint32_t i = 0; i < tile->n_runs; i++) {
                row u = stored_row(w + i);
                acc = add_row(acc, &u, a + i);
            }
            tile->y[t][r] = reduce_row(acc);
        }
    }
}
