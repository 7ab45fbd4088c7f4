/* cpu_kernels.h - the arithmetic of the cpu backend: one table of functions per instruction set.
 *
 * rl_cpu_select() picks a table once, from the machine's features or the RL_CPU variable; all
 * tables do the same work, so nothing else branches on the instruction set.
 *
 * A product of weights and activations takes two steps:
 *
 *     uint32_t formats = rl_cpu_act_format(k, type_a) | rl_cpu_act_format(k, type_b);
 *     rl_cpu_act_init(&act, formats, cols, n_tokens, storage);        once, at session create
 *     rl_cpu_prepare(k, &act, 0, n_tokens, x, cols);                  once per input
 *     rl_cpu_matmul(k, &w_a, &act, NULL, n_tokens, 0, w_a.rows, y_a, w_a.rows);
 *     rl_cpu_matmul(k, &w_b, &act, NULL, n_tokens, 0, w_b.rows, y_b, w_b.rows);
 *
 * Splitting over threads: prepare by tokens, matmul by rows (any ranges, also one flat list of
 * row ranges over many matrices). A value depends on its row and its token only, never on the
 * ranges, on n, or on the other tokens: token by token and all at once give the same bits.
 *
 * Numerics: docs/cpu-roofline.md. `exact` computes in f32 on decoded weights; the other tables
 * round activations to 8 bits per block of 32 where the weights are quantised (F32, F16, BF16
 * weights are always multiplied in f32).
 * Threads: tables are constant; every function is pure apart from what it writes. */
#ifndef RL_BACKEND_CPU_KERNELS_H
#define RL_BACKEND_CPU_KERNELS_H

#include "base/status.h"
#include "quant/quant.h"

typedef struct rl_cpu_kernels rl_cpu_kernels;

/* ---- the choice of a table ------------------------------------------------------------------- */

/* The table of the name `wanted`, or, when that is NULL, of the environment variable RL_CPU; when that
 * is empty, too, the best one that this machine can run.
 * RL_INVALID for a name that does not exist, RL_UNSUPPORTED for one that the machine cannot run. */
RL_MUST_CHECK rl_status rl_cpu_select(const rl_cpu_kernels **out, const char *wanted,
                                      rl_error *err);

/* All tables this build knows, for tests and messages: exact (several, the last usable one is
 * meant), scalar, avx2, ... */
uint32_t rl_cpu_kernels_count(void);
const char *rl_cpu_kernels_name(uint32_t index);
/* The table, or NULL when this machine cannot run it. */
const rl_cpu_kernels *rl_cpu_kernels_at(uint32_t index);

/* ---- activations ----------------------------------------------------------------------------- */

/* How an input vector is stored for the kernels of a weight type; bits, may be combined. */
enum {
    RL_CPU_ACT_F32 = 1,  /* as it is                                                        */
    RL_CPU_ACT_RUN8 = 2, /* 8 bits, blocks of 32, interleaved for types of 256 weights      */
    RL_CPU_ACT_ROW8 = 4  /* 8 bits, blocks of 32, in order, for types of 32 weights         */
};

/* n_tokens input vectors of cols values, in all formats asked for. Storage belongs to the caller. */
typedef struct rl_cpu_act {
    uint32_t cols;
    uint32_t n_tokens;
    uint32_t formats;
    size_t f32_bytes; /* per token */
    size_t run8_bytes;
    size_t row8_bytes;
    uint8_t *f32; /* [n_tokens] each, 64-aligned */
    uint8_t *run8;
    uint8_t *row8;
} rl_cpu_act;

/* The one format that matrices of this type (an id that rl_quant_find() knows) read. */
uint32_t rl_cpu_act_format(const rl_cpu_kernels *k, uint32_t type);

/* Bytes of storage for rl_cpu_act_init(). */
size_t rl_cpu_act_bytes(uint32_t formats, uint32_t cols, uint32_t n_tokens);

/* `storage`: rl_cpu_act_bytes() bytes, 64-aligned (asserted), borrowed as long as act is used. */
void rl_cpu_act_init(rl_cpu_act *act, uint32_t formats, uint32_t cols, uint32_t n_tokens,
                     void *storage);

/* Stores tokens first .. first + n - 1 of act; token i comes from x + (i - first) * x_stride
 * (floats). Different tokens may be prepared by different threads. */
void rl_cpu_prepare(const rl_cpu_kernels *k, const rl_cpu_act *act, uint32_t first, uint32_t n,
                    const float *x, size_t x_stride);

/* ---- matrices -------------------------------------------------------------------------------- */

/* rows x cols weights, row after row as in the file. `data` may have any alignment. */
typedef struct rl_cpu_matrix {
    uint32_t type; /* ggml id */
    uint32_t rows;
    uint32_t cols;
    size_t row_bytes;
    const uint8_t *data;
} rl_cpu_matrix;

/* y[i * y_stride + r] = W[r] . x[tokens[i]]  for i < n and r in [row_first, row_end).
 *   tokens  [n] which tokens of act; NULL: 0 .. n-1. An expert multiplies just the tokens that
 *           chose it, from the one activation buffer of the layer
 *   n       1 is decode (rows stream through once); more unpack each weight block once and use it
 *           for all tokens. Any n
 * act must hold rl_cpu_act_format(k, w->type) (asserted) and w->cols columns. Needs about 80 KiB of
 * stack, allocates nothing. */
void rl_cpu_matmul(const rl_cpu_kernels *k, const rl_cpu_matrix *w, const rl_cpu_act *act,
                   const uint32_t *tokens, uint32_t n, uint32_t row_first, uint32_t row_end,
                   float *y, size_t y_stride);

/* ---- vectors --------------------------------------------------------------------------------- */

struct rl_cpu_matrix_ops; /* cpu_matrix.h */

/* Any n, no alignment needed; out may be the same as an input, not overlap it otherwise.
 * exp inside silu and sigmoid has a relative error below 2e-7 x (2 + |x|). */
struct rl_cpu_kernels {
    const char *name;

    float (*dot)(const float *a, const float *b, size_t n);
    void (*axpy)(float *y, float a, const float *x, size_t n); /* y += a x */
    void (*add)(float *y, const float *x, size_t n);           /* y += x   */
    void (*scale)(float *x, float a, size_t n);                /* x *= a   */

    /* out = x / sqrt(mean(x^2) + eps) * weight */
    void (*rms_norm)(float *out, const float *x, const float *weight, size_t n, float eps);
    /* out = silu(gate) x, sigmoid(gate) x */
    void (*silu_mul)(float *out, const float *gate, const float *x, size_t n);
    void (*sigmoid_mul)(float *out, const float *gate, const float *x, size_t n);

    void (*to_f16)(uint16_t *out, const float *x, size_t n); /* nearest, ties to even */

    const struct rl_cpu_matrix_ops *matrix;
};

#endif
