// decode_iq2_xs.glsl - IQ2_XS: f16 d, 32 u16 (9 bits grid index, 7 bits signs), 8 bytes of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 74
#define RL_TABLE_START RL_TABLE_IQ2_XS
#define RL_TABLE_SIZE  1024
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
    uint sc = rl_byte(p, at + 66u + chunk);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint v = (r < 2u ? w.x : w.y) >> (16u * (r & 1u));
        rl_grid(v & 511u, rl_sign8((v >> 9) & 127u), c.q[2u * r], c.q[2u * r + 1u]);
    }
    vec2 s = d * (0.125 + 0.25 * vec2(sc & 15u, sc >> 4));
    c.a = s.xxyy;
    c.b = vec4(0.0);
}
