/* test_vulkan_links.c - stages that follow each other without barriers (backend/vulkan/vk_link.h).
 *
 * On a software device dispatches run one after the other, so that waiting is never long there: what these
 * tests show everywhere is that counters and numbers fit, and that waiting ends. That a stage sees what the
 * stage before has written is shown on devices which overlap dispatches. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include "backend/vulkan/vk_link.h"
#include "quant/quant.h"
#include "support/vulkan.h"

enum { SIZE = 256, STAGES = 12, TURNS = 5, SENTINEL = 0x5a };

/* Products behind each other: the input of stage i + 1 is the output of stage i. */
typedef struct chain {
    rl_vk_span w, y[STAGES + 1], counters;
    uint32_t turn, halt;
} chain;

static chain make(rl_test_gpu *gpu)
{
    chain c = { .turn = 1, .counters = rl_test_gpu_put(gpu, NULL, RL_LINK_STRIDE * STAGES) };
    uint8_t none[SIZE * 4];
    memset(none, SENTINEL, sizeof none);
    float *w = rl_test_random_vector(SIZE * SIZE, 0.1f, 1), *x = rl_test_random_vector(SIZE, 1, 2);
    c.w = rl_test_gpu_put(gpu, w, SIZE * SIZE * sizeof *w);
    c.y[0] = rl_test_gpu_put(gpu, x, SIZE * sizeof *x);
    for (uint32_t i = 1; i <= STAGES; i++)
        c.y[i] = rl_test_gpu_put(gpu, none, sizeof none);
    free(w);
    free(x);
    return c;
}

static void run(rl_test_gpu *gpu, const chain *c, bool linked)
{
    rl_error err;
    rl_vk_token token = {
        .n = 1, .turn = c->turn, .halt = c->halt, .counters = c->counters.address
    };
    rl_test_gpu_set_token(gpu, &token);
    rl_vk_links_start(&gpu->cmd.links, linked);
    for (uint32_t i = 0; i < STAGES; i++) {
        rl_vk_matvec m = { .type = RL_QUANT_F32,
                           .n_ranks = 1,
                           .n_tokens = 1,
                           .push = { .w = c->w.address,
                                     .x = c->y[i].address,
                                     .y = c->y[i + 1].address,
                                     .token = gpu->token.address,
                                     .cols = SIZE,
                                     .rows = SIZE } };
        rl_vk_cmd_begin_stage(&gpu->cmd, i + 1 < STAGES);
        assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &m, &err));
        rl_vk_cmd_end_stage(&gpu->cmd);
    }
    rl_test_gpu_run(gpu);
}

/* Every stage but the last has been through `turns` times as many arrivals as it has workgroups. */
static void check_counters(rl_test_gpu *gpu, const chain *c, uint32_t turns)
{
    uint32_t words[RL_LINK_STRIDE / 4 * STAGES];
    rl_test_gpu_get(gpu, &c->counters, words, sizeof words);
    for (uint32_t i = 0; i < STAGES; i++) {
        uint32_t n = words[RL_LINK_STRIDE / 4 * i];
        assert_int_equal(n % turns, 0);
        assert_true(i + 1 < STAGES ? n && n == words[0] : n == 0);
    }
}

static uint32_t late_of(rl_test_gpu *gpu)
{
    rl_vk_token token;
    rl_test_gpu_get(gpu, &gpu->token, &token, sizeof token);
    return token.late;
}

static void vulkan_links_give_the_same(void **state)
{
    (void)state;
    float want[SIZE], got[SIZE];
    rl_test_gpu *gpu = rl_test_gpu_begin();
    if (!gpu->device->info.hands_over) rl_test_skip("workgroups cannot hand over here");
    chain c = make(gpu);
    uint64_t barriers = gpu->stream->counters.barriers;
    run(gpu, &c, false);
    uint64_t usual = gpu->stream->counters.barriers - barriers;
    rl_test_gpu_get(gpu, &c.y[STAGES], want, sizeof want);
    for (; c.turn <= TURNS; c.turn++) {
        barriers = gpu->stream->counters.barriers;
        run(gpu, &c, true);
        assert_int_equal(usual - (gpu->stream->counters.barriers - barriers), STAGES - 1);
        rl_test_gpu_get(gpu, &c.y[STAGES], got, sizeof got);
        assert_memory_equal(got, want, sizeof want);
        check_counters(gpu, &c, c.turn);
        assert_int_equal(late_of(gpu), 0);
    }
    rl_test_gpu_end(gpu);
}

