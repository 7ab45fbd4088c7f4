/* test_cpu_stages.c - every stage of the cpu backend against a direct computation in double.
 *
 * The reference below is QWEN3NEXT.md written down once more, token by token, on random small nets
 * of odd shapes. It keeps every intermediate value that the backend can show, and the backend is
 * led through the same tokens in batches of many sizes; the reference's experts are forced, so that
 * a near-tie cannot part the two. */
#include "support/test.h"

#include <math.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/bytes.h"
#include "quant/quant.h"
#include "support/fault.h"

/* ---- a random net ---------------------------------------------------------------------------- */

enum { F32 = 0, F16 = 1, Q8_0 = 8, MAX_LAYERS = 6 };

typedef struct net {
    rl_net net;
    rl_layer layers[MAX_LAYERS];
    rl_backend *be;
    const rl_backend_ops *ops;
    uint64_t seed;
    float *plain[256]; /* decoded weights, in the order of allocation */
    rl_weight *weight[256];
    uint32_t n_plain;
    float *experts[MAX_LAYERS][3]; /* [E][F][H], [E][F][H], [E][H][F] decoded */
} net;

static void fill_bytes(net *n, uint32_t type, uint64_t values, float spread, void *out)
{
    for (uint64_t i = 0; i < values; i++) {
        const float x = rl_test_random_normal(&n->seed) * spread;
        if (type == F32) {
            ((float *)out)[i] = x;
        } else if (type == F16) {
            ((uint16_t *)out)[i] = rl_f16_from_f32(x);
        } else { /* Q8_0: a scale and 32 bytes */
            uint8_t *block = (uint8_t *)out + i / 32 * 34;
            const uint16_t d = rl_f16_from_f32(spread / 40);
            memcpy(block, &d, 2);
            float q = x / (spread / 40);
            q = q > 127 ? 127 : q < -127 ? -127 : q;
            block[2 + i % 32] = (uint8_t)(int8_t)lrintf(q);
        }
    }
}

static float *add_weight(net *n, rl_weight *w, uint32_t type, uint32_t rows, uint32_t cols,
                         float spread, float centre)
{
    rl_error err = { "" };
    *w = (rl_weight){ .type = type, .rows = rows, .cols = cols };
    assert_ok(n->ops->weight_alloc(n->be, w, "test.weight", &err));
    const uint64_t values = (uint64_t)rows * cols;
    uint8_t *bytes = malloc(w->bytes);
    fill_bytes(n, type, values, spread, bytes);
    if (centre != 0)
        for (uint64_t i = 0; i < values; i++)
            ((float *)(void *)bytes)[i] += centre;
    const uint64_t half = w->bytes / 3; /* in two writes */
    assert_ok(n->ops->weight_write(n->be, w, 0, bytes, half, &err));
    assert_ok(n->ops->weight_write(n->be, w, half, bytes + half, w->bytes - half, &err));
    float *plain = malloc(values * sizeof *plain);
    rl_quant_decode(rl_quant_find(type), bytes, values, plain);
    free(bytes);
    assert_true(n->n_plain < 256);
    n->weight[n->n_plain] = w;
    n->plain[n->n_plain++] = plain;
    return plain;
}

static const float *plain_of(const net *n, const rl_weight *w)
{
    for (uint32_t i = 0; i < n->n_plain; i++)
        if (n->weight[i] == w) return n->plain[i];
    fail_msg("no such weight");
    return NULL;
}

typedef struct net_params {
    rl_shape shape;
    const char *recurrent; /* per layer 'G' or 'A' */
    uint32_t dense_type, expert_type, down_type;
    uint32_t threads, max_batch;
    const char *isa;
} net_params;

static void add_experts(net *n, uint32_t layer, uint32_t type, uint32_t down_type)
{
    rl_error err = { "" };
    const rl_shape *s = &n->net.shape;
    rl_expert_layout *e = &n->layers[layer].expert;
    const uint64_t values = (uint64_t)s->n_ff_expert * s->n_embd;
    for (int part = 0; part < 3; part++)
        n->experts[layer][part] = malloc(values * s->n_expert * sizeof(float));
    uint8_t *slot = malloc(e->bytes);
    for (uint32_t x = 0; x < s->n_expert; x++) {
        fill_bytes(n, type, values, 1.5f / sqrtf((float)s->n_embd), slot + e->gate_offset);
        fill_bytes(n, type, values, 1.5f / sqrtf((float)s->n_embd), slot + e->up_offset);
        fill_bytes(n, down_type, values, 1.5f / sqrtf((float)s->n_ff_expert),
                   slot + e->down_offset);
        rl_quant_decode(rl_quant_find(type), slot + e->gate_offset, values,
                        n->experts[layer][0] + x * values);
        rl_quant_decode(rl_quant_find(type), slot + e->up_offset, values,
                        n->experts[layer][1] + x * values);
        rl_quant_decode(rl_quant_find(down_type), slot + e->down_offset, values,
                        n->experts[layer][2] + x * values);
        /* Slots in another order than experts. */
        const uint32_t index = layer * s->n_expert + (s->n_expert - 1 - x);
        if (x % 2)
            memcpy(n->ops->slot_host(n->be, 1, index), slot, e->bytes);
        else
            assert_ok(n->ops->slot_write(n->be, 1, index, 0, slot, e->bytes, &err));
        n->ops->residency_set(n->be, layer, x, n->ops->slot_address(n->be, 1, index));
    }
    free(slot);
}

