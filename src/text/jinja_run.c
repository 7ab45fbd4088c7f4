/* jinja_run.c - jinja.h: parsing and rendering as a whole, and what every part of a rendering needs:
 * the way out, memory, steps, output. */
#include "text/jinja_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "text/unicode.h"

/* ---- parsing -------------------------------------------------------------------------------- */

static void parse_or_leave(rl_jinja_source *source, rl_jinja *jinja, const char *text, size_t bytes)
{
    if (setjmp(source->leave)) return;
    source->names = rl_dict_create(source->arena, 0);
    jinja->name = rl_string_create(source->arena, source->name, strlen(source->name));
    if (!source->names || !jinja->name) rl_jinja_no_memory(source);
    jinja->loop = rl_jinja_intern(source, "loop", 4);
    jinja->caller = rl_jinja_intern(source, "caller", 6);
    jinja->varargs = rl_jinja_intern(source, "varargs", 7);
    jinja->kwargs = rl_jinja_intern(source, "kwargs", 6);
    rl_jinja_lex_begin(source, text, bytes);
    jinja->body = rl_jinja_parse_source(source);
}

rl_status rl_jinja_parse(rl_jinja **out, const char *text, size_t bytes, const char *name,
                         rl_error *err)
{
    RL_ASSERT(out && text && name);
    *out = NULL;
    if (bytes > RL_JINJA_MAX_BYTES)
        return rl_fail(err, RL_INVALID, "%s: longer than %d bytes", name, RL_JINJA_MAX_BYTES);
    size_t bad;
    if (!rl_utf8_is_valid(text, bytes, &bad))
        return rl_fail(err, RL_FORMAT, "%s: not valid UTF-8 at byte %zu", name, bad);
    rl_jinja *jinja = malloc(sizeof *jinja);
    if (!jinja) return rl_fail(err, RL_NOMEM, "no memory to parse %s", name);
    rl_arena_init(&jinja->arena, 0);
    rl_jinja_source *source = calloc(1, sizeof *source);
    if (!source) {
        free(jinja);
        return rl_fail(err, RL_NOMEM, "no memory to parse %s", name);
    }
    source->arena = &jinja->arena;
    source->name = name;
    source->err = err;
    parse_or_leave(source, jinja, text, bytes);
    rl_status status = source->status;
    free(source);
    if (status)
        rl_jinja_destroy(jinja);
    else
        *out = jinja;
    return status;
}

void rl_jinja_destroy(rl_jinja *jinja)
{
    if (!jinja) return;
    rl_arena_fini(&jinja->arena);
    free(jinja);
}

/* ---- rendering ------------------------------------------------------------------------------ */

static void render_or_leave(rl_jinja_run *run)
{
    if (setjmp(run->leave)) return;
    if (rl_text_buffer_reserve(&run->out, 1024, NULL)) rl_jinja_raise(run, RL_NOMEM, "no memory");
    rl_frame frame;
    rl_frame_init(&frame, NULL);
    rl_jinja_exec_scope(run, &frame, run->jinja->body);
    rl_jinja_emit(run, "", 1); /* the NUL behind the text */
}

rl_status rl_jinja_render(const rl_jinja *jinja, rl_arena *arena, const rl_dict *variables,
                          const rl_jinja_params *params, char **text, size_t *bytes, rl_error *err)
{
    static const rl_jinja_params defaults = { 0 };
    RL_ASSERT(jinja && arena && variables && text && bytes);
    if (!params) params = &defaults;
    rl_jinja_run run = { .jinja = jinja,
                         .arena = arena,
                         .variables = variables,
                         .limits = params->limits,
                         .now = params->now ? params->now : (int64_t)time(NULL),
                         .uses = params->uses,
                         .err = err };
    if (!run.limits.max_steps) run.limits.max_steps = 10000000;
    if (!run.limits.max_depth) run.limits.max_depth = 1000;
    if (!run.limits.max_output_bytes) run.limits.max_output_bytes = (size_t)64 << 20;
    if (run.uses) *run.uses = (rl_jinja_uses){ 0 };
    *text = NULL;
    *bytes = 0;
    render_or_leave(&run);
    if (run.status) {
        rl_text_buffer_fini(&run.out);
        return run.status;
    }
    *text = run.out.data;
    *bytes = run.out.bytes - 1;
    return RL_OK;
}

