/* cpu_stages_body.h - the bodies behind cpu_stages.h; included once per instruction set.
 *
 * The including file defines, before the include:
 *     L            lanes of a vector: 4, 8 or 16
 *     QT           queries that one pass of attention keeps in registers: 2, 4 or 8
 *     TABLE, ISA   the table to define and its name
 *     load_half(p) L values of binary16
 *     SLOW_HALF    1: binary16 is better converted once per block than on the way
 *     FMA(a, b, c) a b + c, rounded once where the processor can, and the same everywhere
 * Vectors are the compiler's own; FMA comes by -ffp-contract=fast, where the processor has it. */

#include <math.h>
#include <string.h>

#include "base/bytes.h"

#define INLINE  static inline __attribute__((always_inline))
#define VECTORS (RL_CPU_LANES / L) /* vectors per block of 16 */

typedef float vf __attribute__((vector_size(4 * L)));
typedef int32_t vi __attribute__((vector_size(4 * L)));
typedef float vf_any __attribute__((vector_size(4 * L), aligned(4), may_alias));

INLINE vf load(const float *p)
{
    return *(const vf_any *)p;
}

INLINE void store(float *p, vf v)
{
    *(vf_any *)p = v;
}

INLINE vf splat(float x)
{
    return x - (vf){ 0 };
}

INLINE vf pick(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}

INLINE float sum_of(vf v)
{
    float part[L], sum = 0;
    memcpy(part, &v, sizeof part);
    for (int width = L / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] += part[i + width];
    sum = part[0];
    return sum;
}

