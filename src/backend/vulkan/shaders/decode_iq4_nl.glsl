// decode_iq4_nl.glsl - IQ4_NL: f16 d, 16 bytes of nibbles that name one of 16 values, low ones first.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 18
#define RL_TABLE_START RL_TABLE_IQ4_NL
#define RL_TABLE_SIZE  16
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

vec4 rl_look_up(uint nibbles) // bits 0..3 of each byte
{
    return uintBitsToFloat(uvec4(rl_table[nibbles & 15u], rl_table[(nibbles >> 8) & 15u],
                                 rl_table[(nibbles >> 16) & 15u], rl_table[(nibbles >> 24) & 15u]));
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec4 w = rl_load4(p, at + 2u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_look_up(w[i]);
        c.q[4u + i] = rl_look_up(w[i] >> 4);
    }
    c.a = vec4(rl_f16(rl_half(p, at)));
    c.b = vec4(0.0);
}
