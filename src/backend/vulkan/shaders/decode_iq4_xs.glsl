// decode_iq4_xs.glsl - IQ4_XS: f16 d, u16 and 4 bytes of 6-bit scales, 8 times 16 bytes as in IQ4_NL.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 136
#define RL_RAW         6
#define RL_TABLE_START RL_TABLE_IQ4_NL
#include "raw.glsl"
#include "run.glsl"
#include "values16.glsl"

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    uint i = at >> 2;
    r.w[0] = p.v[i];
    r.w[1] = p.v[i + 1u];
    [[unroll]] for (uint k = 0u; k < 4u; k++)
        r.w[2u + k] = p.v[i + 2u + 4u * chunk + k];
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint head = r.w[0], low = r.w[1];
    uint scale = ((low >> (4u * chunk)) & 15u) | (((head >> (16u + 2u * chunk)) & 3u) << 4);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_look_up(r.w[2u + i]);
        c.q[4u + i] = rl_look_up(r.w[2u + i] >> 4);
    }
    c.a = vec4(rl_f16(head) * (float(scale) - 32.0));
    c.b = vec4(0.0);
}
