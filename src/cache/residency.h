/* residency.h - the residency table: for every (layer, expert) the address of the slot that holds
 * it, 0 when it is not in memory.
 *
 * This is the table that the router kernel looks experts up in. The host copy lives here and is
 * kept by rl_residency_listen(), the cache's listener, so it changes at the same moment as the
 * cache and never behind its back. A backend with memory of its own mirrors rl_residency_table();
 * the dirty range says what changed since it last did.
 *
 * Threads: the cache's owner. Memory: all of it at create. */
#ifndef RL_CACHE_RESIDENCY_H
#define RL_CACHE_RESIDENCY_H

#include "cache/expert_cache.h"

typedef struct rl_residency rl_residency;

/* The address of a slot, never 0: a host pointer or a device address. */
typedef uint64_t (*rl_slot_address)(void *context, rl_slot slot);

/* `table` is [n_layer][n_expert] in memory that the caller lends until destroy (host-visible device
 * memory, say), or NULL: then the residency owns it. All entries become 0. */
RL_MUST_CHECK rl_status rl_residency_create(rl_residency **out, uint32_t n_layer, uint32_t n_expert,
                                            uint64_t *table, rl_slot_address address, void *context,
                                            rl_error *err);
void rl_residency_destroy(rl_residency *residency); /* NULL is fine */

/* An rl_cache_listener whose context is the rl_residency. */
void rl_residency_listen(void *residency, rl_cache_event event, rl_expert_key key, rl_slot slot);

void rl_residency_set(rl_residency *residency, rl_expert_key key, uint64_t address);
uint64_t rl_residency_get(const rl_residency *residency, rl_expert_key key);

/* [n_layer][n_expert], borrowed until destroy. */
const uint64_t *rl_residency_table(const rl_residency *residency);

/* The entries [*first, *first + *count) cover every change since the last call, which this call
 * forgets; false when there was none. */
bool rl_residency_take_dirty(rl_residency *residency, uint32_t *first, uint32_t *count);

/* Asserts that the table says what the cache says; for tests and debug builds. */
void rl_residency_check(const rl_residency *residency, const rl_cache *cache);

#endif
