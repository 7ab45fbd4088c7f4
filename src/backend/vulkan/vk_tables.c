/* vk_tables.c - backend/vulkan/vk_tables.h.
 *
 * A magnitude becomes a byte: the low three bits of the exponent and the high five of the mantissa of
 * its half, which are the bits in which the halves of a codebook differ. The ternary grid shrinks to
 * two bits per weight, the two top bits of the half that it becomes: sign, and "two". */
#include "backend/vulkan/vk_tables.h"

#include <string.h>

#include "base/assert.h"
#include "quant/codebooks.h"

/* shaders/grid.glsl; magnitudes of 2 to 63, exact in six bits. */
static uint32_t magnitude(uint32_t value)
{
    uint32_t exponent = 1;
    while (value >> (exponent + 1))
        exponent++;
    RL_ASSERT(value >= 2 && value < 64);
    return (((exponent + 15) & 7) << 5) | (((value << 5) >> exponent) & 31);
}

/* Four magnitudes from the bytes of `entry`, lowest first: weights 0, 2, 1, 3 in the word. */
static uint32_t magnitudes(uint32_t entry, uint32_t scale)
{
    uint32_t word = 0;
    static const uint8_t places[] = { 0, 16, 8, 24 };
    for (uint32_t j = 0; j < 4; j++)
        word |= magnitude(scale * ((entry >> (8 * j)) & 0xff)) << places[j];
    return word;
}

static void copy_grid8(uint32_t *out, const uint64_t *grid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[2 * i] = magnitudes((uint32_t)grid[i], 1);
        out[2 * i + 1] = magnitudes((uint32_t)(grid[i] >> 32), 1);
    }
}

static void copy_grid4(uint32_t *out, const uint32_t *grid, uint32_t n, uint32_t scale)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = magnitudes(grid[i], scale);
}

static void copy_bytes8(uint32_t *out, const uint64_t *grid, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[2 * i] = (uint32_t)grid[i];
        out[2 * i + 1] = (uint32_t)(grid[i] >> 32);
    }
}

static uint32_t ternary_codes(uint64_t entry)
{
    uint32_t codes = 0;
    for (uint32_t j = 0; j < 8; j++) {
        int8_t value = (int8_t)(entry >> (8 * j));
        codes |= (value == 0 ? 0u : value > 0 ? 1u : 3u) << (2 * j);
    }
    return codes;
}

void rl_vk_tables_fill(uint32_t words[RL_TABLE_WORDS])
{
    memset(words, 0, RL_TABLE_WORDS * sizeof *words);
    for (uint32_t i = 0; i < 2048; i++)
        words[RL_TABLE_IQ1 + i / 2] |= ternary_codes(rl_iq1s_grid[i]) << (16 * (i % 2));
    copy_grid8(words + RL_TABLE_IQ2_XXS, rl_iq2xxs_grid, 256);
    copy_grid8(words + RL_TABLE_IQ2_XS, rl_iq2xs_grid, 512);
    copy_grid8(words + RL_TABLE_IQ2_S, rl_iq2s_grid, 1024);
    copy_grid4(words + RL_TABLE_IQ3_XXS, rl_iq3xxs_grid, 256, 1);
    copy_grid4(words + RL_TABLE_IQ3_S, rl_iq3s_grid, 512, 2); /* from 1 on: doubled */
    for (uint32_t i = 0; i < 2048; i++)
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t code = (uint32_t)((int8_t)(rl_iq1s_grid[i] >> (8 * j)) + 1);
            words[RL_TABLE_PACKED_IQ1 + i] |= code << (8 * (j % 4) + 4 * (j / 4));
        }
    uint32_t *packed = words + RL_TABLE_PACKED;
    copy_bytes8(packed + RL_TABLE_IQ2_XXS, rl_iq2xxs_grid, 256);
    copy_bytes8(packed + RL_TABLE_IQ2_XS, rl_iq2xs_grid, 512);
    copy_bytes8(packed + RL_TABLE_IQ2_S, rl_iq2s_grid, 1024);
    for (uint32_t i = 0; i < 256; i++)
        packed[RL_TABLE_IQ3_XXS + i] = rl_iq3xxs_grid[i];
    for (uint32_t i = 0; i < 512; i++)
        packed[RL_TABLE_IQ3_S + i] = 2 * rl_iq3s_grid[i];
    for (uint32_t i = 0; i < 16; i++) {
        float nl = rl_iq4nl_values[i], mx = rl_mxfp4_values[i];
        memcpy(words + RL_TABLE_IQ4_NL + i, &nl, sizeof nl);
        memcpy(words + RL_TABLE_MXFP4 + i, &mx, sizeof mx);
    }
}
