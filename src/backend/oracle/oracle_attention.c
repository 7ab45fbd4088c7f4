/* oracle_attention.c - gated attention between its projections (docs/qwen3next.md 5). */
#include "backend/oracle/oracle.h"

#include <math.h>

#include "base/bytes.h"

enum { MAX_HEAD = 1024 };

static float load(const uint8_t *cache, uint32_t type, size_t i)
{
    return type == 0 ? ((const float *)cache)[i] : rl_f32_from_f16(((const uint16_t *)cache)[i]);
}

static void store(uint8_t *cache, uint32_t type, size_t i, double value)
{
    if (type == 0)
        ((float *)cache)[i] = (float)value;
    else
        ((uint16_t *)cache)[i] = rl_f16_from_f32((float)value);
}

/* Norm over the head, then rotation of the first n_rot values, pairs (i, i + n_rot/2). */
static void norm_and_rotate(const rl_shape *s, const double *x, const rl_weight *norm,
                            uint32_t position, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->head_dim; i++)
        sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / s->head_dim + s->rms_eps);
    for (uint32_t i = 0; i < s->head_dim; i++)
        out[i] = x[i] * scale * oracle_f32(norm, i);
    uint32_t half = s->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        double angle = position * pow(s->rope_base, -2.0 * i / s->n_rot);
        double a = out[i], b = out[i + half];
        out[i] = a * cos(angle) - b * sin(angle);
        out[i + half] = b * cos(angle) + a * sin(angle);
    }
}

typedef struct attn_job {
    oracle *o;
    const rl_attn_weights *w;
    const oracle_layer_state *state;
} attn_job;

static void append(attn_job *job)
{
    oracle *o = job->o;
    const rl_shape *s = &o->net->shape;
    const rl_state_params *p = &o->batch.state->params;
    uint32_t width = s->n_head_kv * s->head_dim;
    double rotated[MAX_HEAD];
    for (uint32_t t = 0; t < o->batch.n; t++) {
        size_t at = (size_t)(o->batch.position + t) * width;
        for (uint32_t head = 0; head < s->n_head_kv; head++) {
            norm_and_rotate(s, o->key + (size_t)t * width + head * s->head_dim, &job->w->k_norm,
                            o->batch.position + t, rotated);
            for (uint32_t i = 0; i < s->head_dim; i++)
                store(job->state->key, p->key_type, at + head * s->head_dim + i, rotated[i]);
        }
        for (uint32_t i = 0; i < width; i++)
            store(job->state->value, p->value_type, at + i, o->value[(size_t)t * width + i]);
    }
}

/* One query head of one token: two passes over the scores would need them kept, so the softmax runs
 * online: whenever a larger score appears, what was summed so far is scaled down. */
static void attend(void *arg, uint32_t index, uint32_t thread)
{
    (void)thread;
    attn_job *job = arg;
    oracle *o = job->o;
    const rl_shape *s = &o->net->shape;
    const rl_state_params *p = &o->batch.state->params;
    uint32_t t = index / s->n_head, head = index % s->n_head, d = s->head_dim;
    uint32_t width = s->n_head_kv * d, kv = head / (s->n_head / s->n_head_kv);
    const double *query = o->in + ((size_t)t * s->n_head + head) * 2 * d, *gate = query + d;
    double q[MAX_HEAD], out[MAX_HEAD], largest = -INFINITY, total = 0;
    norm_and_rotate(s, query, &job->w->q_norm, o->batch.position + t, q);
    for (uint32_t i = 0; i < d; i++)
        out[i] = 0;
    for (uint32_t at = 0; at <= o->batch.position + t; at++) {
        size_t row = (size_t)at * width + kv * d;
        double score = 0;
        for (uint32_t i = 0; i < d; i++)
            score += q[i] * load(job->state->key, p->key_type, row + i);
        score /= sqrt(d);
        double weight = 1;
        if (score > largest) {
            double shrink = exp(largest - score);
            for (uint32_t i = 0; i < d; i++)
                out[i] *= shrink;
            total *= shrink;
            largest = score;
        } else {
            weight = exp(score - largest);
        }
        total += weight;
        for (uint32_t i = 0; i < d; i++)
            out[i] += weight * load(job->state->value, p->value_type, row + i);
    }
    double *y = o->y + ((size_t)t * s->n_head + head) * d;
    for (uint32_t i = 0; i < d; i++)
        y[i] = out[i] / total * oracle_sigmoid(gate[i]);
}

void oracle_attn_step(oracle *o, uint32_t layer)
{
    attn_job job = { .o = o,
                     .w = &o->net->layers[layer].attn,
                     .state = &o->batch.state->layers[layer] };
    append(&job);
    rl_pool_run(o->pool, attend, &job, o->batch.n * o->net->shape.n_head);
}
