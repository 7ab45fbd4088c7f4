// decode_q4_1.glsl - Q4_1: f16 d, f16 m, 16 bytes of nibbles, low ones first; d q + m.
#define RL_BLOCK_BYTES 20
#define RL_RAW         5
#define RL_BIASED
#define RL_OFFSET
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    vec2 dm = unpackHalf2x16(r.w[0]);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        c.q[i] = rl_fields4(r.w[1u + i]);
        c.q[4u + i] = rl_fields4_high(r.w[1u + i]);
    }
    c.a = vec4(dm.x);
    c.b = vec4(dm.y);
    rl_unbias(c, RL_BIAS4);
}
