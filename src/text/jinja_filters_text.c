/* jinja_filters_text.c - the filters that make one value of one value: text, numbers, JSON. */
#include "text/jinja_methods.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/json.h"
#include "text/number.h"
#include "text/unicode.h"

/* ---- text ----------------------------------------------------------------------------------- */

static rl_value filter_string(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_jinja_str(run, subject);
}

static rl_value filter_safe(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_value text = rl_jinja_str(run, subject);
    text.safe = true;
    return text;
}

static rl_value filter_escape(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_jinja_escape(run, subject);
}

static rl_value filter_forceescape(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_value text = rl_jinja_str(run, subject);
    text.safe = false;
    return rl_jinja_escape(run, text);
}

static rl_value filter_lower(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, rl_jinja_str(run, subject), RL_CASE_LOWER);
}

static rl_value filter_upper(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, rl_jinja_str(run, subject), RL_CASE_UPPER);
}

static rl_value filter_capitalize(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_jinja_change_case(run, rl_jinja_str(run, subject), RL_CASE_CAPITAL);
}

static bool begins_word(uint32_t code)
{
    return rl_code_is_space(code) || (code < 0x80 && strchr("-({[<", (int)code) && code);
}

/* Not str.title: only white space and some brackets separate words. */
static rl_value filter_title(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_error inner = { { 0 } };
    const rl_string *text = rl_jinja_str(run, subject).string;
    size_t begin = run->out.bytes;
    rl_jinja_charge(run, text->bytes / 16);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        size_t first = at, length = rl_utf8_decode(text->at + at, text->bytes - at, &code);
        bool separator = begins_word(code);
        size_t end = at + length, next;
        for (; end < text->bytes; end += next) {
            next = rl_utf8_decode(text->at + end, text->bytes - end, &code);
            if (begins_word(code) != separator) break;
        }
        rl_jinja_check(
            run, rl_text_change_case(&run->out, text->at + first, length, RL_CASE_UPPER, &inner),
            &inner);
        rl_jinja_check(run,
                       rl_text_change_case(&run->out, text->at + first + length,
                                           end - first - length, RL_CASE_LOWER, &inner),
                       &inner);
        at = end;
    }
    return rl_jinja_captured(run, begin);
}

static rl_value filter_trim(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    return rl_jinja_strip(run, rl_jinja_str(run, subject), args[0], true, true);
}

static rl_value filter_center(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    rl_value blank = { 0 };
    return rl_jinja_center(run, rl_jinja_str(run, subject), rl_jinja_int_arg(run, args[0], 80),
                           blank);
}

static rl_value filter_replace(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    int64_t most = args[2].kind == RL_VALUE_NONE ? -1 : rl_jinja_int_arg(run, args[2], -1);
    rl_value text = rl_jinja_str(run, subject);
    text.safe = false;
    return rl_jinja_replace(run, text, rl_jinja_str(run, args[0]), rl_jinja_str(run, args[1]),
                            most);
}

static rl_value filter_format(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    rl_value text = rl_jinja_str(run, subject);
    if (args->named && args->named->count) {
        if (args->count)
            rl_jinja_raise(run, RL_INVALID,
                           "can't handle positional and keyword arguments at the "
                           "same time");
        return rl_jinja_format(run, text, rl_value_dict((rl_dict *)args->named));
    }
    rl_list *values = rl_jinja_list(run, RL_LIST_TUPLE, args->count);
    for (size_t i = 0; i < args->count; i++)
        rl_jinja_add(run, values, args->items[i]);
    return rl_jinja_format(run, text, rl_value_list(values));
}

