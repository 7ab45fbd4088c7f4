// attn_prep.comp - head norms, rotation and KV append for a batch; single tokens have it in attn.
//
// Grid     x: Hq query heads, then Hkv key heads; y: tokens
// Reads    q, k, v; norm weights; angles
// Writes   q in place (the query halves); the cache rows of the batch's positions
// Push     rl_attn_prep_push
// Numerics f32; the cache rounds to its type            Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "group.glsl"
#include "attn.glsl"

layout(push_constant, std430) uniform Push { rl_attn_prep_push p; };

shared float head_values[D];

// Value i of a head after the norm and the rotation. head [D] before both; angles: pairs (cosine,
// sine) of this token.
float rl_rotated(rl_floats head, rl_floats weight, float scale, rl_floats angles, uint n_rot, uint i)
{
    float x = head.v[i] * scale * weight.v[i];
    if (i >= n_rot) return x;
    uint half_ = n_rot / 2u, j = i < half_ ? i : i - half_;
    uint other = i < half_ ? i + half_ : i - half_;
    float y = head.v[other] * scale * weight.v[other];
    float c = angles.v[2u * j], s = angles.v[2u * j + 1u];
    return i < half_ ? x * c - y * s : x * c + y * s;
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u) return;
    uint t = gl_WorkGroupID.y, h = gl_WorkGroupID.x, id = gl_LocalInvocationIndex;
    bool is_key = h >= p.n_head;
    if (is_key) h -= p.n_head;
    uint64_t at = is_key ? p.k + 4ul * uint64_t((t * p.n_head_kv + h) * D)
                         : p.q + 8ul * uint64_t((t * p.n_head + h) * D);
    rl_floats head = rl_floats(at);
    rl_floats weight = rl_floats(is_key ? p.k_norm : p.q_norm);
    rl_floats angles = rl_floats(p.rope + 4ul * uint64_t(t * p.n_rot));
    float squares = 0.0;
    for (uint i = id; i < D; i += gl_WorkGroupSize.x)
        squares = fma(head.v[i], head.v[i], squares);
    float scale = inversesqrt(rl_group_sum(squares) / float(D) + p.eps);
    for (uint i = id; i < D; i += gl_WorkGroupSize.x)
        head_values[i] = rl_rotated(head, weight, scale, angles, p.n_rot, i);
    barrier();
    if (!is_key) {
        for (uint i = id; i < D; i += gl_WorkGroupSize.x)
            rl_floats_out(at).v[i] = head_values[i];
        return;
    }
    uint64_t row = uint64_t(token.position + t) * (p.n_head_kv * D) + h * D;
    rl_floats value = rl_floats(p.v + 4ul * uint64_t((t * p.n_head_kv + h) * D));
    for (uint i = 2u * id; i < D; i += 2u * gl_WorkGroupSize.x) {
        rl_cache_store2(p.keys, row + i, vec2(head_values[i], head_values[i + 1u]), KEY_F16);
        rl_cache_store2(p.values, row + i, vec2(value.v[i], value.v[i + 1u]), VALUE_F16);
    }
}
