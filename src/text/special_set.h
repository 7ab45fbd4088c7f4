/* special_set.h - finds the texts of special tokens inside a text: leftmost, then longest.
 *
 * Threads: immutable once created, any thread. */
#ifndef RL_TEXT_SPECIAL_SET_H
#define RL_TEXT_SPECIAL_SET_H

#include "base/status.h"

/* Longest text a special token may have; bounds the time of a search. */
#define RL_SPECIAL_MAX_BYTES 1024

typedef struct rl_special {
    const char *text; /* borrowed; 1..RL_SPECIAL_MAX_BYTES bytes */
    uint32_t bytes;
    uint32_t id;
} rl_special;

typedef struct rl_special_set {
    rl_special *items; /* sorted by text                                        */
    uint32_t n;
    uint32_t first[257]; /* items whose text begins with byte b: first[b]..first[b + 1] */
} rl_special_set;

/* Copies the list; the texts stay borrowed and differ from each other. */
RL_MUST_CHECK rl_status rl_special_set_init(rl_special_set *set, const rl_special *items,
                                            uint32_t n, rl_error *err);
void rl_special_set_fini(rl_special_set *set);

/* The first match at or after `at`: NULL when there is none, otherwise *found is its offset. */
const rl_special *rl_special_set_search(const rl_special_set *set, const char *text, size_t bytes,
                                        size_t at, size_t *found);

/* The item with exactly this text, or NULL. */
const rl_special *rl_special_set_find(const rl_special_set *set, const char *text, size_t bytes);

#endif
