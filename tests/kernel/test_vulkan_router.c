/* test_vulkan_router.c - a router's product and the choice of experts in one dispatch.
 *
 * Everything that it leaves must be to the bit what the two dispatches leave, halts included, and the
 * word that counts its workgroups must be zero again whatever happens: the next one relies on it. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>

#include "backend/backend.h"
#include "quant/quant.h"
#include "support/vulkan.h"

enum { LAYER = 5, SENTINEL = 0x5a };

/* One router on one token. */
typedef struct router {
    uint32_t n_expert, cols, k;
    float *w, *x, *norm;
    uint64_t *residency; /* NULL: a guess, which looks nothing up */
    rl_vk_token token;
    uint32_t despite;
    uint32_t team_rows; /* 0: as the device has it */
    uint32_t workgroup; /* 0: as the device has it */
} router;

/* What it leaves. */
typedef struct outcome {
    float logits[1024];
    uint32_t ids[32], publish[32];
    float weights[32];
    uint32_t halt, arrivals;
} outcome;

static router make(uint32_t n_expert, uint32_t cols, uint32_t k, uint64_t seed)
{
    router r = { .n_expert = n_expert, .cols = cols, .k = k, .token = { .n = 1, .check = 1 } };
    r.w = rl_test_random_vector((size_t)n_expert * cols, 1 / sqrtf((float)cols), seed);
    r.x = rl_test_random_vector(cols, 3, seed + 1);
    r.norm = rl_test_random_vector(cols, 1, seed + 2);
    r.residency = malloc(n_expert * sizeof *r.residency);
    assert_non_null(r.residency);
    for (uint32_t e = 0; e < n_expert; e++)
        r.residency[e] = 4096;
    return r;
}

static void drop(router *r)
{
    free(r->w);
    free(r->x);
    free(r->norm);
    free(r->residency);
}

static rl_vk_span put_sentinels(rl_test_gpu *gpu, size_t n)
{
    uint8_t bytes[4096];
    memset(bytes, SENTINEL, sizeof bytes);
    assert_true(n <= sizeof bytes);
    return rl_test_gpu_put(gpu, bytes, n);
}

/* Where it computes. */
typedef struct placed {
    rl_vk_span logits, ids, publish, weights, arrivals;
    rl_vk_matvec product;
    rl_route_push choice;
} placed;

static placed place(rl_test_gpu *gpu, const router *r)
{
    placed p = { .logits = put_sentinels(gpu, r->n_expert * 4),
                 .ids = put_sentinels(gpu, r->k * 4),
                 .publish = put_sentinels(gpu, r->k * 4),
                 .weights = put_sentinels(gpu, r->k * 4),
                 .arrivals = rl_test_gpu_put(gpu, NULL, 4) };
    p.product = (rl_vk_matvec){
        .type = RL_QUANT_F32,
        .input = RL_INPUT_NORM,
        .n_ranks = 1,
        .n_tokens = 1,
        .team_rows = r->team_rows,
        .push = { .w = rl_test_gpu_put(gpu, r->w, (size_t)r->n_expert * r->cols * 4).address,
                  .x = rl_test_gpu_put(gpu, r->x, r->cols * 4).address,
                  .aux = rl_test_gpu_put(gpu, r->norm, r->cols * 4).address,
                  .y = p.logits.address,
                  .token = gpu->token.address,
                  .cols = r->cols,
                  .rows = r->n_expert,
                  .despite = r->despite,
                  .eps = 1e-6f }
    };
    p.choice = (rl_route_push){ .logits = p.logits.address,
                                .ids = p.ids.address,
                                .weights = p.weights.address,
                                .publish = p.publish.address,
                                .token = gpu->token.address,
                                .n_expert = r->n_expert,
                                .k = r->k,
                                .layer = LAYER };
    if (r->residency)
        p.choice.residency = rl_test_gpu_put(gpu, r->residency, r->n_expert * 8).address;
    return p;
}

static void record_one(rl_test_gpu *gpu, const placed *p)
{
    rl_error err;
    rl_vk_matvec m = p->product;
    m.choice = &p->choice;
    m.arrivals = p->arrivals.address;
    assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &m, &err));
}

