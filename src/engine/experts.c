/* experts.c - the pool: how large, where, and who keeps its table. One layer's work is in
 * experts_run.c. */
#include "engine/experts_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "cache/memory_budget.h"
#include "cache/preload.h"
#include "engine/session.h"

void rl_experts_request(rl_experts *x, rl_expert_key key, rl_slot slot, rl_stream_request *out)
{
    rl_engine *e = x->engine;
    const rl_expert_layout *layout = &e->net.layers[key.layer].expert;
    const uint64_t offsets[] = { layout->gate_offset, layout->up_offset, layout->down_offset };
    rl_slice slices[RL_EXPERT_MATRICES];
    rl_weights_expert(&e->tensors, key.layer, key.expert, slices);
    uint8_t *host = e->ops->slot_host(e->be, slot.class, slot.index);
    size_t slack = rl_memory_expert_slack(slices);
    *out = (rl_stream_request){ .key = key, .slot = slot, .n_parts = RL_EXPERT_MATRICES };
    for (uint32_t m = 0; m < RL_EXPERT_MATRICES; m++)
        out->parts[m] = (rl_stream_range){ .file = slices[m].part,
                                           .offset = slices[m].offset,
                                           .bytes = slices[m].bytes,
                                           .into = host ? host + offsets[m] : NULL,
                                           .slack = slack };
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* What will still be taken where the pool is. On the host: the tokenizer, activations that attach
 * has only reserved, buffers for reading, and one session with its checkpoints. On a device:
 * the session. */
static uint64_t bytes_beside_the_pool(const rl_engine *e, const rl_engine_params *params)
{
    rl_memory_plan plan;
    rl_memory_plan_make(&plan, &(rl_memory_request){ .weights = &e->tensors,
                                                     .ops = e->ops,
                                                     .n_batch = e->n_batch,
                                                     .n_ctx = params->n_ctx,
                                                     .key_f32 = params->key_f32,
                                                     .value_f32 = params->value_f32 });
    if (e->caps.device_memory) return plan.bytes[RL_MEMORY_KV] + plan.bytes[RL_MEMORY_STATE];
    uint32_t n = params->n_checkpoints;
    if (n > RL_MAX_CHECKPOINTS) n = RL_MAX_CHECKPOINTS;
    return plan.total + n * (plan.checkpoints / RL_MAX_CHECKPOINTS) - plan.bytes[RL_MEMORY_DENSE] -
           plan.bytes[RL_MEMORY_EMBEDDING];
}

static uint64_t experts_bytes(const rl_engine *e)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < e->net.shape.n_layer; i++)
        bytes += e->net.layers[i].expert.bytes * e->net.shape.n_expert;
    return bytes;
}

/* Which pool was chosen and why. */
static void say_plan(const rl_experts *x, const rl_memory_budget *memory, uint64_t beside)
{
    char size[3][RL_SIZE_TEXT];
    const rl_cache_plan *p = &x->plan;
    if (p->full)
        rl_engine_note(x->engine, "expert pool: %s for all %u experts; %s",
                       rl_size_text(size[0], p->bytes), p->n_expert, memory->reason);
    else
        rl_engine_note(x->engine,
                       "expert pool: %s for %u of %u experts; %s, %s go to everything else, %s "
                       "stay in reserve",
                       rl_size_text(size[0], p->bytes), p->n_slots, p->n_expert, memory->reason,
                       rl_size_text(size[1], beside),
                       rl_size_text(size[2], rl_memory_budget_reserve(memory)));
}

/* As much as fits; says how much that is, and why. */
static rl_status choose_plan(rl_experts *x, const rl_engine_params *params,
                             const rl_memory_budget *memory, rl_error *err)
{
    rl_engine *e = x->engine;
    uint64_t all = experts_bytes(e), beside = bytes_beside_the_pool(e, params), budget = all;
    e->ops->get_caps(e->be, &e->caps); /* weights and activations are taken by now */
    rl_memory_budget device = { .free_bytes = e->caps.memory_bytes };
    char size[2][RL_SIZE_TEXT];
    if (e->caps.device_memory) {
        snprintf(device.reason, sizeof device.reason, "%s of the device's memory are free",
                 rl_size_text(size[0], device.free_bytes));
        memory = &device;
    }
    if (memory->free_bytes || !e->caps.device_memory)
        budget = rl_memory_budget_pool(memory, beside, all);
    rl_error why = { "" };
    rl_status status = rl_memory_plan_pool(&x->plan, &e->tensors, budget, &why);
    if (status)
        return rl_fail(err, status, "%.250s (%s, %s go to everything else, %s stay in reserve)",
                       why.text, memory->reason, rl_size_text(size[0], beside),
                       rl_size_text(size[1], rl_memory_budget_reserve(memory)));
    say_plan(x, memory, beside);
    return RL_OK;
}

