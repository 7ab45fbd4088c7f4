/* test_expert_cache.c - the expert cache, its plan and the residency table.
 *
 * The large test plays random operations against a reference that is as simple as can be: an array
 * of slots with time stamps, searched from end to end. */
#include "support/test.h"

#include "cache/cache_plan.h"
#include "cache/expert_cache.h"
#include "cache/residency.h"

#define KEY(l, e) ((rl_expert_key){ .layer = (l), .expert = (e) })

static rl_cache *small_cache(uint32_t n_slots)
{
    rl_error err = { "" };
    rl_cache *cache = NULL;
    uint32_t layer_class[4] = { 0, 0, 0, 0 };
    assert_ok(rl_cache_create(&cache,
                              &(rl_cache_params){ .n_layer = 4,
                                                  .n_expert = 512,
                                                  .n_class = 1,
                                                  .layer_class = layer_class,
                                                  .class_slots = &n_slots },
                              &err));
    return cache;
}

static rl_slot load(rl_cache *cache, rl_expert_key key)
{
    rl_reservation r;
    if (rl_cache_reserve(cache, key, &r) == RL_RESERVE_MISS) rl_cache_commit(cache, r.slot);
    assert_false(rl_slot_is_none(r.slot));
    return r.slot;
}

static void load_release(rl_cache *cache, rl_expert_key key)
{
    rl_cache_release(cache, load(cache, key), RL_RELEASE_USED);
}

/* A slot that work in flight still reads must survive any pressure.
 * Stands against: evicted-under-the-GPU, which shows up as wrong text, not as a crash. */
static void cache_keeps_pinned_slots(void **state)
{
    (void)state;
    rl_cache *cache = small_cache(2);
    rl_slot held = load(cache, KEY(0, 7));
    for (uint32_t e = 100; e < 164; e++)
        load_release(cache, KEY(1, e));
    rl_slot now = rl_cache_find(cache, KEY(0, 7));
    assert_int_equal(now.index, held.index);
    rl_cache_check(cache);
    rl_cache_destroy(cache);
}

/* The least recently used expert leaves, and the reservation names it.
 * Stands against: a residency entry that survives its expert. */
static void cache_evicts_least_recently_used(void **state)
{
    (void)state;
    rl_cache *cache = small_cache(3);
    for (uint32_t e = 0; e < 3; e++)
        load_release(cache, KEY(0, e));
    assert_true(rl_cache_touch(cache, KEY(0, 0)));
    load_release(cache, KEY(0, 1));
    rl_reservation r;
    assert_int_equal(rl_cache_reserve(cache, KEY(3, 9), &r), RL_RESERVE_MISS);
    assert_int_equal(r.evicted_key.layer, 0);
    assert_int_equal(r.evicted_key.expert, 2);
    assert_true(rl_slot_is_none(rl_cache_find(cache, KEY(0, 2))));
    assert_true(rl_slot_is_none(rl_cache_find(cache, KEY(3, 9)))); /* still loading */
    rl_cache_abort(cache, r.slot);
    assert_int_equal(rl_cache_reserve(cache, KEY(3, 9), &r), RL_RESERVE_MISS);
    assert_true(rl_key_is_none(r.evicted_key)); /* the aborted slot was free */
    rl_cache_commit(cache, r.slot);
    assert_int_equal(rl_cache_find(cache, KEY(3, 9)).index, r.slot.index);
    assert_int_equal(rl_cache_clear(cache), 1); /* the pinned one stays */
    rl_cache_release(cache, r.slot, RL_RELEASE_USED);
    assert_int_equal(rl_cache_clear(cache), 0);
    assert_int_equal(rl_cache_count(cache, RL_CACHE_NONE).free, 3);
    rl_cache_destroy(cache);
}

/* The members of one batch do not push each other out, though the first of them misses while the
 * second is the next to leave. Stands against: reading a resident expert again. */
