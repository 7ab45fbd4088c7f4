/* jinja_format.c - "%s and %05.2f" % values, the printf-style formatting of Python strings, and the
 * simplest part of "{} {name}".format(...).
 *
 * Conversions s r d i u x X o e E f F g G c %; a "*" for width or precision is not supported.
 * Width and precision are bounded by MOST, so a short format cannot ask for a long text. */
#include "text/jinja_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_text.h"
#include "text/unicode.h"

enum { MOST = 1000 };

typedef struct formatter {
    rl_jinja_run *run;
    const char *at, *end;
    rl_value values; /* a tuple, a dict or one value */
    size_t next;     /* of the tuple */
} formatter;

typedef struct conversion {
    bool left, plus, blank, alternate, zero;
    int width, precision; /* precision -1: none */
    char letter;
    rl_value value;
} conversion;

static rl_value next_value(formatter *f)
{
    bool tuple = rl_jinja_is_list(f->values, RL_LIST_TUPLE);
    if (f->next >= (tuple ? f->values.list->count : 1))
        rl_jinja_raise(f->run, RL_INVALID, "not enough arguments for format string");
    rl_value value = tuple ? f->values.list->items[f->next] : f->values;
    f->next++;
    return value;
}

static int read_int(formatter *f)
{
    int value = 0;
    for (; f->at < f->end && *f->at >= '0' && *f->at <= '9'; f->at++)
        if ((value = value * 10 + (*f->at - '0')) > MOST)
            rl_jinja_raise(f->run, RL_UNSUPPORTED, "a format width beyond %d", MOST);
    if (f->at < f->end && *f->at == '*')
        rl_jinja_raise(f->run, RL_UNSUPPORTED, "'*' in a format string");
    return value;
}

/* Stands behind "%(": the value of that key. */
static rl_value named_value(formatter *f)
{
    const char *first = f->at;
    while (f->at < f->end && *f->at != ')')
        f->at++;
    if (f->at == f->end) rl_jinja_raise(f->run, RL_INVALID, "incomplete format key");
    if (f->values.kind != RL_VALUE_DICT)
        rl_jinja_raise(f->run, RL_INVALID, "format requires a mapping");
    rl_string key = { .at = first, .bytes = (size_t)(f->at - first), .chars = RL_CHARS_UNKNOWN };
    const rl_value *value = rl_dict_find(f->values.dict, rl_value_string(&key));
    if (!value) rl_jinja_raise(f->run, RL_INVALID, "a key of the format string is missing");
    f->at++;
    return *value;
}

/* Stands behind "%"; leaves behind the letter. */
static conversion read_conversion(formatter *f)
{
    conversion c = { .precision = -1 };
    if (f->at < f->end && *f->at == '(') {
        f->at++;
        c.value = named_value(f);
    }
    for (; f->at < f->end && *f->at && strchr("-+ #0", *f->at); f->at++) {
        c.left |= *f->at == '-';
        c.plus |= *f->at == '+';
        c.blank |= *f->at == ' ';
        c.alternate |= *f->at == '#';
        c.zero |= *f->at == '0';
    }
    c.width = read_int(f);
    if (f->at < f->end && *f->at == '.') {
        f->at++;
        c.precision = read_int(f);
    }
    while (f->at < f->end && *f->at && strchr("hlL", *f->at))
        f->at++;
    if (f->at == f->end) rl_jinja_raise(f->run, RL_INVALID, "incomplete format");
    c.letter = *f->at++;
    if (c.letter != '%' && c.value.kind == RL_VALUE_MISSING) c.value = next_value(f);
    return c;
}

/* Writes sign, prefix and digits with the padding around them. `chars` is how wide the text is. */
static void emit_padded(formatter *f, const conversion *c, const char *sign, const char *text,
                        size_t bytes, size_t chars)
{
    size_t used = strlen(sign) + chars, width = (size_t)c->width;
    size_t pad = width > used ? width - used : 0;
    for (size_t i = 0; i < pad && !c->left && !c->zero; i++)
        rl_jinja_emit(f->run, " ", 1);
    rl_jinja_emit_text(f->run, sign);
    for (size_t i = 0; i < pad && !c->left && c->zero; i++)
        rl_jinja_emit(f->run, "0", 1);
    rl_jinja_emit(f->run, text, bytes);
    for (size_t i = 0; i < pad && c->left; i++)
        rl_jinja_emit(f->run, " ", 1);
}

