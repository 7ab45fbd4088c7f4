/* cpu_delta.c - gated delta net layers: projections, convolution, delta rule, gated norm.
 *
 * One token takes two loops: the projections, then everything else by key head (a key head and the
 * value heads it serves touch nothing of the others). Many tokens take three: the convolution runs
 * first, by heads of channels, and the delta rule then runs by value heads, which are more.
 *
 * The delta rule goes token by token, a few columns of S at a time, which stay in the first cache.
 * The chunked form of docs/qwen3next.md 4.6 needs as many multiplications and rounds differently; it
 * pays only on machines with matrix units for f32. */
#include "backend/cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

typedef struct delta_loop {
    rl_cpu *cpu;
    const rl_layer *layer;
    const float *conv; /* [C][channels] */
    rl_cpu_state_layer *state;
    uint32_t current, current_delta;
} delta_loop;

rl_status rl_cpu_delta_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_layer *l = &cpu->net->layers[layer];
    const rl_delta_weights *w = &l->delta;
    RL_ASSERT(l->recurrent);
    rl_cpu_norm_rows(
        cpu, &(rl_cpu_norm){ .x = cpu->x, .n = cpu->n, .weight = &l->mix_norm, .act = &cpu->h });
    rl_cpu_job jobs[3] = {
        { .a = rl_cpu_matrix_of(&w->qkv), .y = cpu->u },
        { .a = rl_cpu_matrix_of(&w->gate), .y = cpu->z },
        { .a = rl_cpu_matrix_of(&w->ba), .y = cpu->m },
    };
    for (int i = 0; i < 3; i++) {
        jobs[i].act = cpu->h;
        jobs[i].n = cpu->n;
        jobs[i].y_stride = jobs[i].a.rows;
    }
    rl_cpu_jobs_run(cpu, jobs, 3);
    cpu->counters.dense_passes += 3;
    cpu->counters.stages++;
    return RL_OK;
}

/* Convolution of head `head` among [q heads, k heads, v heads]. */
static void conv_head(const delta_loop *loop, uint32_t head)
{
    const rl_cpu *cpu = loop->cpu;
    const rl_shape *s = &cpu->shape;
    const uint32_t channels = rl_shape_conv_channels(s);
    const size_t at = (size_t)head * s->delta_dim;
    float norm = 0; /* value heads have none */
    if (head < s->n_key_head)
        norm = 1.0f / sqrtf((float)s->delta_dim);
    else if (head < 2 * s->n_key_head)
        norm = 1.0f;
    cpu->stages->conv(&(rl_cpu_conv){
        .u = cpu->u + at,
        .stride = channels,
        .n = cpu->n,
        .width = s->delta_dim,
        .taps = s->conv_taps,
        .weights = loop->conv + at,
        .state_in = loop->state->conv[loop->current] + at,
        .state_out = loop->state->conv[loop->current ^ 1] + at,
        .channels = channels,
        .norm_scale = norm,
    });
}

