// common.glsl - what every kernel needs: addresses, loads at any even byte, small number tricks.
//
// All buffers are reached by address. Words are 32 bits wide; a load may touch the whole word around
// the bytes that are asked for, and up to the end of the word behind them (RL_VK_PADDING).
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "shader_types.h"

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer rl_words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer rl_words2 { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer rl_words4 { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer rl_floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer rl_floats4 { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer rl_floats_out { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer rl_floats4_out { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer rl_words_out { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer rl_addresses { uint64_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer rl_tiles { rl_vk_tile v[]; };

// What one workgroup hands to others that may already run, those of the next stage (link.glsl) or of its
// own dispatch (router.comp).
#ifdef RL_LINKS
#define RL_HANDED_ON coherent
#else
#define RL_HANDED_ON
#endif
layout(buffer_reference, std430, buffer_reference_align = 4) RL_HANDED_ON buffer rl_values { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) RL_HANDED_ON buffer rl_values4 { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) RL_HANDED_ON buffer rl_numbers { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) RL_HANDED_ON buffer rl_token { rl_vk_token v; };

// A software device. Its driver takes fma() apart and may then regroup it, so products and sums that
// have to be the same in several kernels are spelled out; and it compiles long straight code slowly,
// so loops over rows stay loops.
layout(constant_id = 15) const bool RL_SOFTWARE = false;

// Invocations per workgroup, as a number for array sizes.
layout(constant_id = 14) const uint RL_LOCAL = 128;

float rl_fma(float a, float b, float c)
{
    if (!RL_SOFTWARE) return fma(a, b, c);
    precise float product = a * b;
    precise float sum = product + c;
    return sum;
}

// ---- loads ----------------------------------------------------------------------------------------

uint rl_byte(rl_words p, uint at)
{
    return (p.v[at >> 2] >> (8u * (at & 3u))) & 0xffu;
}

uint rl_half(rl_words p, uint at) // `at` even
{
    return (p.v[at >> 2] >> (8u * (at & 2u))) & 0xffffu;
}

float rl_f16(uint bits)
{
    return unpackHalf2x16(bits & 0xffffu).x;
}

// Where a row's i-th vector of four is in a row that is stored across its chunks of 32: vector k of every
// chunk, then vector k + 1. Lanes with a chunk each then load what lies side by side, not 128 bytes apart.
uint rl_across(uint i, uint n_chunks)
{
    return (i & 7u) * n_chunks + (i >> 3);
}

// Four bits, one to the lowest bit of each byte.
uint rl_spread4(uint bits)
{
    return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}

// ---- functions with care ----------------------------------------------------------------------------

float rl_sigmoid(float x)
{
    return 1.0 / (1.0 + exp(-x));
}

float rl_silu(float x)
{
    return x / (1.0 + exp(-x));
}

vec4 rl_swiglu4(vec4 gate, vec4 up)
{
    precise vec4 v = vec4(rl_silu(gate.x), rl_silu(gate.y), rl_silu(gate.z), rl_silu(gate.w)) * up;
    return v;
}

// log(1 + e) for e in [0, 1], to f32 precision whatever log() is worth: 2 atanh(e / (2 + e)).
float rl_log1p(float e)
{
    float z = e / (2.0 + e), s = z * z;
    float t = 1.0 / 17.0;
    t = fma(t, s, 1.0 / 15.0);
    t = fma(t, s, 1.0 / 13.0);
    t = fma(t, s, 1.0 / 11.0);
    t = fma(t, s, 1.0 / 9.0);
    t = fma(t, s, 1.0 / 7.0);
    t = fma(t, s, 1.0 / 5.0);
    t = fma(t, s, 1.0 / 3.0);
    return 2.0 * fma(t * s, z, z);
}

float rl_softplus(float x)
{
    return max(x, 0.0) + rl_log1p(exp(-abs(x)));
}

// The sum over a team of `lanes` neighbouring lanes (a power of two, at most the subgroup), in every
// one of them; the order of additions is fixed.
float rl_team_sum(float mine, uint lanes)
{
    precise float v = mine;
    for (uint step = lanes >> 1; step > 0u; step >>= 1)
        v += subgroupShuffleXor(v, step);
    return v;
}
