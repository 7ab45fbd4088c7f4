// decode_q5_0.glsl - Q5_0: f16 d, u32 of fifth bits, 16 bytes of nibbles; d (q - 16).
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 22
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint high = rl_load1(p, at + 2u);
    uvec4 w = rl_load4(p, at + 6u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint lo = (w[i] & 0x0f0f0f0fu) | (rl_spread4(high >> (4u * i)) << 4);
        uint hi = ((w[i] >> 4) & 0x0f0f0f0fu) | (rl_spread4(high >> (16u + 4u * i)) << 4);
        c.q[i] = rl_fields5(lo, 32.0 + 16.0);
        c.q[4u + i] = rl_fields5(hi, 32.0 + 16.0);
    }
    c.a = vec4(rl_f16(rl_half(p, at)));
    c.b = vec4(0.0);
}
