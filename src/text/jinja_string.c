/* jinja_string.c - the methods of strings. Indices count characters, as in Python. */
#include "text/jinja_methods.h"

#include <string.h>

#include "base/bytes.h"
#include "text/unicode.h"

/* A piece of the text, sharing its bytes. */
static rl_value piece(rl_jinja_run *run, rl_value of, size_t first, size_t last)
{
    return rl_jinja_string_over(run, of.string->at + first, last - first);
}

static int64_t chars_of(rl_jinja_run *run, rl_value text)
{
    rl_jinja_charge(run, text.string->bytes / 64);
    return (int64_t)rl_string_chars(text.string);
}

/* ---- case, stripping, padding --------------------------------------------------------------- */

rl_value rl_jinja_change_case(rl_jinja_run *run, rl_value text, rl_case to)
{
    rl_error inner = { { 0 } };
    size_t begin = run->out.bytes;
    rl_jinja_charge(run, text.string->bytes / 16);
    rl_jinja_check(run,
                   rl_text_change_case(&run->out, text.string->at, text.string->bytes, to, &inner),
                   &inner);
    rl_value out = rl_jinja_captured(run, begin);
    out.safe = text.safe;
    return out;
}

static rl_value string_lower(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, self, RL_CASE_LOWER);
}

static rl_value string_upper(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, self, RL_CASE_UPPER);
}

static rl_value string_capitalize(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, self, RL_CASE_CAPITAL);
}

static rl_value string_title(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, self, RL_CASE_TITLE);
}

static bool is_stripped(rl_jinja_run *run, uint32_t code, const rl_string *chars)
{
    if (!chars) return rl_code_is_space(code);
    rl_jinja_charge(run, 1 + chars->bytes / 64);
    for (size_t at = 0; at < chars->bytes;) {
        uint32_t other;
        at += rl_utf8_decode(chars->at + at, chars->bytes - at, &other);
        if (other == code) return true;
    }
    return false;
}

rl_value rl_jinja_strip(rl_jinja_run *run, rl_value text, rl_value chars, bool left, bool right)
{
    const rl_string *set = NULL;
    if (chars.kind != RL_VALUE_MISSING && chars.kind != RL_VALUE_NONE)
        set = rl_jinja_string_arg(run, chars, "the characters to strip");
    const char *at = text.string->at;
    size_t first = 0, last = text.string->bytes, length;
    uint32_t code;
    while (left && first < last) {
        length = rl_utf8_decode(at + first, last - first, &code);
        if (!is_stripped(run, code, set)) break;
        first += length;
    }
    while (right && first < last) {
        code = rl_text_last_code(at, last, &length);
        if (!is_stripped(run, code, set)) break;
        last -= length;
    }
    rl_jinja_charge(run, (text.string->bytes - (last - first)) / 16);
    rl_value out = piece(run, text, first, last);
    out.safe = text.safe;
    return out;
}

static rl_value string_strip(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return rl_jinja_strip(run, self, args[0], true, true);
}

static rl_value string_lstrip(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return rl_jinja_strip(run, self, args[0], true, false);
}

static rl_value string_rstrip(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return rl_jinja_strip(run, self, args[0], false, true);
}

static void emit_fill(rl_jinja_run *run, const rl_string *fill, int64_t n)
{
    for (; n > 0; n--) {
        rl_jinja_charge(run, 1);
        rl_jinja_emit(run, fill->at, fill->bytes);
    }
}

static rl_value pad(rl_jinja_run *run, rl_value text, int64_t left, int64_t right, rl_value fill)
{
    static const rl_string blank = { .at = " ", .bytes = 1, .chars = 1 };
    const rl_string *with = &blank;
    if (fill.kind != RL_VALUE_MISSING) {
        with = rl_jinja_string_arg(run, fill, "the fill character");
        if (rl_string_chars(with) != 1)
            rl_jinja_raise(run, RL_INVALID,
                           "the fill character must be exactly one character long");
    }
    size_t begin = run->out.bytes;
    emit_fill(run, with, left);
    rl_jinja_emit(run, text.string->at, text.string->bytes);
    emit_fill(run, with, right);
    rl_value out = rl_jinja_captured(run, begin);
    out.safe = text.safe;
    return out;
}