static void cache_batch_keeps_its_hits(void **state)
{
    (void)state;
    rl_cache *cache = small_cache(2);
    load_release(cache, KEY(0, 1));
    load_release(cache, KEY(0, 2));
    rl_reservation r[3];
    uint32_t ids[3] = { 5, 1, 6 };
    assert_int_equal(rl_cache_reserve_layer(cache, 0, ids, 3, r), 1);
    assert_int_equal(r[0].outcome, RL_RESERVE_MISS);
    assert_int_equal(r[0].evicted_key.expert, 2);
    assert_int_equal(r[1].outcome, RL_RESERVE_HIT);
    assert_int_equal(r[2].outcome, RL_RESERVE_BUSY);
    assert_true(rl_slot_is_none(r[2].slot));
    rl_cache_check(cache);
    rl_cache_destroy(cache);
}

/* A token that needs what a prefetch is reading joins that load, and an abort ends both.
 * Stands against: reading twice into two slots; a pin left on a free slot. */
static void cache_joins_a_load(void **state)
{
    (void)state;
    rl_cache *cache = small_cache(2);
    rl_cache_set_phase(cache, RL_CACHE_DECODE);
    rl_reservation first, second;
    assert_int_equal(rl_cache_prefetch(cache, KEY(2, 3), &first), RL_RESERVE_MISS);
    assert_int_equal(rl_cache_reserve(cache, KEY(2, 3), &second), RL_RESERVE_LOADING);
    assert_int_equal(first.slot.index, second.slot.index);
    rl_cache_commit(cache, first.slot);
    rl_cache_release(cache, first.slot, RL_RELEASE_UNUSED);
    assert_int_equal(rl_cache_count(cache, 0).pinned, 1);
    rl_cache_release(cache, second.slot, RL_RELEASE_USED);
    assert_int_equal(rl_cache_prefetch(cache, KEY(2, 4), &first), RL_RESERVE_MISS);
    assert_int_equal(rl_cache_reserve(cache, KEY(2, 4), &second), RL_RESERVE_LOADING);
    rl_cache_abort(cache, first.slot);
    assert_int_equal(rl_cache_count(cache, 0).pinned, 0);
    assert_int_equal(rl_cache_count(cache, 0).free, 1);
    rl_cache_figures figures = rl_cache_get_figures(cache, RL_CACHE_DECODE);
    assert_int_equal(figures.prefetches, 2);
    assert_int_equal(figures.prefetch_used, 2);
    assert_int_equal(figures.waits, 2);
    assert_int_equal(figures.misses, 0);
    assert_int_equal(figures.aborts, 1);
    assert_int_equal(rl_cache_distinct(cache, RL_CACHE_DECODE, 2), 2);
    assert_int_equal(rl_cache_distinct(cache, RL_CACHE_PREFILL, 2), 0);
    rl_cache_reset_figures(cache, RL_CACHE_DECODE);
    assert_int_equal(rl_cache_distinct(cache, RL_CACHE_DECODE, 2), 0);
    rl_cache_check(cache);
    rl_cache_destroy(cache);
}

/* What was prefetched in vain leaves before anything that a token used; an expert that was used
 * earlier does not lose its place because a prefetch guessed it. */
static void cache_unused_prefetch_leaves_first(void **state)
{
    (void)state;
    rl_cache *cache = small_cache(3);
    load_release(cache, KEY(0, 1));
    load_release(cache, KEY(0, 2));
    rl_reservation r;
    rl_cache_prefetch(cache, KEY(1, 1), &r);
    rl_cache_commit(cache, r.slot);
    rl_cache_release(cache, r.slot, RL_RELEASE_UNUSED);
    assert_int_equal(rl_cache_prefetch(cache, KEY(0, 1), &r), RL_RESERVE_HIT);
    rl_cache_release(cache, r.slot, RL_RELEASE_UNUSED);
    rl_cache_reserve(cache, KEY(1, 2), &r);
    assert_int_equal(r.evicted_key.layer, 1);
    assert_int_equal(r.evicted_key.expert, 1);
    assert_int_equal(rl_cache_get_figures(cache, RL_CACHE_PRELOAD).prefetch_wasted, 1);
    rl_cache_reserve(cache, KEY(1, 3), &r);
    assert_int_equal(r.evicted_key.expert, 2);
    rl_cache_check(cache);
    rl_cache_destroy(cache);
}

