/* test_gpu.c - a model on a Vulkan device of which any call may fail: every one in turn.
 *
 * The device is pretended (support/vulkan_fake.h), so a whole life takes milliseconds and every n can
 * be played: memory that runs out and comes back, memory that is gone for good, a device that is lost.
 * The same on the machine's own driver: test_gpu_driver.c. */
#include "support/fault.h"
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/decode.h"
#include "engine/experts.h"
#include "support/gpu_life.h"
#include "support/vulkan_fake.h"
#include "support/vulkan_guard.h"

/* ---- devices ------------------------------------------------------------------------------------------ */

#define NAME "Pretended GPU"

static const rl_fake_gpu direct = { .name = NAME, .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU };
static const rl_fake_gpu staged = { .name = NAME,
                                    .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                    .private_memory = true,
                                    .budget = true };
static const rl_fake_gpu single = { .name = NAME,
                                    .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                    .one_queue = true };

/* One GPU, and nothing of what runs here remembered in the user's folders. */
static void plug_in(const rl_fake_gpu *gpu)
{
    static rl_fake_machine machine;
    machine = (rl_fake_machine){ .gpus = gpu, .n_gpus = 1 };
    const char *cache = rl_test_scratch("fault-gpu-cache-%ld", (long)getpid());
    mkdir(cache, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    unsetenv("RL_VULKAN_STAGING");
    unsetenv("RL_VULKAN_VALIDATE");
    rl_guard_install(rl_fake_vulkan(&machine));
}

static void unplug(const rl_gpu_setup *setup)
{
    char command[256];
    unlink(setup->saved);
    snprintf(command, sizeof command, "rm -rf '%s'", getenv("XDG_CACHE_HOME"));
    if (system(command)) fail_msg("%s", command);
}

/* ---- what has to follow -------------------------------------------------------------------------------- */

typedef struct fault {
    const char *name;
    VkResult result;
    rl_status status; /* that the caller sees */
    bool stays;
} fault;

static const fault lost = { "lost", VK_ERROR_DEVICE_LOST, RL_DEVICE, false };
static const fault device_memory = { "device memory", VK_ERROR_OUT_OF_DEVICE_MEMORY, RL_NOMEM,
                                     false };
static const fault host_memory = { "host memory", VK_ERROR_OUT_OF_HOST_MEMORY, RL_NOMEM, false };
static const fault no_more_memory = { "memory for good", VK_ERROR_OUT_OF_DEVICE_MEMORY, RL_NOMEM,
                                      true };

/* One sentence: what failed, on what. */
static void check_sentence(const rl_gpu_life *l, const fault *f, uint64_t n, rl_status status,
                           const rl_error *err)
{
    const char *text = err->text;
    bool says_what = strstr(text, "vk") || strstr(text, "MiB");
    /* What cannot be mapped is written through the ring, which costs one queue its gated step. */
    if (!strcmp(rl_guard_struck(), "vkMapMemory") && status == RL_UNSUPPORTED &&
        strstr(text, "no gated step"))
        return;
    bool says_where = strstr(text, NAME) || !l->engine; /* before a device is chosen: none */
    if (status != f->status || !text[0] || strchr(text, '\n') || !says_what || !says_where ||
        (f->result == VK_ERROR_DEVICE_LOST && !strstr(text, "lost") &&
         strcmp(rl_guard_struck(), "vkCreateDevice")))
        fail_msg("%s at call %llu (%s), %s: %s: \"%s\"", f->name, (unsigned long long)n,
                 rl_guard_struck(), rl_gpu_step_name(l), rl_status_name(status), text);
}

/* The rest of a life on a lost device: whatever needs it says so. */
static void play_on_lost(rl_gpu_life *l)
{
    rl_error err = { "" };
    rl_session *another = NULL;
    for (; l->session && !rl_gpu_is_over(l); l->step++) {
        bool needs = rl_gpu_step_needs_device(l);
        uint32_t step = l->step;
        rl_status status = rl_gpu_step(l, &err);
        l->step = step;
        if (needs && (status != RL_DEVICE || !strstr(err.text, "lost")))
            fail_msg("on a lost device, %s: %s: \"%s\"", rl_gpu_step_name(l),
                     rl_status_name(status), err.text);
        rl_gpu_check(l);
    }
    if (!l->engine) return;
    assert_int_equal(rl_session_open(&another, l->engine, NULL, &err), RL_DEVICE);
    assert_null(another);
}

/* One life with the n-th call failing. True when it was that call, not one that is never made. */
static bool live_through(const rl_gpu_setup *setup, const fault *f, uint64_t n,
                         const rl_gpu_life *want)
{
    rl_gpu_life l;
    rl_error err = { "" };
    rl_gpu_begin(&l, setup);
    if (f->stays)
        rl_guard_arm_from(n, f->result);
    else
        rl_guard_arm(n, f->result);
    bool failed = false, over = false;
    while (!over && !rl_gpu_is_over(&l)) {
        err.text[0] = 0;
        rl_status status = rl_gpu_step(&l, &err);
        rl_gpu_check(&l);
        if (!status) continue;
        check_sentence(&l, f, n, status, &err);
        assert_false(failed && !f->stays); /* once, unless it stays */
        failed = true;
        if (f->result == VK_ERROR_DEVICE_LOST) {
            play_on_lost(&l);
            over = true;
        }
        if (f->stays) over = true;
    }
    bool all = rl_gpu_is_over(&l) && !(f->result == VK_ERROR_DEVICE_LOST && failed);
    rl_gpu_end(&l); /* still failing, where it stays */
    bool fired = rl_guard_disarm();
    if (failed) assert_true(fired);
    if (all) {
        assert_int_equal(l.n_tokens, want->n_tokens);
        assert_memory_equal(l.tokens, want->tokens, sizeof l.tokens);
        assert_memory_equal(l.logits, want->logits, sizeof l.logits);
    }
    return fired;
}

static void check_nothing_left(const fault *f, uint64_t n, int64_t blocks)
{
    if (rl_guard_complaint())
        fail_msg("%s at call %llu (%s): %s", f->name, (unsigned long long)n, rl_guard_struck(),
                 rl_guard_complaint());
    if (rl_guard_live() || rl_fault_live() != blocks)
        fail_msg("%s at call %llu (%s): %u objects and %lld blocks stay behind", f->name,
                 (unsigned long long)n, rl_guard_struck(), rl_guard_live(),
                 (long long)(rl_fault_live() - blocks));
}

/* Stands against a test of four ways that all are the same one. */
static void check_way(const rl_gpu_setup *setup, rl_decode_counts n)
{
    const char *way = setup->way;
    bool right = !strcmp(way, "0")         ? n.sync && !n.routed && !n.resumed && !n.gated
                 : !strcmp(way, "gated")   ? n.gated && !n.sync
                 : !strcmp(way, "restart") ? n.restarted && n.sync && !n.resumed
                                           : n.resumed && !n.sync && !n.restarted;
    if (!right || (!setup->bounded && strcmp(way, "0") && !n.routed && !n.gated))
        fail_msg("%s: %llu routed, %llu resumed, %llu restarted, %llu gated, %llu sync", way,
                 (unsigned long long)n.routed, (unsigned long long)n.resumed,
                 (unsigned long long)n.restarted, (unsigned long long)n.gated,
                 (unsigned long long)n.sync);
}

/* Every stride-th call of a life fails, in every manner. */
static void check_life(const rl_fake_gpu *gpu, const char *way, bool bounded, uint64_t stride)
{
    static const fault *const faults[] = { &lost, &device_memory, &host_memory, &no_more_memory };
    rl_gpu_setup setup = { .way = way, .bounded = bounded, .device = NAME };
    snprintf(setup.saved, sizeof setup.saved, "%s",
             rl_test_scratch("fault-gpu-%ld.bin", (long)getpid()));
    static rl_gpu_life want;
    const fault none = { "nothing", VK_SUCCESS, RL_OK, false };
    plug_in(gpu);
    /* Twice: what libraries keep for ever is kept then. */
    for (int i = 0; i < 2; i++) {
        rl_error err = { "" };
        rl_gpu_begin(&want, &setup);
        rl_guard_arm(0, VK_SUCCESS);
        while (!rl_gpu_is_over(&want)) {
            assert_ok(rl_gpu_step(&want, &err));
            rl_gpu_check(&want);
        }
        check_way(&setup, rl_decoder_counts(want.engine->decoder));
        rl_gpu_end(&want);
        rl_guard_disarm();
    }
    int64_t blocks = rl_fault_live();
    uint64_t n_calls = rl_guard_calls(), played = 0;
    check_nothing_left(&none, 0, blocks);
    for (size_t i = 0; i < RL_COUNT_OF(faults); i++)
        for (uint64_t n = i; n < n_calls; n += stride, played++) {
            live_through(&setup, faults[i], n, &want);
            check_nothing_left(faults[i], n, blocks);
        }
    printf("%s, %s pool: %llu calls, %llu lives\n", way, bounded ? "bounded" : "full",
           (unsigned long long)n_calls, (unsigned long long)played);
    assert_true(n_calls > 250);
    unplug(&setup);
}

#define LIFE(name, gpu, way, bounded, stride)                                                      \
    static void gpu_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        check_life(&gpu, way, bounded, stride);                                                    \
    }