static net *net_create(const net_params *p)
{
    rl_error err = { "" };
    net *n = calloc(1, sizeof *n);
    n->ops = &rl_backend_cpu;
    n->seed = 42;
    assert_ok(
        n->ops->open(&n->be, &(rl_backend_params){ .n_threads = p->threads, .isa = p->isa }, &err));
    rl_shape *s = &n->net.shape;
    *s = p->shape;
    n->net.layers = n->layers;
    const float in = 1.5f / sqrtf((float)s->n_embd);
    const uint32_t h = s->n_embd, dense = p->dense_type;
    add_weight(n, &n->net.embedding, dense, s->n_vocab, h, 1, 0);
    add_weight(n, &n->net.output_norm, F32, 1, h, 0.3f, 1);
    add_weight(n, &n->net.head, dense, s->n_vocab, h, in, 0);
    const uint32_t vd = s->n_value_head * s->delta_dim, channels = rl_shape_conv_channels(s);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        rl_layer *l = &n->layers[i];
        l->recurrent = p->recurrent[i] == 'G';
        add_weight(n, &l->mix_norm, F32, 1, h, 0.3f, 1);
        add_weight(n, &l->moe_norm, F32, 1, h, 0.3f, 1);
        if (l->recurrent) {
            rl_delta_weights *w = &l->delta;
            add_weight(n, &w->qkv, dense, channels, h, in, 0);
            add_weight(n, &w->gate, dense, vd, h, in, 0);
            add_weight(n, &w->ba, dense, 2 * s->n_value_head, h, in, 0);
            add_weight(n, &w->conv, F32, channels, s->conv_taps, 0.6f, 0);
            add_weight(n, &w->dt, F32, 1, s->n_value_head, 1, 0);
            float *a = add_weight(n, &w->a, F32, 1, s->n_value_head, 0.2f, 0.3f);
            for (uint32_t j = 0; j < s->n_value_head; j++)
                a[j] = -fabsf(a[j]);
            assert_ok(n->ops->weight_write(n->be, &w->a, 0, a, w->a.bytes, &err));
            add_weight(n, &w->norm, F32, 1, s->delta_dim, 0.3f, 1);
            add_weight(n, &w->out, dense, h, vd, 1.0f / sqrtf((float)vd), 0);
        } else {
            rl_attn_weights *w = &l->attn;
            const uint32_t d = s->head_dim;
            add_weight(n, &w->q, dense, 2 * s->n_head * d, h, in, 0);
            add_weight(n, &w->k, dense, s->n_head_kv * d, h, in, 0);
            add_weight(n, &w->v, dense, s->n_head_kv * d, h, in, 0);
            add_weight(n, &w->q_norm, F32, 1, d, 0.3f, 1.5f);
            add_weight(n, &w->k_norm, F32, 1, d, 0.3f, 1.5f);
            add_weight(n, &w->out, dense, h, s->n_head * d, 1.5f / sqrtf((float)s->n_head * d), 0);
        }
        add_weight(n, &l->router, F32, s->n_expert, h, in, 0);
        add_weight(n, &l->shared_scale, F32, 1, h, in, 0);
        add_weight(n, &l->shared_gate, dense, s->n_ff_shared, h, in, 0);
        add_weight(n, &l->shared_up, dense, s->n_ff_shared, h, in, 0);
        add_weight(n, &l->shared_down, dense, h, s->n_ff_shared,
                   1.5f / sqrtf((float)s->n_ff_shared), 0);
        uint64_t part, down;
        const uint64_t values = (uint64_t)s->n_ff_expert * h;
        assert_true(rl_quant_bytes(rl_quant_find(p->expert_type), values, &part));
        assert_true(rl_quant_bytes(rl_quant_find(p->down_type), values, &down));
        l->expert = (rl_expert_layout){ .gate_type = p->expert_type,
                                        .up_type = p->expert_type,
                                        .down_type = p->down_type,
                                        .gate_offset = down,
                                        .up_offset = down + part,
                                        .down_offset = 0,
                                        .bytes = down + 2 * part,
                                        .slot_class = 1 };
    }
    const uint64_t bytes[2] = { 4096, n->layers[0].expert.bytes };
    const uint32_t count[2] = { 1, s->n_layer * s->n_expert };
    assert_ok(n->ops->pool_create(n->be, 2, bytes, count, &err));
    assert_ok(n->ops->attach(n->be, &n->net, p->max_batch, &err));
    for (uint32_t i = 0; i < s->n_layer; i++)
        add_experts(n, i, p->expert_type, p->down_type);
    return n;
}

static void net_destroy(net *n)
{
    n->ops->close(n->be);
    for (uint32_t i = 0; i < n->n_plain; i++)
        free(n->plain[i]);
    for (uint32_t i = 0; i < MAX_LAYERS; i++)
        for (int part = 0; part < 3; part++)
            free(n->experts[i][part]);
    free(n);
}