rl_value rl_jinja_center(rl_jinja_run *run, rl_value text, int64_t width, rl_value fill)
{
    int64_t chars = chars_of(run, text), room = width > chars ? width - chars : 0;
    int64_t left = room / 2 + (room & width & 1);
    return pad(run, text, left, room - left, fill);
}

static rl_value string_center(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return rl_jinja_center(run, self, rl_jinja_int_arg(run, args[0], 0), args[1]);
}

static rl_value string_ljust(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    int64_t width = rl_jinja_int_arg(run, args[0], 0), chars = chars_of(run, self);
    return pad(run, self, 0, width > chars ? width - chars : 0, args[1]);
}

static rl_value string_rjust(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    int64_t width = rl_jinja_int_arg(run, args[0], 0), chars = chars_of(run, self);
    return pad(run, self, width > chars ? width - chars : 0, 0, args[1]);
}

static rl_value string_zfill(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    static const rl_string zero = { .at = "0", .bytes = 1, .chars = 1 };
    int64_t width = rl_jinja_int_arg(run, args[0], 0), chars = chars_of(run, self);
    const rl_string *text = self.string;
    size_t sign = text->bytes && (text->at[0] == '-' || text->at[0] == '+') && width > chars;
    size_t begin = run->out.bytes;
    rl_jinja_emit(run, text->at, sign);
    emit_fill(run, &zero, width > chars ? width - chars : 0);
    rl_jinja_emit(run, text->at + sign, text->bytes - sign);
    return rl_jinja_captured(run, begin);
}

/* ---- searching ------------------------------------------------------------------------------ */

/* The part of the text that start and stop (in characters, maybe negative) select. *from is the
 * first character's index; false when start lies behind the end. */
static bool select_range(rl_jinja_run *run, rl_value self, rl_value start, rl_value stop,
                         rl_string *part, int64_t *from)
{
    int64_t count = chars_of(run, self), first = 0, last = count;
    if (start.kind != RL_VALUE_NONE) first = rl_jinja_int_arg(run, start, 0);
    if (stop.kind != RL_VALUE_NONE) last = rl_jinja_int_arg(run, stop, count);
    if (first < 0) first = first + count < 0 ? 0 : first + count;
    if (last < 0) last = last + count < 0 ? 0 : last + count;
    if (last > count) last = count;
    *from = first;
    if (first > last) return false;
    rl_value range = rl_jinja_substring(run, self, (size_t)first, (size_t)last);
    *part = *range.string;
    return true;
}

static rl_value find_in_range(rl_jinja_run *run, rl_value self, const rl_value *args, bool last)
{
    const rl_string *needle = rl_jinja_string_arg(run, args[0], "the text to find");
    rl_string part;
    int64_t from;
    if (!select_range(run, self, args[1], args[2], &part, &from)) return rl_value_int(-1);
    rl_jinja_charge(run, part.bytes / 64);
    if (last && needle->bytes && part.bytes > needle->bytes)
        rl_jinja_charge(run, (uint64_t)(part.bytes - needle->bytes) * needle->bytes / 256);
    size_t at = last ? rl_text_find_last(part.at, part.bytes, needle->at, needle->bytes)
                     : rl_text_find(part.at, part.bytes, needle->at, needle->bytes);
    if (at == SIZE_MAX) return rl_value_int(-1);
    rl_string before = { .at = part.at, .bytes = at, .chars = RL_CHARS_UNKNOWN };
    return rl_value_int(from + (int64_t)rl_string_chars(&before));
}

static rl_value string_find(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return find_in_range(run, self, args, false);
}

static rl_value string_rfind(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return find_in_range(run, self, args, true);
}

static rl_value found_or_raise(rl_jinja_run *run, rl_value at)
{
    if (at.integer < 0) rl_jinja_raise(run, RL_INVALID, "substring not found");
    return at;
}

static rl_value string_index(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return found_or_raise(run, find_in_range(run, self, args, false));
}

static rl_value string_rindex(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return found_or_raise(run, find_in_range(run, self, args, true));
}

