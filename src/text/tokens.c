/* tokens.c - text/tokens.h: capacity doubles. */
#include "text/tokens.h"

#include <stdlib.h>

void rl_tokens_fini(rl_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (rl_tokens){ 0 };
}

rl_status rl_tokens_reserve(rl_tokens *tokens, size_t more, rl_error *err)
{
    if (more <= tokens->capacity - tokens->n) return RL_OK;
    size_t capacity = tokens->capacity < 64 ? 64 : tokens->capacity;
    while (capacity - tokens->n < more) {
        if (capacity > SIZE_MAX / 8) return rl_fail(err, RL_NOMEM, "no memory for %zu ids", more);
        capacity *= 2;
    }
    uint32_t *ids = realloc(tokens->ids, capacity * sizeof *ids);
    if (!ids) return rl_fail(err, RL_NOMEM, "no memory for %zu token ids", capacity);
    tokens->ids = ids;
    tokens->capacity = capacity;
    return RL_OK;
}

rl_status rl_tokens_append(rl_tokens *tokens, uint32_t id, rl_error *err)
{
    rl_status status = rl_tokens_reserve(tokens, 1, err);
    if (!status) tokens->ids[tokens->n++] = id;
    return status;
}
