/* text_buffer.c - text/text_buffer.h: capacity doubles, so appending n bytes costs O(n). */
#include "text/text_buffer.h"

#include <stdlib.h>
#include <string.h>

void rl_text_buffer_fini(rl_text_buffer *buffer)
{
    free(buffer->data);
    *buffer = (rl_text_buffer){ 0 };
}

rl_status rl_text_buffer_reserve(rl_text_buffer *buffer, size_t more, rl_error *err)
{
    if (more <= buffer->capacity - buffer->bytes) return RL_OK;
    size_t wanted = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (wanted - buffer->bytes < more) {
        if (wanted > SIZE_MAX / 2) return rl_fail(err, RL_NOMEM, "no memory for %zu bytes", more);
        wanted *= 2;
    }
    char *data = realloc(buffer->data, wanted);
    if (!data) return rl_fail(err, RL_NOMEM, "no memory for %zu bytes of text", wanted);
    buffer->data = data;
    buffer->capacity = wanted;
    return RL_OK;
}

rl_status rl_text_buffer_append(rl_text_buffer *buffer, const void *data, size_t bytes,
                                rl_error *err)
{
    rl_status status = rl_text_buffer_reserve(buffer, bytes, err);
    if (status) return status;
    if (bytes) memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
    return RL_OK;
}
