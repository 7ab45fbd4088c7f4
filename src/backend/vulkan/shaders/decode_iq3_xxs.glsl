// decode_iq3_xxs.glsl - IQ3_XXS: f16 d, 64 indices of 4 weights each, 8 words of signs and scale.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 98
#define RL_TABLE_START RL_TABLE_IQ3_XXS
#define RL_TABLE_SIZE  256
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

// The eighth sign makes the number of minus signs even.
uint rl_sign8(uint s7)
{
    return s7 | ((uint(bitCount(s7)) & 1u) << 7);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_load2(p, at + 2u + 8u * chunk);
    uint gas = rl_load1(p, at + 66u + 4u * chunk);
    float d = rl_f16(rl_half(p, at));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint two = (r < 2u ? w.x : w.y) >> (16u * (r & 1u));
        uint signs = rl_sign8((gas >> (7u * r)) & 127u);
        c.q[2u * r] = rl_signed(rl_fields8(rl_table[two & 0xffu], 256.0), signs);
        c.q[2u * r + 1u] = rl_signed(rl_fields8(rl_table[(two >> 8) & 0xffu], 256.0), signs >> 4);
    }
    c.a = vec4(d * (0.25 + 0.5 * float(gas >> 28)));
    c.b = vec4(0.0);
}
