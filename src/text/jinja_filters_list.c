/* jinja_filters_list.c - the filters that work on the items of a value.
 *
 * Where Python gives a generator, so does this: it can be gone through once, has no length and is
 * always true. It is computed at once, though; only a template that changes a namespace meanwhile
 * could tell. */
#include "text/jinja_methods.h"

#include <string.h>

static rl_value generator(rl_list *list)
{
    list->flavor = RL_LIST_GENERATOR;
    return rl_value_list(list);
}

/* A generator over items that may belong to somebody else. */
static rl_value generator_over(rl_jinja_run *run, const rl_list *items)
{
    rl_list *list = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    list->items = items->items;
    list->count = list->capacity = items->count;
    return rl_value_list(list);
}

/* ---- attributes of items -------------------------------------------------------------------- */

/* A path like "address.city" or "0.name"; nothing for NONE. */
typedef struct attribute_path {
    rl_value parts[16];
    size_t count;
} attribute_path;

static void add_part(rl_jinja_run *run, attribute_path *path, const char *text, size_t bytes)
{
    bool digits = bytes > 0;
    for (size_t i = 0; i < bytes; i++)
        digits &= text[i] >= '0' && text[i] <= '9';
    if (path->count == sizeof path->parts / sizeof path->parts[0] || (digits && bytes > 9))
        rl_jinja_raise(run, RL_UNSUPPORTED, "an attribute path of that length");
    if (!digits) {
        path->parts[path->count++] = rl_jinja_string_over(run, text, bytes);
        return;
    }
    int64_t index = 0;
    for (size_t i = 0; i < bytes; i++)
        index = index * 10 + (text[i] - '0');
    path->parts[path->count++] = rl_value_int(index);
}

static void read_path(rl_jinja_run *run, attribute_path *path, const char *text, size_t bytes)
{
    path->count = 0;
    for (size_t first = 0, at = 0; at <= bytes; at++) {
        if (at < bytes && text[at] != '.') continue;
        add_part(run, path, text + first, at - first);
        first = at + 1;
    }
}

static void make_path(rl_jinja_run *run, attribute_path *path, rl_value attribute)
{
    path->count = 0;
    if (attribute.kind == RL_VALUE_MISSING || attribute.kind == RL_VALUE_NONE) return;
    if (attribute.kind == RL_VALUE_STRING)
        read_path(run, path, attribute.string->at, attribute.string->bytes);
    else
        path->parts[path->count++] = attribute;
}

static rl_value follow(rl_jinja_run *run, const attribute_path *path, rl_value item,
                       rl_value fallback)
{
    rl_jinja_charge(run, 1);
    for (size_t i = 0; i < path->count; i++) {
        item = rl_jinja_item(run, item, path->parts[i]);
        if (item.kind == RL_VALUE_UNDEFINED && fallback.kind != RL_VALUE_MISSING &&
            fallback.kind != RL_VALUE_NONE)
            item = fallback;
    }
    return item;
}

static rl_value fold_case(rl_jinja_run *run, rl_value value, bool case_sensitive)
{
    if (case_sensitive || value.kind != RL_VALUE_STRING) return value;
    return rl_jinja_change_case(run, value, RL_CASE_LOWER);
}

/* ---- pieces of a sequence ------------------------------------------------------------------- */

static rl_value filter_length(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    return rl_value_int(rl_jinja_length(run, subject));
}

static rl_value filter_list(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_value list = generator_over(run, rl_jinja_items(run, subject));
    list.list->flavor = RL_LIST_PLAIN;
    return list;
}

static rl_value filter_first(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    if (rl_jinja_is_list(subject, RL_LIST_GENERATOR)) {
        rl_list *list = subject.list;
        if (list->next < list->count) return list->items[list->next++];
    } else if (subject.kind == RL_VALUE_STRING) {
        if (subject.string->bytes) return rl_jinja_item(run, subject, rl_value_int(0));
    } else {
        const rl_list *items = rl_jinja_items(run, subject);
        if (items->count) return items->items[0];
    }
    return rl_jinja_undefined_saying("no first item, sequence was empty");
}

