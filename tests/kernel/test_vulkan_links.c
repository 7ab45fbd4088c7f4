/* test_vulkan_links.c - stages that follow each other without barriers (backend/vulkan/vk_link.h).
 *
 * On a software device dispatches run one after the other, so that waiting is never long there: what these
 * tests show everywhere is that places and numbers fit, and that waiting ends. That a stage sees what the
 * stage before has written is shown on devices which overlap dispatches. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include "backend/vulkan/vk_link.h"
#include "quant/quant.h"
#include "support/vulkan.h"

enum { SIZE = 256, STAGES = 12, TURNS = 5, LAYER = 3, SENTINEL = 0x5a };

/* Products behind each other: the input of stage i + 1 is the output of stage i. */
typedef struct chain {
    rl_vk_span w, x, y;           /* input and output, plain */
    rl_vk_span handed[STAGES];    /* numbered: the input, if it is, and what stages hand on */
    rl_vk_span plain[STAGES - 1]; /* without links: what stages hand on */
    uint32_t turn;
    bool numbered_input;
} chain;

static chain make(rl_test_gpu *gpu)
{
    chain c = { .turn = 1 };
    uint8_t none[SIZE * 8];
    memset(none, SENTINEL, sizeof none);
    float *w = rl_test_random_vector(SIZE * SIZE, 0.1f, 1), *x = rl_test_random_vector(SIZE, 1, 2);
    c.w = rl_test_gpu_put(gpu, w, SIZE * SIZE * sizeof *w);
    c.x = rl_test_gpu_put(gpu, x, SIZE * sizeof *x);
    c.y = rl_test_gpu_put(gpu, none, SIZE * sizeof *x);
    for (uint32_t i = 0; i < STAGES; i++)
        c.handed[i] = rl_test_gpu_put(gpu, none, sizeof none);
    for (uint32_t i = 0; i + 1 < STAGES; i++)
        c.plain[i] = rl_test_gpu_put(gpu, none, SIZE * sizeof *x);
    free(w);
    free(x);
    return c;
}

/* Numbers are those of link.glsl. */
static uint32_t number_of(const chain *c)
{
    return c->turn << RL_NUMBER_LAYER | LAYER;
}

static uint32_t place_of(uint32_t i)
{
    uint32_t pair = i % 128 / 4;
    return i / 128 * 128 + (i % 4 < 2 ? 0 : 64) + 2 * pair + i % 2;
}

/* Makes the chain's input a numbered one; value `odd` (none: SIZE) has another number. */
static void number_input(rl_test_gpu *gpu, chain *c, uint32_t odd, uint32_t number)
{
    float *x = rl_test_random_vector(SIZE, 1, 2);
    uint32_t words[2 * SIZE];
    for (uint32_t i = 0; i < SIZE; i++) {
        memcpy(&words[2 * place_of(i)], &x[i], sizeof x[i]);
        words[2 * place_of(i) + 1] = i == odd ? number : number_of(c);
    }
    free(x);
    c->numbered_input = true;
    c->handed[0] = rl_test_gpu_put(gpu, words, sizeof words);
}

static void run(rl_test_gpu *gpu, const chain *c, bool linked)
{
    rl_error err;
    rl_vk_token token = { .n = 1, .turn = c->turn };
    rl_test_gpu_set_token(gpu, &token);
    rl_vk_links_start(&gpu->cmd.links, linked);
    if (c->numbered_input) gpu->cmd.links.end = RL_VK_END_NUMBERED; /* of a stage before */
    for (uint32_t i = 0; i < STAGES; i++) {
        bool last = i + 1 == STAGES;
        const rl_vk_span *from = linked ? &c->handed[i] : i ? &c->plain[i - 1] : &c->x;
        const rl_vk_span *to = linked && !last ? &c->handed[i + 1] : !last ? &c->plain[i] : &c->y;
        if (!i && !c->numbered_input) from = &c->x;
        rl_vk_matvec m = { .type = RL_QUANT_F32,
                           .n_ranks = 1,
                           .n_tokens = 1,
                           .push = { .w = c->w.address,
                                     .x = from->address,
                                     .y = to->address,
                                     .token = gpu->token.address,
                                     .cols = SIZE,
                                     .rows = SIZE } };
        rl_vk_cmd_begin_stage(&gpu->cmd, LAYER, last ? RL_VK_END_BARRIER : RL_VK_END_NUMBERED);
        assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &m, &err));
        rl_vk_cmd_end_stage(&gpu->cmd);
    }
    rl_test_gpu_run(gpu);
}

static uint32_t late_of(rl_test_gpu *gpu)
{
    rl_vk_token token;
    rl_test_gpu_get(gpu, &gpu->token, &token, sizeof token);
    return token.late;
}

static rl_test_gpu *begin(void)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    if (!gpu->device->info.hands_over) rl_test_skip("workgroups cannot hand over here");
    return gpu;
}

