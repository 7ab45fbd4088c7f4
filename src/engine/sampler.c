/* sampler.c - engine/sampler.h and rl_sampler_* of redlite.h.
 *
 * Candidates are collected from all logits or from a list of the largest; the steps behind that are
 * the same code. The list is enough when every token outside of it would stand behind what the steps
 * look at: bias and penalties only lower then, so such a token stays behind the list's last entry.
 *
 * Memory: three arrays of n_vocab taken at create; sampling allocates nothing.
 * Time: one pass over the vocabulary or the list, plus a heap of as many candidates as the steps look
 * at. */
#include "engine/sampler.h"

#include "base/assert.h"
#include "base/bytes.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    double logit;
    double weight;
    uint32_t token;
} candidate;

struct rl_sampler {
    rl_sampler_params params; /* its bias points to bias[] */
    rl_logit_bias *bias;
    uint32_t n_vocab;
    uint64_t n_draws;

    /* The last penalty_window tokens of the text, and where each token was seen last (counted from
     * 1; 0 = never), so that a token that occurs twice in the window is punished once. */
    uint32_t *window;
    uint64_t *seen_at;
    uint64_t n_accepted;

    double *logits; /* [n_vocab] after bias and penalties */
    candidate *candidates;
};

/* ---- arithmetic that is the same everywhere -------------------------------------------------- */

double rl_sampler_exp(double x)
{
    /* ln 2 in two parts: the first has zeros at its end, so that k * ln2_high is exact. */
    static const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    /* 1/n! */
    static const double terms[] = {
        1.0,
        1.0,
        0x1p-1,
        0x1.5555555555555p-3,
        0x1.5555555555555p-5,
        0x1.1111111111111p-7,
        0x1.6c16c16c16c17p-10,
        0x1.a01a01a01a01ap-13,
        0x1.a01a01a01a01ap-16,
        0x1.71de3a556c734p-19,
        0x1.27e4fb7789f5cp-22,
        0x1.ae64567f544e4p-26,
        0x1.1eed8eff8d898p-29,
        0x1.6124613a86d09p-33,
    };
    if (x != x) return x;
    if (x < -700) return 0;
    if (x > 0) x = 0;
    int k = (int)(x * 0x1.71547652b82fep+0 - 0.5); /* x / ln 2, rounded; x is not positive */
    double r = (x - (double)k * ln2_high) - (double)k * ln2_low;
    double sum = terms[RL_COUNT_OF(terms) - 1];
    for (size_t i = RL_COUNT_OF(terms) - 1; i-- > 0;)
        sum = sum * r + terms[i];
    /* 2^k with k >= -1010, a normal number. */
    uint64_t bits = (uint64_t)(1023 + k) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rl_sampler_random(uint64_t seed, uint64_t draw)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    return mix(mix(seed + step) + (draw + 1) * step);
}

/* ---- life ------------------------------------------------------------------------------------ */

