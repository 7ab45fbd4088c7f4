/* jinja_tests.c - what can stand behind `is`. */
#include "text/jinja_builtins.h"

#include <math.h>
#include <string.h>

#include "text/jinja_text.h"
#include "text/unicode.h"

static bool is_defined(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind != RL_VALUE_UNDEFINED;
}

static bool is_undefined(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return !is_defined(run, subject, arg);
}

static bool is_none(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_NONE;
}

static bool is_boolean(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_BOOL;
}

static bool is_true(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_BOOL && subject.boolean;
}

static bool is_false(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_BOOL && !subject.boolean;
}

static bool is_integer(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_INT || subject.kind == RL_VALUE_BIGINT;
}

static bool is_float(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_FLOAT;
}

static bool is_number(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return is_boolean(run, subject, arg) || is_integer(run, subject, arg) ||
           is_float(run, subject, arg);
}

static bool is_string(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_STRING;
}

static bool is_mapping(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_DICT;
}

/* Has a length and can be indexed; jinja2's undefined passes for that. */
static bool is_sequence(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    if (subject.kind == RL_VALUE_LIST) return subject.list->flavor <= RL_LIST_RANGE;
    return subject.kind == RL_VALUE_STRING || subject.kind == RL_VALUE_DICT ||
           subject.kind == RL_VALUE_UNDEFINED;
}

static bool is_iterable(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return is_sequence(run, subject, arg) || subject.kind == RL_VALUE_LIST ||
           subject.kind == RL_VALUE_LOOP;
}

static bool is_callable(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind >= RL_VALUE_MACRO || subject.kind == RL_VALUE_UNDEFINED;
}

static bool is_escaped(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)run, (void)arg;
    return subject.kind == RL_VALUE_STRING && subject.safe;
}

static bool is_sameas(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    if (subject.kind != arg.kind) return false;
    switch (subject.kind) {
    case RL_VALUE_NONE: return true;
    case RL_VALUE_BOOL: return subject.boolean == arg.boolean;
    case RL_VALUE_INT:
    case RL_VALUE_BIGINT:
    case RL_VALUE_FLOAT:
    case RL_VALUE_STRING:
    case RL_VALUE_UNDEFINED:
        rl_jinja_raise(run, RL_UNSUPPORTED, "test 'sameas' between two values of type %s",
                       rl_jinja_type(subject));
    default: return subject.object == arg.object;
    }
}

static int64_t remainder_of(rl_jinja_run *run, rl_value subject, rl_value by)
{
    rl_value rest = rl_jinja_binary(run, RL_OP_MOD, subject, by);
    if (rest.kind == RL_VALUE_FLOAT) return rest.real == 0 ? 0 : rest.real == 1 ? 1 : -1;
    return rest.kind == RL_VALUE_INT ? rest.integer : -1;
}

static bool is_odd(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    return remainder_of(run, subject, rl_value_int(2)) == 1;
}

static bool is_even(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    return remainder_of(run, subject, rl_value_int(2)) == 0;
}

static bool is_divisibleby(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return remainder_of(run, subject, arg) == 0;
}

/* str.islower and str.isupper: some character has case, and none has the other one. */
static bool has_case(rl_jinja_run *run, rl_value subject, bool upper)
{
    rl_value text = rl_jinja_str(run, subject);
    bool some = false;
    rl_jinja_charge(run, text.string->bytes / 16);
    for (size_t at = 0; at < text.string->bytes;) {
        uint32_t code;
        at += rl_utf8_decode(text.string->at + at, text.string->bytes - at, &code);
        bool is_up = rl_code_is_upper(code), is_low = rl_code_is_lower(code);
        if ((upper ? is_low : is_up) || rl_code_is_title(code)) return false;
        some |= upper ? is_up : is_low;
    }
    return some;
}

static bool is_lower(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    return has_case(run, subject, false);
}

static bool is_upper(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    return has_case(run, subject, true);
}

static bool is_in(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_IN, subject, arg);
}

