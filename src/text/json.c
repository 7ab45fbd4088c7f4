/* json.c - the reader of json.h: recursive descent over bytes that were checked to be UTF-8.
 *
 * Invariants
 *   - `at` never passes `end`; every byte is looked at after that check
 *   - recursion is as deep as the value's nesting, which max_depth bounds */
#include "text/json.h"

#include <stdio.h>
#include <string.h>

#include "text/number.h"
#include "text/unicode.h"

typedef struct reader {
    const char *begin, *at, *end;
    rl_arena *arena;
    const char *what;
    unsigned depth, max_depth;
    rl_error *err;
} reader;

/* RL_FORMAT at the current place. */
static rl_status malformed(const reader *r, const char *reason)
{
    size_t line = 1, column = 1;
    for (const char *p = r->begin; p < r->at; p++) {
        bool newline = *p == '\n';
        line += newline;
        column = newline ? 1 : column + (((unsigned char)*p & 0xc0) != 0x80);
    }
    return rl_fail(r->err, RL_FORMAT, "%s: not valid JSON at line %zu, column %zu: %s", r->what,
                   line, column, reason);
}

static rl_status no_memory(const reader *r)
{
    if (r->arena->over_limit)
        return rl_fail(r->err, RL_INVALID,
                       "%s: reading it would take more than %zu bytes of memory", r->what,
                       r->arena->limit_bytes);
    return rl_fail(r->err, RL_NOMEM, "%s: no memory to read it", r->what);
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

/* True, and past it, when the next byte is c. */
static bool take(reader *r, char c)
{
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static size_t count_digits(reader *r)
{
    const char *first = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - first);
}

static rl_status read_number(reader *r, rl_value *out)
{
    const char *first = r->at;
    bool whole = true, too_long;
    take(r, '-');
    if (r->at < r->end && *r->at == '0') {
        r->at++;
        if (r->at < r->end && *r->at >= '0' && *r->at <= '9')
            return malformed(r, "a number may not begin with 0");
    } else if (!count_digits(r)) {
        return malformed(r, "a digit is missing");
    }
    if (take(r, '.')) {
        whole = false;
        if (!count_digits(r)) return malformed(r, "a digit is missing behind the point");
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        whole = false;
        r->at++;
        if (!take(r, '+')) take(r, '-');
        if (!count_digits(r)) return malformed(r, "a digit is missing in the exponent");
    }
    size_t bytes = (size_t)(r->at - first);
    if (!whole) {
        *out = rl_value_float(rl_float_read(first, bytes));
        return RL_OK;
    }
    return rl_int_read(r->arena, first, bytes, 10, out, &too_long) ? RL_OK : no_memory(r);
}

static bool read_hex4(reader *r, uint32_t *code)
{
    *code = 0;
    if (r->end - r->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = *r->at;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
        *code = *code << 4 | digit;
        r->at++;
    }
    return true;
}

/* What stands behind a backslash, decoded to `to`; *bytes is how much was written, at most 4. An
 * escape is never shorter than what it stands for. */
static rl_status read_escape(reader *r, char *to, size_t *bytes)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    uint32_t code, low;
    if (r->at == r->end) return malformed(r, "the string does not end");
    char c = *r->at;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        r->at++;
        *to = into[simple - from];
        *bytes = 1;
        return RL_OK;
    }
    if (c != 'u') return malformed(r, "unknown escape");
    r->at++;
    if (!read_hex4(r, &code)) return malformed(r, "\\u needs four hexadecimal digits");
    if (code >= 0xdc00 && code < 0xe000) return malformed(r, "half a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
        if (!take(r, '\\') || !take(r, 'u') || !read_hex4(r, &low) || low < 0xdc00 || low >= 0xe000)
            return malformed(r, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *bytes = rl_utf8_encode(code, to);
    return RL_OK;
}

/* Stands behind the opening quote. */
static rl_status read_string(reader *r, const rl_string **out)
{
    const char *first = r->at, *p = r->at;
    bool escaped = false;
    for (; p < r->end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20) {
            r->at = p;
            return malformed(r, "a control character must be escaped in a string");
        }
        if (*p == '\\') {
            escaped = true;
            if (p + 1 < r->end) p++;
        }
    }
    if (p >= r->end) {
        r->at = r->end;
        return malformed(r, "the string does not end");
    }
    if (!escaped) {
        r->at = p + 1;
        *out = rl_string_create(r->arena, first, (size_t)(p - first));
        return *out ? RL_OK : no_memory(r);
    }
    char *text = rl_arena_alloc(r->arena, (size_t)(p - first) + 1);
    if (!text) return no_memory(r);
    size_t bytes = 0, written = 0;
    while (*r->at != '"') { /* p says that it comes */
        if (*r->at != '\\') {
            text[bytes++] = *r->at++;
            continue;
        }
        r->at++;
        rl_status status = read_escape(r, text + bytes, &written);
        if (status) return status;
        bytes += written;
    }
    r->at++;
    text[bytes] = '\0';
    *out = rl_string_over(r->arena, text, bytes);
    return *out ? RL_OK : no_memory(r);
}

