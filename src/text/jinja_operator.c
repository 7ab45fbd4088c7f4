/* jinja_operator.c - comparisons and arithmetic with Python's results.
 *
 * Integers are 64 bits wide and never wrap: a result that does not fit is an error, as is any
 * arithmetic with longer ones. Strings marked safe escape what is added to them. */
#include "text/jinja_run.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "text/jinja_text.h"

/* ---- numbers -------------------------------------------------------------------------------- */

static bool is_number(rl_value value)
{
    return rl_jinja_is_int(value) || value.kind == RL_VALUE_FLOAT;
}

static double as_float(rl_value value)
{
    return value.kind == RL_VALUE_FLOAT ? value.real : (double)value.integer;
}

/* An integer against a float, exactly: -1, 0, 1, or 2 when the float is not a number. */
static int compare_int_float(int64_t i, double d)
{
    if (isnan(d)) return 2;
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    int64_t whole = (int64_t)d;
    if (i != whole) return i < whole ? -1 : 1;
    double rest = d - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_floats(double a, double b)
{
    if (isnan(a) || isnan(b)) return 2;
    return (a > b) - (a < b);
}

/* Two integers of which at least one is longer than 64 bits. */
static int compare_big(rl_value a, rl_value b)
{
    const rl_string *x = a.kind == RL_VALUE_BIGINT ? a.string : NULL;
    const rl_string *y = b.kind == RL_VALUE_BIGINT ? b.string : NULL;
    if (!x) return y->at[0] == '-' ? 1 : -1;
    bool negative = x->at[0] == '-';
    if (!y || (y->at[0] == '-') != negative) return negative ? -1 : 1;
    int order =
        x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : memcmp(x->at, y->at, x->bytes);
    order = (order > 0) - (order < 0);
    return negative ? -order : order;
}

/* True when both are numbers; *order is then -1, 0, 1 or 2 (not comparable). */
static bool compare_numbers(rl_jinja_run *run, rl_value a, rl_value b, int *order)
{
    bool big_a = a.kind == RL_VALUE_BIGINT, big_b = b.kind == RL_VALUE_BIGINT;
    if ((!big_a && !is_number(a)) || (!big_b && !is_number(b))) return false;
    if (big_a || big_b) {
        if (a.kind == RL_VALUE_FLOAT || b.kind == RL_VALUE_FLOAT)
            rl_jinja_raise(run, RL_UNSUPPORTED, "comparing a float with an integer beyond 64 bits");
        *order = compare_big(a, b);
    } else if (a.kind == RL_VALUE_FLOAT && b.kind == RL_VALUE_FLOAT) {
        *order = compare_floats(a.real, b.real);
    } else if (a.kind == RL_VALUE_FLOAT) {
        int reversed = compare_int_float(b.integer, a.real);
        *order = reversed == 2 ? 2 : -reversed;
    } else if (b.kind == RL_VALUE_FLOAT) {
        *order = compare_int_float(a.integer, b.real);
    } else {
        *order = (a.integer > b.integer) - (a.integer < b.integer);
    }
    return true;
}

/* ---- equality and order --------------------------------------------------------------------- */

static int compare_strings(const rl_string *a, const rl_string *b)
{
    int order = memcmp(a->at, b->at, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool equal_lists(rl_jinja_run *run, const rl_list *a, const rl_list *b)
{
    if (a == b) return true;
    if (a->flavor != b->flavor) return false;
    if (a->flavor > RL_LIST_RANGE)
        rl_jinja_raise(run, RL_UNSUPPORTED, "comparing dict views or generators");
    if (a->count != b->count) return false;
    rl_jinja_enter(run);
    bool equal = true;
    for (size_t i = 0; i < a->count && equal; i++)
        equal = rl_jinja_equal(run, a->items[i], b->items[i]);
    rl_jinja_leave(run);
    return equal;
}

static bool equal_dicts(rl_jinja_run *run, const rl_dict *a, const rl_dict *b)
{
    if (a == b) return true;
    if (a->count != b->count) return false;
    rl_jinja_enter(run);
    bool equal = true;
    for (size_t i = 0; i < a->count && equal; i++) {
        const rl_value *other = rl_dict_find(b, a->pairs[i].key);
        equal = other && rl_jinja_equal(run, a->pairs[i].value, *other);
    }
    rl_jinja_leave(run);
    return equal;
}

bool rl_jinja_equal(rl_jinja_run *run, rl_value a, rl_value b)
{
    int order;
    rl_jinja_charge(run, 1);
    if (a.kind == RL_VALUE_STRING && b.kind == RL_VALUE_STRING) {
        rl_jinja_charge(run, a.string->bytes == b.string->bytes ? a.string->bytes / 64 : 0);
        return rl_string_equal(a.string, b.string);
    }
    if (compare_numbers(run, a, b, &order)) return order == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case RL_VALUE_UNDEFINED:
    case RL_VALUE_NONE: return true;
    case RL_VALUE_LIST: return equal_lists(run, a.list, b.list);
    case RL_VALUE_DICT: return equal_dicts(run, a.dict, b.dict);
    default: return a.object == b.object;
    }
}

static const char *sign_of(rl_jinja_operator op)
{
    return rl_jinja_operator_text(op);
}

/* Whether `a op b` for an ordering operator. */
static bool ordered(rl_jinja_operator op, int order)
{
    switch (op) {
    case RL_OP_LT: return order == -1;
    case RL_OP_LE: return order == -1 || order == 0;
    case RL_OP_GT: return order == 1;
    default: return order == 1 || order == 0;
    }
}

static bool compare_lists(rl_jinja_run *run, rl_jinja_operator op, const rl_list *a,
                          const rl_list *b)
{
    rl_jinja_enter(run);
    size_t i = 0, n = a->count < b->count ? a->count : b->count;
    while (i < n && rl_jinja_equal(run, a->items[i], b->items[i]))
        i++;
    bool result = i < n ? rl_jinja_compare(run, op, a->items[i], b->items[i])
                        : ordered(op, (a->count > b->count) - (a->count < b->count));
    rl_jinja_leave(run);
    return result;
}

bool rl_jinja_compare(rl_jinja_run *run, rl_jinja_operator op, rl_value a, rl_value b)
{
    int order;
    rl_jinja_note(run, a, RL_JINJA_USED);
    rl_jinja_note(run, b, RL_JINJA_USED);
    if (op == RL_OP_EQ) return rl_jinja_equal(run, a, b);
    if (op == RL_OP_NE) return !rl_jinja_equal(run, a, b);
    if (op == RL_OP_IN) return rl_jinja_contains(run, b, a);
    if (op == RL_OP_NOT_IN) return !rl_jinja_contains(run, b, a);

    rl_jinja_charge(run, 1);
    if (compare_numbers(run, a, b, &order)) return ordered(op, order);
    if (a.kind == RL_VALUE_STRING && b.kind == RL_VALUE_STRING) {
        rl_jinja_charge(run, (a.string->bytes + b.string->bytes) / 64);
        order = compare_strings(a.string, b.string);
        return ordered(op, (order > 0) - (order < 0));
    }
    if (a.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, a);
    if (b.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, b);
    if (a.kind == RL_VALUE_LIST && b.kind == RL_VALUE_LIST && a.list->flavor == b.list->flavor) {
        if (a.list->flavor <= RL_LIST_TUPLE) return compare_lists(run, op, a.list, b.list);
        if (a.list->flavor == RL_LIST_KEYS || a.list->flavor == RL_LIST_ITEMS)
            rl_jinja_raise(run, RL_UNSUPPORTED, "comparing dict views");
    }
    rl_jinja_raise(run, RL_INVALID, "'%s' not supported between instances of '%s' and '%s'",
                   sign_of(op), rl_jinja_type(a), rl_jinja_type(b));
}

bool rl_jinja_less(rl_jinja_run *run, rl_value a, rl_value b)
{
    return rl_jinja_compare(run, RL_OP_LT, a, b);
}

bool rl_jinja_contains(rl_jinja_run *run, rl_value container, rl_value item)
{
    if (container.kind == RL_VALUE_STRING) {
        if (item.kind != RL_VALUE_STRING)
            rl_jinja_raise(run, RL_INVALID, "'in <string>' requires string as left operand, not %s",
                           rl_jinja_type(item));
        rl_jinja_charge(run, container.string->bytes / 64);
        return rl_text_find(container.string->at, container.string->bytes, item.string->at,
                            item.string->bytes) != SIZE_MAX;
    }
    if (container.kind == RL_VALUE_DICT) {
        if (!rl_value_is_key(item))
            rl_jinja_raise(run, RL_INVALID, "unhashable type: '%s'", rl_jinja_type(item));
        return rl_dict_find(container.dict, item);
    }
    if (container.kind == RL_VALUE_LOOP) rl_jinja_raise(run, RL_UNSUPPORTED, "searching in `loop`");
    if (container.kind != RL_VALUE_LIST && container.kind != RL_VALUE_UNDEFINED)
        rl_jinja_raise(run, RL_INVALID, "argument of type '%s' is not iterable",
                       rl_jinja_type(container));
    bool generator = rl_jinja_is_list(container, RL_LIST_GENERATOR);
    size_t first = generator ? container.list->next : 0;
    const rl_list *list = rl_jinja_items(run, container);
    for (size_t i = 0; i < list->count; i++) {
        if (!rl_jinja_equal(run, list->items[i], item)) continue;
        if (generator) container.list->next = first + i + 1; /* the rest is still to come */
        return true;
    }
    return false;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static _Noreturn void too_long(rl_jinja_run *run)
{
    rl_jinja_raise(run, RL_UNSUPPORTED, "arithmetic with integers beyond 64 bits");
}

static _Noreturn void no_operation(rl_jinja_run *run, rl_jinja_operator op, rl_value a, rl_value b)
{
    if (a.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, a);
    if (b.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, b);
    if (op == RL_OP_ADD && (a.kind == RL_VALUE_STRING || rl_jinja_is_list(a, RL_LIST_PLAIN) ||
                            rl_jinja_is_list(a, RL_LIST_TUPLE)))
        rl_jinja_raise(run, RL_INVALID, "can only concatenate %s (not \"%s\") to %s",
                       rl_jinja_type(a), rl_jinja_type(b), rl_jinja_type(a));
    rl_jinja_raise(run, RL_INVALID, "unsupported operand type(s) for %s: '%s' and '%s'",
                   sign_of(op), rl_jinja_type(a), rl_jinja_type(b));
}

/* a / b correctly rounded, as Python divides integers: a quotient of more than 53 bits with a
 * sticky bit, rounded once. */
static double divide_ints(int64_t a, int64_t b)
{
    const int64_t exact = INT64_C(1) << 53;
    if (a >= -exact && a <= exact && b >= -exact && b <= exact) return (double)a / (double)b;
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    if (!x) return 0.0;
    int shift = 63 + __builtin_clzll(x);
    unsigned __int128 numerator = (unsigned __int128)x << shift, quotient = numerator / y;
    quotient |= numerator % y != 0;
    double result = ldexp((double)quotient, -shift);
    return (a < 0) != (b < 0) ? -result : result;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return a % b && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static rl_value power_of_ints(rl_jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0) {
        if (!base) rl_jinja_raise(run, RL_INVALID, "0.0 cannot be raised to a negative power");
        return rl_value_float(pow((double)base, (double)exponent));
    }
    if (base == 0 || base == 1) return rl_value_int(exponent ? base : 1);
    if (base == -1) return rl_value_int(exponent & 1 ? -1 : 1);
    for (; exponent; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) too_long(run);
    return rl_value_int(result);
}

static rl_value ints(rl_jinja_run *run, rl_jinja_operator op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if ((op == RL_OP_DIV || op == RL_OP_FLOORDIV || op == RL_OP_MOD) && !b)
        rl_jinja_raise(run, RL_INVALID, "division by zero");
    switch (op) {
    case RL_OP_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case RL_OP_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case RL_OP_MUL: overflow = __builtin_mul_overflow(a, b, &result); break;
    case RL_OP_DIV: return rl_value_float(divide_ints(a, b));
    case RL_OP_FLOORDIV:
        overflow = a == INT64_MIN && b == -1;
        if (!overflow) result = floor_divide(a, b);
        break;
    case RL_OP_MOD: /* has the sign of b */
        result = b == -1 ? 0 : a % b;
        if (result && (result < 0) != (b < 0)) result += b;
        break;
    default: return power_of_ints(run, a, b);
    }
    if (overflow) too_long(run);
    return rl_value_int(result);
}

/* Python's float %, and the // that goes with it. */
static double float_mod(double a, double b, double *quotient)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0.0, b);
    }
    if (div != 0) {
        *quotient = floor(div);
        if (div - *quotient > 0.5) *quotient += 1;
    } else {
        *quotient = copysign(0.0, a / b);
    }
    return mod;
}

