/* tokens.h - a list of token ids that grows.
 *
 * A zeroed rl_tokens is empty and ready; rl_tokens_fini() frees it. Threads: one owner. */
#ifndef RL_TEXT_TOKENS_H
#define RL_TEXT_TOKENS_H

#include "base/status.h"

typedef struct rl_tokens {
    uint32_t *ids;
    size_t n;
    size_t capacity;
} rl_tokens;

void rl_tokens_fini(rl_tokens *tokens); /* empty and ready again */

/* Room for `more` ids behind the last one. On failure (RL_NOMEM) nothing has changed. */
RL_MUST_CHECK rl_status rl_tokens_reserve(rl_tokens *tokens, size_t more, rl_error *err);

RL_MUST_CHECK rl_status rl_tokens_append(rl_tokens *tokens, uint32_t id, rl_error *err);

#endif
