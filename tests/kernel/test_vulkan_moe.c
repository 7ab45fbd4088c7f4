/* test_vulkan_moe.c - the choice of experts and their work on the Vulkan backend.
 *
 * The choice must be rl_router_topk()'s exactly. The fused last step of a single token must agree
 * with the separate kernels to the bit: that is what makes every way of decoding the same. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>

#include "backend/backend.h"
#include "quant/quant.h"
#include "support/vulkan.h"

static double silu(double x)
{
    return x / (1 + exp(-x));
}

typedef struct routed {
    uint32_t ids[4 * 32];
    float weights[4 * 32];
    rl_vk_token token;
} routed;

static routed run_route(const float *logits, uint32_t n, uint32_t n_expert, uint32_t k,
                        const uint64_t *residency, const uint32_t *forced, bool check)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    routed out;
    rl_vk_span ids = rl_test_gpu_put(gpu, NULL, n * k * 4);
    rl_vk_span weights = rl_test_gpu_put(gpu, NULL, n * k * 4);
    rl_vk_span publish = rl_test_gpu_put(gpu, NULL, n * k * 4);
    rl_route_push push = {
        .logits = rl_test_gpu_put(gpu, logits, (size_t)n * n_expert * 4).address,
        .forced = rl_test_gpu_put(gpu, forced, n * k * 4).address,
        .ids = ids.address,
        .weights = weights.address,
        .publish = publish.address,
        .residency = rl_test_gpu_put(gpu, residency, n_expert * 8).address,
        .token = gpu->token.address,
        .n_expert = n_expert,
        .k = k,
        .layer = 5,
    };
    rl_test_gpu_set_token(gpu, &(rl_vk_token){ .n = n, .check = check });
    assert_ok(rl_vk_op_route(&gpu->ops, &gpu->cmd, n, forced != NULL, &push, &err));
    rl_test_gpu_get(gpu, &ids, out.ids, n * k * 4);
    rl_test_gpu_get(gpu, &weights, out.weights, n * k * 4);
    uint32_t published[4 * 32];
    rl_test_gpu_get(gpu, &publish, published, n * k * 4);
    assert_memory_equal(published, out.ids, n * k * 4);
    rl_test_gpu_get(gpu, &gpu->token, &out.token, sizeof out.token);
    rl_test_gpu_end(gpu);
    return out;
}

static void check_route(const float *logits, uint32_t n, uint32_t n_expert, uint32_t k)
{
    routed have = run_route(logits, n, n_expert, k, NULL, NULL, false);
    assert_int_equal(have.token.halt, 0);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t ids[32];
        float weights[32];
        rl_router_topk(logits + (size_t)t * n_expert, n_expert, k, ids, weights);
        for (uint32_t i = 0; i < k; i++) {
            if (have.ids[t * k + i] != ids[i])
                fail_msg("%u of %u experts, token %u, rank %u: %u, not %u", k, n_expert, t, i,
                         have.ids[t * k + i], ids[i]);
            assert_true(fabsf(have.weights[t * k + i] - weights[i]) <= 2e-6f * weights[i] + 1e-9f);
        }
    }
}

static void vulkan_route_sizes(void **state)
{
    (void)state;
    const uint32_t sizes[][2] = { { 512, 10 }, { 64, 8 },   { 1024, 32 }, { 4, 4 }, { 5, 2 },
                                  { 33, 1 },   { 100, 32 }, { 63, 32 },   { 1, 1 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        float *logits = rl_test_random_vector(4 * sizes[i][0], 2, i);
        check_route(logits, 4, sizes[i][0], sizes[i][1]);
        free(logits);
    }
}

/* All equal; two values only; the largest ones in one interleaved group; ends of the range. */
static void vulkan_route_ties(void **state)
{
    (void)state;
    float logits[4 * 512];
    for (int i = 0; i < 512; i++) {
        logits[i] = 1;
        logits[512 + i] = (float)(i * 37 % 64 < 5);
        logits[1024 + i] = i % 64 == 3 ? (float)(1 + i / 128) : -1;
        logits[1536 + i] = i % 2 ? -3e38f : (i % 4 ? 3e38f : -0.0f);
    }
    check_route(logits, 4, 512, 10);
    check_route(logits, 4, 512, 32);
}

