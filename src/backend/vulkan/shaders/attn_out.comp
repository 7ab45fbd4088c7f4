// attn_out.comp - joins the pieces of attn.comp and applies the output gate.
//
// Grid     x: blocks of 64 values of a head, y: query heads, z: tokens
// Local    64 x 4 invocations: values, and pieces in turn
// Reads    parts, at most 256 pieces; the gates in q
// Writes   y [n][Hq D]
// RL_LINKS: parts, gates and y of one token may be numbered (link.glsl)
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

// Value i of the parts, and in `off` what its number differs by.
float part(uint i, inout uint off)
{
    return TAKES ? uintBitsToFloat(rl_look(p.parts, i, off)) : rl_values(p.parts).v[i];
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (!TAKES && token.halt != 0u) return;
    rl_link_begin(p.token, p.link);
    uint id = gl_LocalInvocationIndex, t = gl_WorkGroupID.z, h = gl_WorkGroupID.y;
    uint value = gl_WorkGroupID.x * 64u + id % 64u, turn = id / 64u;
    uint count = token.position + t + 1u;
    uint tiles = (count + TILE - 1u) / TILE;
    uint piece = (tiles + p.splits - 1u) / p.splits * TILE;
    uint pieces = (count + piece - 1u) / piece;
    uint stride = p.n_head * (D + 2u), first = t * p.splits * stride + h * (D + 2u); // in parts
    uint place = (t * p.n_head + h) * D + value;                                     // in y
    uint gate_at = (t * p.n_head + h) * 2u * D + D + min(value, D - 1u), looks = 0u, off;

    // the gate, and every piece's maximum and weight, at once
    uint mine = first + min(id, pieces - 1u) * stride + D;
    float gate, my_top, my_weight;
    if (TAKES) rl_expect(p.parts, mine);
    do {
        off = 0u;
        gate = TAKES ? uintBitsToFloat(rl_look(p.q, gate_at, off)) : rl_values(p.q).v[gate_at];
        my_top = part(mine, off);
        my_weight = part(mine + 1u, off);
    } while (TAKES && rl_look_again(off, looks));
    if (id >= pieces) {
        my_top = -1e30;
        my_weight = 0.0;
    }
    float top = subgroupMax(my_top);
    if (gl_SubgroupInvocationID == 0u) tops[gl_SubgroupID] = top;
    barrier();
    if (rl_is_void()) {
        if (GIVES && turn == 0u && value < D) rl_give_void(p.y, place);
        return;
    }
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        top = max(top, tops[i]);
    factor[id] = exp(my_top - top);
    sums[id] = vec2(0.0, factor[id] * my_weight);
    barrier();
    float weight = 0.0, sum = 0.0;
    for (uint i = turn; i < pieces; i += 4u * AHEAD) {
        float v[AHEAD];
        looks = 0u;
        do {
            off = 0u;
            [[unroll]] for (uint k = 0u; k < AHEAD; k++)
                v[k] = part(first + min(i + 4u * k, pieces - 1u) * stride + min(value, D - 1u), off);
        } while (TAKES && rl_look_again(off, looks));
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
    float joined = sum / weight * rl_sigmoid(gate);
    if (GIVES)
        rl_give(p.y, place, joined);
    else
        rl_values(p.y).v[place] = joined;
}
