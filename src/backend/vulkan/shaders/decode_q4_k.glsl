// decode_q4_k.glsl - Q4_K: f16 d, f16 dmin, 12 bytes of scales and minimums, 128 bytes of nibbles.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 144
#define RL_RAW         8
#define RL_SCALES      2
#define RL_BIASED
#define RL_OFFSET
#include "raw.glsl"
#include "scales_k.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    uvec4 head = p4.v[0], w = p4.v[1u + chunk];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        r.w[i] = head[i];
        r.w[4u + i] = w[i];
    }
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    vec2 dm = unpackHalf2x16(r.w[0]), scale, minimum;
    rl_scales_k(uvec3(r.w[1], r.w[2], r.w[3]), chunk >> 1, scale, minimum);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_fields4(r.w[4u + i]);
        c.q[4u + i] = rl_fields4_high(r.w[4u + i]);
    }
    scale *= dm.x;
    minimum *= -dm.y;
    c.a = scale.xxyy;
    c.b = minimum.xxyy;
    rl_unbias(c, RL_BIAS4);
}
