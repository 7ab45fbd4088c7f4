/* jinja_access.c - value.name, value[index] and value[start:stop:step], by the rules of jinja2's
 * sandbox: an attribute falls back to the item of that name, an item to the attribute, and what is
 * not there is undefined. Attributes that Python has and this interpreter does not are errors, so
 * that they are never mistaken for undefined. */
#include "text/jinja_builtins.h"

#include <string.h>

#include "text/jinja_text.h"

static rl_value bound_method(rl_jinja_run *run, rl_value self, const rl_jinja_method *method)
{
    rl_bound_method *bound = rl_jinja_alloc(run, sizeof *bound);
    *bound = (rl_bound_method){ .self = self, .method = method };
    return (rl_value){ .kind = RL_VALUE_METHOD, .object = bound };
}

static bool is_internal(const rl_string *name)
{
    return name->bytes > 4 && !memcmp(name->at, "__", 2) &&
           !memcmp(name->at + name->bytes - 2, "__", 2);
}

/* Python's getattr: true and *out, or false when there is no such attribute. */
static bool find_attribute(rl_jinja_run *run, rl_value of, const rl_string *name, rl_value *out)
{
    bool unsafe = false;
    if (of.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, of);
    if (is_internal(name))
        rl_jinja_raise(run, RL_UNSUPPORTED, "access to attribute '%.*s' is unsafe",
                       (int)(name->bytes > 100 ? 100 : name->bytes), name->at);
    if (of.kind == RL_VALUE_LOOP) {
        *out = rl_loop_attribute(run, of, name);
        return out->kind != RL_VALUE_MISSING;
    }
    if (of.kind == RL_VALUE_NAMESPACE) {
        rl_value *found = rl_dict_find(of.dict, rl_value_string(name));
        if (!found) return false;
        *out = name->bytes && name->at[0] == '_' ? rl_jinja_undefined_attribute(of, name, true)
                                                 : *found;
        return true;
    }
    const rl_jinja_method *method = rl_jinja_find_method(run, of, name, &unsafe);
    if (unsafe)
        *out = rl_jinja_undefined_attribute(of, name, true);
    else if (method)
        *out = bound_method(run, of, method);
    return method || unsafe;
}

/* Python's of[index]: true and *out, or false for a missing key, an index out of range or a type
 * that cannot be indexed so. */
static bool find_item(rl_jinja_run *run, rl_value of, rl_value index, rl_value *out)
{
    if (of.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, of);
    if (of.kind == RL_VALUE_DICT) {
        if (index.kind == RL_VALUE_LIST && index.list->flavor != RL_LIST_PLAIN)
            rl_jinja_raise(run, RL_UNSUPPORTED, "a %s as a key is not supported",
                           rl_jinja_type(index));
        rl_value *found = rl_value_is_key(index) ? rl_dict_find(of.dict, index) : NULL;
        if (found) *out = *found;
        return found;
    }
    if (!rl_jinja_is_int(index)) return false;
    int64_t at = index.integer, count;
    if (of.kind == RL_VALUE_STRING) {
        rl_jinja_charge(run, of.string->bytes / 64);
        count = (int64_t)rl_string_chars(of.string);
    } else if (of.kind == RL_VALUE_LIST && of.list->flavor <= RL_LIST_RANGE) {
        count = (int64_t)of.list->count;
    } else {
        return false;
    }
    if (at < 0) at += count;
    if (at < 0 || at >= count) return false;
    if (of.kind == RL_VALUE_STRING) {
        *out = rl_jinja_substring(run, of, (size_t)at, (size_t)at + 1);
    } else {
        if (of.mark) of.list->iterated = true;
        *out = of.list->items[at];
    }
    return true;
}

rl_value rl_jinja_attribute(rl_jinja_run *run, rl_value of, const rl_string *name)
{
    rl_value out;
    rl_jinja_note(run, of, RL_JINJA_USED);
    if (find_attribute(run, of, name, &out)) return out;
    if (find_item(run, of, rl_value_string(name), &out)) return out;
    return rl_jinja_undefined_attribute(of, name, false);
}

rl_value rl_jinja_item(rl_jinja_run *run, rl_value of, rl_value index)
{
    rl_value out;
    rl_jinja_note(run, of, RL_JINJA_USED);
    if (find_item(run, of, index, &out)) return out;
    if (index.kind == RL_VALUE_STRING && find_attribute(run, of, index.string, &out)) return out;
    return rl_jinja_undefined_element(of, index);
}

/* ---- slices --------------------------------------------------------------------------------- */

