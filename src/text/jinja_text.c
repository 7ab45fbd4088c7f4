/* jinja_text.c - jinja_text.h on utf8proc, which has properties and simple case mappings; what maps
 * to several characters stands in jinja_case.h. */
#include "text/jinja_text.h"

#include <string.h>
#include <utf8proc.h>

#include "base/bytes.h"
#include "text/jinja_case.h"
#include "text/unicode.h"

/* ---- properties ----------------------------------------------------------------------------- */

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

bool rl_code_is_space(uint32_t code)
{
    if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20);
    return code == 0x85 || category(code) == UTF8PROC_CATEGORY_ZS || code == 0x2028 ||
           code == 0x2029;
}

bool rl_code_is_alpha(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool rl_code_is_decimal(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_ND;
}

bool rl_code_is_word(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return code == '_' || rl_code_is_alpha(code) ||
           (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

bool rl_code_is_lower(uint32_t code)
{
    return utf8proc_islower((utf8proc_int32_t)code);
}

bool rl_code_is_upper(uint32_t code)
{
    return utf8proc_isupper((utf8proc_int32_t)code);
}

bool rl_code_is_title(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LT;
}

bool rl_code_is_printable(uint32_t code)
{
    if (code < 0x80) return code >= 0x20 && code < 0x7f;
    utf8proc_category_t c = category(code);
    return c != UTF8PROC_CATEGORY_CN && c < UTF8PROC_CATEGORY_ZS;
}

bool rl_code_is_line_end(uint32_t code)
{
    return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

/* ---- places in a text ----------------------------------------------------------------------- */

uint32_t rl_text_last_code(const char *text, size_t bytes, size_t *length)
{
    size_t first = bytes - 1;
    while (first && ((unsigned char)text[first] & 0xc0) == 0x80)
        first--;
    uint32_t code;
    *length = bytes - first;
    rl_utf8_decode(text + first, *length, &code);
    return code;
}

size_t rl_text_leading_space(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint32_t code;
        size_t length = rl_utf8_decode(text + at, bytes - at, &code);
        if (!rl_code_is_space(code)) break;
        at += length;
    }
    return at;
}

size_t rl_text_trailing_space(const char *text, size_t bytes)
{
    size_t left = bytes, length;
    while (left && rl_code_is_space(rl_text_last_code(text, left, &length)))
        left -= length;
    return bytes - left;
}

size_t rl_text_offset(const rl_string *text, size_t index)
{
    if (rl_string_chars(text) == text->bytes) return index < text->bytes ? index : text->bytes;
    size_t at = 0;
    for (; at < text->bytes; at++) {
        if (((unsigned char)text->at[at] & 0xc0) == 0x80) continue;
        if (!index--) break;
    }
    return at;
}

size_t rl_text_find(const char *text, size_t bytes, const char *needle, size_t needle_bytes)
{
    if (!needle_bytes) return 0;
    if (bytes < needle_bytes) return SIZE_MAX;
    const char *at = memmem(text, bytes, needle, needle_bytes);
    return at ? (size_t)(at - text) : SIZE_MAX;
}

size_t rl_text_find_last(const char *text, size_t bytes, const char *needle, size_t needle_bytes)
{
    if (bytes < needle_bytes) return SIZE_MAX;
    for (size_t at = bytes - needle_bytes;; at--) {
        if (!needle_bytes || !memcmp(text + at, needle, needle_bytes)) return at;
        if (!at) return SIZE_MAX;
    }
}

/* ---- case ----------------------------------------------------------------------------------- */

static bool is_cased(uint32_t code)
{
    return rl_code_is_lower(code) || rl_code_is_upper(code) || rl_code_is_title(code);
}

/* Characters inside words that have no case: marks, format characters, apostrophes and the like. */
static bool is_case_ignorable(uint32_t code)
{
    static const uint16_t marks[] = { 0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,
                                      0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                      0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a };
    for (size_t i = 0; i < RL_COUNT_OF(marks); i++)
        if (marks[i] == code) return true;
    switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

/* Whether the sigma of `length` bytes at `at` ends a word: letters before it, none behind. */
static bool is_final_sigma(const char *text, size_t bytes, size_t at, size_t length)
{
    uint32_t code = 0;
    size_t left = at, size;
    while (left && is_case_ignorable(code = rl_text_last_code(text, left, &size)))
        left -= size;
    if (!left || !is_cased(code)) return false;
    for (size_t next = at + length; next < bytes; next += size) {
        size = rl_utf8_decode(text + next, bytes - next, &code);
        if (!is_case_ignorable(code)) return !is_cased(code);
    }
    return true;
}

static const rl_special_case *find_special(uint32_t code)
{
    size_t low = 0, high = RL_COUNT_OF(rl_special_cases);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rl_special_cases[middle].code == code) return &rl_special_cases[middle];
        if (rl_special_cases[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Maps one character to at most 3, at most 9 bytes. */
static size_t map_code(uint32_t code, rl_case to, char out[12])
{
    if (to == RL_CASE_LOWER) {
        if (code == 0x130) return (size_t)(memcpy(out, "i\xcc\x87", 3), 3);
        return rl_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)code), out);
    }
    const rl_special_case *special = code >= 0x80 ? find_special(code) : NULL;
    const uint16_t *codes = !special ? NULL : to == RL_CASE_UPPER ? special->upper : special->title;
    if (codes && codes[0]) {
        size_t bytes = 0;
        for (int i = 0; i < 3 && codes[i]; i++)
            bytes += rl_utf8_encode(codes[i], out + bytes);
        return bytes;
    }
    utf8proc_int32_t mapped = to == RL_CASE_UPPER ? utf8proc_toupper((utf8proc_int32_t)code)
                                                  : utf8proc_totitle((utf8proc_int32_t)code);
    return rl_utf8_encode((uint32_t)mapped, out);
}

rl_status rl_text_change_case(rl_text_buffer *out, const char *text, size_t bytes, rl_case to,
                              rl_error *err)
{
    bool inside = false; /* the character before belongs to the same word */
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = rl_utf8_decode(text + at, bytes - at, &code);
        rl_case one = to;
        if (to == RL_CASE_CAPITAL || to == RL_CASE_TITLE)
            one = inside ? RL_CASE_LOWER : RL_CASE_TITLE;
        inside = to == RL_CASE_CAPITAL || is_cased(code);
        char mapped[12];
        size_t mapped_bytes;
        if (code == 0x3a3 && one == RL_CASE_LOWER)
            mapped_bytes =
                rl_utf8_encode(is_final_sigma(text, bytes, at, length) ? 0x3c2 : 0x3c3, mapped);
        else
            mapped_bytes = map_code(code, one, mapped);
        rl_status status = rl_text_buffer_append(out, mapped, mapped_bytes, err);
        if (status) return status;
        at += length;
    }
    return RL_OK;
}