static rl_value filter_last(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    if (rl_jinja_is_list(subject, RL_LIST_GENERATOR))
        rl_jinja_raise(run, RL_INVALID, "'generator' object is not reversible");
    if (subject.kind == RL_VALUE_STRING) {
        if (subject.string->bytes) return rl_jinja_item(run, subject, rl_value_int(-1));
    } else {
        const rl_list *items = rl_jinja_items(run, subject);
        if (items->count) return items->items[items->count - 1];
    }
    return rl_jinja_undefined_saying("no last item, sequence was empty");
}

static rl_value filter_reverse(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_value none = { 0 };
    if (subject.kind == RL_VALUE_STRING)
        return rl_jinja_slice(run, subject, none, none, rl_value_int(-1));
    bool plain = rl_jinja_is_list(subject, RL_LIST_GENERATOR);
    const rl_list *items = rl_jinja_items(run, subject);
    rl_list *list = rl_jinja_list(run, plain ? RL_LIST_PLAIN : RL_LIST_GENERATOR, items->count);
    rl_jinja_charge(run, items->count);
    for (size_t i = items->count; i > 0; i--)
        rl_jinja_add(run, list, items->items[i - 1]);
    return rl_value_list(list);
}

static rl_value filter_items(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    (void)args;
    rl_jinja_note(run, subject, RL_JINJA_USED);
    if (subject.kind == RL_VALUE_UNDEFINED)
        return rl_value_list(rl_jinja_list(run, RL_LIST_GENERATOR, 0));
    if (subject.kind != RL_VALUE_DICT)
        rl_jinja_raise(run, RL_INVALID, "can only get item pairs from a mapping, not from %s",
                       rl_jinja_type(subject));
    return rl_jinja_dict_items(run, subject.dict, RL_LIST_GENERATOR);
}

static rl_value filter_slice(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    const rl_list *items = rl_jinja_items(run, subject);
    int64_t slices = rl_jinja_int_arg(run, args[0], 0), count = (int64_t)items->count, offset = 0;
    bool fill = args[1].kind != RL_VALUE_MISSING && args[1].kind != RL_VALUE_NONE;
    if (!slices) rl_jinja_raise(run, RL_INVALID, "integer division or modulo by zero");
    rl_list *out = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    for (int64_t i = 0; i < slices; i++) {
        rl_jinja_charge(run, 1);
        int64_t start = offset + i * (count / slices);
        if (i < count % slices) offset++;
        int64_t end = offset + (i + 1) * (count / slices);
        rl_list *part = rl_jinja_list(run, RL_LIST_PLAIN, 0);
        for (int64_t at = start; at < end; at++)
            rl_jinja_add(run, part, items->items[at]);
        if (fill && i >= count % slices) rl_jinja_add(run, part, args[1]);
        rl_jinja_add(run, out, rl_value_list(part));
    }
    return rl_value_list(out);
}

static rl_value filter_batch(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    const rl_list *items = rl_jinja_items(run, subject);
    int64_t size = rl_jinja_int_arg(run, args[0], 0);
    bool fill = args[1].kind != RL_VALUE_MISSING && args[1].kind != RL_VALUE_NONE;
    rl_list *out = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    rl_list *part = rl_jinja_list(run, RL_LIST_PLAIN, 0);
    for (size_t i = 0; i < items->count; i++) {
        rl_jinja_charge(run, 1);
        if ((int64_t)part->count == size) {
            rl_jinja_add(run, out, rl_value_list(part));
            part = rl_jinja_list(run, RL_LIST_PLAIN, 0);
        }
        rl_jinja_add(run, part, items->items[i]);
    }
    if (!part->count) return rl_value_list(out);
    while (fill && (int64_t)part->count < size) {
        rl_jinja_charge(run, 1);
        rl_jinja_add(run, part, args[1]);
    }
    rl_jinja_add(run, out, rl_value_list(part));
    return rl_value_list(out);
}

/* ---- joining and adding up ------------------------------------------------------------------ */

