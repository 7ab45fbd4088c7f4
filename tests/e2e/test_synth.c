/* test_synth.c - `redlite synth`: files that the other commands take, repeatable, or none at all. */
#include "support/json.h"
#include "support/process.h"

#include <unistd.h>

static cJSON *info_of(const char *path)
{
    rl_test_run r = RUN("info", "--json", "-m", path);
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out);
    rl_test_run_fini(&r);
    return json;
}

static void write_model(const char *const *arguments)
{
    rl_test_run r = rl_test_execute(NULL, arguments);
    rl_test_expect_code(&r, 0);
    assert_int_equal(r.out_bytes, 0);
    rl_test_run_fini(&r);
}

#define SYNTH(...) write_model((const char *const[]){ "synth", __VA_ARGS__, NULL })

static void synth_takes_every_figure(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("e2e_synth.gguf");
    SYNTH("-o", path, "-s", "11", "--layers", "5", "--attention-interval", "2", "--hidden", "512",
          "--vocab-size", "700", "-c", "1234", "--heads", "6", "--kv-heads", "3", "--head-dim",
          "32", "--rotary", "8", "--conv", "3", "--key-heads", "3", "--value-heads", "6", "--state",
          "32", "--experts", "12", "--experts-used", "3", "--expert-width", "64", "--shared-width",
          "96", "--mix", "Q8_0");
    cJSON *json = info_of(path);
    static const struct {
        const char *key;
        double value;
    } want[] = {
        { "n_layer", 5 },
        { "n_embd", 512 },
        { "n_vocab", 700 },
        { "n_ctx_train", 1234 },
        { "n_head", 6 },
        { "n_head_kv", 3 },
        { "head_dim", 32 },
        { "n_rot", 8 },
        { "conv_taps", 3 },
        { "n_key_head", 3 },
        { "n_value_head", 6 },
        { "delta_dim", 32 },
        { "n_expert", 12 },
        { "n_expert_used", 3 },
        { "n_ff_expert", 64 },
        { "n_ff_shared", 96 },
        { "kv_position_bytes", 2 * 2 * 2 * 3 * 32 },
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(rl_test_number(json, want[i].key) == want[i].value);
    cJSON_Delete(json);
    rl_test_run r = RUN("generate", "-m", path, "-p", "abc", "-n", "4", "--ignore-eos", "--json");
    rl_test_expect_code(&r, 0);
    json = rl_test_json(r.out);
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "tokens")), 4);
    cJSON_Delete(json);
    rl_test_run_fini(&r);
    remove(path);
}

static void synth_repeats_itself(void **state)
{
    (void)state;
    const char *a = rl_test_scratch("e2e_synth_a.gguf"), *b = rl_test_scratch("e2e_synth_b.gguf");
    size_t n, m;
    SYNTH(a, "-s", "5", "-t", "1");
    SYNTH("-o", b, "--preset", "tiny", "--seed", "5", "-t", "2");
    char *x = rl_test_read(a, &n), *y = rl_test_read(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
    SYNTH(b, "-s", "6", "-q");
    y = rl_test_read(b, &m);
    assert_true(n == m && memcmp(x = rl_test_read(a, &n), y, n));
    free(x);
    free(y);
    remove(a);
    remove(b);
}

static void synth_lists_the_published_file(void **state)
{
    (void)state;
    rl_test_run r = RUN("synth", "--list", "--json", "--preset", "qwen3-next-80b-iq2_xxs");
    rl_test_expect_code(&r, 0);
    double bytes = 0, end = 0;
    int n = 0;
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"), n++) {
        cJSON *json = rl_test_json(line);
        bytes += rl_test_number(json, "bytes");
        end = rl_test_number(json, "offset") + rl_test_number(json, "bytes");
        cJSON_Delete(json);
    }
    assert_int_equal(n, 843);
    assert_true(bytes == 19292986368.0 && end == bytes);
    rl_test_run_fini(&r);
}

static void synth_wrong_usage(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("e2e_synth_never.gguf");
    const struct {
        const char *arguments[6];
        int code;
        const char *word;
    } rows[] = {
        { { "synth" }, 2, "-o" },
        { { "synth", "a", "b" }, 2, "one file" },
        { { "synth", "-o", path, "--preset", "huge" }, 2, "huge" },
        { { "synth", "-o", path, "--layers", "0" }, 2, "--layers" },
        { { "synth", "-o", path, "--mix", "Q7_1" }, 1, "Q7_1" },
        { { "synth", "-o", path, "--experts-used", "17" }, 1, "experts per token" },
        { { "synth", "-o", path, "--vocab", "/no/such" }, 1, "/no/such" },
        { { "synth", "-o", "/no/such/folder/x.gguf" }, 1, "/no/such/folder/x.gguf" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *arguments[8] = { NULL };
        memcpy(arguments, rows[i].arguments, sizeof rows[i].arguments);
        rl_test_run r = rl_test_execute(NULL, arguments);
        rl_test_expect_refused(&r, rows[i].code, rows[i].word);
        rl_test_run_fini(&r);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

/* Ctrl-C in the middle of a large file: nothing is left. */
static void synth_interrupted_leaves_nothing(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("e2e_synth_stop.gguf");
    rl_test_streams streams = { .interrupt_ms = 400, .interrupt_from_start = true };
    rl_test_run r = rl_test_execute(
        &streams, (const char *const[]){ "synth", "-o", path, "--preset", "qwen3-next-80b-iq2_xxs",
                                         "--layers", "8", NULL });
    rl_test_expect_code(&r, 130);
    rl_test_run_fini(&r);
    assert_int_not_equal(access(path, F_OK), 0);
}

RL_TEST_MAIN(RL_TEST(synth, takes_every_figure), RL_TEST(synth, repeats_itself),
             RL_TEST(synth, lists_the_published_file), RL_TEST(synth, wrong_usage),
             RL_TEST(synth, interrupted_leaves_nothing))
