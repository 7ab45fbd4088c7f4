// decode_iq4_xs.glsl - IQ4_XS: f16 d, u16 and 4 bytes of 6-bit scales, 8 times 16 bytes as in IQ4_NL.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 136
#define RL_TABLE_START RL_TABLE_IQ4_NL
#define RL_TABLE_SIZE  16
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

vec4 rl_look_up(uint nibbles) // bits 0..3 of each byte
{
    return uintBitsToFloat(uvec4(rl_table[nibbles & 15u], rl_table[(nibbles >> 8) & 15u],
                                 rl_table[(nibbles >> 16) & 15u], rl_table[(nibbles >> 24) & 15u]));
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint i0 = at >> 2;
    uint head = p.v[i0], low = p.v[i0 + 1u];
    uint scale = ((low >> (4u * chunk)) & 15u) | (((head >> (16u + 2u * chunk)) & 3u) << 4);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = p.v[i0 + 2u + 4u * chunk + i];
        c.q[i] = rl_look_up(w);
        c.q[4u + i] = rl_look_up(w >> 4);
    }
    c.a = vec4(rl_f16(head) * (float(scale) - 32.0));
    c.b = vec4(0.0);
}
