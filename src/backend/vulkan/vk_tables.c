/* vk_tables.c - backend/vulkan/vk_tables.h.
 *
 * Magnitudes stay bytes, in weight order. The ternary grid shrinks to two bits per weight, coded as
 * the two top bits of the f32 that they become: sign, and "two". */
#include "backend/vulkan/vk_tables.h"

#include <string.h>

#include "quant/codebooks.h"

static void copy_grid8(uint32_t *out, const uint64_t *grid, uint32_t n)
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
    memcpy(words + RL_TABLE_IQ3_XXS, rl_iq3xxs_grid, sizeof rl_iq3xxs_grid);
    memcpy(words + RL_TABLE_IQ3_S, rl_iq3s_grid, sizeof rl_iq3s_grid);
    for (uint32_t i = 0; i < 16; i++) {
        float nl = rl_iq4nl_values[i], mx = rl_mxfp4_values[i];
        memcpy(words + RL_TABLE_IQ4_NL + i, &nl, sizeof nl);
        memcpy(words + RL_TABLE_MXFP4 + i, &mx, sizeof mx);
    }
}
