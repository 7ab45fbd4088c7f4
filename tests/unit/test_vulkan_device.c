/* test_vulkan_device.c - the device layer: which device is taken, memory, copies, submissions. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <unistd.h>

#include "support/vulkan.h"

static uint32_t n_destroyed;
static PFN_vkDestroyInstance destroy_instance;

static VKAPI_ATTR void VKAPI_CALL count_destroyed(VkInstance instance,
                                                  const VkAllocationCallbacks *allocator)
{
    n_destroyed++;
    destroy_instance(instance, allocator);
}

/* The first instance of the process stays, so this test is the first; all others go.
 * Stands against: NVIDIA's driver, which was not found any more after about twenty. */
static void vulkan_device_opens_again_and_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        rl_vk_device *device = rl_test_vulkan_open();
        destroy_instance = device->api.DestroyInstance;
        device->api.DestroyInstance = count_destroyed;
        rl_vk_device_close(device);
        assert_int_equal(n_destroyed, i);
    }
}

static void vulkan_device_lists(void **state)
{
    (void)state;
    rl_vk_device_info *list = NULL;
    uint32_t n = 0;
    rl_error err;
    if (rl_vk_device_list(&list, &n, NULL, &err)) rl_test_skip("no Vulkan: %s", err.text);
    if (!n) {
        free(list);
        rl_test_skip("no Vulkan device");
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(list[i].name[0]);
        assert_int_equal(list[i].usable, !list[i].why_not[0]);
        if (!list[i].usable) continue;
        assert_true(list[i].memory_bytes && list[i].allocation_bytes);
        assert_in_range(list[i].subgroup_size, 4, 128);
    }
    free(list);
}

/* A name that no device has, an index behind the last, and a part of a name in the wrong case. */
static void vulkan_device_is_chosen_by_name(void **state)
{
    (void)state;
    rl_vk_device *device = rl_test_vulkan_open(), *other = NULL;
    rl_error err;
    char part[5] = { 0 };
    for (int i = 0; i < 4 && device->info.name[i]; i++)
        part[i] = (char)(device->info.name[i] ^ (i % 2 && device->info.name[i] >= 'a' ? 32 : 0));
    assert_ok(rl_vk_device_open(&other, &(rl_vk_open_params){ .device = part }, &err));
    assert_string_equal(other->info.name, device->info.name);
    rl_vk_device_close(other);
    assert_int_equal(
        rl_vk_device_open(&other, &(rl_vk_open_params){ .device = "no such thing" }, &err),
        RL_DEVICE);
    assert_non_null(strstr(err.text, "no such thing"));
    assert_int_equal(rl_vk_device_open(&other, &(rl_vk_open_params){ .device = "99" }, &err),
                     RL_DEVICE);
    assert_null(other);
    rl_vk_device_close(device);
}

static void vulkan_device_software_only_when_allowed(void **state)
{
    (void)state;
    rl_vk_device *device = rl_test_vulkan_open(), *other = NULL;
    rl_error err;
    bool software = device->info.kind == RL_VK_SOFTWARE;
    rl_vk_device_close(device);
    if (!software) rl_test_skip("there is a real GPU");
    assert_int_equal(rl_vk_device_open(&other, &(rl_vk_open_params){ 0 }, &err), RL_DEVICE);
    assert_non_null(strstr(err.text, "software"));
}

/* An empty RL_VULKAN_BYTES is none; one that is neither 0 nor 1 is told so. */
static void vulkan_device_settings_are_checked(void **state)
{
    (void)state;
    const char *const settings[] = { "", "0", "1", "yes", "10" };
    rl_vk_device *device = rl_test_vulkan_open();
    rl_vk_uploader *up = NULL;
    rl_vk_ops ops;
    rl_error err;
    assert_ok(rl_vk_uploader_create(&up, device, 3, 8192, &err));
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        setenv("RL_VULKAN_BYTES", settings[i], 1);
        rl_status status = rl_vk_ops_init(&ops, device, up, NULL, &err);
        assert_int_equal(status, i < 3 ? RL_OK : RL_INVALID);
        if (status) assert_non_null(strstr(err.text, settings[i]));
        if (!status) rl_vk_ops_fini(&ops);
    }
    unsetenv("RL_VULKAN_BYTES");
    rl_vk_uploader_destroy(up);
    rl_vk_device_close(device);
}