static rl_value filter_join(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    attribute_path path;
    rl_value none = { 0 };
    rl_value by =
        args[0].kind == RL_VALUE_MISSING ? rl_jinja_string(run, "", 0) : rl_jinja_str(run, args[0]);
    const rl_list *items = rl_jinja_items(run, subject);
    make_path(run, &path, args[1]);
    size_t begin = run->out.bytes;
    for (size_t i = 0; i < items->count; i++) {
        if (i) rl_jinja_emit(run, by.string->at, by.string->bytes);
        rl_value item = follow(run, &path, items->items[i], none);
        rl_jinja_emit_str(run, item);
    }
    return rl_jinja_captured(run, begin);
}

static rl_value filter_sum(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    attribute_path path;
    rl_value none = { 0 };
    rl_value sum = args[1].kind == RL_VALUE_MISSING ? rl_value_int(0) : args[1];
    if (sum.kind == RL_VALUE_STRING)
        rl_jinja_raise(run, RL_INVALID, "sum() can't sum strings [use ''.join(seq) instead]");
    const rl_list *items = rl_jinja_items(run, subject);
    make_path(run, &path, args[0]);
    for (size_t i = 0; i < items->count; i++)
        sum = rl_jinja_binary(run, RL_OP_ADD, sum, follow(run, &path, items->items[i], none));
    return sum;
}

static rl_value extreme(rl_jinja_run *run, rl_value subject, const rl_value *args,
                        rl_jinja_operator op)
{
    attribute_path path;
    rl_value none = { 0 }, best = none, best_key = none;
    bool case_sensitive = rl_jinja_bool_arg(args[0], false);
    const rl_list *items = rl_jinja_items(run, subject);
    make_path(run, &path, args[1]);
    for (size_t i = 0; i < items->count; i++) {
        rl_value key = fold_case(run, follow(run, &path, items->items[i], none), case_sensitive);
        if (i && !rl_jinja_compare(run, op, key, best_key)) continue;
        best = items->items[i];
        best_key = key;
    }
    return items->count ? best
                        : rl_jinja_undefined_saying("no aggregated item, sequence was empty");
}

static rl_value filter_min(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    return extreme(run, subject, args, RL_OP_LT);
}

static rl_value filter_max(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    return extreme(run, subject, args, RL_OP_GT);
}

/* ---- sorting -------------------------------------------------------------------------------- */

typedef struct sort_entry {
    rl_value key, item;
} sort_entry;

/* Stable merge sort, bottom up; `reverse` sorts downwards and keeps equal ones in their order. */
static void sort_entries(rl_jinja_run *run, sort_entry *entries, size_t count, bool reverse)
{
    sort_entry *other = rl_jinja_alloc(run, (count + 1) * sizeof *other), *from = entries;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = first + width < count ? first + width : count;
            size_t end = first + 2 * width < count ? first + 2 * width : count;
            size_t left = first, right = middle;
            for (size_t at = first; at < end; at++) {
                bool take_right = left == middle ||
                                  (right < end &&
                                   (reverse ? rl_jinja_less(run, from[left].key, from[right].key)
                                            : rl_jinja_less(run, from[right].key, from[left].key)));
                other[at] = take_right ? from[right++] : from[left++];
            }
        }
        sort_entry *swap = from;
        from = other;
        other = swap;
    }
    if (from != entries) memcpy(entries, from, count * sizeof *entries);
}

/* The sort key of an item: the values of all attributes of "a,b.c", as a list. */
static rl_value sort_key(rl_jinja_run *run, const attribute_path *paths, size_t n_paths,
                         rl_value item, bool case_sensitive)
{
    rl_value none = { 0 };
    rl_list *key = rl_jinja_list(run, RL_LIST_PLAIN, n_paths);
    for (size_t i = 0; i < n_paths; i++)
        rl_jinja_add(run, key, fold_case(run, follow(run, &paths[i], item, none), case_sensitive));
    return rl_value_list(key);
}

