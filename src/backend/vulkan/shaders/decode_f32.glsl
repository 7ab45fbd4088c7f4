// decode_f32.glsl - F32: plain words.
//
// A float row has no blocks; chunks are laid over groups of 256 weights so that the eight lanes that
// take the chunks of a group read neighbouring addresses. A row whose length is no multiple of 256
// (RL_FLOAT_ROW) ends in plain chunks.
#define RL_FLOAT_ROW
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 128
// Here `chunk` is 0 for a plain chunk and 1 for one that lies over a group, at its first weight.
uint rl_run(uint chunk, uint run)
{
    return run * (chunk != 0u ? 64u : 8u);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint i = rl_run(chunk, r) >> 2;
        c.q[2u * r] = uintBitsToFloat(p4.v[i]);
        c.q[2u * r + 1u] = uintBitsToFloat(p4.v[i + 1u]);
    }
    c.a = vec4(1.0);
    c.b = vec4(0.0);
}