static void round_trip(bool staging)
{
    if (staging) setenv("RL_VULKAN_STAGING", "1", 1);
    rl_vk_device *device = rl_test_vulkan_open();
    unsetenv("RL_VULKAN_STAGING");
    rl_error err;
    rl_vk_uploader *up = NULL;
    rl_vk_arena *arena = NULL, *back = NULL;
    rl_vk_stream *stream = NULL;
    rl_vk_cmd cmd;
    rl_vk_span a, b, out;
    assert_ok(rl_vk_uploader_create(&up, device, 3, 8192, &err));
    assert_ok(rl_vk_arena_create(&arena, device, RL_VK_PLACE_DEVICE, 65536, "test", &err));
    assert_ok(rl_vk_arena_create(&back, device, RL_VK_PLACE_READBACK, 65536, "test", &err));
    assert_ok(rl_vk_stream_create(&stream, device, &device->compute, &err));
    assert_ok(rl_vk_cmd_init(&cmd, stream, "test", &err));
    assert_ok(rl_vk_arena_take(arena, 100, 16, &a, &err));
    assert_ok(rl_vk_arena_take(arena, 100001, 4096, &b, &err)); /* larger than a slab */
    assert_ok(rl_vk_arena_take(back, 100001, 16, &out, &err));
    assert_int_equal(b.address % 256, 0);
    if (staging) assert_null(b.host);
    uint8_t *bytes = malloc(100001);
    assert_non_null(bytes);
    for (int i = 0; i < 100001; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    assert_ok(rl_vk_upload(up, &b, 0, bytes, 50000, &err));
    assert_ok(rl_vk_upload(up, &b, 50000, bytes + 50000, 50001, &err));
    uint64_t value = rl_vk_uploader_value(up);
    rl_vk_point wait = { rl_vk_uploader_semaphore(up), value };
    assert_ok(rl_vk_cmd_begin(&cmd, true, &err));
    rl_vk_cmd_copy(&cmd, &b, 0, &out, 0, 100001);
    rl_vk_cmd_barrier_to_host(&cmd);
    assert_ok(rl_vk_cmd_end(&cmd, &err));
    uint64_t done;
    assert_ok(rl_vk_stream_submit(stream, &cmd.handle, 1, &wait, value ? 1 : 0, &done, &err));
    assert_ok(rl_vk_stream_wait(stream, done, 10, &err));
    assert_memory_equal(out.host, bytes, 100001);
    assert_int_equal(stream->counters.submissions, 1);
    assert_int_equal(stream->counters.waits, 1);
    assert_int_equal(stream->counters.recordings, 1);
    free(bytes);
    rl_vk_cmd_fini(&cmd);
    rl_vk_stream_destroy(stream);
    rl_vk_uploader_destroy(up);
    rl_vk_arena_destroy(arena);
    rl_vk_arena_destroy(back);
    assert_int_equal(rl_vk_device_messages(device), 0);
    rl_vk_device_close(device);
}

static void vulkan_device_writes_directly(void **state)
{
    (void)state;
    round_trip(false);
}

static void vulkan_device_writes_through_staging(void **state)
{
    (void)state;
    round_trip(true);
}

/* More than the device can give is refused with both numbers, and nothing is lost. */
static void vulkan_device_refuses_too_much(void **state)
{
    (void)state;
    rl_vk_device *device = rl_test_vulkan_open();
    rl_vk_arena *arena = NULL;
    rl_vk_span span;
    rl_error err;
    assert_ok(rl_vk_arena_create(&arena, device, RL_VK_PLACE_DEVICE, 1 << 20, "the pool", &err));
    assert_int_equal(rl_vk_arena_take(arena, 1ull << 50, 256, &span, &err), RL_NOMEM);
    assert_non_null(strstr(err.text, "the pool"));
    assert_non_null(strstr(err.text, "MiB"));
    assert_int_equal(rl_vk_arena_bytes(arena), 0);
    assert_ok(rl_vk_arena_take(arena, 4096, 256, &span, &err));
    rl_vk_arena_destroy(arena);
    rl_vk_device_close(device);
}

/* A cache file of another device, or with one flipped bit, is not handed to the driver. */
static void vulkan_device_keeps_pipelines(void **state)
{
    (void)state;
    rl_vk_device *device = rl_test_vulkan_open();
    rl_error err;
    const char *path = rl_test_scratch("pipelines/of/test-%d.bin", (int)getpid());
    const uint32_t constants[] = { 128, 1, 1, 0, 0, 0 };
    for (int round = 0; round < 3; round++) {
        rl_vk_pipelines *pipelines = NULL;
        const rl_vk_pipeline *one, *two;
        assert_ok(rl_vk_pipelines_create(&pipelines, device, path, &err));
        assert_ok(rl_vk_pipelines_get(pipelines, RL_VK_MATVEC, 0, constants, 6, &one, &err));
        assert_ok(rl_vk_pipelines_get(pipelines, RL_VK_MATVEC, 0, constants, 6, &two, &err));
        assert_ptr_equal(one, two);
        assert_int_equal(rl_vk_pipelines_count(pipelines), 1);
        assert_int_equal(rl_vk_pipelines_get(pipelines, RL_VK_MATVEC, 35, constants, 6, &two, &err),
                         RL_UNSUPPORTED);
        rl_vk_pipelines_destroy(pipelines);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        fseek(file, round == 0 ? 50 : 9, SEEK_SET); /* the driver's bytes; the vendor */
        int byte = fgetc(file);
        fseek(file, -1, SEEK_CUR);
        fputc(byte ^ 1, file);
        fclose(file);
    }
    remove(path);
    rl_vk_device_close(device);
}

RL_TEST_MAIN(RL_TEST(vulkan_device, opens_again_and_again), RL_TEST(vulkan_device, lists),
             RL_TEST(vulkan_device, is_chosen_by_name),
             RL_TEST(vulkan_device, software_only_when_allowed),
             RL_TEST(vulkan_device, settings_are_checked), RL_TEST(vulkan_device, writes_directly),
             RL_TEST(vulkan_device, writes_through_staging),
             RL_TEST(vulkan_device, refuses_too_much), RL_TEST(vulkan_device, keeps_pipelines))
#else
static void vulkan_device_lists(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan_device, lists))
#endif
