/* vulkan.c - tests/support/vulkan.h. */
#ifdef RL_HAVE_VULKAN
#include "support/vulkan.h"

#include <math.h>

#include "quant/quant.h"

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
    gpu.token = rl_test_gpu_put(&gpu, &(rl_vk_token){ .n = 1 }, sizeof(rl_vk_token));
    return &gpu;
}

void rl_test_gpu_set_token(rl_test_gpu *g, const rl_vk_token *token)
{
    rl_error err;
    assert_ok(rl_vk_upload(g->uploader, &g->token, 0, token, sizeof *token, &err));
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

rl_test_matrix rl_test_matrix_make(uint32_t type, uint32_t rows, uint32_t cols, size_t skip)
{
    const rl_quant_info *info = rl_quant_find(type);
    assert_non_null(info);
    assert_int_equal(cols % info->block, 0);
    rl_test_matrix m = { .type = type, .rows = rows, .cols = cols };
    size_t have = 0, n_values = (size_t)rows * cols, size = info->block_bytes;
    uint8_t *source = rl_test_read(rl_test_fixture("quants/%s.blocks", info->name), &have);
    have /= size;
    m.bytes = n_values / info->block * size;
    m.blocks = malloc(m.bytes);
    m.values = malloc(n_values * sizeof *m.values);
    assert_true(m.blocks && m.values);
    for (size_t i = 0; i < n_values / info->block; i++)
        memcpy(m.blocks + i * size, source + (i + skip) % have * size, size);
    rl_quant_decode(info, m.blocks, n_values, m.values);
    for (size_t i = 0; i < n_values && info->block == 1; i++) {
        if (fabsf(m.values[i]) < 1e6f && fabsf(m.values[i]) > 1e-6f) continue;
        memset(m.blocks + i * size, 0, size);
        m.values[i] = 0;
    }
    free(source);
    return m;
}

void rl_test_matrix_free(rl_test_matrix *m)
{
    free(m->blocks);
    free(m->values);
    memset(m, 0, sizeof *m);
}

float *rl_test_random_vector(size_t n, float scale, uint64_t seed)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = scale * rl_test_random_normal(&seed);
    return x;
}

double rl_test_dot(const float *w, const double *x, uint32_t n, double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += w[i] * x[i];
        *magnitude += fabs(w[i] * x[i]);
    }
    return sum;
}
#else
typedef int rl_test_no_vulkan;
#endif