/* Nothing that a router could compute may lead out of the tables. */
static void vulkan_route_survives_nan(void **state)
{
    (void)state;
    float logits[512];
    for (int i = 0; i < 512; i++)
        logits[i] = i % 3 ? NAN : -INFINITY;
    routed have = run_route(logits, 1, 512, 10, NULL, NULL, false);
    for (int i = 0; i < 10; i++)
        assert_in_range(have.ids[i], 0, 511);
}

static void vulkan_route_halts_on_absent(void **state)
{
    (void)state;
    float *logits = rl_test_random_vector(512, 1, 1);
    uint32_t ids[10];
    float weights[10];
    rl_router_topk(logits, 512, 10, ids, weights);
    uint64_t residency[512] = { 0 };
    for (int i = 0; i < 10; i++)
        residency[ids[i]] = 4096;
    assert_int_equal(run_route(logits, 1, 512, 10, residency, NULL, true).token.halt, 0);
    residency[ids[9]] = 0;
    assert_int_equal(run_route(logits, 1, 512, 10, residency, NULL, true).token.halt, 6);
    assert_int_equal(run_route(logits, 1, 512, 10, residency, NULL, false).token.halt, 0);
    free(logits);
}

static void vulkan_route_forced(void **state)
{
    (void)state;
    float *logits = rl_test_random_vector(2 * 32, 1, 1), want[4];
    uint32_t forced[8] = { 3, 9, 0, 31, 7, 6, 5, 4 };
    routed have = run_route(logits, 2, 32, 4, NULL, forced, false);
    assert_memory_equal(have.ids, forced, sizeof forced);
    for (int t = 0; t < 2; t++) {
        rl_router_weights(logits + 32 * t, forced + 4 * t, 4, want);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(have.weights[4 * t + i] - want[i]) < 1e-6f);
    }
    free(logits);
}

/* ---- the experts of one token ---------------------------------------------------------------------- */

/* Where number i is of a row of `chunks` chunks that is stored across them (common.glsl). */
static uint32_t across(uint32_t i, uint32_t chunks)
{
    return (i / 4 % 8 * chunks + i / 32) * 4 + i % 4;
}

