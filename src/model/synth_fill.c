/* synth_fill.c - random blocks of every type, with a wanted spread of the decoded weights.
 *
 * All codes and group scales are random bits, so that every value of each occurs. Only two things
 * are chosen: the scale d of the block, so that the weights have the wanted root mean square, and
 * the minimum of the types that have one, so that the weights lie around zero (it follows the group
 * scale, with the lowest bits random, so that a kernel which confuses the two is caught).
 * No library function is used whose last bit could differ between machines. */
#include "model/synth_internal.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

/* ---- random bits ---------------------------------------------------------------------------- */

/* xoshiro256++ by Blackman and Vigna, seeded by splitmix64. */
typedef struct generator {
    uint64_t s[4];
} generator;

static uint64_t mix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rl_synth_seed(uint64_t a, uint64_t b)
{
    uint64_t state = a;
    state = mix64(&state) ^ b;
    return mix64(&state);
}

static generator generator_of(uint64_t seed)
{
    generator g;
    for (int i = 0; i < 4; i++)
        g.s[i] = mix64(&seed);
    return g;
}

static inline uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static inline uint64_t next(generator *g)
{
    uint64_t result = rotate(g->s[0] + g->s[3], 23) + g->s[0], t = g->s[1] << 17;
    g->s[2] ^= g->s[0];
    g->s[3] ^= g->s[1];
    g->s[1] ^= g->s[2];
    g->s[0] ^= g->s[3];
    g->s[2] ^= t;
    g->s[3] = rotate(g->s[3], 45);
    return result;
}

static void fill_bits(generator *g, uint8_t *out, size_t bytes)
{
    generator local = *g; /* stays in registers */
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        uint64_t word = next(&local);
        memcpy(out + i, &word, 8);
    }
    if (i < bytes) {
        uint64_t word = next(&local);
        memcpy(out + i, &word, bytes - i);
    }
    *g = local;
}

/* ---- F32 ------------------------------------------------------------------------------------ */

static float float_of(const synth_fill *fill, uint64_t bits)
{
    double u = (double)(bits >> 11) * 0x1p-53; /* [0, 1) */
    double along = (fill->b - fill->a) * u;    /* a statement of its own: never fused */
    switch (fill->shape) {
    case SYNTH_SPREAD: return (float)((2 * u - 1) * fill->a * 1.7320508075688772);
    case SYNTH_RANGE: return (float)(fill->a + along);
    case SYNTH_SIGNED: return (float)((fill->a + along) * (bits & 1 ? 1 : -1));
    case SYNTH_DECAY: break;
    }
    static const double powers[] = { 1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125 };
    return (float)(-powers[bits & 7] * (1 + u));
}

static void fill_floats(const synth_fill *fill, generator *g, uint8_t *out, uint64_t n)
{
    generator local = *g;
    float scale = (float)(fill->a * 1.7320508075688772 * 0x1p-31);
    uint64_t i = 0;
    /* The routers of a large model are 200 MB of these: two numbers from one word. */
    for (; fill->shape == SYNTH_SPREAD && i + 2 <= n; i += 2) {
        uint64_t word = next(&local);
        float pair[2] = { (float)(int32_t)word * scale, (float)(int32_t)(word >> 32) * scale };
        memcpy(out + i * 4, pair, 8);
    }
    for (; i < n; i++) {
        float value = float_of(fill, next(&local));
        memcpy(out + i * 4, &value, 4);
    }
    *g = local;
}

static void fill_halves(const synth_fill *fill, generator *g, uint8_t *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = float_of(fill, next(g));
        uint16_t half = fill->type == RL_QUANT_F16 ? rl_f16_from_f32(value)
                                                   : (uint16_t)(rl_f32_bits(value) >> 16);
        memcpy(out + i * 2, &half, 2);
    }
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* The scale of one block: `scale` times a number in [0.5, 1.5) that the random bits give which lie
 * where the scale belongs. */
static inline uint16_t pick_scale(uint16_t bits, float scale, bool either_sign)
{
    float d = scale * (0.5f + (float)(bits >> 1) * 0x1p-15f);
    return rl_f16_from_f32(either_sign && bits & 1 ? -d : d);
}

static inline void put_u16(uint8_t *field, uint16_t value)
{
    memcpy(field, &value, 2);
}

