/* value.c - value.h: strings that append cheaply, lists, and dicts in insertion order.
 *
 * Invariants
 *   - a string's bytes never change; strings may share bytes with a longer one (rl_string_join)
 *   - pairs[0..count) of a dict are in insertion order and their keys differ pairwise
 *   - a dict with more than SMALL_DICT pairs has slots, at most half of them used */
#include "text/value.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"

const char *rl_value_kind_name(rl_value_kind kind)
{
    static const char *const names[] = {
        [RL_VALUE_MISSING] = "nothing",
        [RL_VALUE_UNDEFINED] = "undefined",
        [RL_VALUE_NONE] = "null",
        [RL_VALUE_BOOL] = "a boolean",
        [RL_VALUE_INT] = "a number",
        [RL_VALUE_BIGINT] = "a number",
        [RL_VALUE_FLOAT] = "a number",
        [RL_VALUE_STRING] = "a string",
        [RL_VALUE_LIST] = "an array",
        [RL_VALUE_DICT] = "an object",
        [RL_VALUE_NAMESPACE] = "a namespace",
        [RL_VALUE_MACRO] = "a macro",
        [RL_VALUE_FUNCTION] = "a function",
        [RL_VALUE_METHOD] = "a method",
        [RL_VALUE_LOOP] = "a loop",
    };
    return names[kind];
}

/* ---- strings -------------------------------------------------------------------------------- */

/* Spare room behind bytes that rl_string_join made. The string that ends at `end` owns the room;
 * once something is appended another string does, and the first one is copied if it grows again. */
struct rl_string_room {
    char *end;
    size_t bytes;
};

const rl_string *rl_string_over(rl_arena *arena, const char *text, size_t bytes)
{
    rl_string *string = rl_arena_alloc(arena, sizeof *string);
    if (!string) return NULL;
    *string = (rl_string){ .at = text, .bytes = bytes, .chars = RL_CHARS_UNKNOWN };
    return string;
}

const rl_string *rl_string_create(rl_arena *arena, const char *text, size_t bytes)
{
    const char *copy = rl_arena_copy_text(arena, text, bytes);
    return copy ? rl_string_over(arena, copy, bytes) : NULL;
}

static size_t sum_of_chars(const rl_string *a, const rl_string *b)
{
    if (a->chars == RL_CHARS_UNKNOWN || b->chars == RL_CHARS_UNKNOWN) return RL_CHARS_UNKNOWN;
    return a->chars + b->chars;
}

const rl_string *rl_string_join(rl_arena *arena, const rl_string *a, const rl_string *b)
{
    if (!a->bytes) return b;
    if (!b->bytes) return a;
    rl_string *sum = rl_arena_alloc(arena, sizeof *sum);
    if (!sum) return NULL;
    *sum = (rl_string){ .bytes = a->bytes + b->bytes, .chars = sum_of_chars(a, b) };
    struct rl_string_room *room = a->room;
    if (room && a->at + a->bytes == room->end && b->bytes <= room->bytes) {
        memcpy(room->end, b->at, b->bytes);
        room->end += b->bytes;
        room->bytes -= b->bytes;
        sum->at = a->at;
        sum->room = room;
        return sum;
    }
    size_t spare = room ? sum->bytes : sum->bytes / 2;
    char *at = rl_arena_alloc(arena, sum->bytes + spare);
    room = rl_arena_alloc(arena, sizeof *room);
    if (!room || !at) return NULL;
    memcpy(at, a->at, a->bytes);
    memcpy(at + a->bytes, b->at, b->bytes);
    *room = (struct rl_string_room){ .end = at + sum->bytes, .bytes = spare };
    sum->at = at;
    sum->room = room;
    return sum;
}

size_t rl_string_chars(const rl_string *string)
{
    if (string->chars == RL_CHARS_UNKNOWN) {
        size_t chars = 0;
        for (size_t i = 0; i < string->bytes; i++)
            chars += ((unsigned char)string->at[i] & 0xc0) != 0x80;
        ((rl_string *)string)->chars = chars;
    }
    return string->chars;
}

bool rl_string_equal(const rl_string *a, const rl_string *b)
{
    return a == b || (a->bytes == b->bytes && !memcmp(a->at, b->at, a->bytes));
}

