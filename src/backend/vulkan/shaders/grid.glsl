// grid.glsl - codebook entries of magnitudes in shared memory, with signs that come beside them.
//
// RL_INTEGER: a magnitude is a byte. Else it is the low three bits of a half's exponent and the high
// five of its mantissa; the other bits are the same for all of them (vk_tables.c). Bytes 0 to 3 of a
// word are then the weights 0, 2, 1, 3, so that a shift leaves two neighbours in one word of halves.
#ifdef RL_INTEGER
#define RL_TABLE_SHIFT RL_TABLE_PACKED
#endif
#include "table.glsl"

#ifdef RL_INTEGER
// Four magnitudes with the signs of the lowest four bits of s, as signed bytes; no magnitude is zero.
uint rl_signed4(uint magnitudes, uint s)
{
    uint minus = rl_spread4(s);
    return (magnitudes ^ (minus * 255u)) + minus;
}

void rl_grid8(uint first, uint second, uint s, out uint u, out uint v)
{
    u = rl_signed4(first, s);
    v = rl_signed4(second, s >> 4);
}
#else
const uint RL_GRID_BITS = 0x1fe01fe0u, RL_GRID_BASE = 0x40004000u;

// Eight weights of two words, and their signs, bit j of s (no others) for weight j.
void rl_grid8(uint first, uint second, uint s, out vec4 u, out vec4 v)
{
    uint t = s | (s << 15); // two neighbours' signs are now 16 bits apart
    uvec4 sign = (uvec4(t << 15, t << 13, t << 11, t << 9) & 0x80008000u) | RL_GRID_BASE;
    uvec4 h = (uvec4(first << 5, first >> 3, second << 5, second >> 3) & RL_GRID_BITS) ^ sign;
    u = vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
    v = vec4(unpackHalf2x16(h.z), unpackHalf2x16(h.w));
}
#endif

// The eighth sign makes the number of minus signs even.
uint rl_sign8(uint s7)
{
    return s7 | ((uint(bitCount(s7)) & 1u) << 7);
}
