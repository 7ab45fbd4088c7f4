/* cpu_attention.c - gated attention layers: projections, head norms, RoPE, the cache, softmax.
 *
 * Queries that share a key/value head lie side by side: query i of group g is token i / r, head
 * g r + i % r, r heads per group. Tiles of 32 of them walk the context together, so a key is loaded
 * once for all heads and tokens of a tile. When there are few tiles (decode), the context is cut
 * into parts as well, and the parts are joined by their maxima and sums; the cuts follow from the
 * position alone. */
#include "backend/cpu/cpu_backend.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { PART_POSITIONS = 256 }; /* a part of the context is at least this long */

typedef struct attn_loop {
    rl_cpu *cpu;
    const rl_layer *layer;
    rl_cpu_state_layer *state;
    bool key_half, value_half;
    uint32_t padded_ctx;
    uint32_t per_kv;  /* query heads of a key/value head */
    uint32_t n_tiles; /* of one key/value head           */
    uint32_t n_parts;
    uint32_t part_positions;
} attn_loop;

rl_status rl_cpu_attn_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_layer *l = &cpu->net->layers[layer];
    const rl_attn_weights *w = &l->attn;
    RL_ASSERT(!l->recurrent);
    rl_cpu_norm_rows(
        cpu, &(rl_cpu_norm){ .x = cpu->x, .n = cpu->n, .weight = &l->mix_norm, .act = &cpu->h });
    rl_cpu_job jobs[3] = {
        { .a = rl_cpu_matrix_of(&w->q), .y = cpu->qg },
        { .a = rl_cpu_matrix_of(&w->k), .y = cpu->k },
        { .a = rl_cpu_matrix_of(&w->v), .y = cpu->v },
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

/* ---- queries and keys ------------------------------------------------------------------------- */

/* Rotates the first n_rot values of a head; value i pairs with i + n_rot/2. */
static void rotate(const rl_cpu *cpu, uint32_t token, float *head)
{
    const uint32_t half = cpu->shape.n_rot / 2;
    const float *cosine = cpu->rope_cos + (size_t)token * half;
    const float *sine = cpu->rope_sin + (size_t)token * half;
    for (uint32_t i = 0; i < half; i++) {
        const float a = head[i], b = head[i + half];
        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Angles in double: positions reach 1e5 radians. */
static void rope_angles(rl_cpu *cpu, uint32_t token)
{
    const uint32_t half = cpu->shape.n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double angle = ((double)cpu->position + token) * cpu->rope_frequency[i];
        cpu->rope_cos[(size_t)token * half + i] = (float)cos(angle);
        cpu->rope_sin[(size_t)token * half + i] = (float)sin(angle);
    }
}

static void store_key(const attn_loop *loop, uint32_t head, uint32_t position, const float *key)
{
    const uint32_t d = loop->cpu->shape.head_dim;
    const size_t at =
        ((size_t)head * loop->padded_ctx + position / RL_CPU_LANES * RL_CPU_LANES) * d +
        position % RL_CPU_LANES;
    if (loop->key_half) {
        uint16_t *out = (uint16_t *)loop->state->keys + at;
        for (uint32_t i = 0; i < d; i++)
            out[(size_t)i * RL_CPU_LANES] = rl_f16_from_f32(key[i]);
    } else {
        float *out = (float *)loop->state->keys + at;
        for (uint32_t i = 0; i < d; i++)
            out[(size_t)i * RL_CPU_LANES] = key[i];
    }
}

/* Norms, rotates and stores the heads of one token. */
static void place_token(void *arg, uint32_t token, uint32_t thread)
{
    const attn_loop *loop = arg;
    rl_cpu *cpu = loop->cpu;
    const rl_cpu_kernels *k = cpu->kernels;
    const rl_shape *s = &cpu->shape;
    const uint32_t d = s->head_dim, padded = rl_cpu_pad(d), position = cpu->position + token;
    if (!cpu->rope_ready) rope_angles(cpu, token);

    for (uint32_t head = 0; head < s->n_head; head++) {
        const float *in = cpu->qg + ((size_t)token * s->n_head + head) * 2 * d;
        float *q =
            cpu->q + (((size_t)(head / loop->per_kv) * cpu->max_batch + token) * loop->per_kv +
                      head % loop->per_kv) *
                         padded;
        k->rms_norm(q, in, loop->layer->attn.q_norm.host, d, s->rms_eps);
        rotate(cpu, token, q);
        k->scale(q, 1.0f / sqrtf((float)d), d);
        memset(q + d, 0, (padded - d) * sizeof(float));
    }
    for (uint32_t head = 0; head < s->n_head_kv; head++) {
        const size_t in = ((size_t)token * s->n_head_kv + head) * d;
        float *key = cpu->scratch[thread].row;
        k->rms_norm(key, cpu->k + in, loop->layer->attn.k_norm.host, d, s->rms_eps);
        rotate(cpu, token, key);
        store_key(loop, head, position, key);
        const size_t at = ((size_t)head * loop->padded_ctx + position) * padded;
        if (loop->value_half)
            k->to_f16((uint16_t *)loop->state->values + at, cpu->v + in, d);
        else
            memcpy((float *)loop->state->values + at, cpu->v + in, d * sizeof(float));
    }
}

/* ---- attention -------------------------------------------------------------------------------- */

/* y of one query: divided by the sum, gated. */
static void finish_query(const attn_loop *loop, uint32_t kv_head, uint32_t query, const float *out,
                         float sum)
{
    const rl_cpu *cpu = loop->cpu;
    const rl_shape *s = &cpu->shape;
    const uint32_t d = s->head_dim, token = query / loop->per_kv;
    const uint32_t head = kv_head * loop->per_kv + query % loop->per_kv;
    float *y = cpu->y + ((size_t)token * s->n_head + head) * d;
    memcpy(y, out, d * sizeof(float));
    cpu->stages->sigmoid_gate(y, cpu->qg + (((size_t)token * s->n_head + head) * 2 + 1) * d,
                              1.0f / sum, d);
}

/* One tile of queries against one part of the context. */
static void attend(void *arg, uint32_t task, uint32_t thread)
{
    const attn_loop *loop = arg;
    rl_cpu *cpu = loop->cpu;
    const rl_shape *s = &cpu->shape;
    rl_cpu_scratch *scratch = &cpu->scratch[thread];
    const uint32_t d = s->head_dim, padded = rl_cpu_pad(d);
    /* Late tiles see more of the context: they go first, so that the loop ends evenly. */
    const uint32_t part = task % loop->n_parts, rest = task / loop->n_parts;
    const uint32_t kv_head = rest % s->n_head_kv;
    const uint32_t tile = loop->n_tiles - 1 - rest / s->n_head_kv;
    const uint32_t first = tile * RL_CPU_ATTN_QUERIES;
    const uint32_t left = cpu->n * loop->per_kv - first;
    const uint32_t n = left < RL_CPU_ATTN_QUERIES ? left : RL_CPU_ATTN_QUERIES;
    for (uint32_t i = 0; i < n; i++)
        scratch->attn_limit[i] = cpu->position + (first + i) / loop->per_kv + 1;
    uint32_t from = part * loop->part_positions, to = scratch->attn_limit[n - 1];
    if (to < from) to = from; /* an early tile may see nothing of the last part */
    if (to - from > loop->part_positions) to = from + loop->part_positions;

    const size_t slot = (size_t)(rest * loop->n_parts + part) * RL_CPU_ATTN_QUERIES;
    const bool whole = loop->n_parts == 1;
    const rl_cpu_attn attn = {
        .n_query = n,
        .d = d,
        .q = cpu->q + ((size_t)kv_head * cpu->max_batch * loop->per_kv + first) * padded,
        .limit = scratch->attn_limit,
        .keys = (const uint8_t *)loop->state->keys +
                (size_t)kv_head * loop->padded_ctx * d * (loop->key_half ? 2 : 4),
        .values = (const uint8_t *)loop->state->values +
                  (size_t)kv_head * loop->padded_ctx * padded * (loop->value_half ? 2 : 4),
        .key_half = loop->key_half,
        .value_half = loop->value_half,
        .from = from,
        .to = to,
        .scores = scratch->attn_scores,
        .block = scratch->attn_block,
        .out = whole ? scratch->attn_out : cpu->part + slot * padded,
        .max = whole ? scratch->attn_max : cpu->part_max + slot,
        .sum = whole ? scratch->attn_sum : cpu->part_sum + slot,
    };
    cpu->stages->attn(&attn);
    if (!whole) return;
    for (uint32_t i = 0; i < n; i++)
        finish_query(loop, kv_head, first + i, attn.out + (size_t)i * padded, attn.sum[i]);
}

/* Joins the parts of one query. */
static void join(void *arg, uint32_t task, uint32_t thread)
{
    const attn_loop *loop = arg;
    rl_cpu *cpu = loop->cpu;
    const uint32_t padded = rl_cpu_pad(cpu->shape.head_dim);
    const uint32_t n_query = cpu->n * loop->per_kv;
    const uint32_t kv_head = task / n_query, query = task % n_query;
    const uint32_t rest =
        (loop->n_tiles - 1 - query / RL_CPU_ATTN_QUERIES) * cpu->shape.n_head_kv + kv_head;
    const size_t slot =
        (size_t)rest * loop->n_parts * RL_CPU_ATTN_QUERIES + query % RL_CPU_ATTN_QUERIES;
    float max = -INFINITY, sum = 0;
    for (uint32_t p = 0; p < loop->n_parts; p++)
        max = fmaxf(max, cpu->part_max[slot + (size_t)p * RL_CPU_ATTN_QUERIES]);
    float *out = cpu->scratch[thread].attn_out;
    memset(out, 0, padded * sizeof(float));
    for (uint32_t p = 0; p < loop->n_parts; p++) {
        const size_t at = slot + (size_t)p * RL_CPU_ATTN_QUERIES;
        const float scale = expf(cpu->part_max[at] - max); /* 0 where nothing was seen */
        sum += cpu->part_sum[at] * scale;
        cpu->kernels->axpy(out, scale, cpu->part + at * padded, padded);
    }
    finish_query(loop, kv_head, query, out, sum);
}

/* Into how many parts the context is cut: enough pieces for many cores, none of them tiny. */
static void cut_context(attn_loop *loop)
{
    const rl_cpu *cpu = loop->cpu;
    const uint32_t tiles = loop->n_tiles * cpu->shape.n_head_kv, seen = cpu->position + cpu->n;
    loop->n_parts = 1;
    loop->part_positions = seen;
    if (tiles > RL_CPU_ATTN_PARTS / 2 || seen < 2 * PART_POSITIONS) return;
    const uint32_t most = RL_CPU_ATTN_PARTS / tiles;
    uint32_t length = (seen + most - 1) / most;
    if (length < PART_POSITIONS) length = PART_POSITIONS;
    length = (uint32_t)rl_align_up(length, RL_CPU_ATTN_BLOCK);
    loop->n_parts = (seen + length - 1) / length;
    loop->part_positions = length;
}

rl_status rl_cpu_attn_step(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &cpu->shape;
    RL_ASSERT(!cpu->net->layers[layer].recurrent);
    attn_loop loop = {
        .cpu = cpu,
        .layer = &cpu->net->layers[layer],
        .state = &cpu->state->layers[layer],
        .key_half = cpu->state->params.key_type != 0,
        .value_half = cpu->state->params.value_type != 0,
        .padded_ctx = cpu->state->padded_ctx,
        .per_kv = s->n_head / s->n_head_kv,
    };
    loop.n_tiles = (cpu->n * loop.per_kv + RL_CPU_ATTN_QUERIES - 1) / RL_CPU_ATTN_QUERIES;
    cut_context(&loop);
    if (cpu->n == 1)
        place_token(&loop, 0, 0);
    else
        rl_pool_run(cpu->pool, place_token, &loop, cpu->n);
    cpu->rope_ready = true;
    rl_pool_run(cpu->pool, attend, &loop, loop.n_tiles * s->n_head_kv * loop.n_parts);
    if (loop.n_parts > 1) rl_pool_run(cpu->pool, join, &loop, cpu->n * s->n_head);
    cpu->counters.stages++;
    return RL_OK;
}
