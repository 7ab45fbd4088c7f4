/* cpu_stages.h - the parts of a stage that are no matrix product, one table per instruction set.
 *
 * The convolution, the delta rule, attention and what closes a stage, each written once in
 * cpu_stages_body.h with vectors of the compiler's own, and compiled once per instruction set by
 * cpu_stages_{any,avx2,avx512}.c. Products, norms and other one-line helpers: cpu_kernels.h. Everything is f32 arithmetic. Results do not depend on how a
 * stage is cut into tasks.
 * Threads: pure functions of their arguments. Buffers need no alignment unless said. */
#ifndef RL_BACKEND_CPU_STAGES_H
#define RL_BACKEND_CPU_STAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of a delta state, keys of a KV cache and values of a head come in blocks of so many. */
enum { RL_CPU_LANES = 16 };

/* Taps of a convolution, at most. */
enum { RL_CPU_MAX_TAPS = 64 };

/* Positions of the context that attention takes in one go; queries of one attention tile. */
enum { RL_CPU_ATTN_BLOCK = 64, RL_CPU_ATTN_QUERIES = 32 };

static inline uint32_t rl_cpu_pad(uint32_t n)
{
    return (n + RL_CPU_LANES - 1) / RL_CPU_LANES * RL_CPU_LANES;
}

/* Convolution and SiLU of one head's D neighbouring channels for n tokens, in place; then, for
 * query and key heads, the L2 norm. docs/qwen3next.md 4.2, 4.3. */
typedef struct rl_cpu_conv {
    float *u;              /* [n][stride], at the head's first channel: raw in, result out */
    size_t stride;         /* floats between tokens                                        */
    uint32_t n, width;     /* tokens, channels of the head                                 */
    uint32_t taps;         /* C                                                            */
    const float *weights;  /* [C][channels], at the head's first channel, oldest tap first */
    const float *state_in; /* [C-1][channels] likewise, oldest column first                */
    float *state_out;
    uint32_t channels;
    float norm_scale; /* 0: no norm; else the norm, times this */
} rl_cpu_conv;

/* The delta rule of one value head, n tokens. A state is [Dp/16][D key][16 value], Dp = D padded to
 * 16: sixteen columns of S lie together and never meet the others. docs/qwen3next.md 4.4.
 *
 * What a token writes into S is one product k e^T, and S is passed over once per token because that
 * is left for the next token to do: a state is S and the last token's (decay, k, e), still owed. */
typedef struct rl_cpu_delta {
    uint32_t n, d;
    float owed_decay;             /* in: S = owed_decay S + owed_k owed_e^T comes first */
    const float *owed_k, *owed_e; /* [D], [Dp] */
    float *last_e;                /* out: [Dp] of the last token; may be owed_e */
    const float *q, *k, *v;       /* [n][stride]; v is read up to the padded width */
    size_t q_stride, k_stride, v_stride;
    const float *decay, *beta; /* [n] */
    float *kq;                 /* [n] scratch */
    const float *state_in;
    float *state_out; /* may be state_in */
    float *out;       /* [n][Dp] */
} rl_cpu_delta;

/* state = decay state + k e^T, with the bits that the delta rule would have given it. */
typedef struct rl_cpu_owed {
    uint32_t d;
    float *state;
    float decay;
    const float *k, *e;
} rl_cpu_owed;

/* Some queries that share a key/value head against positions from .. to-1. The result is not yet
 * divided by `sum`, so that parts of the context can be joined. docs/qwen3next.md 5. */
typedef struct rl_cpu_attn {
    uint32_t n_query, d;   /* n_query <= RL_CPU_ATTN_QUERIES */
    const float *q;        /* [n_query][dp], scaled by 1/sqrt(d); dp = d padded to 16 */
    const uint32_t *limit; /* [n_query] each sees the positions below its limit       */
    const void *keys;      /* [n_ctx/16][d][16]     f32 or f16                        */
    const void *values;    /* [n_ctx][dp]           f32 or f16                        */
    bool key_half, value_half;
    uint32_t from, to; /* from: a multiple of RL_CPU_ATTN_BLOCK */
    float *scores;     /* scratch [RL_CPU_ATTN_QUERIES][RL_CPU_ATTN_BLOCK]        */
    float *block;      /* scratch [2][RL_CPU_ATTN_BLOCK][dp]: keys and values as f32, */
                       /* where the processor cannot convert on the way               */
    float *out;        /* [n_query][dp]                                    */
    float *max, *sum;  /* [n_query]; max is -INFINITY where nothing is seen */
} rl_cpu_attn;

typedef struct rl_cpu_stages {
    const char *isa;
    /* x = x * sigmoid(gate) * scale */
    void (*sigmoid_gate)(float *x, const float *gate, float scale, uint32_t n);
    /* x += sum over i < k, in order, of weights[i] * parts[rows[i]][], then + last[] */
    void (*weighted_sum)(float *x, const float *parts, size_t stride, const uint32_t *rows,
                         const float *weights, uint32_t k, const float *last, uint32_t n);
    /* out = rms(x, weight) * silu(z) */
    void (*gated_norm)(const float *x, const float *weight, const float *z, uint32_t n, float eps,
                       float *out);
    void (*conv)(const rl_cpu_conv *a);
    void (*delta)(const rl_cpu_delta *a);
    void (*settle)(const rl_cpu_owed *a);
    void (*attn)(const rl_cpu_attn *a);
} rl_cpu_stages;

/* The table that goes with the kernels of that name ("avx2", "exact", ...). */
const rl_cpu_stages *rl_cpu_stages_for(const char *kernels);

extern const rl_cpu_stages rl_cpu_stages_any;
#if defined(__x86_64__)
extern const rl_cpu_stages rl_cpu_stages_avx2;
extern const rl_cpu_stages rl_cpu_stages_avx512;
#endif

#endif
