// decode_iq1_s.glsl - IQ1_S: f16 d, 32 index bytes, 8 u16 (3 x 4 index bits, scale, sign of the shift).
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 50
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
    uint low = rl_load1(p, at + 2u + 4u * chunk);
    uint high = rl_half(p, at + 34u + 2u * chunk);
    float dl = rl_f16(rl_half(p, at)) * float(2u * ((high >> 12) & 7u) + 1u);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint index = ((low >> (8u * r)) & 0xffu) | (((high >> (3u * r)) & 7u) << 8);
        rl_ternary(rl_code(index), c.q[2u * r], c.q[2u * r + 1u]);
    }
    c.a = vec4(0.5 * dl);
    c.b = vec4((high & 0x8000u) != 0u ? -0.125 * dl : 0.125 * dl);
}
