/* decode_iq.c - the grid types: codebook entries of 8 (or 4) magnitudes, sign bits beside them.
 *
 * Weights come in 32 groups of 8, numbered a; four groups make a run of 32 weights, numbered r. */
#include "quant/codebooks.h"
#include "quant/decode.h"

/* Eight weights: magnitudes of one 8-wide entry, bit j of `signs` negates weight j. */
static inline void put8(float *out, float scale, uint64_t entry, unsigned signs)
{
    for (int j = 0; j < 8; j++) {
        float w = scale * (float)((entry >> (8 * j)) & 255);
        out[j] = signs >> j & 1 ? -w : w;
    }
}

/* Two 4-wide entries side by side. */
static inline uint64_t pair4(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

void rl_decode_iq2_xxs(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq2_xxs *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int r = 0; r < 8; r++) {
            const uint8_t *index = b->groups + 8 * r;
            uint32_t word = rl_load_u32(index + 4);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
            for (int l = 0; l < 4; l++)
                put8(out + 32 * r + 8 * l, scale, rl_iq2xxs_grid[index[l]],
                     rl_ksigns[word >> (7 * l) & 127]);
        }
    }
}

void rl_decode_iq2_xs(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq2_xs *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int a = 0; a < 32; a++) {
            int code = b->scales[a / 4] >> (a % 4 < 2 ? 0 : 4) & 15;
            uint16_t v = rl_load_u16(b->qs + 2 * a);
            put8(out + 8 * a, d * (0.5f + (float)code) * 0.25f, rl_iq2xs_grid[v & 511],
                 rl_ksigns[v >> 9]);
        }
    }
}

void rl_decode_iq2_s(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq2_s *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int a = 0; a < 32; a++) {
            int code = b->scales[a / 4] >> (a % 4 < 2 ? 0 : 4) & 15;
            int index = b->qs[a] | (b->qh[a / 4] >> (2 * (a % 4)) & 3) << 8;
            put8(out + 8 * a, d * (0.5f + (float)code) * 0.25f, rl_iq2s_grid[index], b->signs[a]);
        }
    }
}

void rl_decode_iq3_xxs(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq3_xxs *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int a = 0; a < 32; a++) {
            uint32_t word = rl_load_u32(b->gas[a / 4]);
            uint64_t entry = pair4(rl_iq3xxs_grid[b->qs[2 * a]], rl_iq3xxs_grid[b->qs[2 * a + 1]]);
            put8(out + 8 * a, d * (0.5f + (float)(word >> 28)) * 0.5f, entry,
                 rl_ksigns[word >> (7 * (a % 4)) & 127]);
        }
    }
}

void rl_decode_iq3_s(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq3_s *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int a = 0; a < 32; a++) {
            int code = b->scales[a / 8] >> (a % 8 < 4 ? 0 : 4) & 15;
            int high = b->qh[a / 4] >> (2 * (a % 4)); /* bits 0 and 1: entries 2a and 2a+1 */
            uint64_t entry = pair4(rl_iq3s_grid[b->qs[2 * a] | (high & 1) << 8],
                                   rl_iq3s_grid[b->qs[2 * a + 1] | (high >> 1 & 1) << 8]);
            put8(out + 8 * a, d * (float)(1 + 2 * code), entry, b->signs[a]);
        }
    }
}

/* Eight weights of the 1-bit types: scale * (grid + shift), grid in -1, 0, 1. */
static inline void put8_shifted(float *out, float scale, int index, bool negative)
{
    float shift = negative ? -0.125f : 0.125f;
    uint64_t entry = rl_iq1s_grid[index];
    for (int j = 0; j < 8; j++)
        out[j] = scale * ((float)(int8_t)(entry >> (8 * j)) + shift);
}

void rl_decode_iq1_s(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq1_s *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int a = 0; a < 32; a++) {
            int high = rl_load_u16(b->qh[a / 4]);
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            int index = b->qs[a] | (high >> (3 * (a % 4)) & 7) << 8;
            put8_shifted(out + 8 * a, scale, index, high >> 15);
        }
    }
}

void rl_decode_iq1_m(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq1_m *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        uint16_t d_bits = 0; /* the f16 scale is spread over four top nibbles */
        for (int i = 0; i < 4; i++)
            d_bits |= (uint16_t)((rl_load_u16(b->scales[i]) >> 12) << (4 * i));
        float d = rl_f32_from_f16(d_bits);
        for (int a = 0; a < 32; a++) {
            int pair = a / 2;
            int code = rl_load_u16(b->scales[pair / 4]) >> (3 * (pair % 4)) & 7;
            int high = b->qh[pair] >> (a % 2 ? 4 : 0);
            put8_shifted(out + 8 * a, d * (float)(2 * code + 1), b->qs[a] | (high & 7) << 8,
                         high & 8);
        }
    }
}

void rl_decode_iq4_xs(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq4_xs *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        int high = rl_load_u16(b->scales_h);
        for (int r = 0; r < 8; r++) {
            int low = b->scales_l[r / 2] >> (r % 2 ? 4 : 0) & 15;
            float scale = d * (float)((low | (high >> (2 * r) & 3) << 4) - 32);
            for (int j = 0; j < 16; j++) {
                int byte = b->qs[16 * r + j];
                out[32 * r + j] = scale * (float)rl_iq4nl_values[byte & 15];
                out[32 * r + 16 + j] = scale * (float)rl_iq4nl_values[byte >> 4];
            }
        }
    }
}
