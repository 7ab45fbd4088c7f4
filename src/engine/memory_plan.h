/* memory_plan.h - how much memory it takes to run a model, part by part, before any of it is taken.
 *
 * The one place that knows: `info` prints these parts, the engine subtracts them from what is free
 * before it chooses the size of the expert pool, and a test holds the peak of a run against them.
 * What is not listed is small: tables of the cache, the program itself, thread stacks.
 *
 * Threads: pure functions. */
#ifndef RL_ENGINE_MEMORY_PLAN_H
#define RL_ENGINE_MEMORY_PLAN_H

#include "backend/backend.h"
#include "cache/cache_plan.h"
#include "model/weights.h"

enum {
    RL_DEFAULT_BATCH = 512,    /* tokens of a prefill batch                                    */
    RL_DEFAULT_CONTEXT = 4096, /* of a session, where the model was trained on so many         */
    RL_EXPERT_ALIGN = 256,     /* of the matrices within a slot, and of slots within the pool  */
    RL_EXPERT_BLOCK = 512,     /* of direct reads that need no copy                            */
    RL_EXPERT_LARGE = 64 << 10 /* a matrix, at least, for the copy to be worth avoiding        */
};

typedef enum rl_memory_part {
    RL_MEMORY_DENSE,     /* weights outside the routed experts, without the embedding       */
    RL_MEMORY_EMBEDDING, /* 0 when the head is the same matrix                              */
    RL_MEMORY_POOL,      /* expert slots                                                    */
    RL_MEMORY_KV,        /* attention keys and values of one session                        */
    RL_MEMORY_STATE,     /* recurrent state of one session, both copies                     */
    RL_MEMORY_TOKENIZER, /* and what is kept of the file's keys and tensor directory        */
    RL_MEMORY_BATCH,     /* activations of a prefill batch, rows of logits, the expert plan */
    RL_MEMORY_READ,      /* buffers for reading experts; with those of loading all at once  */
    RL_MEMORY_N_PARTS
} rl_memory_part;

typedef struct rl_memory_request {
    const rl_weights *weights;
    const rl_backend_ops *ops;
    const rl_cache_plan *pool; /* NULL: no pool yet, that part is 0 */
    uint32_t n_batch;          /* 0: RL_DEFAULT_BATCH, at most the trained context */
    uint32_t n_ctx;            /* 0: the default of a session */
    bool key_f32, value_f32;
} rl_memory_request;

typedef struct rl_memory_plan {
    uint64_t bytes[RL_MEMORY_N_PARTS];
    uint64_t total;
    /* On top, when a session is asked to remember positions (chat does): all checkpoints. */
    uint64_t checkpoints;
    uint32_t n_ctx, n_batch; /* with defaults filled in */
} rl_memory_plan;

void rl_memory_plan_make(rl_memory_plan *out, const rl_memory_request *request);

const char *rl_memory_part_key(rl_memory_part part);  /* "pool": for JSON          */
const char *rl_memory_part_name(rl_memory_part part); /* "expert pool": for people */

/* The slots that `budget_bytes` buy; UINT64_MAX: one for every expert. Contract of
 * rl_cache_plan_init(). */
RL_MUST_CHECK rl_status rl_memory_plan_pool(rl_cache_plan *out, const rl_weights *weights,
                                            uint64_t budget_bytes, rl_error *err);

/* How the matrices of one layer's experts lie in a slot: aligned pieces, gate, up, down. The slot
 * class is the pool plan's to say.
 *
 * Large matrices have a block more than they need. With `in_place`, and if every expert of the layer
 * begins in the file's blocks where the first one does, a matrix begins there in its block of the
 * slot, too: direct reads then bring whole blocks and need no copy. */
rl_expert_layout rl_memory_expert_layout(const rl_weights *weights, uint32_t layer, bool in_place);

/* How much around each of these matrices, laid out so, may be overwritten by reading its first and
 * last block whole: slack of rl_stream_range. */
size_t rl_memory_expert_slack(const rl_slice matrices[RL_EXPERT_MATRICES]);

/* The largest stretch of a file that is read at once for an expert. */
size_t rl_memory_largest_range(const rl_weights *weights);

/* The config's figures in the form that backends take. */
void rl_memory_shape(rl_shape *out, const rl_config *config);

#endif
