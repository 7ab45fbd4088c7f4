/* cpu_unpack_any.c - every type from file blocks to the byte form of cpu_matrix.h, in plain C.
 *
 * The layouts are those of docs/formats.md; the difference to quant/decode_*.c is that codes,
 * integer scales and offsets stay apart so that products can be made in integers. */
#include "backend/cpu/cpu_matrix.h"

#include "quant/codebooks.h"

/* ---- float ----------------------------------------------------------------------------------- */

#define UNPACK_FLOAT(name, lower)                                                                  \
    void rl_cpu_unpack_##lower##_any(const uint8_t *row, uint32_t cols, void *out)                 \
    {                                                                                              \
        rl_quant_decode(rl_quant_find(RL_QUANT_##name), row, cols, out);                           \
    }

UNPACK_FLOAT(F32, f32)
UNPACK_FLOAT(F16, f16)
UNPACK_FLOAT(BF16, bf16)
UNPACK_FLOAT(Q8_K, q8_k)
UNPACK_FLOAT(NVFP4, nvfp4)

/* ---- runs of 256 with integer scales --------------------------------------------------------- */

/* Scale of half h (16 weights) of block b. */
static inline void set_scale(rl_wgt_run8 *o, int b, int h, int scale)
{
    for (int i = 0; i < 4; i++)
        o->s[h][4 * b + i] = (int16_t)scale;
}

/* The offset that all codes of a fold type carry, once the scales are set. */
static inline void set_offset(rl_wgt_run8 *o, int offset)
{
    for (int a = 0; a < 32; a++)
        o->m[a] = (int16_t)(-offset * o->s[a % 4 / 2][a]);
    o->dmin = 0;
}

/* Group a (8 weights, 32 groups): magnitudes of one entry with sign bits, plus an offset. */
static inline void set_group(rl_wgt_run8 *o, int a, uint64_t entry, unsigned signs, int offset)
{
    uint8_t *to = o->w + 64 * (a % 4) + 8 * (a / 4);
    for (int j = 0; j < 8; j++) {
        int magnitude = (int)(entry >> (8 * j) & 255);
        to[j] = (uint8_t)(offset + (signs >> j & 1 ? -magnitude : magnitude));
    }
}

static inline uint64_t pair4(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

static inline int two_bits(const uint8_t qs[64], int i)
{
    return (qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
}

static inline int four_bits(const uint8_t qs[128], int i)
{
    int byte = qs[32 * (i / 64) + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
}

void rl_cpu_unpack_q2_k_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_q2_k *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++)
            o->w[rl_cpu_run8_at((uint32_t)i)] = (uint8_t)two_bits(x->qs, i);
        for (int g = 0; g < 16; g++) {
            set_scale(o, g / 2, g % 2, x->scales[g] & 15);
            o->m[2 * g] = o->m[2 * g + 1] = x->scales[g] >> 4;
        }
        o->d = rl_quant_f16(x->d);
        o->dmin = rl_quant_f16(x->dmin);
    }
}

void rl_cpu_unpack_q3_k_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_q3_k *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++) {
            int high = x->hmask[i % 32] >> (i / 32) & 1;
            o->w[rl_cpu_run8_at((uint32_t)i)] = (uint8_t)(two_bits(x->qs, i) + 4 * high);
        }
        for (int g = 0; g < 16; g++) {
            int low = g < 8 ? x->scales[g] & 15 : x->scales[g - 8] >> 4;
            int high = x->scales[8 + g % 4] >> (2 * (g / 4)) & 3;
            set_scale(o, g / 2, g % 2, (low | high << 4) - 32);
        }
        set_offset(o, 4);
        o->d = rl_quant_f16(x->d);
    }
}

/* Scales and minimums of Q4_K and Q5_K: eight 6-bit pairs in 12 bytes. */
static void set_scales_and_mins(rl_wgt_run8 *o, const uint8_t s[12])
{
    for (int b = 0; b < 8; b++) {
        int scale = b < 4 ? s[b] & 63 : (s[b + 4] & 15) | (s[b - 4] >> 6) << 4;
        int min = b < 4 ? s[b + 4] & 63 : s[b + 4] >> 4 | (s[b] >> 6) << 4;
        set_scale(o, b, 0, scale);
        set_scale(o, b, 1, scale);
        for (int k = 0; k < 4; k++)
            o->m[4 * b + k] = (int16_t)min;
    }
}

