// decode_iq1_m.glsl - IQ1_M: 32 index bytes, 16 bytes (3 index bits + shift per 8 weights), 4 u16 of
// scales whose top nibbles are the f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 56
#define RL_OFFSET
#define RL_TABLE_START RL_TABLE_IQ1
#define RL_TABLE_SIZE  1024
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

// Eight 2-bit codes to 0, +2, -2: the code is the top of such a float already.
void rl_ternary(uint code, out vec4 u, out vec4 v)
{
    uvec4 a = uvec4(code << 30, code << 28, code << 26, code << 24) & 0xc0000000u;
    uvec4 b = uvec4(code << 22, code << 20, code << 18, code << 16) & 0xc0000000u;
    u = uintBitsToFloat(a);
    v = uintBitsToFloat(b);
}

uint rl_code(uint index) // of the shared table
{
    return rl_table[index >> 1] >> (16u * (index & 1u));
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint i = at >> 2;
    uint low = p.v[i + chunk];
    uint high = p.v[i + 8u + (chunk >> 1)] >> (16u * (chunk & 1u));
    uvec2 sc = uvec2(p.v[i + 12u], p.v[i + 13u]);
    uint d_bits = ((sc.x >> 12) & 15u) | ((sc.x >> 24) & 0xf0u) | ((sc.y >> 4) & 0xf00u) |
                  ((sc.y >> 16) & 0xf000u);
    float d = rl_f16(d_bits);
    // scale codes of the groups of 16 numbered 2 chunk and 2 chunk + 1
    uint codes = ((chunk >> 2) != 0u ? sc.y : sc.x) >> (16u * ((chunk >> 1) & 1u) + 6u * (chunk & 1u));
    vec2 dl = d * vec2(2u * (codes & 7u) + 1u, 2u * ((codes >> 3) & 7u) + 1u);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint index = ((low >> (8u * r)) & 0xffu) | (((high >> (4u * r)) & 7u) << 8);
        rl_ternary(rl_code(index), c.q[2u * r], c.q[2u * r + 1u]);
    }
    uvec4 sign = uvec4(high << 28, high << 24, high << 20, high << 16) & 0x80000000u;
    c.a = 0.5 * dl.xxyy;
    c.b = uintBitsToFloat(floatBitsToUint(0.125 * dl.xxyy) ^ sign);
}
