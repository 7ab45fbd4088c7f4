// decode_f16.glsl - F16: IEEE halves, exact in f32.
#define RL_RAW 16
#include "row.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        c.q[i] = vec4(unpackHalf2x16(r.w[2u * i]), unpackHalf2x16(r.w[2u * i + 1u]));
    c.a = vec4(1.0);
    c.b = vec4(0.0);
}
