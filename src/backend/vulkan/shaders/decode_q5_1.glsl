// decode_q5_1.glsl - Q5_1: f16 d, f16 m, u32 of fifth bits, 16 bytes of nibbles; d q + m.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 24
#define RL_OFFSET
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint i0 = at >> 2;
    vec2 dm = unpackHalf2x16(p.v[i0]);
    uint high = p.v[i0 + 1u];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = p.v[i0 + 2u + i];
        uint lo = (w & 0x0f0f0f0fu) | (rl_spread4(high >> (4u * i)) << 4);
        uint hi = ((w >> 4) & 0x0f0f0f0fu) | (rl_spread4(high >> (16u + 4u * i)) << 4);
        c.q[i] = rl_fields5(lo, 32.0);
        c.q[4u + i] = rl_fields5(hi, 32.0);
    }
    c.a = vec4(dm.x);
    c.b = vec4(dm.y);
}
