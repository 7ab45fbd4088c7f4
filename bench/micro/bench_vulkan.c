/* bench_vulkan.c - one kernel of the Vulkan backend at a time, with the GPU's own clock.
 *
 *     bench_vulkan [--device N|NAME] [--mib N] [--matrix MIB] [--quick] [--variants] [--only NAME] > kernels.csv
 *
 * Each row is a chain of dependent dispatches over different data (together more than the caches
 * hold), so a dispatch's time includes its start and its barrier, as in a token. Columns:
 *     kernel,type,shape,dispatches,us,mib,gb_s,share
 * mib is what one dispatch has to read and write; share is gb_s over the bandwidth that a copy
 * kernel of this program reaches on the same device (counted once for reading, once for writing). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_ops.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "quant/quant.h"

enum { REPEATS = 5, MAX_COPIES = 64, WARM_NS = 600000000 };

typedef struct bench {
    rl_vk_device *device;
    rl_vk_uploader *uploader;
    rl_vk_stream *stream;
    rl_vk_ops ops;
    rl_vk_cmd cmd;
    rl_vk_timer timer;
    rl_vk_arena *arena;
    rl_vk_span token;
    uint64_t total_bytes; /* of data per chain */
    uint32_t matrix_mib;  /* at least, of a matrix of "matvec" */
    const char *only;
    double copy_gb_s;
    bool variants; /* also with 1, 2, 4, 8 rows per team */
    uint64_t warm_ns;
} bench;

