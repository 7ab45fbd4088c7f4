/* jinja_methods.c - the methods of lists and dicts, and which attributes of which value exist.
 *
 * The methods of strings are in jinja_string.c. What Python has and this does not is listed too:
 * such an attribute is an error and never taken for undefined. */
#include "text/jinja_methods.h"

#include <string.h>

#include "base/bytes.h"

/* ---- dict ----------------------------------------------------------------------------------- */

static rl_value dict_get(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    if (!rl_value_is_key(args[0]))
        rl_jinja_raise(run, RL_INVALID, "unhashable type: '%s'", rl_jinja_type(args[0]));
    const rl_value *found = rl_dict_find(self.dict, args[0]);
    if (found) return *found;
    return args[1].kind == RL_VALUE_MISSING ? rl_value_none() : args[1];
}

static rl_value dict_keys(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    rl_list *list = rl_jinja_items(run, self);
    list->flavor = RL_LIST_KEYS;
    return rl_value_list(list);
}

static rl_value dict_values(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    rl_list *list = rl_jinja_list(run, RL_LIST_VALUES, self.dict->count);
    rl_jinja_charge(run, self.dict->count);
    for (size_t i = 0; i < self.dict->count; i++)
        rl_jinja_add(run, list, self.dict->pairs[i].value);
    return rl_value_list(list);
}

rl_value rl_jinja_dict_items(rl_jinja_run *run, const rl_dict *dict, rl_list_flavor flavor)
{
    rl_list *list = rl_jinja_list(run, flavor, dict->count);
    rl_jinja_charge(run, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        rl_jinja_add(run, list, rl_jinja_pair(run, dict->pairs[i].key, dict->pairs[i].value));
    return rl_value_list(list);
}

static rl_value dict_items(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    return rl_jinja_dict_items(run, self.dict, RL_LIST_ITEMS);
}

static rl_value dict_copy(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    rl_dict *copy = rl_dict_create(run->arena, self.dict->count);
    if (!copy) rl_jinja_out_of_memory(run);
    rl_jinja_charge(run, self.dict->count);
    for (size_t i = 0; i < self.dict->count; i++)
        rl_jinja_set_key(run, copy, self.dict->pairs[i].key, self.dict->pairs[i].value);
    return rl_value_dict(copy);
}

static const rl_jinja_method dict_methods[] = {
    { "get", "/key default", 1, dict_get, RL_MARKUP_PLAIN },
    { "items", "", 0, dict_items, RL_MARKUP_PLAIN },
    { "keys", "", 0, dict_keys, RL_MARKUP_PLAIN },
    { "values", "", 0, dict_values, RL_MARKUP_PLAIN },
    { "copy", "", 0, dict_copy, RL_MARKUP_PLAIN },
    { 0 },
};

/* ---- list and tuple ------------------------------------------------------------------------- */

static rl_value list_count(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.list->count; i++)
        n += rl_jinja_equal(run, self.list->items[i], args[0]);
    return rl_value_int(n);
}

static rl_value list_index(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    int64_t count = (int64_t)self.list->count;
    int64_t start = rl_jinja_int_arg(run, args[1], 0), stop = rl_jinja_int_arg(run, args[2], count);
    if (start < 0) start = start + count < 0 ? 0 : start + count;
    if (stop < 0) stop += count;
    for (int64_t i = start; i < stop && i < count; i++)
        if (rl_jinja_equal(run, self.list->items[i], args[0])) return rl_value_int(i);
    rl_jinja_raise(run, RL_INVALID, "the value is not in the %s", rl_jinja_type(self));
}

static rl_value list_copy(rl_jinja_run *run, rl_value self, const rl_value *args)
{
    (void)args;
    rl_value none = { 0 };
    return rl_jinja_slice(run, self, none, none, none);
}

static const rl_jinja_method list_methods[] = {
    { "count", "/value", 1, list_count, RL_MARKUP_PLAIN },
    { "index", "/value start stop", 1, list_index, RL_MARKUP_PLAIN },
    { "copy", "", 0, list_copy, RL_MARKUP_PLAIN }, /* not of tuples: see find_in below */
    { 0 },
};

/* ---- which attributes there are ------------------------------------------------------------- */

/* Names with blanks around each. */
static const char dict_unsafe[] = " clear pop popitem setdefault update ";
static const char list_unsafe[] = " append extend insert remove reverse sort ";
static const char dict_other[] = " fromkeys ";
static const char list_other[] = " pop clear "; /* jinja2 3.1 forgets to forbid these two */
static const char string_other[] =
    " casefold encode expandtabs format_map isidentifier isprintable "
    "isnumeric isdigit maketrans swapcase translate unescape "
    "striptags ";
static const char number_other[] =
    " real imag numerator denominator conjugate bit_length bit_count "
    "as_integer_ratio to_bytes from_bytes is_integer hex fromhex ";
static const char other_other[] = " start stop step index count mapping isdisjoint name arguments "
                                  "catch_kwargs catch_varargs caller send throw close gi_running ";

static bool lists(const char *words, const rl_string *name)
{
    for (const char *at = words; (at = strstr(at, " ")) != NULL && at[1];) {
        at++;
        size_t bytes = strcspn(at, " ");
        if (bytes == name->bytes && !memcmp(at, name->at, bytes)) return true;
    }
    return false;
}

static const rl_jinja_method *find_in(const rl_jinja_method *methods, const rl_string *name)
{
    for (; methods->name; methods++)
        if (rl_string_is(name, methods->name)) return methods;
    return NULL;
}

const rl_jinja_method *rl_jinja_find_method(rl_jinja_run *run, rl_value of, const rl_string *name,
                                            bool *unsafe)
{
    const rl_jinja_method *method = NULL;
    const char *other = other_other;
    bool plain = rl_jinja_is_list(of, RL_LIST_PLAIN), tuple = rl_jinja_is_list(of, RL_LIST_TUPLE);
    *unsafe = false;
    switch (of.kind) {
    case RL_VALUE_NONE:
    case RL_VALUE_UNDEFINED:
    case RL_VALUE_METHOD:
    case RL_VALUE_FUNCTION: return NULL;
    case RL_VALUE_BOOL:
    case RL_VALUE_INT:
    case RL_VALUE_BIGINT:
    case RL_VALUE_FLOAT: other = number_other; break;
    case RL_VALUE_STRING:
        method = find_in(rl_jinja_string_methods, name);
        other = string_other;
        break;
    case RL_VALUE_DICT:
        method = find_in(dict_methods, name);
        *unsafe = lists(dict_unsafe, name);
        other = dict_other;
        break;
    case RL_VALUE_LIST:
        if (!plain && !tuple) break;
        method = find_in(list_methods, name);
        if (tuple && method && method->call == list_copy) method = NULL;
        *unsafe = plain && lists(list_unsafe, name);
        other = plain ? list_other : "";
        break;
    default: break;
    }
    if (!method && !*unsafe && lists(other, name))
        rl_jinja_raise(run, RL_UNSUPPORTED, "attribute '%.*s' of a %s is not supported",
                       (int)name->bytes, name->at, rl_jinja_type(of));
    return method;
}
