/* utf8_stream.c - text/utf8_stream.h. */
#include "text/utf8_stream.h"

#include <string.h>

#include "text/unicode.h"

/* One character or maximal subpart to `out`; false when it is a tail to hold back. */
static bool emit(const char *text, size_t length, uint32_t code, char **out)
{
    if (code == RL_UTF8_CUT) return false;
    const char *from = code == RL_UTF8_BAD ? RL_UTF8_REPLACEMENT : text;
    size_t bytes = code == RL_UTF8_BAD ? 3 : length;
    memcpy(*out, from, bytes);
    *out += bytes;
    return true;
}

size_t rl_utf8_stream_push(rl_utf8_stream *stream, const char *data, size_t bytes, char *out)
{
    char *end = out;
    size_t at = 0;
    /* While something is held, look at it together with the next bytes. */
    while (stream->n_held && at < bytes) {
        char joined[4];
        size_t n = stream->n_held;
        memcpy(joined, stream->held, n);
        while (n < sizeof joined && at + n - stream->n_held < bytes) {
            joined[n] = data[at + n - stream->n_held];
            n++;
        }
        uint32_t code;
        size_t length = rl_utf8_decode(joined, n, &code);
        if (!emit(joined, length, code, &end)) { /* still incomplete, and all bytes are in it */
            memcpy(stream->held, joined, length);
            stream->n_held = (unsigned char)length;
            return (size_t)(end - out);
        }
        at += length - stream->n_held; /* a subpart never ends before the held bytes do */
        stream->n_held = 0;
    }
    while (at < bytes) {
        uint32_t code;
        size_t length = rl_utf8_decode(data + at, bytes - at, &code);
        if (!emit(data + at, length, code, &end)) {
            memcpy(stream->held, data + at, length);
            stream->n_held = (unsigned char)length;
        }
        at += length;
    }
    return (size_t)(end - out);
}

size_t rl_utf8_stream_flush(rl_utf8_stream *stream, char *out)
{
    size_t bytes = stream->n_held ? 3 : 0;
    memcpy(out, RL_UTF8_REPLACEMENT, bytes);
    stream->n_held = 0;
    return bytes;
}
