// decode_iq2_s.glsl - IQ2_S: f16 d, 32 index bytes, 32 sign bytes, 8 bytes of index bits, 8 of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 82
#define RL_RAW         7
#define RL_SCALES      2
#define RL_TABLE_START RL_TABLE_IQ2_S
#define RL_TABLE_SIZE  2048
#define RL_TABLE_PAIRS
#include "raw.glsl"
#include "run.glsl"
#include "grid.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = (at + 2u + 4u * chunk) >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    r.w[2] = p.v[i + 8u];
    r.w[3] = p.v[i + 9u];
    r.w[4] = rl_byte(p, at + 66u + chunk);
    r.w[5] = rl_byte(p, at + 74u + chunk);
    r.w[6] = rl_half(p, at);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint low = rl_align1(uvec2(r.w[0], r.w[1]), at + 2u);
    uint signs = rl_align1(uvec2(r.w[2], r.w[3]), at + 2u), high = r.w[4];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uvec2 e = rl_table_pair(((low >> (8u * i)) & 0xffu) | (((high >> (2u * i)) & 3u) << 8));
        rl_grid8(e.x, e.y, (signs >> (8u * i)) & 0xffu, c.q[2u * i],
                 c.q[2u * i + 1u]);
    }
    vec2 s = rl_f16(r.w[6]) * (0.125 + 0.25 * vec2(r.w[5] & 15u, r.w[5] >> 4));
    c.a = s.xxyy;
    c.b = vec4(0.0);
}
