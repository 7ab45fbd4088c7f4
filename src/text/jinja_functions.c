/* jinja_functions.c - the functions that templates can call by name. */
#include "text/jinja_builtins.h"

#include <string.h>
#include <time.h>

enum { MAX_RANGE = 100000 }; /* as in jinja2's sandbox */

static rl_value call_range(rl_jinja_run *run, const rl_jinja_args *args)
{
    int64_t bound[3] = { 0, 0, 1 };
    if (args->named && args->named->count)
        rl_jinja_raise(run, RL_INVALID, "range() takes no keyword arguments");
    if (args->count < 1 || args->count > 3)
        rl_jinja_raise(run, RL_INVALID, "range expected 1 to 3 arguments, got %zu", args->count);
    for (size_t i = 0; i < args->count; i++)
        bound[args->count == 1 ? 1 : i] = rl_jinja_int_arg(run, args->items[i], 0);
    int64_t start = bound[0], stop = bound[1], step = bound[2];
    if (!step) rl_jinja_raise(run, RL_INVALID, "range() arg 3 must not be zero");
    uint64_t count = 0, distance, stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    if (step > 0 ? start < stop : start > stop) {
        distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
        count = (distance - 1) / stride + 1;
    }
    if (count > MAX_RANGE)
        rl_jinja_raise(run, RL_INVALID, "range too big: more than %d numbers", MAX_RANGE);
    rl_jinja_charge(run, count);
    rl_list *list = rl_jinja_list(run, RL_LIST_RANGE, count);
    for (uint64_t i = 0; i < count; i++)
        rl_jinja_add(run, list, rl_value_int((int64_t)((uint64_t)start + i * (uint64_t)step)));
    return rl_value_list(list);
}

/* dict(mapping or pairs, name=value ...), as a new dict. */
static rl_dict *make_dict(rl_jinja_run *run, const rl_jinja_args *args, const char *what)
{
    rl_dict *dict = rl_dict_create(run->arena, 0);
    if (!dict) rl_jinja_out_of_memory(run);
    if (args->count > 1)
        rl_jinja_raise(run, RL_INVALID, "%s expected at most 1 argument, got %zu", what,
                       args->count);
    if (args->count && args->items[0].kind == RL_VALUE_DICT) {
        const rl_dict *from = args->items[0].dict;
        rl_jinja_charge(run, from->count);
        for (size_t i = 0; i < from->count; i++)
            rl_jinja_set_key(run, dict, from->pairs[i].key, from->pairs[i].value);
    } else if (args->count) {
        const rl_list *pairs = rl_jinja_items(run, args->items[0]);
        for (size_t i = 0; i < pairs->count; i++) {
            const rl_list *pair = rl_jinja_items(run, pairs->items[i]);
            if (pair->count != 2)
                rl_jinja_raise(run, RL_INVALID, "element %zu of %s has length %zu; 2 is required",
                               i, what, pair->count);
            rl_jinja_set_key(run, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; args->named && i < args->named->count; i++)
        rl_jinja_set_key(run, dict, args->named->pairs[i].key, args->named->pairs[i].value);
    return dict;
}

static rl_value call_dict(rl_jinja_run *run, const rl_jinja_args *args)
{
    return rl_value_dict(make_dict(run, args, "dict"));
}

static rl_value call_namespace(rl_jinja_run *run, const rl_jinja_args *args)
{
    rl_value value = rl_value_dict(make_dict(run, args, "namespace"));
    value.kind = RL_VALUE_NAMESPACE;
    return value;
}

static rl_value call_raise_exception(rl_jinja_run *run, const rl_jinja_args *args)
{
    rl_value message[RL_JINJA_MAX_PARAMS];
    rl_jinja_bind(run, "function", "raise_exception", "message", 1, args, message);
    rl_value text = rl_jinja_str(run, message[0]);
    rl_jinja_raise(run, RL_INVALID, "%.*s",
                   (int)(text.string->bytes > 300 ? 300 : text.string->bytes), text.string->at);
}

/* Only conversions that all C libraries agree on, and no widths: a width could ask for gigabytes. */
static void check_time_format(rl_jinja_run *run, const rl_string *format)
{
    for (size_t i = 0; i < format->bytes; i++) {
        if (!format->at[i])
            rl_jinja_raise(run, RL_INVALID, "strftime_now: a zero byte in the format");
        if (format->at[i] != '%') continue;
        i++;
        if (i < format->bytes && format->at[i] == '-') i++;
        char c = i < format->bytes ? format->at[i] : '\0';
        if (!c || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%", c))
            rl_jinja_raise(run, RL_UNSUPPORTED, "strftime_now: conversion '%%%c' is not supported",
                           c >= 0x20 && c < 0x7f ? c : '?');
    }
}

static rl_value call_strftime_now(rl_jinja_run *run, const rl_jinja_args *args)
{
    rl_value bound[RL_JINJA_MAX_PARAMS];
    rl_jinja_bind(run, "function", "strftime_now", "format", 1, args, bound);
    const rl_string *format = rl_jinja_string_arg(run, bound[0], "the format of strftime_now");
    check_time_format(run, format);
    time_t now = (time_t)run->now;
    struct tm parts;
    if (!localtime_r(&now, &parts)) rl_jinja_raise(run, RL_INVALID, "strftime_now: no local time");
    /* A blank in front tells an empty result from one that does not fit; no conversion above
     * writes more than 64 bytes for 2. */
    size_t room = format->bytes * 32 + 2;
    char *pattern = rl_jinja_alloc(run, format->bytes + 2), *text = rl_jinja_alloc(run, room);
    pattern[0] = ' ';
    memcpy(pattern + 1, format->at, format->bytes);
    pattern[format->bytes + 1] = '\0';
    size_t bytes = strftime(text, room, pattern, &parts);
    if (!bytes) rl_jinja_raise(run, RL_INVALID, "strftime_now: the result is too long");
    return rl_jinja_string(run, text + 1, bytes - 1);
}

static const rl_jinja_function functions[] = {
    { "range", call_range },
    { "dict", call_dict },
    { "namespace", call_namespace },
    { "raise_exception", call_raise_exception },
    { "strftime_now", call_strftime_now },
    { "lipsum", NULL },
    { "cycler", NULL },
    { "joiner", NULL },
};

const rl_jinja_function *rl_jinja_find_function(const rl_string *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (rl_string_is(name, functions[i].name)) return &functions[i];
    return NULL;
}
