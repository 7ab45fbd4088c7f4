/* experts_run.c - one layer's experts: reserve, read, compute, let go.
 *
 * All misses of a layer are in flight together; what is in memory is computed meanwhile, and what
 * arrives is computed as it comes. The order in which slots are let go, and so the LRU order, is the
 * order of the ids, whatever order they arrived in. */
#include "engine/experts_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

/* ---- who wants what -------------------------------------------------------------------------- */

/* Groups the tokens by expert: a counting sort of ids [n][K]. */
static void plan_groups(rl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n_tokens)
{
    const rl_shape *s = &x->engine->net.shape;
    uint32_t n = n_tokens * s->n_expert_used;
    memset(x->starts, 0, ((size_t)s->n_expert + 1) * sizeof *x->starts);
    for (uint32_t i = 0; i < n; i++)
        x->starts[ids[i] + 1]++;
    x->layer = layer;
    x->n_wanted = 0;
    for (uint32_t e = 0; e < s->n_expert; e++) {
        uint32_t count = x->starts[e + 1];
        x->starts[e + 1] += x->starts[e];
        if (!count) continue;
        uint32_t w = x->n_wanted++;
        x->ids[w] = e;
        x->computed[w] = false;
        x->states[w] = RL_EXPERT_UNHELD;
        x->groups[w] =
            (rl_expert_group){ .expert = e, .n = count, .assign = x->assign + x->starts[e] };
    }
    for (uint32_t i = 0; i < n; i++)
        x->assign[x->starts[ids[i]]++] = i;
}

/* Starts the reads that the answers ask for, and notes where each expert stands. */
static void take_answers(rl_experts *x)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        if (x->computed[w] || x->states[w] != RL_EXPERT_UNHELD) continue;
        switch (x->answers[w].outcome) {
        case RL_RESERVE_HIT: x->states[w] = RL_EXPERT_RESIDENT; break;
        case RL_RESERVE_MISS:
            x->states[w] = RL_EXPERT_LOADING;
            rl_experts_request(x, x->answers[w].key, x->answers[w].slot, &x->misses[n++]);
            break;
        case RL_RESERVE_LOADING: /* read ahead, and needed now */
            x->states[w] = RL_EXPERT_LOADING;
            rl_stream_promote(x->stream, x->answers[w].slot);
            break;
        case RL_RESERVE_BUSY: break;
        }
    }
    /* What the stream has no room for is given back and asked for again in the next wave. */
    uint32_t accepted = n ? rl_stream_submit(x->stream, x->misses, n) : 0;
    for (uint32_t i = accepted; i < n; i++)
        for (uint32_t w = 0; w < x->n_wanted; w++)
            if (x->ids[w] == x->misses[i].key.expert) {
                rl_cache_abort(x->cache, x->answers[w].slot);
                x->states[w] = RL_EXPERT_UNHELD;
            }
}

/* ---- arrivals -------------------------------------------------------------------------------- */

/* One answer of the stream goes to whoever waits for it: the layer under way, or the list of those
 * read ahead. A failed read only matters to the layer under way. */
static rl_status take_arrival(rl_experts *x, const rl_stream_done *done, const rl_error *why,
                              rl_error *err)
{
    rl_error changed = { "" };
    rl_status status = RL_OK, arrived = done->status;
    if (!arrived && rl_experts_check_files(x, &changed)) {
        arrived = RL_IO;
        why = &changed;
    }
    if (arrived)
        rl_cache_abort(x->cache, done->slot);
    else
        rl_cache_commit(x->cache, done->slot);
    x->figures.bytes += done->bytes;
    if (x->decoding) x->figures.decode_bytes += done->bytes;
    for (uint32_t a = 0; a < x->n_ahead; a++)
        if (x->ahead[a].key.layer == done->key.layer &&
            x->ahead[a].key.expert == done->key.expert) {
            x->ahead[a].loading = false;
            if (arrived) x->ahead[a] = x->ahead[--x->n_ahead];
            break;
        }
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (x->layer == done->key.layer && x->ids[w] == done->key.expert &&
            x->states[w] == RL_EXPERT_LOADING) {
            x->states[w] = arrived ? RL_EXPERT_UNHELD : RL_EXPERT_RESIDENT;
            if (arrived && why == &changed)
                status = rl_fail(err, arrived, "expert %u of layer %u: %.400s", done->key.expert,
                                 done->key.layer, why->text);
            else if (arrived) /* the reader has named the expert */
                status = rl_fail(err, arrived, "%.480s", why->text);
        }
    return status;
}

