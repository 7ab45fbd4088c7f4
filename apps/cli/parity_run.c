/* parity_run.c - apps/cli/parity_run.h. */
#include "cli.h"
#include "parity_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_TIE 1e-4

static uint32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static size_t pair(const parity_script *s, uint32_t token, uint32_t layer)
{
    return (size_t)token * s->n_layer + layer;
}

/* RL_INTERRUPTED once the user wants to stop; asked before every token and layer. */
static rl_status go_on(rl_error *err)
{
    return cli_interrupts() ? rl_fail(err, RL_INTERRUPTED, "interrupted") : RL_OK;
}

/* ---- the oracle's account -------------------------------------------------------------------- */

typedef struct recorder {
    parity_script *script;
    uint32_t base; /* index of the batch's first token */
    float *router; /* [batch][n_expert] */
} recorder;

static bool is_near_tie(const float *logits, uint32_t n, const uint32_t *ids, uint32_t k)
{
    if (k == n) return false;
    double mean = 0, square = 0, next = -INFINITY;
    for (uint32_t e = 0; e < n; e++) {
        bool chosen = false;
        for (uint32_t i = 0; i < k; i++)
            chosen = chosen || ids[i] == e;
        if (!chosen && logits[e] > next) next = logits[e];
        mean += logits[e];
        square += (double)logits[e] * logits[e];
    }
    mean /= n;
    double deviation = sqrt(square / n - mean * mean);
    return logits[ids[k - 1]] - next < NEAR_TIE * deviation;
}

static rl_status record_point(void *context, rl_engine *e, rl_forward_point point, uint32_t layer,
                              uint32_t n, rl_error *err)
{
    recorder *r = context;
    parity_script *s = r->script;
    if (point != RL_AFTER_ROUTE) return RL_OK;
    rl_status status = go_on(err);
    if (!status) status = e->ops->read_tap(e->be, RL_TAP_ROUTER, r->router, err);
    if (status) return status;
    for (uint32_t t = 0; t < n; t++) {
        size_t at = pair(s, r->base + t, layer);
        memcpy(s->ids + at * s->k, e->ids + (size_t)t * s->k, s->k * sizeof *s->ids);
        s->near_tie[at] =
            is_near_tie(r->router + (size_t)t * s->n_expert, s->n_expert, s->ids + at * s->k, s->k);
    }
    return RL_OK;
}

static bool record_logits(void *context, size_t index, const float *logits)
{
    recorder *r = context;
    memcpy(r->script->logits + (r->base + index) * r->script->n_vocab, logits,
           r->script->n_vocab * sizeof *logits);
    return true;
}

static rl_status take_script(parity_script *s, const rl_shape *shape, uint32_t n, rl_error *err)
{
    s->n_layer = shape->n_layer;
    s->n_expert = shape->n_expert;
    s->k = shape->n_expert_used;
    s->n_vocab = shape->n_vocab;
    s->tokens = calloc(n, sizeof *s->tokens);
    s->logits = calloc((size_t)n * s->n_vocab, sizeof *s->logits);
    s->ids = calloc((size_t)n * s->n_layer * s->k, sizeof *s->ids);
    s->near_tie = calloc((size_t)n * s->n_layer, sizeof *s->near_tie);
    if (s->tokens && s->logits && s->ids && s->near_tie) return RL_OK;
    return rl_fail(err, RL_NOMEM, "no memory for the oracle's account of %u tokens", n);
}

rl_status parity_record(parity_script *s, rl_session *oracle, const uint32_t *prompt,
                        uint32_t n_prompt, uint32_t n_more, rl_error *err)
{
    rl_engine *e = oracle->engine;
    *s = (parity_script){ .n_prompt = n_prompt };
    rl_status status = take_script(s, &e->net.shape, n_prompt + n_more, err);
    recorder r = { .script = s };
    r.router = calloc((size_t)e->n_batch * s->n_expert, sizeof *r.router);
    if (!status && !r.router) status = rl_fail(err, RL_NOMEM, "no memory for router logits");
    rl_forward_hooks hooks = { .context = &r, .observe = record_point };
    if (!status) memcpy(s->tokens, prompt, n_prompt * sizeof *prompt);
    while (!status && s->n < n_prompt + n_more) {
        r.base = s->n;
        uint32_t now = 1;
        if (s->n < n_prompt)
            now = n_prompt - s->n < e->n_batch ? n_prompt - s->n : e->n_batch;
        else
            s->tokens[s->n] = argmax(s->logits + (size_t)(s->n - 1) * s->n_vocab, s->n_vocab);
        status =
            rl_session_feed_hooked(oracle, s->tokens + s->n, now, record_logits, &r, &hooks, err);
        s->n += now;
    }
    free(r.router);
    return status;
}

