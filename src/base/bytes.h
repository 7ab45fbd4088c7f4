/* bytes.h - little-endian loads from unaligned bytes, f16/bf16, and size arithmetic that cannot
 * wrap. Everything is inline; the host must be little-endian (asserted at compile time). */
#ifndef RL_BASE_BYTES_H
#define RL_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "GGUF data is used as it lies in the file");

#define RL_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline uint16_t rl_load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t rl_load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t rl_load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float rl_f32_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint32_t rl_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* IEEE binary16 to binary32, exact, subnormals and signed zero included. */
static inline float rl_f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) /* infinity and NaN keep their mantissa */
        return rl_f32_from_bits(sign | 0x7f800000 | rest);
    /* Subnormals: a 1 in front, taken off again. Multiplying the bits by 2^112 would do for both, but
     * processors take a hundred cycles to multiply subnormal numbers. */
    if (!(h & 0x7c00))
        return rl_f32_from_bits(
            sign | rl_f32_bits(rl_f32_from_bits(rest + 0x38800000) - rl_f32_from_bits(0x38800000)));
    return rl_f32_from_bits(sign | (rest + 0x38000000));
}

/* binary32 to binary16, round to nearest, ties to even; overflow gives infinity. */
static inline uint16_t rl_f16_from_f32(float value)
{
    uint32_t bits = rl_f32_bits(value);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    uint32_t mag = bits & 0x7fffffff;
    if (mag >= 0x7f800000) /* infinity or NaN */
        return (uint16_t)(sign | 0x7c00 | (mag > 0x7f800000 ? 0x200 : 0));
    if (mag >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) { /* subnormal in f16: let the FPU round at 2^-24 */
        float shifted = rl_f32_from_bits(mag) + 0.5f;
        return (uint16_t)(sign | (rl_f32_bits(shifted) - 0x3f000000));
    }
    mag += 0xfff + ((mag >> 13) & 1);
    return (uint16_t)(sign | ((mag - 0x38000000) >> 13));
}

static inline float rl_f32_from_bf16(uint16_t h)
{
    return rl_f32_from_bits((uint32_t)h << 16);
}

/* *out = a * b or a + b; false when the result does not fit, and *out is then untouched. */
static inline bool rl_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool rl_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* The next multiple of `align`, a power of two. The caller knows that it does not wrap. */
static inline uint64_t rl_align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

#endif
