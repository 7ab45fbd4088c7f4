/* engine.c - opening and closing a model, in the order of the data. */
#include "engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "engine/decode.h"
#include "engine/experts.h"
#include "engine/session.h"

rl_status rl_engine_progress(rl_engine *e, const char *what, uint64_t done, uint64_t total,
                             rl_error *err)
{
    if (!e->progress || e->progress(e->context, what, done, total)) return RL_OK;
    return rl_fail(err, RL_INTERRUPTED, "stopped by the caller while %s", what);
}

void rl_engine_note(rl_engine *e, const char *format, ...)
{
    if (!e->note) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->note(e->context, text);
}

static rl_status open_backend(rl_engine *e, const rl_engine_params *params, rl_error *err)
{
    e->ops = params->ops;
    rl_backend_params open = { .n_threads = params->n_threads,
                               .device = params->device,
                               .isa = params->isa,
                               .note = params->note,
                               .note_ctx = params->context };
    rl_status status = e->ops->open(&e->be, &open, err);
    if (status) return status;
    e->ops = e->be->ops; /* a backend may leave out what its device cannot do */
    e->ops->get_caps(e->be, &e->caps);
    return RL_OK;
}

static rl_status take_buffers(rl_engine *e, rl_error *err)
{
    const rl_shape *s = &e->net.shape;
    e->ids = calloc((size_t)e->n_batch * s->n_expert_used, sizeof *e->ids);
    e->logit_rows = malloc((size_t)RL_HEAD_ROWS * s->n_vocab * sizeof *e->logit_rows);
    if (e->ids && e->logit_rows) return RL_OK;
    return rl_fail(err, RL_NOMEM, "no memory for batches of %u tokens", e->n_batch);
}

rl_status rl_engine_open(rl_engine **out, const char *path, const rl_engine_params *params,
                         rl_error *err)
{
    _Static_assert((int)RL_MAX_EXPERTS_USED == (int)RL_MAX_EXPERTS_PER_TOKEN, "one limit");
    RL_ASSERT(out && path && params && params->ops);
    *out = NULL;
    rl_engine *e = calloc(1, sizeof *e);
    if (!e) return rl_fail(err, RL_NOMEM, "%s: no memory to open it", path);
    pthread_mutex_init(&e->lock, NULL);
    e->progress = params->progress;
    e->note = params->note;
    e->context = params->context;
    e->n_batch = params->n_batch ? params->n_batch : RL_DEFAULT_BATCH;

    rl_speculative speculative = RL_SPECULATIVE_AUTO;
    rl_status status = RL_OK;
    if (params->speculative && !rl_speculative_parse(params->speculative, &speculative))
        status = rl_fail(err, RL_INVALID,
                         "RL_ENGINE_SPECULATIVE is \"%s\", not 0, restart, resume, gated or auto",
                         params->speculative);
    if (!status) status = rl_gguf_open(&e->file, path, err);
    if (!status) status = rl_config_read(&e->config, e->file, err);
    if (!status && e->config.n_ctx_train < e->n_batch) e->n_batch = e->config.n_ctx_train;
    if (!status) status = rl_weights_open(&e->tensors, e->file, &e->config, err);
    if (!status) status = open_backend(e, params, err);
    if (!status) status = rl_engine_load(e, err);
    if (!status) status = e->ops->attach(e->be, &e->net, e->n_batch, err);
    if (!status) status = take_buffers(e, err);
    if (!status) status = rl_experts_create(&e->experts, e, params, err);
    if (!status) e->ops = e->be->ops; /* as the pool's memory allows */
    if (!status) status = rl_decoder_create(&e->decoder, e, speculative, err);
    if (status) {
        rl_engine_close(e);
        return status;
    }
    *out = e;
    return RL_OK;
}

rl_status rl_engine_rehearse(rl_engine *e, const rl_engine_params *params, rl_error *err)
{
    const rl_routed_ops *routed = e->ops->routed;
    if (!e->caps.device_memory || !routed) return RL_OK;
    const uint32_t token = 0, most = e->config.n_ctx_train;
    rl_session *session = NULL;
    rl_session_params planned = { .n_ctx = params->n_ctx < most ? params->n_ctx : most,
                                  .key_f32 = params->key_f32,
                                  .value_f32 = params->value_f32 };
    rl_status status = rl_session_open(&session, e, &planned, err);
    if (!status) {
        rl_batch batch = { .state = session->state, .tokens = &token, .n = 1 };
        rl_routed_outcome outcome;
        pthread_mutex_lock(&e->lock);
        status = routed->submit(e->be, &batch, err);
        if (!status) status = routed->wait(e->be, &outcome, err); /* not committed: forgotten */
        pthread_mutex_unlock(&e->lock);
    }
    rl_session_destroy(session);
    return status;
}

void rl_engine_close(rl_engine *e)
{
    if (!e) return;
    rl_decoder_destroy(e->decoder);
    rl_experts_destroy(e->experts);
    if (e->be) e->ops->close(e->be);
    rl_engine_unload(e);
    free(e->ids);
    free(e->logit_rows);
    rl_weights_close(&e->tensors);
    rl_gguf_close(e->file);
    pthread_mutex_destroy(&e->lock);
    free(e);
}