static rl_value filter_indent(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    rl_jinja_note(run, subject, RL_JINJA_USED);
    rl_jinja_string_arg(run, subject, "the text to indent");
    bool first = rl_jinja_bool_arg(args[1], false), blank = rl_jinja_bool_arg(args[2], false);
    rl_value indent;
    if (args[0].kind == RL_VALUE_STRING) {
        indent = args[0];
    } else {
        rl_value width = rl_value_int(rl_jinja_int_arg(run, args[0], 4));
        indent = rl_jinja_binary(run, RL_OP_MUL, rl_jinja_string(run, " ", 1), width);
    }
    rl_value whole = rl_jinja_string(run, subject.string->at, subject.string->bytes);
    whole = rl_jinja_binary(run, RL_OP_ADD, whole, rl_jinja_string(run, "\n", 1));
    const rl_list *lines = rl_jinja_lines(run, whole, false);
    size_t begin = run->out.bytes;
    if (first) rl_jinja_emit(run, indent.string->at, indent.string->bytes);
    for (size_t i = 0; i < lines->count; i++) {
        const rl_string *line = lines->items[i].string;
        rl_jinja_charge(run, 1);
        if (i) rl_jinja_emit(run, "\n", 1);
        if (i && (blank || line->bytes))
            rl_jinja_emit(run, indent.string->at, indent.string->bytes);
        rl_jinja_emit(run, line->at, line->bytes);
    }
    rl_value out = rl_jinja_captured(run, begin);
    out.safe = subject.safe;
    return out;
}

static rl_value filter_truncate(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    int64_t length = rl_jinja_int_arg(run, args[0], 255), chars = rl_jinja_length(run, subject);
    bool cut_words = rl_jinja_bool_arg(args[1], false);
    rl_value end = args[2].kind == RL_VALUE_MISSING ? rl_jinja_string(run, "...", 3) : args[2];
    rl_jinja_string_arg(run, end, "the end of truncate");
    int64_t leeway = args[3].kind == RL_VALUE_NONE ? 5 : rl_jinja_int_arg(run, args[3], 5);
    int64_t end_chars = (int64_t)rl_string_chars(end.string);
    if (length < end_chars || leeway < 0)
        rl_jinja_raise(run, RL_INVALID,
                       "truncate: the length is shorter than the end mark, or the "
                       "leeway negative");
    if (chars <= length || chars - length <= leeway) return subject;
    rl_value none = { 0 };
    rl_value kept = rl_jinja_slice(run, subject, none, rl_value_int(length - end_chars), none);
    if (!cut_words) {
        rl_jinja_string_arg(run, kept, "the text to truncate");
        size_t blank = rl_text_find_last(kept.string->at, kept.string->bytes, " ", 1);
        bool safe = kept.safe;
        if (blank != SIZE_MAX) kept = rl_jinja_string_over(run, kept.string->at, blank);
        kept.safe = safe;
    }
    return rl_jinja_binary(run, RL_OP_ADD, kept, end);
}

static rl_value filter_wordcount(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    const rl_string *text = rl_jinja_str(run, subject).string;
    int64_t words = 0;
    bool inside = false;
    rl_jinja_charge(run, text->bytes / 16);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += rl_utf8_decode(text->at + at, text->bytes - at, &code);
        bool word = rl_code_is_word(code);
        words += word && !inside;
        inside = word;
    }
    return rl_value_int(words);
}

/* ---- any value ------------------------------------------------------------------------------ */

static rl_value filter_default(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    bool other = subject.kind == RL_VALUE_UNDEFINED ||
                 (rl_jinja_bool_arg(args[1], false) && !rl_jinja_truth(subject));
    if (!other) return subject;
    return args[0].kind == RL_VALUE_MISSING ? rl_jinja_string(run, "", 0) : args[0];
}

static rl_value filter_attr(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    const rl_string *name = rl_jinja_string_arg(run, args[0], "the name of an attribute");
    rl_value found = rl_jinja_attribute(run, subject, name);
    /* Unlike a dot, this does not look into dicts. */
    bool is_item = subject.kind == RL_VALUE_DICT && found.kind != RL_VALUE_METHOD &&
                   !(found.kind == RL_VALUE_UNDEFINED && found.missing == RL_UNDEFINED_UNSAFE);
    return is_item ? rl_jinja_undefined_attribute(subject, name, false) : found;
}

static const rl_string *json_separator(rl_jinja_run *run, rl_value pair, size_t index)
{
    if (pair.kind == RL_VALUE_MISSING || pair.kind == RL_VALUE_NONE) return NULL;
    if (pair.kind != RL_VALUE_LIST || pair.list->count != 2)
        rl_jinja_raise(run, RL_INVALID, "separators of tojson must be a pair of strings");
    return rl_jinja_string_arg(run, pair.list->items[index], "a separator of tojson");
}

