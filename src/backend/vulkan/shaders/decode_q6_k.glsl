// decode_q6_k.glsl - Q6_K: 128 bytes of low nibbles, 64 bytes of 2-bit planes, 16 signed scales, f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 210
#define RL_RAW         13
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
    uint half_ = chunk >> 2, h = chunk & 3u;
    [[unroll]] for (uint i = 0u; i < 3u; i++) {
        r.w[i] = p.v[((at + 64u * half_ + 8u * h) >> 2) + i];
        r.w[3u + i] = p.v[((at + 64u * half_ + 32u + 8u * h) >> 2) + i];
        r.w[6u + i] = p.v[((at + 128u + 32u * half_ + 8u * h) >> 2) + i];
        r.w[9u + i] = p.v[((at + 192u + 8u * half_) >> 2) + i];
    }
    r.w[12] = rl_half(p, at + 208u);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint h = chunk & 3u;
    uvec2 a = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at);
    uvec2 b = rl_align2(uvec3(r.w[3], r.w[4], r.w[5]), at);
    uvec2 high = rl_align2(uvec3(r.w[6], r.w[7], r.w[8]), at);
    uvec2 sc = rl_align2(uvec3(r.w[9], r.w[10], r.w[11]), at) >> (8u * (h >> 1));
    float d = rl_f16(r.w[12]);
    uvec2 q[4] = uvec2[4](a & 0x0f0f0f0fu, b & 0x0f0f0f0fu, (a >> 4) & 0x0f0f0f0fu,
                          (b >> 4) & 0x0f0f0f0fu);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uvec2 code = q[i] | (((high >> (2u * i)) & 0x03030303u) << 4);
        c.q[2u * i] = rl_fields6(code.x);
        c.q[2u * i + 1u] = rl_fields6(code.y);
    }
    c.a = d * vec4(bitfieldExtract(int(sc.x), 0, 8), bitfieldExtract(int(sc.x), 16, 8),
                   bitfieldExtract(int(sc.y), 0, 8), bitfieldExtract(int(sc.y), 16, 8));
    c.b = vec4(0.0);
    rl_unbias(c, RL_BIAS6 + 32.0);
}
