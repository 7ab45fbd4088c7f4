// row.glsl - rows of floats: F32, F16, BF16. RL_RAW is the number of words of 32 weights.
//
// A float row has no blocks; chunks are laid over groups of 256 weights so that the eight lanes that
// take the chunks of a group read neighbouring addresses. A row whose length is no multiple of 256
// ends in plain chunks.
#define RL_FLOAT_ROW
#define RL_BLOCK       32
#define RL_BLOCK_BYTES (4 * RL_RAW)
#include "raw.glsl"

// Here `chunk` is 0 for a plain chunk and 1 for one that lies over a group, at its first weight.
uint rl_run(uint chunk, uint run)
{
    return run * (chunk != 0u ? 64u : 8u);
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    const uint VECTORS = RL_RAW / 16u; // of four words, per run of eight weights
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    [[unroll]] for (uint i = 0u; i < 4u * VECTORS; i++) {
        uvec4 v = p4.v[VECTORS * (rl_run(chunk, i / VECTORS) >> 3) + i % VECTORS];
        r.w[4u * i] = v.x;
        r.w[4u * i + 1u] = v.y;
        r.w[4u * i + 2u] = v.z;
        r.w[4u * i + 3u] = v.w;
    }
}
