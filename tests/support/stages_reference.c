/* stages_reference.c - tests/support/stages_reference.h. */
#include "support/stages_reference.h"

#include <math.h>

#include "base/bytes.h"
#include "quant/quant.h"
#include "support/test.h"

double *rl_test_doubles(size_t n)
{
    double *p = calloc(n + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static void multiply(const rl_test_net *n, const rl_weight *w, const double *x, double *y)
{
    const float *plain = rl_test_net_plain(n, w);
    for (uint32_t r = 0; r < w->rows; r++) {
        y[r] = 0;
        for (uint32_t c = 0; c < w->cols; c++)
            y[r] += plain[(size_t)r * w->cols + c] * x[c];
    }
}

static void rms(const double *x, const float *weight, uint32_t n, double eps, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    const double scale = 1 / sqrt(sum / n + eps);
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static void ref_delta(const rl_test_net *n, const rl_layer *l, rl_test_trace_layer *t,
                      const double *h, double *y)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t d = s->delta_dim, hv = s->n_value_head, r = hv / s->n_key_head;
    const uint32_t channels = rl_shape_conv_channels(s), past = s->conv_taps - 1;
    double *u = rl_test_doubles(channels), *c = rl_test_doubles(channels),
           *z = rl_test_doubles(hv * d);
    double *m = rl_test_doubles(2 * hv), *p = rl_test_doubles(d), *o = rl_test_doubles(d);
    multiply(n, &l->delta.qkv, h, u);
    multiply(n, &l->delta.gate, h, z);
    multiply(n, &l->delta.ba, h, m);
    const float *conv = rl_test_net_plain(n, &l->delta.conv);
    for (uint32_t ch = 0; ch < channels; ch++) {
        double sum = u[ch] * conv[ch * s->conv_taps + past];
        for (uint32_t j = 0; j < past; j++)
            sum += t->conv[(size_t)j * channels + ch] * conv[ch * s->conv_taps + j];
        c[ch] = silu(sum);
    }
    for (uint32_t j = 0; j < past; j++)
        memcpy(t->conv + (size_t)j * channels,
               j + 1 < past ? t->conv + (size_t)(j + 1) * channels : u, channels * sizeof *u);
    for (uint32_t head = 0; head < 2 * s->n_key_head; head++) {
        double sum = 1e-6;
        for (uint32_t i = 0; i < d; i++)
            sum += c[head * d + i] * c[head * d + i];
        for (uint32_t i = 0; i < d; i++)
            c[head * d + i] /= sqrt(sum) * (head < s->n_key_head ? sqrt(d) : 1);
    }
    for (uint32_t j = 0; j < hv; j++) {
        const double *q = c + j / r * d, *k = c + (s->n_key_head + j / r) * d;
        const double *v = c + (2 * s->n_key_head + j) * d;
        const double beta = sigmoid(m[j / r * 2 * r + j % r]);
        const double a = m[j / r * 2 * r + r + j % r] + rl_test_net_plain(n, &l->delta.dt)[j];
        const double decay = exp(rl_test_net_plain(n, &l->delta.a)[j] * log1p(exp(a)));
        double *state = t->s + (size_t)j * d * d;
        for (uint32_t i = 0; i < d * d; i++)
            state[i] *= decay;
        for (uint32_t x = 0; x < d; x++) {
            p[x] = 0;
            for (uint32_t i = 0; i < d; i++)
                p[x] += k[i] * state[i * d + x];
        }
        for (uint32_t x = 0; x < d; x++) {
            const double e = beta * (v[x] - p[x]);
            o[x] = 0;
            for (uint32_t i = 0; i < d; i++) {
                state[i * d + x] += k[i] * e;
                o[x] += state[i * d + x] * q[i];
            }
        }
        rms(o, rl_test_net_plain(n, &l->delta.norm), d, s->rms_eps, o);
        for (uint32_t x = 0; x < d; x++)
            y[j * d + x] = o[x] * silu(z[j * d + x]);
    }
    free(u);
    free(c);
    free(z);
    free(m);
    free(p);
    free(o);
}

void rl_test_rotate(const rl_shape *s, uint32_t position, double *head)
{
    const uint32_t half = s->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double angle = position * pow(s->rope_base, -2.0 * i / s->n_rot);
        const double a = head[i], b = head[i + half];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + half] = b * cos(angle) + a * sin(angle);
    }
}