/* ---- random operations against a naive reference ----------------------------------------------- */

enum { LAYERS = 7, EXPERTS = 24, CLASSES = 3, SLOTS = 40, HELD = 64 };

typedef struct ref_slot {
    int state; /* 0 free, 1 loading, 2 resident */
    rl_expert_key key;
    uint32_t pins;
    int64_t stamp; /* the smallest leaves first */
    bool used;
} ref_slot;

typedef struct heard {
    rl_cache_event event;
    rl_expert_key key;
    rl_slot slot;
} heard;

typedef struct world {
    rl_cache *cache;
    rl_residency *residency;
    ref_slot slots[SLOTS];
    int64_t newest, oldest;
    rl_slot held[HELD]; /* one entry per pin */
    uint32_t n_held;
    heard events[4];
    uint32_t n_events;
} world;

static const uint32_t layer_class[LAYERS] = { 0, 1, 2, RL_CACHE_NONE, 1, 0, 1 };
static const uint32_t class_first[CLASSES + 1] = { 0, 9, 33, SLOTS };

static ref_slot *ref_at(world *w, rl_slot slot)
{
    assert_true(slot.class < CLASSES);
    assert_true(slot.index < class_first[slot.class + 1] - class_first[slot.class]);
    return &w->slots[class_first[slot.class] + slot.index];
}

static uint64_t slot_address(void *context, rl_slot slot)
{
    (void)context;
    return 0x10000 + 0x100 * (uint64_t)(class_first[slot.class] + slot.index);
}

static void listen(void *context, rl_cache_event event, rl_expert_key key, rl_slot slot)
{
    world *w = context;
    assert_true(w->n_events < 4);
    w->events[w->n_events++] = (heard){ event, key, slot };
    rl_residency_listen(w->residency, event, key, slot);
}

static bool same(rl_expert_key a, rl_expert_key b)
{
    return a.layer == b.layer && a.expert == b.expert;
}

static ref_slot *ref_find(world *w, rl_expert_key key)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (w->slots[i].state && same(w->slots[i].key, key)) return &w->slots[i];
    return NULL;
}

static ref_slot *ref_victim(world *w, uint32_t class)
{
    ref_slot *victim = NULL;
    for (uint32_t i = class_first[class]; i < class_first[class + 1]; i++) {
        ref_slot *slot = &w->slots[i];
        if (slot->state == 2 && !slot->pins && (!victim || slot->stamp < victim->stamp))
            victim = slot;
    }
    return victim;
}

static bool ref_has_free(world *w, uint32_t class)
{
    for (uint32_t i = class_first[class]; i < class_first[class + 1]; i++)
        if (!w->slots[i].state) return true;
    return false;
}

static void ref_unpinned(world *w, ref_slot *slot)
{
    slot->stamp = slot->used ? ++w->newest : --w->oldest;
}

static void expect_event(world *w, uint32_t i, rl_cache_event event, rl_expert_key key)
{
    assert_true(i < w->n_events);
    assert_int_equal(w->events[i].event, event);
    assert_true(same(w->events[i].key, key));
}

