// fields.glsl - four small unsigned fields of a word, one in each byte, as factors of a product.
//
// What a decoded weight is (rl_four: four neighbours) depends on how the kernel multiplies.
// RL_INTEGER: four signed bytes of a word, for dot products of bytes (dot.glsl). Else floats.
#ifdef RL_INTEGER
#define rl_four uint
const float RL_BIAS2 = 0.0, RL_BIAS4 = 0.0, RL_BIAS5 = 0.0, RL_BIAS6 = 0.0, RL_BIAS8 = 0.0;

uint rl_fields2(uint w)
{
    return w & 0x03030303u;
}

uint rl_fields4(uint w)
{
    return w & 0x0f0f0f0fu;
}

uint rl_fields4_high(uint w)
{
    return (w >> 4) & 0x0f0f0f0fu;
}

// Here the fields are alone in their bytes.
uint rl_fields5(uint w)
{
    return w;
}

uint rl_fields6(uint w)
{
    return w;
}

// Signed bytes.
uint rl_bytes(uint w)
{
    return w;
}
#else
#define rl_four vec4
// A field moved to the top of the mantissa of a power of two is that power plus the field, exactly. In
// halves that is two fields per operation (integer operations run at half rate on common devices), and
// halves become floats without integer operations. The power is taken off later (rl_unbias).
const float RL_BIAS2 = 4.0, RL_BIAS4 = 16.0, RL_BIAS5 = 32.0, RL_BIAS6 = 64.0, RL_BIAS8 = 384.0;

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

// signed bytes: 256 + 128 + byte
vec4 rl_bytes(uint w)
{
    w ^= 0x80808080u;
    return rl_even_odd(((w << 2) & 0x03fc03fcu) | 0x5c005c00u, ((w >> 6) & 0x03fc03fcu) | 0x5c005c00u);
}
#endif