static void vulkan_links_give_the_same(void **state)
{
    (void)state;
    float want[SIZE], got[SIZE];
    rl_test_gpu *gpu = begin();
    chain c = make(gpu);
    uint64_t barriers = gpu->stream->counters.barriers;
    run(gpu, &c, false);
    uint64_t usual = gpu->stream->counters.barriers - barriers;
    rl_test_gpu_get(gpu, &c.y, want, sizeof want);
    for (; c.turn <= TURNS; c.turn++) {
        if (c.turn == TURNS) number_input(gpu, &c, SIZE, 0);
        barriers = gpu->stream->counters.barriers;
        run(gpu, &c, true);
        assert_int_equal(usual - (gpu->stream->counters.barriers - barriers), STAGES - 1);
        rl_test_gpu_get(gpu, &c.y, got, sizeof got);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(late_of(gpu), 0);
    }
    rl_test_gpu_end(gpu);
}

/* All that was handed on is void, and there is no result. */
static void check_void(rl_test_gpu *gpu, const chain *c)
{
    uint32_t words[2 * SIZE];
    uint8_t bytes[SIZE * sizeof(float)];
    for (uint32_t i = 1; i < STAGES; i++) {
        rl_test_gpu_get(gpu, &c->handed[i], words, sizeof words);
        for (uint32_t j = 0; j < SIZE; j++)
            assert_int_equal(words[2 * j + 1], number_of(c) | RL_NUMBER_VOID);
    }
    rl_test_gpu_get(gpu, &c->y, bytes, sizeof bytes);
    for (uint32_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], SENTINEL);
}

/* One value of the input never comes: there is that of another layer, or another token's. All kernels end,
 * and say so.
 * Stands against a token that hangs, and one that takes what was there before. */
static void vulkan_links_end_their_waiting(void **state)
{
    (void)state;
    rl_test_gpu *gpu = begin();
    chain c = make(gpu);
    const uint32_t others[] = { number_of(&c) + 1, number_of(&c) + (1u << RL_NUMBER_LAYER), 0 };
    for (uint32_t i = 0; i < RL_COUNT_OF(others); i++) {
        number_input(gpu, &c, 77 * i, others[i]);
        run(gpu, &c, true);
        assert_int_not_equal(late_of(gpu), 0);
        check_void(gpu, &c);
    }
    rl_test_gpu_end(gpu);
}

/* A token that has halted computes nothing, and nobody waits: any void value will do. */
static void vulkan_links_pass_on_what_is_void(void **state)
{
    (void)state;
    rl_test_gpu *gpu = begin();
    chain c = make(gpu);
    for (uint32_t odd = 0; odd < SIZE; odd += 51) {
        number_input(gpu, &c, odd, number_of(&c) | RL_NUMBER_VOID);
        run(gpu, &c, true);
        assert_int_equal(late_of(gpu), 0);
        check_void(gpu, &c);
        c.turn++;
    }
    rl_test_gpu_end(gpu);
}

/* ---- several blocks of rows --------------------------------------------------------------------------- */

enum { ODD_ROWS = 1003 };

/* y = W x of ODD_ROWS rows, with something added, or silu(W x) * (V x). Linked: all of it numbered. */
static void odd_product(rl_test_gpu *gpu, const chain *c, bool pair, bool linked,
                        const rl_vk_span *w, uint64_t half, const rl_vk_span *add,
                        const rl_vk_span *y)
{
    rl_error err;
    rl_vk_token token = { .n = 1, .turn = c->turn };
    rl_test_gpu_set_token(gpu, &token);
    rl_vk_links_start(&gpu->cmd.links, linked);
    if (linked) gpu->cmd.links.end = RL_VK_END_NUMBERED; /* of a stage before */
    rl_vk_matvec m = { .type = RL_QUANT_Q4_0,
                       .matrix = pair ? RL_MATRIX_PAIR : RL_MATRIX_PLAIN,
                       .add = pair     ? RL_ADD_NOTHING
                              : linked ? RL_ADD_NUMBERED
                                       : RL_ADD_PLAIN,
                       .n_ranks = 1,
                       .n_tokens = 1,
                       .team_rows = 2,
                       .push = { .w = w->address,
                                 .second = half,
                                 .x = linked ? c->handed[0].address : c->x.address,
                                 .add = add->address,
                                 .y = y->address,
                                 .token = gpu->token.address,
                                 .cols = SIZE,
                                 .rows = ODD_ROWS } };
    rl_vk_cmd_begin_stage(&gpu->cmd, LAYER, RL_VK_END_NUMBERED);
    assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &m, &err));
    rl_vk_cmd_end_stage(&gpu->cmd);
    rl_test_gpu_run(gpu);
    if (linked) assert_int_equal(late_of(gpu), 0);
}

/* A team that takes rows time after time, up to where there are none: the words of its next rows are on
 * their way before it is done with these (product.glsl, OVERLAPS; a software device takes one block).
 * Stands against words of other rows, and rows left out. */