/* ---- the reference --------------------------------------------------------------------------- */

typedef struct trace_layer {
    double *mix, *out;     /* [T][H] residual stream after the mixer and after the layer */
    double *router;        /* [T][E] */
    uint32_t *ids;         /* [T][K] */
    double *weights;       /* [T][K] */
    double *conv, *s;      /* [C-1][channels], [Hv][D][D] at the end */
    double *keys, *values; /* [T][n_head_kv d] */
} trace_layer;

typedef struct trace {
    uint32_t n; /* tokens */
    uint32_t *tokens;
    double *embed, *final, *logits; /* [T][..] */
    trace_layer layer[MAX_LAYERS];
} trace;

static double *doubles(size_t n)
{
    double *p = calloc(n + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static void multiply(const net *n, const rl_weight *w, const double *x, double *y)
{
    const float *plain = plain_of(n, w);
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

static void ref_delta(const net *n, const rl_layer *l, trace_layer *t, const double *h, double *y)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t d = s->delta_dim, hv = s->n_value_head, r = hv / s->n_key_head;
    const uint32_t channels = rl_shape_conv_channels(s), past = s->conv_taps - 1;
    double *u = doubles(channels), *c = doubles(channels), *z = doubles(hv * d);
    double *m = doubles(2 * hv), *p = doubles(d), *o = doubles(d);
    multiply(n, &l->delta.qkv, h, u);
    multiply(n, &l->delta.gate, h, z);
    multiply(n, &l->delta.ba, h, m);
    const float *conv = plain_of(n, &l->delta.conv);
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
        const double a = m[j / r * 2 * r + r + j % r] + plain_of(n, &l->delta.dt)[j];
        const double decay = exp(plain_of(n, &l->delta.a)[j] * log1p(exp(a)));
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
        rms(o, plain_of(n, &l->delta.norm), d, s->rms_eps, o);
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

static void ref_rotate(const rl_shape *s, uint32_t position, double *head)
{
    const uint32_t half = s->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double angle = position * pow(s->rope_base, -2.0 * i / s->n_rot);
        const double a = head[i], b = head[i + half];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + half] = b * cos(angle) + a * sin(angle);
    }
}

static void ref_attention(const net *n, const rl_layer *l, trace_layer *t, uint32_t position,
                          const double *h, double *y)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t d = s->head_dim, kv = s->n_head_kv * d;
    double *qg = doubles(2 * s->n_head * d), *score = doubles(position + 1);
    double *keys = t->keys + (size_t)position * kv;
    multiply(n, &l->attn.q, h, qg);
    multiply(n, &l->attn.k, h, keys);
    multiply(n, &l->attn.v, h, t->values + (size_t)position * kv);
    for (uint32_t head = 0; head < s->n_head_kv; head++) {
        rms(keys + head * d, plain_of(n, &l->attn.k_norm), d, s->rms_eps, keys + head * d);
        ref_rotate(s, position, keys + head * d);
    }
    for (uint32_t head = 0; head < s->n_head; head++) {
        double *q = qg + head * 2 * d, *gate = q + d, sum = 0, max = -1e30;
        const uint32_t from = head / (s->n_head / s->n_head_kv) * d;
        rms(q, plain_of(n, &l->attn.q_norm), d, s->rms_eps, q);
        ref_rotate(s, position, q);
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

static trace *ref_run(const net *n, uint32_t n_tokens)
{
    const rl_shape *s = &n->net.shape;
    const uint32_t h = s->n_embd, e = s->n_expert, k = s->n_expert_used;
    const uint32_t kv = s->n_head_kv * s->head_dim;
    trace *t = calloc(1, sizeof *t);
    t->n = n_tokens;
    t->tokens = malloc(n_tokens * sizeof *t->tokens);
    t->embed = doubles((size_t)n_tokens * h);
    t->final = doubles((size_t)n_tokens * h);
    t->logits = doubles((size_t)n_tokens * s->n_vocab);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        trace_layer *l = &t->layer[i];
        l->mix = doubles((size_t)n_tokens * h);
        l->out = doubles((size_t)n_tokens * h);
        l->router = doubles((size_t)n_tokens * e);
        l->weights = doubles((size_t)n_tokens * k);
        l->ids = calloc((size_t)n_tokens * k, sizeof *l->ids);
        l->conv = doubles((size_t)s->conv_taps * rl_shape_conv_channels(s));
        l->s = doubles((size_t)s->n_value_head * s->delta_dim * s->delta_dim);
        l->keys = doubles((size_t)n_tokens * kv);
        l->values = doubles((size_t)n_tokens * kv);
    }
    double *x = doubles(h), *in = doubles(h), *out = doubles(h);
    double *y = doubles(s->n_value_head * s->delta_dim + s->n_head * s->head_dim);
    uint64_t seed = 7;
    for (uint32_t p = 0; p < n_tokens; p++) {
        t->tokens[p] = (uint32_t)(rl_test_random(&seed) % s->n_vocab);
        for (uint32_t i = 0; i < h; i++)
            x[i] = plain_of(n, &n->net.embedding)[(size_t)t->tokens[p] * h + i];
        memcpy(t->embed + (size_t)p * h, x, h * sizeof *x);
        for (uint32_t i = 0; i < s->n_layer; i++) {
            const rl_layer *l = &n->layers[i];
            trace_layer *tl = &t->layer[i];
            rms(x, plain_of(n, &l->mix_norm), h, s->rms_eps, in);
            if (l->recurrent)
                ref_delta(n, l, tl, in, y);
            else
                ref_attention(n, l, tl, p, in, y);
            multiply(n, l->recurrent ? &l->delta.out : &l->attn.out, y, out);
            for (uint32_t c = 0; c < h; c++)
                x[c] += out[c];
            memcpy(tl->mix + (size_t)p * h, x, h * sizeof *x);

            rms(x, plain_of(n, &l->moe_norm), h, s->rms_eps, in);
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
            ref_expert(plain_of(n, &l->shared_gate), plain_of(n, &l->shared_up),
                       plain_of(n, &l->shared_down), h, s->n_ff_shared, in, sigmoid(scale), x);
            memcpy(tl->out + (size_t)p * h, x, h * sizeof *x);
        }
        rms(x, plain_of(n, &n->net.output_norm), h, s->rms_eps, t->final + (size_t)p * h);
        multiply(n, &n->net.head, t->final + (size_t)p * h, t->logits + (size_t)p * s->n_vocab);
    }
    free(x);
    free(in);
    free(out);
    free(y);
    return t;
}

static void trace_free(trace *t)
{
    for (uint32_t i = 0; i < MAX_LAYERS; i++) {
        trace_layer *l = &t->layer[i];
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

/* ---- leading the backend along --------------------------------------------------------------- */

static void expect(const float *got, const double *want, size_t n, double tolerance,
                   const char *what, uint32_t layer, uint32_t position)
{
    double error = 0, size = 1e-30;
    for (size_t i = 0; i < n; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (!(sqrt(error / size) <= tolerance))
        fail_msg("%s, layer %u, position %u: relative error %g, allowed %g", what, layer, position,
                 sqrt(error / size), tolerance);
}

typedef struct player {
    net *n;
    const trace *t; /* NULL: nothing is compared and nothing forced */
    const uint32_t *tokens;
    rl_state *state;
    double tolerance;
    uint32_t position;
    float *tap;    /* room for any tap   */
    float *logits; /* [max_batch][vocab] */
    uint32_t *ids, *assign;
    rl_expert_group *groups;
    bool halves; /* experts in two calls, the later half first */
} player;

/* The groups of ids [n][k]; returns how many. */
static uint32_t group(const rl_shape *s, const uint32_t *ids, uint32_t n, rl_expert_group *groups,
                      uint32_t *assign)
{
    uint32_t n_groups = 0, used = 0;
    for (uint32_t e = 0; e < s->n_expert; e++) {
        rl_expert_group g = { .expert = e, .assign = assign + used };
        for (uint32_t i = 0; i < n * s->n_expert_used; i++)
            if (ids[i] == e) assign[used + g.n++] = i;
        used += g.n;
        if (g.n) groups[n_groups++] = g;
    }
    return n_groups;
}

static void play(player *p, uint32_t n)
{
    rl_error err = { "" };
    net *w = p->n;
    const rl_backend_ops *ops = w->ops;
    rl_backend *be = w->be;
    const rl_shape *s = &w->net.shape;
    const uint32_t h = s->n_embd, k = s->n_expert_used, e = s->n_expert;
    const size_t at = (size_t)p->position;
    assert_ok(ops->begin(be,
                         &(rl_batch){ .observed = true,
                                      .state = p->state,
                                      .tokens = p->tokens + at,
                                      .n = n,
                                      .position = p->position },
                         &err));
    assert_ok(ops->embed(be, &err));
    if (p->t) {
        assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
        expect(p->tap, p->t->embed + at * h, (size_t)n * h, 1e-6, "embed", 0, p->position);
    }
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const trace_layer *t = p->t ? &p->t->layer[i] : NULL;
        if (w->layers[i].recurrent) {
            assert_ok(ops->delta_in(be, i, &err));
            assert_ok(ops->delta_step(be, i, &err));
        } else {
            assert_ok(ops->attn_in(be, i, &err));
            assert_ok(ops->attn_step(be, i, &err));
        }
        assert_ok(ops->mix_out(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
            expect(p->tap, t->mix + at * h, (size_t)n * h, p->tolerance, "mixer", i, p->position);
        }
        assert_ok(ops->moe_in(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_ROUTER, p->tap, &err));
            expect(p->tap, t->router + at * e, (size_t)n * e, p->tolerance, "router", i,
                   p->position);
            /* The backend's own choice follows from its own logits by the common rule. */
            assert_ok(ops->route(be, i, NULL, p->ids, &err));
            for (uint32_t x = 0; x < n; x++) {
                uint32_t ids[RL_MAX_EXPERTS_USED];
                float weights[RL_MAX_EXPERTS_USED];
                rl_router_topk(p->tap + (size_t)x * e, e, k, ids, weights);
                assert_memory_equal(ids, p->ids + (size_t)x * k, k * sizeof *ids);
            }
        }
        assert_ok(ops->route(be, i, t ? t->ids + at * k : NULL, p->ids, &err));
        if (t) {
            assert_memory_equal(p->ids, t->ids + at * k, (size_t)n * k * sizeof *p->ids);
            assert_ok(ops->read_tap(be, RL_TAP_ROUTE_WEIGHTS, p->tap, &err));
            expect(p->tap, t->weights + at * k, (size_t)n * k, p->tolerance, "weights", i,
                   p->position);
        }
        if (n == 1 && i + 1 < s->n_layer) { /* a guess must disturb nothing */
            uint32_t ahead[RL_MAX_EXPERTS_USED];
            assert_ok(ops->route_ahead(be, i + 1, ahead, &err));
            for (uint32_t a = 0; a < k; a++)
                assert_true(ahead[a] < e);
        }
        assert_ok(ops->moe_shared(be, i, &err));
        const uint32_t n_groups = group(s, p->ids, n, p->groups, p->assign);
        if (p->halves) {
            const uint32_t half = n_groups / 2;
            assert_ok(ops->moe_experts(be, i, p->groups + half, n_groups - half, &err));
            if (half) assert_ok(ops->moe_experts(be, i, p->groups, half, &err));
        } else {
            assert_ok(ops->moe_experts(be, i, p->groups, n_groups, &err));
        }
        assert_ok(ops->moe_out(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
            expect(p->tap, t->out + at * h, (size_t)n * h, p->tolerance, "experts", i, p->position);
        }
    }
    for (uint32_t first = 0; first < n; first += RL_HEAD_ROWS) {
        const uint32_t rows = n - first < RL_HEAD_ROWS ? n - first : RL_HEAD_ROWS;
        assert_ok(ops->head(be, first, rows, p->logits + (size_t)first * s->n_vocab, &err));
        if (!p->t) continue;
        assert_ok(ops->read_tap(be, RL_TAP_FINAL_NORM, p->tap, &err));
        expect(p->tap, p->t->final + (at + first) * h, (size_t)rows * h, p->tolerance, "final norm",
               0, p->position + first);
    }
    if (p->t)
        expect(p->logits, p->t->logits + at * s->n_vocab, (size_t)n * s->n_vocab, p->tolerance,
               "logits", 0, p->position);
    assert_ok(ops->end(be, &err));
}

static void play_commit(player *p, uint32_t n)
{
    play(p, n);
    p->n->ops->state_commit(p->n->be, p->state);
    p->position += n;
}

static player player_create(net *n, const trace *t, const rl_state_params *state, uint32_t batch,
                            double tolerance)
{
    rl_error err = { "" };
    const rl_shape *s = &n->net.shape;
    size_t width = s->n_embd > s->n_expert ? s->n_embd : s->n_expert;
    player p = { .n = n, .t = t, .tokens = t->tokens, .tolerance = tolerance };
    p.tap = malloc(batch * width * sizeof(float));
    p.logits = malloc((size_t)batch * s->n_vocab * sizeof(float));
    p.ids = malloc((size_t)batch * s->n_expert_used * sizeof(uint32_t));
    p.assign = malloc((size_t)batch * s->n_expert_used * sizeof(uint32_t));
    p.groups = malloc(s->n_expert * sizeof *p.groups);
    assert_ok(n->ops->state_create(n->be, &p.state, state, &err));
    return p;
}

static void player_destroy(player *p)
{
    p->n->ops->state_destroy(p->n->be, p->state);
    free(p->tap);
    free(p->logits);
    free(p->ids);
    free(p->assign);
    free(p->groups);
}

static void expect_states(const player *p)
{
    rl_error err = { "" };
    const net *n = p->n;
    const rl_shape *s = &n->net.shape;
    const uint32_t channels = rl_shape_conv_channels(s), kv = s->n_head_kv * s->head_dim;
    const size_t delta = (size_t)s->n_value_head * s->delta_dim * s->delta_dim;
    const size_t conv = (size_t)(s->conv_taps - 1) * channels, cache = (size_t)p->position * kv;
    float *got = malloc((delta + conv + cache) * sizeof *got);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const trace_layer *t = &p->t->layer[i];
        const double tolerance = p->tolerance;
        if (n->layers[i].recurrent) {
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_CONV, 0, got, &err));
            expect(got, t->conv, conv, tolerance, "conv state", i, p->position);
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_DELTA, 0, got, &err));
            expect(got, t->s, delta, tolerance, "delta state", i, p->position);
        } else {
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_KEY, p->position, got, &err));
            expect(got, t->keys, cache, tolerance, "keys", i, p->position);
            assert_ok(
                n->ops->state_read(n->be, p->state, i, RL_STATE_VALUE, p->position, got, &err));
            expect(got, t->values, cache, tolerance, "values", i, p->position);
        }
    }
    free(got);
}

