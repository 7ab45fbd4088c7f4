// decode_q3_k.glsl - Q3_K: 32 bytes of third bits, 64 bytes of codes, 12 bytes of 6-bit scales, f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 110
#define RL_RAW         11
#define RL_SCALES      4
#define RL_BIASED
#include "raw.glsl"

// A chunk is 8 bytes: the four 2-bit planes of these hold four runs, 32 weights apart.
uint rl_run(uint chunk, uint run)
{
    return 128u * (chunk >> 2) + 32u * run + 8u * (chunk & 3u);
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint h = chunk & 3u;
    [[unroll]] for (uint i = 0u; i < 3u; i++) {
        r.w[i] = p.v[((at + 8u * h) >> 2) + i];
        r.w[3u + i] = p.v[((at + 32u + 8u * chunk) >> 2) + i];
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        r.w[6u + i] = p.v[((at + 96u) >> 2) + i];
    r.w[10] = rl_half(p, at + 108u);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint half_ = chunk >> 2, h = chunk & 3u;
    uvec2 high = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at) >> (4u * half_);
    uvec2 low = rl_align2(uvec3(r.w[3], r.w[4], r.w[5]), at);
    uvec2 s_low = rl_align2(uvec3(r.w[6], r.w[7], r.w[8]), at);
    uint s_high = rl_align1(uvec2(r.w[8], r.w[9]), at);
    float d = rl_f16(r.w[10]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uvec2 code = ((low >> (2u * i)) & 0x03030303u) | (((high >> i) & 0x01010101u) << 2);
        c.q[2u * i] = rl_fields4(code.x);
        c.q[2u * i + 1u] = rl_fields4(code.y);
        // group g = 8 half + 2 run + h/2
        uint g7 = 2u * i + (h >> 1);
        uint lo = (((i < 2u ? s_low.x : s_low.y) >> (8u * (g7 & 3u))) >> (4u * half_)) & 15u;
        uint hi = ((s_high >> (8u * (g7 & 3u))) >> (2u * (2u * half_ + (i >> 1)))) & 3u;
        c.a[i] = d * (float(lo | (hi << 4)) - 32.0);
    }
    c.b = vec4(0.0);
    rl_unbias(c, RL_BIAS4 + 4.0);
}
