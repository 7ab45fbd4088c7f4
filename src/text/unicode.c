/* unicode.c - text/unicode.h: decoding by the table of well-formed byte sequences (Unicode
 * standard, table 3-7), and NFC on the tables of utf8proc.
 *
 * Of utf8proc only the steps without bad cases are used: its own ordering of combining marks takes
 * quadratic time on a long run of them, which one hostile line of text can contain. Here a run is
 * ordered by counting. */
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/assert.h"
#include "base/bytes.h"

/* The second byte of a sequence is the one whose range depends on the first. */
static bool second_byte_fits(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf; /* shorter: overlong    */
    case 0xed: return second >= 0x80 && second <= 0x9f; /* above: surrogates    */
    case 0xf0: return second >= 0x90 && second <= 0xbf; /* shorter: overlong    */
    case 0xf4: return second >= 0x80 && second <= 0x8f; /* above: past U+10FFFF */
    default: return second >= 0x80 && second <= 0xbf;
    }
}

size_t rl_utf8_decode(const char *text, size_t bytes, uint32_t *code)
{
    const uint8_t *p = (const uint8_t *)text;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    size_t length = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    *code = RL_UTF8_BAD;
    if (!length) return 1;
    uint32_t value = p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (i == bytes) {
            *code = RL_UTF8_CUT;
            return i;
        }
        if (i == 1 ? !second_byte_fits(p[0], p[1]) : (p[i] & 0xc0) != 0x80) return i;
        value = value << 6 | (p[i] & 0x3f);
    }
    *code = value;
    return length;
}

size_t rl_utf8_encode(uint32_t code, char out[4])
{
    RL_ASSERT(code < 0x110000 && (code < 0xd800 || code > 0xdfff));
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)((0xf00u >> length) | code);
    return length;
}

bool rl_utf8_is_valid(const char *text, size_t bytes, size_t *bad)
{
    size_t at = 0;
    while (at < bytes) {
        if (bytes - at >= 8 && !(rl_load_u64(text + at) & 0x8080808080808080u)) {
            at += 8;
            continue;
        }
        uint32_t code;
        size_t length = rl_utf8_decode(text + at, bytes - at, &code);
        if (code >= RL_UTF8_CUT) {
            if (bad) *bad = at;
            return false;
        }
        at += length;
    }
    return true;
}

rl_status rl_utf8_replace(const char *text, size_t bytes, rl_text_buffer *out, rl_error *err)
{
    rl_status status = RL_OK;
    while (bytes && !status) {
        size_t good = bytes;
        rl_utf8_is_valid(text, bytes, &good);
        status = rl_text_buffer_append(out, text, good, err);
        text += good;
        bytes -= good;
        if (status || !bytes) break;
        uint32_t code;
        size_t length = rl_utf8_decode(text, bytes, &code);
        status = rl_text_buffer_append(out, RL_UTF8_REPLACEMENT, 3, err);
        text += length;
        bytes -= length;
    }
    return status;
}

/* U+0300 is CC 80, and continuation bytes are below C0. */
#define FIRST_BYTE_OF_U0300 0xcc

bool rl_nfc_quick(const char *text, size_t bytes)
{
    /* Blocks without an exit inside, so that the compiler can use wide registers. */
    size_t at = 0;
    for (; bytes - at >= 64; at += 64) {
        uint8_t high = 0;
        for (size_t i = 0; i < 64; i++)
            high |= (uint8_t)text[at + i] >= FIRST_BYTE_OF_U0300;
        if (high) return false;
    }
    for (; at < bytes; at++)
        if ((uint8_t)text[at] >= FIRST_BYTE_OF_U0300) return false;
    return true;
}

static const utf8proc_option_t nfc_options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

/* Code points of one stretch, and a second array that ordering needs. */
typedef struct stretch {
    utf8proc_int32_t *codes;
    utf8proc_int32_t *spare;
    size_t n;
    size_t capacity;
} stretch;

static rl_status stretch_reserve(stretch *s, size_t more, rl_error *err)
{
    if (more <= s->capacity - s->n) return RL_OK;
    size_t capacity = s->capacity < 256 ? 256 : s->capacity;
    while (capacity - s->n < more)
        capacity *= 2;
    utf8proc_int32_t *codes = realloc(s->codes, capacity * sizeof *codes);
    if (codes) s->codes = codes;
    utf8proc_int32_t *spare = codes ? realloc(s->spare, capacity * sizeof *spare) : NULL;
    if (spare) s->spare = spare;
    if (!spare) return rl_fail(err, RL_NOMEM, "no memory to normalise %zu characters", capacity);
    s->capacity = capacity;
    return RL_OK;
}

