/* test_gpu_auto.c - backend "auto" on machines whose GPU is not there, is unfit, or fails on the way:
 * the CPU takes over before the first token, and one line says why. Through the public interface, on
 * pretended devices (support/vulkan_fake.h). */
#include "support/fault.h"
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <unistd.h>

#include "base/bytes.h"
#include "redlite.h"
#include "support/vulkan_fake.h"
#include "support/vulkan_guard.h"

#define NAME "Pretended GPU"
#define GOOD .name = NAME, .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU

/* What a user sees of the choice. */
typedef struct seen {
    char not_used[512]; /* the note that says so */
    uint32_t n_notes;   /* such notes */
} seen;

static void on_note(void *context, const char *text)
{
    seen *s = context;
    if (!strstr(text, "backend is not used")) return;
    snprintf(s->not_used, sizeof s->not_used, "%s", text);
    s->n_notes++;
}

static void plug_in(rl_fake_machine *machine)
{
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    unsetenv("RL_VULKAN_STAGING");
    unsetenv("RL_VULKAN_VALIDATE");
    unsetenv("RL_ENGINE_SPECULATIVE");
    rl_guard_install(rl_fake_vulkan(machine));
}

/* Opens, decodes a few tokens, closes. *backend: "cpu ..." or "vulkan ...". */
static rl_status run(seen *s, char *backend, size_t bytes, rl_error *err)
{
    static const uint32_t prompt[] = { 1, 7, 42 };
    rl_model *model = NULL;
    rl_session *session = NULL;
    rl_model_params params = {
        .backend = "auto", .n_threads = 1, .plan_ctx = 64, .note = on_note, .context = s
    };
    rl_session_params small = { .n_ctx = 64 };
    rl_model_info info;
    *s = (seen){ 0 };
    rl_status status =
        rl_model_open(&model, rl_test_fixture("models/tiny-s-Q8_0.gguf"), &params, err);
    if (status) return status;
    rl_model_get_info(model, &info);
    snprintf(backend, bytes, "%s", info.backend);
    status = rl_session_create(&session, model, &small, err);
    if (!status) status = rl_session_feed(session, prompt, RL_COUNT_OF(prompt), err);
    for (int i = 0; i < 3 && !status; i++)
        status = rl_session_feed(session, prompt, 1, err);
    rl_session_destroy(session);
    rl_model_close(model);
    return status;
}

static void check_clean(void)
{
    if (rl_guard_complaint()) fail_msg("%s", rl_guard_complaint());
    assert_int_equal(rl_guard_live(), 0);
}

/* The CPU computes, and the one line holds these words. */
static void check_falls_back(rl_fake_machine *machine, const char *words)
{
    seen s;
    char backend[176];
    rl_error err = { "" };
    plug_in(machine);
    assert_ok(run(&s, backend, sizeof backend, &err));
    if (strncmp(backend, "cpu", 3) || s.n_notes != 1 || !strstr(s.not_used, words) ||
        !strstr(s.not_used, "vulkan") || strchr(s.not_used, '\n'))
        fail_msg("computed by %s; %u notes, the last: %s", backend, s.n_notes, s.not_used);
    check_clean();
}

static void gpu_auto_takes_a_good_one(void **state)
{
    (void)state;
    static const rl_fake_gpu gpus[] = {
        { .name = "Soft", .type = VK_PHYSICAL_DEVICE_TYPE_CPU },
        { GOOD },
        { .name = "Old",
          .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
          .version = VK_API_VERSION_1_1 },
    };
    seen s;
    char backend[176];
    rl_error err = { "" };
    plug_in(&(rl_fake_machine){ .gpus = gpus, .n_gpus = RL_COUNT_OF(gpus) });
    assert_ok(run(&s, backend, sizeof backend, &err));
    assert_non_null(strstr(backend, NAME));
    assert_int_equal(s.n_notes, 0);
    check_clean();
}

/* Nothing there, in three ways; the list of devices is still a list. */
static void gpu_auto_without_any(void **state)
{
    (void)state;
    rl_device_info list[8];
    rl_error err = { "" };
    size_t n = 0;
    check_falls_back(&(rl_fake_machine){ .no_loader = true }, "no Vulkan loader");
    assert_ok(rl_devices(list, RL_COUNT_OF(list), &n, &err));
    assert_int_equal(n, 1);
    assert_string_equal(list[0].backend, "cpu");
    check_falls_back(&(rl_fake_machine){ 0 }, "there is no device");
    check_falls_back(&(rl_fake_machine){ .loader_version = VK_API_VERSION_1_1 }, "1.1");
}

