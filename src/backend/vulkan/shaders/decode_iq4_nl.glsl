// decode_iq4_nl.glsl - IQ4_NL: f16 d, 16 bytes of nibbles that name one of 16 values, low ones first.
#define RL_BLOCK_BYTES 18
#define RL_RAW         5
#define RL_TABLE_START RL_TABLE_IQ4_NL
#include "block32.glsl"
#include "values16.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = rl_behind_half(r, at, i);
        c.q[i] = rl_look_up(w);
        c.q[4u + i] = rl_look_up(w >> 4);
    }
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
}