static bool any_loading(const rl_experts *x)
{
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (x->states[w] == RL_EXPERT_LOADING) return true;
    return false;
}

/* Takes what has arrived; with `wait`, at least one expert of the layer under way. */
static rl_status take_arrivals(rl_experts *x, bool wait, rl_error *err)
{
    rl_status status = RL_OK;
    rl_stream_done done;
    rl_error why = { "" };
    uint64_t start = rl_clock_ns();
    bool waited = false;
    while (!status && any_loading(x)) {
        bool arrived = rl_stream_poll(x->stream, &done, &why);
        if (!arrived && wait && !waited) arrived = rl_stream_wait(x->stream, &done, &why);
        if (!arrived) break;
        waited = waited || done.key.layer == x->layer;
        status = take_arrival(x, &done, &why, err);
    }
    if (wait) {
        uint64_t spent = rl_clock_ns() - start;
        x->figures.wait_ns += spent;
        if (x->decoding) x->figures.decode_wait_ns += spent;
    }
    return status;
}

/* ---- computing and letting go ---------------------------------------------------------------- */

/* Computes every expert that is in memory and not done yet. */
static rl_status compute_resident(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    uint32_t n = 0;
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w] && x->states[w] == RL_EXPERT_RESIDENT) x->ready[n++] = x->groups[w];
    if (!n) return RL_OK;
    rl_status status = e->ops->moe_experts(e->be, x->layer, x->ready, n, err);
    if (status) return status;
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (x->states[w] == RL_EXPERT_RESIDENT) x->computed[w] = true;
    return RL_OK;
}

/* Ends every reservation of the layer. Reads still in flight (after a failure) are waited for: the
 * slots they fill cannot be anybody else's before. */
static void release_all(rl_experts *x)
{
    rl_error ignored;
    while (any_loading(x))
        (void)take_arrivals(x, true, &ignored);
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        if (x->states[w] == RL_EXPERT_RESIDENT)
            rl_cache_release(x->cache, x->answers[w].slot, RL_RELEASE_USED);
        x->states[w] = RL_EXPERT_UNHELD;
    }
}

/* More experts than slots: lets go of what is computed, and asks for what found no slot. A device
 * may still be reading the old ones: it is drained first. */
static rl_status next_wave(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    rl_status status = e->ops->drain ? e->ops->drain(e->be, err) : RL_OK;
    if (status) return status;
    RL_ASSERT(!x->n_ahead); /* what is read ahead has room of its own: read_ahead() */
    release_all(x);
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w])
            rl_cache_reserve(x->cache, (rl_expert_key){ x->layer, x->ids[w] }, &x->answers[w]);
    take_answers(x);
    return RL_OK;
}

static bool all_computed(const rl_experts *x)
{
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w]) return false;
    return true;
}

/* ---- reading ahead --------------------------------------------------------------------------- */

/* A guess costs bytes of the disk's time if it is wrong and hides the reading of an expert if it is
 * right, so those are followed that are right more often than not. What a rank is worth differs
 * between models: docs/decisions/0004-prefetch.md. */
#define TRUST_LEAST  0.55f
#define TRUST_WEIGHT (1 / 256.0f) /* of the newest guess */
enum { QUIET_TOKENS = 8 };        /* without a miss: then nothing is guessed either */

/* Compares the guesses with what the layer wants. */
static void learn_from_guesses(rl_experts *x)
{
    for (uint32_t i = 0; i < x->n_guesses; i++) {
        bool right = false;
        for (uint32_t w = 0; w < x->n_wanted && !right; w++)
            right = x->ids[w] == x->guesses[i].expert;
        x->trust[i] += TRUST_WEIGHT * ((right ? 1.0f : 0.0f) - x->trust[i]);
    }
    x->n_guesses = 0;
}