bool rl_string_is(const rl_string *string, const char *text)
{
    size_t bytes = strlen(text);
    return string->bytes == bytes && !memcmp(string->at, text, bytes);
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Room for one more object of `size` bytes in an arena array: doubled, the old one is left. */
static void *grow(rl_arena *arena, void *old, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? *capacity * 2 : 4;
    void *wider = rl_arena_alloc(arena, wanted * size);
    if (!wider) return NULL;
    if (count) memcpy(wider, old, count * size);
    *capacity = wanted;
    return wider;
}

rl_list *rl_list_create(rl_arena *arena, size_t capacity)
{
    rl_list *list = rl_arena_alloc(arena, sizeof *list);
    if (!list) return NULL;
    *list = (rl_list){ .capacity = capacity };
    if (capacity > SIZE_MAX / 2 / sizeof *list->items) {
        arena->over_limit = true;
        return NULL;
    }
    if (!capacity) return list;
    list->items = rl_arena_alloc(arena, capacity * sizeof *list->items);
    return list->items ? list : NULL;
}

bool rl_list_add(rl_arena *arena, rl_list *list, rl_value item)
{
    if (list->count == list->capacity) {
        rl_value *items =
            grow(arena, list->items, list->count, &list->capacity, sizeof *list->items);
        if (!items) return false;
        list->items = items;
    }
    list->items[list->count++] = item;
    return true;
}

/* ---- dicts ---------------------------------------------------------------------------------- */

enum { SMALL_DICT = 8 };

bool rl_value_is_key(rl_value value)
{
    return value.kind >= RL_VALUE_UNDEFINED && value.kind <= RL_VALUE_STRING;
}

/* The value as an integer if it equals one, as Python compares. */
static bool as_integer(rl_value value, int64_t *integer)
{
    if (value.kind == RL_VALUE_BOOL || value.kind == RL_VALUE_INT) {
        *integer = value.integer;
        return true;
    }
    if (value.kind != RL_VALUE_FLOAT || !(value.real >= -0x1p63 && value.real < 0x1p63) ||
        value.real != trunc(value.real))
        return false;
    *integer = (int64_t)value.real;
    return true;
}

bool rl_value_key_equal(rl_value a, rl_value b)
{
    int64_t x = 0, y = 0;
    bool x_whole = as_integer(a, &x), y_whole = as_integer(b, &y);
    if (x_whole || y_whole) return x_whole && y_whole && x == y;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case RL_VALUE_BIGINT:
    case RL_VALUE_STRING: return rl_string_equal(a.string, b.string);
    case RL_VALUE_FLOAT: return a.real == b.real;
    default: return true;
    }
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A keyed hash, so that no text can be made in advance whose keys all collide. */
static uint64_t hash_bytes(const char *at, size_t bytes, uint64_t seed)
{
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u;
    uint64_t k = mix(seed ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu) | 1;
    for (size_t left = bytes; left;) {
        size_t n = left < 8 ? left : 8;
        uint64_t word = 0;
        memcpy(&word, at, n);
        h = mix(h ^ word, k);
        at += n;
        left -= n;
    }
    return mix(h ^ bytes, k);
}

static uint64_t hash_key(rl_value key, uint64_t seed)
{
    int64_t integer;
    if (as_integer(key, &integer))
        return hash_bytes((const char *)&integer, sizeof integer, seed + 1);
    switch (key.kind) {
    case RL_VALUE_BIGINT:
    case RL_VALUE_STRING: return hash_bytes(key.string->at, key.string->bytes, seed);
    case RL_VALUE_FLOAT: return hash_bytes((const char *)&key.real, sizeof key.real, seed + 1);
    default: return seed + key.kind;
    }
}

rl_dict *rl_dict_create(rl_arena *arena, size_t capacity)
{
    rl_dict *dict = rl_arena_alloc(arena, sizeof *dict);
    if (!dict) return NULL;
    *dict = (rl_dict){ 0 };
    if (!capacity) return dict;
    dict->pairs = rl_arena_alloc(arena, capacity * sizeof *dict->pairs);
    dict->capacity = capacity;
    return dict->pairs ? dict : NULL;
}

static void place(rl_dict *dict, size_t index)
{
    size_t at = dict->pairs[index].hash & (dict->n_slots - 1);
    while (dict->slots[at])
        at = (at + 1) & (dict->n_slots - 1);
    dict->slots[at] = (uint32_t)index + 1;
}

static bool rehash(rl_arena *arena, rl_dict *dict)
{
    size_t n_slots = dict->n_slots ? dict->n_slots * 4 : 4 * SMALL_DICT;
    uint32_t *slots = rl_arena_alloc(arena, n_slots * sizeof *slots);
    if (!slots) return false;
    memset(slots, 0, n_slots * sizeof *slots);
    if (!dict->slots) {
        dict->seed = rl_clock_ns() ^ (uintptr_t)dict;
        for (size_t i = 0; i < dict->count; i++)
            dict->pairs[i].hash = hash_key(dict->pairs[i].key, dict->seed);
    }
    dict->slots = slots;
    dict->n_slots = n_slots;
    for (size_t i = 0; i < dict->count; i++)
        place(dict, i);
    return true;
}

/* The index of the pair with this key, or dict->count. */
static size_t find(const rl_dict *dict, rl_value key, uint64_t hash)
{
    if (!dict->slots) {
        for (size_t i = 0; i < dict->count; i++)
            if (rl_value_key_equal(dict->pairs[i].key, key)) return i;
        return dict->count;
    }
    for (size_t at = hash & (dict->n_slots - 1); dict->slots[at];
         at = (at + 1) & (dict->n_slots - 1)) {
        const rl_pair *pair = &dict->pairs[dict->slots[at] - 1];
        if (pair->hash == hash && rl_value_key_equal(pair->key, key)) return dict->slots[at] - 1;
    }
    return dict->count;
}

bool rl_dict_set(rl_arena *arena, rl_dict *dict, rl_value key, rl_value value)
{
    uint64_t hash = dict->slots ? hash_key(key, dict->seed) : 0;
    size_t index = find(dict, key, hash);
    if (index < dict->count) {
        dict->pairs[index].value = value;
        return true;
    }
    if (dict->count == UINT32_MAX - 1) return false;
    if (dict->count == dict->capacity) {
        rl_pair *pairs =
            grow(arena, dict->pairs, dict->count, &dict->capacity, sizeof *dict->pairs);
        if (!pairs) return false;
        dict->pairs = pairs;
    }
    dict->pairs[index] = (rl_pair){ .key = key, .value = value, .hash = hash };
    dict->count++;
    if (dict->count <= SMALL_DICT) return true;
    if (dict->count * 2 > dict->n_slots) return rehash(arena, dict);
    place(dict, index);
    return true;
}

rl_value *rl_dict_find(const rl_dict *dict, rl_value key)
{
    size_t index = find(dict, key, dict->slots ? hash_key(key, dict->seed) : 0);
    return index < dict->count ? &dict->pairs[index].value : NULL;
}

rl_value *rl_dict_find_text(const rl_dict *dict, const char *key)
{
    rl_string string = { .at = key, .bytes = strlen(key), .chars = RL_CHARS_UNKNOWN };
    return rl_dict_find(dict, rl_value_string(&string));
}