static rl_value filter_sort(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    enum { MOST_PATHS = 8 };
    bool reverse = rl_jinja_bool_arg(args[0], false);
    bool case_sensitive = rl_jinja_bool_arg(args[1], false);
    const rl_list *items = rl_jinja_items(run, subject);
    attribute_path *paths = rl_jinja_alloc(run, MOST_PATHS * sizeof *paths);
    size_t n_paths = 0;
    if (args[2].kind == RL_VALUE_STRING) {
        const rl_string *text = args[2].string;
        for (size_t first = 0, at = 0; at <= text->bytes; at++) {
            if (at < text->bytes && text->at[at] != ',') continue;
            if (n_paths == MOST_PATHS)
                rl_jinja_raise(run, RL_UNSUPPORTED, "sorting by more than %d attributes",
                               MOST_PATHS);
            read_path(run, &paths[n_paths++], text->at + first, at - first);
            first = at + 1;
        }
    } else {
        make_path(run, &paths[n_paths++], args[2]);
    }
    sort_entry *entries = rl_jinja_alloc(run, (items->count + 1) * sizeof *entries);
    for (size_t i = 0; i < items->count; i++)
        entries[i] = (sort_entry){ sort_key(run, paths, n_paths, items->items[i], case_sensitive),
                                   items->items[i] };
    sort_entries(run, entries, items->count, reverse);
    rl_list *out = rl_jinja_list(run, RL_LIST_PLAIN, items->count);
    for (size_t i = 0; i < items->count; i++)
        rl_jinja_add(run, out, entries[i].item);
    return rl_value_list(out);
}