static inline void put_scale(uint8_t *field, float scale, bool either_sign)
{
    put_u16(field, pick_scale(rl_load_u16(field), scale, either_sign));
}

/* Scale, and the minimum that puts the middle of the codes on zero. */
static inline void put_scale_and_minimum(uint8_t *d, uint8_t *minimum, float scale, float middle)
{
    uint16_t bits = pick_scale(rl_load_u16(d), scale, false);
    put_u16(d, bits);
    put_u16(minimum, rl_f16_from_f32(middle * rl_f32_from_f16(bits)));
}

/* Six-bit minimums close to the six-bit scales: equal but for the lowest two bits. */
static void couple_minimums(uint8_t scales[12])
{
    for (int j = 0; j < 4; j++) {
        uint8_t low = scales[8 + j] & 15;
        scales[8 + j] = (uint8_t)(low | (low ^ ((scales[8 + j] >> 4) & 3)) << 4);
        scales[4 + j] = (uint8_t)(scales[j] ^ (scales[4 + j] & 3));
    }
}

/* Its scale stands in the top nibbles of four words. */
static void put_iq1_m_scale(rl_block_iq1_m *b, float scale)
{
    uint16_t words[4], bits = 0;
    for (int k = 0; k < 4; k++) {
        words[k] = rl_load_u16(b->scales[k]);
        bits = (uint16_t)(bits | words[k] >> 12 << 4 * k);
    }
    bits = pick_scale(bits, scale, false);
    for (int k = 0; k < 4; k++)
        put_u16(b->scales[k], (uint16_t)((words[k] & 0x0fff) | ((bits >> 4 * k) & 15) << 12));
}

/* The scale is a power of two: the one below and the one above `scale`, as often as the mean square
 * asks for, and now and then their neighbours. */
static uint8_t pick_mxfp4(uint8_t bits, float scale)
{
    int exponent;
    float fraction = 2 * frexpf(scale, &exponent); /* exact; [1, 2) times 2^(exponent - 1) */
    float square = fraction * fraction;
    int code = 127 + exponent + ((float)(bits & 63) < (square - 1) * (64 / 3.0f));
    code += (bits >> 6 == 3) - (bits >> 6 == 0);
    return (uint8_t)(code < 2 ? 2 : code > 254 ? 254 : code);
}

/* The scale is a small float: one of seven around `code`. */
static uint8_t pick_nvfp4(uint8_t bits, int code)
{
    code += bits % 7 - 3;
    return (uint8_t)(code < 1 ? 1 : code > 0x7e ? 0x7e : code);
}

static int nvfp4_code(float scale)
{
    int code = 1;
    float doubled = 2 * scale; /* the table of fp4 values is doubled */
    while (code < 0x7e) {
        int e = (code + 1) >> 3, m = (code + 1) & 7;
        float value = e ? (8 + m) * 0x1p-3f : m * 0x1p-3f;
        for (int i = 7; i > (e ? e : 1); i--)
            value *= 0.5f;
        for (int i = 7; i < e; i++)
            value *= 2;
        if (value > doubled) break;
        code++;
    }
    return code;
}

