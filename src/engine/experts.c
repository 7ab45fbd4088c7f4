/* experts.c - reserve, read, compute: one layer's experts at a time. */
#include "engine/experts.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"

enum { MATRIX_ALIGN = 256, PIECE = 1 << 20 };

struct rl_experts {
    rl_engine *engine;
    rl_cache_plan plan;
    rl_cache *cache;
    rl_residency *residency;

    /* The layer under way: n_wanted experts, ascending, which is file order. */
    uint32_t layer, n_wanted;
    uint32_t *ids;           /* [n_expert] */
    rl_expert_group *groups; /* [n_expert] the tokens of each */
    rl_reservation *answers; /* [n_expert] the cache's answer for each */
    bool *computed;          /* [n_expert] */
    rl_expert_group *ready;  /* [n_expert] the groups of one moe_experts call */
    uint32_t *assign;        /* [n_batch K] storage behind all groups */
    uint32_t *starts;        /* [n_expert + 1] */
    uint8_t *piece;          /* [PIECE] */

    rl_slot held[RL_MAX_EXPERTS_USED]; /* by rl_experts_load() */
    uint32_t n_held;
    uint64_t load_ns; /* spent in reading and waiting for it */
};

rl_expert_layout rl_experts_layout(const rl_weights *weights, uint32_t layer)
{
    const rl_weights_layer *l = &weights->layers[layer];
    rl_slice slices[RL_EXPERT_MATRICES];
    rl_weights_expert(weights, layer, 0, slices);
    rl_expert_layout out = {
        .gate_type = rl_weights_expert_type(l, RL_EXPERT_GATE),
        .up_type = rl_weights_expert_type(l, RL_EXPERT_UP),
        .down_type = rl_weights_expert_type(l, RL_EXPERT_DOWN),
    };
    out.up_offset = rl_align_up(slices[RL_EXPERT_GATE].bytes, MATRIX_ALIGN);
    out.down_offset = rl_align_up(out.up_offset + slices[RL_EXPERT_UP].bytes, MATRIX_ALIGN);
    out.bytes = rl_align_up(out.down_offset + slices[RL_EXPERT_DOWN].bytes, MATRIX_ALIGN);
    return out;
}

/* ---- life ------------------------------------------------------------------------------------ */

static uint64_t slot_address(void *context, rl_slot slot)
{
    rl_engine *e = ((rl_experts *)context)->engine;
    return e->ops->slot_address(e->be, slot.class, slot.index);
}

/* The cache's listener: first our table, then the backend's. */
static void residency_changed(void *context, rl_cache_event event, rl_expert_key key, rl_slot slot)
{
    rl_experts *x = context;
    rl_residency_listen(x->residency, event, key, slot);
    x->engine->ops->residency_set(x->engine->be, key.layer, key.expert,
                                  rl_residency_get(x->residency, key));
}

static rl_status make_plan(rl_experts *x, const rl_engine_params *params, rl_error *err)
{
    rl_engine *e = x->engine;
    uint32_t n_layer = e->net.shape.n_layer;
    uint64_t *layer_bytes = calloc(n_layer, sizeof *layer_bytes);
    if (!layer_bytes) return rl_fail(err, RL_NOMEM, "no memory for the plan of the expert pool");
    for (uint32_t i = 0; i < n_layer; i++)
        layer_bytes[i] = e->net.layers[i].expert.bytes;
    rl_cache_plan_params plan = {
        .n_layer = n_layer,
        .n_expert = e->net.shape.n_expert,
        .n_expert_used = e->net.shape.n_expert_used,
        .layer_bytes = layer_bytes,
        .align = MATRIX_ALIGN,
        .budget_bytes = params->cache_bytes ? params->cache_bytes : UINT64_MAX,
        .name = rl_gguf_path(e->file),
    };
    rl_status status = rl_cache_plan_init(&x->plan, &plan, err);
    free(layer_bytes);
    for (uint32_t i = 0; !status && i < n_layer; i++)
        e->net.layers[i].expert.slot_class = x->plan.layer_class[i];
    return status;
}

static rl_status make_pool(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    uint64_t *bytes = calloc(x->plan.n_class, sizeof *bytes);
    if (!bytes) return rl_fail(err, RL_NOMEM, "no memory for the plan of the expert pool");
    for (uint32_t c = 0; c < x->plan.n_class; c++)
        bytes[c] = x->plan.classes[c].slot_bytes;
    rl_status status = e->ops->pool_create(e->be, x->plan.n_class, bytes, x->plan.class_slots, err);
    free(bytes);
    return status;
}

