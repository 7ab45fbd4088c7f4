/* expert_cache.c - which experts are in memory, and which one leaves next.
 *
 * Maps (layer, expert) to a slot of the layer's size class by a plain table: 48 x 512 entries of
 * four bytes need no hashing. Bytes are not touched here: expert_stream.c fills slots, the backend
 * reads them.
 *
 * Invariants (rl_cache_check asserts them)
 *   - every slot is in exactly one state: free, loading, resident
 *   - free slots stand in their class's free list, and have neither key nor pins
 *   - the map and the slots' keys agree, both ways; a key has at most one slot
 *   - only unpinned resident slots stand in the LRU list, so only they can be evicted; a loading
 *     slot may lose its pins early, but leaves the loading state by commit or abort only
 *   - the listener hears "evicted" before the slot is handed out again
 *
 * Threads: one owner. Memory: all of it at create; reserve/commit/abort never allocate. */
#include "cache/expert_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { FREE, LOADING, RESIDENT };

typedef struct slot_info {
    rl_expert_key key;
    uint32_t prev; /* LRU list: towards the slot that leaves earlier        */
    uint32_t next; /* LRU list: towards the more recent; free list: the next */
    uint32_t pins;
    uint8_t state;
    bool prefetched; /* nobody has asked for it yet                          */
    bool used;       /* released as used, or touched, since it was loaded    */
} slot_info;

typedef struct class_info {
    uint32_t first; /* its slots are slots[first .. first + n_slots) */
    uint32_t n_slots;
    uint32_t free;   /* head of the free list                         */
    uint32_t oldest; /* leaves next                                   */
    uint32_t newest;
} class_info;

struct rl_cache {
    uint32_t n_layer, n_expert, n_class, n_slots;
    uint32_t *layer_class; /* [n_layer]                                                 */
    uint32_t *map;         /* [n_layer][n_expert] number of the slot, or RL_CACHE_NONE  */
    uint8_t *asked;        /* [n_layer][n_expert] bit per phase                         */
    class_info *classes;   /* [n_class]                                                 */
    slot_info *slots;      /* [n_slots]                                                 */
    rl_cache_listener listener;
    void *context;
    bool telling; /* the listener runs */
    rl_cache_phase phase;
    rl_cache_figures figures[RL_CACHE_N_PHASES];
};

rl_status rl_cache_create(rl_cache **out, const rl_cache_params *params, rl_error *err)
{
    RL_ASSERT(out && params && params->layer_class && params->class_slots);
    RL_ASSERT(params->n_layer && params->n_expert && params->n_class);
    *out = NULL;
    uint64_t n_slots = 0, n_keys = 0;
    for (uint32_t c = 0; c < params->n_class; c++) {
        RL_ASSERT(params->class_slots[c] >= 1);
        n_slots += params->class_slots[c];
    }
    for (uint32_t l = 0; l < params->n_layer; l++)
        RL_ASSERT(params->layer_class[l] < params->n_class ||
                  params->layer_class[l] == RL_CACHE_NONE);
    RL_ASSERT(rl_mul_u64(params->n_layer, params->n_expert, &n_keys));
    rl_cache *cache = NULL;
    if (n_slots >= RL_CACHE_NONE || n_keys >= RL_CACHE_NONE) goto no_memory;
    cache = calloc(1, sizeof *cache);
    if (!cache) goto no_memory;
    cache->n_layer = params->n_layer;
    cache->n_expert = params->n_expert;
    cache->n_class = params->n_class;
    cache->n_slots = (uint32_t)n_slots;
    cache->listener = params->listener;
    cache->context = params->context;
    cache->layer_class = malloc(cache->n_layer * sizeof *cache->layer_class);
    cache->map = malloc(n_keys * sizeof *cache->map);
    cache->asked = calloc(n_keys, sizeof *cache->asked);
    cache->classes = malloc(cache->n_class * sizeof *cache->classes);
    cache->slots = calloc(n_slots, sizeof *cache->slots);
    if (!cache->layer_class || !cache->map || !cache->asked || !cache->classes || !cache->slots)
        goto no_memory;

    memcpy(cache->layer_class, params->layer_class, cache->n_layer * sizeof *cache->layer_class);
    memset(cache->map, 0xff, n_keys * sizeof *cache->map);
    uint32_t first = 0;
    for (uint32_t c = 0; c < cache->n_class; c++) {
        uint32_t n = params->class_slots[c];
        cache->classes[c] = (class_info){ .first = first,
                                          .n_slots = n,
                                          .free = first,
                                          .oldest = RL_CACHE_NONE,
                                          .newest = RL_CACHE_NONE };
        for (uint32_t i = 0; i < n; i++)
            cache->slots[first + i] =
                (slot_info){ .key = RL_KEY_NONE,
                             .state = FREE,
                             .prev = RL_CACHE_NONE,
                             .next = i + 1 < n ? first + i + 1 : RL_CACHE_NONE };
        first += n;
    }
    *out = cache;
    return RL_OK;

no_memory:
    rl_cache_destroy(cache);
    return rl_fail(err, RL_NOMEM, "no memory for the expert cache of %llu slots",
                   (unsigned long long)n_slots);
}

