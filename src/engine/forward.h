/* forward.h - one batch of tokens through the whole network. */
#ifndef RL_ENGINE_FORWARD_H
#define RL_ENGINE_FORWARD_H

#include "engine/engine.h"

/* Where an observer is called; taps of backend.h that are valid then stand beside. */
typedef enum rl_forward_point {
    RL_AFTER_EMBED,  /* HIDDEN                                       */
    RL_AFTER_MIXER,  /* HIDDEN: the mixer's output is added          */
    RL_AFTER_ROUTER, /* ROUTER                                       */
    RL_AFTER_ROUTE,  /* ROUTE_WEIGHTS, and engine->ids               */
    RL_AFTER_MOE,    /* HIDDEN: the layer's output                   */
    RL_AFTER_HEAD    /* FINAL_NORM                                   */
} rl_forward_point;

/* What parity and tests hang into a pass. Both members may be NULL. */
typedef struct rl_forward_hooks {
    void *context;
    /* Called at every point of every layer (layer 0 for embed and head). A failure ends the pass. */
    rl_status (*observe)(void *context, rl_engine *engine, rl_forward_point point, uint32_t layer,
                         uint32_t n_tokens, rl_error *err);
    /* Asked after RL_AFTER_ROUTER: ids [n][K] to use instead of the router's own choice, or NULL. */
    const uint32_t *(*force)(void *context, uint32_t layer, uint32_t n_tokens);
} rl_forward_hooks;

/* Logits that may stay with the backend, where routed->read_logits() finds them. */
typedef struct rl_forward_left {
    bool left;          /* out: they did, and nobody was called with them */
    uint32_t best;      /* out, then: the index of the largest, the lower one on ties */
    rl_top_logits *top; /* out, then, for batches with `top` set: the largest. Not NULL there */
} rl_forward_left;

typedef struct rl_forward {
    rl_batch batch;
    /* Logits are wanted for the tokens first_logits .. n-1 of the batch; n: none. */
    uint32_t first_logits;
    /* Called with the logits [n_vocab] of token `index`, in order. false: RL_INTERRUPTED. */
    bool (*each)(void *context, uint32_t index, const float *logits);
    void *context;
    rl_forward_left *left; /* NULL: logits are wanted here; batches of one token without hooks */
    const rl_forward_hooks *hooks; /* may be NULL */
    /* After every layer the engine's progress function hears how many of progress_total tokens are
     * read, and may stop the batch. progress_done: those before this batch. 0: it is not asked. */
    uint64_t progress_done, progress_total;
} rl_forward;

/* Plays the stages. The caller holds engine->lock. On success the new state is written but not
 * committed; on failure it is to be forgotten, and nothing else has changed. */
RL_MUST_CHECK rl_status rl_forward_run(rl_engine *engine, const rl_forward *forward, rl_error *err);

/* The head has computed and its logits stay: fills forward->left, which is not NULL. Copies nothing
 * but the largest. */
RL_MUST_CHECK rl_status rl_forward_leave(rl_engine *engine, const rl_forward *forward,
                                         rl_error *err);

#endif
