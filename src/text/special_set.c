/* special_set.c - text/special_set.h: a sorted list that is narrowed byte by byte.
 *
 * All items that agree with the text so far stand next to each other, so a range of the list plays
 * the part of a trie's node. Few characters begin a special token; for the others the search is one
 * look into first[]. */
#include "text/special_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static int by_text(const void *a, const void *b)
{
    const rl_special *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    if (order) return order;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

rl_status rl_special_set_init(rl_special_set *set, const rl_special *items, uint32_t n,
                              rl_error *err)
{
    *set = (rl_special_set){ .n = n };
    if (!n) return RL_OK;
    set->items = malloc(n * sizeof *items);
    if (!set->items) return rl_fail(err, RL_NOMEM, "no memory for %u special tokens", n);
    memcpy(set->items, items, n * sizeof *items);
    qsort(set->items, n, sizeof *items, by_text);
    for (uint32_t i = 0; i < n; i++) {
        RL_ASSERT(items[i].bytes >= 1 && items[i].bytes <= RL_SPECIAL_MAX_BYTES);
        set->first[(uint8_t)items[i].text[0] + 1]++;
    }
    for (int b = 0; b < 256; b++)
        set->first[b + 1] += set->first[b];
    return RL_OK;
}

void rl_special_set_fini(rl_special_set *set)
{
    free(set->items);
    *set = (rl_special_set){ 0 };
}

/* The byte of an item at `depth`; -1 behind its end, so that shorter ones sort first. */
static int byte_at(const rl_special *item, uint32_t depth)
{
    return depth < item->bytes ? (uint8_t)item->text[depth] : -1;
}

/* The first item in [from, to) whose byte at `depth` is at least `value`. */
static uint32_t lower_bound(const rl_special_set *set, uint32_t from, uint32_t to, uint32_t depth,
                            int value)
{
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (byte_at(&set->items[middle], depth) < value)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The longest item that the text begins with. */
static const rl_special *longest(const rl_special_set *set, const char *text, size_t bytes)
{
    const rl_special *best = NULL;
    uint32_t from = set->first[(uint8_t)text[0]], to = set->first[(uint8_t)text[0] + 1];
    for (uint32_t depth = 1; from < to; depth++) {
        if (set->items[from].bytes == depth) best = &set->items[from++];
        if (depth == bytes) break;
        int next = (uint8_t)text[depth];
        from = lower_bound(set, from, to, depth, next);
        to = lower_bound(set, from, to, depth, next + 1);
    }
    return best;
}

const rl_special *rl_special_set_search(const rl_special_set *set, const char *text, size_t bytes,
                                        size_t at, size_t *found)
{
    if (!set->n) return NULL;
    for (; at < bytes; at++) {
        uint8_t b = (uint8_t)text[at];
        if (set->first[b] == set->first[b + 1]) continue;
        const rl_special *item = longest(set, text + at, bytes - at);
        if (item) {
            *found = at;
            return item;
        }
    }
    return NULL;
}

const rl_special *rl_special_set_find(const rl_special_set *set, const char *text, size_t bytes)
{
    if (!set->n || !bytes) return NULL;
    const rl_special *item = longest(set, text, bytes);
    return item && item->bytes == bytes ? item : NULL;
}