static uint8_t combining_class(utf8proc_int32_t code)
{
    return (uint8_t)utf8proc_get_property(code)->combining_class;
}

/* Puts the marks codes[from..to) in the order of their classes, equal ones as they stand. */
static void order_marks(stretch *s, size_t from, size_t to)
{
    if (to - from < 2) return;
    size_t start[257] = { 0 };
    for (size_t i = from; i < to; i++)
        start[combining_class(s->codes[i]) + 1]++;
    for (size_t c = 0; c < 256; c++)
        start[c + 1] += start[c];
    for (size_t i = from; i < to; i++)
        s->spare[start[combining_class(s->codes[i])]++] = s->codes[i];
    memcpy(s->codes + from, s->spare, (to - from) * sizeof *s->codes);
}

static void order_all_marks(stretch *s)
{
    size_t i = 0;
    while (i < s->n) {
        size_t from = i;
        while (i < s->n && combining_class(s->codes[i]))
            i++;
        order_marks(s, from, i);
        i++;
    }
}

/* U+11A7 stands in front of the Hangul tails, and is none. Composition in utf8proc 2.8 takes it for
 * one and drops it, so what is composed in one go never has it but at the beginning. */
#define NOT_A_TAIL 0x11a7

static rl_status compose(utf8proc_int32_t *codes, size_t n, rl_text_buffer *out, rl_error *err)
{
    utf8proc_ssize_t composed = utf8proc_normalize_utf32(codes, (utf8proc_ssize_t)n, nfc_options);
    RL_ASSERT(composed >= 0);
    rl_status status = rl_text_buffer_reserve(out, (size_t)composed * 4, err);
    if (status) return status;
    for (utf8proc_ssize_t i = 0; i < composed; i++)
        out->bytes += rl_utf8_encode((uint32_t)codes[i], out->data + out->bytes);
    return RL_OK;
}

/* Decomposes, orders and composes text that begins at a boundary, and appends it to `out`. */
static rl_status normalise(stretch *s, const char *text, size_t bytes, rl_text_buffer *out,
                           rl_error *err)
{
    rl_status status = RL_OK;
    s->n = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        at += rl_utf8_decode(text + at, bytes - at, &code);
        RL_ASSERT(code < RL_UTF8_CUT);
        enum { LONGEST = 8 }; /* canonically, no character becomes more than 4 */
        status = stretch_reserve(s, LONGEST, err);
        if (status) return status;
        int boundary = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, s->codes + s->n,
                                                     LONGEST, nfc_options, &boundary);
        RL_ASSERT(n >= 0 && n <= LONGEST);
        s->n += (size_t)n;
    }
    order_all_marks(s);
    for (size_t from = 0, to; from < s->n && !status; from = to) {
        to = from + 1;
        while (to < s->n && s->codes[to] != NOT_A_TAIL)
            to++;
        status = compose(s->codes + from, to - from, out, err);
    }
    return status;
}

/* Characters below U+0300 never change and never join the one before them: the text is cut in
 * front of them, and only stretches with a higher character are worked on. */
rl_status rl_nfc(const char *text, size_t bytes, rl_text_buffer *out, rl_error *err)
{
    stretch s = { 0 };
    rl_status status = RL_OK;
    size_t done = 0, last = 0; /* copied so far; where the last low character begins */
    size_t at = 0;
    while (at < bytes && !status) {
        uint8_t first = (uint8_t)text[at];
        if (first < FIRST_BYTE_OF_U0300) {
            if ((first & 0xc0) != 0x80) last = at;
            at++;
            continue;
        }
        size_t end = at;
        while (end < bytes &&
               ((uint8_t)text[end] >= FIRST_BYTE_OF_U0300 || ((uint8_t)text[end] & 0xc0) == 0x80))
            end++;
        /* A low character of two bytes (C2..CB) ends the stretch at its first byte, above. */
        status = rl_text_buffer_append(out, text + done, last - done, err);
        if (!status) status = normalise(&s, text + last, end - last, out, err);
        done = last = at = end;
    }
    if (!status && done < bytes)
        status = rl_text_buffer_append(out, text + done, bytes - done, err);
    free(s.codes);
    free(s.spare);
    return status;
}