void rl_cache_destroy(rl_cache *cache)
{
    if (!cache) return;
    free(cache->layer_class);
    free(cache->map);
    free(cache->asked);
    free(cache->classes);
    free(cache->slots);
    free(cache);
}

/* ---- small helpers ---------------------------------------------------------------------------- */

static uint32_t *map_entry(const rl_cache *cache, rl_expert_key key)
{
    RL_ASSERT(key.layer < cache->n_layer && key.expert < cache->n_expert);
    return &cache->map[(size_t)key.layer * cache->n_expert + key.expert];
}

static class_info *class_of_layer(const rl_cache *cache, uint32_t layer)
{
    uint32_t class = cache->layer_class[layer];
    RL_ASSERT(class != RL_CACHE_NONE); /* a layer without experts has no slots to ask for */
    return &cache->classes[class];
}

static uint32_t number_of(const rl_cache *cache, rl_slot slot)
{
    RL_ASSERT(slot.class < cache->n_class && slot.index < cache->classes[slot.class].n_slots);
    return cache->classes[slot.class].first + slot.index;
}

static rl_slot name_of(const rl_cache *cache, uint32_t number)
{
    uint32_t class = cache->layer_class[cache->slots[number].key.layer];
    return (rl_slot){ class, number - cache->classes[class].first };
}

static void tell(rl_cache *cache, rl_cache_event event, rl_expert_key key, rl_slot slot)
{
    if (!cache->listener) return;
    cache->telling = true;
    cache->listener(cache->context, event, key, slot);
    cache->telling = false;
}

static rl_cache_figures *figures(rl_cache *cache)
{
    return &cache->figures[cache->phase];
}

/* ---- the LRU list: unpinned resident slots, oldest first --------------------------------------- */

static void list_remove(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    if (slot->prev == RL_CACHE_NONE) {
        RL_ASSERT(class->oldest == number);
        class->oldest = slot->next;
    } else {
        cache->slots[slot->prev].next = slot->next;
    }
    if (slot->next == RL_CACHE_NONE) {
        RL_ASSERT(class->newest == number);
        class->newest = slot->prev;
    } else {
        cache->slots[slot->next].prev = slot->prev;
    }
    slot->prev = slot->next = RL_CACHE_NONE;
}

static void list_add_newest(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    slot->prev = class->newest;
    slot->next = RL_CACHE_NONE;
    if (class->newest == RL_CACHE_NONE)
        class->oldest = number;
    else
        cache->slots[class->newest].next = number;
    class->newest = number;
}

static void list_add_oldest(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    slot->next = class->oldest;
    slot->prev = RL_CACHE_NONE;
    if (class->oldest == RL_CACHE_NONE)
        class->newest = number;
    else
        cache->slots[class->oldest].prev = number;
    class->oldest = number;
}

static void list_add(rl_cache *cache, class_info *class, uint32_t number)
{
    if (cache->slots[number].used)
        list_add_newest(cache, class, number);
    else
        list_add_oldest(cache, class, number);
}