static double float_power(rl_jinja_run *run, double a, double b)
{
    if (a == 0 && b < 0)
        rl_jinja_raise(run, RL_INVALID, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        rl_jinja_raise(run, RL_UNSUPPORTED, "complex numbers");
    double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b))
        rl_jinja_raise(run, RL_INVALID, "numerical result out of range");
    return result;
}

static rl_value floats(rl_jinja_run *run, rl_jinja_operator op, double a, double b)
{
    double quotient;
    if ((op == RL_OP_DIV || op == RL_OP_FLOORDIV || op == RL_OP_MOD) && b == 0)
        rl_jinja_raise(run, RL_INVALID, "float division by zero");
    switch (op) {
    case RL_OP_ADD: return rl_value_float(a + b);
    case RL_OP_SUB: return rl_value_float(a - b);
    case RL_OP_MUL: return rl_value_float(a * b);
    case RL_OP_DIV: return rl_value_float(a / b);
    case RL_OP_MOD: return rl_value_float(float_mod(a, b, &quotient));
    case RL_OP_FLOORDIV: float_mod(a, b, &quotient); return rl_value_float(quotient);
    default: return rl_value_float(float_power(run, a, b));
    }
}

static rl_value join_strings(rl_jinja_run *run, rl_value a, rl_value b)
{
    bool safe = a.safe || b.safe;
    if (safe) {
        a = rl_jinja_escape(run, a);
        b = rl_jinja_escape(run, b);
    }
    rl_jinja_charge(run, b.string->bytes / 64);
    const rl_string *sum = rl_string_join(run->arena, a.string, b.string);
    if (!sum) rl_jinja_out_of_memory(run);
    rl_value out = rl_value_string(sum);
    out.safe = safe;
    return out;
}