/* ---- nets ------------------------------------------------------------------------------------ */

/* Nothing here is a multiple of a vector. */
static const net_params odd = {
    .shape = { .n_layer = 3,
               .n_embd = 36,
               .n_vocab = 53,
               .rms_eps = 1e-6f,
               .n_head = 6,
               .n_head_kv = 2,
               .head_dim = 20,
               .n_rot = 6,
               .rope_base = 1e4f,
               .conv_taps = 3,
               .n_key_head = 2,
               .n_value_head = 6,
               .delta_dim = 20,
               .n_expert = 7,
               .n_expert_used = 3,
               .n_ff_expert = 22,
               .n_ff_shared = 41 },
    .recurrent = "GAG",
    .dense_type = F32,
    .expert_type = F32,
    .down_type = F16,
    .threads = 2,
    .max_batch = 130,
    .isa = "exact",
};

/* The shape of real models, small; quantised. */
static const net_params even = {
    .shape = { .n_layer = 4,
               .n_embd = 64,
               .n_vocab = 96,
               .rms_eps = 1e-6f,
               .n_head = 8,
               .n_head_kv = 2,
               .head_dim = 64,
               .n_rot = 16,
               .rope_base = 1e7f,
               .conv_taps = 4,
               .n_key_head = 2,
               .n_value_head = 4,
               .delta_dim = 128,
               .n_expert = 16,
               .n_expert_used = 4,
               .n_ff_expert = 64,
               .n_ff_shared = 32 },
    .recurrent = "GGAA",
    .dense_type = Q8_0,
    .expert_type = Q8_0,
    .down_type = F16,
    .threads = 2,
    .max_batch = 130,
    .isa = "exact",
};