/* ---- slots change hands ------------------------------------------------------------------------ */

static void add_pin(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    if (!slot->pins && slot->state == RESIDENT) list_remove(cache, class, number);
    slot->pins++;
    RL_ASSERT(slot->pins);
}

/* The resident, unpinned slot loses its key and stands in no list. */
static rl_expert_key throw_out(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    rl_expert_key key = slot->key;
    rl_slot name = name_of(cache, number);
    RL_ASSERT(slot->state == RESIDENT && !slot->pins);
    list_remove(cache, class, number);
    *map_entry(cache, key) = RL_CACHE_NONE;
    slot->state = FREE;
    slot->key = RL_KEY_NONE;
    if (slot->prefetched) figures(cache)->prefetch_wasted++;
    slot->prefetched = false;
    figures(cache)->evictions++;
    tell(cache, RL_CACHE_EVICTED, key, name);
    return key;
}

static void give_free(rl_cache *cache, class_info *class, uint32_t number)
{
    slot_info *slot = &cache->slots[number];
    slot->state = FREE;
    slot->key = RL_KEY_NONE;
    slot->prefetched = slot->used = false;
    slot->pins = 0;
    slot->prev = RL_CACHE_NONE;
    slot->next = class->free;
    class->free = number;
}

static rl_reserve reserve(rl_cache *cache, rl_expert_key key, bool prefetch, rl_reservation *out)
{
    RL_ASSERT(cache && out && !cache->telling);
    uint32_t *entry = map_entry(cache, key);
    class_info *class = class_of_layer(cache, key.layer);
    rl_cache_figures *count = figures(cache);
    *out = (rl_reservation){ .key = key, .slot = RL_SLOT_NONE, .evicted_key = RL_KEY_NONE };
    if (!prefetch)
        cache->asked[(size_t)key.layer * cache->n_expert + key.expert] |= 1u << cache->phase;

    uint32_t number = *entry;
    if (number != RL_CACHE_NONE) {
        slot_info *slot = &cache->slots[number];
        add_pin(cache, class, number);
        out->slot = name_of(cache, number);
        out->outcome = slot->state == RESIDENT ? RL_RESERVE_HIT : RL_RESERVE_LOADING;
        if (!prefetch) {
            if (slot->state == RESIDENT)
                count->hits++;
            else
                count->waits++;
            if (slot->prefetched) count->prefetch_used++;
            slot->prefetched = false;
        }
        return out->outcome;
    }

    if (class->free != RL_CACHE_NONE) {
        number = class->free;
        class->free = cache->slots[number].next;
    } else if (class->oldest != RL_CACHE_NONE) {
        number = class->oldest;
        out->evicted_key = throw_out(cache, class, number);
    } else {
        count->busy++;
        return out->outcome = RL_RESERVE_BUSY;
    }
    cache->slots[number] = (slot_info){ .key = key,
                                        .prev = RL_CACHE_NONE,
                                        .next = RL_CACHE_NONE,
                                        .pins = 1,
                                        .state = LOADING,
                                        .prefetched = prefetch };
    *entry = number;
    if (prefetch)
        count->prefetches++;
    else
        count->misses++;
    out->slot = name_of(cache, number);
    return out->outcome = RL_RESERVE_MISS;
}

rl_reserve rl_cache_reserve(rl_cache *cache, rl_expert_key key, rl_reservation *out)
{
    return reserve(cache, key, false, out);
}

rl_reserve rl_cache_prefetch(rl_cache *cache, rl_expert_key key, rl_reservation *out)
{
    return reserve(cache, key, true, out);
}