/* ---- leaving -------------------------------------------------------------------------------- */

void rl_jinja_raise(rl_jinja_run *run, rl_status status, const char *format, ...)
{
    char reason[384];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    /* A cut in the middle of a character would make the sentence invalid UTF-8. */
    size_t bad, bytes = strlen(reason);
    if (!rl_utf8_is_valid(reason, bytes, &bad)) reason[bad] = '\0';
    run->status = rl_fail(run->err, status, "%.*s, line %u: %s",
                          (int)(run->jinja->name->bytes > 100 ? 100 : run->jinja->name->bytes),
                          run->jinja->name->at, run->line, reason);
    longjmp(run->leave, 1);
}

void rl_jinja_out_of_memory(rl_jinja_run *run)
{
    if (run->arena->over_limit)
        rl_jinja_raise(run, RL_INVALID, "rendering takes more than %zu bytes of memory",
                       run->arena->limit_bytes);
    rl_jinja_raise(run, RL_NOMEM, "no memory");
}

void rl_jinja_check(rl_jinja_run *run, rl_status status, const rl_error *inner)
{
    if (status) rl_jinja_raise(run, status, "%s", inner->text);
}

/* ---- memory, steps, output ------------------------------------------------------------------ */

void *rl_jinja_alloc(rl_jinja_run *run, size_t bytes)
{
    void *memory = rl_arena_alloc(run->arena, bytes);
    if (!memory) rl_jinja_out_of_memory(run);
    return memory;
}

void rl_jinja_charge(rl_jinja_run *run, uint64_t steps)
{
    if (steps > run->limits.max_steps - run->steps)
        rl_jinja_raise(run, RL_INVALID, "the template takes more than %llu steps",
                       (unsigned long long)run->limits.max_steps);
    run->steps += steps;
}

void rl_jinja_enter(rl_jinja_run *run)
{
    if (++run->depth > run->limits.max_depth)
        rl_jinja_raise(run, RL_INVALID, "nested deeper than %u levels", run->limits.max_depth);
}

void rl_jinja_leave(rl_jinja_run *run)
{
    run->depth--;
}

void rl_jinja_emit(rl_jinja_run *run, const char *text, size_t bytes)
{
    rl_jinja_charge(run, bytes / 64);
    if (bytes > run->limits.max_output_bytes ||
        run->out.bytes > run->limits.max_output_bytes + 1 - bytes)
        rl_jinja_raise(run, RL_INVALID, "the text gets longer than %zu bytes",
                       run->limits.max_output_bytes);
    if (rl_text_buffer_append(&run->out, text, bytes, NULL))
        rl_jinja_raise(run, RL_NOMEM, "no memory");
}

void rl_jinja_emit_text(rl_jinja_run *run, const char *text)
{
    rl_jinja_emit(run, text, strlen(text));
}

rl_value rl_jinja_captured(rl_jinja_run *run, size_t begin)
{
    rl_value text = rl_jinja_string(run, run->out.data + begin, run->out.bytes - begin);
    run->out.bytes = begin;
    return text;
}

rl_value rl_jinja_string(rl_jinja_run *run, const char *text, size_t bytes)
{
    rl_jinja_charge(run, bytes / 64);
    const rl_string *string = rl_string_create(run->arena, text, bytes);
    if (!string) rl_jinja_out_of_memory(run);
    return rl_value_string(string);
}

rl_value rl_jinja_string_over(rl_jinja_run *run, const char *text, size_t bytes)
{
    const rl_string *string = rl_string_over(run->arena, text, bytes);
    if (!string) rl_jinja_out_of_memory(run);
    return rl_value_string(string);
}

rl_list *rl_jinja_list(rl_jinja_run *run, rl_list_flavor flavor, size_t capacity)
{
    rl_list *list = rl_list_create(run->arena, capacity);
    if (!list) rl_jinja_out_of_memory(run);
    list->flavor = (uint8_t)flavor;
    return list;
}

void rl_jinja_add(rl_jinja_run *run, rl_list *list, rl_value item)
{
    if (!rl_list_add(run->arena, list, item)) rl_jinja_out_of_memory(run);
}

rl_value rl_jinja_pair(rl_jinja_run *run, rl_value a, rl_value b)
{
    rl_list *list = rl_jinja_list(run, RL_LIST_TUPLE, 2);
    rl_jinja_add(run, list, a);
    rl_jinja_add(run, list, b);
    return rl_value_list(list);
}