static const uint32_t batches[] = { 1, 2, 63, 64, 65, 130, 1, 1, 5, 1 };

static uint32_t total(const uint32_t *sizes, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sizes[i];
    return sum;
}

/* Plays `sizes` with everything compared. */
static void check(const net_params *params, const uint32_t *sizes, size_t n_sizes,
                  uint32_t key_type, uint32_t value_type, double tolerance)
{
    net *n = net_create(params);
    trace *t = ref_run(n, total(sizes, n_sizes));
    player p = player_create(
        n, t, &(rl_state_params){ .n_ctx = t->n, .key_type = key_type, .value_type = value_type },
        params->max_batch, tolerance);
    for (size_t i = 0; i < n_sizes; i++) {
        p.halves = i % 2;
        play_commit(&p, sizes[i]);
    }
    if (!key_type && !value_type) expect_states(&p);
    player_destroy(&p);
    trace_free(t);
    net_destroy(n);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Every stage, every batch size around the chunk border.
 * Stands against: tails of vectors, padded columns, wrong head maps, a state that loses a token. */
static void cpu_stages_odd_shapes(void **state)
{
    (void)state;
    check(&odd, batches, RL_COUNT_OF(batches), F32, F32, 2e-5);
}

static void cpu_stages_even_shapes(void **state)
{
    (void)state;
    check(&even, batches, RL_COUNT_OF(batches), F32, F32, 2e-5);
}

/* One batch for everything. */
static void cpu_stages_one_batch(void **state)
{
    (void)state;
    static const uint32_t one[] = { 130 };
    check(&odd, one, 1, F32, F32, 2e-5);
    check(&even, one, 1, F32, F32, 2e-5);
}

/* Contexts long enough to be cut into parts, also by batches that cross a cut.
 * Stands against: parts joined wrongly, a part that the first token of a batch cannot see. */
static void cpu_stages_long_context(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 200, 200, 110, 1, 1, 3, 1, 200, 50, 7, 1, 1, 1, 2, 200, 1 };
    net_params p = odd;
    p.max_batch = 200;
    check(&p, sizes, RL_COUNT_OF(sizes), F32, F32, 2e-5);
}