uint32_t rl_cache_reserve_layer(rl_cache *cache, uint32_t layer, const uint32_t *experts,
                                uint32_t n, rl_reservation *out)
{
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < n; i++) {
        rl_expert_key key = { .layer = layer, .expert = experts[i] };
        out[i].outcome = RL_RESERVE_BUSY; /* marks what the second pass has to do */
        if (*map_entry(cache, key) != RL_CACHE_NONE) rl_cache_reserve(cache, key, &out[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        rl_expert_key key = { .layer = layer, .expert = experts[i] };
        if (out[i].outcome == RL_RESERVE_BUSY &&
            rl_cache_reserve(cache, key, &out[i]) == RL_RESERVE_BUSY)
            n_busy++;
    }
    return n_busy;
}

void rl_cache_commit(rl_cache *cache, rl_slot name)
{
    uint32_t number = number_of(cache, name);
    slot_info *slot = &cache->slots[number];
    RL_ASSERT(!cache->telling && slot->state == LOADING);
    slot->state = RESIDENT;
    if (!slot->pins) list_add(cache, &cache->classes[name.class], number);
    tell(cache, RL_CACHE_COMMITTED, slot->key, name);
}

void rl_cache_abort(rl_cache *cache, rl_slot name)
{
    uint32_t number = number_of(cache, name);
    rl_expert_key key = cache->slots[number].key;
    RL_ASSERT(!cache->telling && cache->slots[number].state == LOADING);
    *map_entry(cache, key) = RL_CACHE_NONE;
    give_free(cache, &cache->classes[name.class], number);
    figures(cache)->aborts++;
    tell(cache, RL_CACHE_ABORTED, key, name);
}

void rl_cache_release(rl_cache *cache, rl_slot name, rl_release how)
{
    uint32_t number = number_of(cache, name);
    slot_info *slot = &cache->slots[number];
    RL_ASSERT(!cache->telling && slot->state != FREE && slot->pins);
    if (how == RL_RELEASE_USED) slot->used = true;
    slot->pins--;
    if (!slot->pins && slot->state == RESIDENT)
        list_add(cache, &cache->classes[name.class], number);
}

bool rl_cache_touch(rl_cache *cache, rl_expert_key key)
{
    RL_ASSERT(!cache->telling);
    uint32_t number = *map_entry(cache, key);
    if (number == RL_CACHE_NONE || cache->slots[number].state != RESIDENT) return false;
    slot_info *slot = &cache->slots[number];
    cache->asked[(size_t)key.layer * cache->n_expert + key.expert] |= 1u << cache->phase;
    figures(cache)->hits++;
    if (slot->prefetched) figures(cache)->prefetch_used++;
    slot->prefetched = false;
    slot->used = true;
    if (!slot->pins) {
        class_info *class = class_of_layer(cache, key.layer);
        list_remove(cache, class, number);
        list_add_newest(cache, class, number);
    }
    return true;
}

rl_slot rl_cache_find(const rl_cache *cache, rl_expert_key key)
{
    uint32_t number = *map_entry(cache, key);
    if (number == RL_CACHE_NONE || cache->slots[number].state != RESIDENT) return RL_SLOT_NONE;
    return name_of(cache, number);
}

bool rl_cache_evict(rl_cache *cache, rl_expert_key key)
{
    RL_ASSERT(!cache->telling);
    uint32_t number = *map_entry(cache, key);
    if (number == RL_CACHE_NONE) return false;
    if (cache->slots[number].state != RESIDENT || cache->slots[number].pins) return false;
    class_info *class = class_of_layer(cache, key.layer);
    throw_out(cache, class, number);
    give_free(cache, class, number);
    return true;
}

uint32_t rl_cache_clear(rl_cache *cache)
{
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < cache->n_slots; i++) {
        slot_info *slot = &cache->slots[i];
        if (slot->state != FREE && !rl_cache_evict(cache, slot->key)) n_left++;
    }
    return n_left;
}

/* ---- figures ----------------------------------------------------------------------------------- */

void rl_cache_set_phase(rl_cache *cache, rl_cache_phase phase)
{
    RL_ASSERT(phase < RL_CACHE_N_PHASES);
    cache->phase = phase;
}

rl_cache_figures rl_cache_get_figures(const rl_cache *cache, rl_cache_phase phase)
{
    RL_ASSERT(phase < RL_CACHE_N_PHASES);
    return cache->figures[phase];
}

