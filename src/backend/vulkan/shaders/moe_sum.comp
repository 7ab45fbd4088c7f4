// moe_sum.comp - y += sum over ranks of weight * expert's result, + scale * shared expert's.
//
// Grid     x: rows, one per invocation; y: tokens
// Push     rl_moe_sum_push
// Numerics f32, in order of rank; as the end of experts_down.comp     Test kernel.vulkan.experts*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant, std430) uniform Push { rl_moe_sum_push p; };

void main()
{
    uint row = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint t = gl_WorkGroupID.y;
    if (row >= p.rows) return;
    rl_floats d = rl_floats(p.d + 4ul * uint64_t(t * p.k) * p.rows);
    rl_floats_out y = rl_floats_out(p.y + 4ul * uint64_t(t) * p.rows);
    precise float sum = y.v[row];
    for (uint rank = 0u; rank < p.k; rank++)
        sum = rl_fma(rl_floats(p.weights).v[t * p.k + rank], d.v[rank * p.rows + row], sum);
    float shared_ = rl_floats(p.shared_ + 4ul * uint64_t(t) * p.rows).v[row];
    sum = rl_fma(rl_sigmoid(rl_floats(p.scale).v[t]), shared_, sum);
    y.v[row] = sum;
}
