// decode_iq2_xs.glsl - IQ2_XS: f16 d, 32 u16 (9 bits grid index, 7 bits signs), 8 bytes of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 74
#define RL_RAW         5
#define RL_SCALES      2
#define RL_TABLE_START RL_TABLE_IQ2_XS
#define RL_TABLE_SIZE  1024
#define RL_TABLE_PAIRS
#include "raw.glsl"
#include "run.glsl"
#include "grid.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = (at + 2u + 8u * chunk) >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    r.w[2] = p.v[i + 2u];
    r.w[3] = rl_half(p, at);
    r.w[4] = rl_byte(p, at + 66u + chunk);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at + 2u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint v = (i < 2u ? w.x : w.y) >> (16u * (i & 1u));
        uvec2 e = rl_table_pair(v & 511u);
        rl_grid8(e.x, e.y, rl_sign8((v >> 9) & 127u), c.q[2u * i],
                 c.q[2u * i + 1u]);
    }
    vec2 s = rl_f16(r.w[3]) * (0.125 + 0.25 * vec2(r.w[4] & 15u, r.w[4] >> 4));
    c.a = s.xxyy;
    c.b = vec4(0.0);
}
