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

#include "backend/vulkan/vk_device.h"
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
                                    .driver = VK_DRIVER_ID_MOLTENVK,
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

/* ---- lives --------------------------------------------------------------------------------------------- */

static void check_nothing_left(const rl_gpu_fault *f, uint64_t n, int64_t blocks)
{
    rl_gpu_check_nothing_left(f, n);
    if (rl_fault_live() != blocks)
        fail_msg("%s at call %llu (%s): %lld blocks stay behind", f->name, (unsigned long long)n,
                 rl_guard_struck(), (long long)(rl_fault_live() - blocks));
}

/* Stands against a test of four ways that all are the same one, and of guesses that nobody makes. */
static void check_way(const rl_gpu_setup *setup, rl_decode_counts n, uint64_t read_ahead)
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
    bool guesses = setup->bounded && strcmp(way, "resume");
    if ((read_ahead > 0) != guesses)
        fail_msg("%s: %llu experts read ahead", way, (unsigned long long)read_ahead);
}

/* Every stride-th call of a life fails, in every manner. */
static void check_life(const rl_fake_gpu *gpu, const char *way, bool bounded, uint64_t stride)
{
    rl_gpu_setup setup = { .way = way, .bounded = bounded, .device = NAME };
    snprintf(setup.saved, sizeof setup.saved, "%s",
             rl_test_scratch("fault-gpu-%ld.bin", (long)getpid()));
    static rl_gpu_life want;
    plug_in(gpu);
    /* Twice: what libraries keep for ever is kept then. */
    for (int i = 0; i < 2; i++) {
        rl_decode_counts counts = rl_gpu_live(&want, &setup);
        check_way(&setup, counts, want.read_ahead);
    }
    int64_t blocks = rl_fault_live();
    uint64_t n_calls = rl_guard_calls(), played = 0;
    for (size_t i = 0; i < RL_GPU_FAULTS; i++)
        for (uint64_t n = i; n < n_calls; n += stride, played++) {
            rl_gpu_live_through(&setup, &rl_gpu_faults[i], n, &want);
            check_nothing_left(&rl_gpu_faults[i], n, blocks);
        }
    printf("%s, %s pool: %llu calls, %llu lives\n", way, bounded ? "bounded" : "full",
           (unsigned long long)n_calls, (unsigned long long)played);
    assert_true(n_calls > 250);
    unplug(&setup);
}

/* The n-th allocation or read of the host fails, the driver's own among them. The life ends there. */
static void check_host(uint64_t stride)
{
    static const rl_gpu_fault host = { .name = "the host" };
    rl_gpu_setup setup = { .way = "resume", .bounded = true, .device = NAME };
    snprintf(setup.saved, sizeof setup.saved, "%s",
             rl_test_scratch("fault-gpu-%ld.bin", (long)getpid()));
    static rl_gpu_life l;
    plug_in(&staged);
    for (int i = 0; i < 2; i++)
        (void)rl_gpu_live(&l, &setup);
    int64_t blocks = rl_fault_live();
    uint64_t n = 0, failed = 0;
    for (bool fired = true; fired; n += stride) {
        rl_error err = { "" };
        rl_status status = RL_OK;
        rl_gpu_begin(&l, &setup);
        rl_fault_arm(n);
        while (!status && !rl_gpu_is_over(&l))
            status = rl_gpu_step(&l, &err);
        fired = rl_fault_disarm();
        rl_gpu_check(&l);
        rl_gpu_end(&l);
        failed += status != RL_OK;
        if (status && (!fired || !err.text[0] || (status != RL_NOMEM && status != RL_IO)))
            fail_msg("fault %llu of the host, %s: %s: \"%s\"", (unsigned long long)n,
                     rl_gpu_step_name(&l), rl_status_name(status), err.text);
        check_nothing_left(&host, n, blocks);
    }
    printf("%llu faults of the host, %llu of them ended it\n", (unsigned long long)(n / stride),
           (unsigned long long)failed);
    assert_true(failed > 20);
    unplug(&setup);
}

static void gpu_some_faults_of_the_host(void **state)
{
    (void)state;
    check_host(29);
}

static void gpu_every_fault_of_the_host_long(void **state)
{
    (void)state;
    check_host(1);
}

/* Stands against routers that choose on a device where a workgroup cannot see what others wrote. */
static void gpu_metal_does_not_hand_over(void **state)
{
    (void)state;
    const rl_fake_gpu *gpus[] = { &direct, &single };
    for (size_t i = 0; i < RL_COUNT_OF(gpus); i++) {
        rl_vk_device *device;
        rl_error err = { "" };
        plug_in(gpus[i]);
        assert_ok(rl_vk_device_open(&device, &(rl_vk_open_params){ 0 }, &err));
        assert_int_equal(device->info.hands_over, gpus[i] == &direct);
        rl_vk_device_close(device);
        rmdir(getenv("XDG_CACHE_HOME"));
    }
}

/* Creation may also just fail; a mapping may be too large, and then copies do. */
static void gpu_creation_fails(void **state)
{
    (void)state;
    static const rl_gpu_fault creation = { .name = "creation" }, mapping = { .name = "mapping" };
    rl_gpu_setup setup = { .way = "resume", .bounded = true, .device = NAME };
    snprintf(setup.saved, sizeof setup.saved, "%s",
             rl_test_scratch("fault-gpu-%ld.bin", (long)getpid()));
    static rl_gpu_life l;
    uint32_t refused = 0, copied = 0;
    plug_in(&direct);
    (void)rl_gpu_live(&l, &setup);
    uint64_t n_calls = rl_guard_calls();
    for (uint64_t n = 0; n < 16; n++) {
        rl_error err = { "" };
        rl_gpu_begin(&l, &setup);
        rl_guard_arm(n, VK_ERROR_INITIALIZATION_FAILED);
        rl_status status = rl_gpu_step(&l, &err);
        if (rl_guard_disarm()) {
            assert_int_equal(status, RL_DEVICE);
            assert_true(strstr(err.text, "vkCreate") || strstr(err.text, "no Vulkan device"));
            refused++;
        }
        rl_gpu_end(&l);
        rl_gpu_check_nothing_left(&creation, n);
    }
    for (uint64_t n = 0; n < n_calls; n++) {
        rl_error err = { "" };
        rl_status status = RL_OK;
        rl_gpu_begin(&l, &setup);
        rl_guard_arm(n, VK_ERROR_MEMORY_MAP_FAILED);
        while (!status && !rl_gpu_is_over(&l))
            status = rl_gpu_step(&l, &err);
        bool fired = rl_guard_disarm();
        if (status) assert_true(fired && strstr(err.text, "vkMapMemory"));
        copied += fired && !status;
        rl_gpu_end(&l);
        rl_gpu_check_nothing_left(&mapping, n);
    }
    assert_int_equal(refused, 3); /* the instance, the list of devices, the device */
    assert_true(copied > 2);
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
LIFE(some_faults_gated_staged, staged, "gated", true, 97)
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

RL_TEST_MAIN(RL_TEST(gpu, creation_fails), RL_TEST(gpu, metal_does_not_hand_over),
             RL_TEST(gpu, some_faults_of_the_host), RL_TEST(gpu, every_fault_of_the_host_long),
             RL_TEST(gpu, some_faults_sync), RL_TEST(gpu, some_faults_resume),
             RL_TEST(gpu, some_faults_gated), RL_TEST(gpu, some_faults_gated_staged),
             RL_TEST(gpu, some_faults_one_queue), TESTS(sync), TESTS(restart), TESTS(resume),
             TESTS(gated))
#else
static void gpu_some_faults(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(gpu, some_faults))
#endif
