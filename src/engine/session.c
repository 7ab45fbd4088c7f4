/* session.c - feeding tokens, and going back. */
#include "engine/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/decode.h"
#include "engine/sampler.h"

/* ---- life ------------------------------------------------------------------------------------ */

rl_status rl_session_open(rl_session **out, rl_engine *engine, const rl_session_params *params,
                          rl_error *err)
{
    static const rl_session_params defaults = { 0 };
    if (!params) params = &defaults;
    *out = NULL;
    uint32_t most = engine->config.n_ctx_train;
    uint32_t n_ctx = params->n_ctx               ? params->n_ctx
                     : most < RL_DEFAULT_CONTEXT ? most
                                                 : RL_DEFAULT_CONTEXT;
    if (n_ctx > most)
        return rl_fail(err, RL_INVALID, "a context of %u tokens exceeds the %u of %s", n_ctx, most,
                       rl_gguf_path(engine->file));
    rl_session *s = calloc(1, sizeof *s);
    if (!s) return rl_fail(err, RL_NOMEM, "no memory for a session");
    s->engine = engine;
    s->params = (rl_state_params){ .n_ctx = n_ctx,
                                   .key_type = params->key_f32 ? 0 : 1,
                                   .value_type = params->value_f32 ? 0 : 1 };
    s->tokens = calloc(n_ctx, sizeof *s->tokens);
    s->logits = calloc(engine->net.shape.n_vocab, sizeof *s->logits);
    rl_status status = RL_OK;
    if (!s->tokens || !s->logits)
        status = rl_fail(err, RL_NOMEM, "no memory for a session of %u tokens", n_ctx);
    if (!status) {
        pthread_mutex_lock(&engine->lock);
        status = engine->ops->state_create(engine->be, &s->state, &s->params, err);
        pthread_mutex_unlock(&engine->lock);
    }
    if (status) {
        rl_session_destroy(s);
        return status;
    }
    *out = s;
    return RL_OK;
}

static void drop_checkpoint(rl_checkpoint *c)
{
    free(c->recurrent);
    free(c->logits);
    *c = (rl_checkpoint){ 0 };
}

void rl_session_destroy(rl_session *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->engine->lock);
    if (s->engine->left == s) s->engine->left = NULL;
    s->engine->ops->state_destroy(s->engine->be, s->state);
    pthread_mutex_unlock(&s->engine->lock);
    for (uint32_t i = 0; i < s->n_checkpoints; i++)
        drop_checkpoint(&s->checkpoints[i]);
    free(s->tokens);
    free(s->logits);
    free(s);
}

uint32_t rl_session_position(const rl_session *s)
{
    return s->position;
}

uint32_t rl_session_n_ctx(const rl_session *s)
{
    return s->params.n_ctx;
}

const uint32_t *rl_session_tokens(const rl_session *s)
{
    return s->tokens;
}

rl_status rl_session_settle(rl_session *s, rl_error *err)
{
    rl_engine *e = s->engine;
    if (e->left != s) return RL_OK;
    uint32_t best;
    rl_status status = e->ops->routed->read_logits(e->be, s->logits, &best, err);
    if (!status) e->left = NULL;
    return status;
}

/* Where the logits lie is not part of what a session is: reading them changes nothing to see. */
const float *rl_session_logits(const rl_session *session)
{
    rl_session *s = (rl_session *)session;
    if (!s->position) return NULL;
    pthread_mutex_lock(&s->engine->lock);
    rl_status status = rl_session_settle(s, NULL);
    pthread_mutex_unlock(&s->engine->lock);
    return status ? NULL : s->logits;
}

rl_status rl_session_sample(rl_session *s, rl_sampler *sampler, uint32_t *token, rl_error *err)
{
    RL_ASSERT(s && sampler && token);
    if (!s->position) return rl_fail(err, RL_INVALID, "no token was fed that another could follow");
    bool greedy = rl_sampler_is_plain_greedy(sampler);
    s->asks_for_top = !greedy && rl_sampler_needs(sampler) <= RL_TOP_LOGITS;
    pthread_mutex_lock(&s->engine->lock);
    bool left = s->engine->left == s, known = left && greedy;
    if (known) rl_sampler_accept(sampler, *token = s->best);
    if (left && !greedy && s->has_top) known = rl_sampler_sample_top(sampler, &s->top, token);
    rl_status status = known ? RL_OK : rl_session_settle(s, err);
    pthread_mutex_unlock(&s->engine->lock);
    if (!status && !known) *token = rl_sampler_sample(sampler, s->logits);
    return status;
}

/* ---- feeding --------------------------------------------------------------------------------- */

typedef struct feed_sink {
    rl_session *session;
    size_t base;  /* index of the batch's first token in the caller's array ... */
    size_t total; /* ... of so many */
    uint32_t last;
    rl_logits_function each;
    void *context;
} feed_sink;

