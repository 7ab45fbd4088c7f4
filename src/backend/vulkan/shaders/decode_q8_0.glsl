// decode_q8_0.glsl - Q8_0: f16 d, 32 signed bytes; d q.
#define RL_BLOCK_BYTES 34
#define RL_RAW         9
#define RL_BIASED
#include "block32.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        c.q[i] = rl_fields8(rl_behind_half(r, at, i) ^ 0x80808080u);
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
    rl_unbias(c, 256.0 + 128.0);
}
