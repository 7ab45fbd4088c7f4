// ternary.glsl - the codebook of IQ1_S and IQ1_M in shared memory, one entry per eight weights.
//
// RL_INTEGER: a word of nibbles, the weight + 1: the low ones of its bytes, then the high ones. Else 16
// bits: the two top bits of the half that each weight becomes, 0, 2 or -2.
#ifdef RL_INTEGER
#define RL_TABLE_START RL_TABLE_PACKED_IQ1
#define RL_TABLE_SIZE  2048
const float RL_TERNARY_ONE = 1.0, RL_TERNARY_BIAS = 1.0;
#else
#define RL_TABLE_START RL_TABLE_IQ1
#define RL_TABLE_SIZE  1024
const float RL_TERNARY_ONE = 2.0, RL_TERNARY_BIAS = 0.0;
#endif
#include "table.glsl"

void rl_ternary8(uint index, out rl_four u, out rl_four v)
{
#ifdef RL_INTEGER
    u = rl_fields4(rl_table_word(index));
    v = rl_fields4_high(rl_table_word(index));
#else
    uint code = (rl_table_word(index >> 1) >> (16u * (index & 1u))) & 0xffffu;
    uint t = code | (code << 14); // two neighbours are now 16 bits apart
    uvec4 h = uvec4(t << 14, t << 10, t << 6, t << 2) & 0xc000c000u;
    u = vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
    v = vec4(unpackHalf2x16(h.z), unpackHalf2x16(h.w));
#endif
}
