// decode_q4_0.glsl - Q4_0: f16 d, 16 bytes of nibbles, low ones first; d (q - 8).
#define RL_BLOCK_BYTES 18
#define RL_RAW         5
#define RL_BIASED
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = rl_behind_half(r, at, i);
        c.q[i] = rl_fields4(w);
        c.q[4u + i] = rl_fields4_high(w);
    }
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
    rl_unbias(c, RL_BIAS4 + 8.0);
}