/* The layer that they were read for has reserved what it wants. What is still waiting to be read was
 * a wrong guess and is not begun. */
static void release_ahead(rl_experts *x)
{
    uint32_t kept = 0, loading = 0;
    for (uint32_t a = 0; a < x->n_ahead; a++)
        if (x->ahead[a].loading) {
            x->ahead[kept++] = x->ahead[a];
            loading++;
        } else {
            rl_cache_release(x->cache, x->ahead[a].slot, RL_RELEASE_UNUSED);
        }
    x->n_ahead = kept;
    if (loading) rl_stream_cancel(x->stream, true);
}

/* Asks the next layer's router what it would choose now, and starts to read what is absent. */
static rl_status read_ahead(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    uint32_t next = x->layer + 1, k = e->net.shape.n_expert_used, n = 0;
    uint32_t ids[RL_MAX_EXPERTS_USED];
    rl_stream_request requests[RL_MAX_EXPERTS_USED];
    x->asked = true;
    if (next >= e->net.shape.n_layer || x->quiet >= QUIET_TOKENS) return RL_OK;
    if (!e->net.layers[next].guessed) return RL_OK;
    rl_status status = e->ops->route_ahead(e->be, next, ids, err);
    if (status) return status;
    x->n_guesses = k;
    for (uint32_t i = 0; i < k; i++)
        x->guesses[i] = (rl_expert_key){ next, ids[i] };
    const uint32_t most = 2 * k < RL_MAX_EXPERTS_USED ? 2 * k : RL_MAX_EXPERTS_USED;
    for (uint32_t i = 0; i < k && x->n_ahead < most; i++) {
        rl_expert_key key = x->guesses[i];
        rl_reservation r;
        if (x->trust[i] < TRUST_LEAST || !rl_slot_is_none(rl_cache_find(x->cache, key))) continue;
        if (rl_stream_room(x->stream) <= n) break;
        if (rl_cache_prefetch(x->cache, key, &r) != RL_RESERVE_MISS) {
            if (r.outcome != RL_RESERVE_BUSY) rl_cache_release(x->cache, r.slot, RL_RELEASE_UNUSED);
            continue;
        }
        rl_experts_request(x, key, r.slot, &requests[n]);
        requests[n++].prefetch = true;
        x->ahead[x->n_ahead++] = (rl_expert_ahead){ .key = key, .slot = r.slot, .loading = true };
    }
    x->n_absent += n;
    uint32_t accepted = n ? rl_stream_submit(x->stream, requests, n) : 0;
    RL_ASSERT(accepted == n);
    return RL_OK;
}

/* Between layers: takes what has arrived meanwhile; with `all`, everything that is still under way. */
static void take_rest(rl_experts *x, bool all)
{
    rl_stream_done done;
    rl_error why = { "" };
    x->n_wanted = 0;
    while (all ? rl_stream_wait(x->stream, &done, &why) : rl_stream_poll(x->stream, &done, &why))
        (void)take_arrival(x, &done, &why, NULL);
}

/* ---- one layer of one batch ------------------------------------------------------------------ */

static void begin_layer(rl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n_tokens)
{
    if (x->n_ahead) take_rest(x, x->settle_ahead);
    rl_experts_settle(x);
    plan_groups(x, layer, ids, n_tokens);
    x->asked = false;
    rl_cache_reserve_layer(x->cache, layer, x->ids, x->n_wanted, x->answers);
    take_answers(x);
    uint32_t absent = 0;
    for (uint32_t w = 0; w < x->n_wanted; w++)
        absent += x->answers[w].outcome != RL_RESERVE_HIT;
    x->n_absent += absent;
    x->n_layers_read += absent || x->n_ahead;
    learn_from_guesses(x);
    release_ahead(x);
}

