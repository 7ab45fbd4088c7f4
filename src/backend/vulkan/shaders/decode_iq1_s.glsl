// decode_iq1_s.glsl - IQ1_S: f16 d, 32 index bytes, 8 u16 (3 x 4 index bits, scale, sign of the shift).
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 50
#define RL_RAW         4
#define RL_OFFSET
#include "raw.glsl"
#include "run.glsl"
#include "ternary.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = (at + 2u + 4u * chunk) >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    r.w[2] = rl_half(p, at + 34u + 2u * chunk);
    r.w[3] = rl_half(p, at);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint low = rl_align1(uvec2(r.w[0], r.w[1]), at + 2u), high = r.w[2];
    float dl = rl_f16(r.w[3]) * float(2u * ((high >> 12) & 7u) + 1u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint index = ((low >> (8u * i)) & 0xffu) | (((high >> (3u * i)) & 7u) << 8);
        rl_ternary8(index, c.q[2u * i], c.q[2u * i + 1u]);
    }
    c.a = vec4(dl / RL_TERNARY_ONE);
    c.b = vec4((high & 0x8000u) != 0u ? -0.125 * dl : 0.125 * dl);
#ifdef RL_INTEGER
    rl_unbias(c, RL_TERNARY_BIAS);
#endif
}