void rl_jinja_set_key(rl_jinja_run *run, rl_dict *dict, rl_value key, rl_value value)
{
    if (key.kind == RL_VALUE_LIST && key.list->flavor != RL_LIST_PLAIN)
        rl_jinja_raise(run, RL_UNSUPPORTED, "a %s as a key is not supported", rl_jinja_type(key));
    if (!rl_value_is_key(key))
        rl_jinja_raise(run, RL_INVALID, "unhashable type: '%s'", rl_jinja_type(key));
    if (!rl_dict_set(run->arena, dict, key, value)) rl_jinja_out_of_memory(run);
}

void rl_jinja_note(rl_jinja_run *run, rl_value value, rl_jinja_use use)
{
    if (!value.mark || !run->uses) return;
    run->uses->seen[value.mark % RL_JINJA_MARKS] |= use;
    run->uses->last = value.mark;
}

/* ---- undefined ------------------------------------------------------------------------------ */

static rl_value undefined(uint8_t missing, rl_value of)
{
    return (rl_value){ .kind = RL_VALUE_UNDEFINED, .missing = missing, .of_kind = of.kind };
}

rl_value rl_jinja_undefined_name(const rl_string *name)
{
    rl_value value = undefined(RL_UNDEFINED_NAME, (rl_value){ 0 });
    value.string = name;
    return value;
}

rl_value rl_jinja_undefined_attribute(rl_value of, const rl_string *name, bool unsafe)
{
    rl_value value = undefined(unsafe ? RL_UNDEFINED_UNSAFE : RL_UNDEFINED_ATTRIBUTE, of);
    value.string = name;
    return value;
}

rl_value rl_jinja_undefined_element(rl_value of, rl_value index)
{
    if (index.kind == RL_VALUE_STRING) return rl_jinja_undefined_attribute(of, index.string, false);
    bool number = index.kind == RL_VALUE_INT;
    rl_value value = undefined(number ? RL_UNDEFINED_INDEX : RL_UNDEFINED_ELEMENT, of);
    if (number) value.integer = index.integer;
    return value;
}

rl_value rl_jinja_undefined_saying(const char *sentence)
{
    rl_value value = undefined(RL_UNDEFINED_SAYING, (rl_value){ 0 });
    value.object = (void *)sentence;
    return value;
}

static const char *object_name(uint32_t kind)
{
    switch (kind) {
    case RL_VALUE_NONE: return "None";
    case RL_VALUE_BOOL: return "bool object";
    case RL_VALUE_INT:
    case RL_VALUE_BIGINT: return "int object";
    case RL_VALUE_FLOAT: return "float object";
    case RL_VALUE_STRING: return "str object";
    case RL_VALUE_LIST: return "list object";
    case RL_VALUE_DICT: return "dict object";
    case RL_VALUE_NAMESPACE: return "namespace object";
    case RL_VALUE_LOOP: return "loop object";
    default: return "object";
    }
}

void rl_jinja_raise_undefined(rl_jinja_run *run, rl_value value)
{
    const char *of = object_name(value.of_kind);
    const rl_string *name = value.string;
    int bytes = value.missing <= RL_UNDEFINED_ATTRIBUTE || value.missing == RL_UNDEFINED_UNSAFE
                    ? (int)(name->bytes > 100 ? 100 : name->bytes)
                    : 0;
    switch (value.missing) {
    case RL_UNDEFINED_NAME: rl_jinja_raise(run, RL_INVALID, "'%.*s' is undefined", bytes, name->at);
    case RL_UNDEFINED_ATTRIBUTE:
        rl_jinja_raise(run, RL_INVALID, "'%s' has no attribute '%.*s'", of, bytes, name->at);
    case RL_UNDEFINED_UNSAFE:
        rl_jinja_raise(run, RL_INVALID, "access to attribute '%.*s' of '%s' is unsafe", bytes,
                       name->at, of);
    case RL_UNDEFINED_INDEX:
        rl_jinja_raise(run, RL_INVALID, "%s has no element %lld", of, (long long)value.integer);
    case RL_UNDEFINED_SAYING: rl_jinja_raise(run, RL_INVALID, "%s", (const char *)value.object);
    default: rl_jinja_raise(run, RL_INVALID, "%s has no such element", of);
    }
}
