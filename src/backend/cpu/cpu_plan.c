/* cpu_plan.c - attach: the activation buffers of a network, cut out of one mapping.
 *
 * One function lists all buffers; it runs once to add up their sizes and once to hand them out. The
 * same list answers batch_bytes, where the types of the weights are not known yet: then every input
 * is planned in all formats that kernels may ask for. */
#include "backend/cpu/cpu_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { ALL_FORMATS = RL_CPU_ACT_F32 | RL_CPU_ACT_RUN8 | RL_CPU_ACT_ROW8 };

/* Which formats the matrices behind each input read. */
typedef struct formats {
    uint32_t h, y, shared, expert, final, ahead;
} formats;

typedef struct cutter {
    uint8_t *base; /* NULL: only the sum is wanted */
    size_t used;
} cutter;

static void *cut(cutter *c, size_t count, size_t width)
{
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (size_t)rl_align_up(count * width, 64);
    return piece;
}

static void cut_floats(cutter *c, float **out, size_t count)
{
    *out = cut(c, count, sizeof(float));
}

static void cut_act(cutter *c, rl_cpu_act *out, uint32_t wanted, uint32_t cols, uint32_t n)
{
    void *storage = cut(c, rl_cpu_act_bytes(wanted, cols, n), 1);
    if (storage) rl_cpu_act_init(out, wanted, cols, n, storage);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The buffers that grow with the batch, and those of a thread. */
static void cut_all(cutter *c, rl_cpu *cpu, const rl_shape *s, uint32_t n, uint32_t n_threads,
                    const formats *f)
{
    const uint32_t channels = rl_shape_conv_channels(s);
    const uint32_t delta_width = s->n_value_head * s->delta_dim;
    const uint32_t attn_width = s->n_head * s->head_dim;
    const uint32_t kv_width = s->n_head_kv * s->head_dim;
    const uint32_t y_width = larger(delta_width, attn_width);
    const uint32_t dp = rl_cpu_pad(s->head_dim), delta_dp = rl_cpu_pad(s->delta_dim);
    const uint32_t k = s->n_expert_used;
    const size_t hp = rl_cpu_pad(s->n_embd);

    cut_floats(c, &cpu->x, n * hp);
    cut_act(c, &cpu->h, f->h, s->n_embd, n);
    cut_floats(c, &cpu->u, (size_t)n * channels);
    cut_floats(c, &cpu->z, (size_t)n * delta_width);
    cut_floats(c, &cpu->m, (size_t)n * 2 * s->n_value_head);
    cut_floats(c, &cpu->qg, (size_t)n * 2 * attn_width);
    cut_floats(c, &cpu->k, (size_t)n * kv_width);
    cut_floats(c, &cpu->v, (size_t)n * kv_width);
    cut_floats(c, &cpu->q, (size_t)n * s->n_head * dp);
    const size_t queries = (size_t)RL_CPU_ATTN_PARTS * RL_CPU_ATTN_QUERIES;
    cut_floats(c, &cpu->part, queries * dp);
    cut_floats(c, &cpu->part_max, queries);
    cut_floats(c, &cpu->part_sum, queries);
    cut_floats(c, &cpu->y, (size_t)n * y_width);
    cut_act(c, &cpu->y_act, f->y, y_width, n);
    cpu->rope_frequency = cut(c, s->n_rot / 2, sizeof(double));
    cut_floats(c, &cpu->rope_cos, (size_t)n * (s->n_rot / 2));
    cut_floats(c, &cpu->rope_sin, (size_t)n * (s->n_rot / 2));
    cut_floats(c, &cpu->logits, (size_t)n * s->n_expert);
    cut_floats(c, &cpu->route_weights, (size_t)n * k);
    cpu->ids = cut(c, (size_t)n * k, sizeof(uint32_t));
    cut_floats(c, &cpu->shared_scale, n);
    cut_floats(c, &cpu->shared_mid, (size_t)n * s->n_ff_shared);
    cut_floats(c, &cpu->shared_out, n * hp);
    cut_floats(c, &cpu->expert_mid, (size_t)n * k * s->n_ff_expert);
    cut_floats(c, &cpu->expert_out, n * k * hp);
    cut_act(c, &cpu->shared_act, f->shared, s->n_ff_shared, n);
    cut_act(c, &cpu->expert_act, f->expert, s->n_ff_expert, n * k);
    cpu->expert_token = cut(c, (size_t)n * k, sizeof(uint32_t));
    cpu->expert_row = cut(c, (size_t)n * k, sizeof(uint32_t));
    cut_floats(c, &cpu->final, RL_HEAD_ROWS * hp);
    cut_act(c, &cpu->final_act, f->final, s->n_embd, RL_HEAD_ROWS);
    cut_floats(c, &cpu->ahead_logits, s->n_expert);
    cut_act(c, &cpu->ahead_act, f->ahead, s->n_embd, 1);

    for (uint32_t i = 0; i < n_threads; i++) {
        rl_cpu_scratch unused, *scratch = c->base ? &cpu->scratch[i] : &unused;
        cut_floats(c, &scratch->tile, (size_t)n * RL_CPU_BLOCK_ROWS);
        cut_floats(c, &scratch->row, larger((uint32_t)hp, dp));
        cut_floats(c, &scratch->delta_out, (size_t)RL_CPU_CHUNK * delta_dp);
        cut_floats(c, &scratch->delta_v, (size_t)RL_CPU_CHUNK * delta_dp);
        cut_floats(c, &scratch->attn_out, (size_t)RL_CPU_ATTN_QUERIES * dp);
        cut_floats(c, &scratch->attn_scores, (size_t)RL_CPU_ATTN_QUERIES * RL_CPU_ATTN_BLOCK);
        cut_floats(c, &scratch->attn_block, (size_t)2 * RL_CPU_ATTN_BLOCK * dp);
    }
}

uint64_t rl_cpu_batch_bytes(const rl_shape *shape, uint32_t max_batch)
{
    rl_cpu unused = { 0 };
    cutter c = { 0 };
    const formats all = { ALL_FORMATS, ALL_FORMATS, ALL_FORMATS,
                          ALL_FORMATS, ALL_FORMATS, ALL_FORMATS };
    cut_all(&c, &unused, shape, max_batch, rl_cpu_count(), &all);
    return c.used;
}

/* ---- attach ----------------------------------------------------------------------------------- */

/* The format that matrices of this type read, or an error that names where it stands. */
static uint32_t format_of(const rl_cpu *cpu, uint32_t type)
{
    return rl_cpu_act_format(cpu->kernels, type);
}

static formats formats_of(const rl_cpu *cpu, const rl_net *net)
{
    formats f = { 0 };
    for (uint32_t i = 0; i < net->shape.n_layer; i++) {
        const rl_layer *l = &net->layers[i];
        if (l->recurrent) {
            f.h |= format_of(cpu, l->delta.qkv.type) | format_of(cpu, l->delta.gate.type) |
                   format_of(cpu, l->delta.ba.type);
            f.y |= format_of(cpu, l->delta.out.type);
        } else {
            f.h |= format_of(cpu, l->attn.q.type) | format_of(cpu, l->attn.k.type) |
                   format_of(cpu, l->attn.v.type);
            f.y |= format_of(cpu, l->attn.out.type);
        }
        f.ahead |= format_of(cpu, l->router.type);
        f.h |= format_of(cpu, l->router.type) | format_of(cpu, l->shared_gate.type) |
               format_of(cpu, l->shared_up.type) | format_of(cpu, l->expert.gate_type) |
               format_of(cpu, l->expert.up_type);
        f.shared |= format_of(cpu, l->shared_down.type);
        f.expert |= format_of(cpu, l->expert.down_type);
    }
    f.final = format_of(cpu, net->head.type);
    return f;
}

/* The file keeps the taps of a channel together; vectors want the channels of a tap. */
static void turn_conv(rl_cpu *cpu, cutter *c)
{
    const uint32_t taps = cpu->shape.conv_taps, channels = rl_shape_conv_channels(&cpu->shape);
    for (uint32_t i = 0; i < cpu->shape.n_layer; i++) {
        if (!cpu->net->layers[i].recurrent) continue;
        float *conv = cut(c, (size_t)taps * channels, sizeof(float));
        if (!conv) continue;
        const float *plain = cpu->net->layers[i].delta.conv.host;
        for (uint32_t ch = 0; ch < channels; ch++)
            for (uint32_t j = 0; j < taps; j++)
                conv[(size_t)j * channels + ch] = plain[(size_t)ch * taps + j];
        cpu->layers[i].conv = conv;
    }
}

rl_status rl_cpu_attach(rl_backend *be, const rl_net *net, uint32_t max_batch, rl_error *err)
{
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &net->shape;
    RL_ASSERT(!cpu->net && max_batch && s->n_expert_used <= RL_MAX_EXPERTS_USED);
    RL_ASSERT(s->n_expert_used <= s->n_expert && s->n_rot <= s->head_dim && s->n_rot % 2 == 0);
    if (s->conv_taps > RL_CPU_MAX_TAPS)
        return rl_fail(err, RL_UNSUPPORTED, "a convolution of %u taps; the most is %d",
                       s->conv_taps, RL_CPU_MAX_TAPS);
    cpu->residency = calloc((size_t)s->n_layer * s->n_expert, sizeof *cpu->residency);
    cpu->layers = calloc(s->n_layer, sizeof *cpu->layers);
    cpu->scratch = calloc(cpu->n_threads, sizeof *cpu->scratch);
    cpu->jobs = calloc((size_t)s->n_expert + 4, sizeof *cpu->jobs);
    if (!cpu->residency || !cpu->layers || !cpu->scratch || !cpu->jobs)
        return rl_fail(err, RL_NOMEM, "no memory for the activations of a batch");
    cpu->net = net;
    cpu->shape = *s;
    cpu->max_batch = max_batch;
    cpu->x_stride = rl_cpu_pad(s->n_embd);
    const formats f = formats_of(cpu, net);
    for (int pass = 0; pass < 2; pass++) {
        cutter c = { .base = cpu->arena.bytes };
        cut_all(&c, cpu, s, max_batch, cpu->n_threads, &f);
        turn_conv(cpu, &c);
        if (pass) break;
        rl_status status = rl_cpu_map(&cpu->arena, c.used, "the activations of a batch", err);
        if (status) {
            cpu->net = NULL;
            return status;
        }
    }
    for (uint32_t i = 0; i < s->n_rot / 2; i++)
        cpu->rope_frequency[i] = pow((double)s->rope_base, -2.0 * i / s->n_rot);
    return RL_OK;
}
