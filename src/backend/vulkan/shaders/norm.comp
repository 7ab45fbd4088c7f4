// norm.comp - y = rms(x) * weight, row by row. Batches use it; single tokens have the norm in matvec.
//
// Grid     one workgroup per row
// Push     rl_norm_push
// Numerics f32, sum of squares over the workgroup      Test kernel.vulkan.norm
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "group.glsl"

layout(push_constant, std430) uniform Push { rl_norm_push p; };

void main()
{
    uint64_t row = 4ul * uint64_t(gl_WorkGroupID.x) * p.cols;
    rl_floats x = rl_floats(p.x + row), w = rl_floats(p.weight);
    rl_floats_out y = rl_floats_out(p.y + row);
    float squares = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < p.cols; i += gl_WorkGroupSize.x)
        squares = fma(x.v[i], x.v[i], squares);
    float scale = inversesqrt(rl_group_sum(squares) / float(p.cols) + p.eps);
    for (uint i = gl_LocalInvocationIndex; i < p.cols; i += gl_WorkGroupSize.x)
        y.v[i] = x.v[i] * scale * w.v[i];
}