static rl_value join_lists(rl_jinja_run *run, const rl_list *a, const rl_list *b)
{
    rl_list *list = rl_jinja_list(run, a->flavor, a->count + b->count);
    rl_jinja_charge(run, a->count + b->count);
    if (a->count) memcpy(list->items, a->items, a->count * sizeof *a->items);
    if (b->count) memcpy(list->items + a->count, b->items, b->count * sizeof *b->items);
    list->count = a->count + b->count;
    return rl_value_list(list);
}

static rl_value repeat(rl_jinja_run *run, rl_value of, int64_t times)
{
    size_t n = times < 0 ? 0 : (size_t)times, total;
    if (of.kind == RL_VALUE_STRING) {
        size_t bytes = of.string->bytes;
        if (__builtin_mul_overflow(n, bytes, &total)) total = SIZE_MAX / 4;
        rl_jinja_charge(run, total / 64);
        char *text = rl_jinja_alloc(run, total);
        for (size_t at = 0; at < total; at += bytes)
            memcpy(text + at, of.string->at, bytes);
        rl_value out = rl_jinja_string_over(run, text, total);
        out.safe = of.safe;
        return out;
    }
    size_t count = of.list->count;
    if (__builtin_mul_overflow(n, count, &total)) total = SIZE_MAX / 4;
    rl_jinja_charge(run, total);
    rl_list *list = rl_jinja_list(run, of.list->flavor, total);
    for (size_t at = 0; at < total; at += count)
        memcpy(list->items + at, of.list->items, count * sizeof *list->items);
    list->count = total;
    return rl_value_list(list);
}

