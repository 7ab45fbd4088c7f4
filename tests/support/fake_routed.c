/* fake_routed.c - tests/support/fake_routed.h. */
#include "support/fake_routed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/oracle/oracle.h"
#include "base/assert.h"

enum { MAX_LAYERS = 64 };

static struct {
    rl_batch batch;
    uint32_t token;
    uint32_t choices[MAX_LAYERS][RL_MAX_EXPERTS_USED];
    uint32_t guesses[MAX_LAYERS][RL_MAX_EXPERTS_USED];
    bool guessed[MAX_LAYERS];
    uint32_t next; /* the layer whose experts run next; its choice is published */
    bool halted;
    float *logits;
} now;

static rl_status fake_head(rl_backend *be, uint32_t first, uint32_t rows, float *logits,
                           rl_error *err)
{
    if (logits) return rl_backend_oracle.head(be, first, rows, logits, err);
    free(now.logits);
    now.logits = calloc(((oracle *)be)->net->shape.n_vocab, sizeof *now.logits);
    return rl_backend_oracle.head(be, first, rows, now.logits, err);
}

static rl_status fake_begin(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    now.batch.top = batch->top;
    return rl_backend_oracle.begin(be, batch, err);
}

/* The guess stands from the choice on, whatever x becomes behind an open gate. */
static void guess(oracle *o, uint32_t layer)
{
    const rl_shape *s = &o->net->shape;
    const rl_layer *l = &o->net->layers[layer];
    double h[1024], logits[1024];
    float rounded[1024], weights[RL_MAX_EXPERTS_USED];
    RL_ASSERT(s->n_embd <= 1024 && s->n_expert <= 1024);
    oracle_rms_norm(o->x, &l->moe_norm, s->rms_eps, 1, h);
    oracle_matmul(o, &l->router, h, 1, logits);
    for (uint32_t i = 0; i < s->n_expert; i++)
        rounded[i] = (float)logits[i];
    rl_router_topk(rounded, s->n_expert, s->n_expert_used, now.guesses[layer], weights);
    now.guessed[layer] = true;
}

static rl_status fake_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                            rl_error *err)
{
    oracle *o = (oracle *)be;
    uint32_t next = layer + 1;
    if (!layer) memset(now.guessed, 0, sizeof now.guessed);
    if (o->batch.n == 1 && next < o->net->shape.n_layer && o->net->layers[next].guessed)
        guess(o, next);
    return rl_backend_oracle.route(be, layer, forced, ids, err);
}

static rl_status fake_route_ahead(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    (void)err;
    RL_ASSERT(now.guessed[layer]);
    memcpy(ids, now.guesses[layer], ((oracle *)be)->net->shape.n_expert_used * sizeof *ids);
    return RL_OK;
}

static rl_status to_route(rl_backend *be, uint32_t layer, rl_error *err)
{
    const rl_backend_ops *o = &rl_backend_oracle;
    bool recurrent = ((oracle *)be)->net->layers[layer].recurrent;
    rl_status status = recurrent ? o->delta_in(be, layer, err) : o->attn_in(be, layer, err);
    if (!status) status = recurrent ? o->delta_step(be, layer, err) : o->attn_step(be, layer, err);
    if (!status) status = o->mix_out(be, layer, err);
    if (!status) status = o->moe_in(be, layer, err);
    if (!status) status = fake_route(be, layer, NULL, now.choices[layer], err);
    now.next = layer;
    return status;
}

/* Segment layer + 1: the experts, then on to the next choice or to the head. */
static rl_status segment(rl_backend *be, uint32_t layer, rl_error *err)
{
    const rl_backend_ops *o = &rl_backend_oracle;
    const rl_shape *s = &((oracle *)be)->net->shape;
    uint32_t ranks[RL_MAX_EXPERTS_USED];
    rl_expert_group groups[RL_MAX_EXPERTS_USED];
    for (uint32_t i = 0; i < s->n_expert_used; i++) {
        ranks[i] = i;
        groups[i] =
            (rl_expert_group){ .expert = now.choices[layer][i], .n = 1, .assign = &ranks[i] };
    }
    rl_status status = o->moe_shared(be, layer, err);
    if (!status) status = o->moe_experts(be, layer, groups, s->n_expert_used, err);
    if (!status) status = o->moe_out(be, layer, err);
    if (status) return status;
    if (layer + 1 < s->n_layer) return to_route(be, layer + 1, err);
    now.next = s->n_layer;
    return fake_head(be, 0, 1, NULL, err);
}

static bool resident(rl_backend *be, uint32_t layer)
{
    const oracle *o = (oracle *)be;
    for (uint32_t i = 0; i < o->net->shape.n_expert_used; i++)
        if (!o->residency[(size_t)layer * o->net->shape.n_expert + now.choices[layer][i]])
            return false;
    return true;
}

