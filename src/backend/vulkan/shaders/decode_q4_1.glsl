// decode_q4_1.glsl - Q4_1: f16 d, f16 m, 16 bytes of nibbles, low ones first; d q + m.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 20
#define RL_OFFSET
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint i0 = at >> 2;
    vec2 dm = unpackHalf2x16(p.v[i0]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = p.v[i0 + 1u + i];
        c.q[i] = rl_fields4(w, 16.0);
        c.q[4u + i] = rl_fields4(w >> 4, 16.0);
    }
    c.a = vec4(dm.x);
    c.b = vec4(dm.y);
}