/* gate/up of `up_type`, down of `down_type`; K of E experts; fused, separate, and in double. */
static void check_experts(uint32_t up_type, uint32_t down_type, uint32_t h, uint32_t f, uint32_t k)
{
    enum { E = 6 };
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    rl_test_matrix up =
        rl_test_matrix_make(up_type, E * 2 * f, h, 0); /* per expert gate, then up */
    rl_test_matrix down = rl_test_matrix_make(down_type, E * h, f, 0);
    size_t up_bytes = up.bytes / E, down_bytes = down.bytes / E;
    size_t down_at = (up_bytes + 255) / 256 * 256;
    /* The fixtures' rows have any scale: bring products back to about one. */
    float *x = rl_test_random_vector(h, 1e-3f, 1), *norm = rl_test_random_vector(h, 1, 2);
    float *y0 = rl_test_random_vector(h, 1, 3), *shared = rl_test_random_vector(h, 1, 4);
    float scale = 0.3f, *weights = malloc(k * sizeof *weights);
    float *fused = malloc(h * 4), *parted = malloc(h * 4), *act = malloc((size_t)k * f * 4);
    uint32_t *ids = malloc(k * sizeof *ids);
    double *hd = malloc(h * sizeof *hd), *ad = malloc((size_t)k * f * sizeof *ad);
    assert_true(weights && fused && parted && act && ids && hd && ad);
    uint64_t residency[E];
    for (uint32_t e = 0; e < E; e++) {
        rl_vk_span slot = rl_test_gpu_put(gpu, NULL, down_at + down_bytes);
        assert_ok(rl_vk_upload(gpu->uploader, &slot, 0, up.blocks + e * up_bytes, up_bytes, &err));
        assert_ok(rl_vk_upload(gpu->uploader, &slot, down_at, down.blocks + e * down_bytes,
                               down_bytes, &err));
        residency[e] = slot.address;
    }
    for (uint32_t i = 0; i < k; i++) {
        ids[i] = (5 * i + 2) % E;
        weights[i] = 1.0f / (float)(i + 2);
    }
    double squares = 0;
    for (uint32_t i = 0; i < h; i++)
        squares += (double)x[i] * x[i];
    for (uint32_t i = 0; i < h; i++)
        hd[i] = x[i] / sqrt(squares / h + 1e-6f) * norm[i];

    rl_vk_span g_act = rl_test_gpu_put(gpu, NULL, (size_t)k * f * 4);
    rl_vk_span g_d = rl_test_gpu_put(gpu, NULL, (size_t)k * h * 4);
    rl_vk_span g_fused = rl_test_gpu_put(gpu, y0, h * 4),
               g_parted = rl_test_gpu_put(gpu, y0, h * 4);
    rl_vk_matvec gate_up = {
        .type = up_type,
        .input = RL_INPUT_NORM,
        .matrix = RL_MATRIX_ROUTED_PAIR,
        .n_ranks = k,
        .n_tokens = 1,
        .push = { .second = up_bytes / 2,
                  .x = rl_test_gpu_put(gpu, x, h * 4).address,
                  .aux = rl_test_gpu_put(gpu, norm, h * 4).address,
                  .y = g_act.address,
                  .ids = rl_test_gpu_put(gpu, ids, k * 4).address,
                  .residency = rl_test_gpu_put(gpu, residency, sizeof residency).address,
                  .token = gpu->token.address,
                  .cols = h,
                  .rows = f,
                  .ranks = k,
                  .mask = UINT32_MAX,
                  .eps = 1e-6f },
    };
    rl_experts_down_push last = {
        .w = down_at,
        .x = g_act.address,
        .ids = gate_up.push.ids,
        .weights = rl_test_gpu_put(gpu, weights, k * 4).address,
        .residency = gate_up.push.residency,
        .scale = rl_test_gpu_put(gpu, &scale, 4).address,
        .shared_ = rl_test_gpu_put(gpu, shared, h * 4).address,
        .add = g_fused.address,
        .y = g_fused.address,
        .token = gpu->token.address,
        .cols = f,
        .rows = h,
        .k = k,
    };
    rl_vk_matvec alone = {
        .type = down_type,
        .matrix = RL_MATRIX_ROUTED,
        .n_ranks = k,
        .n_tokens = 1,
        .floats = true,
        .push = { .w = down_at,
                  .x = g_act.address,
                  .y = g_d.address,
                  .ids = last.ids,
                  .residency = last.residency,
                  .token = gpu->token.address,
                  .cols = f,
                  .rows = h,
                  .x_rank = f,
                  .ranks = k },
    };
    rl_moe_sum_push sum = { .d = g_d.address,
                            .weights = last.weights,
                            .scale = last.scale,
                            .shared_ = last.shared_,
                            .y = g_parted.address,
                            .rows = h,
                            .k = k };
    rl_vk_cmd *cmd = &gpu->cmd;
    assert_ok(rl_vk_op_matvec(&gpu->ops, cmd, &gate_up, &err));
    rl_vk_cmd_barrier(cmd);
    assert_ok(rl_vk_op_experts_down(&gpu->ops, cmd, down_type, RL_INPUT_PLAIN, &last, &err));
    for (uint32_t part = 0; part < 2; part++) { /* in two calls, even and odd ranks */
        alone.push.mask = part ? 0xaaaaaaaau : 0x55555555u;
        assert_ok(rl_vk_op_matvec(&gpu->ops, cmd, &alone, &err));
    }
    rl_vk_cmd_barrier(cmd);
    assert_ok(rl_vk_op_moe_sum(&gpu->ops, cmd, 1, &sum, &err));
    rl_test_gpu_get(gpu, &g_act, act, (size_t)k * f * 4);
    rl_test_gpu_get(gpu, &g_fused, fused, h * 4);
    rl_test_gpu_get(gpu, &g_parted, parted, h * 4);
    assert_memory_equal(fused, parted, h * 4);

    for (uint32_t i = 0; i < k; i++)
        for (uint32_t r = 0; r < f; r++) {
            const float *w = up.values + ((size_t)ids[i] * 2 * f + r) * h;
            double mg, mu, g = rl_test_dot(w, hd, h, &mg);
            double u = rl_test_dot(w + (size_t)f * h, hd, h, &mu), want = silu(g) * u;
            double slack = 2e-6 * (1.1 * mg * fabs(u) + fabs(silu(g)) * mu) + 1e-6 * fabs(want);
            double have = act[i * f + across(r, f / 32)];
            if (!(fabs(have - want) <= slack + 1e-30))
                fail_msg("act %u %u: %.9g, expected %.9g", i, r, have, want);
            ad[i * f + r] = have;
        }
    for (uint32_t r = 0; r < h; r++) {
        double want = y0[r] + shared[r] / (1 + exp(-(double)scale)), slack = fabs(want);
        for (uint32_t i = 0; i < k; i++) {
            double m,
                d = rl_test_dot(down.values + ((size_t)ids[i] * h + r) * f, ad + i * f, f, &m);
            want += weights[i] * d;
            slack += weights[i] * m;
        }
        if (!(fabs(fused[r] - want) <= 2e-6 * slack))
            fail_msg("row %u: %.9g, expected %.9g", r, (double)fused[r], want);
    }
    void *all[] = { x, norm, y0, shared, weights, fused, parted, act, ids, hd, ad };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    rl_test_matrix_free(&up);
    rl_test_matrix_free(&down);
    rl_test_gpu_end(gpu);
}