static void play_reserve(world *w, rl_expert_key key, bool prefetch)
{
    rl_reservation r;
    ref_slot *slot = ref_find(w, key);
    uint32_t class = layer_class[key.layer];
    if (w->n_held == HELD) return;
    rl_reserve outcome =
        prefetch ? rl_cache_prefetch(w->cache, key, &r) : rl_cache_reserve(w->cache, key, &r);
    assert_int_equal(outcome, r.outcome);
    assert_true(same(r.key, key));
    if (slot) {
        assert_int_equal(outcome, slot->state == 2 ? RL_RESERVE_HIT : RL_RESERVE_LOADING);
        assert_ptr_equal(ref_at(w, r.slot), slot);
        assert_int_equal(w->n_events, 0);
        slot->pins++;
        w->held[w->n_held++] = r.slot;
        return;
    }
    ref_slot *victim = ref_victim(w, class);
    if (ref_has_free(w, class)) {
        assert_int_equal(outcome, RL_RESERVE_MISS);
        assert_true(rl_key_is_none(r.evicted_key));
        assert_int_equal(ref_at(w, r.slot)->state, 0);
        assert_int_equal(w->n_events, 0);
    } else if (victim) {
        assert_int_equal(outcome, RL_RESERVE_MISS);
        assert_true(same(r.evicted_key, victim->key));
        assert_ptr_equal(ref_at(w, r.slot), victim);
        assert_int_equal(w->n_events, 1);
        expect_event(w, 0, RL_CACHE_EVICTED, victim->key);
    } else {
        assert_int_equal(outcome, RL_RESERVE_BUSY);
        assert_true(rl_slot_is_none(r.slot));
        return;
    }
    assert_int_equal(r.slot.class, class);
    *ref_at(w, r.slot) = (ref_slot){ .state = 1, .key = key, .pins = 1 };
    w->held[w->n_held++] = r.slot;
}

static void play_finish(world *w, rl_slot name, bool commit)
{
    ref_slot *slot = ref_at(w, name);
    if (slot->state != 1) return;
    if (commit) {
        rl_cache_commit(w->cache, name);
        slot->state = 2;
        if (!slot->pins) ref_unpinned(w, slot);
        expect_event(w, 0, RL_CACHE_COMMITTED, slot->key);
        return;
    }
    rl_cache_abort(w->cache, name);
    expect_event(w, 0, RL_CACHE_ABORTED, slot->key);
    for (uint32_t i = 0; i < w->n_held;) {
        if (ref_at(w, w->held[i]) == slot)
            w->held[i] = w->held[--w->n_held];
        else
            i++;
    }
    *slot = (ref_slot){ .state = 0 };
}

static void play_release(world *w, uint32_t which, rl_release how)
{
    if (!w->n_held) return;
    which %= w->n_held;
    rl_slot name = w->held[which];
    ref_slot *slot = ref_at(w, name);
    w->held[which] = w->held[--w->n_held];
    rl_cache_release(w->cache, name, how);
    if (how == RL_RELEASE_USED) slot->used = true;
    slot->pins--;
    if (!slot->pins && slot->state == 2) ref_unpinned(w, slot);
}

static void play_touch(world *w, rl_expert_key key)
{
    ref_slot *slot = ref_find(w, key);
    bool there = slot && slot->state == 2;
    assert_int_equal(rl_cache_touch(w->cache, key), there);
    if (!there) return;
    slot->used = true;
    if (!slot->pins) ref_unpinned(w, slot);
}

static void play_evict(world *w, rl_expert_key key)
{
    ref_slot *slot = ref_find(w, key);
    bool can = slot && slot->state == 2 && !slot->pins;
    assert_int_equal(rl_cache_evict(w->cache, key), can);
    if (!can) return;
    expect_event(w, 0, RL_CACHE_EVICTED, key);
    *slot = (ref_slot){ .state = 0 };
}

static void compare_everything(world *w)
{
    rl_cache_check(w->cache);
    rl_residency_check(w->residency, w->cache);
    for (uint32_t l = 0; l < LAYERS; l++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            ref_slot *slot = ref_find(w, KEY(l, e));
            rl_slot name = rl_cache_find(w->cache, KEY(l, e));
            assert_int_equal(rl_slot_is_none(name), !slot || slot->state != 2);
            if (slot && slot->state == 2) assert_ptr_equal(ref_at(w, name), slot);
        }
    }
    rl_cache_census census = rl_cache_count(w->cache, RL_CACHE_NONE);
    uint32_t n[3] = { 0 }, n_pinned = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        n[w->slots[i].state]++;
        n_pinned += w->slots[i].pins > 0;
    }
    assert_int_equal(census.free, n[0]);
    assert_int_equal(census.loading, n[1]);
    assert_int_equal(census.resident, n[2]);
    assert_int_equal(census.pinned, n_pinned);
}