static rl_value string_count(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    const rl_string *needle = rl_jinja_string_arg(run, args[0], "the text to count");
    rl_string part;
    int64_t from, n = 0;
    if (!select_range(run, self, args[1], args[2], &part, &from)) return rl_value_int(0);
    if (!needle->bytes) return rl_value_int((int64_t)rl_string_chars(&part) + 1);
    rl_jinja_charge(run, part.bytes / 64);
    for (size_t at = 0;; n++) {
        size_t found = rl_text_find(part.at + at, part.bytes - at, needle->at, needle->bytes);
        if (found == SIZE_MAX) return rl_value_int(n);
        at += found + needle->bytes;
    }
}

static bool has_affix(rl_jinja_run *run, const rl_string *part, rl_value affix, bool at_end)
{
    const rl_string *text = rl_jinja_string_arg(run, affix, "the first argument");
    if (text->bytes > part->bytes) return false;
    rl_jinja_charge(run, text->bytes / 64);
    return !memcmp(part->at + (at_end ? part->bytes - text->bytes : 0), text->at, text->bytes);
}

static rl_value test_affix(rl_jinja_run *run, rl_value self, const rl_value *args, bool at_end)
{
    rl_string part;
    int64_t from;
    bool tuple = rl_jinja_is_list(args[0], RL_LIST_TUPLE);
    if (!tuple) rl_jinja_string_arg(run, args[0], "the first argument");
    if (!select_range(run, self, args[1], args[2], &part, &from)) return rl_value_bool(false);
    if (!tuple) return rl_value_bool(has_affix(run, &part, args[0], at_end));
    for (size_t i = 0; i < args[0].list->count; i++) {
        rl_jinja_charge(run, 1);
        if (has_affix(run, &part, args[0].list->items[i], at_end)) return rl_value_bool(true);
    }
    return rl_value_bool(false);
}

static rl_value string_startswith(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return test_affix(run, self, args, false);
}

static rl_value string_endswith(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return test_affix(run, self, args, true);
}

static rl_value string_removeprefix(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    size_t cut = has_affix(run, self.string, args[0], false) ? args[0].string->bytes : 0;
    return piece(run, self, cut, self.string->bytes);
}

static rl_value string_removesuffix(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    size_t cut = has_affix(run, self.string, args[0], true) ? args[0].string->bytes : 0;
    return piece(run, self, 0, self.string->bytes - cut);
}

/* ---- replacing and splitting ---------------------------------------------------------------- */

rl_value rl_jinja_replace(rl_jinja_run *run, rl_value text, rl_value from, rl_value to,
                          int64_t most)
{
    const rl_string *in = text.string, *old = from.string, *new = to.string;
    size_t begin = run->out.bytes, at = 0;
    rl_jinja_charge(run, in->bytes / 16);
    for (int64_t n = 0; most < 0 || n < most; n++) {
        size_t found = 0;
        if (old->bytes) {
            found = rl_text_find(in->at + at, in->bytes - at, old->at, old->bytes);
            if (found == SIZE_MAX) break;
        } else if (n) { /* an empty text stands before, between and behind all characters */
            if (at == in->bytes) break;
            uint32_t code;
            found = rl_utf8_decode(in->at + at, in->bytes - at, &code);
        }
        rl_jinja_charge(run, 1);
        rl_jinja_emit(run, in->at + at, found);
        rl_jinja_emit(run, new->at, new->bytes);
        at += found + old->bytes;
    }
    rl_jinja_emit(run, in->at + at, in->bytes - at);
    rl_value out = rl_jinja_captured(run, begin);
    out.safe = text.safe;
    return out;
}

static rl_value string_replace(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    rl_jinja_string_arg(run, args[0], "the text to replace");
    rl_jinja_string_arg(run, args[1], "the replacement");
    return rl_jinja_replace(run, self, args[0], args[1], rl_jinja_int_arg(run, args[2], -1));
}

static void add_piece(rl_jinja_run *run, rl_list *list, rl_value of, size_t first, size_t last)
{
    rl_jinja_charge(run, 1);
    rl_jinja_add(run, list, piece(run, of, first, last));
}