static _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static rl_error err;
#define MUST(call)                                                                                 \
    do {                                                                                           \
        if (call) die("%s: %s", #call, err.text);                                                  \
    } while (0)

static rl_vk_span take(bench *b, uint64_t bytes)
{
    rl_vk_span span;
    MUST(rl_vk_arena_take(b->arena, bytes, 256, &span, &err));
    return span;
}

static void reset(bench *b)
{
    rl_vk_arena_destroy(b->arena);
    b->arena = NULL;
    MUST(rl_vk_arena_create(&b->arena, b->device, RL_VK_PLACE_DEVICE, 256 << 20, "bench", &err));
    rl_vk_token token = { .n = 1 };
    b->token = take(b, sizeof token);
    MUST(rl_vk_upload(b->uploader, &b->token, 0, &token, sizeof token, &err));
}

static void submit(bench *b)
{
    uint64_t value;
    MUST(rl_vk_uploader_finish(b->uploader, &err));
    MUST(rl_vk_cmd_end(&b->cmd, &err));
    MUST(rl_vk_stream_submit(b->stream, &b->cmd.handle, 1, NULL, 0, &value, &err));
    MUST(rl_vk_stream_wait(b->stream, value, 1000, &err));
}

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* n copies of random bytes, each `bytes` long; no copy is like another where it matters. */
static void fill_random(bench *b, const rl_vk_span *spans, uint32_t n, uint64_t bytes)
{
    uint64_t piece = bytes < (8u << 20) ? bytes : 8u << 20, state = 88172645463325252ull;
    uint64_t *data = malloc(piece + 8);
    if (!data) die("no memory");
    for (uint64_t i = 0; i < piece / 8 + 1; i++)
        data[i] = random_bits(&state) & 0xbfffbfffbfffbfffull; /* no huge halves or floats */
    for (uint64_t at = 0; at < bytes; at += piece) {
        uint64_t part = bytes - at < piece ? bytes - at : piece;
        MUST(rl_vk_upload(b->uploader, &spans[0], at, data, part, &err));
    }
    free(data);
    MUST(rl_vk_uploader_finish(b->uploader, &err));
    MUST(rl_vk_cmd_begin(&b->cmd, true, &err));
    for (uint32_t i = 1; i < n; i++)
        rl_vk_cmd_copy(&b->cmd, &spans[0], 0, &spans[i], 0, bytes);
    submit(b);
}

typedef void (*recorder)(bench *b, void *ctx, uint32_t i);

/* Median of REPEATS runs of a chain of n dispatches; microseconds per dispatch. The same chain runs
 * before for a while: a GPU that has had little to do takes half a second of full work to reach its
 * clock, and loses it again in a short pause. */
static double time_chain(bench *b, recorder record, void *ctx, uint32_t n, bool barriers)
{
    double times[REPEATS], ns[2];
    uint32_t lead = b->warm_ns ? 20 : 1;
    uint64_t warm = 0;
    for (int run = -1; run < REPEATS;) {
        MUST(rl_vk_cmd_begin(&b->cmd, true, &err));
        rl_vk_timer_reset(&b->timer, &b->cmd);
        for (uint32_t i = 0; i <= lead * n; i++) {
            if (i == (lead - 1) * n) {
                rl_vk_cmd_barrier_copies(&b->cmd);
                rl_vk_timer_mark(&b->timer, &b->cmd, 0);
            }
            if (i == lead * n) break;
            record(b, ctx, i);
            if (barriers) rl_vk_cmd_barrier(&b->cmd);
        }
        rl_vk_timer_mark(&b->timer, &b->cmd, 1);
        submit(b);
        MUST(rl_vk_timer_read(&b->timer, 2, ns, &err));
        if (run >= 0) times[run] = ns[1] / 1e3 / n;
        if (!warm) warm = rl_clock_ns() + b->warm_ns;
        if (run >= 0 || rl_clock_ns() >= warm) run++;
    }
    for (int i = 1; i < REPEATS; i++)
        for (int j = i; j > 0 && times[j] < times[j - 1]; j--) {
            double t = times[j];
            times[j] = times[j - 1];
            times[j - 1] = t;
        }
    return times[REPEATS / 2];
}

static void report(bench *b, const char *kernel, const char *type, const char *shape, uint32_t n,
                   double us, double bytes)
{
    double gb_s = bytes / us / 1e3;
    printf("%s,%s,%s,%u,%.2f,%.3f,%.1f,%.3f\n", kernel, type, shape, n, us, bytes / 1048576, gb_s,
           b->copy_gb_s > 0 ? gb_s / b->copy_gb_s : 0);
    fflush(stdout);
}

/* ---- bandwidth ------------------------------------------------------------------------------------- */

typedef struct copy_ctx {
    rl_vk_span spans[2];
    uint64_t bytes;
} copy_ctx;

static void record_copy(bench *b, void *ctx, uint32_t i)
{
    copy_ctx *c = ctx;
    rl_vk_cmd_copy(&b->cmd, &c->spans[i % 2], 0, &c->spans[1 - i % 2], 0, c->bytes);
}

static void record_sum(bench *b, void *ctx, uint32_t i)
{
    copy_ctx *c = ctx;
    rl_moe_sum_push push = { .d = c->spans[0].address,
                             .weights = b->token.address,
                             .scale = b->token.address,
                             .shared_ = c->spans[0].address,
                             .y = c->spans[1].address,
                             .rows = (uint32_t)(c->bytes / 4),
                             .k = 0 };
    (void)i;
    MUST(rl_vk_op_moe_sum(&b->ops, &b->cmd, 1, &push, &err));
}

static void bench_copy(bench *b)
{
    reset(b);
    copy_ctx c = { .bytes = b->total_bytes / 4 / 4096 * 4096 };
    if (c.bytes > 15u << 20) c.bytes = 15u << 20; /* a grid of the element kernel */
    c.spans[0] = take(b, c.bytes);
    c.spans[1] = take(b, c.bytes);
    fill_random(b, c.spans, 2, c.bytes);
    double us = time_chain(b, record_sum, &c, 8, true);
    report(b, "elementwise", "f32", "y+=x", 8, us, 3.0 * (double)c.bytes);

    reset(b);
    c.bytes = b->total_bytes / 2 / 4096 * 4096;
    c.spans[0] = take(b, c.bytes);
    c.spans[1] = take(b, c.bytes);
    fill_random(b, c.spans, 2, c.bytes);
    us = time_chain(b, record_copy, &c, 4, true);
    b->copy_gb_s = 2.0 * (double)c.bytes / us / 1e3;
    report(b, "copy", "bytes", "vkCmdCopyBuffer", 4, us, 2.0 * (double)c.bytes);
}

/* ---- matvec ------------------------------------------------------------------------------------------ */

typedef struct matvec_ctx {
    rl_vk_matvec op;
    rl_vk_span w[MAX_COPIES];
    uint32_t n;
} matvec_ctx;

static void record_matvec(bench *b, void *ctx, uint32_t i)
{
    matvec_ctx *c = ctx;
    c->op.push.w = c->w[i % c->n].address;
    MUST(rl_vk_op_matvec(&b->ops, &b->cmd, &c->op, &err));
}

static uint64_t matrix_bytes(uint32_t type, uint32_t rows, uint32_t cols)
{
    uint64_t bytes = 0;
    if (!rl_quant_bytes(rl_quant_find(type), (uint64_t)rows * cols, &bytes)) die("odd shape");
    return bytes;
}

static void bench_matvec(bench *b, uint32_t type, uint32_t rows, uint32_t cols, const char *label)
{
    const char *name = rl_quant_find(type)->name;
    char shape[64], kernel[64];
    reset(b);
    matvec_ctx c = { 0 };
    uint64_t bytes = matrix_bytes(type, rows, cols);
    c.n = (uint32_t)(b->total_bytes / bytes + 1);
    if (c.n > MAX_COPIES) c.n = MAX_COPIES;
    for (uint32_t i = 0; i < c.n; i++)
        c.w[i] = take(b, bytes);
    fill_random(b, c.w, c.n, bytes);
    rl_vk_span x[2] = { take(b, 4ull * cols), take(b, 4ull * cols) }, y = take(b, 4ull * rows);
    fill_random(b, x, 2, 4ull * cols);
    c.op = (rl_vk_matvec){ .type = type,
                           .input = RL_INPUT_NORM,
                           .n_ranks = 1,
                           .n_tokens = 1,
                           .push = { .x = x[0].address,
                                     .aux = x[1].address,
                                     .y = y.address,
                                     .token = b->token.address,
                                     .cols = cols,
                                     .rows = rows,
                                     .eps = 1e-6f } };
    snprintf(shape, sizeof shape, "%ux%u", rows, cols);
    double us = time_chain(b, record_matvec, &c, c.n, true);
    report(b, label, name, shape, c.n, us, (double)bytes);
    us = time_chain(b, record_matvec, &c, c.n, false);
    snprintf(kernel, sizeof kernel, "%s_overlapped", label);
    report(b, kernel, name, shape, c.n, us, (double)bytes);
    for (uint32_t team_rows = 1; b->variants && team_rows <= 8; team_rows *= 2) {
        c.op.team_rows = team_rows;
        us = time_chain(b, record_matvec, &c, c.n, true);
        snprintf(kernel, sizeof kernel, "%s_rows%u", label, team_rows);
        report(b, kernel, name, shape, c.n, us, (double)bytes);
    }
}

/* ---- a router and its choice ------------------------------------------------------------------------- */

typedef struct router_ctx {
    matvec_ctx product;
    rl_route_push choice;
    uint64_t arrivals;
    bool one; /* dispatch */
} router_ctx;

static void record_router(bench *b, void *ctx, uint32_t i)
{
    router_ctx *c = ctx;
    c->product.op.choice = c->one ? &c->choice : NULL;
    c->product.op.arrivals = c->arrivals;
    record_matvec(b, &c->product, i);
    if (c->one) return;
    rl_vk_cmd_barrier(&b->cmd);
    MUST(rl_vk_op_route(&b->ops, &b->cmd, 1, false, &c->choice, &err));
}

static void bench_router(bench *b, uint32_t n_expert, uint32_t k, uint32_t cols)
{
    char shape[64];
    reset(b);
    router_ctx c = { .product.n = 48 };
    uint64_t bytes = matrix_bytes(RL_QUANT_F32, n_expert, cols);
    for (uint32_t i = 0; i < c.product.n; i++)
        c.product.w[i] = take(b, bytes);
    fill_random(b, c.product.w, c.product.n, bytes);
    rl_vk_span x[2] = { take(b, 4ull * cols), take(b, 4ull * cols) }, word = take(b, 4);
    rl_vk_span logits = take(b, 4ull * n_expert), slots = take(b, 8ull * n_expert);
    const uint32_t zero = 0;
    fill_random(b, x, 2, 4ull * cols);
    fill_random(b, &slots, 1, 8ull * n_expert);
    MUST(rl_vk_upload(b->uploader, &word, 0, &zero, sizeof zero, &err));
    c.arrivals = word.address;
    c.choice = (rl_route_push){ .logits = logits.address,
                                .ids = take(b, 4ull * k).address,
                                .weights = take(b, 4ull * k).address,
                                .publish = take(b, 4ull * k).address,
                                .residency = slots.address,
                                .token = b->token.address,
                                .n_expert = n_expert,
                                .k = k };
    c.product.op = (rl_vk_matvec){ .type = RL_QUANT_F32,
                                   .input = RL_INPUT_NORM,
                                   .n_ranks = 1,
                                   .n_tokens = 1,
                                   .push = { .x = x[0].address,
                                             .aux = x[1].address,
                                             .y = logits.address,
                                             .token = b->token.address,
                                             .cols = cols,
                                             .rows = n_expert,
                                             .eps = 1e-6f } };
    snprintf(shape, sizeof shape, "%u of %ux%u", k, n_expert, cols);
    const char *labels[] = { "router_two", "router_one" };
    for (int one = 0; one < 2; one++) {
        c.one = one;
        if (one && !rl_vk_op_can_choose(&b->ops, RL_QUANT_F32)) break;
        report(b, labels[one], "f32", shape, c.product.n,
               time_chain(b, record_router, &c, c.product.n, true), (double)bytes);
    }
}

/* ---- experts -------------------------------------------------------------------------------------------- */

typedef struct experts_ctx {
    rl_vk_matvec up;
    rl_experts_down_push down;
    uint32_t down_type, k, n_sets;
    uint64_t ids;
    int which;
} experts_ctx;

static void record_experts(bench *b, void *ctx, uint32_t i)
{
    experts_ctx *c = ctx;
    uint64_t ids = c->ids + 4ull * (i % c->n_sets) * c->k;
    c->up.push.ids = c->down.ids = ids;
    if (c->which != 2) MUST(rl_vk_op_matvec(&b->ops, &b->cmd, &c->up, &err));
    if (c->which == 0) rl_vk_cmd_barrier(&b->cmd);
    if (c->which != 1)
        MUST(rl_vk_op_experts_down(&b->ops, &b->cmd, c->down_type, RL_INPUT_PLAIN, &c->down, &err));
}

static void bench_experts(bench *b, uint32_t type, uint32_t h, uint32_t f, uint32_t k)
{
    enum { SETS = 40 };
    const char *name = rl_quant_find(type)->name;
    char shape[64];
    reset(b);
    uint64_t up = matrix_bytes(type, f, h), down = matrix_bytes(type, h, f);
    uint64_t up_at = rl_align_up(up, 256), down_at = 2 * up_at, slot = down_at + down;
    uint32_t n_expert = (uint32_t)(b->total_bytes / slot);
    if (n_expert > 512) n_expert = 512;
    if (n_expert < k) n_expert = k;
    rl_vk_span *slots = malloc(n_expert * sizeof *slots);
    uint64_t *residency = malloc(n_expert * 8ull), state = 42;
    uint32_t *ids = malloc(4ull * SETS * k);
    if (!slots || !residency || !ids) die("no memory");
    for (uint32_t e = 0; e < n_expert; e++) {
        slots[e] = take(b, slot);
        residency[e] = slots[e].address;
    }
    fill_random(b, slots, n_expert, slot);
    for (uint32_t i = 0; i < SETS * k; i++)
        ids[i] = (uint32_t)(random_bits(&state) >> 33) % n_expert;
    rl_vk_span g_ids = take(b, 4ull * SETS * k), g_res = take(b, 8ull * n_expert);
    MUST(rl_vk_upload(b->uploader, &g_ids, 0, ids, 4ull * SETS * k, &err));
    MUST(rl_vk_upload(b->uploader, &g_res, 0, residency, 8ull * n_expert, &err));
    rl_vk_span x = take(b, 4ull * h), act = take(b, 4ull * k * f), y = take(b, 4ull * h);
    fill_random(b, &x, 1, 4ull * h);
    experts_ctx c = { .down_type = type, .k = k, .n_sets = SETS, .ids = g_ids.address };
    c.up = (rl_vk_matvec){ .type = type,
                           .input = RL_INPUT_NORM,
                           .matrix = RL_MATRIX_ROUTED_PAIR,
                           .n_ranks = k,
                           .n_tokens = 1,
                           .push = { .second = up_at,
                                     .x = x.address,
                                     .aux = x.address,
                                     .y = act.address,
                                     .residency = g_res.address,
                                     .token = b->token.address,
                                     .cols = h,
                                     .rows = f,
                                     .ranks = k,
                                     .mask = UINT32_MAX,
                                     .eps = 1e-6f } };
    c.down = (rl_experts_down_push){ .w = down_at,
                                     .x = act.address,
                                     .weights = x.address,
                                     .residency = g_res.address,
                                     .scale = x.address,
                                     .shared_ = x.address,
                                     .add = y.address,
                                     .y = y.address,
                                     .token = b->token.address,
                                     .cols = f,
                                     .rows = h,
                                     .k = k };
    snprintf(shape, sizeof shape, "%u of %u x 3x%ux%u", k, n_expert, f, h);
    const char *labels[] = { "experts_both", "experts_up", "experts_down" };
    double bytes[] = { (double)k * (double)(2 * up + down), 2.0 * k * (double)up,
                       (double)k * (double)down };
    for (c.which = 0; c.which < 3; c.which++)
        report(b, labels[c.which], name, shape, SETS, time_chain(b, record_experts, &c, SETS, true),
               bytes[c.which]);
    free(slots);
    free(residency);
    free(ids);
}

/* ---- mixers ----------------------------------------------------------------------------------------------- */

typedef struct delta_ctx {
    rl_delta_push push[MAX_COPIES];
    uint32_t d, n;
} delta_ctx;

static void record_delta(bench *b, void *ctx, uint32_t i)
{
    delta_ctx *c = ctx;
    MUST(rl_vk_op_delta_step(&b->ops, &b->cmd, c->d, &c->push[i % c->n], &err));
}

static void bench_delta(bench *b, uint32_t hk, uint32_t hv, uint32_t d, uint32_t taps)
{
    reset(b);
    uint32_t channels = (2 * hk + hv) * d;
    uint64_t state = 4ull * hv * d * d, conv = 4ull * (taps - 1) * channels;
    delta_ctx c = { .d = d, .n = 36 };
    rl_vk_span z = take(b, 4ull * channels * taps);
    fill_random(b, &z, 1, 4ull * channels * taps);
    for (uint32_t i = 0; i < c.n; i++) {
        rl_vk_span s = take(b, 2 * state), w = take(b, 2 * conv);
        c.push[i] = (rl_delta_push){ .u = z.address,
                                     .z = z.address,
                                     .ba = z.address,
                                     .conv_w = z.address,
                                     .dt = z.address,
                                     .a = z.address,
                                     .norm = z.address,
                                     .conv = w.address,
                                     .state = s.address,
                                     .y = take(b, 4ull * hv * d).address,
                                     .sums = take(b, 4ull * hv * d).address,
                                     .token = b->token.address,
                                     .n_key_head = hk,
                                     .n_value_head = hv,
                                     .taps = taps };
    }
    report(b, "delta_step", "f32", "state", c.n, time_chain(b, record_delta, &c, c.n, true),
           2.0 * (double)(state + conv));
}

typedef struct attn_ctx {
    rl_attn_push push[12];
    rl_attn_out_push out;
    rl_vk_cache_types types;
} attn_ctx;

static void record_attn(bench *b, void *ctx, uint32_t i)
{
    attn_ctx *c = ctx;
    MUST(rl_vk_op_attn(&b->ops, &b->cmd, 1, true, &c->types, &c->push[i % 12], &err));
    rl_vk_cmd_barrier(&b->cmd);
    MUST(rl_vk_op_attn_out(&b->ops, &b->cmd, 1, c->types.head_dim, &c->out, &err));
}

static void bench_attention(bench *b, uint32_t depth, uint32_t splits)
{
    enum { HQ = 16, HKV = 2, D = 256, ROT = 64 };
    char shape[64];
    reset(b);
    rl_vk_token token = { .n = 1, .position = depth };
    MUST(rl_vk_upload(b->uploader, &b->token, 0, &token, sizeof token, &err));
    attn_ctx c = { .types = { D, true, true } };
    rl_vk_span q = take(b, 4ull * HQ * 2 * D), y = take(b, 4ull * HQ * D);
    rl_vk_span parts = take(b, 4ull * splits * HQ * (D + 2));
    fill_random(b, &q, 1, 4ull * HQ * 2 * D);
    for (int i = 0; i < 12; i++) {
        uint64_t cache = 2ull * (depth + 1) * HKV * D;
        c.push[i] = (rl_attn_push){ .q = q.address,
                                    .k = q.address,
                                    .v = q.address,
                                    .q_norm = q.address,
                                    .k_norm = q.address,
                                    .keys = take(b, cache).address,
                                    .values = take(b, cache).address,
                                    .rope = q.address,
                                    .parts = parts.address,
                                    .token = b->token.address,
                                    .n_head = HQ,
                                    .n_head_kv = HKV,
                                    .n_rot = ROT,
                                    .splits = splits,
                                    .eps = 1e-6f };
    }
    c.out = (rl_attn_out_push){ .parts = parts.address,
                                .q = q.address,
                                .y = y.address,
                                .token = b->token.address,
                                .n_head = HQ,
                                .splits = splits };
    snprintf(shape, sizeof shape, "depth %u in %u", depth, splits);
    report(b, "attention", "f16", shape, 12, time_chain(b, record_attn, &c, 12, true),
           2.0 * 2 * depth * HKV * D);
}

/* ---- small kernels -------------------------------------------------------------------------------------------- */

static void record_route(bench *b, void *ctx, uint32_t i)
{
    (void)i;
    MUST(rl_vk_op_route(&b->ops, &b->cmd, 1, false, ctx, &err));
}

static void record_argmax(bench *b, void *ctx, uint32_t i)
{
    rl_argmax_push *push = ctx;
    (void)i;
    MUST(rl_vk_op_argmax(&b->ops, &b->cmd, push, push->best + 64, &err));
}

static void record_top(bench *b, void *ctx, uint32_t i)
{
    (void)i;
    MUST(rl_vk_op_top(&b->ops, &b->cmd, ctx, &err));
}

static void record_nothing(bench *b, void *ctx, uint32_t i)
{
    rl_norm_push *push = ctx;
    (void)i;
    MUST(rl_vk_op_norm(&b->ops, &b->cmd, 1, push, &err));
}

static void bench_small(bench *b)
{
    reset(b);
    rl_vk_span x = take(b, 4 << 20);
    fill_random(b, &x, 1, 4 << 20);
    rl_norm_push norm = { .x = x.address, .weight = x.address, .y = x.address + 65536, .cols = 32 };
    report(b, "norm", "f32", "1x32", 100, time_chain(b, record_nothing, &norm, 100, true), 384);
    rl_route_push route = { .logits = x.address,
                            .ids = x.address + 65536,
                            .weights = x.address + 131072,
                            .publish = x.address + 196608,
                            .token = b->token.address,
                            .n_expert = 512,
                            .k = 10 };
    report(b, "route", "f32", "10 of 512", 100, time_chain(b, record_route, &route, 100, true),
           2048);
    rl_argmax_push argmax = {
        .x = x.address, .best = x.address + (2 << 20), .token = b->token.address, .n = 151936
    };
    report(b, "argmax", "f32", "151936", 20, time_chain(b, record_argmax, &argmax, 20, true),
           151936 * 4);
    rl_top_push top = { .x = x.address,
                        .lists = x.address + (2 << 20),
                        .result = x.address + (3 << 20),
                        .token = b->token.address,
                        .n = 151936 };
    report(b, "top", "f32", "128 of 151936", 20, time_chain(b, record_top, &top, 20, true),
           151936 * 4);
}

/* ---- prefill ----------------------------------------------------------------------------------------------------- */

static void record_matmul(bench *b, void *ctx, uint32_t i)
{
    (void)i;
    MUST(rl_vk_op_matmul(&b->ops, &b->cmd, ctx, &err));
}

static void bench_matmul(bench *b, uint32_t type, uint32_t rows, uint32_t cols, uint32_t n)
{
    char shape[64];
    reset(b);
    uint64_t bytes = matrix_bytes(type, rows, cols);
    rl_vk_span w = take(b, bytes), x = take(b, 4ull * n * cols), y = take(b, 4ull * n * rows);
    fill_random(b, &w, 1, bytes);
    fill_random(b, &x, 1, 4ull * n * cols);
    rl_vk_matmul op = { .type = type,
                        .push = { .w = w.address,
                                  .x = x.address,
                                  .y = y.address,
                                  .cols = cols,
                                  .rows = rows,
                                  .n = n,
                                  .divide = 1 } };
    double us = time_chain(b, record_matmul, &op, 4, true);
    snprintf(shape, sizeof shape, "%ux%ux%u %.2f TFLOP/s", n, rows, cols,
             2.0 * n * rows * cols / us / 1e6);
    report(b, "matmul", rl_quant_find(type)->name, shape, 4, us, (double)bytes);
}

/* ---- all ------------------------------------------------------------------------------------------------------------ */

static bool wanted(const bench *b, const char *name)
{
    return !b->only || strstr(name, b->only);
}

static void run(bench *b, bool quick)
{
    uint32_t rows = quick ? 256 : 16384;
    puts("kernel,type,shape,dispatches,us,mib,gb_s,share");
    bench_copy(b);
    if (wanted(b, "matvec"))
        for (uint32_t i = 0; i < rl_quant_count(); i++) {
            const rl_quant_info *info = rl_quant_at(i);
            if (!rl_vk_type_is_known(info->type)) continue;
            uint64_t need = ((uint64_t)b->matrix_mib << 20) / matrix_bytes(info->type, 1, 2048) + 1;
            bench_matvec(b, info->type, quick ? rows : (uint32_t)(need + 15) / 16 * 16, 2048,
                         "matvec");
        }
    if (!quick && wanted(b, "target")) {
        bench_matvec(b, RL_QUANT_IQ2_XXS, 8192, 2048, "target_qkv");
        bench_matvec(b, RL_QUANT_IQ2_XXS, 4096, 2048, "target_gate");
        bench_matvec(b, RL_QUANT_Q8_0, 64, 2048, "target_ba");
        bench_matvec(b, RL_QUANT_Q4_K, 2048, 4096, "target_out");
        bench_matvec(b, RL_QUANT_Q4_K, 512, 2048, "target_k");
        bench_matvec(b, RL_QUANT_F32, 512, 2048, "target_router");
        bench_matvec(b, RL_QUANT_Q6_K, 1024, 2048, "target_shared");
        bench_matvec(b, RL_QUANT_Q6_K, 2048, 512, "target_shared_down");
        bench_matvec(b, RL_QUANT_Q5_K, 151936, 2048, "target_head");
    }
    uint32_t h = quick ? 256 : 2048, f = quick ? 256 : 512;
    if (wanted(b, "experts")) {
        bench_experts(b, RL_QUANT_IQ1_M, h, f, 10);
        bench_experts(b, RL_QUANT_IQ2_XS, h, f, 10);
    }
    if (wanted(b, "router")) bench_router(b, quick ? 64 : 512, 10, h);
    if (wanted(b, "delta")) bench_delta(b, quick ? 2 : 16, quick ? 4 : 32, 128, 4);
    if (wanted(b, "attention")) {
        bench_attention(b, 100, quick ? 4 : 128);
        if (!quick)
            for (uint32_t splits = 32; splits <= 256; splits *= 2) {
                bench_attention(b, 1024, splits);
                bench_attention(b, 16384, splits);
            }
    }
    if (wanted(b, "small")) bench_small(b);
    if (wanted(b, "matmul")) {
        bench_matmul(b, RL_QUANT_IQ2_XXS, quick ? 256 : 8192, quick ? 256 : 2048, quick ? 64 : 512);
        bench_matmul(b, RL_QUANT_Q4_K, quick ? 256 : 8192, quick ? 256 : 2048, quick ? 16 : 512);
    }
}

static uint32_t mebibytes(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || *text == '-' || n < 1 || n > 65536)
        die("\"%s\" is not a number of MiB from 1 to 65536", text);
    return (uint32_t)n;
}

