/* text_buffer.h - bytes that grow: the one growing string of the text folder.
 *
 * A zeroed rl_text_buffer is empty and ready. It is no C string: `bytes` counts, NUL is a byte like
 * any other, and nothing stands behind the last one. Threads: one owner. */
#ifndef RL_TEXT_TEXT_BUFFER_H
#define RL_TEXT_TEXT_BUFFER_H

#include "base/status.h"

typedef struct rl_text_buffer {
    char *data;
    size_t bytes;
    size_t capacity;
} rl_text_buffer;

/* Frees the storage; the buffer is empty and ready again. */
void rl_text_buffer_fini(rl_text_buffer *buffer);

/* Room for `more` bytes behind the last one. On failure (RL_NOMEM) nothing has changed. */
RL_MUST_CHECK rl_status rl_text_buffer_reserve(rl_text_buffer *buffer, size_t more, rl_error *err);

/* Appends. On failure nothing has changed. */
RL_MUST_CHECK rl_status rl_text_buffer_append(rl_text_buffer *buffer, const void *data,
                                              size_t bytes, rl_error *err);

#endif
