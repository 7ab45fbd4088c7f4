/* jinja_value.c - values as Python sees them: type names, truth, str() and repr(), len(), iteration.
 *
 * Undefined values print as nothing, are false, empty and iterable; whatever else is done with them
 * is an error, here as in jinja2. */
#include "text/jinja_run.h"

#include <string.h>

#include "text/jinja_text.h"
#include "text/number.h"
#include "text/unicode.h"

const char *rl_jinja_type(rl_value value)
{
    static const char *const kinds[] = {
        [RL_VALUE_MISSING] = "nothing",
        [RL_VALUE_UNDEFINED] = "Undefined",
        [RL_VALUE_NONE] = "NoneType",
        [RL_VALUE_BOOL] = "bool",
        [RL_VALUE_INT] = "int",
        [RL_VALUE_BIGINT] = "int",
        [RL_VALUE_FLOAT] = "float",
        [RL_VALUE_STRING] = "str",
        [RL_VALUE_LIST] = "list",
        [RL_VALUE_DICT] = "dict",
        [RL_VALUE_NAMESPACE] = "Namespace",
        [RL_VALUE_MACRO] = "Macro",
        [RL_VALUE_FUNCTION] = "function",
        [RL_VALUE_METHOD] = "method",
        [RL_VALUE_LOOP] = "LoopContext",
    };
    static const char *const flavors[] = {
        [RL_LIST_PLAIN] = "list",          [RL_LIST_TUPLE] = "tuple",
        [RL_LIST_RANGE] = "range",         [RL_LIST_KEYS] = "dict_keys",
        [RL_LIST_VALUES] = "dict_values",  [RL_LIST_ITEMS] = "dict_items",
        [RL_LIST_GENERATOR] = "generator",
    };
    if (value.kind == RL_VALUE_LIST) return flavors[value.list->flavor];
    if (value.kind == RL_VALUE_STRING && value.safe) return "Markup";
    return kinds[value.kind];
}

bool rl_jinja_truth(rl_value value)
{
    switch (value.kind) {
    case RL_VALUE_MISSING:
    case RL_VALUE_UNDEFINED:
    case RL_VALUE_NONE: return false;
    case RL_VALUE_BOOL:
    case RL_VALUE_INT: return value.integer != 0;
    case RL_VALUE_FLOAT: return value.real != 0;
    case RL_VALUE_STRING: return value.string->bytes != 0;
    case RL_VALUE_LIST: return value.list->flavor == RL_LIST_GENERATOR || value.list->count != 0;
    case RL_VALUE_DICT: return value.dict->count != 0;
    default: return true;
    }
}

bool rl_jinja_is_int(rl_value value)
{
    return value.kind == RL_VALUE_BOOL || value.kind == RL_VALUE_INT;
}

/* ---- repr ----------------------------------------------------------------------------------- */

static void emit_escaped_code(rl_jinja_run *run, uint32_t code)
{
    static const char hex[] = "0123456789abcdef";
    char text[10] = { '\\' };
    int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
    text[1] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
    for (int i = 0; i < digits; i++)
        text[2 + i] = hex[code >> 4 * (digits - 1 - i) & 15];
    rl_jinja_emit(run, text, 2 + (size_t)digits);
}

static void emit_quoted(rl_jinja_run *run, const rl_string *string)
{
    bool single = memchr(string->at, '\'', string->bytes) != NULL;
    bool both = single && memchr(string->at, '"', string->bytes);
    char quote = single && !both ? '"' : '\'';
    rl_jinja_charge(run, string->bytes / 16);
    rl_jinja_emit(run, &quote, 1);
    size_t plain = 0, at = 0;
    while (at < string->bytes) {
        uint32_t code;
        size_t length = rl_utf8_decode(string->at + at, string->bytes - at, &code);
        const char *escape = code == '\n'   ? "\\n"
                             : code == '\r' ? "\\r"
                             : code == '\t' ? "\\t"
                                            : NULL;
        bool special = code == '\\' || code == (unsigned char)quote;
        if (escape || special || !rl_code_is_printable(code)) {
            rl_jinja_emit(run, string->at + plain, at - plain);
            if (escape)
                rl_jinja_emit(run, escape, 2);
            else if (special)
                rl_jinja_emit(run, code == '\\' ? "\\\\" : "\\'", 2);
            else
                emit_escaped_code(run, code);
            plain = at + length;
        }
        at += length;
    }
    rl_jinja_emit(run, string->at + plain, at - plain);
    rl_jinja_emit(run, &quote, 1);
}