static rl_status make_cache(rl_experts *x, rl_error *err)
{
    const rl_shape *s = &x->engine->net.shape;
    rl_cache_params params = {
        .n_layer = s->n_layer,
        .n_expert = s->n_expert,
        .n_class = x->plan.n_class,
        .layer_class = x->plan.layer_class,
        .class_slots = x->plan.class_slots,
        .listener = residency_changed,
        .context = x,
    };
    rl_status status =
        rl_residency_create(&x->residency, s->n_layer, s->n_expert, NULL, slot_address, x, err);
    return status ? status : rl_cache_create(&x->cache, &params, err);
}

static rl_status take_buffers(rl_experts *x, rl_error *err)
{
    uint32_t n = x->engine->net.shape.n_expert;
    x->ids = calloc(n, sizeof *x->ids);
    x->groups = calloc(n, sizeof *x->groups);
    x->answers = calloc(n, sizeof *x->answers);
    x->computed = calloc(n, sizeof *x->computed);
    x->ready = calloc(n, sizeof *x->ready);
    x->assign =
        calloc((size_t)x->engine->n_batch * x->engine->net.shape.n_expert_used, sizeof *x->assign);
    x->starts = calloc((size_t)n + 1, sizeof *x->starts);
    x->piece = malloc(PIECE);
    if (x->ids && x->groups && x->answers && x->computed && x->ready && x->assign && x->starts &&
        x->piece)
        return RL_OK;
    return rl_fail(err, RL_NOMEM, "no memory for the expert plan");
}

rl_status rl_experts_create(rl_experts **out, rl_engine *engine, const rl_engine_params *params,
                            rl_error *err)
{
    *out = NULL;
    rl_experts *x = calloc(1, sizeof *x);
    if (!x) return rl_fail(err, RL_NOMEM, "no memory for the expert pool");
    x->engine = engine;
    rl_status status = make_plan(x, params, err);
    if (!status) status = make_pool(x, err);
    if (!status) status = make_cache(x, err);
    if (!status) status = take_buffers(x, err);
    if (status) {
        rl_experts_destroy(x);
        return status;
    }
    *out = x;
    return RL_OK;
}

void rl_experts_destroy(rl_experts *x)
{
    if (!x) return;
    rl_cache_destroy(x->cache);
    rl_residency_destroy(x->residency);
    rl_cache_plan_fini(&x->plan);
    free(x->ids);
    free(x->groups);
    free(x->answers);
    free(x->computed);
    free(x->ready);
    free(x->assign);
    free(x->starts);
    free(x->piece);
    free(x);
}

const rl_cache_plan *rl_experts_plan(const rl_experts *x)
{
    return &x->plan;
}

rl_cache *rl_experts_cache(rl_experts *x)
{
    return x->cache;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Fills a reserved slot. */
static rl_status read_expert(rl_experts *x, uint32_t layer, uint32_t expert, rl_slot slot,
                             rl_error *err)
{
    rl_engine *e = x->engine;
    const rl_expert_layout *layout = &e->net.layers[layer].expert;
    const uint64_t offsets[] = { layout->gate_offset, layout->up_offset, layout->down_offset };
    rl_slice slices[RL_EXPERT_MATRICES];
    rl_weights_expert(&e->tensors, layer, expert, slices);
    uint8_t *host = e->ops->slot_host(e->be, slot.class, slot.index);
    for (uint32_t m = 0; m < RL_EXPERT_MATRICES; m++) {
        const rl_file *file = rl_gguf_part(e->file, slices[m].part);
        rl_error why = { "" };
        rl_status status = RL_OK;
        if (host)
            status = rl_file_read(file, slices[m].offset, host + offsets[m], slices[m].bytes, &why);
        for (uint64_t at = 0; !host && !status && at < slices[m].bytes; at += PIECE) {
            size_t n = slices[m].bytes - at < PIECE ? (size_t)(slices[m].bytes - at) : PIECE;
            status = rl_file_read(file, slices[m].offset + at, x->piece, n, &why);
            if (!status)
                status = e->ops->slot_write(e->be, slot.class, slot.index, offsets[m] + at,
                                            x->piece, n, &why);
        }
        if (status)
            return rl_fail(err, status, "expert %u of layer %u: %.400s", expert, layer, why.text);
    }
    return RL_OK;
}

/* ---- one layer of one batch ------------------------------------------------------------------ */

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
        x->groups[w] =
            (rl_expert_group){ .expert = e, .n = count, .assign = x->assign + x->starts[e] };
    }
    for (uint32_t i = 0; i < n; i++)
        x->assign[x->starts[ids[i]]++] = i;
}

static bool is_resident(const rl_experts *x, uint32_t w)
{
    return x->answers[w].outcome == RL_RESERVE_HIT;
}

