/* redlite.c - include/redlite.h on top of the engine: models and devices.
 *
 * A model is an engine with a tokenizer; opened for text only, it has no engine. Environment
 * variables are read here and nowhere else. */
#include "redlite_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "engine/decode.h"
#include "engine/experts.h"

void rl_free(void *memory)
{
    free(memory);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether "auto" may take this backend: it has a device that is more than an emulation. Otherwise the
 * reason, which is empty for a backend that is only there by name. */
static bool worth_trying(const rl_backend_ops *ops, rl_error *why)
{
    rl_device_info devices[16];
    size_t n = 0;
    why->text[0] = 0;
    if (!ops->list_devices || ops->list_devices(devices, RL_COUNT_OF(devices), &n, why))
        return false;
    for (size_t i = 0; i < n && i < RL_COUNT_OF(devices); i++)
        if (devices[i].usable && strcmp(devices[i].kind, "software")) return true;
    for (size_t i = 0; i < n && i < RL_COUNT_OF(devices) && !why->text[0]; i++)
        if (!devices[i].usable)
            snprintf(why->text, sizeof why->text, "%s cannot be used: %s", devices[i].name,
                     devices[i].reason);
    if (!why->text[0])
        snprintf(why->text, sizeof why->text, n ? "%s is a software device" : "there is no device",
                 devices[0].name);
    return false;
}

static void note_not_used(const rl_engine_params *engine, const char *why)
{
    char text[640];
    if (!engine->note || !why[0]) return;
    snprintf(text, sizeof text, "the %s backend is not used: %s", engine->ops->name, why);
    engine->note(engine->context, text);
}

static rl_status open_and_rehearse(rl_model *m, const char *path, const rl_engine_params *engine,
                                   rl_error *err)
{
    rl_status status = rl_engine_open(&m->engine, path, engine, err);
    if (!status) status = rl_engine_rehearse(m->engine, engine, err);
    if (!status) return RL_OK;
    rl_engine_close(m->engine);
    m->engine = NULL;
    return status;
}

/* The best backend that opens and computes; says why a better one does not. */
static rl_status open_best(rl_model *m, const char *path, rl_engine_params *engine, rl_error *err)
{
    rl_error why = { "" }, failure = { "no backend of this build can run on this machine" };
    rl_status status = RL_DEVICE;
    const rl_backend_ops *failed = NULL;
    for (uint32_t i = 0; rl_backend_at(i); i++) {
        engine->ops = rl_backend_at(i);
        if (!worth_trying(engine->ops, &why)) {
            note_not_used(engine, why.text);
            continue;
        }
        if (failed) {
            engine->ops = failed;
            note_not_used(engine, failure.text);
            engine->ops = rl_backend_at(i);
        }
        status = open_and_rehearse(m, path, engine, &failure);
        if (status != RL_DEVICE && status != RL_UNSUPPORTED && status != RL_NOMEM) break;
        failed = engine->ops;
    }
    return status ? rl_fail(err, status, "%s", failure.text) : RL_OK;
}

static rl_status open_engine(rl_model *m, const char *path, const rl_model_params *params,
                             rl_error *err)
{
    const char *preload = getenv("RL_ENGINE_PRELOAD"), *overlap = getenv("RL_ENGINE_OVERLAP");
    const char *name = params->backend ? params->backend : "auto";
    rl_engine_params engine = {
        .ops = rl_backend_find(name),
        .device = params->device,
        .isa = getenv("RL_CPU"),
        .n_threads = params->n_threads,
        .cache_bytes = params->cache_mib ? (uint64_t)params->cache_mib << 20 : params->cache_bytes,
        .n_batch = params->n_batch,
        .n_ctx = params->plan_ctx,
        .key_f32 = params->plan_key_f32,
        .value_f32 = params->plan_value_f32,
        .n_checkpoints = params->plan_checkpoints,
        .io = params->io,
        .no_prefetch = params->no_prefetch,
        .no_preload = params->no_preload || (preload && !strcmp(preload, "0")),
        .no_overlap = overlap && !strcmp(overlap, "0"),
        .speculative = getenv("RL_ENGINE_SPECULATIVE"),
        .progress = params->progress,
        .note = params->note,
        .context = params->context,
    };
    if (params->device) {
        rl_status status = rl_backend_find_device(&engine.ops, name, params->device, err);
        return status ? status : rl_engine_open(&m->engine, path, &engine, err);
    }
    if (!strcmp(name, "auto")) return open_best(m, path, &engine, err);
    if (!engine.ops)
        return rl_fail(err, RL_INVALID, "this build has no backend named \"%s\"", name);
    return rl_engine_open(&m->engine, path, &engine, err);
}

static rl_status copy_template(rl_model *m, rl_error *err)
{
    rl_gguf_string text;
    bool found = false;
    rl_status status =
        rl_gguf_get_string(rl_model_file(m), "tokenizer.chat_template", &text, &found, err);
    if (status || !found) return status;
    m->chat_template = malloc(text.bytes + 1);
    if (!m->chat_template) return rl_fail(err, RL_NOMEM, "no memory for the chat template");
    memcpy(m->chat_template, text.data, text.bytes);
    m->chat_template[text.bytes] = 0;
    m->chat_template_bytes = text.bytes;
    return RL_OK;
}

rl_status rl_model_open(rl_model **out, const char *path, const rl_model_params *params,
                        rl_error *err)
{
    static const rl_model_params defaults = { 0 };
    RL_ASSERT(out && path);
    if (!params) params = &defaults;
    *out = NULL;
    rl_model *m = calloc(1, sizeof *m);
    if (!m) return rl_fail(err, RL_NOMEM, "%s: no memory to open it", path);
    rl_status status = params->vocab_only ? rl_gguf_open(&m->vocab_file, path, err)
                                          : open_engine(m, path, params, err);
    if (!status && params->vocab_only)
        status = rl_config_read(&m->vocab_config, m->vocab_file, err);
    if (!status) status = rl_tokenizer_open(&m->tokenizer, rl_model_file(m), err);
    if (!status) status = copy_template(m, err);
    if (status) {
        rl_model_close(m);
        return status;
    }
    *out = m;
    return RL_OK;
}

void rl_model_close(rl_model *m)
{
    if (!m) return;
    rl_tokenizer_close(m->tokenizer);
    rl_gguf_close(m->vocab_file);
    rl_engine_close(m->engine);
    free(m->chat_template);
    free(m);
}

const rl_gguf *rl_model_file(const rl_model *m)
{
    return m->engine ? m->engine->file : m->vocab_file;
}

/* ---- what is open ---------------------------------------------------------------------------- */

void rl_model_get_info(const rl_model *m, rl_model_info *out)
{
    const rl_config *c = m->engine ? &m->engine->config : &m->vocab_config;
    const char *path = rl_gguf_path(rl_model_file(m)), *slash = strrchr(path, '/');
    *out = (rl_model_info){
        .n_vocab = rl_tokenizer_n_tokens(m->tokenizer),
        .n_layer = c->n_layer,
        .n_embd = c->n_embd,
        .n_expert = c->n_expert,
        .n_expert_used = c->n_expert_used,
        .n_ctx_train = c->n_ctx_train,
        .file_bytes = rl_gguf_total_bytes(rl_model_file(m)),
    };
    snprintf(out->name, sizeof out->name, "%s", c->name[0] ? c->name : slash ? slash + 1 : path);
    snprintf(out->architecture, sizeof out->architecture, "%s", c->architecture);
    if (!m->engine) return;
    const rl_engine *e = m->engine;
    const rl_cache_plan *plan = rl_experts_plan(e->experts);
    snprintf(out->backend, sizeof out->backend, "%s", e->caps.description);
    rl_reader_info io = rl_experts_io(e->experts);
    snprintf(out->io, sizeof out->io, "%s, %s", io.direct ? "direct" : "buffered", io.driver);
    out->cache_bytes = plan->bytes;
    out->n_slots = plan->n_slots;
    out->n_experts_all = plan->n_expert;
    for (uint64_t i = 0; i < rl_gguf_n_tensors(e->file); i++)
        out->dense_bytes += rl_gguf_tensor_at(e->file, i)->bytes;
    for (uint32_t layer = 0; layer < c->n_layer; layer++)
        out->expert_bytes += e->tensors.layers[layer].expert_bytes * c->n_expert;
    out->dense_bytes -= out->expert_bytes;
}

rl_status rl_session_create(rl_session **out, rl_model *model, const rl_session_params *params,
                            rl_error *err)
{
    *out = NULL;
    if (!model->engine)
        return rl_fail(err, RL_INVALID, "%s was opened for its vocabulary only",
                       rl_gguf_path(rl_model_file(model)));
    return rl_session_open(out, model->engine, params, err);
}

void rl_session_get_stats(const rl_session *s, rl_session_stats *out)
{
    rl_experts *x = s->engine->experts;
    *out = s->stats;
    pthread_mutex_lock(&s->engine->lock);
    const rl_cache *cache = rl_experts_cache(x);
    rl_cache_figures f = rl_cache_get_figures(cache, RL_CACHE_DECODE);
    out->hits = f.hits;
    out->misses = f.misses;
    out->evictions = f.evictions;
    out->arriving = f.waits;
    out->prefetched = f.prefetches;
    out->prefetch_used = f.prefetch_used;
    out->prefetch_wasted = f.prefetch_wasted;
    out->bytes_read = rl_experts_get_figures(x).decode_bytes;
    out->wait_ns = rl_experts_get_figures(x).decode_wait_ns;
    out->reading_ns = rl_experts_get_figures(x).decode_reading_ns;
    rl_cache_census census = rl_cache_count(cache, RL_CACHE_NONE);
    out->slots_all = census.slots;
    out->slots_used = census.resident;
    out->distinct_experts_min = UINT32_MAX;
    for (uint32_t layer = 0; layer < s->engine->net.shape.n_layer; layer++) {
        uint32_t n = rl_cache_distinct(cache, RL_CACHE_DECODE, layer);
        if (n > out->distinct_experts_max) out->distinct_experts_max = n;
        if (n < out->distinct_experts_min) out->distinct_experts_min = n;
    }
    rl_decode_counts paths = rl_decoder_counts(s->engine->decoder);
    out->tokens_sync = paths.sync;
    out->tokens_routed = paths.routed;
    out->tokens_resumed = paths.resumed;
    out->tokens_restarted = paths.restarted;
    out->tokens_gated = paths.gated;
    rl_backend_counters work = { 0 };
    if (s->engine->ops->get_counters) s->engine->ops->get_counters(s->engine->be, &work);
    out->submissions = work.submissions;
    out->waits = work.waits;
    pthread_mutex_unlock(&s->engine->lock);
}

void rl_model_time_stages(rl_model *model, bool on)
{
    rl_engine *e = model->engine;
    pthread_mutex_lock(&e->lock);
    if (on) e->stage_times = (rl_stage_times){ 0 };
    if (e->ops->time_stages)
        e->ops->time_stages(e->be, on ? &e->stage_times : NULL);
    else
        e->times_stages = on;
    pthread_mutex_unlock(&e->lock);
}

uint64_t rl_model_timed_tokens(const rl_model *model)
{
    pthread_mutex_lock(&model->engine->lock);
    const uint64_t n = model->engine->stage_times.n_tokens;
    pthread_mutex_unlock(&model->engine->lock);
    return n;
}

bool rl_model_get_stage(const rl_model *model, size_t index, const char **name, uint64_t *ns)
{
    if (index >= RL_STAGES) return false;
    pthread_mutex_lock(&model->engine->lock);
    *name = rl_stage_name((rl_stage)index);
    *ns = model->engine->stage_times.ns[index];
    pthread_mutex_unlock(&model->engine->lock);
    return true;
}

/* ---- devices --------------------------------------------------------------------------------- */

rl_status rl_devices(rl_device_info *out, size_t capacity, size_t *n_found, rl_error *err)
{
    rl_status status = RL_OK;
    *n_found = 0;
    for (uint32_t i = 0; !status && rl_backend_at(i); i++) {
        size_t found = 0, room = *n_found < capacity ? capacity - *n_found : 0;
        if (!rl_backend_at(i)->list_devices) continue;
        status = rl_backend_at(i)->list_devices(out + *n_found, room, &found, err);
        if (status == RL_DEVICE) status = RL_OK; /* no driver: no devices of this backend */
        *n_found += found;
    }
    return status;
}
