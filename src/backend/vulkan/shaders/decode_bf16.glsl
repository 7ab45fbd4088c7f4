// decode_bf16.glsl - BF16: the upper half of an f32.
#define RL_RAW 16
#include "row.glsl"

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint u = r.w[2u * i], v = r.w[2u * i + 1u];
        c.q[i] = uintBitsToFloat(uvec4(u << 16, u & 0xffff0000u, v << 16, v & 0xffff0000u));
    }
    c.a = vec4(1.0);
    c.b = vec4(0.0);
}
