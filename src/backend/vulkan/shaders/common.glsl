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
layout(buffer_reference, std430, buffer_reference_align = 16) buffer rl_token { rl_vk_token v; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer rl_tiles { rl_vk_tile v[]; };

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

// ---- small unsigned fields to floats ----------------------------------------------------------------
// A field moved to the top of the mantissa of a power of two is that power plus the field, exactly. In
// halves that is two fields per operation (integer operations run at half rate on common devices), and
// halves become floats without integer operations. The power is taken off later (rl_unbias).

// The halves of a: weights 0 and 2; of b: weights 1 and 3.
vec4 rl_even_odd(uint a, uint b)
{
    vec2 even = unpackHalf2x16(a), odd = unpackHalf2x16(b);
    return vec4(even.x, odd.x, even.y, odd.y);
}

// bits 0..3 of each byte: 16 + field
vec4 rl_fields4(uint w)
{
    return rl_even_odd(((w << 6) & 0x03c003c0u) | 0x4c004c00u, ((w >> 2) & 0x03c003c0u) | 0x4c004c00u);
}

// bits 4..7 of each byte: 16 + field
vec4 rl_fields4_high(uint w)
{
    return rl_even_odd(((w << 2) & 0x03c003c0u) | 0x4c004c00u, ((w >> 6) & 0x03c003c0u) | 0x4c004c00u);
}

// bits 0..1 of each byte: 4 + field
vec4 rl_fields2(uint w)
{
    return rl_even_odd(((w << 8) & 0x03000300u) | 0x44004400u, (w & 0x03000300u) | 0x44004400u);
}

// bits 0..4 of each byte: 32 + field
vec4 rl_fields5(uint w)
{
    return rl_even_odd(((w << 5) & 0x03e003e0u) | 0x50005000u, ((w >> 3) & 0x03e003e0u) | 0x50005000u);
}

// bits 0..5 of each byte: 64 + field
vec4 rl_fields6(uint w)
{
    return rl_even_odd(((w << 4) & 0x03f003f0u) | 0x54005400u, ((w >> 4) & 0x03f003f0u) | 0x54005400u);
}

// whole bytes: 256 + field
vec4 rl_fields8(uint w)
{
    return rl_even_odd(((w << 2) & 0x03fc03fcu) | 0x5c005c00u, ((w >> 6) & 0x03fc03fcu) | 0x5c005c00u);
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
