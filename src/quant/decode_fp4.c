/* decode_fp4.c - the 4-bit float types MXFP4 and NVFP4: E2M1 codes with a scale per block.
 *
 * The table of codes holds twice their value so that it fits integers; the scales are halved to
 * make up for it. */
#include "quant/codebooks.h"
#include "quant/decode.h"

/* 2^(e - 128), subnormal for e < 2. */
static inline float half_e8m0(uint8_t e)
{
    return rl_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 number; the NaN pattern counts as zero. */
static inline float half_e4m3(uint8_t x)
{
    int exponent = x >> 3 & 15, mantissa = x & 7;
    if (x == 0x7f) return 0;
    if (!exponent) return (float)mantissa * 0x1p-10f;
    return (float)(8 + mantissa) * rl_f32_from_bits((uint32_t)(exponent - 7 - 4 + 127) << 23);
}

void rl_decode_mxfp4(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_mxfp4 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 32) {
        float scale = half_e8m0(b->e);
        for (int j = 0; j < 16; j++) {
            out[j] = scale * (float)rl_mxfp4_values[b->qs[j] & 15];
            out[16 + j] = scale * (float)rl_mxfp4_values[b->qs[j] >> 4];
        }
    }
}

void rl_decode_nvfp4(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_nvfp4 *b = blocks;
    for (size_t k = 0; k < n_blocks; k++, b++, out += 64) {
        for (int s = 0; s < 4; s++) {
            float scale = half_e4m3(b->scales[s]);
            for (int j = 0; j < 8; j++) {
                int byte = b->qs[8 * s + j];
                out[16 * s + j] = scale * (float)rl_mxfp4_values[byte & 15];
                out[16 * s + 8 + j] = scale * (float)rl_mxfp4_values[byte >> 4];
            }
        }
    }
}
