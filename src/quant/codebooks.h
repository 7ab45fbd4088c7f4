/* codebooks.h - the constant tables of the formats that store indices instead of numbers.
 *
 * Entry byte j (least significant first) is weight j of the group. The tables are part of the file
 * format; tools/codebooks/ holds them as text and tools/make_codebooks.py writes codebooks.c. */
#ifndef RL_QUANT_CODEBOOKS_H
#define RL_QUANT_CODEBOOKS_H

#include <stdint.h>

extern const uint64_t rl_iq2xxs_grid[256]; /* 8 magnitudes of 8, 25, 43            */
extern const uint64_t rl_iq2xs_grid[512];
extern const uint64_t rl_iq2s_grid[1024];
extern const uint32_t rl_iq3xxs_grid[256]; /* 4 magnitudes of 4 .. 62              */
extern const uint32_t rl_iq3s_grid[512];   /* 4 odd magnitudes of 1 .. 15          */
extern const uint64_t rl_iq1s_grid[2048];  /* 8 signed bytes of -1, 0, 1           */
extern const uint8_t rl_ksigns[128];       /* 7 sign bits, the eighth makes parity even */
extern const int8_t rl_iq4nl_values[16];
extern const int8_t rl_mxfp4_values[16]; /* twice the E2M1 values                */

#endif
