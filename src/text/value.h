/* value.h - values as JSON and chat templates know them: numbers, text, lists, dicts.
 *
 * An rl_value is 16 bytes and copied freely. Strings, lists and dicts live in an arena and are
 * never freed one by one. Integers are exact: 64 bits as numbers, longer ones as their digits.
 * Dicts keep the order in which keys were first set. JSON makes the kinds up to DICT; the kinds
 * behind it, and UNDEFINED, exist only while a template runs (jinja.h).
 *
 * Functions that allocate return NULL or false when the arena gives nothing more.
 * Threads: values belong to the owner of their arena; reading needs no lock once nobody writes. */
#ifndef RL_TEXT_VALUE_H
#define RL_TEXT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef enum rl_value_kind {
    RL_VALUE_MISSING, /* no value at all: an argument that was not given */
    RL_VALUE_UNDEFINED,
    RL_VALUE_NONE,
    RL_VALUE_BOOL,
    RL_VALUE_INT,
    RL_VALUE_BIGINT, /* beyond 64 bits; `string` holds its digits with an optional '-' */
    RL_VALUE_FLOAT,
    RL_VALUE_STRING,
    RL_VALUE_LIST,
    RL_VALUE_DICT,
    RL_VALUE_NAMESPACE, /* a dict that templates may change */
    RL_VALUE_MACRO,
    RL_VALUE_FUNCTION,
    RL_VALUE_METHOD,
    RL_VALUE_LOOP
} rl_value_kind;

typedef struct rl_string rl_string;
typedef struct rl_list rl_list;
typedef struct rl_dict rl_dict;

typedef struct rl_value {
    uint8_t kind;
    uint8_t safe;     /* STRING: marked as markup by the filters `safe` and `escape` */
    uint8_t mark;     /* set by the owner of the value, travels with copies, see jinja.h */
    uint8_t missing;  /* UNDEFINED: how it came about (jinja_internal.h) */
    uint32_t of_kind; /* UNDEFINED: the kind of the object that lacks it */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const rl_string *string;
        rl_list *list;
        rl_dict *dict;
        void *object;
    };
} rl_value;

/* UTF-8, well-formed, not terminated unless noted. */
struct rl_string {
    const char *at;
    size_t bytes;
    size_t chars; /* code points; RL_CHARS_UNKNOWN until somebody needs it */
    struct rl_string_room *room;
};
#define RL_CHARS_UNKNOWN SIZE_MAX

/* What Python type a list stands for: they print, compare and index differently. */
typedef enum rl_list_flavor {
    RL_LIST_PLAIN,
    RL_LIST_TUPLE,
    RL_LIST_RANGE,
    RL_LIST_KEYS,
    RL_LIST_VALUES,
    RL_LIST_ITEMS,
    RL_LIST_GENERATOR /* can be gone through once; `next` says how far */
} rl_list_flavor;

struct rl_list {
    rl_value *items;
    size_t count, capacity;
    size_t next;
    uint8_t flavor;
    uint8_t iterated; /* a template has looked at the items (only noted for marked lists) */
};

typedef struct rl_pair {
    rl_value key, value;
    uint64_t hash;
} rl_pair;

struct rl_dict {
    rl_pair *pairs;
    size_t count, capacity;
    uint32_t *slots; /* open addressing, index + 1; NULL while the dict is small */
    size_t n_slots;
    uint64_t seed;
};

static inline rl_value rl_value_none(void)
{
    return (rl_value){ .kind = RL_VALUE_NONE };
}

static inline rl_value rl_value_bool(bool boolean)
{
    return (rl_value){ .kind = RL_VALUE_BOOL, .integer = boolean };
}

static inline rl_value rl_value_int(int64_t integer)
{
    return (rl_value){ .kind = RL_VALUE_INT, .integer = integer };
}

static inline rl_value rl_value_float(double real)
{
    return (rl_value){ .kind = RL_VALUE_FLOAT, .real = real };
}

static inline rl_value rl_value_string(const rl_string *string)
{
    return (rl_value){ .kind = RL_VALUE_STRING, .string = string };
}

static inline rl_value rl_value_list(rl_list *list)
{
    return (rl_value){ .kind = RL_VALUE_LIST, .list = list };
}

static inline rl_value rl_value_dict(rl_dict *dict)
{
    return (rl_value){ .kind = RL_VALUE_DICT, .dict = dict };
}

/* What a kind is called in a sentence: "a string", "null", "an array" ... (JSON's words). */
const char *rl_value_kind_name(rl_value_kind kind);

/* ---- strings -------------------------------------------------------------------------------- */

/* A copy in the arena, with a NUL behind it. */
const rl_string *rl_string_create(rl_arena *arena, const char *text, size_t bytes);

/* A string over bytes that live at least as long as the arena. */
const rl_string *rl_string_over(rl_arena *arena, const char *text, size_t bytes);

/* a + b. Appending again and again to one string costs time and memory in proportion to what is
 * appended, not to the whole. */
const rl_string *rl_string_join(rl_arena *arena, const rl_string *a, const rl_string *b);

/* Code points; counted once. */
size_t rl_string_chars(const rl_string *string);

bool rl_string_equal(const rl_string *a, const rl_string *b);
bool rl_string_is(const rl_string *string, const char *text);

/* ---- lists ---------------------------------------------------------------------------------- */

rl_list *rl_list_create(rl_arena *arena, size_t capacity);
bool rl_list_add(rl_arena *arena, rl_list *list, rl_value item);

/* ---- dicts ---------------------------------------------------------------------------------- */

/* Keys are none, bool, int, bigint, float, string or undefined; like in Python 1, 1.0 and true are
 * one key. */
rl_dict *rl_dict_create(rl_arena *arena, size_t capacity);

/* Adds a pair, or replaces the value of an equal key, which keeps its place. */
bool rl_dict_set(rl_arena *arena, rl_dict *dict, rl_value key, rl_value value);

/* Borrowed until the next set; NULL when the key is not there. */
rl_value *rl_dict_find(const rl_dict *dict, rl_value key);
rl_value *rl_dict_find_text(const rl_dict *dict, const char *key);

/* True for a kind that can be a key. */
bool rl_value_is_key(rl_value value);

/* Python's == between keys. */
bool rl_value_key_equal(rl_value a, rl_value b);

#endif