static bool take_logits(void *context, uint32_t index, const float *logits)
{
    feed_sink *sink = context;
    if (index == sink->last)
        memcpy(sink->session->logits, logits,
               sink->session->engine->net.shape.n_vocab * sizeof *logits);
    return !sink->each || sink->each(sink->context, sink->base + index, logits);
}

/* One batch: run, then make its state the current one. */
static rl_status feed_batch(rl_session *s, const uint32_t *tokens, uint32_t n, bool last_batch,
                            feed_sink *sink, const rl_forward_hooks *hooks, rl_error *err)
{
    rl_engine *e = s->engine;
    rl_top_logits top; /* the session keeps its own until the token is complete */
    rl_forward_left left = { .top = &top };
    bool leaves = n == 1 && !hooks && !sink->each && e->ops->routed;
    sink->last = n - 1;
    rl_forward forward = {
        .batch = { .observed = hooks != NULL,
                   .top = leaves && s->asks_for_top && e->ops->routed->read_top,
                   .state = s->state,
                   .tokens = tokens,
                   .n = n,
                   .position = s->position },
        .first_logits = sink->each   ? 0
                        : last_batch ? n - 1
                                     : n,
        .each = take_logits,
        .context = sink,
        .left = leaves ? &left : NULL,
        .hooks = hooks,
    };
    if (n > 1) { /* a batch of many tokens can take long */
        forward.progress_done = sink->base;
        forward.progress_total = sink->total;
    }
    uint64_t start = rl_clock_ns();
    rl_status status = n == 1 && !hooks ? rl_decoder_run(e->decoder, &forward, err)
                                        : rl_forward_run(e, &forward, err);
    if (status) return status;
    e->ops->state_commit(e->be, s->state);
    e->left = left.left ? s : NULL; /* whoever's were there had them brought before */
    s->best = left.best;
    s->has_top = left.left && forward.batch.top;
    if (s->has_top) s->top = top;
    memcpy(s->tokens + s->position, tokens, n * sizeof *tokens);
    s->position += n;
    uint64_t spent = rl_clock_ns() - start;
    if (n == 1) {
        s->stats.generated_tokens++;
        s->stats.generated_ns += spent;
    } else {
        s->stats.prompt_tokens += n;
        s->stats.prompt_ns += spent;
    }
    return RL_OK;
}