int main(int argc, char **argv)
{
    bench b = { .total_bytes = 768u << 20, .matrix_mib = 8 };
    rl_vk_open_params open = { .allow_software = true };
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--variants"))
            b.variants = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            open.device = argv[++i];
        else if (!strcmp(argv[i], "--mib") && i + 1 < argc)
            b.total_bytes = (uint64_t)mebibytes(argv[++i]) << 20;
        else if (!strcmp(argv[i], "--matrix") && i + 1 < argc)
            b.matrix_mib = mebibytes(argv[++i]);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            b.only = argv[++i];
        else
            die("usage: bench_vulkan [--device N|NAME] [--mib N] [--matrix MIB] [--quick] "
                "[--variants] [--only NAME]");
    }
    if (quick) b.total_bytes = 4u << 20;
    if (!quick) b.warm_ns = WARM_NS;
    MUST(rl_vk_device_open(&b.device, &open, &err));
    MUST(rl_vk_uploader_create(&b.uploader, b.device, 4, 8 << 20, &err));
    MUST(rl_vk_stream_create(&b.stream, b.device, &b.device->compute, &err));
    MUST(rl_vk_ops_init(&b.ops, b.device, b.uploader, NULL, &err));
    MUST(rl_vk_cmd_init(&b.cmd, b.stream, "bench", &err));
    MUST(rl_vk_timer_init(&b.timer, b.device, 2, &err));
    fprintf(stderr, "%s, %s\n", b.device->info.name, b.device->info.driver);
    run(&b, quick);
    rl_vk_timer_fini(&b.timer);
    rl_vk_cmd_fini(&b.cmd);
    rl_vk_arena_destroy(b.arena);
    rl_vk_ops_fini(&b.ops);
    rl_vk_stream_destroy(b.stream);
    rl_vk_uploader_destroy(b.uploader);
    rl_vk_device_close(b.device);
    return 0;
}