static void reverse(rl_list *list)
{
    for (size_t i = 0, j = list->count; i + 1 < j; i++) {
        rl_value item = list->items[i];
        list->items[i] = list->items[--j];
        list->items[j] = item;
    }
}

static void split_at_space(rl_jinja_run *run, rl_value self, int64_t most, rl_list *list)
{
    const char *text = self.string->at;
    size_t bytes = self.string->bytes, at = rl_text_leading_space(text, bytes);
    for (int64_t n = 0; at < bytes; n++) {
        size_t first = at;
        if (n == most) {
            add_piece(run, list, self, first, bytes);
            return;
        }
        while (at < bytes) {
            uint32_t code;
            size_t length = rl_utf8_decode(text + at, bytes - at, &code);
            if (rl_code_is_space(code)) break;
            at += length;
        }
        add_piece(run, list, self, first, at);
        at += rl_text_leading_space(text + at, bytes - at);
    }
}

static void split_at_space_from_end(rl_jinja_run *run, rl_value self, int64_t most, rl_list *list)
{
    const char *text = self.string->at;
    size_t left = self.string->bytes;
    left -= rl_text_trailing_space(text, left);
    for (int64_t n = 0; left; n++) {
        size_t last = left, length;
        if (n == most) {
            add_piece(run, list, self, 0, last);
            break;
        }
        while (left && !rl_code_is_space(rl_text_last_code(text, left, &length)))
            left -= length;
        add_piece(run, list, self, left, last);
        left -= rl_text_trailing_space(text, left);
    }
    reverse(list);
}

static void split_at_text(rl_jinja_run *run, rl_value self, const rl_string *at_text, int64_t most,
                          rl_list *list)
{
    const rl_string *in = self.string;
    size_t at = 0;
    for (int64_t n = 0; n != most; n++) {
        size_t found = rl_text_find(in->at + at, in->bytes - at, at_text->at, at_text->bytes);
        if (found == SIZE_MAX) break;
        add_piece(run, list, self, at, at + found);
        at += found + at_text->bytes;
    }
    add_piece(run, list, self, at, in->bytes);
}

static void split_at_text_from_end(rl_jinja_run *run, rl_value self, const rl_string *at_text,
                                   int64_t most, rl_list *list)
{
    const rl_string *in = self.string;
    size_t left = in->bytes;
    rl_jinja_charge(run, (uint64_t)in->bytes * at_text->bytes / 256);
    for (int64_t n = 0; n != most; n++) {
        size_t found = rl_text_find_last(in->at, left, at_text->at, at_text->bytes);
        if (found == SIZE_MAX) break;
        add_piece(run, list, self, found + at_text->bytes, left);
        left = found;
    }
    add_piece(run, list, self, 0, left);
    reverse(list);
}

static rl_value split(rl_jinja_run *run, rl_value self, const rl_value *args, bool from_end)
{
    rl_list *list = rl_jinja_list(run, RL_LIST_PLAIN, 0);
    int64_t most = rl_jinja_int_arg(run, args[1], -1);
    if (most < 0) most = -1;
    rl_jinja_charge(run, self.string->bytes / 16);
    if (args[0].kind == RL_VALUE_MISSING || args[0].kind == RL_VALUE_NONE) {
        (from_end ? split_at_space_from_end : split_at_space)(run, self, most, list);
        return rl_value_list(list);
    }
    const rl_string *at_text = rl_jinja_string_arg(run, args[0], "the separator");
    if (!at_text->bytes) rl_jinja_raise(run, RL_INVALID, "empty separator");
    (from_end ? split_at_text_from_end : split_at_text)(run, self, at_text, most, list);
    return rl_value_list(list);
}

static rl_value string_split(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return split(run, self, args, false);
}

static rl_value string_rsplit(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return split(run, self, args, true);
}