/* Stands against a device that is taken although a kernel needs what it lacks. */
static void gpu_auto_with_unfit_ones(void **state)
{
    (void)state;
    static const struct {
        rl_fake_gpu gpu;
        const char *words;
    } unfit[] = {
        { { GOOD, .version = VK_API_VERSION_1_0 }, "offers Vulkan 1.0, and 1.2 is needed" },
        { { GOOD, .version = VK_API_VERSION_1_1 }, "offers Vulkan 1.1, and 1.2 is needed" },
        { { GOOD, .no_addresses = true }, "lacks buffer device addresses" },
        { { GOOD, .no_timelines = true }, "lacks timeline semaphores" },
        { { GOOD, .no_int64 = true }, "lack 64-bit integers" },
        { { GOOD, .no_compute = true }, "no compute queue" },
        { { GOOD, .no_shuffles = true }, "lack subgroup arithmetic or shuffles" },
        { { GOOD, .shared_bytes = 16384 }, "16384 bytes of shared memory" },
        { { GOOD, .push_bytes = 64 }, "64 bytes of push constants" },
        { { .name = NAME, .type = VK_PHYSICAL_DEVICE_TYPE_CPU }, "is a software device" },
    };
    for (size_t i = 0; i < RL_COUNT_OF(unfit); i++) {
        rl_fake_machine machine = { .gpus = &unfit[i].gpu, .n_gpus = 1 };
        rl_device_info list[8];
        rl_error err = { "" };
        size_t n = 0;
        check_falls_back(&machine, unfit[i].words);
        assert_ok(rl_devices(list, RL_COUNT_OF(list), &n, &err));
        assert_int_equal(n, 2);
        if (unfit[i].gpu.type == VK_PHYSICAL_DEVICE_TYPE_CPU) continue;
        assert_false(list[0].usable);
        assert_non_null(strstr(list[0].reason, unfit[i].words));
        /* Asked for by name, it is refused with the same words. */
        rl_model *model = NULL;
        rl_model_params params = { .backend = "vulkan" };
        assert_int_equal(
            rl_model_open(&model, rl_test_fixture("models/tiny-s-Q8_0.gguf"), &params, &err),
            RL_DEVICE);
        assert_null(model);
        assert_non_null(strstr(err.text, unfit[i].words));
    }
    check_clean();
}

/* A driver that misses a function, memory that is too little for the weights, for the session. */
static void gpu_auto_with_poor_ones(void **state)
{
    (void)state;
    static const rl_fake_gpu good = { GOOD }, small = { GOOD, .memory_bytes = 1 << 20 },
                             crowded = { GOOD, .memory_bytes = 1 << 20, .budget = true };
    check_falls_back(&(rl_fake_machine){ .gpus = &good, .n_gpus = 1, .missing = "vkCmdDispatch" },
                     "vkCmdDispatch");
    check_falls_back(&(rl_fake_machine){ .gpus = &small, .n_gpus = 1 }, "MiB");
    check_falls_back(&(rl_fake_machine){ .gpus = &crowded, .n_gpus = 1 }, "MiB");
}

/* Every call from the first on, and both ways to fail: whoever fails before the first token is
 * replaced, whoever fails later is reported. */
static void check_failures(uint64_t stride)
{
    static const rl_fake_gpu good = { GOOD };
    rl_fake_machine machine = { .gpus = &good, .n_gpus = 1 };
    const VkResult results[] = { VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_DEVICE_MEMORY };
    seen s;
    char backend[176];
    rl_error err = { "" };
    plug_in(&machine);
    uint64_t n_calls = 0, replaced = 0, reported = 0;
    for (int i = 0; i < 2; i++) {
        rl_guard_arm(0, VK_SUCCESS);
        assert_ok(run(&s, backend, sizeof backend, &err));
        rl_guard_disarm();
        n_calls = rl_guard_calls();
    }
    int64_t blocks = rl_fault_live();
    for (size_t i = 0; i < RL_COUNT_OF(results); i++)
        for (uint64_t n = 0; n < n_calls; n += stride) {
            rl_guard_arm(n, results[i]);
            rl_status status = run(&s, backend, sizeof backend, &err);
            bool fired = rl_guard_disarm(), cpu = !strncmp(backend, "cpu", 3);
            if (status && (s.n_notes || cpu || !strstr(err.text, NAME)))
                fail_msg("call %llu (%s): %u notes, \"%s\"", (unsigned long long)n,
                         rl_guard_struck(), s.n_notes, err.text);
            if (!status && cpu != (s.n_notes == 1))
                fail_msg("call %llu (%s): on %s with %u notes", (unsigned long long)n,
                         rl_guard_struck(), backend, s.n_notes);
            if (cpu) assert_true(fired);
            replaced += cpu;
            reported += status != RL_OK;
            check_clean();
            assert_int_equal(rl_fault_live(), blocks);
        }
    printf("%llu calls; %llu times the CPU took over, %llu times a session failed\n",
           (unsigned long long)n_calls, (unsigned long long)replaced, (unsigned long long)reported);
    assert_true(replaced && reported);
}

