/* test_shipped.c - the model that comes with the program: its measured perplexity and the texts that
 * another engine wrote with it (models/expected.json). */
#include "support/json.h"
#include "support/process.h"

#include <math.h>

#define MODEL "redlite-demo-IQ2_XXS.gguf"

/* What exact arithmetic gives; MODEL_CARD.md. */
#define EXACT 10.9068

static void check_perplexity(const char *backend, const char *kernels, double tolerance)
{
#ifdef RL_TEST_INSTRUMENTED
    (void)backend, (void)kernels, (void)tolerance;
    rl_test_skip("42 windows of 512 tokens are for the plain build");
#else
    const char *const arguments[] = {
        "perplexity",
        "-q",
        "--json",
        "-f",
        RL_TEST_MODELS "/val.txt",
        "-m",
        RL_TEST_MODELS "/" MODEL,
        "--backend",
        backend,
        NULL,
    };
    rl_test_run r = rl_test_execute(
        &(rl_test_streams){ .setting = (const char *const[]){ kernels, NULL }, .limit_s = 3600 },
        arguments);
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out);
    double ppl = rl_test_number(json, "ppl");
    assert_true(rl_test_number(json, "n_windows") == 42);
    assert_true(rl_test_number(json, "n_scored") == 42 * 255);
    printf("%s %s: %.4f\n", backend, kernels, ppl);
    if (fabs(ppl / EXACT - 1) > tolerance) fail_msg("perplexity %.5f, not %.5f", ppl, EXACT);
    cJSON_Delete(json);
    rl_test_run_fini(&r);
#endif
}

static void shipped_perplexity_default(void **state)
{
    (void)state;
    check_perplexity("cpu", "RL_CPU=", 3e-3);
}

static void shipped_perplexity_exact(void **state)
{
    (void)state;
    check_perplexity("cpu", "RL_CPU=exact", 1e-4);
}

static void shipped_perplexity_oracle_long(void **state)
{
    (void)state;
    check_perplexity("oracle", "RL_CPU=", 1e-4);
}

/* Prompt and wanted tokens of one text; as many are compared as stand before the first near-tie. */
static size_t check_text(const cJSON *text, const char *backend)
{
    char ids[4096], n_wanted[24];
    size_t used = 0, most = 0;
    const cJSON *id, *margin;
    cJSON_ArrayForEach(id, rl_test_member(text, "prompt_tokens")) used +=
        (size_t)snprintf(ids + used, sizeof ids - used, "%s%d", used ? "," : "", id->valueint);
    cJSON_ArrayForEach(margin, rl_test_member(text, "margins"))
    {
        if (margin->valuedouble < 0.2) break;
        most++;
    }
    if (!most) return 0;
    snprintf(n_wanted, sizeof n_wanted, "%zu", most);
    rl_test_run r = RUN("generate", "-q", "--json", "-m", RL_TEST_MODELS "/" MODEL, "--backend",
                        backend, "--temp", "0", "--tokens", ids, "-n", n_wanted);
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out), *got = rl_test_member(json, "tokens");
    const cJSON *wanted = rl_test_member(text, "tokens");
    assert_int_equal(cJSON_GetArraySize(got), most);
    for (int i = 0; i < (int)most; i++)
        if (cJSON_GetArrayItem(got, i)->valueint != cJSON_GetArrayItem(wanted, i)->valueint)
            fail_msg("%s, %s: token %d is %d, not %d", rl_test_text(text, "prompt"), backend, i,
                     cJSON_GetArrayItem(got, i)->valueint, cJSON_GetArrayItem(wanted, i)->valueint);
    cJSON_Delete(json);
    rl_test_run_fini(&r);
    return most;
}

static void check_texts(const char *backend)
{
    size_t bytes, compared = 0;
    char *expected = rl_test_read(RL_TEST_MODELS "/expected.json", &bytes);
    cJSON *json = rl_test_json(expected);
    const cJSON *models = rl_test_member(json, "models"), *text;
    cJSON_ArrayForEach(text, rl_test_member(rl_test_member(models, MODEL), "greedy")) compared +=
        check_text(text, backend);
    printf("%zu tokens compared\n", compared);
    assert_true(compared > 180);
    cJSON_Delete(json);
    free(expected);
}

static void shipped_writes_as_expected_cpu(void **state)
{
    (void)state;
    check_texts("cpu");
}

static void shipped_writes_as_expected_oracle(void **state)
{
    (void)state;
#ifdef RL_TEST_INSTRUMENTED
    rl_test_skip("the oracle takes minutes with sanitizers, and golden tests run it");
#else
    check_texts("oracle");
#endif
}

RL_TEST_MAIN(RL_TEST(shipped, perplexity_default), RL_TEST(shipped, perplexity_exact),
             RL_TEST(shipped, perplexity_oracle_long), RL_TEST(shipped, writes_as_expected_cpu),
             RL_TEST(shipped, writes_as_expected_oracle))
