// decode_f32.glsl - F32: plain words.
#define RL_RAW 32
#include "row.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        c.q[i] = uintBitsToFloat(
            uvec4(r.w[4u * i], r.w[4u * i + 1u], r.w[4u * i + 2u], r.w[4u * i + 3u]));
    c.a = vec4(1.0);
    c.b = vec4(0.0);
}
