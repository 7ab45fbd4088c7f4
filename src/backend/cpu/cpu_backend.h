/* cpu_backend.h - what the files of the cpu backend share; nobody else includes it.
 *
 * A stage is a few loops over the thread pool. Matrix products go through one flat list of row
 * blocks (cpu_matrix.c); the rest is cut by heads or tokens. How work is cut never depends on the
 * number of threads, and every number is computed by one task in one order, so results do not
 * depend on it either.
 *
 * Memory: all of it at open, weight_alloc, pool_create, attach and state_create; stages allocate
 * nothing. Rows of activations are padded to whole cache lines. */
#ifndef RL_BACKEND_CPU_BACKEND_H
#define RL_BACKEND_CPU_BACKEND_H

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_stages.h"
#include "base/thread.h"
#include "quant/quant.h"

enum {
    RL_CPU_CHUNK = 64,       /* tokens that the delta rule takes in one go          */
    RL_CPU_BLOCK_ROWS = 128, /* rows of a matrix in one task, at most               */
    RL_CPU_ATTN_PARTS = 64   /* pieces of attention that are joined, at most        */
};

/* ---- matrix products (cpu_jobs.c) ------------------------------------------------------------- */

typedef enum rl_cpu_result {
    RL_CPU_STORE, /* y = a h                                    */
    RL_CPU_ADD,   /* y = a h, and added to `target`             */
    RL_CPU_SCALE, /* y = scale[token] a h                       */
    RL_CPU_SWIGLU /* y = silu(a h) * (b h); both of one shape   */
} rl_cpu_result;

/* One matrix product of a loop: all rows of a (and b) times n columns of activations. */
typedef struct rl_cpu_job {
    rl_cpu_matrix a, b;
    rl_cpu_result result;
    rl_cpu_act act;         /* a view; token 0 is the first unless tokens says otherwise */
    const uint32_t *tokens; /* [n] or NULL: 0 .. n-1 */
    uint32_t n;
    float *y; /* [n][y_stride] */
    size_t y_stride;
    float *target; /* [n][y_stride]: ADD */
    const float *scale;
    uint32_t block_rows, first_task; /* set by rl_cpu_jobs_run */
} rl_cpu_job;

/* ---- the backend ------------------------------------------------------------------------------ */

typedef struct rl_cpu_memory { /* one mapping of whole pages, zero at first */
    uint8_t *bytes;
    size_t size;
} rl_cpu_memory;

typedef struct rl_cpu_populate rl_cpu_populate;

typedef struct rl_cpu_slots {
    rl_cpu_memory memory;
    uint64_t bytes, stride;
    uint32_t count;
} rl_cpu_slots;

/* What attach knows about a layer beyond rl_layer. */
typedef struct rl_cpu_layer {
    float *conv; /* [C][channels], recurrent layers: the file's [channels][C] turned */
} rl_cpu_layer;

/* Memory of one thread during a task. */
typedef struct rl_cpu_scratch {
    float *tile;        /* [max_batch][RL_CPU_BLOCK_ROWS]                */
    float *row;         /* one token's activations, or a padded head     */
    float *delta_out;   /* [RL_CPU_CHUNK][Dp]                            */
    float *delta_v;     /* [RL_CPU_CHUNK][Dp]                            */
    float *attn_out;    /* [RL_CPU_ATTN_QUERIES][dp]                     */
    float *attn_scores; /* [RL_CPU_ATTN_QUERIES][RL_CPU_ATTN_BLOCK]      */
    float *attn_block;  /* [2][RL_CPU_ATTN_BLOCK][dp]                    */
    float decay[RL_CPU_CHUNK], beta[RL_CPU_CHUNK], kq[RL_CPU_CHUNK];
    float attn_max[RL_CPU_ATTN_QUERIES], attn_sum[RL_CPU_ATTN_QUERIES];
    uint32_t attn_limit[RL_CPU_ATTN_QUERIES];
} rl_cpu_scratch;