static rl_value filter_dictsort(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    bool case_sensitive = rl_jinja_bool_arg(args[0], false);
    bool reverse = rl_jinja_bool_arg(args[2], false), by_value = false;
    if (args[1].kind != RL_VALUE_MISSING) {
        const rl_string *by = rl_jinja_string_arg(run, args[1], "what to sort by");
        by_value = rl_string_is(by, "value");
        if (!by_value && !rl_string_is(by, "key"))
            rl_jinja_raise(run, RL_INVALID, "you can only sort by either \"key\" or \"value\"");
    }
    rl_jinja_note(run, subject, RL_JINJA_USED);
    if (subject.kind == RL_VALUE_UNDEFINED) rl_jinja_raise_undefined(run, subject);
    if (subject.kind != RL_VALUE_DICT)
        rl_jinja_raise(run, RL_INVALID, "'%s' object has no attribute 'items'",
                       rl_jinja_type(subject));
    const rl_dict *dict = subject.dict;
    sort_entry *entries = rl_jinja_alloc(run, (dict->count + 1) * sizeof *entries);
    for (size_t i = 0; i < dict->count; i++) {
        rl_value key = by_value ? dict->pairs[i].value : dict->pairs[i].key;
        entries[i] = (sort_entry){ fold_case(run, key, case_sensitive),
                                   rl_jinja_pair(run, dict->pairs[i].key, dict->pairs[i].value) };
    }
    sort_entries(run, entries, dict->count, reverse);
    rl_list *out = rl_jinja_list(run, RL_LIST_PLAIN, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        rl_jinja_add(run, out, entries[i].item);
    return rl_value_list(out);
}

static rl_value filter_unique(rl_jinja_run *run, rl_value subject, const rl_value *args)
{
    attribute_path path;
    rl_value none = { 0 };
    bool case_sensitive = rl_jinja_bool_arg(args[0], false);
    const rl_list *items = rl_jinja_items(run, subject);
    make_path(run, &path, args[1]);
    rl_dict *seen = rl_dict_create(run->arena, 0);
    if (!seen) rl_jinja_out_of_memory(run);
    rl_list *out = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    for (size_t i = 0; i < items->count; i++) {
        rl_value key = fold_case(run, follow(run, &path, items->items[i], none), case_sensitive);
        size_t before = seen->count;
        rl_jinja_set_key(run, seen, key, rl_value_none());
        if (seen->count > before) rl_jinja_add(run, out, items->items[i]);
    }
    return rl_value_list(out);
}

/* ---- map, select, reject -------------------------------------------------------------------- */

static rl_value filter_map(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    static const rl_string attribute_key = { .at = "attribute", .bytes = 9, .chars = 9 };
    rl_list *out = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    if (!rl_jinja_truth(subject)) return rl_value_list(out);
    const rl_value *attribute =
        args->named ? rl_dict_find(args->named, rl_value_string(&attribute_key)) : NULL;
    if (!args->count && attribute) {
        rl_value named[RL_JINJA_MAX_PARAMS];
        attribute_path path;
        rl_jinja_bind(run, "filter", "map", "attribute default", 1, args, named);
        make_path(run, &path, named[0]);
        const rl_list *items = rl_jinja_items(run, subject);
        for (size_t i = 0; i < items->count; i++)
            rl_jinja_add(run, out, follow(run, &path, items->items[i], named[1]));
        return rl_value_list(out);
    }
    if (!args->count) rl_jinja_raise(run, RL_INVALID, "map requires a filter argument");
    const rl_string *name = rl_jinja_string_arg(run, args->items[0], "the filter of map");
    const rl_jinja_filter *filter = rl_jinja_find_filter(name);
    rl_jinja_args rest = { .items = args->items + 1,
                           .count = args->count - 1,
                           .named = args->named };
    const rl_list *items = rl_jinja_items(run, subject);
    rl_jinja_enter(run); /* a filter may be map itself */
    for (size_t i = 0; i < items->count; i++)
        rl_jinja_add(run, out, rl_jinja_apply_filter(run, name, filter, items->items[i], &rest));
    rl_jinja_leave(run);
    return rl_value_list(out);
}

static rl_value choose(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args,
                       bool by_attribute, bool keep)
{
    attribute_path path = { .count = 0 };
    rl_value none = { 0 };
    rl_list *out = rl_jinja_list(run, RL_LIST_GENERATOR, 0);
    if (!rl_jinja_truth(subject)) return rl_value_list(out);
    size_t used = by_attribute;
    if (by_attribute) {
        if (!args->count) rl_jinja_raise(run, RL_INVALID, "missing parameter for attribute name");
        make_path(run, &path, args->items[0]);
    }
    const rl_string *name = NULL;
    const rl_jinja_test *test = NULL;
    rl_jinja_args rest = { .named = args->named };
    if (args->count > used) {
        name = rl_jinja_string_arg(run, args->items[used], "the name of a test");
        test = rl_jinja_find_test(name);
        rest.items = args->items + used + 1;
        rest.count = args->count - used - 1;
    }
    const rl_list *items = rl_jinja_items(run, subject);
    for (size_t i = 0; i < items->count; i++) {
        rl_value value = follow(run, &path, items->items[i], none);
        bool passes =
            name ? rl_jinja_apply_test(run, name, test, value, &rest) : rl_jinja_truth(value);
        if (passes == keep) rl_jinja_add(run, out, items->items[i]);
    }
    return generator(out);
}

static rl_value filter_select(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    return choose(run, subject, args, false, true);
}

static rl_value filter_reject(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    return choose(run, subject, args, false, false);
}

static rl_value filter_selectattr(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    return choose(run, subject, args, true, true);
}

static rl_value filter_rejectattr(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args)
{
    return choose(run, subject, args, true, false);
}

const rl_jinja_filter rl_jinja_list_filters[] = {
    { "batch", "linecount fill_with", 1, filter_batch, NULL },
    { "count", "", 0, filter_length, NULL },
    { "dictsort", "case_sensitive by reverse", 0, filter_dictsort, NULL },
    { "first", "", 0, filter_first, NULL },
    { "items", "", 0, filter_items, NULL },
    { "join", "d attribute", 0, filter_join, NULL },
    { "last", "", 0, filter_last, NULL },
    { "length", "", 0, filter_length, NULL },
    { "list", "", 0, filter_list, NULL },
    { "map", NULL, 0, NULL, filter_map },
    { "max", "case_sensitive attribute", 0, filter_max, NULL },
    { "min", "case_sensitive attribute", 0, filter_min, NULL },
    { "reject", NULL, 0, NULL, filter_reject },
    { "rejectattr", NULL, 0, NULL, filter_rejectattr },
    { "reverse", "", 0, filter_reverse, NULL },
    { "select", NULL, 0, NULL, filter_select },
    { "selectattr", NULL, 0, NULL, filter_selectattr },
    { "slice", "slices fill_with", 1, filter_slice, NULL },
    { "sort", "reverse case_sensitive attribute", 0, filter_sort, NULL },
    { "sum", "attribute start", 0, filter_sum, NULL },
    { "unique", "case_sensitive attribute", 0, filter_unique, NULL },
    { 0 },
};