static void vulkan_links_of_several_blocks(void **state)
{
    (void)state;
    enum { PLACES = (ODD_ROWS + 127) / 128 * 128 };
    static float want[ODD_ROWS];
    static uint32_t got[2 * PLACES], numbered[2 * PLACES];
    rl_test_gpu *gpu = begin();
    chain c = make(gpu);
    number_input(gpu, &c, SIZE, 0);
    const uint32_t lanes = gpu->ops.lanes;
    gpu->ops.lanes = 64; /* as if a few rows filled the device */
    rl_test_matrix w = rl_test_matrix_make(RL_QUANT_Q4_0, 2 * ODD_ROWS, SIZE, 5);
    rl_vk_span weights = rl_test_gpu_put(gpu, w.blocks, w.bytes);
    float *plus = rl_test_random_vector(ODD_ROWS, 1, 7);
    rl_vk_span add = rl_test_gpu_put(gpu, plus, ODD_ROWS * sizeof *plus);
    for (uint32_t i = 0; i < ODD_ROWS; i++) {
        memcpy(&numbered[2 * place_of(i)], &plus[i], sizeof plus[i]);
        numbered[2 * place_of(i) + 1] = number_of(&c);
    }
    rl_vk_span add_numbered = rl_test_gpu_put(gpu, numbered, sizeof numbered);
    for (int pair = 0; pair < 2; pair++) {
        rl_vk_span y = rl_test_gpu_put(gpu, NULL, sizeof want),
                   handed = rl_test_gpu_put(gpu, NULL, sizeof got);
        odd_product(gpu, &c, pair, false, &weights, w.bytes / 2, &add, &y);
        odd_product(gpu, &c, pair, true, &weights, w.bytes / 2, &add_numbered, &handed);
        rl_test_gpu_get(gpu, &y, want, sizeof want);
        rl_test_gpu_get(gpu, &handed, got, sizeof got);
        for (uint32_t i = 0; i < ODD_ROWS; i++) {
            assert_memory_equal(&got[2 * place_of(i)], &want[i], sizeof want[i]);
            assert_int_equal(got[2 * place_of(i) + 1], number_of(&c));
            assert_true(i < 2 || want[i] != want[i - 1] || want[i] != want[i - 2]);
        }
    }
    gpu->ops.lanes = lanes;
    free(plus);
    rl_test_matrix_free(&w);
    rl_test_gpu_end(gpu);
}

/* ---- what is recorded, alone --------------------------------------------------------------------------- */

static void check_dispatch(rl_vk_links *l, uint64_t groups, uint32_t how, uint32_t link)
{
    uint32_t got_link;
    assert_int_equal(rl_vk_links_dispatch(l, groups, &got_link), how);
    assert_int_equal(got_link, link);
}

static void vulkan_links_numbers(void **state)
{
    (void)state;
    const uint32_t layer = 1u << RL_LINK_LAYER, takes = RL_LINK_TAKES, gives = RL_LINK_GIVES,
                   waits = RL_LINK_WAITS, arrives = RL_LINK_ARRIVES;
    rl_vk_links l = { 0 };
    rl_vk_links_begin(&l, 0, RL_VK_END_NUMBERED); /* off: barriers as ever */
    check_dispatch(&l, 9, 0, 0);
    assert_true(rl_vk_links_end(&l));

    rl_vk_links_start(&l, true);
    rl_vk_links_begin(&l, 0, RL_VK_END_NUMBERED);
    check_dispatch(&l, 3, gives, 0);
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, 0, RL_VK_END_COUNTED);
    check_dispatch(&l, 3, takes | arrives, 0);
    check_dispatch(&l, 4, takes | arrives, 0); /* beside it */
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, 0, RL_VK_END_NUMBERED);
    check_dispatch(&l, 5, takes | waits | gives, 7);
    assert_false(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, 1, RL_VK_END_COUNTED);
    check_dispatch(&l, RL_LINK_GROUPS + 1ull, takes | arrives, layer);
    assert_true(rl_vk_links_end(&l)); /* more than a link can say */
    rl_vk_links_begin(&l, 1, RL_VK_END_BARRIER);
    check_dispatch(&l, UINT64_MAX, takes, layer);
    assert_true(rl_vk_links_end(&l));
    rl_vk_links_begin(&l, 2, RL_VK_END_BARRIER); /* behind a barrier */
    check_dispatch(&l, 6, 0, 2 * layer);
    assert_true(rl_vk_links_end(&l));
}

RL_TEST_MAIN(RL_TEST(vulkan, links_give_the_same), RL_TEST(vulkan, links_end_their_waiting),
             RL_TEST(vulkan, links_pass_on_what_is_void), RL_TEST(vulkan, links_of_several_blocks),
             RL_TEST(vulkan, links_numbers))
#else
static void vulkan_links(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, links))
#endif
