// decode_iq1_m.glsl - IQ1_M: 32 index bytes, 16 bytes (3 index bits + shift per 8 weights), 4 u16 of
// scales whose top nibbles are the f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 56
#define RL_RAW         4
#define RL_SCALES      2
#define RL_OFFSET
#include "raw.glsl"
#include "run.glsl"
#include "ternary.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = at >> 2;
    uvec2 sc = rl_words2(uint64_t(p) + at).v[6];
    r.w[0] = p.v[i + chunk];
    r.w[1] = p.v[i + 8u + (chunk >> 1)];
    r.w[2] = sc.x;
    r.w[3] = sc.y;
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint low = r.w[0], high = r.w[1] >> (16u * (chunk & 1u));
    uvec2 sc = uvec2(r.w[2], r.w[3]);
    uint d_bits = ((sc.x >> 12) & 15u) | ((sc.x >> 24) & 0xf0u) | ((sc.y >> 4) & 0xf00u) |
                  ((sc.y >> 16) & 0xf000u);
    float d = rl_f16(d_bits);
    // scale codes of the groups of 16 numbered 2 chunk and 2 chunk + 1
    uint codes = ((chunk >> 2) != 0u ? sc.y : sc.x) >> (16u * ((chunk >> 1) & 1u) + 6u * (chunk & 1u));
    vec2 dl = d * vec2(2u * (codes & 7u) + 1u, 2u * ((codes >> 3) & 7u) + 1u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint index = ((low >> (8u * i)) & 0xffu) | (((high >> (4u * i)) & 7u) << 8);
        rl_ternary8(index, c.q[2u * i], c.q[2u * i + 1u]);
    }
    uvec4 sign = uvec4(high << 28, high << 24, high << 20, high << 16) & 0x80000000u;
    c.a = dl.xxyy / RL_TERNARY_ONE;
    c.b = uintBitsToFloat(floatBitsToUint(0.125 * dl.xxyy) ^ sign);
#ifdef RL_INTEGER
    rl_unbias(c, RL_TERNARY_BIAS);
#endif
}