static void ref_attention(const rl_test_net *n, const rl_layer *l, rl_test_trace_layer *t,
                          uint32_t position, const double *h, double *y)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t d = s->head_dim, kv = s->n_head_kv * d;
    double *qg = rl_test_doubles(2 * s->n_head * d), *score = rl_test_doubles(position + 1);
    double *keys = t->keys + (size_t)position * kv;
    multiply(n, &l->attn.q, h, qg);
    multiply(n, &l->attn.k, h, keys);
    multiply(n, &l->attn.v, h, t->values + (size_t)position * kv);
    for (uint32_t head = 0; head < s->n_head_kv; head++) {
        rms(keys + head * d, rl_test_net_plain(n, &l->attn.k_norm), d, s->rms_eps, keys + head * d);
        rl_test_rotate(s, position, keys + head * d);
    }
    for (uint32_t head = 0; head < s->n_head; head++) {
        double *q = qg + head * 2 * d, *gate = q + d, sum = 0, max = -1e30;
        const uint32_t from = head / (s->n_head / s->n_head_kv) * d;
        rms(q, rl_test_net_plain(n, &l->attn.q_norm), d, s->rms_eps, q);
        rl_test_rotate(s, position, q);
        for (uint32_t x = 0; x <= position; x++) {
            score[x] = 0;
            for (uint32_t i = 0; i < d; i++)
                score[x] += q[i] * t->keys[(size_t)x * kv + from + i];
            score[x] /= sqrt(d);
            max = fmax(max, score[x]);
        }
        for (uint32_t x = 0; x <= position; x++)
            sum += score[x] = exp(score[x] - max);
        for (uint32_t i = 0; i < d; i++) {
            double out = 0;
            for (uint32_t x = 0; x <= position; x++)
                out += score[x] * t->values[(size_t)x * kv + from + i];
            y[head * d + i] = out / sum * sigmoid(gate[i]);
        }
    }
    free(qg);
    free(score);
}

static void ref_expert(const float *gate, const float *up, const float *down, uint32_t h,
                       uint32_t f, const double *x, double weight, double *y)
{
    for (uint32_t r = 0; r < f; r++) {
        double g = 0, u = 0;
        for (uint32_t c = 0; c < h; c++) {
            g += gate[(size_t)r * h + c] * x[c];
            u += up[(size_t)r * h + c] * x[c];
        }
        const double mid = silu(g) * u * weight;
        for (uint32_t c = 0; c < h; c++)
            y[c] += down[(size_t)c * f + r] * mid;
    }
}

