/* json.c - see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing --------------------------------------------------------------------------------- */

static void begin_value(cli_json *json)
{
    if (json->separate) fputc(',', json->out);
    json->separate = true;
}

void cli_json_open(cli_json *json, char bracket)
{
    begin_value(json);
    fputc(bracket, json->out);
    json->separate = false;
}

void cli_json_close(cli_json *json, char bracket)
{
    fputc(bracket, json->out);
    json->separate = true;
}

/* Length of the UTF-8 character at p, 0 when the bytes are none (overlong, surrogate, cut off). */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    size_t length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return length;
}

/* The letter behind the backslash that stands for c, or 0. */
static char escape_letter(unsigned char c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

static void put_string(FILE *out, const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    fputc('"', out);
    for (size_t i = 0; i < bytes;) {
        size_t length = utf8_length(p + i, bytes - i);
        char letter = escape_letter(p[i]);
        if (letter)
            fprintf(out, "\\%c", letter);
        else if (p[i] < 0x20)
            fprintf(out, "\\u%04x", p[i]);
        else if (length)
            fwrite(p + i, 1, length, out);
        else
            fputs("\xef\xbf\xbd", out);
        i += length ? length : 1;
    }
    fputc('"', out);
}

void cli_json_key(cli_json *json, const char *key)
{
    begin_value(json);
    put_string(json->out, key, strlen(key));
    fputc(':', json->out);
    json->separate = false;
}

void cli_json_string(cli_json *json, const char *text, size_t bytes)
{
    begin_value(json);
    put_string(json->out, text, bytes);
}

void cli_json_text(cli_json *json, const char *text)
{
    cli_json_string(json, text, strlen(text));
}

void cli_json_uint(cli_json *json, uint64_t value)
{
    begin_value(json);
    fprintf(json->out, "%" PRIu64, value);
}

void cli_json_number(cli_json *json, double value, int decimals)
{
    begin_value(json);
    if (isfinite(value))
        fprintf(json->out, "%.*f", decimals, value);
    else
        fputs("null", json->out);
}

void cli_json_bool(cli_json *json, bool value)
{
    begin_value(json);
    fputs(value ? "true" : "false", json->out);
}

void cli_json_null(cli_json *json)
{
    begin_value(json);
    fputs("null", json->out);
}

void cli_json_ids(cli_json *json, const uint32_t *ids, size_t n)
{
    cli_json_open(json, '[');
    for (size_t i = 0; i < n; i++)
        cli_json_uint(json, ids[i]);
    cli_json_close(json, ']');
}

void cli_json_end_line(cli_json *json)
{
    fputc('\n', json->out);
    json->separate = false;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { MAX_DEPTH = 64 };

static void skip_blanks(cli_json_in *in)
{
    while (in->at < in->end && memchr(" \t\r\n", *in->at, 4))
        in->at++;
}

bool cli_json_take(cli_json_in *in, char c)
{
    skip_blanks(in);
    if (in->at == in->end || *in->at != c) return false;
    in->at++;
    return true;
}

bool cli_json_at_end(cli_json_in *in)
{
    skip_blanks(in);
    return in->at == in->end;
}

static bool wrong(cli_json_in *in, const char *what)
{
    if (!in->wrong) in->wrong = what;
    return false;
}

/* Four hexadecimal digits; -1 when they are not there. */
static int32_t take_hex(cli_json_in *in)
{
    int32_t value = 0;
    if (in->end - in->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = *in->at++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* What follows "\u", as UTF-8; returns its length or 0. */
static size_t take_unicode(cli_json_in *in, char out[4])
{
    int32_t c = take_hex(in);
    if (c >= 0xd800 && c < 0xdc00) {
        if (in->end - in->at < 6 || in->at[0] != '\\' || in->at[1] != 'u') return 0;
        in->at += 2;
        int32_t low = take_hex(in);
        if (low < 0xdc00 || low > 0xdfff) return 0;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c < 0 || (c >= 0xdc00 && c < 0xe000)) {
        return 0;
    }
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Reads on behind the opening quote; out may be NULL (the string is only passed over). */
static bool take_string(cli_json_in *in, char *out, size_t *bytes)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    while (in->at < in->end) {
        char c = *in->at++;
        if (c == '"') {
            *bytes = n;
            return true;
        }
        if ((unsigned char)c < 0x20) return wrong(in, "a control character stands in a string");
        char utf8[4] = { c };
        size_t length = 1;
        if (c == '\\') {
            if (in->at == in->end) break;
            c = *in->at++;
            const char *letter = c ? strchr(letters, c) : NULL;
            if (letter)
                utf8[0] = meant[letter - letters];
            else if (c != 'u' || !(length = take_unicode(in, utf8)))
                return wrong(in, "an escape sequence in a string is wrong");
        }
        if (out) memcpy(out + n, utf8, length); /* never longer than its spelling */
        n += length;
    }
    return wrong(in, "a string has no end");
}

char *cli_json_take_string(cli_json_in *in, size_t *bytes)
{
    if (!cli_json_take(in, '"')) {
        wrong(in, "a string is expected");
        return NULL;
    }
    char *out = malloc((size_t)(in->end - in->at) + 1);
    if (!out) {
        wrong(in, "there is no memory for a string");
        return NULL;
    }
    if (!take_string(in, out, bytes)) {
        free(out);
        return NULL;
    }
    out[*bytes] = 0;
    return out;
}

uint32_t *cli_json_take_ids(cli_json_in *in, size_t *n)
{
    if (!cli_json_take(in, '[')) {
        wrong(in, "an array of token ids is expected");
        return NULL;
    }
    size_t capacity = 256;
    uint32_t *ids = malloc(capacity * sizeof *ids);
    *n = 0;
    bool more = !cli_json_take(in, ']');
    while (ids && more) {
        uint64_t value = 0;
        skip_blanks(in);
        const char *first = in->at;
        while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && value <= UINT32_MAX)
            value = value * 10 + (uint64_t)(*in->at++ - '0');
        if (in->at == first || value > UINT32_MAX || (*first == '0' && in->at > first + 1)) {
            wrong(in, "a token id is a whole number from 0 to 4294967295");
            break;
        }
        if (*n == capacity) {
            uint32_t *bigger = realloc(ids, capacity * 2 * sizeof *ids);
            if (!bigger) {
                wrong(in, "there is no memory for so many token ids");
                break;
            }
            ids = bigger;
            capacity *= 2;
        }
        ids[(*n)++] = (uint32_t)value;
        if (cli_json_take(in, ']'))
            more = false;
        else if (!cli_json_take(in, ',')) {
            wrong(in, "token ids are separated by commas");
            break;
        }
    }
    if (!ids) wrong(in, "there is no memory for token ids");
    if (!in->wrong) return ids;
    free(ids);
    return NULL;
}

static bool skip_members(cli_json_in *in, bool object)
{
    char close = object ? '}' : ']';
    size_t bytes;
    if (cli_json_take(in, close)) return true;
    do {
        if (object) {
            if (!cli_json_take(in, '"')) return wrong(in, "a key is expected");
            if (!take_string(in, NULL, &bytes)) return false;
            if (!cli_json_take(in, ':')) return wrong(in, "a colon is expected behind a key");
        }
        if (!cli_json_skip(in)) return false;
    } while (cli_json_take(in, ','));
    return cli_json_take(in, close) ? true : wrong(in, "an array or object has no end");
}

bool cli_json_skip(cli_json_in *in)
{
    static const char *const words[] = { "true", "false", "null" };
    size_t bytes;
    skip_blanks(in);
    if (cli_json_take(in, '"')) return take_string(in, NULL, &bytes);
    bool object = cli_json_take(in, '{');
    if (object || cli_json_take(in, '[')) {
        if (in->depth == MAX_DEPTH) return wrong(in, "values are nested too deeply");
        in->depth++;
        bool fine = skip_members(in, object);
        in->depth--;
        return fine;
    }
    size_t left = (size_t)(in->end - in->at);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);
        if (left >= n && !memcmp(in->at, words[i], n)) {
            in->at += n;
            return true;
        }
    }
    const char *first = in->at;
    while (in->at < in->end && *in->at && strchr("+-.0123456789eE", *in->at))
        in->at++;
    return in->at > first ? true : wrong(in, "a value is expected");
}
