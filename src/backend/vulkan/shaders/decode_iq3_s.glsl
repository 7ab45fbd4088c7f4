// decode_iq3_s.glsl - IQ3_S: f16 d, 64 index bytes, 8 bytes of ninth bits, 32 sign bytes, 4 of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 110
#define RL_RAW         8
#define RL_TABLE_START RL_TABLE_IQ3_S
#define RL_TABLE_SIZE  512
#include "raw.glsl"
#include "run.glsl"
#include "grid.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = (at + 2u + 8u * chunk) >> 2, k = (at + 74u + 4u * chunk) >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    r.w[2] = p.v[i + 2u];
    r.w[3] = p.v[k];
    r.w[4] = p.v[k + 1u];
    r.w[5] = rl_half(p, at);
    r.w[6] = rl_byte(p, at + 66u + chunk);
    r.w[7] = rl_byte(p, at + 106u + (chunk >> 1)) >> (4u * (chunk & 1u));
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at + 2u);
    uint signs = rl_align1(uvec2(r.w[3], r.w[4]), at + 2u), high = r.w[6];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint two = (i < 2u ? w.x : w.y) >> (16u * (i & 1u));
        uint bits = high >> (2u * i), s = (signs >> (8u * i)) & 0xffu;
        uint k = (two & 0xffu) | ((bits & 1u) << 8), l = ((two >> 8) & 0xffu) | ((bits & 2u) << 7);
        rl_grid8(rl_table_word(k), rl_table_word(l), s, c.q[2u * i], c.q[2u * i + 1u]);
    }
    c.a = vec4(rl_f16(r.w[5]) * (0.5 + float(r.w[7] & 15u))); // the table has doubled magnitudes
    c.b = vec4(0.0);
}