static void fix_blocks(uint32_t type, float scale, uint8_t *blocks, uint64_t n)
{
#define EACH(lower, ...)                                                                           \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        rl_block_##lower *b = (rl_block_##lower *)blocks + i;                                      \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    break
    int code;
    switch (type) {
    case RL_QUANT_Q4_0: EACH(q4_0, put_scale(b->d, scale, true););
    case RL_QUANT_Q4_1: EACH(q4_1, put_scale_and_minimum(b->d, b->m, scale, -7.5f););
    case RL_QUANT_Q5_0: EACH(q5_0, put_scale(b->d, scale, true););
    case RL_QUANT_Q5_1: EACH(q5_1, put_scale_and_minimum(b->d, b->m, scale, -15.5f););
    case RL_QUANT_Q8_0: EACH(q8_0, put_scale(b->d, scale, false););
    case RL_QUANT_Q2_K:
        EACH(
            q2_k, put_scale_and_minimum(b->d, b->dmin, scale, 1.5f); for (int k = 0; k < 16; k++) {
                uint8_t low = b->scales[k] & 15;
                b->scales[k] = (uint8_t)(low | (low ^ ((b->scales[k] >> 4) & 1)) << 4);
            });
    case RL_QUANT_Q3_K: EACH(q3_k, put_scale(b->d, scale, false););
    case RL_QUANT_Q4_K:
        EACH(q4_k, put_scale_and_minimum(b->d, b->dmin, scale, 7.5f); couple_minimums(b->scales););
    case RL_QUANT_Q5_K:
        EACH(q5_k, put_scale_and_minimum(b->d, b->dmin, scale, 15.5f); couple_minimums(b->scales););
    case RL_QUANT_Q6_K: EACH(q6_k, put_scale(b->d, scale, false););
    case RL_QUANT_IQ2_XXS: EACH(iq2_xxs, put_scale(b->d, scale, false););
    case RL_QUANT_IQ2_XS: EACH(iq2_xs, put_scale(b->d, scale, false););
    case RL_QUANT_IQ2_S: EACH(iq2_s, put_scale(b->d, scale, false););
    case RL_QUANT_IQ3_XXS: EACH(iq3_xxs, put_scale(b->d, scale, false););
    case RL_QUANT_IQ3_S: EACH(iq3_s, put_scale(b->d, scale, false););
    case RL_QUANT_IQ1_S: EACH(iq1_s, put_scale(b->d, scale, false););
    case RL_QUANT_IQ1_M: EACH(iq1_m, put_iq1_m_scale(b, scale););
    case RL_QUANT_IQ4_NL: EACH(iq4_nl, put_scale(b->d, scale, true););
    case RL_QUANT_IQ4_XS: EACH(iq4_xs, put_scale(b->d, scale, false););
    case RL_QUANT_TQ1_0: EACH(tq1_0, put_scale(b->d, scale, false););
    case RL_QUANT_TQ2_0: EACH(tq2_0, put_scale(b->d, scale, true););
    case RL_QUANT_MXFP4: EACH(mxfp4, b->e = pick_mxfp4(b->e, scale););
    case RL_QUANT_NVFP4:
        code = nvfp4_code(scale);
        EACH(nvfp4, for (int k = 0; k < 4; k++) b->scales[k] = pick_nvfp4(b->scales[k], code););
    case RL_QUANT_Q1_0: EACH(q1_0, put_scale(b->d, scale, false););
    case RL_QUANT_Q2_0: EACH(q2_0, put_scale(b->d, scale, true););
    default: RL_ASSERT(!"a type that weights are stored in");
    }
#undef EACH
}

static bool is_float(uint32_t type)
{
    return type == RL_QUANT_F32 || type == RL_QUANT_F16 || type == RL_QUANT_BF16;
}

void rl_synth_fill_init(synth_fill *fill)
{
    enum { BLOCKS = 256, MOST = 256 };
    static const float sample_scale = 0.0078125f; /* in the middle of what all types can hold */
    uint8_t block[BLOCKS * 256];                  /* the largest block has 210 bytes */
    float weights[MOST];
    double sum = 0;
    fill->unit = 1;
    RL_ASSERT(fill->shape == SYNTH_SPREAD || fill->type == RL_QUANT_F32);
    if (is_float(fill->type)) return;
    const rl_quant_info *info = rl_quant_find(fill->type);
    generator g = generator_of(1);
    RL_ASSERT(info && info->block <= MOST && info->block_bytes <= 256);
    fill_bits(&g, block, BLOCKS * (size_t)info->block_bytes);
    fix_blocks(fill->type, sample_scale, block, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        rl_quant_decode(info, block + (size_t)i * info->block_bytes, info->block, weights);
        for (uint32_t k = 0; k < info->block; k++)
            sum += (double)weights[k] * weights[k];
    }
    fill->unit = sqrt(sum / BLOCKS / info->block) / sample_scale;
}

void rl_synth_fill_run(const synth_fill *fill, uint64_t seed, void *blocks, uint64_t n_blocks)
{
    generator g = generator_of(seed);
    if (fill->type == RL_QUANT_F32) {
        fill_floats(fill, &g, blocks, n_blocks);
    } else if (is_float(fill->type)) {
        fill_halves(fill, &g, blocks, n_blocks);
    } else {
        const rl_quant_info *info = rl_quant_find(fill->type);
        fill_bits(&g, blocks, (size_t)n_blocks * info->block_bytes);
        fix_blocks(fill->type, (float)(fill->a / fill->unit), blocks, n_blocks);
    }
}