static rl_value partition(rl_jinja_run *run, rl_value self, const rl_value *args, bool from_end)
{
    const rl_string *in = self.string;
    rl_value by = self.safe ? rl_jinja_escape(run, args[0]) : args[0];
    const rl_string *at_text = rl_jinja_string_arg(run, by, "the separator");
    if (!at_text->bytes) rl_jinja_raise(run, RL_INVALID, "empty separator");
    rl_jinja_charge(run, from_end ? (uint64_t)in->bytes * at_text->bytes / 256 : in->bytes / 64);
    size_t at = from_end ? rl_text_find_last(in->at, in->bytes, at_text->at, at_text->bytes)
                         : rl_text_find(in->at, in->bytes, at_text->at, at_text->bytes);
    rl_list *list = rl_jinja_list(run, RL_LIST_TUPLE, 3);
    size_t first = at, last = at + at_text->bytes;
    if (at == SIZE_MAX) first = last = from_end ? 0 : in->bytes;
    add_piece(run, list, self, 0, first);
    add_piece(run, list, self, first, last);
    add_piece(run, list, self, last, in->bytes);
    return rl_value_list(list);
}

static rl_value string_partition(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return partition(run, self, args, false);
}

static rl_value string_rpartition(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return partition(run, self, args, true);
}

rl_list *rl_jinja_lines(rl_jinja_run *run, rl_value text, bool keep)
{
    const rl_string *in = text.string;
    rl_list *list = rl_jinja_list(run, RL_LIST_PLAIN, 0);
    rl_jinja_charge(run, in->bytes / 16);
    for (size_t at = 0, first = 0; at < in->bytes;) {
        uint32_t code;
        size_t length = rl_utf8_decode(in->at + at, in->bytes - at, &code), end = at;
        at += length;
        if (!rl_code_is_line_end(code)) {
            if (at == in->bytes) add_piece(run, list, text, first, at);
            continue;
        }
        if (code == '\r' && at < in->bytes && in->at[at] == '\n') at++;
        add_piece(run, list, text, first, keep ? at : end);
        first = at;
    }
    return list;
}

static rl_value string_splitlines(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    return rl_value_list(rl_jinja_lines(run, self, rl_jinja_bool_arg(args[0], false)));
}

static rl_value string_join(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    const rl_list *items = rl_jinja_items(run, args[0]);
    size_t begin = run->out.bytes;
    for (size_t i = 0; i < items->count; i++) {
        rl_value item = items->items[i];
        rl_jinja_charge(run, 1);
        if (self.safe) item = rl_jinja_escape(run, item);
        if (item.kind != RL_VALUE_STRING)
            rl_jinja_raise(run, RL_INVALID, "sequence item %zu: expected str instance, %s found", i,
                           rl_jinja_type(item));
        if (i) rl_jinja_emit(run, self.string->at, self.string->bytes);
        rl_jinja_emit(run, item.string->at, item.string->bytes);
    }
    rl_value out = rl_jinja_captured(run, begin);
    out.safe = self.safe;
    return out;
}

/* ---- questions ------------------------------------------------------------------------------ */

/* True when the text is not empty and all characters pass. */
static rl_value all_pass(rl_jinja_run *run, rl_value self, bool (*passes)(uint32_t code))
{
    const rl_string *text = self.string;
    rl_jinja_charge(run, text->bytes / 16);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += rl_utf8_decode(text->at + at, text->bytes - at, &code);
        if (!passes(code)) return rl_value_bool(false);
    }
    return rl_value_bool(text->bytes);
}

static rl_value string_isspace(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return all_pass(run, self, rl_code_is_space);
}

static rl_value string_isalpha(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return all_pass(run, self, rl_code_is_alpha);
}

static rl_value string_isdecimal(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return all_pass(run, self, rl_code_is_decimal);
}

static bool is_word_not_line(uint32_t code)
{
    return code != '_' && rl_code_is_word(code);
}

static rl_value string_isalnum(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return all_pass(run, self, is_word_not_line);
}

static bool is_ascii(uint32_t code)
{
    return code < 0x80;
}

static rl_value string_isascii(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return self.string->bytes ? all_pass(run, self, is_ascii) : rl_value_bool(true);
}

static rl_value ask_test(rl_jinja_run *run, rl_value self, const char *name)
{
    rl_string text = { .at = name, .bytes = strlen(name), .chars = strlen(name) };
    return rl_value_bool(rl_jinja_find_test(&text)->holds(run, self, rl_value_none()));
}