static rl_status read_value(reader *r, rl_value *out);

static rl_status read_array(reader *r, rl_value *out)
{
    rl_list *list = rl_list_create(r->arena, 0);
    if (!list) return no_memory(r);
    *out = rl_value_list(list);
    skip_space(r);
    if (take(r, ']')) return RL_OK;
    for (;;) {
        rl_value item;
        rl_status status = read_value(r, &item);
        if (status) return status;
        if (!rl_list_add(r->arena, list, item)) return no_memory(r);
        skip_space(r);
        if (take(r, ']')) return RL_OK;
        if (!take(r, ',')) return malformed(r, "expected ',' or ']'");
    }
}

static rl_status read_object(reader *r, rl_value *out)
{
    rl_dict *dict = rl_dict_create(r->arena, 0);
    if (!dict) return no_memory(r);
    *out = rl_value_dict(dict);
    skip_space(r);
    if (take(r, '}')) return RL_OK;
    for (;;) {
        const rl_string *key;
        rl_value value;
        skip_space(r);
        if (!take(r, '"')) return malformed(r, "expected a key in double quotes");
        rl_status status = read_string(r, &key);
        if (status) return status;
        skip_space(r);
        if (!take(r, ':')) return malformed(r, "expected ':'");
        status = read_value(r, &value);
        if (status) return status;
        if (!rl_dict_set(r->arena, dict, rl_value_string(key), value)) return no_memory(r);
        skip_space(r);
        if (take(r, '}')) return RL_OK;
        if (!take(r, ',')) return malformed(r, "expected ',' or '}'");
    }
}

static bool take_word(reader *r, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes)) return false;
    r->at += bytes;
    return true;
}

static rl_status read_value(reader *r, rl_value *out)
{
    skip_space(r);
    if (r->at == r->end) return malformed(r, "a value is missing");
    char c = *r->at;
    if (c == '"') {
        const rl_string *string = NULL;
        r->at++;
        rl_status status = read_string(r, &string);
        *out = rl_value_string(string);
        return status;
    }
    if (c == '{' || c == '[') {
        if (r->depth == r->max_depth)
            return rl_fail(r->err, RL_INVALID, "%s: JSON nested deeper than %u levels", r->what,
                           r->max_depth);
        r->at++;
        r->depth++;
        rl_status status = c == '{' ? read_object(r, out) : read_array(r, out);
        r->depth--;
        return status;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r, out);
    if (take_word(r, "true"))
        *out = rl_value_bool(true);
    else if (take_word(r, "false"))
        *out = rl_value_bool(false);
    else if (take_word(r, "null"))
        *out = rl_value_none();
    else
        return malformed(r, "expected a value");
    return RL_OK;
}

rl_status rl_json_read(rl_arena *arena, const char *text, size_t bytes, const char *what,
                       unsigned max_depth, rl_value *out, rl_error *err)
{
    reader r = { .begin = text,
                 .at = text,
                 .end = text + bytes,
                 .arena = arena,
                 .what = what,
                 .max_depth = max_depth ? max_depth : RL_JSON_DEPTH,
                 .err = err };
    size_t bad;
    *out = rl_value_none();
    if (!rl_utf8_is_valid(text, bytes, &bad))
        return rl_fail(err, RL_FORMAT, "%s: not valid UTF-8 at byte %zu", what, bad);
    rl_status status = read_value(&r, out);
    if (status) return status;
    skip_space(&r);
    return r.at == r.end ? RL_OK : malformed(&r, "something follows the value");
}