void rl_cpu_unpack_q4_k_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_q4_k *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++)
            o->w[rl_cpu_run8_at((uint32_t)i)] = (uint8_t)four_bits(x->qs, i);
        set_scales_and_mins(o, x->scales);
        o->d = rl_quant_f16(x->d);
        o->dmin = rl_quant_f16(x->dmin);
    }
}

void rl_cpu_unpack_q5_k_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_q5_k *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++) {
            int high = x->qh[i % 32] >> (i / 32) & 1;
            o->w[rl_cpu_run8_at((uint32_t)i)] = (uint8_t)(four_bits(x->qs, i) | high << 4);
        }
        set_scales_and_mins(o, x->scales);
        o->d = rl_quant_f16(x->d);
        o->dmin = rl_quant_f16(x->dmin);
    }
}

void rl_cpu_unpack_q6_k_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_q6_k *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++) {
            int half = i / 128, r = i % 128;
            int low = x->ql[64 * half + r % 64];
            low = r < 64 ? low & 15 : low >> 4;
            int high = x->qh[32 * half + r % 32] >> (2 * (r / 32)) & 3;
            o->w[rl_cpu_run8_at((uint32_t)i)] = (uint8_t)(low | high << 4);
        }
        for (int g = 0; g < 16; g++)
            set_scale(o, g / 2, g % 2, x->scales[g]);
        set_offset(o, 32);
        o->d = rl_quant_f16(x->d);
    }
}

void rl_cpu_unpack_iq2_xxs_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq2_xxs *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int b = 0; b < 8; b++) {
            const uint8_t *index = x->groups + 8 * b;
            uint32_t word = rl_load_u32(index + 4);
            for (int l = 0; l < 4; l++)
                set_group(o, 4 * b + l, rl_iq2xxs_grid[index[l]], rl_ksigns[word >> (7 * l) & 127],
                          43);
            set_scale(o, b, 0, (int)(2 * (word >> 28) + 1));
            set_scale(o, b, 1, (int)(2 * (word >> 28) + 1));
        }
        set_offset(o, 43);
        o->d = rl_quant_f16(x->d) * 0.125f;
    }
}

/* The nibble scales of IQ2_XS and IQ2_S: 2 c + 1 per 16 weights, d counts eighths. */
static void set_nibble_scales(rl_wgt_run8 *o, const uint8_t scales[8], const uint8_t d[2])
{
    for (int b = 0; b < 8; b++) {
        set_scale(o, b, 0, 2 * (scales[b] & 15) + 1);
        set_scale(o, b, 1, 2 * (scales[b] >> 4) + 1);
    }
    set_offset(o, 43);
    o->d = rl_quant_f16(d) * 0.125f;
}

void rl_cpu_unpack_iq2_xs_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq2_xs *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int a = 0; a < 32; a++) {
            uint16_t v = rl_load_u16(x->qs + 2 * a);
            set_group(o, a, rl_iq2xs_grid[v & 511], rl_ksigns[v >> 9], 43);
        }
        set_nibble_scales(o, x->scales, x->d);
    }
}

void rl_cpu_unpack_iq2_s_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq2_s *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int a = 0; a < 32; a++) {
            int index = x->qs[a] | (x->qh[a / 4] >> (2 * (a % 4)) & 3) << 8;
            set_group(o, a, rl_iq2s_grid[index], x->signs[a], 43);
        }
        set_nibble_scales(o, x->scales, x->d);
    }
}

void rl_cpu_unpack_iq3_xxs_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq3_xxs *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int a = 0; a < 32; a++) {
            uint32_t word = rl_load_u32(x->gas[a / 4]);
            set_group(o, a, pair4(rl_iq3xxs_grid[x->qs[2 * a]], rl_iq3xxs_grid[x->qs[2 * a + 1]]),
                      rl_ksigns[word >> (7 * (a % 4)) & 127], 62);
            set_scale(o, a / 4, a % 4 / 2, (int)(2 * (word >> 28) + 1));
        }
        set_offset(o, 62);
        o->d = rl_quant_f16(x->d) * 0.25f;
    }
}

