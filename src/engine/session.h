/* session.h - one timeline of tokens on an engine: position, state, logits, checkpoints.
 *
 * The public rl_session is this struct; redlite.h describes the functions' meaning. */
#ifndef RL_ENGINE_SESSION_H
#define RL_ENGINE_SESSION_H

#include "engine/engine.h"
#include "engine/forward.h"

enum { RL_MAX_CHECKPOINTS = 4 };

/* The recurrent state of one moment. The KV cache needs no copy: positions before a checkpoint are
 * never written again as long as the checkpoint lives (going back forgets the later ones). */
typedef struct rl_checkpoint {
    uint32_t position;
    uint8_t *recurrent; /* conv and delta of every recurrent layer, exchange form */
    float *logits;      /* [n_vocab] */
} rl_checkpoint;

struct rl_session {
    rl_engine *engine;
    rl_state *state;
    rl_state_params params;
    uint32_t position;
    uint32_t *tokens; /* [n_ctx] the first `position` are meant */
    float *logits;    /* [n_vocab] after tokens[position - 1]; valid when position > 0 and they are
                         not left with the backend (engine->left) */
    bool torn; /* the backend's state is that of no position: it is cleared before the next token */
    uint32_t best;     /* index of the largest of those that are left */
    bool asks_for_top; /* the last token was drawn by a sampler that may need no more than ... */
    bool has_top;      /* ... these of what is left: they came with the token */
    rl_top_logits top;
    rl_checkpoint checkpoints[RL_MAX_CHECKPOINTS]; /* ascending positions */
    uint32_t n_checkpoints;
    rl_session_stats stats;
};

/* n_ctx 0: min(context of the model, 4096). */
RL_MUST_CHECK rl_status rl_session_open(rl_session **out, rl_engine *engine,
                                        const rl_session_params *params, rl_error *err);

/* rl_session_feed_each with hooks; `each` may be NULL, then only the last logits are computed. */
RL_MUST_CHECK rl_status rl_session_feed_hooked(rl_session *session, const uint32_t *tokens,
                                               size_t n, rl_logits_function each, void *context,
                                               const rl_forward_hooks *hooks, rl_error *err);

/* After a failure that left half of another state: the session is empty. */
void rl_session_forget(rl_session *session);

/* Brings the session's logits from the backend if they are still there. The caller holds the lock. */
RL_MUST_CHECK rl_status rl_session_settle(rl_session *session, rl_error *err);

/* Bytes of the recurrent state in exchange form. */
uint64_t rl_session_recurrent_bytes(const rl_shape *shape, const rl_layer *layers);

/* Copies the recurrent state out of, or into, the session's current copy. */
RL_MUST_CHECK rl_status rl_session_get_recurrent(const rl_session *session, uint8_t *out,
                                                 rl_error *err);
RL_MUST_CHECK rl_status rl_session_set_recurrent(rl_session *session, const uint8_t *bytes,
                                                 rl_error *err);

#endif