typedef struct rl_cpu {
    rl_backend base;
    char description[160];
    rl_pool *pool;
    uint32_t n_threads;
    const rl_cpu_kernels *kernels;
    const rl_cpu_stages *stages;
    rl_backend_counters counters;

    rl_cpu_memory *weights; /* every weight_alloc, for close */
    size_t n_weights, weights_room;
    rl_cpu_slots *slots; /* [n_classes] */
    uint32_t n_classes;
    rl_cpu_populate *populate; /* of the slots' memory; NULL: nothing does */

    /* Set by attach; all arrays lie in the arena. N = max_batch, Hp = H padded to 16. */
    const rl_net *net;
    rl_shape shape;
    uint32_t max_batch;
    rl_cpu_memory arena;
    uint64_t *residency;     /* [n_layer][n_expert] */
    rl_cpu_layer *layers;    /* [n_layer] */
    rl_cpu_scratch *scratch; /* [n_threads] */
    rl_cpu_job *jobs;        /* [n_expert + 4] */

    size_t x_stride;                   /* Hp                                                    */
    float *x;                          /* [N][Hp] the residual stream                           */
    rl_cpu_act h;                      /* [N] the normed input of a stage                       */
    float *u, *z, *m;                  /* delta net: [N][channels], [N][Hv D], [N][2 Hv]        */
    float *qg, *k, *v;                 /* attention: [N][2 n_head d], [N][n_head_kv d] twice    */
    float *q;                          /* [n_head_kv][N][n_head / n_head_kv][dp]                */
    float *part, *part_max, *part_sum; /* attention cut along the context, RL_CPU_ATTN_PARTS    */
    float *y;                          /* [N][y_width] what the mixer's out matrix multiplies   */
    rl_cpu_act y_act;                  /* [N] the same                                          */
    double *rope_frequency;            /* [n_rot/2]                                             */
    float *rope_cos, *rope_sin;        /* [N][n_rot/2]                                          */
    float *logits, *route_weights;     /* [N][E], [N][K]                                        */
    uint32_t *ids;                     /* [N][K]                                                */
    float *shared_scale;               /* [N]                                                   */
    float *shared_mid, *shared_out;    /* [N][Fs], [N][Hp]; the latter also for x += y          */
    float *expert_mid, *expert_out;    /* [N K][F], [N K][Hp], in the order they were computed  */
    rl_cpu_act shared_act, expert_act; /* of the two mids                                       */
    uint32_t *expert_token;            /* [N K] token of a row of expert_mid                    */
    uint32_t *expert_row;              /* [N K] row of expert_out of (token, rank)              */
    float *final;                      /* [RL_HEAD_ROWS][Hp]                                    */
    rl_cpu_act final_act;
    float *ahead_logits; /* [E] route_ahead */
    rl_cpu_act ahead_act;

    /* The batch. */
    rl_state *state;
    const uint32_t *tokens;
    uint32_t n, position;
    uint32_t final_rows;
    uint32_t n_expert_rows; /* rows of expert_out that this layer has so far */
    bool rope_ready;        /* the table holds this batch's angles           */
    bool shared_pending;    /* the shared expert's down is still due         */
} rl_cpu;

/* The recurrent part of a layer, cpu_state.c says how its copies are used; or keys and values. */
typedef struct rl_cpu_state_layer {
    float *conv[2];  /* [C-1][channels]    */
    float *delta[2]; /* [Hv][Dp/16][D][16] */
    float *owed[2];  /* [Hv][owed_width]: k [Dp], e [Dp], decay; see rl_cpu_delta */
    bool owes;       /* owed[current] is not in delta[current] yet */
    void *keys;      /* [n_head_kv][ctx/16][d][16] */
    void *values;    /* [n_head_kv][ctx][dp]   */
} rl_cpu_state_layer;

struct rl_state {
    rl_state_params params;
    uint32_t padded_ctx;    /* n_ctx up to whole blocks of positions */
    uint32_t current;       /* which copy of conv and owed counts */
    uint32_t current_delta; /* which copy of delta counts         */
    uint32_t written;       /* tokens of the batch to be committed; 0: none */
    rl_cpu_memory memory;
    rl_cpu_state_layer *layers;
};

static inline uint32_t rl_cpu_owed_width(uint32_t delta_dim)
{
    return 2 * rl_cpu_pad(delta_dim) + RL_CPU_LANES;
}

static inline rl_cpu *rl_cpu_of(rl_backend *be)
{
    return (rl_cpu *)be;
}

static inline const rl_cpu *rl_cpu_of_const(const rl_backend *be)
{
    return (const rl_cpu *)be;
}

/* ---- between the files ------------------------------------------------------------------------ */

/* cpu_memory.c */
RL_MUST_CHECK rl_status rl_cpu_map(rl_cpu_memory *out, uint64_t size, const char *what,
                                   rl_error *err);
void rl_cpu_unmap(rl_cpu_memory *memory);
rl_status rl_cpu_weight_alloc(rl_backend *be, rl_weight *weight, const char *name, rl_error *err);
rl_status rl_cpu_weight_write(rl_backend *be, const rl_weight *weight, uint64_t offset,
                              const void *bytes, uint64_t n, rl_error *err);