void parity_script_fini(parity_script *s)
{
    free(s->tokens);
    free(s->logits);
    free(s->ids);
    free(s->near_tie);
    *s = (parity_script){ 0 };
}

/* ---- logits ---------------------------------------------------------------------------------- */

static double log_sum_exp(const float *logits, uint32_t n)
{
    double top = logits[argmax(logits, n)], sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logits[i] - top);
    return top + log(sum);
}

static void compare_position(parity_figures *f, const float *got, const float *want, uint32_t n)
{
    double difference = 0, size = 0, largest = 0, kl = 0;
    double lse_got = log_sum_exp(got, n), lse_want = log_sum_exp(want, n);
    for (uint32_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        difference += d * d;
        size += (double)want[i] * want[i];
        if (!(fabs(d) <= largest)) largest = fabs(d);
        kl += exp(want[i] - lse_want) * (want[i] - lse_want - got[i] + lse_got);
    }
    double l2 = sqrt(difference / (size > 0 ? size : 1));
    /* Written so that NaN counts as the worst. */
    if (!(l2 <= f->worst_l2)) f->worst_l2 = isnan(l2) ? INFINITY : l2;
    if (!(largest <= f->worst_abs)) f->worst_abs = isnan(largest) ? INFINITY : largest;
    if (!(kl <= f->max_kl)) f->max_kl = isnan(kl) ? INFINITY : kl;
    f->mean_kl = (f->mean_kl * f->positions + kl) / (f->positions + 1);
    f->other_top1 += argmax(got, n) != argmax(want, n);
    f->positions++;
}

void parity_compare(const parity_script *s, const float *logits, parity_figures *out)
{
    *out = (parity_figures){ 0 };
    for (uint32_t i = s->n_prompt; i < s->n; i++)
        compare_position(out, logits + (size_t)(i - s->n_prompt) * s->n_vocab,
                         s->logits + (size_t)i * s->n_vocab, s->n_vocab);
}

/* ---- the backend's turn ---------------------------------------------------------------------- */

typedef struct replayer {
    const parity_script *script;
    parity_figures *figures;
    uint32_t base;
    float *router;    /* [batch][n_expert] of the backend */
    uint32_t *forced; /* [batch][k] */
    bool force;       /* some choice of this layer differs */
} replayer;

static bool same_set(const uint32_t *a, const uint32_t *b, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        bool found = false;
        for (uint32_t j = 0; j < k; j++)
            found = found || a[i] == b[j];
        if (!found) return false;
    }
    return true;
}

static void judge_choices(replayer *r, uint32_t layer, uint32_t n)
{
    const parity_script *s = r->script;
    uint32_t ids[RL_MAX_EXPERTS_USED];
    float weights[RL_MAX_EXPERTS_USED];
    r->force = false;
    for (uint32_t t = 0; t < n; t++) {
        size_t at = pair(s, r->base + t, layer);
        const uint32_t *want = s->ids + at * s->k;
        rl_router_topk(r->router + (size_t)t * s->n_expert, s->n_expert, s->k, ids, weights);
        r->figures->pairs++;
        r->figures->near_ties += s->near_tie[at];
        bool same = same_set(ids, want, s->k);
        if (!same) {
            r->force = true;
            r->figures->differing++;
            r->figures->wrong += !s->near_tie[at];
        }
        memcpy(r->forced + (size_t)t * s->k, same ? ids : want, s->k * sizeof *ids);
    }
}

