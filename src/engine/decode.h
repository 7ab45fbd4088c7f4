/* decode.h - one generated token: which way to take it, and what to do when an expert is missing.
 *
 * A backend with a routed step (backend.h, docs/gpu-routing.md) can decode a token in several ways
 * that give the same bits. The decoder tries them as the policy says, loads what is missing in the
 * middle of a token, and leaves cache and session as the synchronous step would have.
 *
 * Threads: as the engine, under its lock. No allocation after create. */
#ifndef RL_ENGINE_DECODE_H
#define RL_ENGINE_DECODE_H

#include "engine/decode_policy.h"
#include "engine/forward.h"

/* RL_ENGINE_SPECULATIVE: 0, restart, resume, gated, or auto. */
typedef enum rl_speculative {
    RL_SPECULATIVE_AUTO,
    RL_SPECULATIVE_OFF,
    RL_SPECULATIVE_RESTART,
    RL_SPECULATIVE_RESUME,
    RL_SPECULATIVE_GATED
} rl_speculative;

/* false when the text is none of the words. */
bool rl_speculative_parse(const char *text, rl_speculative *out);

/* Tokens by the way they took. `routed` needed no load: one submission, one wait. */
typedef struct rl_decode_counts {
    uint64_t routed, resumed, restarted, gated, sync;
    uint64_t resumes; /* loads in the middle of a token */
} rl_decode_counts;

/* RL_UNSUPPORTED when a way is forced that the backend does not have. */
RL_MUST_CHECK rl_status rl_decoder_create(rl_decoder **out, rl_engine *engine, rl_speculative mode,
                                          rl_error *err);
void rl_decoder_destroy(rl_decoder *decoder); /* NULL is fine */

/* Same contract as rl_forward_run(), for batches of one token without hooks. */
RL_MUST_CHECK rl_status rl_decoder_run(rl_decoder *decoder, const rl_forward *forward,
                                       rl_error *err);

rl_decode_counts rl_decoder_counts(const rl_decoder *decoder);

#endif