static void emit_items(rl_jinja_run *run, const rl_list *list, const char *open, const char *close)
{
    rl_jinja_enter(run);
    rl_jinja_emit_text(run, open);
    for (size_t i = 0; i < list->count; i++) {
        if (i) rl_jinja_emit_text(run, ", ");
        rl_jinja_emit_repr(run, list->items[i]);
    }
    rl_jinja_emit_text(run, close);
    rl_jinja_leave(run);
}

static void emit_list(rl_jinja_run *run, const rl_list *list)
{
    switch (list->flavor) {
    case RL_LIST_PLAIN: emit_items(run, list, "[", "]"); break;
    case RL_LIST_TUPLE: emit_items(run, list, "(", list->count == 1 ? ",)" : ")"); break;
    case RL_LIST_KEYS: emit_items(run, list, "dict_keys([", "])"); break;
    case RL_LIST_VALUES: emit_items(run, list, "dict_values([", "])"); break;
    case RL_LIST_ITEMS: emit_items(run, list, "dict_items([", "])"); break;
    default:
        rl_jinja_raise(run, RL_UNSUPPORTED, "printing a %s is not supported",
                       list->flavor == RL_LIST_RANGE ? "range" : "generator");
    }
}

static void emit_dict(rl_jinja_run *run, const rl_dict *dict)
{
    rl_jinja_enter(run);
    rl_jinja_emit_text(run, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i) rl_jinja_emit_text(run, ", ");
        rl_jinja_emit_repr(run, dict->pairs[i].key);
        rl_jinja_emit_text(run, ": ");
        rl_jinja_emit_repr(run, dict->pairs[i].value);
    }
    rl_jinja_emit_text(run, "}");
    rl_jinja_leave(run);
}

static void emit_macro(rl_jinja_run *run, const rl_macro *macro)
{
    const rl_string *name = macro->node->name;
    rl_jinja_emit_text(run, name ? "<Macro '" : "<Macro anonymous");
    if (name) rl_jinja_emit(run, name->at, name->bytes);
    rl_jinja_emit_text(run, name ? "'>" : ">");
}

void rl_jinja_emit_repr(rl_jinja_run *run, rl_value value)
{
    char number[RL_NUMBER_ROOM];
    rl_jinja_charge(run, 1);
    switch (value.kind) {
    case RL_VALUE_UNDEFINED: rl_jinja_emit_text(run, "Undefined"); break;
    case RL_VALUE_NONE: rl_jinja_emit_text(run, "None"); break;
    case RL_VALUE_BOOL: rl_jinja_emit_text(run, value.boolean ? "True" : "False"); break;
    case RL_VALUE_INT: rl_jinja_emit(run, number, rl_int_print(value.integer, number)); break;
    case RL_VALUE_BIGINT: rl_jinja_emit(run, value.string->at, value.string->bytes); break;
    case RL_VALUE_FLOAT: rl_jinja_emit(run, number, rl_float_print(value.real, number)); break;
    case RL_VALUE_STRING:
        if (value.safe) rl_jinja_emit_text(run, "Markup(");
        emit_quoted(run, value.string);
        if (value.safe) rl_jinja_emit_text(run, ")");
        break;
    case RL_VALUE_LIST: emit_list(run, value.list); break;
    case RL_VALUE_DICT: emit_dict(run, value.dict); break;
    case RL_VALUE_NAMESPACE:
        rl_jinja_emit_text(run, "<Namespace ");
        emit_dict(run, value.dict);
        rl_jinja_emit_text(run, ">");
        break;
    case RL_VALUE_MACRO: emit_macro(run, value.object); break;
    default:
        rl_jinja_raise(run, RL_UNSUPPORTED, "printing %s is not supported",
                       rl_value_kind_name(value.kind));
    }
}

/* ---- str ------------------------------------------------------------------------------------ */

void rl_jinja_emit_str(rl_jinja_run *run, rl_value value)
{
    rl_jinja_note(run, value, RL_JINJA_USED);
    if (value.kind == RL_VALUE_STRING)
        rl_jinja_emit(run, value.string->at, value.string->bytes);
    else if (value.kind != RL_VALUE_UNDEFINED)
        rl_jinja_emit_repr(run, value);
}