static bool is_eq(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_EQ, subject, arg);
}

static bool is_ne(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_NE, subject, arg);
}

static bool is_lt(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_LT, subject, arg);
}

static bool is_le(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_LE, subject, arg);
}

static bool is_gt(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_GT, subject, arg);
}

static bool is_ge(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    return rl_jinja_compare(run, RL_OP_GE, subject, arg);
}

static void must_be_hashable(rl_jinja_run *run, rl_value value)
{
    if (value.kind == RL_VALUE_DICT || rl_jinja_is_list(value, RL_LIST_PLAIN))
        rl_jinja_raise(run, RL_INVALID, "unhashable type: '%s'", rl_jinja_type(value));
}

static bool is_filter(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    must_be_hashable(run, subject);
    return subject.kind == RL_VALUE_STRING && rl_jinja_knows_filter(subject.string);
}

static bool is_test(rl_jinja_run *run, rl_value subject, rl_value arg)
{
    (void)arg;
    must_be_hashable(run, subject);
    return subject.kind == RL_VALUE_STRING && rl_jinja_knows_test(subject.string);
}

static const rl_jinja_test tests[] = {
    /* name, arguments, function, asks for the type */
    { "defined", 0, is_defined, false },
    { "undefined", 0, is_undefined, false },
    { "none", 0, is_none, false },
    { "string", 0, is_string, true },
    { "mapping", 0, is_mapping, true },
    { "sequence", 0, is_sequence, true },
    { "iterable", 0, is_iterable, true },
    { "number", 0, is_number, true },
    { "integer", 0, is_integer, true },
    { "float", 0, is_float, true },
    { "boolean", 0, is_boolean, true },
    { "true", 0, is_true, false },
    { "false", 0, is_false, false },
    { "callable", 0, is_callable, true },
    { "escaped", 0, is_escaped, false },
    { "sameas", 1, is_sameas, false },
    { "odd", 0, is_odd, false },
    { "even", 0, is_even, false },
    { "divisibleby", 1, is_divisibleby, false },
    { "lower", 0, is_lower, false },
    { "upper", 0, is_upper, false },
    { "in", 1, is_in, false },
    { "eq", 1, is_eq, false },
    { "equalto", 1, is_eq, false },
    { "==", 1, is_eq, false },
    { "ne", 1, is_ne, false },
    { "!=", 1, is_ne, false },
    { "lt", 1, is_lt, false },
    { "lessthan", 1, is_lt, false },
    { "<", 1, is_lt, false },
    { "le", 1, is_le, false },
    { "<=", 1, is_le, false },
    { "gt", 1, is_gt, false },
    { "greaterthan", 1, is_gt, false },
    { ">", 1, is_gt, false },
    { "ge", 1, is_ge, false },
    { ">=", 1, is_ge, false },
    { "filter", 0, is_filter, false },
    { "test", 0, is_test, false },
};

const rl_jinja_test *rl_jinja_find_test(const rl_string *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (rl_string_is(name, tests[i].name)) return &tests[i];
    return NULL;
}

bool rl_jinja_knows_test(const rl_string *name)
{
    return rl_jinja_find_test(name);
}

bool rl_jinja_apply_test(rl_jinja_run *run, const rl_string *name, const rl_jinja_test *test,
                         rl_value subject, const rl_jinja_args *args)
{
    int bytes = (int)(name->bytes > 60 ? 60 : name->bytes);
    if (!test) rl_jinja_raise(run, RL_UNSUPPORTED, "test '%.*s' is not supported", bytes, name->at);
    if (args->count != test->n_args || (args->named && args->named->count))
        rl_jinja_raise(run, RL_INVALID, "test '%.*s' takes %u argument%s", bytes, name->at,
                       test->n_args, test->n_args == 1 ? "" : "s");
    rl_jinja_charge(run, 1);
    if (test->asks_type) rl_jinja_note(run, subject, RL_JINJA_TESTED);
    return test->holds(run, subject, test->n_args ? args->items[0] : rl_value_none());
}