/* A turn too many: nobody will ever have arrived often enough. All kernels end, and say so. */
static void vulkan_links_end_their_waiting(void **state)
{
    (void)state;
    rl_test_gpu *gpu = rl_test_gpu_begin();
    if (!gpu->device->info.hands_over) rl_test_skip("workgroups cannot hand over here");
    chain c = make(gpu);
    c.turn = 2;
    run(gpu, &c, true);
    assert_int_not_equal(late_of(gpu), 0);
    check_counters(gpu, &c, 1);
    rl_test_gpu_end(gpu);
}

/* A token that has halted computes nothing, and everybody arrives. */
static void vulkan_links_count_halted_tokens(void **state)
{
    (void)state;
    uint8_t bytes[SIZE * 4];
    rl_test_gpu *gpu = rl_test_gpu_begin();
    if (!gpu->device->info.hands_over) rl_test_skip("workgroups cannot hand over here");
    chain c = make(gpu);
    c.halt = 3;
    run(gpu, &c, true);
    for (uint32_t i = 1; i <= STAGES; i++) {
        rl_test_gpu_get(gpu, &c.y[i], bytes, sizeof bytes);
        for (uint32_t j = 0; j < sizeof bytes; j++)
            assert_int_equal(bytes[j], SENTINEL);
    }
    check_counters(gpu, &c, 1);
    assert_int_equal(late_of(gpu), 0);
    rl_test_gpu_end(gpu);
}

/* ---- the numbers alone ------------------------------------------------------------------------------- */

static void check_dispatch(rl_vk_links *l, uint64_t groups, uint32_t how, uint32_t link,
                           uint32_t first)
{
    uint32_t got_link, got_first;
    assert_int_equal(rl_vk_links_dispatch(l, groups, &got_link, &got_first), how);
    assert_int_equal(got_link, link);
    assert_int_equal(got_first, first);
}

static void vulkan_links_numbers(void **state)
{
    (void)state;
    const uint32_t stage = 1u << RL_LINK_STAGE, waits = RL_LINK_WAITS, arrives = RL_LINK_ARRIVES;
    rl_vk_links l = { 0 };
    rl_vk_links_begin(&l, true); /* off: barriers as ever */
    check_dispatch(&l, 9, 0, 0, 0);
    assert_true(rl_vk_links_end(&l));

    rl_vk_links_start(&l, true);
    rl_vk_links_begin(&l, true);
    check_dispatch(&l, 3, arrives, 0, 0);
    check_dispatch(&l, 4, arrives, 0, 0); /* beside it */
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, true);
    check_dispatch(&l, 5, waits | arrives, stage | 7, 0);
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, false); /* two stages behind it are linked to it */
    check_dispatch(&l, 6, waits | RL_LINK_WAITS_FIRST, 2 * stage | 5, 7);
    assert_true(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, true); /* behind a barrier: counters that nobody has used */
    check_dispatch(&l, 8, arrives, 3 * stage, 0);
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, true);
    check_dispatch(&l, RL_LINK_GROUPS + 1ull, waits | arrives, 4 * stage | 8, 0);
    assert_true(rl_vk_links_end(&l)); /* more than a link can say */
    rl_vk_links_begin(&l, false);
    check_dispatch(&l, UINT64_MAX, 0, 5 * stage, 0);
    assert_true(rl_vk_links_end(&l));
}

RL_TEST_MAIN(RL_TEST(vulkan, links_give_the_same), RL_TEST(vulkan, links_end_their_waiting),
             RL_TEST(vulkan, links_count_halted_tokens), RL_TEST(vulkan, links_numbers))
#else
static void vulkan_links(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, links))
#endif
