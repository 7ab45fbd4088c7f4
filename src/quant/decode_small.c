/* decode_small.c - one and two bits per weight: the ternary types TQ1_0 and TQ2_0, and Q1_0, Q2_0. */
#include "quant/decode.h"

/* Base-3 digit n of a byte that holds a fraction of 256: multiply by 3^n, keep the fraction, and
 * the next multiplication by 3 carries the digit out. */
static inline int digit(uint8_t byte, int n)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    return ((byte * power[n] & 255) * 3) >> 8;
}

void rl_decode_tq1_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_tq1_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 256; i++) {
            int code;
            if (i < 160)
                code = digit(b->qs[i % 32], i / 32);
            else if (i < 240)
                code = digit(b->qs[32 + (i - 160) % 16], (i - 160) / 16);
            else
                code = digit(b->qh[(i - 240) % 4], (i - 240) / 4);
            out[i] = d * (float)(code - 1);
        }
    }
}

/* 2-bit planes as in the K types: 32 bytes hold 128 weights. */
void rl_decode_tq2_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_tq2_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 256) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 256; i++) {
            int code = b->qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            out[i] = d * (float)(code - 1);
        }
    }
}

void rl_decode_q1_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q1_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 128) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 128; i++)
            out[i] = b->qs[i / 8] >> (i % 8) & 1 ? d : -d;
    }
}

void rl_decode_q2_0(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_q2_0 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 64) {
        float d = rl_quant_f16(b->d);
        for (int i = 0; i < 64; i++)
            out[i] = d * (float)((b->qs[i / 4] >> (2 * (i % 4)) & 3) - 1);
    }
}