static void cpu_stages_half_cache(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 70, 1, 1, 64, 5 };
    check(&odd, sizes, RL_COUNT_OF(sizes), F16, F16, 3e-3);
    check(&even, sizes, RL_COUNT_OF(sizes), F16, F32, 3e-3);
    check(&even, sizes, RL_COUNT_OF(sizes), F32, F16, 3e-3);
}

/* Every table of kernels that this machine can run. */
static void cpu_stages_every_isa(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 66, 1, 9 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        if (!rl_cpu_kernels_at(i)) continue;
        net_params p = odd;
        p.isa = rl_cpu_kernels_name(i);
        check(&p, sizes, RL_COUNT_OF(sizes), F32, F32, 2e-5); /* F32 weights: f32 everywhere */
        p = even;
        p.isa = rl_cpu_kernels_name(i);
        check(&p, sizes, RL_COUNT_OF(sizes), F16, F16, strcmp(p.isa, "exact") ? 5e-2 : 3e-3);
        n++;
    }
    assert_true(n >= 2);
}

/* The same bits with any number of threads, also with more threads than cores.
 * Stands against: sums whose order depends on who came first. */
static void cpu_stages_threads_do_not_matter(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 2, 130, 1, 65, 1, 130, 130, 120, 1, 1 };
    static const uint32_t threads[] = { 1, 2, 5 };
    static const char *const isas[] = { "exact", NULL };
    for (size_t isa = 0; isa < RL_COUNT_OF(isas); isa++) {
        float *first = NULL;
        for (size_t i = 0; i < RL_COUNT_OF(threads); i++) {
            net_params params = even;
            params.threads = threads[i];
            params.isa = isas[isa];
            net *n = net_create(&params);
            trace *t = ref_run(n, 1);
            const uint32_t n_tokens = total(sizes, RL_COUNT_OF(sizes));
            uint32_t *tokens = malloc(n_tokens * sizeof *tokens);
            uint64_t seed = 3;
            for (uint32_t x = 0; x < n_tokens; x++)
                tokens[x] = (uint32_t)(rl_test_random(&seed) % params.shape.n_vocab);
            player p = player_create(n, t, &(rl_state_params){ .n_ctx = n_tokens, F16, F16 },
                                     params.max_batch, 0);
            p.t = NULL;
            p.tokens = tokens;
            float *all = malloc((size_t)n_tokens * params.shape.n_vocab * sizeof *all);
            for (size_t b = 0; b < RL_COUNT_OF(sizes); b++) {
                const size_t at = (size_t)p.position * params.shape.n_vocab;
                p.halves = (i + b) % 2; /* nor does the order in which experts come */
                play_commit(&p, sizes[b]);
                memcpy(all + at, p.logits, (size_t)sizes[b] * params.shape.n_vocab * sizeof *all);
            }
            if (first) {
                assert_memory_equal(first, all,
                                    (size_t)n_tokens * params.shape.n_vocab * sizeof *all);
                free(all);
            } else {
                first = all;
            }
            player_destroy(&p);
            free(tokens);
            trace_free(t);
            net_destroy(n);
        }
        free(first);
    }
}