/* Three million random operations; every answer, every event and now and then the whole state are
 * compared. Stands against: anything the writer of the cache did not think of. */
static void cache_agrees_with_reference(void **state)
{
    (void)state;
    rl_error err = { "" };
    static world w;
    uint32_t class_slots[CLASSES];
    for (uint32_t c = 0; c < CLASSES; c++)
        class_slots[c] = class_first[c + 1] - class_first[c];
    assert_ok(rl_residency_create(&w.residency, LAYERS, EXPERTS, NULL, slot_address, NULL, &err));
    assert_ok(rl_cache_create(&w.cache,
                              &(rl_cache_params){ .n_layer = LAYERS,
                                                  .n_expert = EXPERTS,
                                                  .n_class = CLASSES,
                                                  .layer_class = layer_class,
                                                  .class_slots = class_slots,
                                                  .listener = listen,
                                                  .context = &w },
                              &err));
    uint64_t random = 42;
    for (uint32_t step = 0; step < 3000000; step++) {
        uint64_t dice = rl_test_random(&random);
        rl_expert_key key = KEY(dice % LAYERS, (dice >> 8) % EXPERTS);
        rl_slot name = { .class = (dice >> 16) % CLASSES };
        name.index = (dice >> 24) % class_slots[name.class];
        bool flag = dice >> 32 & 1, rare = (dice >> 33) % 8 == 0;
        if (key.layer == 3) key.layer = 4; /* layer 3 has no experts */
        w.n_events = 0;
        /* phases of pressure (many pins) and of calm, so that both full and idle states occur */
        uint32_t pressure = step / 5000 % 3;
        switch ((dice >> 40) % 16) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4: play_reserve(&w, key, rare); break;
        case 5:
        case 6:
        case 7: play_finish(&w, name, !rare); break;
        case 8:
        case 9: play_touch(&w, key); break;
        case 10:
            if (rare) play_evict(&w, key);
            break;
        default:
            if (pressure != 2 || flag)
                play_release(&w, (uint32_t)(dice >> 48),
                             rare ? RL_RELEASE_UNUSED : RL_RELEASE_USED);
        }
        if (step % 512 == 0) compare_everything(&w);
    }
    compare_everything(&w);
    rl_cache_figures figures = rl_cache_get_figures(w.cache, RL_CACHE_PRELOAD);
    assert_true(figures.hits > 10000 && figures.misses > 10000 && figures.waits > 10000);
    assert_true(figures.busy > 1000 && figures.aborts > 1000 && figures.evictions > 10000);
    assert_true(figures.prefetch_used + figures.prefetch_wasted <= figures.prefetches);
    rl_cache_destroy(w.cache);
    rl_residency_destroy(w.residency);
}

/* Stands against: a mirror on the device that misses a change. */
static void residency_dirty_range_covers_changes(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_residency *residency = NULL;
    uint64_t mirror[LAYERS * EXPERTS], lent[LAYERS * EXPERTS];
    memset(lent, 0x55, sizeof lent);
    assert_ok(rl_residency_create(&residency, LAYERS, EXPERTS, lent, slot_address, NULL, &err));
    assert_ptr_equal(rl_residency_table(residency), lent);
    uint64_t random = 7;
    for (uint32_t round = 0; round < 2000; round++) {
        for (uint64_t i = rl_test_random(&random) % 4; i; i--) {
            uint64_t dice = rl_test_random(&random);
            rl_residency_set(residency, KEY(dice % LAYERS, (dice >> 8) % EXPERTS), dice >> 16);
        }
        uint32_t first, count;
        if (rl_residency_take_dirty(residency, &first, &count))
            memcpy(mirror + first, rl_residency_table(residency) + first, count * sizeof *mirror);
        assert_memory_equal(mirror, rl_residency_table(residency), sizeof mirror);
    }
    rl_residency_destroy(residency);
}

