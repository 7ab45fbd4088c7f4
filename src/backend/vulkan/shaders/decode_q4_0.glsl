// decode_q4_0.glsl - Q4_0: f16 d, 16 bytes of nibbles, low ones first; d (q - 8).
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 18
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec4 w = rl_load4(p, at + 2u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_fields4(w[i], 16.0 + 8.0);
        c.q[4u + i] = rl_fields4(w[i] >> 4, 16.0 + 8.0);
    }
    c.a = vec4(rl_f16(rl_half(p, at)));
    c.b = vec4(0.0);
}