static rl_value string_islower(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return ask_test(run, self, "lower");
}

static rl_value string_isupper(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return ask_test(run, self, "upper");
}

/* Upper and title case only at the beginning of words, lower case only inside. */
static rl_value string_istitle(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    const rl_string *text = self.string;
    bool inside = false, some = false;
    rl_jinja_charge(run, text->bytes / 16);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += rl_utf8_decode(text->at + at, text->bytes - at, &code);
        bool big = rl_code_is_upper(code) || rl_code_is_title(code);
        bool small = !big && rl_code_is_lower(code);
        if ((big && inside) || (small && !inside)) return rl_value_bool(false);
        inside = big || small;
        some |= inside;
    }
    return rl_value_bool(some);
}

const rl_jinja_method rl_jinja_string_methods[] = {
    { "capitalize", "", 0, string_capitalize, RL_MARKUP_WRAP },
    { "center", "/width fill", 1, string_center, RL_MARKUP_WRAP },
    { "count", "/text start stop", 1, string_count, RL_MARKUP_PLAIN },
    { "endswith", "/text start stop", 1, string_endswith, RL_MARKUP_PLAIN },
    { "find", "/text start stop", 1, string_find, RL_MARKUP_PLAIN },
    { "format", "*", 0, NULL, RL_MARKUP_PLAIN },
    { "index", "/text start stop", 1, string_index, RL_MARKUP_PLAIN },
    { "isalnum", "", 0, string_isalnum, RL_MARKUP_PLAIN },
    { "isalpha", "", 0, string_isalpha, RL_MARKUP_PLAIN },
    { "isascii", "", 0, string_isascii, RL_MARKUP_PLAIN },
    { "isdecimal", "", 0, string_isdecimal, RL_MARKUP_PLAIN },
    { "islower", "", 0, string_islower, RL_MARKUP_PLAIN },
    { "isspace", "", 0, string_isspace, RL_MARKUP_PLAIN },
    { "istitle", "", 0, string_istitle, RL_MARKUP_PLAIN },
    { "isupper", "", 0, string_isupper, RL_MARKUP_PLAIN },
    { "join", "/items", 1, string_join, RL_MARKUP_PLAIN },
    { "ljust", "/width fill", 1, string_ljust, RL_MARKUP_WRAP },
    { "lower", "", 0, string_lower, RL_MARKUP_WRAP },
    { "lstrip", "/chars", 0, string_lstrip, RL_MARKUP_WRAP },
    { "partition", "/sep", 1, string_partition, RL_MARKUP_LIST },
    { "removeprefix", "/prefix", 1, string_removeprefix, RL_MARKUP_PLAIN },
    { "removesuffix", "/suffix", 1, string_removesuffix, RL_MARKUP_PLAIN },
    { "replace", "/old new count", 2, string_replace, RL_MARKUP_WRAP },
    { "rfind", "/text start stop", 1, string_rfind, RL_MARKUP_PLAIN },
    { "rindex", "/text start stop", 1, string_rindex, RL_MARKUP_PLAIN },
    { "rjust", "/width fill", 1, string_rjust, RL_MARKUP_WRAP },
    { "rpartition", "/sep", 1, string_rpartition, RL_MARKUP_LIST },
    { "rsplit", "sep maxsplit", 0, string_rsplit, RL_MARKUP_LIST },
    { "rstrip", "/chars", 0, string_rstrip, RL_MARKUP_WRAP },
    { "split", "sep maxsplit", 0, string_split, RL_MARKUP_LIST },
    { "splitlines", "keepends", 0, string_splitlines, RL_MARKUP_LIST },
    { "startswith", "/text start stop", 1, string_startswith, RL_MARKUP_PLAIN },
    { "strip", "/chars", 0, string_strip, RL_MARKUP_WRAP },
    { "title", "", 0, string_title, RL_MARKUP_WRAP },
    { "upper", "", 0, string_upper, RL_MARKUP_WRAP },
    { "zfill", "/width", 1, string_zfill, RL_MARKUP_WRAP },
    { 0 },
};
