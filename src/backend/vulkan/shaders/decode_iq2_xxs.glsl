// decode_iq2_xxs.glsl - IQ2_XXS: f16 d, per 32 weights 4 grid indices and a word of signs and scale.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 66
#define RL_TABLE_START RL_TABLE_IQ2_XXS
#define RL_TABLE_SIZE  512
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

void rl_grid(uint index, uint signs, out vec4 u, out vec4 v)
{
    u = rl_signed(rl_fields8(rl_table[2u * index], 256.0), signs);
    v = rl_signed(rl_fields8(rl_table[2u * index + 1u], 256.0), signs >> 4);
}

// The eighth sign makes the number of minus signs even.
uint rl_sign8(uint s7)
{
    return s7 | ((uint(bitCount(s7)) & 1u) << 7);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_load2(p, at + 2u + 8u * chunk);
    float d = rl_f16(rl_half(p, at));
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        rl_grid((w.x >> (8u * r)) & 0xffu, rl_sign8((w.y >> (7u * r)) & 127u), c.q[2u * r],
                c.q[2u * r + 1u]);
    c.a = vec4(d * (0.125 + 0.25 * float(w.y >> 28)));
    c.b = vec4(0.0);
}
