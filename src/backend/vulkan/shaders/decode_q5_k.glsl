// decode_q5_k.glsl - Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 176
#define RL_RAW         12
#define RL_SCALES      2
#define RL_BIASED
#define RL_OFFSET
#include "raw.glsl"
#include "scales_k.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    uvec4 head = p4.v[0], high = p4.v[1u + (chunk & 1u)], w = p4.v[3u + chunk];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        r.w[i] = head[i];
        r.w[4u + i] = high[i];
        r.w[8u + i] = w[i];
    }
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint pair = chunk >> 1;
    vec2 dm = unpackHalf2x16(r.w[0]), scale, minimum;
    rl_scales_k(uvec3(r.w[1], r.w[2], r.w[3]), pair, scale, minimum);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint high = r.w[4u + i] >> (2u * pair), w = r.w[8u + i];
        uint lo = (w & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4);
        uint hi = ((w >> 4) & 0x0f0f0f0fu) | ((high & 0x02020202u) << 3);
        c.q[i] = rl_fields5(lo);
        c.q[4u + i] = rl_fields5(hi);
    }
    scale *= dm.x;
    minimum *= -dm.y;
    c.a = scale.xxyy;
    c.b = minimum.xxyy;
    rl_unbias(c, RL_BIAS5);
}