rl_status rl_cpu_pool_create(rl_backend *be, uint32_t n_classes, const uint64_t *bytes,
                             const uint32_t *count, rl_error *err);
uint64_t rl_cpu_slot_address(const rl_backend *be, uint32_t slot_class, uint32_t index);
void *rl_cpu_slot_host(const rl_backend *be, uint32_t slot_class, uint32_t index);
rl_status rl_cpu_slot_write(rl_backend *be, uint32_t slot_class, uint32_t index, uint64_t offset,
                            const void *bytes, uint64_t n, rl_error *err);
void rl_cpu_residency_set(rl_backend *be, uint32_t layer, uint32_t expert, uint64_t address);
uint64_t rl_cpu_residency_get(const rl_backend *be, uint32_t layer, uint32_t expert);

/* cpu_populate.c: a thread that backs areas[0..n) with memory ahead of their use; they stay mapped
 * until stop. NULL when there is too little to do or no way to do it; the others then do nothing. */
rl_cpu_populate *rl_cpu_populate_start(const rl_cpu_memory *areas, uint32_t n);
/* The bytes of areas[index] before `end` are used from now on. The owner's thread. */
void rl_cpu_populate_reach(rl_cpu_populate *populate, uint32_t index, size_t end);
/* Waits for the piece under way, some 10 ms. */
void rl_cpu_populate_stop(rl_cpu_populate *populate);

/* cpu_plan.c: the activation buffers */
rl_status rl_cpu_attach(rl_backend *be, const rl_net *net, uint32_t max_batch, rl_error *err);
uint64_t rl_cpu_batch_bytes(const rl_shape *shape, uint32_t max_batch);

/* cpu_state.c */
rl_status rl_cpu_state_create(rl_backend *be, rl_state **out, const rl_state_params *params,
                              rl_error *err);
void rl_cpu_state_destroy(rl_backend *be, rl_state *state);
rl_status rl_cpu_state_reset(rl_backend *be, rl_state *state, rl_error *err);
void rl_cpu_state_commit(rl_backend *be, rl_state *state);
rl_status rl_cpu_state_read(rl_backend *be, const rl_state *state, uint32_t layer,
                            rl_state_part part, uint32_t n_tokens, void *out, rl_error *err);
rl_status rl_cpu_state_write(rl_backend *be, rl_state *state, uint32_t layer, rl_state_part part,
                             uint32_t n_tokens, const void *bytes, rl_error *err);

/* cpu_jobs.c */
rl_cpu_matrix rl_cpu_matrix_of(const rl_weight *weight);
/* The same activations from token `first` on. */
rl_cpu_act rl_cpu_act_from(const rl_cpu_act *act, uint32_t first);
/* All products of the list as one loop over the pool. Counts no passes. */
void rl_cpu_jobs_run(rl_cpu *cpu, rl_cpu_job *jobs, uint32_t n_jobs);
/* act token t = x[t], for n rows of act->cols values. */
void rl_cpu_prepare_rows(rl_cpu *cpu, const rl_cpu_act *act, const float *x, size_t x_stride,
                         uint32_t n);
/* act token t = rms(x[t], weight). Also, where not NULL: out[t][Hp] gets the same, and
 * scale[t] = sigmoid(scale_weight . it). */
typedef struct rl_cpu_norm {
    const float *x; /* [n][Hp] */
    uint32_t n;
    const rl_weight *weight;
    const rl_cpu_act *act;
    float *out;
    const rl_weight *scale_weight;
    float *scale;
} rl_cpu_norm;
void rl_cpu_norm_rows(rl_cpu *cpu, const rl_cpu_norm *norm);

/* cpu_delta.c */
rl_status rl_cpu_delta_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_cpu_delta_step(rl_backend *be, uint32_t layer, rl_error *err);
/* cpu_attention.c */
rl_status rl_cpu_attn_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_cpu_attn_step(rl_backend *be, uint32_t layer, rl_error *err);
/* cpu_moe.c */
rl_status rl_cpu_moe_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_cpu_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                       rl_error *err);
rl_status rl_cpu_route_ahead(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err);
rl_status rl_cpu_moe_shared(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_cpu_moe_experts(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                             uint32_t n_groups, rl_error *err);
rl_status rl_cpu_moe_out(rl_backend *be, uint32_t layer, rl_error *err);

#endif