/* beta and decay of some tokens, docs/qwen3next.md 4.1. */
static void gates(const delta_loop *loop, uint32_t head, uint32_t first, uint32_t n, float *decay,
                  float *beta)
{
    const rl_shape *s = &loop->cpu->shape;
    const uint32_t per_key = s->n_value_head / s->n_key_head;
    const float *dt = loop->layer->delta.dt.host, *a = loop->layer->delta.a.host;
    for (uint32_t t = 0; t < n; t++) {
        const float *m = loop->cpu->m + (size_t)(first + t) * 2 * s->n_value_head +
                         (size_t)(head / per_key) * 2 * per_key + head % per_key;
        const float b = m[0], x = m[per_key] + dt[head];
        beta[t] = 1.0f / (1.0f + expf(-b));
        /* softplus without overflow: log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
        const float softplus = fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
        decay[t] = expf(a[head] * softplus);
    }
}

static void delta_head(const delta_loop *loop, uint32_t head, uint32_t thread)
{
    rl_cpu *cpu = loop->cpu;
    const rl_shape *s = &cpu->shape;
    rl_cpu_scratch *scratch = &cpu->scratch[thread];
    const uint32_t d = s->delta_dim, padded = rl_cpu_pad(d);
    const uint32_t channels = rl_shape_conv_channels(s);
    const uint32_t key_head = head / (s->n_value_head / s->n_key_head);
    const size_t state_at = (size_t)head * padded * d;
    /* One token pays the debt of the last one in place; more go from one copy to the other. */
    const uint32_t from = loop->current_delta, to = cpu->n == 1 ? from : from ^ 1;
    const float *state = loop->state->delta[from] + state_at;
    float *next = loop->state->delta[to] + state_at;
    const size_t owed_at = (size_t)head * rl_cpu_owed_width(d);
    const float *owed = loop->state->owed[loop->current] + owed_at;
    float *owing = loop->state->owed[loop->current ^ 1] + owed_at; /* k, e, decay */
    if (!loop->state->owes) {
        memset(owing, 0, 2 * padded * sizeof(float)); /* nothing is owed: S = 1 S + 0 */
        owing[2 * padded] = 1;
        owed = owing;
    }

    for (uint32_t first = 0; first < cpu->n; first += RL_CPU_CHUNK) {
        const uint32_t n = cpu->n - first < RL_CPU_CHUNK ? cpu->n - first : RL_CPU_CHUNK;
        const float *u = cpu->u + (size_t)first * channels;
        const float *v = u + (size_t)(2 * s->n_key_head + head) * d;
        size_t v_stride = channels;
        if (padded != d) { /* whole blocks of columns, zeros behind the head */
            for (uint32_t t = 0; t < n; t++) {
                float *row = scratch->delta_v + (size_t)t * padded;
                memcpy(row, v + (size_t)t * channels, d * sizeof(float));
                memset(row + d, 0, (padded - d) * sizeof(float));
            }
            v = scratch->delta_v;
            v_stride = padded;
        }
        gates(loop, head, first, n, scratch->decay, scratch->beta);
        cpu->stages->delta(&(rl_cpu_delta){
            .n = n,
            .d = d,
            .owed_decay = owed[2 * padded],
            .owed_k = owed,
            .owed_e = owed + padded,
            .last_e = owing + padded,
            .q = u + (size_t)key_head * d,
            .k = u + (size_t)(s->n_key_head + key_head) * d,
            .v = v,
            .q_stride = channels,
            .k_stride = channels,
            .v_stride = v_stride,
            .decay = scratch->decay,
            .beta = scratch->beta,
            .kq = scratch->kq,
            .state_in = first ? next : state,
            .state_out = next,
            .out = scratch->delta_out,
        });
        memcpy(owing, u + (size_t)(n - 1) * channels + (size_t)(s->n_key_head + key_head) * d,
               d * sizeof(float));
        owing[2 * padded] = scratch->decay[n - 1];
        owed = owing;
        for (uint32_t t = 0; t < n; t++) {
            const size_t at = ((size_t)(first + t) * s->n_value_head + head) * d;
            cpu->stages->gated_norm(scratch->delta_out + (size_t)t * padded,
                                    loop->layer->delta.norm.host, cpu->z + at, d, s->rms_eps,
                                    cpu->y + at);
        }
    }
}

static void conv_task(void *arg, uint32_t head, uint32_t thread)
{
    (void)thread;
    conv_head(arg, head);
}

static void delta_task(void *arg, uint32_t head, uint32_t thread)
{
    delta_head(arg, head, thread);
}

static void key_head_task(void *arg, uint32_t key_head, uint32_t thread)
{
    const delta_loop *loop = arg;
    const rl_shape *s = &loop->cpu->shape;
    const uint32_t per_key = s->n_value_head / s->n_key_head;
    conv_head(loop, key_head);
    conv_head(loop, s->n_key_head + key_head);
    for (uint32_t i = 0; i < per_key; i++) {
        conv_head(loop, 2 * s->n_key_head + key_head * per_key + i);
        delta_head(loop, key_head * per_key + i, thread);
    }
}

rl_status rl_cpu_delta_step(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &cpu->shape;
    RL_ASSERT(cpu->net->layers[layer].recurrent);
    delta_loop loop = {
        .cpu = cpu,
        .layer = &cpu->net->layers[layer],
        .conv = cpu->layers[layer].conv,
        .state = &cpu->state->layers[layer],
        .current = cpu->state->current,
        .current_delta = cpu->state->current_delta,
    };
    if (cpu->n == 1 && s->n_key_head >= cpu->n_threads) { /* the same numbers either way */
        rl_pool_run(cpu->pool, key_head_task, &loop, s->n_key_head);
    } else {
        rl_pool_run(cpu->pool, conv_task, &loop, 2 * s->n_key_head + s->n_value_head);
        rl_pool_run(cpu->pool, delta_task, &loop, s->n_value_head);
    }
    if (cpu->n == 1) loop.state->owes = false; /* paid; what this token owes counts with commit */
    cpu->counters.stages++;
    return RL_OK;
}
