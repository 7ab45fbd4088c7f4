/* vulkan.c - tests/support/vulkan.h. */
#ifdef RL_HAVE_VULKAN
#include "support/vulkan.h"

static rl_test_gpu gpu;
static bool is_open, driver_loaded;

/* Drivers leak a little at unload; what they leak cannot be named once they are gone. So the leak
 * checker rests in processes that loaded one. The tests with a pretended device keep it. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return driver_loaded;
}

rl_vk_device *rl_test_vulkan_open(void)
{
    rl_vk_device *device = NULL;
    rl_error err;
    rl_vk_open_params params = { .device = getenv("RL_TEST_DEVICE"), .allow_software = true };
    driver_loaded = true;
    if (rl_vk_device_open(&device, &params, &err)) rl_test_skip("no Vulkan device: %s", err.text);
    return device;
}

static void close_at_exit(void)
{
    if (!is_open) return;
    rl_vk_cmd_fini(&gpu.cmd);
    rl_vk_arena_destroy(gpu.data);
    rl_vk_arena_destroy(gpu.readback);
    rl_vk_ops_fini(&gpu.ops);
    rl_vk_stream_destroy(gpu.stream);
    rl_vk_uploader_destroy(gpu.uploader);
    uint32_t messages = rl_vk_device_messages(gpu.device);
    rl_vk_device_close(gpu.device);
    is_open = false;
    if (messages) {
        fprintf(stderr, "%u validation messages\n", messages);
        _Exit(1);
    }
}

static void open_once(void)
{
    rl_error err;
    gpu.device = rl_test_vulkan_open();
    assert_ok(rl_vk_uploader_create(&gpu.uploader, gpu.device, 4, 1 << 20, &err));
    assert_ok(rl_vk_stream_create(&gpu.stream, gpu.device, &gpu.device->compute, &err));
    assert_ok(rl_vk_ops_init(&gpu.ops, gpu.device, gpu.uploader, NULL, &err));
    assert_ok(rl_vk_cmd_init(&gpu.cmd, gpu.stream, "test", &err));
    is_open = true;
    atexit(close_at_exit);
}

rl_test_gpu *rl_test_gpu_begin(void)
{
    rl_error err;
    if (!is_open) open_once();
    rl_vk_arena_destroy(gpu.data);
    rl_vk_arena_destroy(gpu.readback);
    gpu.data = gpu.readback = NULL;
    if (gpu.cmd.is_recording) assert_ok(rl_vk_cmd_end(&gpu.cmd, &err));
    assert_ok(
        rl_vk_arena_create(&gpu.data, gpu.device, RL_VK_PLACE_DEVICE, 8 << 20, "test data", &err));
    assert_ok(rl_vk_arena_create(&gpu.readback, gpu.device, RL_VK_PLACE_READBACK, 1 << 20,
                                 "test results", &err));
    assert_ok(rl_vk_cmd_begin(&gpu.cmd, true, &err));
    return &gpu;
}

void rl_test_gpu_run(rl_test_gpu *g)
{
    rl_error err;
    uint64_t value;
    assert_ok(rl_vk_uploader_finish(g->uploader, &err));
    assert_ok(rl_vk_cmd_end(&g->cmd, &err));
    assert_ok(rl_vk_stream_submit(g->stream, &g->cmd.handle, 1, NULL, 0, &value, &err));
    assert_ok(rl_vk_stream_wait(g->stream, value, 0, &err));
    assert_ok(rl_vk_cmd_begin(&g->cmd, true, &err));
}

void rl_test_gpu_end(rl_test_gpu *g)
{
    rl_test_gpu_run(g);
    assert_int_equal(rl_vk_device_messages(g->device), 0);
}

rl_vk_span rl_test_gpu_put(rl_test_gpu *g, const void *bytes, size_t n)
{
    rl_error err;
    rl_vk_span span;
    void *zeros = NULL;
    assert_ok(rl_vk_arena_take(g->data, n, 256, &span, &err));
    if (!bytes) {
        zeros = calloc(1, n);
        assert_non_null(zeros);
    }
    assert_ok(rl_vk_upload(g->uploader, &span, 0, bytes ? bytes : zeros, n, &err));
    free(zeros);
    return span;
}

void rl_test_gpu_get(rl_test_gpu *g, const rl_vk_span *span, void *out, size_t n)
{
    rl_error err;
    rl_vk_span back;
    assert_ok(rl_vk_arena_take(g->readback, n, 256, &back, &err));
    rl_vk_cmd_barrier(&g->cmd);
    rl_vk_cmd_copy(&g->cmd, span, 0, &back, 0, n);
    rl_vk_cmd_barrier_to_host(&g->cmd);
    rl_test_gpu_run(g);
    memcpy(out, back.host, n);
}
#else
typedef int rl_test_no_vulkan;
#endif
