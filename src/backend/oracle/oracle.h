/* oracle.h - the inside of the oracle backend: the definition of right.
 *
 * Plain C, every weight decoded to f32 and then multiplied in double, activations in double. Only
 * what survives a token is f32: the recurrent state, as every backend keeps it, and the KV cache.
 * Slow and simple on purpose; it is multi-threaded over rows and heads only so that tests end. */
#ifndef RL_BACKEND_ORACLE_ORACLE_H
#define RL_BACKEND_ORACLE_ORACLE_H

#include "backend/backend.h"
#include "base/thread.h"

typedef struct oracle_slot_class {
    uint64_t bytes;
    uint32_t count;
    uint8_t *memory;
} oracle_slot_class;

typedef struct oracle {
    rl_backend base;
    rl_pool *pool;
    rl_backend_counters counters;

    uint8_t **weights; /* every weight's storage, freed at close */
    uint32_t n_weights;
    oracle_slot_class *classes;
    uint32_t n_classes;
    const uint8_t **residency; /* [n_layer][n_expert] */

    const rl_net *net;
    uint32_t max_batch;
    rl_batch batch; /* the one under way */

    float *row_scratch; /* [threads][longest row] */
    uint32_t longest_row;
    /* activations; sizes in oracle_attach() */
    double *x;          /* [n][H]       residual stream                                  */
    double *h;          /* [n][H]       after a norm                                     */
    double *in;         /* [n][widest]  u, or query + gate                               */
    double *z;          /* [n][Hv D]                                                     */
    double *ba;         /* [n][2 Hv]                                                     */
    double *key;        /* [n][n_head_kv head_dim]                                       */
    double *value;      /* [n][n_head_kv head_dim]                                       */
    double *y;          /* [n][widest]  mixer output before the output projection        */
    double *router;     /* [n][E]                                                        */
    double *scale;      /* [n]          sigmoid of the shared expert's gate              */
    double *shared;     /* [n][H]                                                        */
    double *act;        /* [n][widest F] hidden values of an expert                      */
    double *act2;       /* [n][widest F]                                                 */
    double *gathered;   /* [n][H]       inputs or outputs of one expert's tokens         */
    double *expert_out; /* [n][K][H]                                                     */
    double *logits;     /* [RL_HEAD_ROWS][n_vocab]                                       */
    uint32_t *ids;      /* [n][K]                                                        */
    float *weights_out; /* [n][K]                                                        */
    uint32_t head_rows; /* rows of the last head call, for RL_TAP_FINAL_NORM             */
} oracle;

/* One session. Recurrent layers: two copies of conv and S; attention layers: one KV cache. */
typedef struct oracle_layer_state {
    float *conv[2];  /* [C-1][channels]       */
    float *delta[2]; /* [Hv][D][D]            */
    uint8_t *key;    /* [n_ctx][kv heads * d] */
    uint8_t *value;
} oracle_layer_state;

struct rl_state {
    rl_state_params params;
    uint32_t current; /* which copy the next batch reads */
    uint32_t n_layer;
    oracle_layer_state *layers;
};

/* oracle_math.c */

/* y [n][rows] = W x for x [n][cols]. Counts nothing. */
void oracle_matmul(oracle *o, const rl_weight *w, const double *x, uint32_t n, double *y);
/* One row of w as f32. */
void oracle_decode_row(const rl_weight *w, uint32_t row, float *out);
void oracle_rms_norm(const double *x, const rl_weight *norm, float eps, uint32_t n, double *h);

/* oracle_delta.c, oracle_attention.c: the two mixers' middle stage. */
void oracle_delta_step(oracle *o, uint32_t layer);
void oracle_attn_step(oracle *o, uint32_t layer);

static inline float oracle_f32(const rl_weight *w, uint32_t i)
{
    return ((const float *)w->host)[i];
}

double oracle_sigmoid(double x);
double oracle_silu(double x);

#endif