LIFE(some_faults_sync, direct, "0", true, 13)
LIFE(some_faults_resume, staged, "resume", true, 293)
LIFE(some_faults_gated, direct, "gated", true, 13)
LIFE(some_faults_one_queue, single, "restart", false, 13)
#define EVERY(way, word)                                                                           \
    LIFE(every_fault_##way##_direct_long, direct, word, true, 1)                                   \
    LIFE(every_fault_##way##_staged_long, staged, word, true, 1)                                   \
    LIFE(every_fault_##way##_full_long, direct, word, false, 1)                                    \
    LIFE(every_fault_##way##_one_queue_long, single, word, true, 1)
EVERY(sync, "0")
EVERY(restart, "restart")
EVERY(resume, "resume")
EVERY(gated, "gated")
#define TESTS(way)                                                                                 \
    RL_TEST(gpu, every_fault_##way##_direct_long), RL_TEST(gpu, every_fault_##way##_staged_long),  \
        RL_TEST(gpu, every_fault_##way##_full_long),                                               \
        RL_TEST(gpu, every_fault_##way##_one_queue_long)

RL_TEST_MAIN(RL_TEST(gpu, some_faults_sync), RL_TEST(gpu, some_faults_resume),
             RL_TEST(gpu, some_faults_gated), RL_TEST(gpu, some_faults_one_queue), TESTS(sync),
             TESTS(restart), TESTS(resume), TESTS(gated))
#else
static void gpu_some_faults(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(gpu, some_faults))
#endif
