/* expert_cache.h - which experts are in memory, in which slot, and which one leaves next.
 *
 * A slot is room for one expert. Slots come in size classes, and every layer uses one class, so a
 * slot is named by class and index; where its bytes lie is the pool's business, not ours. Nothing
 * here touches files, bytes or devices.
 *
 * The life of a slot: free -> (reserve: MISS) loading -> (commit) resident -> (evicted) loading ...
 * A reservation pins its slot until rl_cache_release(); pinned slots are never evicted. In the LRU
 * order a slot counts as used when its last pin is released, or when it is touched.
 *
 * Threads: one owner at a time. Memory: all of it at create; no other call allocates. */
#ifndef RL_CACHE_EXPERT_CACHE_H
#define RL_CACHE_EXPERT_CACHE_H

#include "base/status.h"

typedef struct rl_expert_key {
    uint32_t layer;
    uint32_t expert;
} rl_expert_key;

typedef struct rl_slot {
    uint32_t class; /* size class                 */
    uint32_t index; /* within the class, from 0   */
} rl_slot;

#define RL_CACHE_NONE UINT32_MAX

/* The slot that is no slot, and the key that is no key. */
#define RL_SLOT_NONE ((rl_slot){ RL_CACHE_NONE, RL_CACHE_NONE })
#define RL_KEY_NONE  ((rl_expert_key){ RL_CACHE_NONE, RL_CACHE_NONE })

static inline bool rl_slot_is_none(rl_slot slot)
{
    return slot.index == RL_CACHE_NONE;
}

static inline bool rl_key_is_none(rl_expert_key key)
{
    return key.layer == RL_CACHE_NONE;
}

typedef struct rl_cache rl_cache;

/* What the listener hears, always from inside the call that causes it:
 *   EVICTED    from reserve, evict and clear: `key` has left `slot`; said before the slot is handed
 *              on, so that nobody can find the old address once new bytes may arrive there
 *   COMMITTED  from commit: `slot` holds `key` from now on
 *   ABORTED    from abort: `key` did not arrive, `slot` is free */
typedef enum rl_cache_event {
    RL_CACHE_EVICTED,
    RL_CACHE_COMMITTED,
    RL_CACHE_ABORTED
} rl_cache_event;

/* Must not call the cache (asserted). */
typedef void (*rl_cache_listener)(void *context, rl_cache_event event, rl_expert_key key,
                                  rl_slot slot);

typedef struct rl_cache_params {
    uint32_t n_layer;
    uint32_t n_expert;           /* per layer                                                 */
    uint32_t n_class;            /* >= 1                                                      */
    const uint32_t *layer_class; /* [n_layer] the class of each layer; RL_CACHE_NONE: the layer
                                     has no routed experts. Copied.                            */
    const uint32_t *class_slots; /* [n_class] slots of each class, >= 1. Copied.              */
    rl_cache_listener listener;  /* may be NULL                                               */
    void *context;               /* the listener's                                            */
} rl_cache_params;

/* RL_NOMEM only; senseless params are a caller's bug. */
RL_MUST_CHECK rl_status rl_cache_create(rl_cache **out, const rl_cache_params *params,
                                        rl_error *err);
void rl_cache_destroy(rl_cache *cache); /* NULL is fine; pins and loads end with it */

typedef enum rl_reserve {
    RL_RESERVE_HIT,     /* the slot holds the expert, now pinned once more                     */
    RL_RESERVE_MISS,    /* the slot is the caller's to fill, pinned once: commit or abort      */
    RL_RESERVE_LOADING, /* somebody's load of this key is under way; the slot is pinned once
                           more and may be read after that load's commit. If the load is aborted
                           instead, this reservation ends with it.                             */
    RL_RESERVE_BUSY     /* every slot of the class is pinned or loading: release some first    */
} rl_reserve;

typedef struct rl_reservation {
    rl_reserve outcome;
    rl_expert_key key;
    rl_slot slot;              /* RL_SLOT_NONE when busy                                       */
    rl_expert_key evicted_key; /* MISS: who left the slot; RL_KEY_NONE when it was free        */
} rl_reservation;

/* Asks for one expert that a token needs. Fills *out, and returns out->outcome. */
rl_reserve rl_cache_reserve(rl_cache *cache, rl_expert_key key, rl_reservation *out);