static void record_two(rl_test_gpu *gpu, const placed *p)
{
    rl_error err;
    assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &p->product, &err));
    rl_vk_cmd_barrier(&gpu->cmd);
    assert_ok(rl_vk_op_route(&gpu->ops, &gpu->cmd, 1, false, &p->choice, &err));
}

static void collect(rl_test_gpu *gpu, const router *r, const placed *p, outcome *out)
{
    rl_vk_token token;
    memset(out, 0, sizeof *out);
    rl_test_gpu_get(gpu, &p->logits, out->logits, r->n_expert * 4);
    rl_test_gpu_get(gpu, &p->ids, out->ids, r->k * 4);
    rl_test_gpu_get(gpu, &p->publish, out->publish, r->k * 4);
    rl_test_gpu_get(gpu, &p->weights, out->weights, r->k * 4);
    rl_test_gpu_get(gpu, &p->arrivals, &out->arrivals, 4);
    rl_test_gpu_get(gpu, &gpu->token, &token, sizeof token);
    out->halt = token.halt;
}

/* The device with the router's shape of workgroups; skips where workgroups cannot hand over. */
static rl_test_gpu *begin(const router *r, uint32_t *workgroup, uint32_t *groups)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    if (!rl_vk_op_can_choose(&gpu->ops, RL_QUANT_F32)) rl_test_skip("routers do not choose here");
    *workgroup = gpu->ops.workgroup;
    *groups = gpu->ops.groups;
    if (r->workgroup) {
        gpu->ops.workgroup = r->workgroup;
        gpu->ops.groups = 1;
    }
    rl_test_gpu_set_token(gpu, &r->token);
    return gpu;
}

static void run(const router *r, bool one, outcome *out)
{
    uint32_t workgroup, groups;
    rl_test_gpu *gpu = begin(r, &workgroup, &groups);
    placed p = place(gpu, r);
    if (one)
        record_one(gpu, &p);
    else
        record_two(gpu, &p);
    collect(gpu, r, &p, out);
    gpu->ops.workgroup = workgroup;
    gpu->ops.groups = groups;
    rl_test_gpu_end(gpu);
}

/* Both ways; *have is what the one dispatch has left. */
static void check_same(const router *r, outcome *have)
{
    outcome want;
    run(r, false, &want);
    run(r, true, have);
    assert_int_equal(have->arrivals, 0);
    if (!memcmp(have, &want, sizeof want)) return;
    for (uint32_t i = 0; i < r->k; i++)
        if (have->ids[i] != want.ids[i])
            fail_msg("%u of %u experts, rank %u: %u, not %u", r->k, r->n_expert, i, have->ids[i],
                     want.ids[i]);
    assert_memory_equal(have, &want, sizeof want);
}

static void check_choice(const router *r)
{
    outcome have;
    uint32_t ids[32];
    float weights[32];
    check_same(r, &have);
    assert_int_equal(have.halt, 0);
    rl_router_topk(have.logits, r->n_expert, r->k, ids, weights);
    assert_memory_equal(have.ids, ids, r->k * 4);
    assert_memory_equal(have.publish, ids, r->k * 4);
    for (uint32_t i = 0; i < r->k; i++)
        assert_true(fabsf(have.weights[i] - weights[i]) <= 2e-6f * weights[i] + 1e-9f);
}