static rl_status run_until_absent(rl_backend *be, rl_error *err)
{
    rl_status status = RL_OK;
    while (!status && now.next < ((oracle *)be)->net->shape.n_layer && resident(be, now.next))
        status = segment(be, now.next, err);
    return status;
}

static rl_status start(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    oracle *o = (oracle *)be;
    RL_ASSERT(batch->n == 1 && o->net->shape.n_layer <= MAX_LAYERS);
    now.batch = *batch;
    now.token = batch->tokens[0];
    now.batch.tokens = &now.token;
    o->counters.submissions++;
    rl_status status = rl_backend_oracle.begin(be, &now.batch, err);
    if (!status) status = rl_backend_oracle.embed(be, err);
    return status ? status : to_route(be, 0, err);
}

static rl_status fake_submit(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    rl_status status = start(be, batch, err);
    return status ? status : run_until_absent(be, err);
}

static rl_status fake_wait(rl_backend *be, rl_routed_outcome *out, rl_error *err)
{
    (void)err;
    const rl_shape *s = &((oracle *)be)->net->shape;
    ((oracle *)be)->counters.waits++;
    *out = (rl_routed_outcome){ .complete = now.next == s->n_layer, .layer = now.next };
    if (!out->complete) memcpy(out->ids, now.choices[now.next], sizeof out->ids);
    return RL_OK;
}

static rl_status fake_resume(rl_backend *be, uint32_t layer, rl_error *err)
{
    RL_ASSERT(layer == now.next && resident(be, layer));
    ((oracle *)be)->counters.submissions++;
    return run_until_absent(be, err);
}

static rl_status fake_await_choice(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    (void)err;
    RL_ASSERT(layer == now.next);
    memcpy(ids, now.choices[layer], ((oracle *)be)->net->shape.n_expert_used * sizeof *ids);
    return RL_OK;
}

static rl_status fake_open_gate(rl_backend *be, uint32_t layer, rl_error *err)
{
    RL_ASSERT(layer == now.next && resident(be, layer));
    return segment(be, layer, err);
}

static void fake_read_choices(const rl_backend *be, uint32_t *ids)
{
    const rl_shape *s = &((const oracle *)be)->net->shape;
    for (uint32_t layer = 0; layer < s->n_layer; layer++)
        memcpy(ids + (size_t)layer * s->n_expert_used, now.choices[layer],
               s->n_expert_used * sizeof *ids);
}

static rl_status fake_read_logits(rl_backend *be, float *logits, uint32_t *best, rl_error *err)
{
    (void)err;
    uint32_t n = ((oracle *)be)->net->shape.n_vocab;
    *best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (now.logits[i] > now.logits[*best]) *best = i;
    if (logits) memcpy(logits, now.logits, n * sizeof *logits);
    return RL_OK;
}

/* By hand: the next in the order, again and again. */
static void fake_read_top(const rl_backend *be, rl_top_logits *out)
{
    const uint32_t n = ((const oracle *)be)->net->shape.n_vocab;
    const float *l = now.logits;
    RL_ASSERT(now.batch.top);
    *out = (rl_top_logits){ .n = 0 };
    while (out->n < RL_TOP_LOGITS) {
        uint32_t next = n, last = out->n ? out->tokens[out->n - 1] : 0;
        for (uint32_t i = 0; i < n; i++) {
            bool behind = !out->n || l[i] < l[last] || (l[i] == l[last] && i > last);
            if (behind && l[i] > -INFINITY && (next == n || l[i] > l[next])) next = i;
        }
        if (next == n) break;
        out->tokens[out->n] = next;
        out->logits[out->n++] = l[next];
    }
    out->all = out->n < RL_TOP_LOGITS;
}

static rl_status fake_open(rl_backend **out, const rl_backend_params *params, rl_error *err)
{
    rl_status status = rl_backend_oracle.open(out, params, err);
    if (!status) (*out)->ops = fake_routed_ops();
    return status;
}

const rl_backend_ops *fake_routed_ops(void)
{
    static const rl_routed_ops routed = {
        .submit = fake_submit,
        .wait = fake_wait,
        .resume = fake_resume,
        .submit_gated = start,
        .await_choice = fake_await_choice,
        .open_gate = fake_open_gate,
        .read_choices = fake_read_choices,
        .read_logits = fake_read_logits,
        .read_top = fake_read_top,
    };
    static rl_backend_ops ops;
    ops = rl_backend_oracle;
    ops.name = "fake-routed";
    ops.open = fake_open;
    ops.begin = fake_begin;
    ops.head = fake_head;
    ops.route = fake_route;
    ops.route_ahead = fake_route_ahead;
    ops.routed = &routed;
    return &ops;
}