rl_value rl_jinja_substring(rl_jinja_run *run, rl_value of, size_t start, size_t stop)
{
    const rl_string *string = of.string;
    size_t first = rl_text_offset(string, start), last;
    if (rl_string_chars(string) == string->bytes) {
        last = rl_text_offset(string, stop);
    } else {
        rl_string rest = { .at = string->at + first,
                           .bytes = string->bytes - first,
                           .chars = rl_string_chars(string) - start };
        last = first + rl_text_offset(&rest, stop - start);
        rl_jinja_charge(run, string->bytes / 64);
    }
    rl_value out = rl_jinja_string_over(run, string->at + first, last - first);
    out.safe = of.safe;
    return out;
}

/* A bound of a slice, clamped to [low, high] as Python does. */
static int64_t clamp_bound(rl_jinja_run *run, rl_value bound, int64_t count, int64_t low,
                           int64_t high, int64_t fallback)
{
    if (bound.kind == RL_VALUE_MISSING || bound.kind == RL_VALUE_NONE) return fallback;
    if (bound.kind == RL_VALUE_BIGINT) return bound.string->at[0] == '-' ? low : high;
    if (!rl_jinja_is_int(bound))
        rl_jinja_raise(run, RL_INVALID, "slice indices must be integers or None");
    int64_t at = bound.integer;
    if (at < 0) at = at < -count ? -1 : at + count;
    return at < low ? low : at > high ? high : at;
}

/* s[start:stop:step] for a step other than 1: character by character. */
static rl_value pick_characters(rl_jinja_run *run, rl_value of, int64_t start, int64_t n,
                                int64_t step)
{
    const rl_string *string = of.string;
    size_t *offsets = NULL, chars = rl_string_chars(string), filled = 0;
    bool ascii = chars == string->bytes;
    rl_jinja_charge(run, chars);
    if (!ascii) {
        offsets = rl_jinja_alloc(run, (chars + 1) * sizeof *offsets);
        for (size_t i = 0; i < string->bytes; i++)
            if (((unsigned char)string->at[i] & 0xc0) != 0x80) offsets[filled++] = i;
        offsets[filled] = string->bytes;
    }
    char *text = rl_jinja_alloc(run, string->bytes + 1);
    size_t bytes = 0;
    for (int64_t i = 0, at = start; i < n; i++, at += step) {
        size_t first = ascii ? (size_t)at : offsets[at], last = ascii ? first + 1 : offsets[at + 1];
        memcpy(text + bytes, string->at + first, last - first);
        bytes += last - first;
    }
    rl_value out = rl_jinja_string_over(run, text, bytes);
    out.safe = of.safe;
    return out;
}

rl_value rl_jinja_slice(rl_jinja_run *run, rl_value of, rl_value start, rl_value stop,
                        rl_value step)
{
    rl_jinja_note(run, of, RL_JINJA_USED);
    if (of.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, of);
    bool string = of.kind == RL_VALUE_STRING;
    if (!string && (of.kind != RL_VALUE_LIST || of.list->flavor > RL_LIST_RANGE))
        rl_jinja_raise(run, RL_INVALID, "'%s' object is not subscriptable", rl_jinja_type(of));
    int64_t count = string ? (int64_t)rl_string_chars(of.string) : (int64_t)of.list->count;
    int64_t by = 1;
    if (step.kind != RL_VALUE_MISSING && step.kind != RL_VALUE_NONE) {
        if (!rl_jinja_is_int(step))
            rl_jinja_raise(run, RL_INVALID, "slice indices must be integers or None");
        by = step.integer;
    }
    if (by == 0) rl_jinja_raise(run, RL_INVALID, "slice step cannot be zero");
    /* Steps beyond the length all mean "one item". */
    if (by > count + 1) by = count + 1;
    if (by < -count - 1) by = -count - 1;
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? count - 1 : count;
    int64_t first = clamp_bound(run, start, count, low, high, by < 0 ? high : low);
    int64_t last = clamp_bound(run, stop, count, low, high, by < 0 ? low : high);
    int64_t n = by > 0 ? (last - first + by - 1) / by : (first - last - by - 1) / -by;
    if (n < 0) n = 0;
    if (string && by == 1) return rl_jinja_substring(run, of, (size_t)first, (size_t)(first + n));
    if (string) return pick_characters(run, of, first, n, by);
    if (of.mark) of.list->iterated = true;
    rl_jinja_charge(run, (uint64_t)n);
    rl_list *list = rl_jinja_list(run, of.list->flavor, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        rl_jinja_add(run, list, of.list->items[first + i * by]);
    return rl_value_list(list);
}
