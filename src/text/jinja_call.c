/* jinja_call.c - loops while they run, and everything that can be called: macros, methods,
 * functions. Also how arguments find their parameters. */
#include "text/jinja_builtins.h"

#include <string.h>

/* ---- loops ---------------------------------------------------------------------------------- */

/* The next item that passes the filter, straight from the items. */
static bool pull(rl_jinja_run *run, rl_loop *loop, rl_value *item)
{
    while (loop->next < loop->count) {
        *item = loop->items[loop->next++];
        rl_jinja_charge(run, 1);
        if (!loop->node->loop.filter || loop->filtered) return true;
        rl_frame frame;
        rl_frame_init(&frame, loop->outer);
        rl_jinja_assign(run, &frame, loop->node->loop.target, *item);
        if (rl_jinja_truth(rl_jinja_eval(run, &frame, loop->node->loop.filter))) return true;
    }
    return false;
}

bool rl_loop_next(rl_jinja_run *run, rl_loop *loop, rl_value *item)
{
    if (loop->after.kind != RL_VALUE_MISSING) {
        *item = loop->after;
        loop->after = (rl_value){ 0 };
    } else if (!pull(run, loop, item)) {
        return false;
    }
    loop->index++;
    loop->before = loop->current;
    loop->current = *item;
    return true;
}

/* The item after the current one, MISSING at the end. */
static rl_value peek(rl_jinja_run *run, rl_loop *loop)
{
    rl_value item;
    if (loop->after.kind == RL_VALUE_MISSING && pull(run, loop, &item)) loop->after = item;
    return loop->after;
}

static int64_t loop_length(rl_jinja_run *run, rl_loop *loop)
{
    if (loop->length >= 0) return loop->length;
    rl_list *rest = rl_jinja_list(run, RL_LIST_PLAIN, 0);
    rl_value item;
    while (pull(run, loop, &item))
        rl_jinja_add(run, rest, item);
    loop->items = rest->items;
    loop->count = rest->count;
    loop->next = 0;
    loop->filtered = true;
    loop->length = (int64_t)rest->count + loop->index + 1 + (loop->after.kind != RL_VALUE_MISSING);
    return loop->length;
}

static rl_value cycle(rl_jinja_run *run, rl_value self, const rl_jinja_args *args)
{
    const rl_loop *loop = self.object;
    if (!args->count) rl_jinja_raise(run, RL_INVALID, "no items for cycling given");
    return args->items[(uint64_t)loop->index % args->count];
}

static rl_value changed(rl_jinja_run *run, rl_value self, const rl_jinja_args *args)
{
    rl_loop *loop = self.object;
    rl_list *now = rl_jinja_list(run, RL_LIST_TUPLE, args->count);
    for (size_t i = 0; i < args->count; i++)
        rl_jinja_add(run, now, args->items[i]);
    bool same = loop->changed.kind == RL_VALUE_LIST &&
                rl_jinja_equal(run, loop->changed, rl_value_list(now));
    if (!same) loop->changed = rl_value_list(now);
    return rl_value_bool(!same);
}

typedef struct loop_method {
    rl_value self;
    rl_value (*call)(rl_jinja_run *run, rl_value self, const rl_jinja_args *args);
} loop_method;

enum { LOOP_METHOD = 1 }; /* rl_value.missing of a METHOD that is a loop_method */

static rl_value bind_to_loop(rl_jinja_run *run, rl_value self,
                             rl_value (*call)(rl_jinja_run *, rl_value, const rl_jinja_args *))
{
    loop_method *method = rl_jinja_alloc(run, sizeof *method);
    *method = (loop_method){ .self = self, .call = call };
    return (rl_value){ .kind = RL_VALUE_METHOD, .missing = LOOP_METHOD, .object = method };
}

rl_value rl_loop_attribute(rl_jinja_run *run, rl_value self, const rl_string *name)
{
    rl_loop *loop = self.object;
    rl_value item;
    if (rl_string_is(name, "index")) return rl_value_int(loop->index + 1);
    if (rl_string_is(name, "index0")) return rl_value_int(loop->index);
    if (rl_string_is(name, "first")) return rl_value_bool(loop->index == 0);
    if (rl_string_is(name, "last")) return rl_value_bool(peek(run, loop).kind == RL_VALUE_MISSING);
    if (rl_string_is(name, "length")) return rl_value_int(loop_length(run, loop));
    if (rl_string_is(name, "revindex")) return rl_value_int(loop_length(run, loop) - loop->index);
    if (rl_string_is(name, "revindex0"))
        return rl_value_int(loop_length(run, loop) - loop->index - 1);
    if (rl_string_is(name, "depth")) return rl_value_int(1);
    if (rl_string_is(name, "depth0")) return rl_value_int(0);
    if (rl_string_is(name, "previtem"))
        return loop->index > 0 ? loop->before
                               : rl_jinja_undefined_saying("there is no previous item");
    if (rl_string_is(name, "nextitem")) {
        item = peek(run, loop);
        return item.kind != RL_VALUE_MISSING ? item
                                             : rl_jinja_undefined_saying("there is no next item");
    }
    if (rl_string_is(name, "cycle")) return bind_to_loop(run, self, cycle);
    if (rl_string_is(name, "changed")) return bind_to_loop(run, self, changed);
    return (rl_value){ 0 };
}

