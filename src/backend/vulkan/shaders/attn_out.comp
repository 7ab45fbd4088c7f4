// attn_out.comp - joins the pieces of attn.comp and applies the output gate.
//
// Grid     x: blocks of 64 values of a head, y: query heads, z: tokens
// Local    64 x 4 invocations: values, and pieces in turn
// Reads    parts, at most 256 pieces; the gates in q
// Writes   y [n][Hq D]
// Push     rl_attn_out_push
// Numerics f32                                         Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define RL_LINK_CONSTANT 2
#include "link.glsl"

layout(constant_id = 1) const uint D = 256;
layout(push_constant, std430) uniform Push { rl_attn_out_push p; };

const uint TILE = 32; // of attn.comp
const uint AHEAD = 4;
shared vec2 sums[256];
shared float factor[256], tops[64];

void join()
{
    if (WAITS) rl_await(p.token, p.link);
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, t = gl_WorkGroupID.z, h = gl_WorkGroupID.y;
    uint value = gl_WorkGroupID.x * 64u + id % 64u, turn = id / 64u;
    uint count = token.position + t + 1u;
    uint tiles = (count + TILE - 1u) / TILE;
    uint piece = (tiles + p.splits - 1u) / p.splits * TILE;
    uint pieces = (count + piece - 1u) / piece;
    uint64_t stride = 4ul * p.n_head * (D + 2u);
    uint64_t first = p.parts + uint64_t(t * p.splits) * stride + 4ul * h * (D + 2u);
    float gate = rl_values(p.q).v[(t * p.n_head + h) * 2u * D + D + min(value, D - 1u)];

    // every piece's maximum and weight at once
    rl_values mine = rl_values(first + min(id, pieces - 1u) * stride);
    float my_top = id < pieces ? mine.v[D] : -1e30, my_weight = id < pieces ? mine.v[D + 1u] : 0.0;
    float top = subgroupMax(my_top);
    if (gl_SubgroupInvocationID == 0u) tops[gl_SubgroupID] = top;
    barrier();
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        top = max(top, tops[i]);
    factor[id] = exp(my_top - top);
    sums[id] = vec2(0.0, factor[id] * my_weight);
    barrier();
    float weight = 0.0, sum = 0.0;
    for (uint i = turn; i < pieces; i += 4u * AHEAD) {
        float v[AHEAD];
        [[unroll]] for (uint k = 0u; k < AHEAD; k++)
            v[k] = rl_values(first + min(i + 4u * k, pieces - 1u) * stride).v[min(value, D - 1u)];
        [[unroll]] for (uint k = 0u; k < AHEAD; k++)
            if (i + 4u * k < pieces) {
                sum = fma(factor[i + 4u * k], v[k], sum);
                weight += sums[i + 4u * k].y;
            }
    }
    barrier();
    sums[id] = vec2(sum, weight);
    barrier();
    if (turn != 0u || value >= D) return;
    for (uint i = 1u; i < 4u; i++) {
        sum += sums[id + 64u * i].x;
        weight += sums[id + 64u * i].y;
    }
    rl_values(p.y).v[(t * p.n_head + h) * D + value] = sum / weight * rl_sigmoid(gate);
}

void main()
{
    join();
    rl_arrive(p.token, p.link);
}