/* ---- the plan ---------------------------------------------------------------------------------- */

static void target_layers(uint64_t bytes[48])
{
    for (uint32_t l = 0; l < 48; l++)
        bytes[l] = l < 6 || l > 42 ? 909312 : 688128;
}

/* The geometry of the 80B file: two classes, 17,316 MiB when everything fits.
 * Stands against: paying 21,312 MiB for slots of one size. */
static void plan_target_model(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_cache_plan plan;
    uint64_t bytes[48];
    target_layers(bytes);
    rl_cache_plan_params params = { .n_layer = 48,
                                    .n_expert = 512,
                                    .n_expert_used = 10,
                                    .layer_bytes = bytes,
                                    .budget_bytes = UINT64_MAX,
                                    .name = "target" };
    assert_ok(rl_cache_plan_init(&plan, &params, &err));
    assert_true(plan.full);
    assert_int_equal(plan.n_class, 2);
    assert_int_equal(plan.bytes, 18157142016);
    assert_int_equal(plan.n_slots, 24576);
    assert_int_equal(plan.layer_class[5], 0);
    assert_int_equal(plan.layer_class[6], 1);
    assert_int_equal(plan.classes[0].n_layer, 11);
    rl_cache_plan_fini(&plan);

    params.budget_bytes = 18157142016 - 1;
    assert_ok(rl_cache_plan_init(&plan, &params, &err));
    assert_false(plan.full);
    assert_int_equal(plan.n_slots, 24575);
    rl_cache_plan_fini(&plan);

    params.budget_bytes = 4096ull << 20;
    assert_ok(rl_cache_plan_init(&plan, &params, &err));
    double share0 = (double)plan.classes[0].n_slots / plan.classes[0].n_expert;
    double share1 = (double)plan.classes[1].n_slots / plan.classes[1].n_expert;
    assert_true(share0 > 0.235 && share0 < 0.238 && share1 > 0.235 && share1 < 0.238);
    assert_true(plan.bytes <= params.budget_bytes && params.budget_bytes - plan.bytes < 688128);
    rl_cache_plan_fini(&plan);
}

/* The sentence names a minimum that then works, and one byte less does not. */
static void plan_names_the_minimum(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_cache_plan plan;
    uint64_t bytes[48];
    target_layers(bytes);
    rl_cache_plan_params params = { .n_layer = 48,
                                    .n_expert = 512,
                                    .n_expert_used = 10,
                                    .layer_bytes = bytes,
                                    .budget_bytes = 1 << 20,
                                    .name = "target.gguf" };
    assert_int_equal(rl_cache_plan_init(&plan, &params, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "target.gguf"));
    assert_non_null(strstr(err.text, "the minimum is 16 MiB"));
    params.budget_bytes = 16 << 20;
    assert_ok(rl_cache_plan_init(&plan, &params, &err));
    assert_true(plan.classes[0].n_slots >= 10 && plan.classes[1].n_slots >= 10);
    params.budget_bytes = plan.minimum_bytes;
    rl_cache_plan_fini(&plan);
    assert_ok(rl_cache_plan_init(&plan, &params, &err));
    assert_int_equal(plan.bytes, params.budget_bytes);
    rl_cache_plan_fini(&plan);
    params.budget_bytes--;
    assert_int_equal(rl_cache_plan_init(&plan, &params, &err), RL_INVALID);
}

/* Any sizes and budgets: the bounds hold, and no slot more would have fitted.
 * Stands against: overflow, and memory beyond what the user allowed. */
