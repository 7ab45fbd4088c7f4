/* json_write.c - the writer of json.h, byte for byte what Python's json.dumps writes. */
#include "text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/number.h"
#include "text/unicode.h"

typedef struct writer {
    rl_text_buffer *out;
    const rl_json_style *style;
    unsigned depth, max_depth;
    rl_error *err;
} writer;

static rl_status add(writer *w, const char *text, size_t bytes)
{
    if (w->style->max_bytes &&
        (bytes > w->style->max_bytes || w->out->bytes > w->style->max_bytes - bytes))
        return rl_fail(w->err, RL_INVALID, "text longer than %zu bytes", w->style->max_bytes);
    return rl_text_buffer_append(w->out, text, bytes, w->err);
}

static rl_status add_text(writer *w, const char *text)
{
    return add(w, text, strlen(text));
}

static rl_status add_escaped(writer *w, uint32_t code)
{
    char text[16];
    if (code >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                 0xdc00 + (code & 0x3ff));
    else
        snprintf(text, sizeof text, "\\u%04x", code);
    return add_text(w, text);
}

static rl_status add_string(writer *w, const char *text, size_t bytes)
{
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    rl_status status = add(w, "\"", 1);
    for (size_t i = 0; i < bytes && !status;) {
        size_t plain = i;
        while (i < bytes && (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\' &&
               !(w->style->ascii && (unsigned char)text[i] >= 0x80))
            i++;
        status = add(w, text + plain, i - plain);
        if (i == bytes || status) break;
        const char *known = text[i] ? strchr(special, text[i]) : NULL;
        if (known) {
            char escape[2] = { '\\', letters[known - special] };
            status = add(w, escape, 2);
            i++;
            continue;
        }
        uint32_t code;
        i += rl_utf8_decode(text + i, bytes - i, &code);
        status = add_escaped(w, code);
    }
    return status ? status : add(w, "\"", 1);
}

static rl_status add_float(writer *w, double value)
{
    char text[RL_NUMBER_ROOM];
    if (isnan(value)) return add_text(w, "NaN");
    if (isinf(value)) return add_text(w, value < 0 ? "-Infinity" : "Infinity");
    return add(w, text, rl_float_print(value, text));
}

static rl_status add_scalar(writer *w, rl_value value)
{
    char text[RL_NUMBER_ROOM];
    switch (value.kind) {
    case RL_VALUE_NONE: return add_text(w, "null");
    case RL_VALUE_BOOL: return add_text(w, value.boolean ? "true" : "false");
    case RL_VALUE_INT: return add(w, text, rl_int_print(value.integer, text));
    case RL_VALUE_BIGINT: return add(w, value.string->at, value.string->bytes);
    case RL_VALUE_FLOAT: return add_float(w, value.real);
    case RL_VALUE_STRING: return add_string(w, value.string->at, value.string->bytes);
    case RL_VALUE_UNDEFINED:
        return rl_fail(w->err, RL_INVALID, "an undefined value has no JSON form");
    default:
        return rl_fail(w->err, RL_INVALID, "%s has no JSON form", rl_value_kind_name(value.kind));
    }
}

/* Keys are strings in JSON; numbers, true and null become text as they are. */
static rl_status add_key(writer *w, rl_value key)
{
    if (key.kind == RL_VALUE_STRING || key.kind == RL_VALUE_UNDEFINED) return add_scalar(w, key);
    rl_status status = add(w, "\"", 1);
    if (!status) status = add_scalar(w, key);
    return status ? status : add(w, "\"", 1);
}

static rl_status add_separator(writer *w)
{
    const rl_json_style *style = w->style;
    if (style->item_separator)
        return add(w, style->item_separator->at, style->item_separator->bytes);
    return add_text(w, style->indent ? "," : ", ");
}

static rl_status new_line(writer *w)
{
    const rl_string *indent = w->style->indent;
    if (!indent) return RL_OK;
    rl_status status = add(w, "\n", 1);
    for (unsigned i = 0; i < w->depth && !status; i++)
        status = add(w, indent->at, indent->bytes);
    return status;
}

static rl_status add_value(writer *w, rl_value value);

static rl_status add_list(writer *w, const rl_list *list)
{
    rl_status status = add(w, "[", 1);
    w->depth++;
    for (size_t i = 0; i < list->count && !status; i++) {
        if (i) status = add_separator(w);
        if (!status) status = new_line(w);
        if (!status) status = add_value(w, list->items[i]);
    }
    w->depth--;
    if (!status && list->count) status = new_line(w);
    return status ? status : add(w, "]", 1);
}

static int compare_pairs(const void *a, const void *b)
{
    const rl_string *x = (*(const rl_pair *const *)a)->key.string;
    const rl_string *y = (*(const rl_pair *const *)b)->key.string;
    int order = memcmp(x->at, y->at, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* *out: the pairs in the order to write, freed by the caller. */
static rl_status sort_pairs(writer *w, const rl_dict *dict, const rl_pair ***out)
{
    const rl_pair **order = malloc((dict->count + 1) * sizeof *order);
    if (!order) return rl_fail(w->err, RL_NOMEM, "no memory to sort the keys of an object");
    for (size_t i = 0; i < dict->count; i++) {
        order[i] = &dict->pairs[i];
        if (order[i]->key.kind != RL_VALUE_STRING) {
            free(order);
            return rl_fail(w->err, RL_UNSUPPORTED, "sort_keys with keys that are not strings");
        }
    }
    qsort(order, dict->count, sizeof *order, compare_pairs);
    *out = order;
    return RL_OK;
}

static rl_status add_pair(writer *w, const rl_pair *pair)
{
    const rl_string *separator = w->style->key_separator;
    rl_status status = add_key(w, pair->key);
    if (!status) status = separator ? add(w, separator->at, separator->bytes) : add(w, ": ", 2);
    return status ? status : add_value(w, pair->value);
}

static rl_status add_dict(writer *w, const rl_dict *dict)
{
    const rl_pair **order = NULL;
    rl_status status = w->style->sort_keys ? sort_pairs(w, dict, &order) : RL_OK;
    if (!status) status = add(w, "{", 1);
    w->depth++;
    for (size_t i = 0; i < dict->count && !status; i++) {
        if (i) status = add_separator(w);
        if (!status) status = new_line(w);
        if (!status) status = add_pair(w, order ? order[i] : &dict->pairs[i]);
    }
    w->depth--;
    free(order);
    if (!status && dict->count) status = new_line(w);
    return status ? status : add(w, "}", 1);
}

static rl_status add_value(writer *w, rl_value value)
{
    bool list = value.kind == RL_VALUE_LIST && value.list->flavor <= RL_LIST_TUPLE;
    if (!list && value.kind != RL_VALUE_DICT) return add_scalar(w, value);
    if (w->depth >= w->max_depth)
        return rl_fail(w->err, RL_INVALID, "a value nested deeper than %u levels", w->max_depth);
    return list ? add_list(w, value.list) : add_dict(w, value.dict);
}

rl_status rl_json_write(rl_text_buffer *out, rl_value value, const rl_json_style *style,
                        rl_error *err)
{
    static const rl_json_style plain = { 0 };
    if (!style) style = &plain;
    writer w = { .out = out,
                 .style = style,
                 .max_depth = style->max_depth ? style->max_depth : RL_JSON_DEPTH,
                 .err = err };
    return add_value(&w, value);
}

rl_status rl_json_write_string(rl_text_buffer *out, const char *text, size_t bytes, rl_error *err)
{
    static const rl_json_style plain = { 0 };
    writer w = { .out = out, .style = &plain, .err = err };
    return add_string(&w, text, bytes);
}
