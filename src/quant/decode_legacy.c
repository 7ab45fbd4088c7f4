/* decode_legacy.c - the types of 32 weights with one f16 scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, and
 * IQ4_NL, which looks its values up.
 *
 * The 16 packed bytes are laid out low half first: weights 0..15 are the low nibbles, weights
 * 16..31 the high nibbles of the same bytes. */
#include "quant/codebooks.h"
#include "quant/decode.h"

/* Nibble i of 32, in weight order. */
static inline int nibble(const uint8_t qs[16], int i)
{
    return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

/* 5-bit code i: the nibble, and bit i of qh as the fifth bit. */
static inline int five_bits(const uint8_t qs[16], uint32_t qh, int i)
{
    return nibble(qs, i) | (int)((qh >> i) & 1) << 4;
}

void rl_decode_q4_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q4_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)(nibble(b->qs, i) - 8);
    }
}

void rl_decode_q4_1(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q4_1 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d), m = rl_quant_f16(b->m);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)nibble(b->qs, i) + m;
    }
}

void rl_decode_q5_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q5_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d);
        uint32_t qh = rl_load_u32(b->qh);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)(five_bits(b->qs, qh, i) - 16);
    }
}

void rl_decode_q5_1(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q5_1 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d), m = rl_quant_f16(b->m);
        uint32_t qh = rl_load_u32(b->qh);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)five_bits(b->qs, qh, i) + m;
    }
}

void rl_decode_q8_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q8_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)b->qs[i];
    }
}

void rl_decode_iq4_nl(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_iq4_nl *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 32; i++)
            out[i] = d * (float)rl_iq4nl_values[nibble(b->qs, i)];
    }
}
