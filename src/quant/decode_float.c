/* decode_float.c - F32, F16, BF16: plain arrays. */
#include "quant/decode.h"

void rl_decode_f32(const void *blocks, size_t n_blocks, float *out)
{
    if (n_blocks) memcpy(out, blocks, n_blocks * sizeof *out); /* blocks may be NULL otherwise */
}

void rl_decode_f16(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_f16 *b = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        out[i] = rl_quant_f16(b[i].value);
}

void rl_decode_bf16(const void *blocks, size_t n_blocks, float *out)
{
    const rl_block_bf16 *b = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        out[i] = rl_f32_from_bf16(rl_load_u16(b[i].value));
}