rl_status rl_session_feed_hooked(rl_session *s, const uint32_t *tokens, size_t n,
                                 rl_logits_function each, void *context,
                                 const rl_forward_hooks *hooks, rl_error *err)
{
    rl_engine *e = s->engine;
    RL_ASSERT(tokens && n);
    if (n > s->params.n_ctx - s->position)
        return rl_fail(err, RL_FULL,
                       "%zu more tokens do not fit: %u of the context's %u tokens are used", n,
                       s->position, s->params.n_ctx);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= e->net.shape.n_vocab)
            return rl_fail(err, RL_INVALID, "token %u is not in the vocabulary of %u tokens",
                           tokens[i], e->net.shape.n_vocab);
    feed_sink sink = { .session = s, .each = each, .context = context, .total = n };
    pthread_mutex_lock(&e->lock);
    rl_status status = s->torn ? e->ops->state_reset(e->be, s->state, err) : RL_OK;
    if (!status) s->torn = false;
    /* One more token of the same session overwrites its own logits, and only when it succeeds. */
    bool alone = n == 1 && !each && !hooks;
    if (!status && e->left && !(alone && e->left == s)) status = rl_session_settle(e->left, err);
    while (!status && sink.base < n) {
        size_t left = n - sink.base;
        uint32_t now = left < e->n_batch ? (uint32_t)left : e->n_batch;
        status = feed_batch(s, tokens + sink.base, now, now == left, &sink, hooks, err);
        sink.base += now;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

rl_status rl_session_feed(rl_session *s, const uint32_t *tokens, size_t n, rl_error *err)
{
    return rl_session_feed_hooked(s, tokens, n, NULL, NULL, NULL, err);
}

rl_status rl_session_feed_each(rl_session *s, const uint32_t *tokens, size_t n,
                               rl_logits_function each, void *context, rl_error *err)
{
    return rl_session_feed_hooked(s, tokens, n, each, context, NULL, err);
}

/* ---- going back ------------------------------------------------------------------------------ */

static const rl_state_part recurrent_parts[] = { RL_STATE_CONV, RL_STATE_DELTA };

static uint64_t recurrent_part_bytes(const rl_shape *s, rl_state_part part)
{
    return 4 * (part == RL_STATE_CONV ? (uint64_t)(s->conv_taps - 1) * rl_shape_conv_channels(s)
                                      : (uint64_t)s->n_value_head * s->delta_dim * s->delta_dim);
}

uint64_t rl_session_recurrent_bytes(const rl_shape *shape, const rl_layer *layers)
{
    uint64_t bytes = 0;
    for (uint32_t layer = 0; layer < shape->n_layer; layer++)
        for (uint32_t p = 0; layers[layer].recurrent && p < 2; p++)
            bytes += recurrent_part_bytes(shape, recurrent_parts[p]);
    return bytes;
}

rl_status rl_session_get_recurrent(const rl_session *s, uint8_t *out, rl_error *err)
{
    rl_engine *e = s->engine;
    for (uint32_t layer = 0; layer < e->net.shape.n_layer; layer++)
        for (uint32_t p = 0; e->net.layers[layer].recurrent && p < 2; p++) {
            rl_status status =
                e->ops->state_read(e->be, s->state, layer, recurrent_parts[p], 0, out, err);
            if (status) return status;
            out += recurrent_part_bytes(&e->net.shape, recurrent_parts[p]);
        }
    return RL_OK;
}

rl_status rl_session_set_recurrent(rl_session *s, const uint8_t *bytes, rl_error *err)
{
    rl_engine *e = s->engine;
    for (uint32_t layer = 0; layer < e->net.shape.n_layer; layer++)
        for (uint32_t p = 0; e->net.layers[layer].recurrent && p < 2; p++) {
            rl_status status =
                e->ops->state_write(e->be, s->state, layer, recurrent_parts[p], 0, bytes, err);
            if (status) return status;
            bytes += recurrent_part_bytes(&e->net.shape, recurrent_parts[p]);
        }
    return RL_OK;
}

void rl_session_forget(rl_session *s)
{
    for (uint32_t i = 0; i < s->n_checkpoints; i++)
        drop_checkpoint(&s->checkpoints[i]);
    s->n_checkpoints = 0;
    s->position = 0;
    s->torn = true;
}

rl_status rl_session_reset(rl_session *s, rl_error *err)
{
    pthread_mutex_lock(&s->engine->lock);
    rl_status status = s->engine->ops->state_reset(s->engine->be, s->state, err);
    if (!status && s->engine->left == s) s->engine->left = NULL;
    pthread_mutex_unlock(&s->engine->lock);
    if (status) return status;
    rl_session_forget(s);
    s->torn = false;
    return RL_OK;
}

rl_status rl_session_checkpoint(rl_session *s, rl_error *err)
{
    rl_engine *e = s->engine;
    if (!s->position) return RL_OK; /* the empty session can always be returned to */
    if (s->n_checkpoints && s->checkpoints[s->n_checkpoints - 1].position == s->position)
        return RL_OK;
    size_t logit_bytes = e->net.shape.n_vocab * sizeof *s->logits;
    rl_checkpoint c = { .position = s->position };
    c.recurrent = malloc(rl_session_recurrent_bytes(&e->net.shape, e->net.layers) + 1);
    c.logits = malloc(logit_bytes);
    rl_status status = RL_OK;
    if (!c.recurrent || !c.logits) status = rl_fail(err, RL_NOMEM, "no memory for a checkpoint");
    if (!status) {
        pthread_mutex_lock(&e->lock);
        status = rl_session_settle(s, err);
        if (!status) status = rl_session_get_recurrent(s, c.recurrent, err);
        pthread_mutex_unlock(&e->lock);
    }
    if (status) {
        drop_checkpoint(&c);
        return status;
    }
    memcpy(c.logits, s->logits, logit_bytes);
    if (s->n_checkpoints == RL_MAX_CHECKPOINTS) {
        drop_checkpoint(&s->checkpoints[0]);
        memmove(s->checkpoints, s->checkpoints + 1,
                (RL_MAX_CHECKPOINTS - 1) * sizeof *s->checkpoints);
        s->n_checkpoints--;
    }
    s->checkpoints[s->n_checkpoints++] = c;
    return RL_OK;
}

rl_status rl_session_rewind(rl_session *s, uint32_t position, rl_error *err)
{
    rl_engine *e = s->engine;
    if (position >= s->position) return RL_OK;
    while (s->n_checkpoints && s->checkpoints[s->n_checkpoints - 1].position > position)
        drop_checkpoint(&s->checkpoints[--s->n_checkpoints]);
    if (!s->n_checkpoints) return rl_session_reset(s, err);
    const rl_checkpoint *c = &s->checkpoints[s->n_checkpoints - 1];
    pthread_mutex_lock(&e->lock);
    rl_status status = rl_session_set_recurrent(s, c->recurrent, err);
    if (e->left == s) e->left = NULL;
    pthread_mutex_unlock(&e->lock);
    if (status) {
        rl_session_forget(s);
        return status;
    }
    memcpy(s->logits, c->logits, e->net.shape.n_vocab * sizeof *s->logits);
    s->position = c->position;
    return RL_OK;
}