static rl_status check(const rl_sampler_params *p, uint32_t n_vocab, rl_error *err)
{
    if (!(p->temperature >= 0) || isinf(p->temperature))
        return rl_fail(err, RL_INVALID, "temperature %g is not a number from 0 up",
                       (double)p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return rl_fail(err, RL_INVALID, "top-p %g is not between 0 and 1", (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return rl_fail(err, RL_INVALID, "min-p %g is not between 0 and 1", (double)p->min_p);
    if (!(p->repeat_penalty >= 0) || isinf(p->repeat_penalty))
        return rl_fail(err, RL_INVALID, "repeat penalty %g is not a number from 0 up",
                       (double)p->repeat_penalty);
    if (!isfinite(p->presence_penalty))
        return rl_fail(err, RL_INVALID, "presence penalty %g is not a finite number",
                       (double)p->presence_penalty);
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token >= n_vocab)
            return rl_fail(err, RL_INVALID,
                           "logit bias for token %u, but the vocabulary has %u tokens",
                           p->bias[i].token, n_vocab);
        if (isnan(p->bias[i].bias))
            return rl_fail(err, RL_INVALID, "logit bias of token %u is not a number",
                           p->bias[i].token);
    }
    return RL_OK;
}

rl_status rl_sampler_create(rl_sampler **out, const rl_sampler_params *params, uint32_t n_vocab,
                            rl_error *err)
{
    RL_ASSERT(out && params && n_vocab);
    RL_ASSERT(params->bias || !params->n_bias);
    *out = NULL;
    rl_status status = check(params, n_vocab, err);
    if (status) return status;

    rl_sampler *s = calloc(1, sizeof *s);
    if (!s) return rl_fail(err, RL_NOMEM, "no memory for a sampler");
    s->params = *params;
    s->n_vocab = n_vocab;
    if (!s->params.penalty_window) s->params.penalty_window = 64;
    s->logits = calloc(n_vocab, sizeof *s->logits);
    s->candidates = calloc(n_vocab, sizeof *s->candidates);
    s->seen_at = calloc(n_vocab, sizeof *s->seen_at);
    s->window = calloc(s->params.penalty_window, sizeof *s->window);
    s->bias = calloc(params->n_bias + 1, sizeof *s->bias);
    if (!s->logits || !s->candidates || !s->seen_at || !s->window || !s->bias) {
        rl_sampler_destroy(s);
        return rl_fail(err, RL_NOMEM, "no memory for a sampler over %u tokens", n_vocab);
    }
    for (size_t i = 0; i < params->n_bias; i++)
        s->bias[i] = params->bias[i];
    s->params.bias = s->bias;
    *out = s;
    return RL_OK;
}

void rl_sampler_destroy(rl_sampler *sampler)
{
    if (!sampler) return;
    free(sampler->logits);
    free(sampler->candidates);
    free(sampler->seen_at);
    free(sampler->window);
    free(sampler->bias);
    free(sampler);
}

void rl_sampler_accept(rl_sampler *sampler, uint32_t token)
{
    RL_ASSERT(sampler && token < sampler->n_vocab);
    sampler->window[sampler->n_accepted % sampler->params.penalty_window] = token;
    sampler->seen_at[token] = ++sampler->n_accepted;
}

static bool cuts_share(const rl_sampler_params *p)
{
    return p->top_p > 0 && p->top_p < 1;
}

static bool has_penalty(const rl_sampler_params *p)
{
    return (p->repeat_penalty != 0 && p->repeat_penalty != 1) || p->presence_penalty != 0;
}

bool rl_sampler_is_plain_greedy(const rl_sampler *sampler)
{
    RL_ASSERT(sampler);
    return sampler->params.temperature == 0 && !sampler->params.n_bias &&
           !has_penalty(&sampler->params);
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* NaN is as good as impossible, so that comparisons below form a total order. */
static double possible(double logit)
{
    return isnan(logit) ? -INFINITY : logit;
}

/* Bias and penalties act where a token's logit lies in s->logits. For a list, the places of other
 * tokens hold what was left there: changed as well, read by nobody. */
static void apply_bias(rl_sampler *s)
{
    for (size_t i = 0; i < s->params.n_bias; i++) {
        double *logit = &s->logits[s->bias[i].token];
        *logit = possible(*logit + (double)s->bias[i].bias);
    }
}

static void apply_penalties(rl_sampler *s)
{
    const rl_sampler_params *p = &s->params;
    if (!has_penalty(p)) return;
    double repeat = p->repeat_penalty != 0 ? p->repeat_penalty : 1;
    uint64_t first = s->n_accepted > p->penalty_window ? s->n_accepted - p->penalty_window : 0;
    for (uint64_t i = first; i < s->n_accepted; i++) {
        uint32_t token = s->window[i % p->penalty_window];
        if (s->seen_at[token] != i + 1) continue; /* it occurs again later in the window */
        double logit = s->logits[token];
        logit = logit > 0 ? logit / repeat : logit * repeat;
        s->logits[token] = possible(logit - (double)p->presence_penalty);
    }
}

/* The lowest id of the largest logit. Sixteen lanes, so that the compiler can use wide registers. */
static uint32_t largest(const double *logits, uint32_t n)
{
    enum { LANES = 16 };
    double lanes[LANES], top = -INFINITY;
    uint32_t i = 0;
    for (uint32_t l = 0; l < LANES; l++)
        lanes[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t l = 0; l < LANES; l++)
            lanes[l] = logits[i + l] > lanes[l] ? logits[i + l] : lanes[l];
    for (; i < n; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t l = 0; l < LANES; l++)
        top = lanes[l] > top ? lanes[l] : top;
    for (i = 0; logits[i] != top; i++)
        ;
    return i;
}

/* Whether a stands before b: the order, which is total. */
static bool before(const candidate *a, const candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* A heap whose root is the candidate that stands first (sign > 0) or last (sign < 0). */
static void sift_down(candidate *heap, uint32_t n, uint32_t root, bool first)
{
    candidate moving = heap[root];
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= n) break;
        if (child + 1 < n && before(&heap[child + 1], &heap[child]) == first) child++;
        if (before(&heap[child], &moving) != first) break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moving;
}

/* Collects the candidates, at most the k first (0: all). Returns how many they are. When some were
 * left out they stand in the order, otherwise by ascending id. */
static uint32_t collect(rl_sampler *s, uint32_t k)
{
    candidate *c = s->candidates;
    const double *logits = s->logits;
    uint32_t n = 0, i = 0;
    bool cut = false;
    if (!k) k = s->n_vocab;
    for (; i < s->n_vocab && n < k; i++)
        if (logits[i] != -INFINITY) c[n++] = (candidate){ logits[i], 0, i };
    for (; i < s->n_vocab; i++) {
        if (logits[i] == -INFINITY) continue;
        if (!cut) {
            cut = true;
            for (uint32_t r = n / 2; r-- > 0;)
                sift_down(c, n, r, false);
        }
        if (logits[i] <= c[0].logit) continue; /* equal ones have a higher id */
        c[0] = (candidate){ logits[i], 0, i };
        sift_down(c, n, 0, false);
    }
    for (uint32_t r = n; cut && r-- > 1;) { /* the last one goes to the end, again and again */
        candidate last = c[0];
        c[0] = c[r];
        c[r] = last;
        sift_down(c, r, 0, false);
    }
    return n;
}

/* Brings the candidates that together reach the share p of `total` to the front, in the order, and
 * returns how many they are. A heap yields them one by one, because they are usually few. */
static uint32_t select_share(candidate *c, uint32_t n, double p, double total)
{
    /* The heap shrinks from c[0..left); what it yields is parked behind it, then turned round. */
    uint32_t left = n;
    double sum = 0;
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(c, n, i, true);
    while (left > 0) {
        candidate next = c[0];
        c[0] = c[--left];
        sift_down(c, left, 0, true);
        c[left] = next;
        sum += next.weight;
        if (sum >= p * total) break;
    }
    uint32_t n_taken = n - left;
    for (uint32_t i = 0; i < n_taken / 2; i++) {
        candidate t = c[left + i];
        c[left + i] = c[n - 1 - i];
        c[n - 1 - i] = t;
    }
    memmove(c, c + left, n_taken * sizeof *c);
    return n_taken;
}

static double sum_weights(const candidate *c, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

static uint32_t draw(rl_sampler *s, const candidate *c, uint32_t n)
{
    double u = (double)(rl_sampler_random(s->params.seed, s->n_draws++) >> 11) * 0x1p-53;
    double mark = u * sum_weights(c, n), sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += c[i].weight;
        if (sum > mark) return c[i].token;
    }
    for (uint32_t i = n; i-- > 1;) /* rounding: the last that has any weight */
        if (c[i].weight > 0) return c[i].token;
    return c[0].token;
}

static double weigh(const rl_sampler *s, double logit, double top)
{
    return rl_sampler_exp(logit == top ? 0 : (logit - top) / (double)s->params.temperature);
}

/* The steps behind top-k: n candidates, the largest logit among them is `top`. */
static uint32_t choose(rl_sampler *s, uint32_t n, double top)
{
    const rl_sampler_params *p = &s->params;
    candidate *c = s->candidates;
    for (uint32_t i = 0; i < n; i++)
        c[i].weight = weigh(s, c[i].logit, top);
    if (cuts_share(p)) n = select_share(c, n, p->top_p, sum_weights(c, n));
    if (p->min_p > 0) { /* weights are relative to the largest, whose weight is 1 */
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if (c[i].weight >= (double)p->min_p) c[kept++] = c[i];
        n = kept;
    }
    return draw(s, c, n);
}

static uint32_t sample(rl_sampler *s)
{
    uint32_t best = largest(s->logits, s->n_vocab);
    double top = s->logits[best];
    if (top == -INFINITY) return 0;
    if (s->params.temperature == 0) return best;
    return choose(s, collect(s, s->params.top_k), top);
}

uint32_t rl_sampler_sample(rl_sampler *sampler, const float *logits)
{
    RL_ASSERT(sampler && logits);
    for (uint32_t i = 0; i < sampler->n_vocab; i++)
        sampler->logits[i] = possible(logits[i]);
    apply_bias(sampler);
    apply_penalties(sampler);
    uint32_t token = sample(sampler);
    rl_sampler_accept(sampler, token);
    return token;
}

/* ---- from the largest alone ------------------------------------------------------------------ */

/* Whether bias or penalties can make a logit larger than it was. */
static bool may_raise(const rl_sampler_params *p)
{
    if (p->presence_penalty < 0 || (p->repeat_penalty > 0 && p->repeat_penalty < 1)) return true;
    for (size_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].bias > 0) return true;
    return false;
}

/* Whether top-k leaves out anything when nearly every logit can be chosen. */
static bool cuts_count(const rl_sampler *s)
{
    return s->params.top_k > 0 && s->params.top_k < s->n_vocab;
}

uint32_t rl_sampler_needs(const rl_sampler *sampler)
{
    RL_ASSERT(sampler);
    const rl_sampler_params *p = &sampler->params;
    if (may_raise(p)) return UINT32_MAX;
    if (p->temperature == 0) return 1;
    if (cuts_count(sampler)) return p->top_k + 1; /* one more shows that top-k cuts */
    return p->min_p > 0 && !cuts_share(p) ? 2 : UINT32_MAX;
}

/* Collects the candidates of a list whose logits have their places in s->logits: in the order. */
static uint32_t collect_list(rl_sampler *s, const rl_top_logits *list)
{
    candidate *c = s->candidates;
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        candidate next = { s->logits[list->tokens[i]], 0, list->tokens[i] };
        if (next.logit == -INFINITY) continue;
        uint32_t at = n++; /* they come in the order but for those that were lowered */
        for (; at > 0 && before(&next, &c[at - 1]); at--)
            c[at] = c[at - 1];
        c[at] = next;
    }
    return n;
}