static void vulkan_experts_target_types(void **state)
{
    (void)state;
    check_experts(RL_QUANT_IQ1_M, RL_QUANT_IQ2_XS, 256, 256, 5);
    check_experts(RL_QUANT_IQ2_XS, RL_QUANT_IQ1_M, 512, 512, 3);
}

static void vulkan_experts_odd_shapes(void **state)
{
    (void)state;
    check_experts(RL_QUANT_Q8_0, RL_QUANT_Q4_1, 96, 32, 1);
    check_experts(RL_QUANT_F16, RL_QUANT_MXFP4, 64, 160, 32);
}

static void vulkan_argmax(void **state)
{
    (void)state;
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    const uint32_t sizes[] = { 1, 5, 512, 100003 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint32_t n = sizes[s], best[2];
        float *x = rl_test_random_vector(n, 1, s);
        uint32_t at = n * 2 / 3;
        x[at] = 9;
        x[n - 1] = 9; /* a tie, or the same one */
        rl_vk_span result = rl_test_gpu_put(gpu, NULL, 8);
        uint64_t scratch = rl_test_gpu_put(gpu, NULL, RL_VK_ARGMAX_GROUPS * 8).address;
        rl_argmax_push push = { .x = rl_test_gpu_put(gpu, x, n * 4).address,
                                .best = result.address,
                                .token = gpu->token.address,
                                .n = n };
        assert_ok(rl_vk_op_argmax(&gpu->ops, &gpu->cmd, &push, scratch, &err));
        rl_test_gpu_get(gpu, &result, best, 8);
        assert_int_equal(best[1], at);
        free(x);
    }
    rl_test_gpu_end(gpu);
}

RL_TEST_MAIN(RL_TEST(vulkan, route_sizes), RL_TEST(vulkan, route_ties),
             RL_TEST(vulkan, route_survives_nan), RL_TEST(vulkan, route_halts_on_absent),
             RL_TEST(vulkan, route_forced), RL_TEST(vulkan, experts_target_types),
             RL_TEST(vulkan, experts_odd_shapes), RL_TEST(vulkan, argmax))
#else
static void vulkan_moe(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, moe))
#endif