rl_value rl_jinja_str(rl_jinja_run *run, rl_value value)
{
    rl_jinja_note(run, value, RL_JINJA_USED);
    if (value.kind == RL_VALUE_STRING) {
        value.mark = 0;
        return value;
    }
    size_t begin = run->out.bytes;
    rl_jinja_emit_str(run, value);
    return rl_jinja_captured(run, begin);
}

rl_value rl_jinja_repr(rl_jinja_run *run, rl_value value)
{
    size_t begin = run->out.bytes;
    rl_jinja_emit_repr(run, value);
    return rl_jinja_captured(run, begin);
}

rl_value rl_jinja_escape(rl_jinja_run *run, rl_value value)
{
    static const char special[] = "&<>'\"";
    static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    rl_value text = rl_jinja_str(run, value);
    if (text.safe) return text;
    size_t begin = run->out.bytes;
    for (size_t i = 0; i < text.string->bytes; i++) {
        char c = text.string->at[i];
        const char *known = c ? strchr(special, c) : NULL;
        if (known)
            rl_jinja_emit_text(run, entities[known - special]);
        else
            rl_jinja_emit(run, &c, 1);
    }
    rl_jinja_charge(run, text.string->bytes / 16);
    text = rl_jinja_captured(run, begin);
    text.safe = true;
    return text;
}

/* ---- items ---------------------------------------------------------------------------------- */

static rl_list *characters_of(rl_jinja_run *run, rl_value text)
{
    const rl_string *string = text.string;
    rl_list *list = rl_jinja_list(run, RL_LIST_PLAIN, rl_string_chars(string));
    rl_jinja_charge(run, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        uint32_t code;
        size_t length = rl_utf8_decode(string->at + at, string->bytes - at, &code);
        rl_jinja_add(run, list, rl_jinja_string_over(run, string->at + at, length));
        at += length;
    }
    return list;
}

static rl_list *keys_of(rl_jinja_run *run, const rl_dict *dict)
{
    rl_list *list = rl_jinja_list(run, RL_LIST_PLAIN, dict->count);
    rl_jinja_charge(run, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        rl_jinja_add(run, list, dict->pairs[i].key);
    return list;
}

/* What is left of a generator; it is used up then. */
static rl_list *rest_of(rl_jinja_run *run, rl_list *generator)
{
    rl_list *list = rl_jinja_list(run, RL_LIST_PLAIN, 0);
    *list = *generator;
    list->flavor = RL_LIST_PLAIN;
    if (generator->next) list->items += generator->next;
    list->count -= generator->next;
    list->capacity = list->count;
    list->next = 0;
    generator->next = generator->count;
    return list;
}

rl_list *rl_jinja_items(rl_jinja_run *run, rl_value value)
{
    rl_jinja_note(run, value, RL_JINJA_USED);
    switch (value.kind) {
    case RL_VALUE_LIST:
        if (value.list->flavor == RL_LIST_GENERATOR) return rest_of(run, value.list);
        if (value.mark) value.list->iterated = true;
        return value.list;
    case RL_VALUE_DICT: return keys_of(run, value.dict);
    case RL_VALUE_STRING:
        rl_jinja_note(run, value, RL_JINJA_SPELLED);
        return characters_of(run, value);
    case RL_VALUE_UNDEFINED: return rl_jinja_list(run, RL_LIST_PLAIN, 0);
    case RL_VALUE_LOOP: rl_jinja_raise(run, RL_UNSUPPORTED, "iterating over `loop`");
    default: rl_jinja_raise(run, RL_INVALID, "'%s' object is not iterable", rl_jinja_type(value));
    }
}

int64_t rl_jinja_length(rl_jinja_run *run, rl_value value)
{
    rl_jinja_note(run, value, RL_JINJA_USED);
    switch (value.kind) {
    case RL_VALUE_UNDEFINED: return 0;
    case RL_VALUE_STRING:
        rl_jinja_charge(run, value.string->bytes / 64);
        return (int64_t)rl_string_chars(value.string);
    case RL_VALUE_DICT: return (int64_t)value.dict->count;
    case RL_VALUE_LIST:
        if (value.list->flavor != RL_LIST_GENERATOR) return (int64_t)value.list->count;
        break;
    case RL_VALUE_LOOP: {
        static const rl_string name = { .at = "length", .bytes = 6, .chars = 6 };
        return rl_loop_attribute(run, value, &name).integer;
    }
    default: break;
    }
    rl_jinja_raise(run, RL_INVALID, "object of type '%s' has no len()", rl_jinja_type(value));
}