INLINE float max_of(vf v)
{
    float part[L];
    memcpy(part, &v, sizeof part);
    for (int width = L / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            part[i] = part[i] > part[i + width] ? part[i] : part[i + width];
    return part[0];
}

/* e^x within two units in the last place; 0 below -87.3, no infinity above 88.3; NaN stays. */
INLINE vf exp_of(vf x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vi under = x < splat(-87.3f);
    x = pick(x > splat(88.3f), splat(88.3f), x);
    x = pick(under, splat(-87.3f), x);
    vf shifted = x * 1.44269504f + magic;
    vi power = (vi)shifted - (vi)splat(magic);
    vf n = shifted - magic;
    x = x - n * 0.693359375f;
    x = x + n * 2.12194440e-4f;
    vf p = x * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    p = p * (x * x) + x + 1.0f;
    p = p * (vf)((power + 127) << 23);
    return (vf)(~under & (vi)p);
}

INLINE vf sigmoid_of(vf x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

/* The first n < L values of p, zeros behind them. */
INLINE vf load_some(const float *p, uint32_t n)
{
    float part[L] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        part[i] = p[i];
    vf v;
    memcpy(&v, part, sizeof v);
    return v;
}

INLINE void store_some(float *p, vf v, uint32_t n)
{
    float part[L];
    memcpy(part, &v, sizeof part);
    for (uint32_t i = 0; i < n; i++)
        p[i] = part[i];
}

/* Runs `full` for every whole vector and `rest` for the tail, with AT the index and LOAD/STORE the
 * matching accesses. */
#define FOR_VECTORS(n, statement)                                                                  \
    do {                                                                                           \
        uint32_t at = 0;                                                                           \
        for (; at + L <= (n); at += L) {                                                           \
            enum { WHOLE = 1 };                                                                    \
            const uint32_t left = L;                                                               \
            (void)left;                                                                            \
            statement                                                                              \
        }                                                                                          \
        if (at < (n)) {                                                                            \
            enum { WHOLE = 0 };                                                                    \
            const uint32_t left = (n)-at;                                                          \
            statement                                                                              \
        }                                                                                          \
    } while (0)
#define LOAD(p)     (WHOLE ? load((p) + at) : load_some((p) + at, left))
#define STORE(p, v) (WHOLE ? store((p) + at, (v)) : store_some((p) + at, (v), left))

/* ---- one row at a time ----------------------------------------------------------------------- */

static float dot(const float *a, const float *b, uint32_t n)
{
    vf sum0 = { 0 }, sum1 = { 0 }, sum2 = { 0 }, sum3 = { 0 };
    uint32_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
        sum0 += load(a + i) * load(b + i);
        sum1 += load(a + i + L) * load(b + i + L);
        sum2 += load(a + i + 2 * L) * load(b + i + 2 * L);
        sum3 += load(a + i + 3 * L) * load(b + i + 3 * L);
    }
    for (; i + L <= n; i += L)
        sum0 += load(a + i) * load(b + i);
    if (i < n) sum1 += load_some(a + i, n - i) * load_some(b + i, n - i);
    return sum_of((sum0 + sum1) + (sum2 + sum3));
}

static void sigmoid_gate(float *x, const float *gate, float scale, uint32_t n)
{
    FOR_VECTORS(n, { STORE(x, LOAD(x) * scale * sigmoid_of(LOAD(gate))); });
}

static void weighted_sum(float *x, const float *parts, size_t stride, const uint32_t *rows,
                         const float *weights, uint32_t k, const float *last, uint32_t n)
{
    FOR_VECTORS(n, {
        vf sum = { 0 };
        for (uint32_t i = 0; i < k; i++)
            sum += LOAD(parts + rows[i] * stride) * weights[i];
        STORE(x, LOAD(x) + (sum + LOAD(last)));
    });
}

static void gated_norm(const float *x, const float *weight, const float *z, uint32_t n, float eps,
                       float *out)
{
    const float scale = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
    FOR_VECTORS(n, {
        vf gate = LOAD(z);
        STORE(out, LOAD(x) * scale * LOAD(weight) * (gate * sigmoid_of(gate)));
    });
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* One token: columns[j] is what tap j multiplies; the newest is `row` itself. */
INLINE void conv_row(const rl_cpu_conv *a, const float *const *columns, const uint32_t taps,
                     float *row)
{
    vf squares = { 0 };
    FOR_VECTORS(a->width, {
        vf sum = { 0 };
        for (uint32_t j = 0; j < taps; j++)
            sum += LOAD(a->weights + (size_t)j * a->channels) * LOAD(columns[j]);
        sum *= sigmoid_of(sum);
        squares += sum * sum;
        STORE(row, sum);
    });
    if (a->norm_scale == 0) return;
    const float scale = a->norm_scale / sqrtf(sum_of(squares) + 1e-6f);
    FOR_VECTORS(a->width, { STORE(row, LOAD(row) * scale); });
}

static void conv(const rl_cpu_conv *a)
{
    const float *columns[RL_CPU_MAX_TAPS];
    const uint32_t past = a->taps - 1;
    /* Column i of the old state and the batch together. */
#define COLUMN(i)                                                                                  \
    ((i) < past ? a->state_in + (size_t)(i)*a->channels : a->u + (size_t)((i)-past) * a->stride)
    /* The new state first: it holds raw columns, and the result will replace them. */
    for (uint32_t j = 0; j < past; j++)
        memcpy(a->state_out + (size_t)j * a->channels, COLUMN(a->n + j), a->width * sizeof(float));
    /* Newest token first, so that every window is still raw. */
    for (uint32_t t = a->n; t-- > 0;) {
        float *row = a->u + (size_t)t * a->stride;
        for (uint32_t j = 0; j < a->taps; j++)
            columns[j] = COLUMN(t + j);
        if (a->taps == 4)
            conv_row(a, columns, 4, row);
        else
            conv_row(a, columns, a->taps, row);
    }
#undef COLUMN
}

/* ---- delta rule ------------------------------------------------------------------------------ */

/* Where vector i of `vectors` neighbouring ones lies in row n of S. */
INLINE size_t delta_at(uint32_t d, uint32_t n, int i)
{
    return ((size_t)(i / VECTORS) * d + n) * RL_CPU_LANES + (size_t)(i % VECTORS) * L;
}

/* `vectors` vectors of neighbouring columns for all tokens. With p = S^T k and o = S^T q of the
 * state before the decay, one token is
 *     e = beta (v - decay p);  result = decay o + (k . q) e;  S = decay S + k e^T
 * so the pass that writes the state of one token also gathers p and o of the next: one pass over
 * the columns per token, and they stay in the first cache. */
INLINE void delta_columns(const rl_cpu_delta *a, uint32_t column, const int vectors)
{
    const uint32_t d = a->d, padded = rl_cpu_pad(d);
    const size_t offset = (size_t)column * d; /* whole blocks of 16 columns lie before */
    const float *in = a->state_in + offset;
    float *state = a->state_out + offset;
    vf e[4];
    for (int i = 0; i < vectors; i++)
        e[i] = load(a->owed_e + column + i * L);
    const float *k_before = a->owed_k;
    float decay_before = a->owed_decay;
    for (uint32_t t = 0; t < a->n; t++) {
        const float *k = a->k + (size_t)t * a->k_stride, *q = a->q + (size_t)t * a->q_stride;
        const vf by = splat(decay_before);
        vf p[4], o[4];
        for (int i = 0; i < vectors; i++)
            p[i] = o[i] = (vf){ 0 };
        for (uint32_t n = 0; n < d; n++) {
            const vf k_owed = splat(k_before[n]), k_now = splat(k[n]), q_now = splat(q[n]);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; i++) {
                const vf s = FMA(e[i], k_owed, load(in + delta_at(d, n, i)) * by);
                store(state + delta_at(d, n, i), s);
                p[i] = FMA(s, k_now, p[i]);
                o[i] = FMA(s, q_now, o[i]);
            }
        }
        const float decay = a->decay[t], beta = a->beta[t], kq = a->kq[t];
        const float *v = a->v + (size_t)t * a->v_stride + column;
        float *out = a->out + (size_t)t * padded + column;
        for (int i = 0; i < vectors; i++) {
            e[i] = (load(v + i * L) - p[i] * decay) * beta;
            store(out + i * L, o[i] * decay + e[i] * kq);
        }
        k_before = k;
        decay_before = decay;
        in = state;
    }
    for (int i = 0; i < vectors; i++)
        store(a->last_e + column + i * L, e[i]);
}

static void delta(const rl_cpu_delta *a)
{
    for (uint32_t t = 0; t < a->n; t++)
        a->kq[t] = dot(a->k + (size_t)t * a->k_stride, a->q + (size_t)t * a->q_stride, a->d);
    const uint32_t padded = rl_cpu_pad(a->d);
    uint32_t column = 0;
#if L == 16
    for (; column + 64 <= padded; column += 64)
        delta_columns(a, column, 4);
#endif
    for (; column < padded; column += RL_CPU_LANES)
        delta_columns(a, column, VECTORS);
}

static void settle(const rl_cpu_owed *a)
{
    for (uint32_t column = 0; column < rl_cpu_pad(a->d); column += L) {
        float *block = a->state + (size_t)(column / RL_CPU_LANES) * a->d * RL_CPU_LANES +
                       column % RL_CPU_LANES;
        const vf e = load(a->e + column), by = splat(a->decay);
        for (uint32_t n = 0; n < a->d; n++) {
            float *s = block + (size_t)n * RL_CPU_LANES;
            store(s, FMA(e, splat(a->k[n]), load(s) * by));
        }
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

INLINE const void *cache_at(const void *cache, bool half, size_t index)
{
    return half ? (const void *)((const uint16_t *)cache + index)
                : (const void *)((const float *)cache + index);
}

INLINE vf cache_load(const void *cache, bool half, size_t index)
{
    return half ? (vf)load_half((const uint16_t *)cache + index)
                : load((const float *)cache + index);
}

/* scores[query][16 blocks] of `queries` queries against `blocks` blocks of 16 keys. */
INLINE void attn_scores(const float *q, uint32_t padded, const void *keys, bool half, uint32_t d,
                        const int queries, const int blocks, float *scores)
{
    vf sum[8 * 4];
    const int vectors = blocks * VECTORS;
    for (int i = 0; i < queries * vectors; i++)
        sum[i] = (vf){ 0 };
    for (uint32_t n = 0; n < d; n++) {
#pragma GCC unroll 16
        for (int i = 0; i < vectors; i++) {
            const size_t block = (size_t)(i / VECTORS) * d + n;
            const vf key = cache_load(keys, half, block * RL_CPU_LANES + (size_t)(i % VECTORS) * L);
#pragma GCC unroll 8
            for (int j = 0; j < queries; j++)
                sum[j * vectors + i] += key * q[(size_t)j * padded + n];
        }
    }
    for (int j = 0; j < queries; j++)
        for (int i = 0; i < vectors; i++)
            store(scores + (size_t)j * RL_CPU_ATTN_BLOCK + (size_t)i * L, sum[j * vectors + i]);
}

/* out[query][lanes] += weight[query][position] * values[position][lanes] */
INLINE void attn_values(const float *weights, const void *values, bool half, uint32_t padded,
                        uint32_t n, const int queries, const int vectors, float *out)
{
    vf sum[8 * 4];
#pragma GCC unroll 8
    for (int j = 0; j < queries; j++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++)
            sum[j * vectors + i] = load(out + (size_t)j * padded + (size_t)i * L);
    for (uint32_t t = 0; t < n; t++) {
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) {
            const vf value = cache_load(values, half, (size_t)t * padded + (size_t)i * L);
#pragma GCC unroll 8
            for (int j = 0; j < queries; j++)
                sum[j * vectors + i] += value * weights[(size_t)j * RL_CPU_ATTN_BLOCK + t];
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < queries; j++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++)
            store(out + (size_t)j * padded + (size_t)i * L, sum[j * vectors + i]);
}

/* Scores of one query to weights, joined with what it has so far: the running softmax. n positions
 * begin at `from`. */
static void attn_softmax(const rl_cpu_attn *a, uint32_t query, uint32_t from, uint32_t n)
{
    const uint32_t padded = rl_cpu_pad(a->d), n_padded = rl_cpu_pad(n), limit = a->limit[query];
    const uint32_t seen = limit <= from ? 0 : limit - from < n ? limit - from : n;
    float *row = a->scores + (size_t)query * RL_CPU_ATTN_BLOCK;
    float *out = a->out + (size_t)query * padded;
    if (!seen) { /* -infinity minus -infinity must not happen */
        memset(row, 0, n_padded * sizeof *row);
        return;
    }
    for (uint32_t t = seen; t < n_padded; t++)
        row[t] = -INFINITY;
    vf top = load(row);
    for (uint32_t t = L; t < n_padded; t += L) {
        const vf more = load(row + t);
        top = pick(more > top, more, top);
    }
    const float top_score = max_of(top);
    if (top_score > a->max[query]) {
        /* At the first block exp_of(-infinity) is 0, and so is what it scales. */
        float scale[L];
        store(scale, exp_of(splat(a->max[query] - top_score)));
        a->sum[query] *= scale[0];
        a->max[query] = top_score;
        for (uint32_t i = 0; i < padded; i += L)
            store(out + i, load(out + i) * scale[0]);
    }
    const float base = a->max[query];
    vf total = { 0 };
    for (uint32_t t = 0; t < n_padded; t += L) {
        const vf weight = exp_of(load(row + t) - base);
        total += weight;
        store(row + t, weight);
    }
    a->sum[query] += sum_of(total);
}

/* `queries` queries against one block of n positions from `from` on. */
INLINE void attn_block(const rl_cpu_attn *a, const void *keys, bool key_half, const void *values,
                       bool value_half, uint32_t first, uint32_t from, uint32_t n,
                       const int queries)
{
    enum { TOGETHER = L == 16 ? 4 : 1 }; /* vectors at once when few queries share them */
    const int together = queries <= 2 ? TOGETHER : 1;
    const uint32_t d = a->d, padded = rl_cpu_pad(d), n_padded = rl_cpu_pad(n);
    const float *q = a->q + (size_t)first * padded;
    float *scores = a->scores + (size_t)first * RL_CPU_ATTN_BLOCK;
    float *out = a->out + (size_t)first * padded;
    uint32_t at = 0;
    for (; at + together * RL_CPU_LANES <= n_padded; at += together * RL_CPU_LANES)
        attn_scores(q, padded, cache_at(keys, key_half, (size_t)at * d), key_half, d, queries,
                    together, scores + at);
    for (; at < n_padded; at += RL_CPU_LANES)
        attn_scores(q, padded, cache_at(keys, key_half, (size_t)at * d), key_half, d, queries, 1,
                    scores + at);
    for (int j = 0; j < queries; j++)
        attn_softmax(a, first + (uint32_t)j, from, n);
    at = 0;
    for (; at + together * L <= padded; at += together * L)
        attn_values(scores, cache_at(values, value_half, at), value_half, padded, n, queries,
                    together, out + at);
    for (; at < padded; at += L)
        attn_values(scores, cache_at(values, value_half, at), value_half, padded, n, queries, 1,
                    out + at);
}

INLINE void attn_types(const rl_cpu_attn *a, const void *keys, bool key_half, const void *values,
                       bool value_half, uint32_t from, uint32_t n)
{
    uint32_t first = 0;
    for (; first + QT <= a->n_query; first += QT)
        attn_block(a, keys, key_half, values, value_half, first, from, n, QT);
#if QT > 2
    for (; first + 2 <= a->n_query; first += 2)
        attn_block(a, keys, key_half, values, value_half, first, from, n, 2);
#endif
    for (; first < a->n_query; first++)
        attn_block(a, keys, key_half, values, value_half, first, from, n, 1);
}

#if SLOW_HALF
static const float *block_from_half(const void *half, size_t n, float *out)
{
    const uint16_t *in = half;
    for (size_t i = 0; i < n; i += L) /* n is a multiple of 16 */
        store(out + i, (vf)load_half(in + i));
    return out;
}
#endif

static void attn(const rl_cpu_attn *a)
{
    const uint32_t padded = rl_cpu_pad(a->d);
    memset(a->out, 0, (size_t)a->n_query * padded * sizeof(float));
    for (uint32_t i = 0; i < a->n_query; i++) {
        a->max[i] = -INFINITY;
        a->sum[i] = 0;
    }
    for (uint32_t from = a->from; from < a->to; from += RL_CPU_ATTN_BLOCK) {
        const uint32_t n = a->to - from < RL_CPU_ATTN_BLOCK ? a->to - from : RL_CPU_ATTN_BLOCK;
        const void *keys = cache_at(a->keys, a->key_half, (size_t)from * a->d);
        const void *values = cache_at(a->values, a->value_half, (size_t)from * padded);
#if SLOW_HALF
        if (a->key_half) keys = block_from_half(keys, (size_t)rl_cpu_pad(n) * a->d, a->block);
        if (a->value_half)
            values = block_from_half(values, (size_t)n * padded,
                                     a->block + (size_t)RL_CPU_ATTN_BLOCK * padded);
        attn_types(a, keys, false, values, false, from, n);
#else
        if (a->key_half && a->value_half)
            attn_types(a, keys, true, values, true, from, n);
        else if (a->key_half)
            attn_types(a, keys, true, values, false, from, n);
        else if (a->value_half)
            attn_types(a, keys, false, values, true, from, n);
        else
            attn_types(a, keys, false, values, false, from, n);
#endif
    }
}

const rl_cpu_stages TABLE = {
    .isa = ISA,
    .sigmoid_gate = sigmoid_gate,
    .weighted_sum = weighted_sum,
    .gated_norm = gated_norm,
    .conv = conv,
    .delta = delta,
    .settle = settle,
    .attn = attn,
};
