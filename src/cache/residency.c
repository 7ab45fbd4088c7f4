/* residency.c - (layer, expert) -> slot address, 0 when absent.
 *
 * Invariant: an entry is not 0 exactly while the cache holds the expert as resident. */
#include "cache/residency.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct rl_residency {
    uint32_t n_layer, n_expert;
    uint64_t *table;
    uint64_t *owned; /* the table when it is ours */
    rl_slot_address address;
    void *context;
    uint32_t dirty_first, dirty_end; /* equal: nothing changed */
};

rl_status rl_residency_create(rl_residency **out, uint32_t n_layer, uint32_t n_expert,
                              uint64_t *table, rl_slot_address address, void *context,
                              rl_error *err)
{
    RL_ASSERT(out && n_layer && n_expert && address);
    RL_ASSERT((uint64_t)n_layer * n_expert < RL_CACHE_NONE);
    *out = NULL;
    size_t n = (size_t)n_layer * n_expert;
    rl_residency *residency = calloc(1, sizeof *residency);
    uint64_t *owned = table ? NULL : malloc(n * sizeof *owned);
    if (!residency || (!table && !owned)) {
        free(residency);
        free(owned);
        return rl_fail(err, RL_NOMEM, "no memory for the residency table of %zu experts", n);
    }
    *residency = (rl_residency){ .n_layer = n_layer,
                                 .n_expert = n_expert,
                                 .table = table ? table : owned,
                                 .owned = owned,
                                 .address = address,
                                 .context = context,
                                 .dirty_end = (uint32_t)n };
    memset(residency->table, 0, n * sizeof *residency->table);
    *out = residency;
    return RL_OK;
}

void rl_residency_destroy(rl_residency *residency)
{
    if (!residency) return;
    free(residency->owned);
    free(residency);
}

static uint32_t entry_of(const rl_residency *residency, rl_expert_key key)
{
    RL_ASSERT(key.layer < residency->n_layer && key.expert < residency->n_expert);
    return key.layer * residency->n_expert + key.expert;
}

void rl_residency_set(rl_residency *residency, rl_expert_key key, uint64_t address)
{
    uint32_t i = entry_of(residency, key);
    residency->table[i] = address;
    if (residency->dirty_first == residency->dirty_end) {
        residency->dirty_first = i;
        residency->dirty_end = i + 1;
        return;
    }
    if (i < residency->dirty_first) residency->dirty_first = i;
    if (i >= residency->dirty_end) residency->dirty_end = i + 1;
}

uint64_t rl_residency_get(const rl_residency *residency, rl_expert_key key)
{
    return residency->table[entry_of(residency, key)];
}

void rl_residency_listen(void *opaque, rl_cache_event event, rl_expert_key key, rl_slot slot)
{
    rl_residency *residency = opaque;
    uint64_t address = 0;
    if (event == RL_CACHE_COMMITTED) {
        address = residency->address(residency->context, slot);
        RL_ASSERT(address);
    }
    if (rl_residency_get(residency, key) != address) rl_residency_set(residency, key, address);
}

const uint64_t *rl_residency_table(const rl_residency *residency)
{
    return residency->table;
}

bool rl_residency_take_dirty(rl_residency *residency, uint32_t *first, uint32_t *count)
{
    *first = residency->dirty_first;
    *count = residency->dirty_end - residency->dirty_first;
    residency->dirty_first = residency->dirty_end = 0;
    return *count > 0;
}

void rl_residency_check(const rl_residency *residency, const rl_cache *cache)
{
    RL_ASSERT(residency->n_layer == rl_cache_n_layer(cache));
    RL_ASSERT(residency->n_expert == rl_cache_n_expert(cache));
    for (uint32_t l = 0; l < residency->n_layer; l++) {
        for (uint32_t e = 0; e < residency->n_expert; e++) {
            rl_expert_key key = { .layer = l, .expert = e };
            rl_slot slot = rl_cache_find(cache, key);
            uint64_t expected = 0;
            if (!rl_slot_is_none(slot)) expected = residency->address(residency->context, slot);
            RL_ASSERT(rl_residency_get(residency, key) == expected);
        }
    }
}