static bool is_repeatable(rl_value value)
{
    return value.kind == RL_VALUE_STRING ||
           (value.kind == RL_VALUE_LIST && value.list->flavor <= RL_LIST_TUPLE);
}

rl_value rl_jinja_binary(rl_jinja_run *run, rl_jinja_operator op, rl_value a, rl_value b)
{
    rl_jinja_note(run, a, RL_JINJA_USED);
    rl_jinja_note(run, b, RL_JINJA_USED);
    if (a.kind == RL_VALUE_STRING && b.kind == RL_VALUE_STRING && op == RL_OP_ADD)
        return join_strings(run, a, b);
    if (rl_jinja_is_int(a) && rl_jinja_is_int(b)) return ints(run, op, a.integer, b.integer);
    if (is_number(a) && is_number(b)) return floats(run, op, as_float(a), as_float(b));
    if ((a.kind == RL_VALUE_BIGINT && (is_number(b) || b.kind == RL_VALUE_BIGINT)) ||
        (b.kind == RL_VALUE_BIGINT && is_number(a)))
        too_long(run);
    if (op == RL_OP_ADD && a.kind == RL_VALUE_LIST && b.kind == RL_VALUE_LIST &&
        a.list->flavor == b.list->flavor && a.list->flavor <= RL_LIST_TUPLE)
        return join_lists(run, a.list, b.list);
    if (op == RL_OP_MUL && is_repeatable(a) && rl_jinja_is_int(b)) return repeat(run, a, b.integer);
    if (op == RL_OP_MUL && is_repeatable(b) && rl_jinja_is_int(a)) return repeat(run, b, a.integer);
    if (op == RL_OP_MOD && a.kind == RL_VALUE_STRING) return rl_jinja_format(run, a, b);
    no_operation(run, op, a, b);
}

rl_value rl_jinja_negate(rl_jinja_run *run, rl_value value, bool minus)
{
    rl_jinja_note(run, value, RL_JINJA_USED);
    if (value.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, value);
    if (value.kind == RL_VALUE_FLOAT) return rl_value_float(minus ? -value.real : value.real);
    if (value.kind == RL_VALUE_BIGINT && !minus) return value;
    if (value.kind == RL_VALUE_BIGINT ||
        (minus && rl_jinja_is_int(value) && value.integer == INT64_MIN))
        too_long(run);
    if (!rl_jinja_is_int(value))
        rl_jinja_raise(run, RL_INVALID, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                       rl_jinja_type(value));
    return rl_value_int(minus ? -value.integer : value.integer);
}