static void emit_text(formatter *f, conversion c)
{
    rl_value text =
        c.letter == 'r' ? rl_jinja_repr(f->run, c.value) : rl_jinja_str(f->run, c.value);
    if (c.precision >= 0 && (size_t)c.precision < rl_string_chars(text.string))
        text = rl_jinja_substring(f->run, text, 0, (size_t)c.precision);
    c.zero = false;
    emit_padded(f, &c, "", text.string->at, text.string->bytes, rl_string_chars(text.string));
}

static const char *sign_of(const conversion *c, bool negative)
{
    return negative ? "-" : c->plus ? "+" : c->blank ? " " : "";
}

static _Noreturn void wrong_type(formatter *f, const conversion *c, const char *wanted)
{
    if (c->value.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(f->run, c->value);
    rl_jinja_raise(f->run, RL_INVALID, "%%%c format: %s is required, not %s", c->letter, wanted,
                   rl_jinja_type(c->value));
}

static void emit_int(formatter *f, conversion c)
{
    rl_value value = c.value;
    bool decimal = c.letter == 'd' || c.letter == 'i' || c.letter == 'u';
    if (value.kind == RL_VALUE_FLOAT && decimal) {
        if (!(fabs(value.real) < 0x1p63))
            rl_jinja_raise(f->run, RL_UNSUPPORTED, "a float beyond 64 bits as an integer");
        value = rl_value_int((int64_t)value.real);
    }
    if (!rl_jinja_is_int(value)) wrong_type(f, &c, decimal ? "a real number" : "an integer");
    if (c.precision >= 0) rl_jinja_raise(f->run, RL_UNSUPPORTED, "a precision for integers");
    uint64_t magnitude = value.integer < 0 ? -(uint64_t)value.integer : (uint64_t)value.integer;
    char text[32], sign[8];
    const char *pattern = c.letter == 'x' ? "%llx" : c.letter == 'X' ? "%llX" : "%llo";
    if (decimal) pattern = "%llu";
    int bytes = snprintf(text, sizeof text, pattern, (unsigned long long)magnitude);
    const char *prefix = !c.alternate || decimal ? ""
                         : c.letter == 'x'       ? "0x"
                         : c.letter == 'X'       ? "0X"
                                                 : "0o";
    snprintf(sign, sizeof sign, "%s%s", sign_of(&c, value.integer < 0), prefix);
    if (c.left) c.zero = false;
    emit_padded(f, &c, sign, text, (size_t)bytes, (size_t)bytes);
}

static void emit_float(formatter *f, conversion c)
{
    double value = c.value.real;
    if (rl_jinja_is_int(c.value))
        value = (double)c.value.integer;
    else if (c.value.kind != RL_VALUE_FLOAT)
        wrong_type(f, &c, "a real number");
    int precision = c.precision < 0 ? 6 : c.precision;
    char pattern[8], text[MOST + 350];
    snprintf(pattern, sizeof pattern, "%%%s.*%c", c.alternate ? "#" : "", c.letter);
    int bytes = snprintf(text, sizeof text, pattern, precision, fabs(value));
    for (int i = 0; i < bytes; i++) /* the decimal point of some locales */
        if (text[i] == ',') text[i] = '.';
    if (c.left || !isfinite(value)) c.zero = c.zero && !c.left;
    emit_padded(f, &c, sign_of(&c, signbit(value) && !isnan(value)), text, (size_t)bytes,
                (size_t)bytes);
}

static void emit_char(formatter *f, conversion c)
{
    c.zero = false;
    if (c.value.kind == RL_VALUE_STRING && rl_string_chars(c.value.string) == 1) {
        emit_padded(f, &c, "", c.value.string->at, c.value.string->bytes, 1);
        return;
    }
    if (!rl_jinja_is_int(c.value)) wrong_type(f, &c, "an integer or one character");
    int64_t code = c.value.integer;
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        rl_jinja_raise(f->run, RL_INVALID, "%%c arg not in range(0x110000)");
    char text[4];
    size_t bytes = rl_utf8_encode((uint32_t)code, text);
    emit_padded(f, &c, "", text, bytes, 1);
}

static void emit_conversion(formatter *f)
{
    conversion c = read_conversion(f);
    switch (c.letter) {
    case '%': rl_jinja_emit(f->run, "%", 1); break;
    case 's':
    case 'r': emit_text(f, c); break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': emit_int(f, c); break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': emit_float(f, c); break;
    case 'c': emit_char(f, c); break;
    default:
        rl_jinja_raise(f->run, RL_UNSUPPORTED, "unsupported format character '%c'",
                       c.letter >= 0x20 && c.letter < 0x7f ? c.letter : '?');
    }
}

rl_value rl_jinja_format(rl_jinja_run *run, rl_value format, rl_value values)
{
    if (format.safe) rl_jinja_raise(run, RL_UNSUPPORTED, "formatting a string marked safe");
    const rl_string *text = format.string;
    formatter f = { .run = run, .at = text->at, .end = text->at + text->bytes, .values = values };
    size_t begin = run->out.bytes;
    while (f.at < f.end) {
        const char *percent = memchr(f.at, '%', (size_t)(f.end - f.at));
        const char *plain = percent ? percent : f.end;
        rl_jinja_emit(run, f.at, (size_t)(plain - f.at));
        f.at = percent ? percent + 1 : f.end;
        if (percent) emit_conversion(&f);
        rl_jinja_charge(run, 1);
    }
    /* What can be indexed passes for a mapping, of which not everything need be used. */
    bool tuple = rl_jinja_is_list(values, RL_LIST_TUPLE);
    bool mapping = values.kind == RL_VALUE_DICT || values.kind == RL_VALUE_UNDEFINED ||
                   rl_jinja_is_list(values, RL_LIST_PLAIN) ||
                   rl_jinja_is_list(values, RL_LIST_RANGE);
    if (!mapping && f.next < (tuple ? values.list->count : 1))
        rl_jinja_raise(run, RL_INVALID, "not all arguments converted during string formatting");
    return rl_jinja_captured(run, begin);
}

/* The value of the field between braces. */
static rl_value field_value(rl_jinja_run *run, const char *name, size_t bytes,
                            const rl_jinja_args *args, size_t *next)
{
    bool digits = true, word = true;
    for (size_t i = 0; i < bytes; i++) {
        digits &= name[i] >= '0' && name[i] <= '9';
        word &=
            name[i] == '_' || ((unsigned char)name[i] < 0x80 && rl_code_is_word((uint32_t)name[i]));
    }
    if (!word || (digits && bytes > 4))
        rl_jinja_raise(run, RL_UNSUPPORTED, "format field '{%.*s}'", (int)(bytes > 60 ? 60 : bytes),
                       name);
    if (digits) {
        size_t index = bytes ? 0 : (*next)++;
        for (size_t i = 0; i < bytes; i++)
            index = index * 10 + (size_t)(name[i] - '0');
        if (index >= args->count)
            rl_jinja_raise(run, RL_INVALID, "format field %zu has no argument", index);
        return args->items[index];
    }
    rl_string key = { .at = name, .bytes = bytes, .chars = bytes };
    const rl_value *value = args->named ? rl_dict_find(args->named, rl_value_string(&key)) : NULL;
    if (!value)
        rl_jinja_raise(run, RL_INVALID, "format field '%.*s' has no argument",
                       (int)(bytes > 60 ? 60 : bytes), name);
    return *value;
}

rl_value rl_jinja_format_method(rl_jinja_run *run, rl_value format, const rl_jinja_args *args)
{
    if (format.safe) rl_jinja_raise(run, RL_UNSUPPORTED, "formatting a string marked safe");
    const char *at = format.string->at, *end = at + format.string->bytes;
    size_t begin = run->out.bytes, next = 0;
    bool counted = false, named = false;
    while (at < end) {
        rl_jinja_charge(run, 1);
        if (*at != '{' && *at != '}') {
            rl_jinja_emit(run, at++, 1);
            continue;
        }
        if (at + 1 < end && at[1] == *at) {
            rl_jinja_emit(run, at, 1);
            at += 2;
            continue;
        }
        const char *close = *at == '{' ? memchr(at, '}', (size_t)(end - at)) : NULL;
        if (!close) rl_jinja_raise(run, RL_INVALID, "single '%c' in a format string", *at);
        bool automatic = close == at + 1;
        counted |= automatic;
        named |= !automatic && at[1] >= '0' && at[1] <= '9';
        if (counted && named)
            rl_jinja_raise(run, RL_INVALID, "format fields with and without numbers");
        rl_jinja_emit_str(run, field_value(run, at + 1, (size_t)(close - at - 1), args, &next));
        at = close + 1;
    }
    return rl_jinja_captured(run, begin);
}