/* Whether n candidates, in the order, decide, though there may be others behind `last`. */
static bool decides(const rl_sampler *s, uint32_t n, const candidate *last)
{
    const rl_sampler_params *p = &s->params;
    const candidate *c = s->candidates;
    uint32_t certain = 0; /* so many stand before every other */
    while (certain < n && !before(last, &c[certain]))
        certain++;
    if (!certain) return false;
    if (p->temperature == 0) return true;
    if (cuts_count(s)) return certain >= p->top_k && n > p->top_k;
    if (cuts_share(p)) return false;
    /* Others weigh no more than the last one, but for the error of exp. */
    return weigh(s, last->logit, c[0].logit) < (double)p->min_p * (1 - 1e-9);
}

static void sort_by_token(candidate *c, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        candidate next = c[i];
        uint32_t at = i;
        for (; at > 0 && c[at - 1].token > next.token; at--)
            c[at] = c[at - 1];
        c[at] = next;
    }
}

bool rl_sampler_sample_top(rl_sampler *sampler, const rl_top_logits *list, uint32_t *token)
{
    rl_sampler *s = sampler;
    RL_ASSERT(s && list && token && list->n <= RL_TOP_LOGITS);
    if (!list->all && (!list->n || may_raise(&s->params))) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        RL_ASSERT(list->tokens[i] < s->n_vocab);
        s->logits[list->tokens[i]] = possible(list->logits[i]);
    }
    candidate last = { 0 };
    if (list->n) last = (candidate){ list->logits[list->n - 1], 0, list->tokens[list->n - 1] };
    apply_bias(s);
    apply_penalties(s);
    uint32_t n = collect_list(s, list), k = s->params.top_k;
    if (!list->all && !decides(s, n, &last)) return false;
    double top = n ? s->candidates[0].logit : 0;
    if (!n || s->params.temperature == 0) {
        *token = n ? s->candidates[0].token : 0;
    } else {
        if (k && k < n)
            n = k;
        else
            sort_by_token(s->candidates, n); /* nothing is cut: as collect() leaves them */
        *token = choose(s, n, top);
    }
    rl_sampler_accept(s, *token);
    return true;
}
