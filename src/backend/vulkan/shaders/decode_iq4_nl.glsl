// decode_iq4_nl.glsl - IQ4_NL: f16 d, 16 bytes of nibbles that name one of 16 values, low ones first.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 18
#define RL_RAW         5
#define RL_TABLE_START RL_TABLE_IQ4_NL
#define RL_TABLE_SIZE  16
#include "raw.glsl"
#include "table.glsl"

vec4 rl_look_up(uint nibbles) // bits 0..3 of each byte
{
    return uintBitsToFloat(uvec4(rl_table[nibbles & 15u], rl_table[(nibbles >> 8) & 15u],
                                 rl_table[(nibbles >> 16) & 15u], rl_table[(nibbles >> 24) & 15u]));
}

uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    [[unroll]] for (uint i = 0u; i < RL_RAW; i++)
        r.w[i] = p.v[(at >> 2) + i];
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = rl_behind_half(r, at, i);
        c.q[i] = rl_look_up(w);
        c.q[4u + i] = rl_look_up(w >> 4);
    }
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
}
