// ternary.glsl - the codebook of IQ1_S and IQ1_M in shared memory: eight weights of two bits per entry.
//
// A code is the top two bits of the half that it becomes: 0, 2 or -2.
#define RL_TABLE_START RL_TABLE_IQ1
#define RL_TABLE_SIZE  1024
#include "table.glsl"

void rl_ternary8(uint index, out vec4 u, out vec4 v)
{
    uint code = (rl_table[index >> 1] >> (16u * (index & 1u))) & 0xffffu;
    uint t = code | (code << 14); // two neighbours are now 16 bits apart
    uvec4 h = uvec4(t << 14, t << 10, t << 6, t << 2) & 0xc000c000u;
    u = vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
    v = vec4(unpackHalf2x16(h.z), unpackHalf2x16(h.w));
}
