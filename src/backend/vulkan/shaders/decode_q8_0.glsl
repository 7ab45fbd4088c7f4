// decode_q8_0.glsl - Q8_0: f16 d, 32 signed bytes; d q.
#define RL_BLOCK_BYTES 34
#define RL_RAW         9
#ifndef RL_INTEGER
#define RL_BIASED
#endif
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        c.q[i] = rl_bytes(rl_behind_half(r, at, i));
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
    rl_unbias(c, RL_BIAS8);
}
