/* test_info.c - `redlite info` and `redlite devices`: figures that add up, and malformed files that
 * end in a sentence. */
#include "support/json.h"
#include "support/process.h"

#include <sys/stat.h>

static cJSON *info_of(const char *const *arguments)
{
    rl_test_run r = rl_test_execute(NULL, arguments);
    rl_test_expect_code(&r, 0);
    assert_int_equal(r.err_bytes, 0);
    cJSON *json = rl_test_json(r.out);
    rl_test_run_fini(&r);
    return json;
}

#define INFO(...) info_of((const char *const[]){ "info", "--json", __VA_ARGS__, NULL })

static void info_figures_of_the_shipped_model(void **state)
{
    (void)state;
    cJSON *json = INFO("-c", "1000");
    static const struct {
        const char *key;
        double value;
    } want[] = {
        { "n_tensors", 73 },
        { "tensor_bytes", 10217184 },
        { "expert_bytes", 6488064 },
        { "dense_bytes", 2868960 },
        { "embedding_bytes", 860160 },
        { "file_bytes", 10350816 },
        { "n_layer", 4 },
        { "n_expert", 32 },
        { "n_expert_used", 4 },
        { "n_experts", 128 },
        { "token_bytes", 5326560 },
        { "kv_position_bytes", 512 },
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(rl_test_number(json, want[i].key) == want[i].value);
    assert_string_equal(rl_test_text(json, "architecture"), "qwen3next");

    /* The parts make the whole, however they are cut. */
    double types = 0, classes = 0, memory = 0;
    cJSON *one;
    cJSON_ArrayForEach(one, rl_test_member(json, "types")) types += rl_test_number(one, "bytes");
    assert_true(types == rl_test_number(json, "tensor_bytes"));
    cJSON_ArrayForEach(one, rl_test_member(json, "slot_classes")) classes +=
        rl_test_number(one, "bytes") * rl_test_number(one, "layers") * 32;
    assert_true(classes == rl_test_number(json, "expert_bytes"));
    cJSON *parts = rl_test_member(json, "memory");
    static const char *const keys[] = { "dense", "embedding", "pool",  "attention_cache",
                                        "state", "tokenizer", "batch", "read_buffers" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        memory += rl_test_number(parts, keys[i]);
    assert_true(memory == rl_test_number(parts, "total"));
    assert_true(rl_test_number(parts, "pool") == rl_test_number(parts, "pool_full"));
    assert_true(rl_test_number(parts, "attention_cache") == 512 * 1000);
    cJSON_Delete(json);
}

static void info_says_how_many_experts_fit(void **state)
{
    (void)state;
    cJSON *json = INFO("--cache-mib", "2");
    cJSON *memory = rl_test_member(json, "memory");
    double slots = rl_test_number(memory, "n_slots");
    assert_true(slots >= 16 && slots < 128);
    assert_true(rl_test_number(memory, "pool") <= 2 << 20);
    cJSON_Delete(json);
    rl_test_run r = RUN("info", "--cache-mib", "2");
    char want[80];
    snprintf(want, sizeof want, "with --cache-mib 2: %.0f of 128 experts fit", slots);
    if (!strstr(r.out, want)) fail_msg("'%s' is not in: %s", want, r.out);
    rl_test_run_fini(&r);
}

static void info_takes_a_vocabulary_alone(void **state)
{
    (void)state;
    static const char gguf[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    const char *path = rl_test_scratch("nothing.gguf");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(gguf, 1, sizeof gguf - 1, file);
    fclose(file);
    /* No vocabulary either: that is nothing. */
    rl_test_run r = RUN("info", "-m", path);
    rl_test_expect_refused(&r, 1, path);
    rl_test_run_fini(&r);
}

/* Every malformed file: one sentence that names file and cause, for each command that opens it. */
static void info_refuses_malformed_files(void **state)
{
    (void)state;
    size_t bytes, n = 0;
    char *text = rl_test_read(rl_test_fixture("bad-gguf/expected.json"), &bytes);
    cJSON *cases = rl_test_json(text), *one, *word;
    cJSON_ArrayForEach(one, cases)
    {
        const char *path = rl_test_fixture("bad-gguf/%s", rl_test_text(one, "file"));
        struct stat found;
        if (stat(path, &found) != 0) continue;
        bool loads = cJSON_IsTrue(rl_test_member(one, "loads"));
        rl_test_run r = RUN("info", "-m", path);
        rl_test_run g = RUN("generate", "-q", "-m", path, "--tokens", "1", "-n", "1");
        if (loads) {
            rl_test_expect_code(&r, 0);
            rl_test_expect_code(&g, 0);
        } else {
            /* The folder: of a split file another part may be at fault. */
            char folder[1024];
            bool mentioned = false;
            snprintf(folder, sizeof folder, "%s", path);
            *strrchr(folder, '/') = 0;
            rl_test_expect_refused(&r, 1, folder);
            rl_test_expect_refused(&g, 1, folder);
            cJSON_ArrayForEach(word, rl_test_member(one, "mention_any")) mentioned =
                mentioned ||
                strcasestr(r.err + strlen("redlite: ") + strlen(path), word->valuestring);
            if (!mentioned) fail_msg("%s: %s", path, r.err);
        }
        rl_test_run_fini(&r);
        rl_test_run_fini(&g);
        n++;
    }
    cJSON_Delete(cases);
    free(text);
    assert_true(n >= 60);
}

static void info_devices_are_listed(void **state)
{
    (void)state;
    rl_test_run r = RUN("devices", "--json"), t = RUN("devices");
    rl_test_expect_code(&r, 0);
    rl_test_expect_code(&t, 0);
    cJSON *devices = rl_test_json(r.out), *one;
    assert_true(cJSON_IsArray(devices));
    bool cpu = false;
    cJSON_ArrayForEach(one, devices)
    {
        cpu = cpu || !strcmp(rl_test_text(one, "backend"), "cpu");
        assert_true(cJSON_IsBool(rl_test_member(one, "usable")));
        if (!cJSON_IsTrue(rl_test_member(one, "usable")))
            assert_true(rl_test_text(one, "reason")[0] != 0);
        assert_non_null(strstr(t.out, rl_test_text(one, "name")));
        const char *exact = strstr(rl_test_text(one, "features"), " exact");
        if (exact) assert_null(strstr(exact + 1, " exact")); /* each set of kernels once */
    }
    assert_true(cpu);
    cJSON_Delete(devices);
    rl_test_run_fini(&r);
    rl_test_run_fini(&t);
}

RL_TEST_MAIN(RL_TEST(info, figures_of_the_shipped_model), RL_TEST(info, says_how_many_experts_fit),
             RL_TEST(info, takes_a_vocabulary_alone), RL_TEST(info, refuses_malformed_files),
             RL_TEST(info, devices_are_listed))
