/* golden.h - a fixture model run against its stored numbers, on any backend.
 *
 * The gates are those of docs/numerics.md, one function per gate; every backend's test file calls them
 * for every model. A failure names the first layer and stage that is off. */
#ifndef RL_TESTS_SUPPORT_GOLDEN_H
#define RL_TESTS_SUPPORT_GOLDEN_H

#include "engine/experts.h"
#include "engine/session.h"
#include "support/expect.h"

typedef struct golden_setup {
    const char *model;  /* path of the .gguf */
    const char *expect; /* path of its numbers without ".expect.*" */
    const char *backend, *isa;
    const rl_backend_ops *ops; /* instead of the backend's name */
    const char *speculative;
    uint32_t n_threads, n_batch; /* 0: 2 and the default */
    uint64_t cache_bytes;        /* 0: everything resident */
    bool kv_f16;                 /* default f32 */
    bool no_prefetch, settle_ahead;
} golden_setup;

/* Whether a token may run again with barriers, since linked stages have waited in vain (vk_link.h). If not,
 * the test fails. */
extern bool golden_may_be_late;

/* Opens the model and one session with room for `n_ctx` tokens, or fails the test. */
void golden_open(const golden_setup *setup, uint32_t n_ctx, rl_engine **engine,
                 rl_session **session);

/* What a pass over the stored sequences showed. */
typedef struct golden_result {
    double worst_l2;        /* relative L2 of the logits of one position       */
    double worst_abs;       /* largest difference of one logit                 */
    double mean_kl, max_kl; /* KL(stored || computed), nats, stored positions */
    uint32_t same_top1, positions;
    double nll_difference; /* mean NLL of the 200-token sequence, computed - stored */
} golden_result;

/* Plays every stored sequence, each from an empty session, fed in pieces of `piece` tokens (0: at
 * once). */
void golden_sequences(const golden_setup *setup, uint32_t piece, golden_result *out);

/* Compares embedding, mixer and expert outputs, router logits, choices and weights, and the states
 * after five tokens with the stored trace, layer by layer: relative L2 <= tolerance. */
void golden_trace(const golden_setup *setup, double tolerance);

/* Greedy continuations, up to the first stored gap below `gap`. Returns the tokens compared. */
uint32_t golden_greedy(const golden_setup *setup, double gap);

#endif
