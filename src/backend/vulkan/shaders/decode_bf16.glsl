// decode_bf16.glsl - BF16: the upper half of an f32.
//
// A float row has no blocks; chunks are laid over groups of 256 weights so that the eight lanes that
// take the chunks of a group read neighbouring addresses. A row whose length is no multiple of 256
// (RL_FLOAT_ROW) ends in plain chunks.
#define RL_FLOAT_ROW
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 64
#define RL_RAW         16
#include "raw.glsl"

// Here `chunk` is 0 for a plain chunk and 1 for one that lies over a group, at its first weight.
uint rl_run(uint chunk, uint run)
{
    return run * (chunk != 0u ? 64u : 8u);
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uvec4 v = p4.v[rl_run(chunk, i) >> 3];
        r.w[4u * i] = v.x;
        r.w[4u * i + 1u] = v.y;
        r.w[4u * i + 2u] = v.z;
        r.w[4u * i + 3u] = v.w;
    }
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint u = r.w[2u * i], v = r.w[2u * i + 1u];
        c.q[i] = uintBitsToFloat(uvec4(u << 16, u & 0xffff0000u, v << 16, v & 0xffff0000u));
    }
    c.a = vec4(1.0);
    c.b = vec4(0.0);
}
