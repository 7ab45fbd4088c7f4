// decode_q5_1.glsl - Q5_1: f16 d, f16 m, u32 of fifth bits, 16 bytes of nibbles; d q + m.
#define RL_BLOCK_BYTES 24
#define RL_RAW         6
#define RL_BIASED
#define RL_OFFSET
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    vec2 dm = unpackHalf2x16(r.w[0]);
    uint high = r.w[1];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = r.w[2u + i];
        uint lo = (w & 0x0f0f0f0fu) | (rl_spread4(high >> (4u * i)) << 4);
        uint hi = ((w >> 4) & 0x0f0f0f0fu) | (rl_spread4(high >> (16u + 4u * i)) << 4);
        c.q[i] = rl_fields5(lo);
        c.q[4u + i] = rl_fields5(hi);
    }
    c.a = vec4(dm.x);
    c.b = vec4(dm.y);
    rl_unbias(c, RL_BIAS5);
}
