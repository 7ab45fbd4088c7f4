// argmax.comp - the largest of n numbers and its index; the lower index on ties.
//
// Run twice: over the numbers in pieces, then with PAIRS over the pieces' winners.
// Grid     x: pieces of per_group entries        Push  rl_argmax_push
// Writes   best [WorkGroupID.x]: (bits of the number, index)
// Test     kernel.vulkan.argmax
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint PAIRS = 0;
layout(push_constant, std430) uniform Push { rl_argmax_push p; };

layout(buffer_reference, std430, buffer_reference_align = 8) buffer pairs { uvec2 v[]; };
shared uvec2 best[256];

uvec2 larger(uvec2 a, uvec2 b)
{
    float x = uintBitsToFloat(a.x), y = uintBitsToFloat(b.x);
    return y > x || (y == x && b.y < a.y) ? b : a;
}

void main()
{
    if (rl_token(p.token).v.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, first = gl_WorkGroupID.x * p.per_group;
    uint end = min(first + p.per_group, p.n);
    uvec2 m = uvec2(floatBitsToUint(-3.4e38), 0xffffffffu);
    for (uint i = first + id; i < end; i += gl_WorkGroupSize.x)
        m = larger(m, PAIRS != 0u ? pairs(p.x).v[i] : uvec2(rl_words(p.x).v[i], i));
    best[id] = m;
    barrier();
    for (uint step = gl_WorkGroupSize.x / 2u; step > 0u; step /= 2u) {
        if (id < step) best[id] = larger(best[id], best[id + step]);
        barrier();
    }
    if (id == 0u) pairs(p.best).v[gl_WorkGroupID.x] = best[0];
}