static void vulkan_router_sizes(void **state)
{
    (void)state;
    const uint32_t sizes[][3] = { { 512, 2048, 10 }, { 64, 256, 8 },  { 65, 96, 32 },
                                  { 511, 64, 10 },   { 999, 160, 1 }, { 1024, 32, 32 },
                                  { 5, 32, 2 },      { 1, 64, 1 },    { 100, 4160, 31 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        router r = make(sizes[i][0], sizes[i][1], sizes[i][2], i);
        check_choice(&r);
        drop(&r);
    }
}

/* Many small workgroups, and few large ones, most of whose invocations have no part in a choice. */
static void vulkan_router_workgroups(void **state)
{
    (void)state;
    router r = make(512, 2048, 10, 7);
    for (uint32_t workgroup = 64; workgroup <= 256; workgroup *= 2)
        for (r.team_rows = 1; r.team_rows <= 4; r.team_rows *= 4) {
            r.workgroup = workgroup;
            check_choice(&r);
        }
    drop(&r);
}

/* Rows that are alike: all of them; pairs far apart; all in one group of the choice. */
static void vulkan_router_ties(void **state)
{
    (void)state;
    const uint32_t n = 500, cols = 64;
    router r = make(n, cols, 10, 3);
    for (int round = 0; round < 3; round++) {
        for (uint32_t e = 0; e < n; e++) {
            uint32_t like = round == 0 ? 0 : round == 1 ? e % (n / 2) : e % 64 == 3 ? 3 : e;
            memmove(r.w + (size_t)e * cols, r.w + (size_t)like * cols, cols * 4);
        }
        r.k = round == 2 ? 32 : 10;
        check_choice(&r);
        drop(&r);
        r = make(n, cols, 10, 4 + (uint64_t)round);
    }
    drop(&r);
}

/* What is not a number stays behind all numbers, and leads nowhere when there is nothing else. */
static void vulkan_router_survives_nan(void **state)
{
    (void)state;
    const uint32_t n = 512, cols = 64;
    outcome have;
    router r = make(n, cols, 10, 5);
    for (uint32_t e = 0; e < n; e++)
        if (e % 3) r.w[(size_t)e * cols] = e % 2 ? NAN : -INFINITY;
    r.x[0] = r.norm[0] = 1;
    check_same(&r, &have);
    float numbers[512];
    uint32_t ids[10];
    float weights[10];
    for (uint32_t e = 0; e < n; e++)
        numbers[e] = e % 3 ? -INFINITY : have.logits[e];
    rl_router_topk(numbers, n, 10, ids, weights);
    assert_memory_equal(have.ids, ids, sizeof ids);
    r.x[1] = NAN;
    check_same(&r, &have);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(have.ids[i], i);
    drop(&r);
}

static void vulkan_router_halts_on_absent(void **state)
{
    (void)state;
    outcome have;
    router r = make(512, 256, 10, 6);
    check_same(&r, &have);
    assert_int_equal(have.halt, 0);
    uint32_t last = have.ids[9];
    for (uint32_t e = 0; e < 512; e++) /* those that are not chosen may be absent */
        r.residency[e] = 0;
    for (uint32_t i = 0; i < 10; i++)
        r.residency[have.ids[i]] = 4096;
    check_same(&r, &have);
    assert_int_equal(have.halt, 0);
    r.residency[last] = 0;
    check_same(&r, &have);
    assert_int_equal(have.halt, LAYER + 1);
    r.token.check = 0;
    check_same(&r, &have);
    assert_int_equal(have.halt, 0);
    free(r.residency); /* a guess */
    r.residency = NULL;
    r.token.check = 1;
    check_same(&r, &have);
    assert_int_equal(have.halt, 0);
    drop(&r);
}

static void assert_untouched(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(b[i], SENTINEL);
}

/* A halted token writes nothing and counts all the same. A guess goes on when its own layer halts,
 * which may happen while it runs, and not behind an earlier one. */
static void vulkan_router_leaves_halted_tokens(void **state)
{
    (void)state;
    outcome have, free_run;
    router r = make(512, 256, 10, 8);
    run(&r, true, &free_run);
    r.token.halt = 3;
    check_same(&r, &have);
    assert_int_equal(have.halt, 3);
    assert_untouched(have.logits, 512 * 4);
    assert_untouched(have.ids, 40);
    assert_untouched(have.publish, 40);
    assert_untouched(have.weights, 40);
    free(r.residency);
    r.residency = NULL;
    r.despite = LAYER + 1;
    run(&r, true, &have);
    assert_int_equal(have.arrivals, 0);
    assert_untouched(have.logits, 512 * 4);
    assert_untouched(have.publish, 40);
    r.token.halt = LAYER + 1;
    run(&r, true, &have);
    assert_int_equal(have.halt, LAYER + 1);
    free_run.halt = have.halt;
    assert_memory_equal(&have, &free_run, sizeof have);
    drop(&r);
}

/* One command buffer again and again, as segments are: a router beside another with its own counter,
 * each time with inputs of its own, and a halted token in between.
 * Stands against a counter that does not return to zero, and a last workgroup that is not. */
static void vulkan_router_again_and_again(void **state)
{
    (void)state;
    enum { ROUNDS = 24, RUNS = 3 };
    router r = make(512, 256, 10, 9);
    uint32_t workgroup, groups;
    rl_test_gpu *gpu = begin(&r, &workgroup, &groups);
    placed first = place(gpu, &r), one[2][ROUNDS], two[ROUNDS];
    rl_vk_span arrivals[2] = { rl_test_gpu_put(gpu, NULL, 4), rl_test_gpu_put(gpu, NULL, 4) };
    for (uint32_t i = 0; i < ROUNDS; i++) {
        float *x = rl_test_random_vector(r.cols, 1, 100 + i);
        uint64_t at = rl_test_gpu_put(gpu, x, r.cols * 4).address;
        free(x);
        placed *all[] = { &one[0][i], &one[1][i], &two[i] };
        for (uint32_t j = 0; j < 3; j++) {
            placed *p = all[j];
            *p = first;
            if (j < 2) p->arrivals = arrivals[j];
            /* Those that run at the same time write to places of their own, used in every round. */
            if (j == 1) p->logits = i ? one[1][0].logits : rl_test_gpu_put(gpu, NULL, 512 * 4);
            p->ids = p->weights = p->publish = (rl_vk_span){ 0 };
            p->ids = put_sentinels(gpu, 40);
            p->weights = put_sentinels(gpu, 40);
            p->publish = put_sentinels(gpu, 40);
            p->product.push.x = at;
            p->product.push.y = p->choice.logits = p->logits.address;
            p->choice.ids = p->ids.address;
            p->choice.weights = p->weights.address;
            p->choice.publish = p->publish.address;
        }
        record_two(gpu, &two[i]);
        rl_vk_cmd_barrier(&gpu->cmd);
    }
    rl_test_gpu_run(gpu);
    for (uint32_t pass = 0; pass < RUNS; pass++) {
        bool halted = pass == 1;
        rl_test_gpu_set_token(gpu, &(rl_vk_token){ .n = 1, .halt = halted ? 2 : 0 });
        for (uint32_t i = 0; i < ROUNDS; i++)
            for (uint32_t j = 0; j < 2; j++) {
                const rl_vk_span *spans[] = { &one[j][i].ids, &one[j][i].publish };
                uint8_t bytes[40];
                rl_error err;
                memset(bytes, SENTINEL, sizeof bytes);
                for (uint32_t s = 0; s < 2; s++)
                    assert_ok(rl_vk_upload(gpu->uploader, spans[s], 0, bytes, sizeof bytes, &err));
            }
        for (uint32_t i = 0; i < ROUNDS; i++) {
            record_one(gpu, &one[0][i]);
            record_one(gpu, &one[1][i]);
            rl_vk_cmd_barrier(&gpu->cmd);
        }
        rl_test_gpu_run(gpu);
        for (uint32_t i = 0; i < ROUNDS; i++) {
            uint32_t want[10], have[10];
            rl_test_gpu_get(gpu, &two[i].ids, want, sizeof want);
            if (halted) memset(want, SENTINEL, sizeof want);
            for (uint32_t j = 0; j < 2; j++) {
                rl_test_gpu_get(gpu, &one[j][i].publish, have, sizeof have);
                assert_memory_equal(have, want, sizeof want);
                rl_test_gpu_get(gpu, &one[j][i].ids, have, sizeof have);
                assert_memory_equal(have, want, sizeof want);
            }
        }
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t left = 1;
            rl_test_gpu_get(gpu, &arrivals[j], &left, sizeof left);
            assert_int_equal(left, 0);
        }
    }
    rl_test_gpu_end(gpu);
    drop(&r);
}

RL_TEST_MAIN(RL_TEST(vulkan, router_sizes), RL_TEST(vulkan, router_workgroups),
             RL_TEST(vulkan, router_ties), RL_TEST(vulkan, router_survives_nan),
             RL_TEST(vulkan, router_halts_on_absent), RL_TEST(vulkan, router_leaves_halted_tokens),
             RL_TEST(vulkan, router_again_and_again))
#else
static void vulkan_router(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, router))
#endif
