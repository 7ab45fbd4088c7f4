/* decode_k.c - the K types: 256 weights, groups of 16 or 32 with small integer scales.
 *
 * Each loop walks the weights in order and asks where the bits of weight i lie; the layouts are
 * drawn in docs/formats.md. */
#include "quant/decode.h"

/* 2-bit code i of a 64-byte field: 32 bytes hold 128 weights as four planes of 2 bits. */
static inline int two_bits(const uint8_t qs[64], int i)
{
    return (qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
}

/* Nibble i of a 128-byte field: 32 bytes hold 64 weights, low nibbles first. */
static inline int four_bits(const uint8_t qs[128], int i)
{
    int byte = qs[32 * (i / 64) + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
}

/* Scale and minimum of group j (of 32 weights) in the 12 bytes of Q4_K and Q5_K. */
static inline void scale_and_min(const uint8_t s[12], int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* Scale g (of 16 weights) in the 12 bytes of Q3_K, still biased by 32. */
static inline int q3_scale(const uint8_t s[12], int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return low | ((s[8 + g % 4] >> (2 * (g / 4))) & 3) << 4;
}

void rl_decode_q2_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q2_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d), dmin = rl_quant_f16(b->dmin);
        for (int i = 0; i < 256; i++) {
            int sc = b->scales[i / 16];
            out[i] = d * (float)((sc & 15) * two_bits(b->qs, i)) - dmin * (float)(sc >> 4);
        }
    }
}

void rl_decode_q3_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q3_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 256; i++) {
            int high = (b->hmask[i % 32] >> (i / 32)) & 1;
            int q = two_bits(b->qs, i) + 4 * high - 4;
            out[i] = d * (float)((q3_scale(b->scales, i / 16) - 32) * q);
        }
    }
}

void rl_decode_q4_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q4_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d), dmin = rl_quant_f16(b->dmin);
        for (int i = 0; i < 256; i++) {
            int scale, min;
            scale_and_min(b->scales, i / 32, &scale, &min);
            out[i] = d * (float)(scale * four_bits(b->qs, i)) - dmin * (float)min;
        }
    }
}

void rl_decode_q5_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q5_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d), dmin = rl_quant_f16(b->dmin);
        for (int i = 0; i < 256; i++) {
            int scale, min;
            scale_and_min(b->scales, i / 32, &scale, &min);
            int q = four_bits(b->qs, i) | ((b->qh[i % 32] >> (i / 32)) & 1) << 4;
            out[i] = d * (float)(scale * q) - dmin * (float)min;
        }
    }
}

void rl_decode_q6_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q6_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, r = i % 128;
            int low = b->ql[64 * half + r % 64];
            low = r < 64 ? low & 15 : low >> 4;
            int high = (b->qh[32 * half + r % 32] >> (2 * (r / 32))) & 3;
            out[i] = d * (float)(b->scales[i / 16] * ((low | high << 4) - 32));
        }
    }
}

/* Not a weight format, but a file may say so and the decoder costs nothing. */
void rl_decode_q8_k(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q8_k *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_f32_from_bits(rl_load_u32(b->d));
        for (int i = 0; i < 256; i++)
            out[i] = d * (float)b->qs[i];
    }
}
