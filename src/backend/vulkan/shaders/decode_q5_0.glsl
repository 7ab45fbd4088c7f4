// decode_q5_0.glsl - Q5_0: f16 d, u32 of fifth bits, 16 bytes of nibbles; d (q - 16).
#define RL_BLOCK_BYTES 22
#define RL_RAW         6
#define RL_BIASED
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint high = rl_behind_half(r, at, 0u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = rl_behind_half(r, at, 1u + i);
        uint lo = (w & 0x0f0f0f0fu) | (rl_spread4(high >> (4u * i)) << 4);
        uint hi = ((w >> 4) & 0x0f0f0f0fu) | (rl_spread4(high >> (16u + 4u * i)) << 4);
        c.q[i] = rl_fields5(lo);
        c.q[4u + i] = rl_fields5(hi);
    }
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
    rl_unbias(c, RL_BIAS5 + 16.0);
}
