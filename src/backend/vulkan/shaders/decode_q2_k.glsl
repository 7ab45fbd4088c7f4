// decode_q2_k.glsl - Q2_K: 16 bytes (scale, minimum), 64 bytes of codes, f16 d, f16 dmin.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 84
#define RL_RAW         5
#define RL_SCALES      4
#define RL_BIASED
#define RL_OFFSET
#include "raw.glsl"

// A chunk is 8 bytes: the four 2-bit planes of these hold four runs, 32 weights apart.
uint rl_run(uint chunk, uint run)
{
    return 128u * (chunk >> 2) + 32u * run + 8u * (chunk & 3u);
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = at >> 2;
    r.w[0] = p.v[i + 4u + 2u * chunk];
    r.w[1] = p.v[i + 5u + 2u * chunk];
    r.w[2] = p.v[i + 2u * (chunk >> 2)]; // groups of 16: 8 half + 2 run + h/2
    r.w[3] = p.v[i + 2u * (chunk >> 2) + 1u];
    r.w[4] = p.v[i + 20u];
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uvec2 sc = uvec2(r.w[2], r.w[3]) >> (4u * (chunk & 2u));
    vec2 dm = unpackHalf2x16(r.w[4]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[2u * i] = rl_fields2(r.w[0] >> (2u * i));
        c.q[2u * i + 1u] = rl_fields2(r.w[1] >> (2u * i));
    }
    uvec4 s = uvec4(sc.x, sc.x >> 16, sc.y, sc.y >> 16);
    c.a = dm.x * vec4(s & 15u);
    c.b = -dm.y * vec4((s >> 4) & 15u);
    rl_unbias(c, RL_BIAS2);
}