static void gpu_auto_some_failures(void **state)
{
    (void)state;
    check_failures(7);
}

static void gpu_auto_every_failure_long(void **state)
{
    (void)state;
    check_failures(1);
}

/* One run of the program; *out and *err are what it printed (free). Returns its exit code. */
static int execute(const char *options, long lost_at, char **out, char **err)
{
    char command[3072], out_path[512], err_path[512];
    size_t bytes;
    snprintf(out_path, sizeof out_path, "%s", rl_test_scratch("gpu-auto-%ld.out", (long)getpid()));
    snprintf(err_path, sizeof err_path, "%s", rl_test_scratch("gpu-auto-%ld.err", (long)getpid()));
    snprintf(command, sizeof command,
             "XDG_CACHE_HOME=/dev/null RL_TEST_LOST_AT=%ld '%s' generate -m '%s' -t 1 -c 64 -n 4 "
             "--temp 0 --tokens 1,7,42 %s > '%s' 2> '%s'",
             lost_at, RL_TEST_PRETENDING, rl_test_fixture("models/tiny-s-Q8_0.gguf"), options,
             out_path, err_path);
    int code = system(command);
    *out = rl_test_read(out_path, &bytes);
    *out = realloc(*out, bytes + 1);
    (*out)[bytes] = 0;
    *err = rl_test_read(err_path, &bytes);
    *err = realloc(*err, bytes + 1);
    (*err)[bytes] = 0;
    unlink(out_path);
    unlink(err_path);
    return code;
}

static uint32_t count_words(const char *text, const char *words)
{
    uint32_t n = 0;
    while ((text = strstr(text, words)) != NULL)
        n++, text++;
    return n;
}

/* A GPU that is lost while the program opens it or reads the prompt: the CPU's text, and one line.
 * Later: no text is continued by another backend, and the error is said. */
static void gpu_auto_in_the_program(void **state)
{
    (void)state;
    char *cpu, *out, *err;
    uint32_t at_open = 0, in_prompt = 0, later = 0, never = 0;
    assert_int_equal(execute("--backend cpu", -1, &cpu, &err), 0);
    free(err);
    for (long n = 0; n < 180; n += 5) {
        int code = execute("", n, &out, &err);
        uint32_t opened = count_words(err, "the vulkan backend is not used"),
                 read = count_words(err, "the CPU goes on"), lost = count_words(err, "lost");
        if (code == 0 && opened + read == 1 && lost == 1 && !strcmp(out, cpu)) {
            at_open += opened;
            in_prompt += read;
        } else if (code != 0 && opened + read == 0 && lost == 1) {
            later++;
        } else if (code == 0 && !lost && !opened && !read) {
            never++; /* the call was not made, or did not need the device any more */
        } else {
            fail_msg("lost at call %ld: exit %d, \"%s\", text \"%s\"", n, code, err, out);
        }
        free(out);
        free(err);
    }
    printf("lost at open %u times, in the prompt %u, later %u, not at all %u\n", at_open, in_prompt,
           later, never);
    assert_true(at_open && in_prompt && later);
    free(cpu);
}

RL_TEST_MAIN(RL_TEST(gpu_auto, in_the_program), RL_TEST(gpu_auto, takes_a_good_one),
             RL_TEST(gpu_auto, without_any), RL_TEST(gpu_auto, with_unfit_ones),
             RL_TEST(gpu_auto, with_poor_ones), RL_TEST(gpu_auto, some_failures),
             RL_TEST(gpu_auto, every_failure_long))
#else
static void gpu_auto_falls_back(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(gpu_auto, falls_back))
#endif