static rl_status make_plan(rl_experts *x, const rl_engine_params *params,
                           const rl_memory_budget *memory, rl_error *err)
{
    rl_engine *e = x->engine;
    rl_status status = params->cache_bytes
                           ? rl_memory_plan_pool(&x->plan, &e->tensors, params->cache_bytes, err)
                           : choose_plan(x, params, memory, err);
    for (uint32_t i = 0; !status && i < e->net.shape.n_layer; i++)
        e->net.layers[i].expert.slot_class = x->plan.layer_class[i];
    return status;
}

/* ---- pool, cache, stream --------------------------------------------------------------------- */

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

/* Bytes that could not be read straight into the slot. */
static rl_status fill_slot(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                           const void *bytes, size_t n_bytes, rl_error *err)
{
    rl_engine *e = ((rl_experts *)context)->engine;
    const rl_expert_layout *layout = &e->net.layers[key.layer].expert;
    const uint64_t offsets[] = { layout->gate_offset, layout->up_offset, layout->down_offset };
    return e->ops->slot_write(e->be, slot.class, slot.index, offsets[part], bytes, n_bytes, err);
}

static const rl_file **list_files(const rl_engine *e)
{
    const rl_file **files = calloc(rl_gguf_n_parts(e->file), sizeof *files);
    for (uint32_t i = 0; files && i < rl_gguf_n_parts(e->file); i++)
        files[i] = rl_gguf_part(e->file, i);
    return files;
}

static rl_status make_stream(rl_experts *x, const rl_engine_params *params, const rl_file **files,
                             uint64_t page_cache_bytes, rl_error *err)
{
    rl_stream_params stream = {
        .files = files,
        .n_files = rl_gguf_n_parts(x->engine->file),
        .range_bytes = rl_memory_largest_range(&x->engine->tensors),
        .io = params->io,
        .page_cache_bytes = page_cache_bytes,
        .fill = fill_slot,
        .context = x,
        .fault = params->fault,
        .fault_context = params->fault_context,
    };
    rl_status status = rl_stream_create(&x->stream, &stream, err);
    if (status) return status;
    rl_reader_info info = rl_stream_get_info(x->stream);
    if (info.note[0] && !x->plan.full) rl_engine_note(x->engine, "%s", info.note);
    return RL_OK;
}

static rl_status take_buffers(rl_experts *x, rl_error *err)
{
    uint32_t n = x->engine->net.shape.n_expert;
    size_t pairs = (size_t)x->engine->n_batch * x->engine->net.shape.n_expert_used;
    x->ids = calloc(n, sizeof *x->ids);
    x->groups = calloc(n, sizeof *x->groups);
    x->answers = calloc(n, sizeof *x->answers);
    x->states = calloc(n, sizeof *x->states);
    x->computed = calloc(n, sizeof *x->computed);
    x->misses = calloc(n, sizeof *x->misses);
    x->ready = calloc(n, sizeof *x->ready);
    x->assign = calloc(pairs, sizeof *x->assign);
    x->starts = calloc((size_t)n + 1, sizeof *x->starts);
    x->late_from = x->engine->net.shape.n_layer;
    x->late = calloc((size_t)x->late_from * x->engine->net.shape.n_expert_used, sizeof *x->late);
    if (x->ids && x->groups && x->answers && x->states && x->computed && x->misses && x->ready &&
        x->assign && x->starts && x->late)
        return RL_OK;
    return rl_fail(err, RL_NOMEM, "no memory for the expert plan");
}

rl_status rl_experts_check_files(rl_experts *x, rl_error *err)
{
    rl_status status = rl_stream_check_files(x->stream, err);
    uint64_t now;
    if (!status || rl_engine_fingerprint(x->engine, &now, NULL) || now != x->engine->fingerprint)
        return status;
    rl_stream_accept_files(x->stream);
    return rl_stream_check_files(x->stream, err);
}

/* ---- full residency -------------------------------------------------------------------------- */

static void preload_loaded(void *context, rl_expert_key key, rl_slot slot)
{
    rl_experts *x = context;
    (void)key;
    rl_cache_commit(x->cache, slot);
    rl_cache_release(x->cache, slot, RL_RELEASE_USED);
}

static bool preload_progress(void *context, const rl_preload_progress *now)
{
    rl_engine *e = ((rl_experts *)context)->engine;
    char what[96];
    snprintf(what, sizeof what, "reading experts, %.2f GB/s, %.0f s left", now->bytes_per_s / 1e9,
             now->remaining_s);
    return !e->progress || e->progress(e->context, what, now->done_bytes, now->total_bytes);
}