/* A batch that is not committed leaves no trace; a copied state continues with the same bits. */
static void cpu_stages_state_moves(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (int which = 0; which < 2; which++) {
        const net_params *params = which ? &even : &odd;
        net *n = net_create(params);
        const rl_shape *s = &params->shape;
        trace *t = ref_run(n, 100);
        const rl_state_params sp = { .n_ctx = 100, .key_type = F16, .value_type = F32 };
        player a = player_create(n, t, &sp, params->max_batch, 3e-3);
        player b = player_create(n, t, &sp, params->max_batch, 3e-3);
        play_commit(&a, 70);
        play(&a, 30); /* forgotten */
        float *want = malloc(s->n_vocab * sizeof *want);

        size_t room = (size_t)s->n_value_head * s->delta_dim * s->delta_dim;
        const size_t conv = (size_t)s->conv_taps * rl_shape_conv_channels(s);
        const size_t kv = (size_t)100 * s->n_head_kv * s->head_dim;
        if (room < conv) room = conv;
        if (room < kv) room = kv;
        float *part = malloc(room * sizeof *part);
        for (uint32_t i = 0; i < s->n_layer; i++) {
            const rl_state_part first = n->layers[i].recurrent ? RL_STATE_CONV : RL_STATE_KEY;
            for (rl_state_part x = first; x <= first + 1; x++) {
                assert_ok(n->ops->state_read(n->be, a.state, i, x, 70, part, &err));
                assert_ok(n->ops->state_write(n->be, b.state, i, x, 70, part, &err));
            }
        }
        b.position = 70;
        static const uint32_t next[] = { 1, 1, 3, 1, 2, 1 };
        for (size_t i = 0; i < RL_COUNT_OF(next); i++) {
            play(&a, i % 2 ? 5 : 1); /* forgotten, in the middle of single tokens too */
            play_commit(&a, next[i]);
            memcpy(want, a.logits, s->n_vocab * sizeof *want);
            play_commit(&b, next[i]);
            assert_memory_equal(want, b.logits, s->n_vocab * sizeof *want);
        }

        /* From zeros again, in the used state and in a new one. */
        player c = player_create(n, t, &sp, params->max_batch, 3e-3);
        assert_ok(n->ops->state_reset(n->be, a.state, &err));
        a.position = 0;
        play_commit(&a, 64);
        play_commit(&c, 64);
        assert_memory_equal(a.logits, c.logits, (size_t)64 * s->n_vocab * sizeof *want);
        free(part);
        free(want);
        player_destroy(&a);
        player_destroy(&b);
        player_destroy(&c);
        trace_free(t);
        net_destroy(n);
    }
}

/* The counters say what was walked: every dense matrix once per batch, whatever its size; and that the
 * threads meet at most eight times per layer of a token. */
static void cpu_stages_counters(void **state)
{
    (void)state;
    net *n = net_create(&even);
    trace *t = ref_run(n, 130);
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = 200 }, even.max_batch, 2e-5);
    p.t = NULL;
    play_commit(&p, 2);
    rl_backend_counters before, after;
    const uint32_t sizes[] = { 1, 64, 63 };
    for (size_t i = 0; i < RL_COUNT_OF(sizes); i++) {
        n->ops->get_counters(n->be, &before);
        play_commit(&p, sizes[i]);
        n->ops->get_counters(n->be, &after);
        /* per layer 4 of the mixer, router, the shared expert's gate and its 3 matrices; the head;
         * one token also looks ahead in all layers but the last */
        const uint32_t ahead = sizes[i] == 1 ? even.shape.n_layer - 1 : 0;
        assert_int_equal(after.dense_passes - before.dense_passes,
                         9 * even.shape.n_layer + 1 + ahead);
        assert_int_equal(after.tokens - before.tokens, sizes[i]);
        assert_true(after.expert_passes - before.expert_passes <=
                    (uint64_t)even.shape.n_layer * even.shape.n_expert);
        if (sizes[i] == 1)
            assert_int_equal(after.expert_passes - before.expert_passes,
                             even.shape.n_layer * even.shape.n_expert_used);
        /* A loop for the guess of each next layer aside. Batches may have more: they are rare. */
        const uint64_t loops = after.loops - before.loops - ahead;
        assert_true(loops >= even.shape.n_layer &&
                    loops <= (sizes[i] == 1 ? 8 : 16) * even.shape.n_layer);
        assert_int_equal(after.state_bytes_copied, 0);
    }
    player_destroy(&p);
    trace_free(t);
    net_destroy(n);
}