void rl_cpu_unpack_iq3_s_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq3_s *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int a = 0; a < 32; a++) {
            int high = x->qh[a / 4] >> (2 * (a % 4));
            set_group(o, a,
                      pair4(rl_iq3s_grid[x->qs[2 * a] | (high & 1) << 8],
                            rl_iq3s_grid[x->qs[2 * a + 1] | (high >> 1 & 1) << 8]),
                      x->signs[a], 15);
        }
        for (int b = 0; b < 8; b++) {
            int code = x->scales[b / 2] >> (b % 2 ? 4 : 0) & 15;
            set_scale(o, b, 0, 2 * code + 1);
            set_scale(o, b, 1, 2 * code + 1);
        }
        set_offset(o, 15);
        o->d = rl_quant_f16(x->d);
    }
}

/* Group a of the 1-bit types, with its scale: 8 (grid + shift) = 8 (grid + 1) - 8 +- 1. */
static inline void set_shifted(rl_wgt_run8 *o, int a, int index, bool negative, int scale)
{
    uint64_t entry = rl_iq1s_grid[index];
    uint8_t *to = o->w + 64 * (a % 4) + 8 * (a / 4);
    for (int j = 0; j < 8; j++)
        to[j] = (uint8_t)(8 * (1 + (int8_t)(entry >> (8 * j))));
    set_scale(o, a / 4, a % 4 / 2, scale);
    o->m[a] = (int16_t)(scale * (negative ? -9 : -7));
}

void rl_cpu_unpack_iq1_s_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq1_s *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int a = 0; a < 32; a++) {
            int high = rl_load_u16(x->qh[a / 4]);
            set_shifted(o, a, x->qs[a] | (high >> (3 * (a % 4)) & 7) << 8, high >> 15,
                        2 * (high >> 12 & 7) + 1);
        }
        o->d = rl_quant_f16(x->d) * 0.125f;
        o->dmin = 0;
    }
}

void rl_cpu_unpack_iq1_m_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_run8 *o = out;
    const rl_block_iq1_m *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        uint16_t d_bits = 0;
        for (int i = 0; i < 4; i++)
            d_bits |= (uint16_t)((rl_load_u16(x->scales[i]) >> 12) << (4 * i));
        for (int a = 0; a < 32; a++) {
            int pair = a / 2, high = x->qh[pair] >> (a % 2 ? 4 : 0);
            int code = rl_load_u16(x->scales[pair / 4]) >> (3 * (pair % 4)) & 7;
            set_shifted(o, a, x->qs[a] | (high & 7) << 8, high & 8, 2 * code + 1);
        }
        o->d = rl_f32_from_f16(d_bits) * 0.125f;
        o->dmin = 0;
    }
}

/* ---- rows of signed bytes with a float scale per 32 ------------------------------------------ */

/* The last run of a row that is no multiple of 256 columns is filled up with zeros. */
static void clear_tail(rl_wgt_row8 *o, uint32_t cols)
{
    if (cols % RL_CPU_RUN) memset(o + cols / RL_CPU_RUN, 0, sizeof *o);
}

/* The loop over the blocks of 32 of a row: `body` fills w[32], *d and *m from block x. */
#define UNPACK_32(lower, body)                                                                     \
    void rl_cpu_unpack_##lower##_any(const uint8_t *row, uint32_t cols, void *out)                 \
    {                                                                                              \
        rl_wgt_row8 *o = out;                                                                      \
        const rl_block_##lower *x = (const void *)row;                                             \
        clear_tail(o, cols);                                                                       \
        for (uint32_t n = 0; n < cols / 32; n++, x++) {                                            \
            int8_t *w = o[n / 8].w + 32 * (n % 8);                                                 \
            float *d = &o[n / 8].d[n % 8], *m = &o[n / 8].m[n % 8];                                \
            *m = 0;                                                                                \
            body                                                                                   \
        }                                                                                          \
    }