/* ---- arguments and parameters --------------------------------------------------------------- */

/* The position of `name` in "one two three", or -1. */
static int find_param(const char *params, const rl_string *name)
{
    int index = 0;
    while (*params) {
        size_t bytes = strcspn(params, " ");
        if (bytes == name->bytes && !memcmp(params, name->at, bytes)) return index;
        params += bytes + (params[bytes] == ' ');
        index++;
    }
    return -1;
}

static unsigned count_params(const char *params)
{
    unsigned n = *params != '\0';
    for (; *params; params++)
        n += *params == ' ';
    return n;
}

void rl_jinja_bind(rl_jinja_run *run, const char *what, const char *name, const char *params,
                   unsigned required, const rl_jinja_args *args, rl_value *out)
{
    bool by_name = *params != '/';
    if (!by_name) params++;
    unsigned n = count_params(params);
    for (unsigned i = 0; i < RL_JINJA_MAX_PARAMS; i++)
        out[i] = (rl_value){ 0 };
    if (args->count > n)
        rl_jinja_raise(run, RL_INVALID, "%s '%s' takes at most %u argument%s (%zu given)", what,
                       name, n, n == 1 ? "" : "s", args->count);
    for (size_t i = 0; i < args->count; i++)
        out[i] = args->items[i];
    for (size_t i = 0; args->named && i < args->named->count; i++) {
        const rl_pair *pair = &args->named->pairs[i];
        int at = by_name && pair->key.kind == RL_VALUE_STRING ? find_param(params, pair->key.string)
                                                              : -1;
        if (at < 0) {
            rl_value key = rl_jinja_str(run, pair->key);
            rl_jinja_raise(run, RL_INVALID, "%s '%s' takes no keyword argument '%.*s'", what, name,
                           (int)(key.string->bytes > 60 ? 60 : key.string->bytes), key.string->at);
        }
        if (out[at].kind != RL_VALUE_MISSING)
            rl_jinja_raise(run, RL_INVALID, "%s '%s' got two values for argument '%.*s'", what,
                           name, (int)pair->key.string->bytes, pair->key.string->at);
        out[at] = pair->value;
    }
    for (unsigned i = 0; i < required; i++)
        if (out[i].kind == RL_VALUE_MISSING)
            rl_jinja_raise(run, RL_INVALID, "%s '%s' misses argument number %u", what, name, i + 1);
}

int64_t rl_jinja_int_arg(rl_jinja_run *run, rl_value value, int64_t fallback)
{
    if (value.kind == RL_VALUE_MISSING) return fallback;
    if (value.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, value);
    if (!rl_jinja_is_int(value))
        rl_jinja_raise(run, RL_INVALID, "'%s' object cannot be interpreted as an integer",
                       rl_jinja_type(value));
    return value.integer;
}

bool rl_jinja_bool_arg(rl_value value, bool fallback)
{
    return value.kind == RL_VALUE_MISSING ? fallback : rl_jinja_truth(value);
}

