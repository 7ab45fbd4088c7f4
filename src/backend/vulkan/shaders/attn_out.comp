// attn_out.comp - joins the pieces of attn.comp and applies the output gate.
//
// Grid     x: blocks of 64 values of a head, y: query heads, z: tokens
// Local    64 x 4 invocations: values, and pieces in turn
// Reads    parts; the gates in q
// Writes   y [n][Hq D]
// Push     rl_attn_out_push
// Numerics f32                                         Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint D = 256;
layout(push_constant, std430) uniform Push { rl_attn_out_push p; };

const uint TILE = 32; // of attn.comp
shared vec2 sums[256];

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, t = gl_WorkGroupID.z, h = gl_WorkGroupID.y;
    uint value = gl_WorkGroupID.x * 64u + id % 64u, turn = id / 64u;
    uint count = token.position + t + 1u;
    uint tiles = (count + TILE - 1u) / TILE;
    uint piece = (tiles + p.splits - 1u) / p.splits * TILE;
    uint pieces = (count + piece - 1u) / piece;
    uint64_t stride = uint64_t(p.n_head) * (D + 2u);
    uint64_t first = 4ul * (uint64_t(t * p.splits) * stride + h * (D + 2u));

    float top = -1e30;
    for (uint i = 0u; i < pieces; i++)
        top = max(top, rl_floats(p.parts + first + 4ul * (i * stride)).v[D]);
    vec2 sum = vec2(0.0);
    for (uint i = turn; i < pieces; i += 4u) {
        rl_floats part = rl_floats(p.parts + first + 4ul * (i * stride));
        float f = exp(part.v[D] - top);
        sum += f * vec2(value < D ? part.v[value] : 0.0, part.v[D + 1u]);
    }
    sums[id] = sum;
    barrier();
    if (turn != 0u || value >= D) return;
    for (uint i = 1u; i < 4u; i++)
        sum += sums[id + 64u * i];
    float gate = rl_floats(p.q).v[(t * p.n_head + h) * 2u * D + D + value];
    rl_floats_out(p.y).v[(t * p.n_head + h) * D + value] = sum.x / sum.y * rl_sigmoid(gate);
}