static inline int nibble(const uint8_t qs[16], int i)
{
    return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

UNPACK_32(q4_0, {
    *d = rl_quant_f16(x->d);
    for (int i = 0; i < 32; i++)
        w[i] = (int8_t)(nibble(x->qs, i) - 8);
})

UNPACK_32(q4_1, {
    *d = rl_quant_f16(x->d);
    *m = rl_quant_f16(x->m);
    for (int i = 0; i < 32; i++)
        w[i] = (int8_t)nibble(x->qs, i);
})

UNPACK_32(q5_0, {
    uint32_t qh = rl_load_u32(x->qh);
    *d = rl_quant_f16(x->d);
    for (int i = 0; i < 32; i++)
        w[i] = (int8_t)((nibble(x->qs, i) | (int)(qh >> i & 1) << 4) - 16);
})

UNPACK_32(q5_1, {
    uint32_t qh = rl_load_u32(x->qh);
    *d = rl_quant_f16(x->d);
    *m = rl_quant_f16(x->m);
    for (int i = 0; i < 32; i++)
        w[i] = (int8_t)(nibble(x->qs, i) | (int)(qh >> i & 1) << 4);
})

UNPACK_32(q8_0, {
    *d = rl_quant_f16(x->d);
    memcpy(w, x->qs, 32);
})

UNPACK_32(iq4_nl, {
    *d = rl_quant_f16(x->d);
    for (int i = 0; i < 32; i++)
        w[i] = rl_iq4nl_values[nibble(x->qs, i)];
})

UNPACK_32(mxfp4, {
    *d = rl_f32_from_bits(x->e < 2 ? 0x00200000u << x->e : (uint32_t)(x->e - 1) << 23);
    for (int i = 0; i < 32; i++)
        w[i] = rl_mxfp4_values[nibble(x->qs, i)];
})

void rl_cpu_unpack_iq4_xs_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_row8 *o = out;
    const rl_block_iq4_xs *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        float d = rl_quant_f16(x->d);
        int high = rl_load_u16(x->scales_h);
        for (int b = 0; b < 8; b++) {
            int low = x->scales_l[b / 2] >> (b % 2 ? 4 : 0) & 15;
            o->d[b] = d * (float)((low | (high >> (2 * b) & 3) << 4) - 32);
            o->m[b] = 0;
            for (int i = 0; i < 32; i++)
                o->w[32 * b + i] = rl_iq4nl_values[nibble(x->qs + 16 * b, i)];
        }
    }
}

/* One scale for a whole run, or half or a quarter of it. */
static void set_row_scale(rl_wgt_row8 *o, int first, int n, float d)
{
    for (int b = first; b < first + n; b++) {
        o->d[b] = d;
        o->m[b] = 0;
    }
}

void rl_cpu_unpack_tq1_0_any(const uint8_t *row, uint32_t cols, void *out)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    rl_wgt_row8 *o = out;
    const rl_block_tq1_0 *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++) {
            int byte = i < 160 ? x->qs[i % 32] : i < 240 ? x->qs[32 + i % 16] : x->qh[i % 4];
            int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
            o->w[i] = (int8_t)((((byte * power[digit]) & 255) * 3 >> 8) - 1);
        }
        set_row_scale(o, 0, 8, rl_quant_f16(x->d));
    }
}

void rl_cpu_unpack_tq2_0_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_row8 *o = out;
    const rl_block_tq2_0 *x = (const void *)row;
    for (uint32_t n = cols / 256; n; n--, x++, o++) {
        for (int i = 0; i < 256; i++)
            o->w[i] = (int8_t)(two_bits(x->qs, i) - 1);
        set_row_scale(o, 0, 8, rl_quant_f16(x->d));
    }
}

void rl_cpu_unpack_q1_0_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_row8 *o = out;
    const rl_block_q1_0 *x = (const void *)row;
    clear_tail(o, cols);
    for (uint32_t n = 0; n < cols / 128; n++, x++) {
        int8_t *w = o[n / 2].w + 128 * (n % 2);
        for (int i = 0; i < 128; i++)
            w[i] = (int8_t)(2 * (x->qs[i / 8] >> (i % 8) & 1) - 1);
        set_row_scale(o + n / 2, 4 * (int)(n % 2), 4, rl_quant_f16(x->d));
    }
}

void rl_cpu_unpack_q2_0_any(const uint8_t *row, uint32_t cols, void *out)
{
    rl_wgt_row8 *o = out;
    const rl_block_q2_0 *x = (const void *)row;
    clear_tail(o, cols);
    for (uint32_t n = 0; n < cols / 64; n++, x++) {
        int8_t *w = o[n / 4].w + 64 * (n % 4);
        for (int i = 0; i < 64; i++)
            w[i] = (int8_t)((x->qs[i / 4] >> (2 * (i % 4)) & 3) - 1);
        set_row_scale(o + n / 4, 2 * (int)(n % 4), 2, rl_quant_f16(x->d));
    }
}
