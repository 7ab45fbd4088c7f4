/* engine.h - one opened model: file, weights on a backend, the expert pool, and what plays them.
 *
 * This is what include/redlite.h's rl_model stands on. The parts, in the order of the data:
 * gguf -> model (config, weights) -> cache (slots) -> backend (compute) -> forward.c (the order).
 *
 * Threads: `lock` serialises everything that computes or touches cache and backend; sessions take
 * it for the length of one feed, so several sessions can share a model. */
#ifndef RL_ENGINE_ENGINE_H
#define RL_ENGINE_ENGINE_H

#include <pthread.h>

#include "backend/backend.h"
#include "cache/cache_plan.h"
#include "cache/expert_cache.h"
#include "cache/residency.h"
#include "cache/stream_reader.h"
#include "engine/memory_plan.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/weights.h"

typedef struct rl_engine_params {
    const rl_backend_ops *ops; /* the backend                                        */
    const char *device;
    const char *isa;
    uint32_t n_threads;
    uint64_t cache_bytes;    /* expert pool; 0: as much as fits                            */
    uint32_t n_batch;        /* 0: RL_DEFAULT_BATCH                                        */
    uint32_t n_ctx;          /* of the session to leave memory for; 0: RL_DEFAULT_CONTEXT  */
    bool key_f32, value_f32; /* of that session                                         */
    uint32_t n_checkpoints;  /* that it will keep                                       */
    rl_io_mode io;
    bool no_prefetch, no_preload;
    bool no_overlap;         /* RL_ENGINE_OVERLAP=0: for measuring what overlap is worth */
    const char *speculative; /* RL_ENGINE_SPECULATIVE; NULL: auto                   */
    bool settle_ahead;       /* tests: reads ahead end before their layer begins     */
    rl_read_fault fault;     /* tests: sees every read of experts                    */
    void *fault_context;
    bool (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
    void (*note)(void *context, const char *text);
    void *context;
} rl_engine_params;

const char *rl_stage_name(rl_stage stage); /* "delta_in": for people */

typedef struct rl_experts rl_experts; /* experts.h */
typedef struct rl_decoder rl_decoder; /* decode.h */

typedef struct rl_engine {
    rl_gguf *file;
    rl_config config;
    rl_weights tensors;
    uint64_t
        fingerprint; /* of shapes and a sample of every tensor's bytes; session files carry it */

    const rl_backend_ops *ops;
    rl_backend *be;
    rl_backend_caps caps;
    rl_net net;
    rl_experts *experts; /* pool, cache, streaming */
    rl_decoder *decoder; /* single tokens, the fastest way */

    uint32_t n_batch;
    uint32_t *ids;     /* [n_batch][K] the choice of the layer under way */
    float *logit_rows; /* [RL_HEAD_ROWS][n_vocab] */
    rl_session *left;  /* whose last logits are still with the backend; NULL: nobody's */

    bool times_stages; /* a look at the clock after each stage: only where somebody wants to know */
    uint64_t stage_since;
    rl_stage_times stage_times; /* host time, or the device's where it takes it */

    bool (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
    void (*note)(void *context, const char *text);
    void *context;
    pthread_mutex_t lock;
} rl_engine;

/* Opens the file, checks the model, loads the dense weights into the backend, makes the pool.
 * On success *out owns everything: rl_engine_close(), after all sessions are destroyed. */
RL_MUST_CHECK rl_status rl_engine_open(rl_engine **out, const char *path,
                                       const rl_engine_params *params, rl_error *err);
void rl_engine_close(rl_engine *engine); /* NULL is fine */

/* Tries what opening does not: makes a session as params plan it and decodes one token there, up to
 * the first absent expert, which leaves no trace in cache or figures. Does nothing on backends without
 * a device. What a device refuses shows now and not in the first token, which is faster for it. */
RL_MUST_CHECK rl_status rl_engine_rehearse(rl_engine *engine, const rl_engine_params *params,
                                           rl_error *err);

/* load.c: reads every tensor outside the routed experts into the backend and fills engine->net. */
RL_MUST_CHECK rl_status rl_engine_load(rl_engine *engine, rl_error *err);
void rl_engine_unload(rl_engine *engine);
/* Reads the samples anew: what engine->fingerprint was at open. */
RL_MUST_CHECK rl_status rl_engine_fingerprint(const rl_engine *engine, uint64_t *out,
                                              rl_error *err);

/* Reports progress; RL_INTERRUPTED when the caller wants to stop. */
RL_MUST_CHECK rl_status rl_engine_progress(rl_engine *engine, const char *what, uint64_t done,
                                           uint64_t total, rl_error *err);
void rl_engine_note(rl_engine *engine, const char *format, ...) RL_PRINTF(2, 3);

#endif
