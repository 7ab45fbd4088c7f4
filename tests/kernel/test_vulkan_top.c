/* test_vulkan_top.c - the largest numbers as the device finds them, against a sort.
 *
 * Exact: the same indices in the same order, the same bits. Sizes around every border of the grid
 * (pieces of 16, 1024 numbers per workgroup, RL_VK_TOP_GROUPS of them) and vocabularies as they are;
 * inputs that are worst for the bounds by which the kernels avoid sorting. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>

#include "backend/backend.h"
#include "support/vulkan.h"

static const float *sorted; /* what by_order() looks at */

static int by_order(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (sorted[a] != sorted[b]) return sorted[a] > sorted[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void check(const char *what, const float *x, uint32_t n)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    uint32_t *ids = malloc(n * sizeof *ids), n_ids = 0, have[RL_VK_TOP_RESULT_WORDS];
    assert_non_null(ids);
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(x[i]) && x[i] != -INFINITY) ids[n_ids++] = i;
    sorted = x;
    qsort(ids, n_ids, sizeof *ids, by_order);
    if (n_ids > RL_VK_TOP) n_ids = RL_VK_TOP;
    rl_vk_span result = rl_test_gpu_put(gpu, NULL, sizeof have);
    rl_top_push push = { .x = rl_test_gpu_put(gpu, x, n * sizeof *x).address,
                         .lists = rl_test_gpu_put(gpu, NULL, 4 * RL_VK_TOP_LIST_WORDS).address,
                         .result = result.address,
                         .token = gpu->token.address,
                         .n = n };
    assert_ok(rl_vk_op_top(&gpu->ops, &gpu->cmd, &push, &err));
    rl_test_gpu_get(gpu, &result, have, sizeof have);
    rl_test_gpu_end(gpu);
    if (have[0] != n_ids) fail_msg("%s, %u numbers: %u, not %u", what, n, have[0], n_ids);
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t bits;
        memcpy(&bits, &x[ids[i]], sizeof bits);
        if (have[3 + 2 * i] != ids[i] || have[2 + 2 * i] != bits)
            fail_msg("%s, %u numbers, rank %u: %u (%08x), not %u (%08x)", what, n, i,
                     have[3 + 2 * i], have[2 + 2 * i], ids[i], bits);
    }
    free(ids);
}

static const uint32_t sizes[] = { 1,    2,     15,    16,     127,    128,
                                  129,  255,   256,   257,    1000,   1024,
                                  1025, 16385, 32000, 151935, 151936, RL_VK_TOP_MOST };
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static float *numbers(uint32_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    return x;
}

static void vulkan_top_random(void **state)
{
    (void)state;
    assert_int_equal(RL_VK_TOP, RL_TOP_LOGITS);
    for (uint32_t z = 0; z < N_SIZES; z++) {
        float *x = rl_test_random_vector(sizes[z], 4, z);
        check("random", x, sizes[z]);
        free(x);
    }
}

/* Steps; two values; one value; zeros of both signs. Lower indices first, across pieces. */
static void vulkan_top_ties(void **state)
{
    (void)state;
    for (uint32_t z = 0; z < N_SIZES; z++) {
        uint32_t n = sizes[z];
        float *x = rl_test_random_vector(n, 4, z);
        for (uint32_t i = 0; i < n; i++)
            x[i] = floorf(x[i]);
        check("steps", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i * 2654435761u >> 31 ? 1.5f : 1.25f;
        check("two values", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = -7;
        check("one value", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i % 3 ? -0.0f : i % 5 ? 0.0f : -1e-42f;
        check("zeros", x, n);
        free(x);
    }
}

/* Rising and falling; the largest all in one workgroup's piece, or in one invocation's share of
 * every piece. */
static void vulkan_top_worst_cases(void **state)
{
    (void)state;
    for (uint32_t z = 0; z < N_SIZES; z++) {
        uint32_t n = sizes[z], groups = (n + 1023) / 1024;
        if (groups > RL_VK_TOP_GROUPS) groups = RL_VK_TOP_GROUPS;
        float *x = numbers(n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = (float)i / 8;
        check("rising", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = -(float)i;
        check("falling", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i / 16 % groups == groups - 1 ? (float)(i % 1009) : (float)(i % 13) - 100;
        check("one piece", x, n);
        for (uint32_t i = 0; i < n; i++) /* half of the invocations have all, in every round more */
            x[i] = i / 16 / groups % 16 < 8 ? (float)(i / 16 / groups / 16) : -1;
        check("half of the invocations", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i / 16 / groups % 16 == 3 && i % 16 == 5 ? (float)i : -(float)i;
        check("one invocation", x, n);
        free(x);
    }
}

/* What is not a number or -infinity is nowhere in the list; +infinity is its beginning. */
static void vulkan_top_odd_numbers(void **state)
{
    (void)state;
    for (uint32_t z = 0; z < N_SIZES; z++) {
        uint32_t n = sizes[z];
        float *x = rl_test_random_vector(n, 1e30f, z);
        for (uint32_t i = 0; i < n; i++)
            if (i % 3 == 1) x[i] = i % 2 ? NAN : -INFINITY;
        check("a third is none", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i % 211 == 7 ? INFINITY
                   : i % 5 == 2 ? -NAN
                   : i % 7      ? 1e-44f * (float)(i % 50)
                                : -3.4e38f;
        check("endless, denormal, lowest", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i % 1501 == n % 1501 ? (float)(i % 17) : i % 2 ? NAN : -INFINITY;
        check("few are numbers", x, n);
        for (uint32_t i = 0; i < n; i++)
            x[i] = i % 2 ? NAN : -INFINITY;
        check("none", x, n);
        free(x);
    }
}

/* A token that stopped on its way leaves the list as it was. */
static void vulkan_top_leaves_halted_tokens(void **state)
{
    (void)state;
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    float x[4] = { 1, 2, 3, 4 };
    uint32_t was[RL_VK_TOP_RESULT_WORDS], is[RL_VK_TOP_RESULT_WORDS];
    memset(was, 0x5a, sizeof was);
    rl_test_gpu_set_token(gpu, &(rl_vk_token){ .n = 1, .halt = 3 });
    rl_vk_span result = rl_test_gpu_put(gpu, was, sizeof was);
    rl_top_push push = { .x = rl_test_gpu_put(gpu, x, sizeof x).address,
                         .lists = rl_test_gpu_put(gpu, NULL, 4 * RL_VK_TOP_LIST_WORDS).address,
                         .result = result.address,
                         .token = gpu->token.address,
                         .n = 4 };
    assert_ok(rl_vk_op_top(&gpu->ops, &gpu->cmd, &push, &err));
    rl_test_gpu_get(gpu, &result, is, sizeof is);
    rl_test_gpu_end(gpu);
    assert_memory_equal(is, was, sizeof is);
}

RL_TEST_MAIN(RL_TEST(vulkan, top_random), RL_TEST(vulkan, top_ties),
             RL_TEST(vulkan, top_worst_cases), RL_TEST(vulkan, top_odd_numbers),
             RL_TEST(vulkan, top_leaves_halted_tokens))
#else
static void vulkan_top_random(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, top_random))
#endif
