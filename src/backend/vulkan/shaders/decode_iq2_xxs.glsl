// decode_iq2_xxs.glsl - IQ2_XXS: f16 d, per 32 weights 4 grid indices and a word of signs and scale.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 66
#define RL_RAW         4
#define RL_TABLE_START RL_TABLE_IQ2_XXS
#define RL_TABLE_SIZE  512
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
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at + 2u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uvec2 e = rl_table_pair((w.x >> (8u * i)) & 0xffu);
        rl_grid8(e.x, e.y, rl_sign8((w.y >> (7u * i)) & 127u), c.q[2u * i],
                 c.q[2u * i + 1u]);
    }
    c.a = vec4(rl_f16(r.w[3]) * (0.125 + 0.25 * float(w.y >> 28)));
    c.b = vec4(0.0);
}