rl_status rl_experts_run(rl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n_tokens,
                         rl_error *err)
{
    rl_engine *e = x->engine;
    begin_layer(x, layer, ids, n_tokens);
    rl_status status = n_tokens == 1 ? read_ahead(x, err) : RL_OK;
    while (!status && x->no_overlap && any_loading(x))
        status = take_arrivals(x, true, err);
    if (!status) status = e->ops->moe_shared(e->be, layer, err);
    while (!status) {
        status = compute_resident(x, err);
        if (status || all_computed(x)) break;
        status = any_loading(x) ? take_arrivals(x, true, err) : next_wave(x, err);
    }
    release_all(x);
    return status;
}

void rl_experts_begin(rl_experts *x, uint32_t n_tokens)
{
    if (n_tokens != 1) rl_experts_settle(x); /* they count as decoding */
    x->decoding = n_tokens == 1;
    x->n_absent = 0;
    x->n_layers_read = 0;
    x->n_guesses = 0;
    x->busy_at_begin_ns = rl_stream_get_figures(x->stream).busy_ns;
    rl_cache_set_phase(x->cache, x->decoding ? RL_CACHE_DECODE : RL_CACHE_PREFILL);
}

/* Nothing stays in flight or pinned between batches. */
void rl_experts_end(rl_experts *x)
{
    if (x->n_ahead) rl_stream_cancel(x->stream, true);
    take_rest(x, true);
    release_ahead(x);
    x->quiet = x->n_absent ? 0 : x->quiet + 1;
    if (x->decoding)
        x->figures.decode_reading_ns +=
            rl_stream_get_figures(x->stream).busy_ns - x->busy_at_begin_ns;
}

/* ---- for the routed steps -------------------------------------------------------------------- */

rl_status rl_experts_load(rl_experts *x, uint32_t layer, const uint32_t *ids, bool ahead,
                          rl_error *err)
{
    RL_ASSERT(!x->n_held);
    begin_layer(x, layer, ids, 1);
    rl_status status = ahead && any_loading(x) ? read_ahead(x, err) : RL_OK;
    while (!status && any_loading(x))
        status = take_arrivals(x, true, err);
    if (status) {
        release_all(x);
        return status;
    }
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        RL_ASSERT(x->states[w] == RL_EXPERT_RESIDENT); /* a pool has room for a layer of a token */
        x->held[w] = x->answers[w].slot;
    }
    x->n_held = x->n_wanted;
    x->n_wanted = 0;
    return RL_OK;
}

rl_status rl_experts_read_ahead(rl_experts *x, rl_error *err)
{
    return x->asked ? RL_OK : read_ahead(x, err);
}

void rl_experts_unload(rl_experts *x)
{
    for (uint32_t i = 0; i < x->n_held; i++)
        rl_cache_release(x->cache, x->held[i], RL_RELEASE_USED);
    x->n_held = 0;
}

static void touch(rl_experts *x, uint32_t layer, const uint32_t *ids)
{
    plan_groups(x, layer, ids, 1);
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        bool resident = rl_cache_touch(x->cache, (rl_expert_key){ layer, x->ids[w] });
        RL_ASSERT(resident);
    }
    x->n_wanted = 0;
}

void rl_experts_settle(rl_experts *x)
{
    const rl_shape *s = &x->engine->net.shape;
    for (; x->late_from < s->n_layer; x->late_from++)
        touch(x, x->late_from, x->late + (size_t)x->late_from * s->n_expert_used);
}

void rl_experts_touch_later(rl_experts *x, uint32_t from, const uint32_t *choices)
{
    const rl_shape *s = &x->engine->net.shape;
    rl_experts_settle(x);
    memcpy(x->late, choices, (size_t)s->n_layer * s->n_expert_used * sizeof *choices);
    x->late_from = from;
}

void rl_experts_touch(rl_experts *x, uint32_t layer, const uint32_t *ids)
{
    rl_experts_settle(x);
    touch(x, layer, ids);
}

rl_cache *rl_experts_cache(rl_experts *x)
{
    rl_experts_settle(x);
    return x->cache;
}