rl_test_trace *rl_test_reference(const rl_test_net *n, uint32_t n_tokens)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t h = s->n_embd, e = s->n_expert, k = s->n_expert_used;
    const uint32_t kv = s->n_head_kv * s->head_dim;
    rl_test_trace *t = calloc(1, sizeof *t);
    t->n = n_tokens;
    t->tokens = malloc(n_tokens * sizeof *t->tokens);
    t->embed = rl_test_doubles((size_t)n_tokens * h);
    t->final = rl_test_doubles((size_t)n_tokens * h);
    t->logits = rl_test_doubles((size_t)n_tokens * s->n_vocab);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        rl_test_trace_layer *l = &t->layer[i];
        l->mix = rl_test_doubles((size_t)n_tokens * h);
        l->out = rl_test_doubles((size_t)n_tokens * h);
        l->router = rl_test_doubles((size_t)n_tokens * e);
        l->weights = rl_test_doubles((size_t)n_tokens * k);
        l->ids = calloc((size_t)n_tokens * k, sizeof *l->ids);
        l->conv = rl_test_doubles((size_t)s->conv_taps * rl_shape_conv_channels(s));
        l->s = rl_test_doubles((size_t)s->n_value_head * s->delta_dim * s->delta_dim);
        l->keys = rl_test_doubles((size_t)n_tokens * kv);
        l->values = rl_test_doubles((size_t)n_tokens * kv);
    }
    double *x = rl_test_doubles(h), *in = rl_test_doubles(h), *out = rl_test_doubles(h);
    double *y = rl_test_doubles(s->n_value_head * s->delta_dim + s->n_head * s->head_dim);
    uint64_t seed = 7;
    for (uint32_t p = 0; p < n_tokens; p++) {
        t->tokens[p] = (uint32_t)(rl_test_random(&seed) % s->n_vocab);
        for (uint32_t i = 0; i < h; i++)
            x[i] = rl_test_net_plain(n, &n->net.embedding)[(size_t)t->tokens[p] * h + i];
        memcpy(t->embed + (size_t)p * h, x, h * sizeof *x);
        for (uint32_t i = 0; i < s->n_layer; i++) {
            const rl_layer *l = &n->layers[i];
            rl_test_trace_layer *tl = &t->layer[i];
            rms(x, rl_test_net_plain(n, &l->mix_norm), h, s->rms_eps, in);
            if (l->recurrent)
                ref_delta(n, l, tl, in, y);
            else
                ref_attention(n, l, tl, p, in, y);
            multiply(n, l->recurrent ? &l->delta.out : &l->attn.out, y, out);
            for (uint32_t c = 0; c < h; c++)
                x[c] += out[c];
            memcpy(tl->mix + (size_t)p * h, x, h * sizeof *x);

            rms(x, rl_test_net_plain(n, &l->moe_norm), h, s->rms_eps, in);
            double *router = tl->router + (size_t)p * e, *weights = tl->weights + (size_t)p * k;
            uint32_t *ids = tl->ids + (size_t)p * k;
            multiply(n, &l->router, in, router);
            double sum = 0;
            for (uint32_t a = 0; a < k; a++) { /* the best that is not yet taken */
                uint32_t best = e;
                for (uint32_t c = 0; c < e; c++) {
                    bool taken = false;
                    for (uint32_t b = 0; b < a; b++)
                        taken |= ids[b] == c;
                    if (!taken && (best == e || router[c] > router[best])) best = c;
                }
                ids[a] = best;
                sum += weights[a] = exp(router[best] - router[ids[0]]);
            }
            double scale = 0;
            multiply(n, &l->shared_scale, in, &scale);
            for (uint32_t a = 0; a < k; a++) {
                const size_t at = (size_t)ids[a] * s->n_ff_expert * h;
                weights[a] /= sum;
                ref_expert(n->experts[i][0] + at, n->experts[i][1] + at, n->experts[i][2] + at, h,
                           s->n_ff_expert, in, weights[a], x);
            }
            ref_expert(rl_test_net_plain(n, &l->shared_gate), rl_test_net_plain(n, &l->shared_up),
                       rl_test_net_plain(n, &l->shared_down), h, s->n_ff_shared, in, sigmoid(scale),
                       x);
            memcpy(tl->out + (size_t)p * h, x, h * sizeof *x);
        }
        rms(x, rl_test_net_plain(n, &n->net.output_norm), h, s->rms_eps, t->final + (size_t)p * h);
        multiply(n, &n->net.head, t->final + (size_t)p * h, t->logits + (size_t)p * s->n_vocab);
    }
    free(x);
    free(in);
    free(out);
    free(y);
    return t;
}

void rl_test_trace_free(rl_test_trace *t)
{
    for (uint32_t i = 0; i < RL_TEST_NET_LAYERS; i++) {
        rl_test_trace_layer *l = &t->layer[i];
        double *all[] = {
            l->mix, l->out, l->router, l->weights, l->conv, l->s, l->keys, l->values
        };
        for (size_t j = 0; j < RL_COUNT_OF(all); j++)
            free(all[j]);
        free(l->ids);
    }
    free(t->tokens);
    free(t->embed);
    free(t->final);
    free(t->logits);
    free(t);
}