/* Computes every expert that is in memory and not done yet. */
static rl_status compute_resident(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    uint32_t n = 0;
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w] && is_resident(x, w)) x->ready[n++] = x->groups[w];
    if (!n) return RL_OK;
    rl_status status = e->ops->moe_experts(e->be, x->layer, x->ready, n, err);
    if (status) return status;
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (is_resident(x, w)) x->computed[w] = true;
    return RL_OK;
}

/* Ends every reservation of the layer, in the order of the ids: that order, not the order of
 * arrival, is what the LRU list sees. Loads that never ended are given up. */
static void release_all(rl_experts *x)
{
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        if (is_resident(x, w)) rl_cache_release(x->cache, x->answers[w].slot, RL_RELEASE_USED);
        if (x->answers[w].outcome == RL_RESERVE_MISS) rl_cache_abort(x->cache, x->answers[w].slot);
        x->answers[w].outcome = RL_RESERVE_BUSY; /* holds nothing */
    }
}

static rl_status read_missing(rl_experts *x, rl_error *err)
{
    uint64_t start = rl_clock_ns();
    rl_status status = RL_OK;
    for (uint32_t w = 0; w < x->n_wanted && !status; w++) {
        if (x->answers[w].outcome != RL_RESERVE_MISS) continue;
        status = read_expert(x, x->layer, x->ids[w], x->answers[w].slot, err);
        if (status) break;
        rl_cache_commit(x->cache, x->answers[w].slot);
        x->answers[w].outcome = RL_RESERVE_HIT;
    }
    x->load_ns += rl_clock_ns() - start;
    return status;
}

/* More experts than slots: lets go of what is computed, and asks for what found no slot. A device
 * may still be reading the old ones: it is drained first. */
static rl_status next_wave(rl_experts *x, rl_error *err)
{
    rl_engine *e = x->engine;
    rl_status status = e->ops->drain ? e->ops->drain(e->be, err) : RL_OK;
    if (status) return status;
    release_all(x);
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w])
            rl_cache_reserve(x->cache, (rl_expert_key){ x->layer, x->ids[w] }, &x->answers[w]);
    return RL_OK;
}

static bool all_computed(const rl_experts *x)
{
    for (uint32_t w = 0; w < x->n_wanted; w++)
        if (!x->computed[w]) return false;
    return true;
}

rl_status rl_experts_run(rl_experts *x, uint32_t layer, const uint32_t *ids, uint32_t n_tokens,
                         rl_error *err)
{
    rl_engine *e = x->engine;
    plan_groups(x, layer, ids, n_tokens);
    rl_cache_reserve_layer(x->cache, layer, x->ids, x->n_wanted, x->answers);
    rl_status status = e->ops->moe_shared(e->be, layer, err);
    for (;;) {
        if (!status) status = compute_resident(x, err);
        if (!status) status = read_missing(x, err);
        if (!status) status = compute_resident(x, err);
        if (status || all_computed(x)) break;
        status = next_wave(x, err);
    }
    release_all(x);
    return status;
}

/* ---- for the routed steps -------------------------------------------------------------------- */

rl_status rl_experts_load(rl_experts *x, uint32_t layer, const uint32_t *ids, rl_error *err)
{
    plan_groups(x, layer, ids, 1);
    RL_ASSERT(!x->n_held);
    uint32_t busy = rl_cache_reserve_layer(x->cache, layer, x->ids, x->n_wanted, x->answers);
    RL_ASSERT(!busy); /* every pool has room for one layer of one token */
    rl_status status = read_missing(x, err);
    if (status) {
        release_all(x);
        return status;
    }
    for (uint32_t w = 0; w < x->n_wanted; w++)
        x->held[w] = x->answers[w].slot;
    x->n_held = x->n_wanted;
    return RL_OK;
}

void rl_experts_unload(rl_experts *x)
{
    for (uint32_t i = 0; i < x->n_held; i++)
        rl_cache_release(x->cache, x->held[i], RL_RELEASE_USED);
    x->n_held = 0;
}

void rl_experts_touch(rl_experts *x, uint32_t layer, const uint32_t *ids)
{
    plan_groups(x, layer, ids, 1);
    for (uint32_t w = 0; w < x->n_wanted; w++) {
        bool resident = rl_cache_touch(x->cache, (rl_expert_key){ layer, x->ids[w] });
        RL_ASSERT(resident);
    }
}

uint64_t rl_experts_load_ns(const rl_experts *x)
{
    return x->load_ns;
}

void rl_experts_begin(rl_experts *x, uint32_t n_tokens)
{
    rl_cache_set_phase(x->cache, n_tokens == 1 ? RL_CACHE_DECODE : RL_CACHE_PREFILL);
}

void rl_experts_end(rl_experts *x)
{
    (void)x;
}
