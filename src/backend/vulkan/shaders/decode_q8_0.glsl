// decode_q8_0.glsl - Q8_0: f16 d, 32 signed bytes; d q.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 34
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec4 u = rl_load4(p, at + 2u) ^ 0x80808080u, v = rl_load4(p, at + 18u) ^ 0x80808080u;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_fields8(u[i], 256.0 + 128.0);
        c.q[4u + i] = rl_fields8(v[i], 256.0 + 128.0);
    }
    c.a = vec4(rl_f16(rl_half(p, at)));
    c.b = vec4(0.0);
}