const rl_string *rl_jinja_string_arg(rl_jinja_run *run, rl_value value, const char *what)
{
    if (value.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, value);
    if (value.kind != RL_VALUE_STRING)
        rl_jinja_raise(run, RL_INVALID, "%s must be str, not %s", what, rl_jinja_type(value));
    return value.string;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static const char *name_of(const rl_node_macro *node, int *bytes)
{
    *bytes = node->name ? (int)(node->name->bytes > 60 ? 60 : node->name->bytes) : 6;
    return node->name ? node->name->at : "caller";
}

/* Keyword arguments go to their parameters; what is left goes to *rest. */
static void place_named(rl_jinja_run *run, rl_frame *frame, const rl_node_macro *node, size_t given,
                        const rl_dict *named, rl_dict *rest)
{
    int bytes;
    const char *name = name_of(node, &bytes);
    for (size_t i = 0; named && i < named->count; i++) {
        rl_value key = named->pairs[i].key;
        bool placed = false;
        for (size_t p = given; p < node->params.count && !placed; p++) {
            placed = key.kind == RL_VALUE_STRING &&
                     rl_string_equal(key.string, node->params.items[p]->name);
            if (placed)
                rl_frame_set(run, frame, node->params.items[p]->name, named->pairs[i].value);
        }
        if (placed) continue;
        if (node->uses_caller && rl_string_equal(key.string, run->jinja->caller)) {
            rl_frame_set(run, frame, run->jinja->caller, named->pairs[i].value);
        } else if (node->uses_kwargs) {
            rl_jinja_set_key(run, rest, key, named->pairs[i].value);
        } else {
            rl_value text = rl_jinja_str(run, key);
            rl_jinja_raise(run, RL_INVALID, "macro '%.*s' takes no keyword argument '%.*s'", bytes,
                           name, (int)(text.string->bytes > 60 ? 60 : text.string->bytes),
                           text.string->at);
        }
    }
}

static bool is_set(const rl_frame *frame, const rl_string *name)
{
    for (uint32_t i = 0; i < frame->count; i++)
        if (frame->variables[i].name == name) return true;
    return false;
}

/* Parameters without argument: their default, evaluated where the earlier ones are known. */
static void place_defaults(rl_jinja_run *run, rl_frame *frame, const rl_node_macro *node)
{
    uint32_t first_default = node->params.count - node->defaults.count;
    for (uint32_t i = 0; i < node->params.count; i++) {
        const rl_string *name = node->params.items[i]->name;
        if (is_set(frame, name)) continue;
        rl_value value = i < first_default
                             ? rl_jinja_undefined_name(name)
                             : rl_jinja_eval(run, frame, node->defaults.items[i - first_default]);
        rl_frame_set(run, frame, name, value);
    }
}

static rl_value call_macro(rl_jinja_run *run, const rl_macro *macro, const rl_jinja_args *args)
{
    const rl_node_macro *node = macro->node;
    rl_frame *frame = rl_jinja_alloc(run, sizeof *frame);
    rl_frame_init(frame, macro->frame);
    size_t given = args->count < node->params.count ? args->count : node->params.count;
    if (args->count > given && !node->uses_varargs) {
        int bytes;
        const char *name = name_of(node, &bytes);
        rl_jinja_raise(run, RL_INVALID, "macro '%.*s' takes not more than %u argument(s)", bytes,
                       name, node->params.count);
    }
    for (size_t i = 0; i < given; i++)
        rl_frame_set(run, frame, node->params.items[i]->name, args->items[i]);
    rl_dict *rest = rl_dict_create(run->arena, 0);
    if (!rest) rl_jinja_out_of_memory(run);
    place_named(run, frame, node, given, args->named, rest);
    if (node->uses_kwargs) rl_frame_set(run, frame, run->jinja->kwargs, rl_value_dict(rest));
    if (node->uses_caller && !is_set(frame, run->jinja->caller))
        rl_frame_set(run, frame, run->jinja->caller,
                     rl_jinja_undefined_saying("no caller defined"));
    if (node->uses_varargs) {
        rl_list *more = rl_jinja_list(run, RL_LIST_TUPLE, 0);
        for (size_t i = given; i < args->count; i++)
            rl_jinja_add(run, more, args->items[i]);
        rl_frame_set(run, frame, run->jinja->varargs, rl_value_list(more));
    }
    place_defaults(run, frame, node);
    size_t begin = run->out.bytes;
    rl_jinja_exec_scope(run, frame, node->body);
    return rl_jinja_captured(run, begin);
}

/* String arguments of a method of a safe string are escaped, and its result is safe. */
rl_value rl_jinja_call_method(rl_jinja_run *run, rl_value self, const rl_jinja_method *method,
                              const rl_jinja_args *args)
{
    rl_value bound[RL_JINJA_MAX_PARAMS];
    if (!method->call) return rl_jinja_format_method(run, self, args);
    bool safe = self.kind == RL_VALUE_STRING && self.safe;
    rl_jinja_bind(run, "method", method->name, method->params, method->required, args, bound);
    for (int i = 0; safe && method->markup == RL_MARKUP_WRAP && i < RL_JINJA_MAX_PARAMS; i++)
        if (bound[i].kind == RL_VALUE_STRING) bound[i] = rl_jinja_escape(run, bound[i]);
    rl_value out = method->call(run, self, bound);
    if (safe && method->markup == RL_MARKUP_WRAP) out.safe = true;
    for (size_t i = 0; safe && method->markup == RL_MARKUP_LIST && i < out.list->count; i++)
        out.list->items[i].safe = true;
    return out;
}

rl_value rl_jinja_call(rl_jinja_run *run, rl_value callee, const rl_jinja_args *args)
{
    switch (callee.kind) {
    case RL_VALUE_MACRO: return call_macro(run, callee.object, args);
    case RL_VALUE_METHOD: {
        if (callee.missing == LOOP_METHOD) {
            const loop_method *method = callee.object;
            return method->call(run, method->self, args);
        }
        const rl_bound_method *bound = callee.object;
        return rl_jinja_call_method(run, bound->self, bound->method, args);
    }
    case RL_VALUE_FUNCTION: {
        const rl_jinja_function *function = callee.object;
        if (!function->call)
            rl_jinja_raise(run, RL_UNSUPPORTED, "function '%s' is not supported", function->name);
        return function->call(run, args);
    }
    case RL_VALUE_UNDEFINED: rl_jinja_raise_undefined(run, callee);
    case RL_VALUE_LOOP: rl_jinja_raise(run, RL_UNSUPPORTED, "recursive loops are not supported");
    default: rl_jinja_raise(run, RL_INVALID, "'%s' object is not callable", rl_jinja_type(callee));
    }
}
