// block32.glsl - blocks of 32 weights, which are one chunk and a few words in a row.
#define RL_BLOCK 32
#include "raw.glsl"

uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    [[unroll]] for (uint i = 0u; i < RL_RAW; i++)
        r.w[i] = p.v[(at >> 2) + i];
}
