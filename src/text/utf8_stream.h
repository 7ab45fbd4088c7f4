/* utf8_stream.h - bytes of tokens in, whole characters out.
 *
 * A token may end in the middle of a character. The stream holds the incomplete tail back (at most
 * three bytes) until the next bytes complete it, or show that it never will be: then U+FFFD stands
 * for it, as for everything else that is ill-formed (text/unicode.h). What comes out is always
 * well-formed UTF-8, and does not depend on how the bytes were cut into pushes.
 * Threads: one owner. Memory: none. Cases: tests/fixtures/tokenizer/stream.jsonl. */
#ifndef RL_TEXT_UTF8_STREAM_H
#define RL_TEXT_UTF8_STREAM_H

#include <stddef.h>

/* Zeroed: at the start of a text. */
typedef struct rl_utf8_stream {
    char held[3];
    unsigned char n_held;
} rl_utf8_stream;

/* Room that a push of n bytes may need in `out`. */
#define RL_UTF8_STREAM_ROOM(n) (3 * ((n) + 1))

/* Takes `bytes` bytes and writes what may be printed now to `out`, at most
 * RL_UTF8_STREAM_ROOM(bytes). Returns how many bytes that is. */
size_t rl_utf8_stream_push(rl_utf8_stream *stream, const char *data, size_t bytes, char *out);

/* The text has ended: an incomplete tail becomes one U+FFFD. Writes at most 3 bytes and returns
 * how many; the stream is at the start of a text again. */
size_t rl_utf8_stream_flush(rl_utf8_stream *stream, char *out);

#endif
