// decode_iq3_xxs.glsl - IQ3_XXS: f16 d, 64 indices of 4 weights each, 8 words of signs and scale.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 98
#define RL_RAW         6
#define RL_TABLE_START RL_TABLE_IQ3_XXS
#define RL_TABLE_SIZE  256
#include "raw.glsl"
#include "run.glsl"
#include "grid.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = (at + 2u + 8u * chunk) >> 2, k = (at + 66u + 4u * chunk) >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    r.w[2] = p.v[i + 2u];
    r.w[3] = p.v[k];
    r.w[4] = p.v[k + 1u];
    r.w[5] = rl_half(p, at);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_align2(uvec3(r.w[0], r.w[1], r.w[2]), at + 2u);
    uint gas = rl_align1(uvec2(r.w[3], r.w[4]), at + 2u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint two = (i < 2u ? w.x : w.y) >> (16u * (i & 1u));
        uint signs = rl_sign8((gas >> (7u * i)) & 127u);
        rl_grid8(rl_table_word(two & 0xffu), rl_table_word((two >> 8) & 0xffu), signs, c.q[2u * i],
                 c.q[2u * i + 1u]);
    }
    c.a = vec4(rl_f16(r.w[5]) * (0.25 + 0.5 * float(gas >> 28)));
    c.b = vec4(0.0);
}