static rl_value filter_tojson(rl_jinja_run *run, rl_value subject, const rl_jinja_args *positional)
{
    rl_value args[RL_JINJA_MAX_PARAMS];
    rl_error inner = { { 0 } };
    rl_json_style style = { .max_depth = 200 };
    if (positional->count) /* jinja2 and the users of chat templates disagree about their order */
        rl_jinja_raise(run, RL_UNSUPPORTED, "arguments of tojson must be given by name");
    rl_jinja_bind(run, "filter", "tojson", "indent ensure_ascii separators sort_keys", 0,
                  positional, args);
    if (args[0].kind == RL_VALUE_STRING) {
        style.indent = args[0].string;
    } else if (args[0].kind != RL_VALUE_MISSING && args[0].kind != RL_VALUE_NONE) {
        int64_t width = rl_jinja_int_arg(run, args[0], 0);
        rl_value blank = rl_jinja_string(run, " ", 1);
        style.indent = rl_jinja_binary(run, RL_OP_MUL, blank, rl_value_int(width)).string;
    }
    style.ascii = rl_jinja_bool_arg(args[1], false);
    style.item_separator = json_separator(run, args[2], 0);
    style.key_separator = json_separator(run, args[2], 1);
    style.sort_keys = rl_jinja_bool_arg(args[3], false);
    style.max_bytes = run->limits.max_output_bytes;
    rl_jinja_note(run, subject, RL_JINJA_AS_JSON);
    if (subject.mark && subject.kind == RL_VALUE_LIST) subject.list->iterated = true;
    size_t begin = run->out.bytes;
    rl_jinja_check(run, rl_json_write(&run->out, subject, &style, &inner), &inner);
    rl_jinja_charge(run, (run->out.bytes - begin) / 16);
    return rl_jinja_captured(run, begin);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them; how many bytes. */
static size_t digits_at(const char *text, size_t bytes, int base)
{
    size_t at = 0;
    for (;;) {
        size_t next = at && at < bytes && text[at] == '_' ? at + 1 : at;
        if (next >= bytes) return at;
        char c = text[next], low = (char)(c | 0x20);
        if (!(is_digit(c) ? c - '0' < base : base == 16 && low >= 'a' && low <= 'f')) return at;
        at = next + 1;
    }
}

/* The text without white space around it, as int() and float() read it. */
static rl_string number_text(rl_jinja_run *run, const rl_string *text)
{
    size_t first = rl_text_leading_space(text->at, text->bytes);
    size_t last = text->bytes - rl_text_trailing_space(text->at + first, text->bytes - first);
    rl_string out = { .at = text->at + first, .bytes = last - first, .chars = RL_CHARS_UNKNOWN };
    rl_jinja_charge(run, text->bytes / 16);
    for (size_t at = 0; at < out.bytes;) {
        uint32_t code;
        at += rl_utf8_decode(out.at + at, out.bytes - at, &code);
        if (code >= 0x80 && rl_code_is_decimal(code))
            rl_jinja_raise(run, RL_UNSUPPORTED, "digits beyond ASCII in a number");
    }
    return out;
}

static bool parse_int(rl_jinja_run *run, const rl_string *whole, int64_t base, rl_value *out)
{
    rl_string text = number_text(run, whole);
    size_t sign = text.bytes && (text.at[0] == '-' || text.at[0] == '+');
    const char *digits = text.at + sign;
    size_t bytes = text.bytes - sign;
    char letter = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : '\0';
    if (base != 10 && !letter)
        rl_jinja_raise(run, RL_UNSUPPORTED, "integers of base %lld", (long long)base);
    if (letter && bytes > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter) {
        digits += 2;
        bytes -= 2;
        if (digits[0] == '_') {
            digits++;
            bytes--;
        }
    }
    bool too_long;
    if (!bytes || digits_at(digits, bytes, (int)base) != bytes) return false;
    char *copy = rl_jinja_alloc(run, bytes + 1);
    copy[0] = sign ? text.at[0] : '+';
    memcpy(copy + 1, digits, bytes);
    if (rl_int_read(run->arena, copy, bytes + 1, (int)base, out, &too_long)) return true;
    if (too_long) rl_jinja_raise(run, RL_UNSUPPORTED, "integers beyond 64 bits");
    rl_jinja_out_of_memory(run);
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
    if (strlen(word) != bytes) return false;
    for (size_t i = 0; i < bytes; i++)
        if ((text[i] | 0x20) != word[i]) return false;
    return true;
}

static bool parse_float(rl_jinja_run *run, const rl_string *whole, double *out)
{
    rl_string text = number_text(run, whole);
    bool negative = text.bytes && text.at[0] == '-';
    size_t at = text.bytes && (text.at[0] == '-' || text.at[0] == '+'), digits, first = at;
    if (is_word(text.at + at, text.bytes - at, "inf") ||
        is_word(text.at + at, text.bytes - at, "infinity")) {
        *out = negative ? -INFINITY : INFINITY;
        return true;
    }
    if (is_word(text.at + at, text.bytes - at, "nan")) {
        *out = NAN;
        return true;
    }
    at += digits = digits_at(text.at + at, text.bytes - at, 10);
    if (at < text.bytes && text.at[at] == '.') {
        at++;
        size_t more = digits_at(text.at + at, text.bytes - at, 10);
        digits += more;
        at += more;
    }
    if (!digits) return false;
    if (at < text.bytes && (text.at[at] | 0x20) == 'e') {
        at++;
        if (at < text.bytes && (text.at[at] == '-' || text.at[at] == '+')) at++;
        digits = digits_at(text.at + at, text.bytes - at, 10);
        if (!digits) return false;
        at += digits;
    }
    if (at != text.bytes) return false;
    *out = rl_float_read(text.at + first, text.bytes - first);
    if (negative) *out = -*out;
    return true;
}

/* int() of a float: towards zero, of any size. False for NaN. */
static bool truncate_float(rl_jinja_run *run, double value, rl_value *out)
{
    if (isnan(value)) return false;
    if (isinf(value)) rl_jinja_raise(run, RL_INVALID, "cannot convert float infinity to integer");
    if (value >= -0x1p63 && value < 0x1p63) {
        *out = rl_value_int((int64_t)value);
        return true;
    }
    char text[400];
    bool too_long;
    int bytes = snprintf(text, sizeof text, "%.0f", value);
    if (!rl_int_read(run->arena, text, (size_t)bytes, 10, out, &too_long))
        rl_jinja_out_of_memory(run);
    return true;
}

static rl_value filter_int(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    rl_value out = args[0].kind == RL_VALUE_MISSING ? rl_value_int(0) : args[0];
    double real;
    switch (subject.kind) {
    case RL_VALUE_UNDEFINED: rl_jinja_raise_undefined(run, subject);
    case RL_VALUE_BOOL:
    case RL_VALUE_INT: return rl_value_int(subject.integer);
    case RL_VALUE_BIGINT: return subject;
    case RL_VALUE_FLOAT: truncate_float(run, subject.real, &out); return out;
    case RL_VALUE_STRING:
        if (parse_int(run, subject.string, rl_jinja_int_arg(run, args[1], 10), &out)) return out;
        if (parse_float(run, subject.string, &real)) truncate_float(run, real, &out);
        return out;
    default: return out;
    }
}

static rl_value filter_float(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    double real;
    switch (subject.kind) {
    case RL_VALUE_UNDEFINED: rl_jinja_raise_undefined(run, subject);
    case RL_VALUE_BOOL:
    case RL_VALUE_INT: return rl_value_float((double)subject.integer);
    case RL_VALUE_FLOAT: return subject;
    case RL_VALUE_BIGINT:
        real = rl_float_read(subject.string->at, subject.string->bytes);
        if (isinf(real)) rl_jinja_raise(run, RL_INVALID, "int too large to convert to float");
        return rl_value_float(real);
    case RL_VALUE_STRING:
        if (parse_float(run, subject.string, &real)) return rl_value_float(real);
        break;
    default: break;
    }
    return args[0].kind == RL_VALUE_MISSING ? rl_value_float(0) : args[0];
}

static rl_value filter_abs(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    if (subject.kind == RL_VALUE_FLOAT) return rl_value_float(fabs(subject.real));
    if (subject.kind == RL_VALUE_BIGINT) {
        bool negative = subject.string->at[0] == '-';
        rl_value out = rl_jinja_string_over(run, subject.string->at + negative,
                                            subject.string->bytes - negative);
        out.kind = RL_VALUE_BIGINT;
        return out;
    }
    if (subject.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, subject);
    if (!rl_jinja_is_int(subject))
        rl_jinja_raise(run, RL_INVALID, "bad operand type for abs(): '%s'", rl_jinja_type(subject));
    return subject.integer < 0 ? rl_jinja_negate(run, subject, true)
                               : rl_value_int(subject.integer);
}

static double round_half_even(double value, int64_t precision)
{
    char text[700];
    if (!isfinite(value) || precision > 323) return value;
    int bytes = snprintf(text, sizeof text, "%.*f", (int)precision, value);
    for (int i = 0; i < bytes; i++) /* the decimal point of some locales */
        if (text[i] == ',') text[i] = '.';
    return rl_float_read(text, (size_t)bytes);
}

static rl_value filter_round(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    int64_t precision = rl_jinja_int_arg(run, args[0], 0);
    const rl_string *method =
        args[1].kind == RL_VALUE_MISSING ? NULL : rl_jinja_string_arg(run, args[1], "the method");
    bool up = method && rl_string_is(method, "ceil"),
         down = method && rl_string_is(method, "floor");
    if (method && !up && !down && !rl_string_is(method, "common"))
        rl_jinja_raise(run, RL_INVALID, "method must be common, ceil or floor");
    if (subject.kind == RL_VALUE_BIGINT) {
        if (up || down || precision < 0)
            rl_jinja_raise(run, RL_UNSUPPORTED, "rounding integers beyond 64 bits");
        return subject;
    }
    if (subject.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, subject);
    if (!rl_jinja_is_int(subject) && subject.kind != RL_VALUE_FLOAT)
        rl_jinja_raise(run, RL_INVALID, "type %s doesn't define __round__ method",
                       rl_jinja_type(subject));
    if (precision < 0 || ((up || down) && precision > 22))
        rl_jinja_raise(run, RL_UNSUPPORTED, "rounding to %lld places", (long long)precision);
    if (!up && !down)
        return subject.kind == RL_VALUE_FLOAT
                   ? rl_value_float(round_half_even(subject.real, precision))
                   : rl_value_int(subject.integer);
    double scale = pow(10, (double)precision);
    if (subject.kind != RL_VALUE_FLOAT) subject = rl_value_float((double)subject.integer);
    double scaled = subject.real * scale;
    if (!isfinite(scaled)) rl_jinja_raise(run, RL_INVALID, "cannot convert float to integer");
    return rl_value_float((up ? ceil(scaled) : floor(scaled)) / scale);
}

const rl_jinja_filter rl_jinja_text_filters[] = {
    { "abs", "", 0, filter_abs, NULL },
    { "attr", "name", 1, filter_attr, NULL },
    { "capitalize", "", 0, filter_capitalize, NULL },
    { "center", "width", 0, filter_center, NULL },
    { "d", "default_value boolean", 0, filter_default, NULL },
    { "default", "default_value boolean", 0, filter_default, NULL },
    { "e", "", 0, filter_escape, NULL },
    { "escape", "", 0, filter_escape, NULL },
    { "float", "default", 0, filter_float, NULL },
    { "forceescape", "", 0, filter_forceescape, NULL },
    { "format", NULL, 0, NULL, filter_format },
    { "indent", "width first blank", 0, filter_indent, NULL },
    { "int", "default base", 0, filter_int, NULL },
    { "lower", "", 0, filter_lower, NULL },
    { "replace", "old new count", 2, filter_replace, NULL },
    { "round", "precision method", 0, filter_round, NULL },
    { "safe", "", 0, filter_safe, NULL },
    { "string", "", 0, filter_string, NULL },
    { "title", "", 0, filter_title, NULL },
    { "tojson", NULL, 0, NULL, filter_tojson },
    { "trim", "chars", 0, filter_trim, NULL },
    { "truncate", "length killwords end leeway", 0, filter_truncate, NULL },
    { "upper", "", 0, filter_upper, NULL },
    { "wordcount", "", 0, filter_wordcount, NULL },
    { 0 },
};