/* Every expert, in the order of the file. */
static rl_status preload(rl_experts *x, const rl_engine_params *params, const rl_file **files,
                         rl_error *err)
{
    const rl_shape *s = &x->engine->net.shape;
    rl_stream_request *requests = calloc(x->plan.n_expert, sizeof *requests);
    if (!requests) return rl_fail(err, RL_NOMEM, "no memory to plan the reading of all experts");
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < s->n_layer; layer++)
        for (uint32_t expert = 0; expert < s->n_expert; expert++) {
            rl_expert_key key = { layer, expert };
            rl_reservation r;
            if (rl_cache_reserve(x->cache, key, &r) != RL_RESERVE_MISS) continue;
            rl_experts_request(x, key, r.slot, &requests[n++]);
        }
    rl_preload_params all = {
        .files = files,
        .n_files = rl_gguf_n_parts(x->engine->file),
        .io = params->io,
        .requests = requests,
        .n_requests = n,
        .fill = fill_slot,
        .loaded = preload_loaded,
        .progress = preload_progress,
        .context = x,
        .fault = params->fault,
        .fault_context = params->fault_context,
    };
    rl_status status = rl_preload(&all, err); /* on failure the whole model is closed */
    if (!status) status = rl_experts_check_files(x, err);
    free(requests);
    return status;
}

/* ---- reading ahead --------------------------------------------------------------------------- */

/* Of which layers guesses are wanted. Only where the pool has room for what is read ahead beside two
 * layers' experts; the backend makes no others. */
static void choose_guessed(rl_experts *x, const rl_engine_params *params)
{
    const rl_engine *e = x->engine;
    const uint32_t k = e->net.shape.n_expert_used;
    const bool wanted = !params->no_prefetch && !x->plan.full && e->ops->route_ahead;
    for (uint32_t i = 1; i < e->net.shape.n_layer; i++)
        e->net.layers[i].guessed =
            wanted && x->plan.class_slots[x->plan.layer_class[i]] >= RL_GUESS_ROOM * k;
    for (uint32_t i = 0; i < RL_MAX_EXPERTS_USED; i++)
        x->trust[i] = 1;
}

/* ---- life ------------------------------------------------------------------------------------ */

rl_status rl_experts_create(rl_experts **out, rl_engine *engine, const rl_engine_params *params,
                            rl_error *err)
{
    *out = NULL;
    rl_memory_budget memory;
    rl_memory_budget_read(&memory, "");
    rl_experts *x = calloc(1, sizeof *x);
    const rl_file **files = list_files(engine);
    rl_status status = RL_OK;
    if (!x || !files) status = rl_fail(err, RL_NOMEM, "no memory for the expert pool");
    if (x) x->engine = engine;
    if (!status) status = make_plan(x, params, &memory, err);
    if (!status) status = make_pool(x, err);
    if (!status) status = make_cache(x, err);
    if (!status) status = take_buffers(x, err);
    if (!status) {
        uint64_t page_cache =
            memory.free_bytes > x->plan.bytes ? memory.free_bytes - x->plan.bytes : 0;
        x->no_overlap = params->no_overlap;
        x->settle_ahead = params->settle_ahead;
        choose_guessed(x, params);
        status = make_stream(x, params, files, page_cache, err);
        if (!status && x->plan.full && !params->no_preload) status = preload(x, params, files, err);
    }
    free(files);
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
    rl_stream_destroy(x->stream);
    rl_cache_destroy(x->cache);
    rl_residency_destroy(x->residency);
    rl_cache_plan_fini(&x->plan);
    free(x->ids);
    free(x->groups);
    free(x->answers);
    free(x->states);
    free(x->computed);
    free(x->misses);
    free(x->ready);
    free(x->assign);
    free(x->starts);
    free(x->late);
    free(x);
}

rl_reader_info rl_experts_io(const rl_experts *x)
{
    return rl_stream_get_info(x->stream);
}

const rl_cache_plan *rl_experts_plan(const rl_experts *x)
{
    return &x->plan;
}

bool rl_experts_consistent(const rl_experts *x)
{
    const rl_engine *e = x->engine;
    for (uint32_t layer = 0; layer < e->net.shape.n_layer; layer++)
        for (uint32_t expert = 0; expert < e->net.shape.n_expert; expert++) {
            rl_expert_key key = { layer, expert };
            rl_slot slot = rl_cache_find(x->cache, key);
            uint64_t address =
                rl_slot_is_none(slot) ? 0 : e->ops->slot_address(e->be, slot.class, slot.index);
            if (e->ops->residency_get(e->be, layer, expert) != address) return false;
        }
    return true;
}

rl_residency *rl_experts_residency(rl_experts *x)
{
    return x->residency;
}

uint32_t rl_experts_layers_read(const rl_experts *x)
{
    return x->n_layers_read;
}

rl_experts_figures rl_experts_get_figures(const rl_experts *x)
{
    rl_reader_figures read = rl_stream_get_figures(x->stream);
    rl_experts_figures figures = x->figures;
    figures.matrices = read.reads;
    figures.placed = read.placed;
    return figures;
}