static rl_status replay_point(void *context, rl_engine *e, rl_forward_point point, uint32_t layer,
                              uint32_t n, rl_error *err)
{
    replayer *r = context;
    const parity_script *s = r->script;
    if (point == RL_AFTER_ROUTER) {
        rl_status status = go_on(err);
        if (!status) status = e->ops->read_tap(e->be, RL_TAP_ROUTER, r->router, err);
        if (!status) judge_choices(r, layer, n);
        return status;
    }
    /* The backend's own choice, where nothing is forced, must be what its logits say. */
    if (point == RL_AFTER_ROUTE && !r->force)
        for (uint32_t t = 0; t < n; t++)
            if (memcmp(r->forced + (size_t)t * s->k, e->ids + (size_t)t * s->k,
                       s->k * sizeof *e->ids))
                r->figures->wrong++;
    return RL_OK;
}

static const uint32_t *replay_force(void *context, uint32_t layer, uint32_t n)
{
    replayer *r = context;
    (void)layer, (void)n;
    return r->force ? r->forced : NULL;
}

static bool replay_logits(void *context, size_t index, const float *logits)
{
    replayer *r = context;
    const parity_script *s = r->script;
    compare_position(r->figures, logits, s->logits + (r->base + index) * s->n_vocab, s->n_vocab);
    return true;
}

rl_status parity_replay(const parity_script *s, rl_session *session, parity_figures *out,
                        rl_error *err)
{
    rl_engine *e = session->engine;
    *out = (parity_figures){ 0 };
    replayer r = { .script = s, .figures = out };
    r.router = calloc((size_t)e->n_batch * s->n_expert, sizeof *r.router);
    r.forced = calloc((size_t)e->n_batch * s->k, sizeof *r.forced);
    rl_status status = RL_OK;
    if (!r.router || !r.forced) status = rl_fail(err, RL_NOMEM, "no memory for router logits");
    rl_forward_hooks hooks = { .context = &r, .observe = replay_point, .force = replay_force };
    if (!status) status = rl_session_reset(session, err);
    while (!status && r.base < s->n) {
        uint32_t now = 1;
        if (r.base < s->n_prompt)
            now = s->n_prompt - r.base < e->n_batch ? s->n_prompt - r.base : e->n_batch;
        status = rl_session_feed_hooked(session, s->tokens + r.base, now, replay_logits, &r, &hooks,
                                        err);
        r.base += now;
    }
    free(r.router);
    free(r.forced);
    return status;
}

rl_status parity_play(const parity_script *s, rl_session *session, float *logits, rl_error *err)
{
    rl_status status = rl_session_reset(session, err);
    if (!status) status = rl_session_feed(session, s->tokens, s->n_prompt, err);
    for (uint32_t i = s->n_prompt; !status && i < s->n; i++) {
        status = go_on(err);
        if (!status) status = rl_session_feed(session, &s->tokens[i], 1, err);
        if (!status)
            memcpy(logits + (size_t)(i - s->n_prompt) * s->n_vocab, rl_session_logits(session),
                   s->n_vocab * sizeof *logits);
    }
    return status;
}

rl_status parity_greedy(const parity_script *s, rl_session *session, double gap, uint32_t *equal,
                        uint32_t *expected, rl_error *err)
{
    *equal = *expected = 0;
    rl_status status = rl_session_reset(session, err);
    if (!status) status = rl_session_feed(session, s->tokens, s->n_prompt, err);
    bool same = true;
    for (uint32_t i = s->n_prompt; !status && i < s->n; i++) {
        const float *want = s->logits + (size_t)(i - 1) * s->n_vocab;
        uint32_t best = argmax(want, s->n_vocab);
        double second = -INFINITY;
        for (uint32_t v = 0; v < s->n_vocab; v++)
            if (v != best && want[v] > second) second = want[v];
        if (want[best] - second < gap) break;
        uint32_t token = argmax(rl_session_logits(session), s->n_vocab);
        same = same && token == s->tokens[i];
        *equal += same;
        ++*expected;
        status = go_on(err);
        if (!status) status = rl_session_feed(session, &s->tokens[i], 1, err);
    }
    return status;
}