uint32_t rl_cache_distinct(const rl_cache *cache, rl_cache_phase phase, uint32_t layer)
{
    RL_ASSERT(phase < RL_CACHE_N_PHASES && layer < cache->n_layer);
    const uint8_t *asked = cache->asked + (size_t)layer * cache->n_expert;
    uint32_t n = 0;
    for (uint32_t e = 0; e < cache->n_expert; e++)
        n += asked[e] >> phase & 1;
    return n;
}

void rl_cache_reset_figures(rl_cache *cache, rl_cache_phase phase)
{
    RL_ASSERT(phase < RL_CACHE_N_PHASES);
    cache->figures[phase] = (rl_cache_figures){ 0 };
    for (size_t i = 0; i < (size_t)cache->n_layer * cache->n_expert; i++)
        cache->asked[i] &= (uint8_t) ~(1u << phase);
}

rl_cache_census rl_cache_count(const rl_cache *cache, uint32_t class)
{
    RL_ASSERT(class == RL_CACHE_NONE || class < cache->n_class);
    uint32_t first = class == RL_CACHE_NONE ? 0 : cache->classes[class].first;
    uint32_t n = class == RL_CACHE_NONE ? cache->n_slots : cache->classes[class].n_slots;
    rl_cache_census census = { .slots = n };
    for (uint32_t i = first; i < first + n; i++) {
        census.free += cache->slots[i].state == FREE;
        census.loading += cache->slots[i].state == LOADING;
        census.resident += cache->slots[i].state == RESIDENT;
        census.pinned += cache->slots[i].pins > 0;
    }
    return census;
}

uint32_t rl_cache_n_layer(const rl_cache *cache)
{
    return cache->n_layer;
}

uint32_t rl_cache_n_expert(const rl_cache *cache)
{
    return cache->n_expert;
}

/* ---- the invariants, said as code -------------------------------------------------------------- */

static void check_class(const rl_cache *cache, uint32_t c)
{
    const class_info *class = &cache->classes[c];
    uint32_t n_free = 0, n_listed = 0, prev = RL_CACHE_NONE;
    for (uint32_t i = class->free; i != RL_CACHE_NONE; i = cache->slots[i].next) {
        RL_ASSERT(i >= class->first && i - class->first < class->n_slots);
        RL_ASSERT(cache->slots[i].state == FREE && ++n_free <= class->n_slots);
    }
    for (uint32_t i = class->oldest; i != RL_CACHE_NONE; i = cache->slots[i].next) {
        RL_ASSERT(i >= class->first && i - class->first < class->n_slots);
        RL_ASSERT(cache->slots[i].state == RESIDENT && !cache->slots[i].pins);
        RL_ASSERT(cache->slots[i].prev == prev && ++n_listed <= class->n_slots);
        prev = i;
    }
    RL_ASSERT(class->newest == prev);
    for (uint32_t i = class->first; i < class->first + class->n_slots; i++) {
        const slot_info *slot = &cache->slots[i];
        if (slot->state == FREE) {
            RL_ASSERT(n_free-- && rl_key_is_none(slot->key) && !slot->pins && !slot->prefetched);
            continue;
        }
        RL_ASSERT(slot->state == LOADING || slot->state == RESIDENT);
        RL_ASSERT(*map_entry(cache, slot->key) == i);
        RL_ASSERT(cache->layer_class[slot->key.layer] == c);
        if (slot->state == RESIDENT && !slot->pins) RL_ASSERT(n_listed--);
    }
    RL_ASSERT(!n_free && !n_listed);
}

void rl_cache_check(const rl_cache *cache)
{
    for (uint32_t c = 0; c < cache->n_class; c++)
        check_class(cache, c);
    for (uint32_t l = 0; l < cache->n_layer; l++) {
        for (uint32_t e = 0; e < cache->n_expert; e++) {
            rl_expert_key key = { .layer = l, .expert = e };
            uint32_t i = *map_entry(cache, key);
            if (i == RL_CACHE_NONE) continue;
            RL_ASSERT(i < cache->n_slots && cache->slots[i].state != FREE);
            RL_ASSERT(cache->slots[i].key.layer == l && cache->slots[i].key.expert == e);
        }
    }
}