/* Angles stay right where f32 positions times frequencies would be off by tenths of a radian. */
static void cpu_stages_far_positions(void **state)
{
    (void)state;
    rl_error err = { "" };
    net_params params = odd;
    params.recurrent = "AGG";
    net *n = net_create(&params);
    const rl_shape *s = &params.shape;
    trace *t = ref_run(n, 1);
    const uint32_t position = 130001, d = s->head_dim;
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = position + 1 }, 130, 0);
    p.t = NULL;
    uint32_t *tokens = calloc(position + 1, sizeof *tokens);
    tokens[position] = t->tokens[0];
    p.tokens = tokens;
    p.position = position;
    play_commit(&p, 1);
    float *keys = malloc((size_t)p.position * s->n_head_kv * d * sizeof *keys);
    assert_ok(n->ops->state_read(n->be, p.state, 0, RL_STATE_KEY, p.position, keys, &err));
    /* The reference key of position 0 is not rotated. */
    double *want = doubles(d);
    memcpy(want, t->layer[0].keys, d * sizeof *want);
    ref_rotate(s, position, want);
    expect(keys + (size_t)position * s->n_head_kv * d, want, d, 2e-6, "rotated key", 0, position);
    free(want);
    free(keys);
    free(tokens);
    player_destroy(&p);
    trace_free(t);
    net_destroy(n);
}

/* Batches take nothing from the heap, and what attach takes grows with the batch. */
static void cpu_stages_allocate_nothing(void **state)
{
    (void)state;
    net *n = net_create(&odd);
    trace *t = ref_run(n, 1);
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = 200 }, odd.max_batch, 0);
    uint32_t tokens[200] = { 0 };
    p.t = NULL;
    p.tokens = tokens;
    play_commit(&p, 130);
    rl_fault_arm(UINT64_MAX);
    play_commit(&p, 1);
    play_commit(&p, 64);
    const uint64_t calls = rl_fault_calls();
    rl_fault_disarm();
    assert_int_equal(calls, 0);
    assert_true(n->ops->batch_bytes(&odd.shape, 130) > 130u * odd.shape.n_embd * sizeof(float));
    assert_true(n->ops->batch_bytes(&odd.shape, 260) > n->ops->batch_bytes(&odd.shape, 130));
    player_destroy(&p);
    trace_free(t);
    net_destroy(n);
}

/* Wrong names are errors, not crashes. */
static void cpu_stages_refusals(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_backend *be = NULL;
    const rl_backend_ops *ops = &rl_backend_cpu;
    assert_int_equal(ops->open(&be, &(rl_backend_params){ .isa = "mmx" }, &err), RL_INVALID);
    assert_null(be);
    assert_non_null(strstr(err.text, "mmx"));
    assert_ok(ops->open(&be, &(rl_backend_params){ .n_threads = 1 }, &err));
    rl_weight w = { .type = Q8_0, .rows = 2, .cols = 33 };
    assert_int_equal(ops->weight_alloc(be, &w, "blk.0.x", &err), RL_INVALID);
    assert_non_null(strstr(err.text, "blk.0.x"));
    w = (rl_weight){ .type = 77, .rows = 2, .cols = 32 };
    assert_int_equal(ops->weight_alloc(be, &w, "blk.0.x", &err), RL_UNSUPPORTED);
    const uint64_t bytes = UINT64_MAX / 4;
    const uint32_t count = 1000;
    assert_int_equal(ops->pool_create(be, 1, &bytes, &count, &err), RL_NOMEM);
    assert_false(ops->supports(be, 77, true));
    assert_true(ops->supports(be, Q8_0, true));
    ops->close(be);
    ops->close(NULL);
}

RL_TEST_MAIN(RL_TEST(cpu_stages, odd_shapes), RL_TEST(cpu_stages, even_shapes),
             RL_TEST(cpu_stages, one_batch), RL_TEST(cpu_stages, long_context),
             RL_TEST(cpu_stages, half_cache), RL_TEST(cpu_stages, every_isa),
             RL_TEST(cpu_stages, threads_do_not_matter), RL_TEST(cpu_stages, state_moves),
             RL_TEST(cpu_stages, counters), RL_TEST(cpu_stages, far_positions),
             RL_TEST(cpu_stages, allocate_nothing), RL_TEST(cpu_stages, refusals))
