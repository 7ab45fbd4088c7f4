/* test_gpu_driver.c - as test_gpu.c, on the Vulkan driver of this machine (lavapipe counts), where
 * kernels compute: after memory ran out in the middle of a token, the same numbers follow.
 *
 * Real objects are made and destroyed here, so in the long versions the validation layer watches where
 * it is installed. A life takes seconds then: the first 64 calls fail in turn and each 23rd after. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <sys/stat.h>
#include <unistd.h>

#include "backend/vulkan/vk_device.h"
#include "base/bytes.h"
#include "support/gpu_life.h"
#include "support/vulkan.h"
#include "support/vulkan_guard.h"

enum { FIRST = 64, STRIDE = 23 };

/* The guard in front of this machine's driver; skips without a device. */
static void plug_in(rl_gpu_setup *setup, bool validate)
{
    static char name[256];
    /* Kernels are compiled once: what the runs before have left is used again. */
    const char *cache = rl_test_scratch("gpu-driver-cache");
    mkdir(cache, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    unsetenv("RL_VULKAN_STAGING");
    setenv("RL_VULKAN_VALIDATE", validate ? "1" : "0", 1);
    rl_guard_install(NULL);
    rl_vk_device *device = NULL;
    rl_error err = { "" };
    if (validate &&
        rl_vk_device_open(&device, &(rl_vk_open_params){ .allow_software = true }, &err) &&
        strstr(err.text, "is not installed"))
        setenv("RL_VULKAN_VALIDATE", "0", 1);
    if (!device) device = rl_test_vulkan_open();
    snprintf(name, sizeof name, "%s", device->info.name);
    rl_vk_device_close(device);
    setup->device = name;
    snprintf(setup->saved, sizeof setup->saved, "%s",
             rl_test_scratch("fault-gpu-driver-%ld.bin", (long)getpid()));
}

static void check_lives(const char *way, uint64_t first, uint64_t stride, bool validate)
{
    static const int faults[] = { RL_GPU_LOST, RL_GPU_DEVICE_MEMORY };
    rl_gpu_setup setup = { .way = way, .bounded = true };
    static rl_gpu_life want;
    plug_in(&setup, validate);
    rl_gpu_live(&want, &setup);
    uint64_t n_calls = rl_guard_calls(), played = 0;
    for (size_t i = 0; i < RL_COUNT_OF(faults); i++)
        for (uint64_t n = 0; n < n_calls; n += n < first ? 1 : stride, played++) {
            rl_gpu_live_through(&setup, &rl_gpu_faults[faults[i]], n, &want);
            rl_gpu_check_nothing_left(&rl_gpu_faults[faults[i]], n);
        }
    printf("%s on %s: %llu calls, %llu lives%s\n", way, setup.device, (unsigned long long)n_calls,
           (unsigned long long)played,
           strcmp(getenv("RL_VULKAN_VALIDATE"), "0") ? ", validated" : "");
    unlink(setup.saved);
}

static void vulkan_faults_some(void **state)
{
    (void)state;
    check_lives("resume", 0, 131, false);
}

#define LONG(way, word)                                                                            \
    static void vulkan_faults_##way##_long(void **state)                                           \
    {                                                                                              \
        (void)state;                                                                               \
        check_lives(word, FIRST, STRIDE, true);                                                    \
    }
LONG(sync, "0")
LONG(restart, "restart")
LONG(resume, "resume")
LONG(gated, "gated")

/* A reset that fails leaves the text as it was, also when its state is the second copy. Stands against
 * a session that silently goes on from the token before the last. */
static void vulkan_faults_failed_reset(void **state)
{
    (void)state;
    static const uint32_t text[] = { 1, 7, 42, 99 };
    rl_gpu_setup setup = { .way = "auto" };
    rl_engine *e = NULL;
    rl_session *plain = NULL, *reset = NULL;
    rl_error err = { "" };
    plug_in(&setup, false);
    rl_engine_params params = { .ops = rl_backend_find("vulkan"), .n_threads = 1 };
    assert_ok(rl_engine_open(&e, rl_test_fixture("models/tiny-s-Q8_0.gguf"), &params, &err));
    assert_ok(rl_session_open(&plain, e, &(rl_session_params){ .n_ctx = 64 }, &err));
    assert_ok(rl_session_open(&reset, e, &(rl_session_params){ .n_ctx = 64 }, &err));
    size_t bytes = e->net.shape.n_vocab * sizeof(float);
    for (uint32_t i = 0; i < RL_COUNT_OF(text); i++) {
        rl_guard_arm(0, VK_ERROR_OUT_OF_HOST_MEMORY);
        assert_int_equal(rl_session_reset(reset, &err), RL_NOMEM);
        rl_guard_disarm();
        assert_int_equal(rl_session_position(reset), i);
        assert_ok(rl_session_feed(plain, &text[i], 1, &err));
        float *want = malloc(bytes);
        memcpy(want, rl_session_logits(plain), bytes);
        assert_ok(rl_session_feed(reset, &text[i], 1, &err));
        assert_memory_equal(rl_session_logits(reset), want, bytes);
        free(want);
    }
    rl_session_destroy(plain);
    rl_session_destroy(reset);
    rl_engine_close(e);
    rl_gpu_check_nothing_left(&rl_gpu_faults[RL_GPU_HOST_MEMORY], 0);
}

RL_TEST_MAIN(RL_TEST(vulkan_faults, some), RL_TEST(vulkan_faults, failed_reset),
             RL_TEST(vulkan_faults, sync_long), RL_TEST(vulkan_faults, restart_long),
             RL_TEST(vulkan_faults, resume_long), RL_TEST(vulkan_faults, gated_long))
#else
static void vulkan_faults_some(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan_faults, some))
#endif