static void plan_bounds_hold(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (uint32_t round = 0; round < 3000; round++) {
        rl_error err = { "" };
        rl_cache_plan plan;
        uint64_t bytes[24];
        uint32_t n_layer = 1 + rl_test_random(&random) % 24;
        uint64_t shift = rl_test_random(&random) % 40, n_sizes = 1 + rl_test_random(&random) % 6;
        for (uint32_t l = 0; l < n_layer; l++)
            bytes[l] = (1 + rl_test_random(&random) % n_sizes) * ((333ull << shift) + 7);
        if (n_layer > 1) bytes[rl_test_random(&random) % n_layer] = 0;
        uint32_t n_expert = 1 + rl_test_random(&random) % 64;
        rl_cache_plan_params params = { .n_layer = n_layer,
                                        .n_expert = n_expert,
                                        .n_expert_used =
                                            1 + (uint32_t)rl_test_random(&random) % n_expert,
                                        .layer_bytes = bytes,
                                        .align = 1ull << rl_test_random(&random) % 13,
                                        .budget_bytes =
                                            rl_test_random(&random) >> rl_test_random(&random) % 50,
                                        .name = "random" };
        rl_status status = rl_cache_plan_init(&plan, &params, &err);
        if (status) {
            assert_int_equal(status, RL_INVALID);
            continue;
        }
        uint64_t sum = 0;
        uint32_t n_slots = 0;
        for (uint32_t c = 0; c < plan.n_class; c++) {
            rl_cache_plan_class *class = &plan.classes[c];
            assert_true(class->n_slots >= class->n_minimum && class->n_slots <= class->n_expert);
            assert_int_equal(class->slot_bytes % params.align, 0);
            assert_int_equal(plan.class_slots[c], class->n_slots);
            sum += class->slot_bytes * class->n_slots;
            n_slots += class->n_slots;
            if (class->n_slots < class->n_expert)
                assert_true(params.budget_bytes - plan.bytes < class->slot_bytes);
        }
        for (uint32_t l = 0; l < n_layer; l++) {
            uint32_t c = plan.layer_class[l];
            assert_int_equal(c == RL_CACHE_NONE, bytes[l] == 0);
            if (c != RL_CACHE_NONE)
                assert_true(plan.classes[c].slot_bytes >= bytes[l] &&
                            plan.classes[c].slot_bytes - bytes[l] < params.align);
        }
        assert_true(sum == plan.bytes && sum <= params.budget_bytes);
        assert_int_equal(plan.full, n_slots == plan.n_expert);
        rl_cache_plan_fini(&plan);
    }
}

/* Sizes that a malformed file may claim. */
static void plan_refuses_impossible_sizes(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_cache_plan plan;
    uint64_t bytes[2] = { 0, 0 };
    rl_cache_plan_params params = { .n_layer = 2,
                                    .n_expert = 512,
                                    .n_expert_used = 10,
                                    .layer_bytes = bytes,
                                    .budget_bytes = UINT64_MAX,
                                    .name = "odd.gguf" };
    assert_int_equal(rl_cache_plan_init(&plan, &params, &err), RL_FORMAT);
    bytes[0] = UINT64_MAX - 3;
    assert_int_equal(rl_cache_plan_init(&plan, &params, &err), RL_FORMAT);
    bytes[0] = UINT64_MAX / 512;
    assert_int_equal(rl_cache_plan_init(&plan, &params, &err), RL_FORMAT);
    bytes[0] = UINT64_MAX / 1024;
    bytes[1] = UINT64_MAX / 1024 - 64;
    params.budget_bytes = UINT64_MAX;
    rl_status status = rl_cache_plan_init(&plan, &params, &err);
    assert_true(status == RL_OK || status == RL_FORMAT);
    rl_cache_plan_fini(&plan);
}

RL_TEST_MAIN(RL_TEST(cache, keeps_pinned_slots), RL_TEST(cache, evicts_least_recently_used),
             RL_TEST(cache, batch_keeps_its_hits), RL_TEST(cache, joins_a_load),
             RL_TEST(cache, unused_prefetch_leaves_first), RL_TEST(cache, agrees_with_reference),
             RL_TEST(residency, dirty_range_covers_changes), RL_TEST(plan, target_model),
             RL_TEST(plan, names_the_minimum), RL_TEST(plan, bounds_hold),
             RL_TEST(plan, refuses_impossible_sizes))
