// dot.glsl - the product of one decoded chunk with 32 inputs, in one fixed order of operations.
//
// Every kernel that multiplies single tokens uses these, so that two kernels which split the same
// work differently still agree to the bit; `precise` keeps compilers from doing the sums their way.
//
// RL_INTEGER: an input is a scale per chunk times an integer of 23 bits, which is three signed bytes
// (digits of base 256); sums of products of bytes are exact, and an f32 would not have said more.
float rl_sum8(vec4 x0, vec4 x1)
{
    precise vec4 s = x0 + x1;
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return sum;
}

#ifdef RL_INTEGER
#ifndef RL_SCALES
#define RL_SCALES 1
#endif
const float RL_LARGEST = 4161000.0; // of an input's integer: a bit below 2^22, see rl_digits

struct rl_input {
    uvec4 digits[6]; // [2 place + half]: bytes of the vectors 4 half .. 4 half + 3
    float scale;
#ifdef RL_OFFSET
    vec4 sums; // of the eight inputs of each run
#endif
};

// a . b + c for four signed bytes each.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int rl_dot4_packed(int a, int b, spirv_literal int format);

int rl_dot4(uint a, uint b, int c)
{
    return c + rl_dot4_packed(int(a), int(b), 0);
}

// Four inputs over their scale as digits, lowest first. A float of 2^23 and more has its integer in the
// low bits; 0x8080 on top makes the two lower digits unsigned bytes, 128 too large.
uvec3 rl_digits(vec4 v, float inverse)
{
    uvec4 b = floatBitsToUint(vec4(rl_fma(v.x, inverse, 12615808.0), rl_fma(v.y, inverse, 12615808.0),
                                   rl_fma(v.z, inverse, 12615808.0), rl_fma(v.w, inverse, 12615808.0)));
    uint low = (b.x & 0xffu) | ((b.y & 0xffu) << 8) | ((b.z & 0xffu) << 16) | (b.w << 24);
    uint middle = ((b.x >> 8) & 0xffu) | (b.y & 0xff00u) | ((b.z & 0xff00u) << 8) | ((b.w & 0xff00u) << 16);
    uint high = ((b.x >> 16) & 0xffu) | ((b.y >> 8) & 0xff00u) | (b.z & 0xff0000u) | ((b.w & 0xff0000u) << 8);
    return uvec3(low, middle, high + 0x40404040u) ^ 0x80808080u;
}

uint rl_top(vec4 v) // bits of the largest magnitude; infinities and NaN are larger than all numbers
{
    uvec4 bits = floatBitsToUint(v) & 0x7fffffffu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

float rl_inverse(uint top)
{
    float largest = uintBitsToFloat(top);
    return largest > 1e-30 ? RL_LARGEST / largest : 0.0;
}

float rl_scale(uint top)
{
    return uintBitsToFloat(top) / RL_LARGEST;
}

// acc + chunk . x
float rl_dot_chunk(rl_chunk c, rl_input x, float before)
{
    precise float acc = before;
    [[unroll]] for (uint g = 0u; g < RL_SCALES; g++) {
        int low = 0, middle = 0, high = 0;
        [[unroll]] for (uint i = 0u; i < 8u / RL_SCALES; i++) {
            uint k = g * (8u / RL_SCALES) + i;
            low = rl_dot4(c.q[k], x.digits[k >> 2][k & 3u], low);
            middle = rl_dot4(c.q[k], x.digits[2u + (k >> 2)][k & 3u], middle);
            high = rl_dot4(c.q[k], x.digits[4u + (k >> 2)][k & 3u], high);
        }
        precise float a = c.a[g * (4u / RL_SCALES)] * x.scale;
        acc = rl_fma(a, rl_fma(float(high * 256 + middle), 256.0, float(low)), acc);
    }
#ifdef RL_OFFSET
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        acc = rl_fma(c.b[r], x.sums[r], acc);
#endif
    return acc;
}
#else
struct rl_input {
    vec4 v[8];
#ifdef RL_OFFSET
    vec4 sums;
#endif
};

rl_input rl_input_of(vec4 v[8])
{
    rl_input x;
    x.v = v;
#ifdef RL_OFFSET
    [[unroll]] for (uint r = 0u; r < 4u; r++)
        x.sums[r] = rl_sum8(v[2u * r], v[2u * r + 1u]);
#endif
    return x;
}

float rl_dot8(vec4 q0, vec4 q1, vec4 x0, vec4 x1)
{
    precise float s = q0.x * x0.x;
    s = rl_fma(q0.y, x0.y, s);
    s = rl_fma(q0.z, x0.z, s);
    s = rl_fma(q0.w, x0.w, s);
    s = rl_fma(q1.x, x1.x, s);
    s = rl_fma(q1.y, x1.y, s);
    s = rl_fma(q1.z, x1.z, s);
    s = rl_fma(q1.w, x1.w, s);
    return s;
}

// acc + chunk . x
float rl_dot_chunk(rl_chunk c, rl_input x, float before)
{
    precise float acc = before;
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        acc = rl_fma(c.a[r], rl_dot8(c.q[2u * r], c.q[2u * r + 1u], x.v[2u * r], x.v[2u * r + 1u]), acc);
#ifdef RL_OFFSET
        acc = rl_fma(c.b[r], x.sums[r], acc);
#endif
    }
    return acc;
}
#endif