/* The same for experts that may be needed soon: only the figures differ. */
rl_reserve rl_cache_prefetch(rl_cache *cache, rl_expert_key key, rl_reservation *out);

/* All experts of one layer at once: those in memory are pinned before the first miss evicts
 * anything, so a batch never throws out its own members. out[i] belongs to experts[i].
 * Returns how many are RL_RESERVE_BUSY (those do not hold a slot; ask again after a release). */
uint32_t rl_cache_reserve_layer(rl_cache *cache, uint32_t layer, const uint32_t *experts,
                                uint32_t n, rl_reservation *out);

/* The bytes of a MISS have arrived. Pins stay: release when the work that reads them is done.
 * Takes a slot and not the reservation, because completions of the stream arrive in any order. */
void rl_cache_commit(rl_cache *cache, rl_slot slot);

/* The bytes of a MISS will not arrive. The slot is free, and all reservations of it have ended. */
void rl_cache_abort(rl_cache *cache, rl_slot slot);

/* Where an unpinned slot goes in the LRU order. */
typedef enum rl_release {
    RL_RELEASE_USED,  /* the most recently used one                                            */
    RL_RELEASE_UNUSED /* the first to leave, as prefetched in vain; but a slot that was used since
                         it was loaded goes where used ones go                                 */
} rl_release;

/* Ends one reservation of a resident or loading slot. */
void rl_cache_release(rl_cache *cache, rl_slot slot, rl_release how);

/* A routed step used this expert without asking: counts a hit and renews its place. False when it
 * is not resident (then nothing changes and nothing is counted). */
bool rl_cache_touch(rl_cache *cache, rl_expert_key key);

/* The slot that holds the key, or RL_SLOT_NONE when it is absent or still loading. Changes nothing. */
rl_slot rl_cache_find(const rl_cache *cache, rl_expert_key key);

/* Throws out one expert; false when it is absent, loading or pinned. */
bool rl_cache_evict(rl_cache *cache, rl_expert_key key);

/* Throws out every expert that is not pinned or loading; returns how many slots are not free then. */
uint32_t rl_cache_clear(rl_cache *cache);

/* ---- figures --------------------------------------------------------------------------------- */

/* Everything is counted under the phase that the owner has set last. */
typedef enum rl_cache_phase {
    RL_CACHE_PRELOAD, /* the phase after create */
    RL_CACHE_PREFILL,
    RL_CACHE_DECODE,
    RL_CACHE_N_PHASES
} rl_cache_phase;

typedef struct rl_cache_figures {
    uint64_t hits;            /* reserved or touched while resident                             */
    uint64_t misses;          /* had to be read                                                 */
    uint64_t waits;           /* were on their way already (prefetch, or another session)       */
    uint64_t evictions;       /* experts thrown out, for misses and prefetches alike            */
    uint64_t aborts;          /* loads that failed                                              */
    uint64_t busy;            /* reservations refused                                           */
    uint64_t prefetches;      /* loads begun by rl_cache_prefetch                               */
    uint64_t prefetch_used;   /* of the prefetched: asked for by a token before they left       */
    uint64_t prefetch_wasted; /* of the prefetched: thrown out before any token asked           */
} rl_cache_figures;

void rl_cache_set_phase(rl_cache *cache, rl_cache_phase phase);
rl_cache_figures rl_cache_get_figures(const rl_cache *cache, rl_cache_phase phase);

/* How many different experts of a layer tokens have asked for in a phase. */
uint32_t rl_cache_distinct(const rl_cache *cache, rl_cache_phase phase, uint32_t layer);

/* Zeroes the figures and the distinct counts of one phase. */
void rl_cache_reset_figures(rl_cache *cache, rl_cache_phase phase);

typedef struct rl_cache_census {
    uint32_t slots;
    uint32_t free;
    uint32_t loading;
    uint32_t resident; /* pinned ones included            */
    uint32_t pinned;   /* loading or resident, with a pin */
} rl_cache_census;

/* One class, or all together with RL_CACHE_NONE. Walks all slots: not for the token loop. */
rl_cache_census rl_cache_count(const rl_cache *cache, uint32_t class);

uint32_t rl_cache_n_layer(const rl_cache *cache);
uint32_t rl_cache_n_expert(const rl_cache *cache);

/* Walks everything and asserts every invariant; for tests and debug builds. */
void rl_cache_check(const rl_cache *cache);

#endif
