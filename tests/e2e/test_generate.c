/* test_generate.c - the commands that run the model: generate, logits, perplexity, bench. Numbers
 * are the golden tests' business; here it is about what a user is promised. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/json.h"
#include "support/process.h"

static cJSON *generate(const char *const *arguments)
{
    rl_test_run r = rl_test_execute(NULL, arguments);
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out);
    rl_test_run_fini(&r);
    return json;
}

#define GENERATE(...)                                                                              \
    generate((const char *const[]){ "generate", "--json", "-q", __VA_ARGS__, NULL })

#define COUNT_PROMPT "<|im_start|>user\nCount to 15.<|im_end|>\n<|im_start|>assistant\n"
#define COUNT_TEXT   "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15."

static void generate_counts_to_fifteen(void **state)
{
    (void)state;
    cJSON *json = GENERATE("-p", COUNT_PROMPT, "--temp", "0");
    assert_string_equal(rl_test_text(json, "text"), COUNT_TEXT);
    assert_string_equal(rl_test_text(json, "stop"), "eos");
    cJSON *prompt = rl_test_member(json, "prompt_tokens"), *tokens = rl_test_member(json, "tokens");
    assert_int_equal(cJSON_GetArraySize(prompt), 14);
    assert_int_equal(cJSON_GetArrayItem(prompt, 0)->valueint, 1);
    /* The end token is the last of the tokens and not in the text. */
    int n = cJSON_GetArraySize(tokens);
    assert_int_equal(n, 51);
    assert_int_equal(cJSON_GetArrayItem(tokens, n - 1)->valueint, 2);
    cJSON *timings = rl_test_member(json, "timings"), *cache = rl_test_member(json, "cache");
    assert_true(rl_test_number(timings, "prompt_n") == 14);
    assert_true(rl_test_number(timings, "decode_n") == 51);
    assert_true(rl_test_number(timings, "decode_tok_s") > 0);
    assert_true(rl_test_number(cache, "hits") + rl_test_number(cache, "misses") > 0);
    assert_true(rl_test_number(cache, "distinct_experts_min") >= 4);
    assert_true(rl_test_number(cache, "wait_ms_per_token") <= rl_test_number(cache, "wait_ms"));
    cJSON_Delete(json);
}

static void generate_text_goes_to_stdout_alone(void **state)
{
    (void)state;
    rl_test_run r = RUN("generate", "-p", COUNT_PROMPT, "--temp", "0", "-q");
    rl_test_expect_code(&r, 0);
    assert_string_equal(r.out, COUNT_TEXT "\n");
    assert_int_equal(r.err_bytes, 0);
    rl_test_run_fini(&r);
    r = RUN_WITH(COUNT_PROMPT, "generate", "-f", "-", "--temp", "0", "-q");
    assert_string_equal(r.out, COUNT_TEXT "\n");
    rl_test_run_fini(&r);
    r = RUN("generate", "--tokens", "1,372,201,3706,283,223,19,23,16,2,201,1,373,201", "--temp",
            "0", "-q");
    assert_string_equal(r.out, COUNT_TEXT "\n");
    rl_test_run_fini(&r);
}

static void generate_stops_after_n(void **state)
{
    (void)state;
    cJSON *json = GENERATE("-p", COUNT_PROMPT, "--temp", "0", "-n", "5");
    assert_string_equal(rl_test_text(json, "text"), "1, 2,");
    assert_string_equal(rl_test_text(json, "stop"), "length");
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "tokens")), 5);
    cJSON_Delete(json);
    json = GENERATE("-p", COUNT_PROMPT, "-n", "0");
    assert_string_equal(rl_test_text(json, "text"), "");
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "tokens")), 0);
    cJSON_Delete(json);
}

static void generate_seed_decides(void **state)
{
    (void)state;
    cJSON *a = GENERATE("-p", "Once upon", "-n", "24", "-s", "11", "--temp", "1.5", "--top-k", "0");
    cJSON *b = GENERATE("-p", "Once upon", "-n", "24", "-s", "11", "--temp", "1.5", "--top-k", "0");
    cJSON *c = GENERATE("-p", "Once upon", "-n", "24", "-s", "12", "--temp", "1.5", "--top-k", "0");
    assert_string_equal(rl_test_text(a, "text"), rl_test_text(b, "text"));
    assert_string_not_equal(rl_test_text(a, "text"), rl_test_text(c, "text"));
    assert_true(rl_test_number(a, "seed") == 11);
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(c);
}

static void generate_can_ignore_the_end(void **state)
{
    (void)state;
    cJSON *json = GENERATE("-p", COUNT_PROMPT, "--temp", "0", "-n", "60", "--ignore-eos"), *token;
    assert_string_equal(rl_test_text(json, "stop"), "length");
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "tokens")), 60);
    cJSON_ArrayForEach(token, rl_test_member(json, "tokens")) assert_true(token->valueint != 2);
    cJSON_Delete(json);
}

/* A context is never exceeded, and never silently cut. */
static void generate_full_context_is_said(void **state)
{
    (void)state;
    rl_test_run r = RUN("generate", "--json", "--tokens", "1,2,3,4,5", "-c", "8", "-n", "20",
                        "--ignore-eos", "--temp", "0");
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out);
    assert_string_equal(rl_test_text(json, "stop"), "length");
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "tokens")), 4);
    assert_non_null(strstr(r.err, "the context of 8 is full"));
    cJSON_Delete(json);
    rl_test_run_fini(&r);
    r = RUN("generate", "--tokens", "1,2,3,4,5", "-c", "4");
    rl_test_expect_refused(&r, 1, "the prompt has 5 tokens, but the context holds 4");
    rl_test_run_fini(&r);
}

static void generate_refuses_what_it_cannot_read(void **state)
{
    (void)state;
    rl_test_run r = RUN("generate", "-p", "");
    rl_test_expect_refused(&r, 1, "the prompt is empty");
    rl_test_run_fini(&r);
    r = RUN("generate", "--tokens", "1,4096");
    rl_test_expect_refused(&r, 1, "token 4096 is not in the vocabulary of 4096");
    rl_test_run_fini(&r);
    r = RUN("generate", "-p", "a\xff");
    rl_test_expect_refused(&r, 1, "UTF-8");
    rl_test_run_fini(&r);
    r = RUN("generate", "-p", "a", "-c", "100000");
    rl_test_expect_refused(&r, 1, "2048");
    rl_test_run_fini(&r);
}

/* Ctrl-C in the middle: what is there is printed, and the code says so. */
static void generate_interrupt_keeps_the_text(void **state)
{
    (void)state;
    const char *const arguments[] = { "generate", "-p", "Once upon a time", "-n", "2000", "-q",
                                      "--temp",   "0",  "--ignore-eos",     NULL };
    rl_test_run r = rl_test_execute(&(rl_test_streams){ .interrupt_ms = 50 }, arguments);
    rl_test_expect_code(&r, 130);
    assert_true(r.out_bytes > 1 && r.out[r.out_bytes - 1] == '\n');
    assert_int_equal(r.err_bytes, 0);
    rl_test_run_fini(&r);
}

static void generate_interrupt_leaves_whole_json(void **state)
{
    (void)state;
    const char *const arguments[] = { "generate", "--json", "-p", "Once upon a time", "-n",
                                      "2000",     "--temp", "0",  "--ignore-eos",     NULL };
    rl_test_run r = rl_test_execute(
        &(rl_test_streams){ .interrupt_ms = 200, .interrupt_from = "expert pool: " }, arguments);
    rl_test_expect_code(&r, 130);
    cJSON *json = rl_test_json(r.out);
    assert_string_equal(rl_test_text(json, "stop"), "interrupt");
    assert_true(cJSON_GetArraySize(rl_test_member(json, "tokens")) < 2000);
    cJSON_Delete(json);
    rl_test_run_fini(&r);
}

/* Writing into a pipe that nobody reads ends soon, it does not run on. */
static void generate_closed_pipe_ends_it(void **state)
{
    (void)state;
    const char *const arguments[] = {
        "generate", "-p", "Once", "-n", "100000", "--ignore-eos", NULL
    };
    rl_test_run r = rl_test_execute(&(rl_test_streams){ .out_closed = true }, arguments);
    rl_test_expect_code(&r, 1);
    assert_non_null(strstr(r.err, "Broken pipe"));
    rl_test_run_fini(&r);
}

static void generate_logits_are_floats_in_a_file(void **state)
{
    (void)state;
    const char *all = rl_test_scratch("logits-all.bin"), *last = rl_test_scratch("logits-last.bin");
    rl_test_run a =
        RUN("logits", "--tokens", "1,372,201", "--out", all, "-q", "--backend", "oracle");
    rl_test_run b = RUN("logits", "--tokens", "1,372,201", "--out", last, "--last", "--json",
                        "--backend", "oracle");
    rl_test_expect_code(&a, 0);
    rl_test_expect_code(&b, 0);
    assert_int_equal(a.out_bytes, 0);
    cJSON *json = rl_test_json(b.out);
    assert_true(rl_test_number(json, "n_tokens") == 1);
    assert_true(rl_test_number(json, "n_vocab") == 4096);
    cJSON_Delete(json);
    size_t all_bytes, last_bytes;
    float *x = rl_test_read(all, &all_bytes), *y = rl_test_read(last, &last_bytes);
    assert_int_equal(all_bytes, 3 * 4096 * sizeof(float));
    assert_int_equal(last_bytes, 4096 * sizeof(float));
    assert_true(rl_test_relative_l2(x + 2 * 4096, y, 4096) < 1e-5);
    free(x);
    free(y);
    rl_test_run_fini(&a);
    rl_test_run_fini(&b);
}

/* The file appears whole or not at all. */
static void generate_logits_leave_no_half_file(void **state)
{
    (void)state;
    rl_test_run r = RUN("logits", "--tokens", "1", "--out", "/dev/full/x");
    rl_test_expect_refused(&r, 1, "/dev/full/x");
    rl_test_run_fini(&r);
    const char *folder = rl_test_scratch("x");
    r = RUN("logits", "--tokens", "1,9999", "--out", folder);
    rl_test_expect_refused(&r, 1, "9999");
    FILE *file = fopen(folder, "rb");
    assert_null(file);
    rl_test_run_fini(&r);

    /* What a link points to keeps what it held until the new numbers are whole. */
    const char *target = rl_test_scratch("logits-target"), *link = rl_test_scratch("logits-link");
    file = fopen(target, "wb");
    assert_non_null(file);
    fputs("old", file);
    fclose(file);
    unlink(link);
    assert_int_equal(symlink(target, link), 0);
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){ .rlim_cur = 512, .rlim_max = before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    r = RUN("logits", "--tokens", "1", "--out", link);
    setrlimit(RLIMIT_FSIZE, &before);
    rl_test_expect_code(&r, 1);
    rl_test_run_fini(&r);
    size_t bytes;
    char *held = rl_test_read(target, &bytes);
    assert_string_equal(held, "old");
    free(held);
    r = RUN("logits", "--tokens", "1", "--out", link);
    rl_test_expect_code(&r, 0);
    rl_test_run_fini(&r);
    free(rl_test_read(target, &bytes));
    assert_int_equal(bytes, 4 * 4096);
    struct stat there;
    assert_int_equal(lstat(link, &there), 0);
    assert_true(S_ISLNK(there.st_mode));
}

static void generate_perplexity_scores_half_of_each_window(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("perplexity.txt");
    size_t bytes;
    char *text = rl_test_read(RL_TEST_MODELS "/val.txt", &bytes);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(text, 1, 600, file);
    fclose(file);
    free(text);
    rl_test_run tokens = RUN("tokenize", "--no-special", "-f", path);
    cJSON *ids = rl_test_json(tokens.out);
    int n = cJSON_GetArraySize(ids);
    rl_test_run r = RUN("perplexity", "-f", path, "-c", "64", "--json");
    rl_test_expect_code(&r, 0);
    cJSON *json = rl_test_json(r.out);
    assert_true(rl_test_number(json, "n_windows") == n / 64);
    assert_true(rl_test_number(json, "n_scored") == n / 64 * 31); /* 33 to 63 */
    double ppl = rl_test_number(json, "ppl");
    assert_true(ppl > 3 && ppl < 60);
    cJSON_Delete(json);
    cJSON_Delete(ids);
    rl_test_run_fini(&tokens);
    rl_test_run_fini(&r);
    r = RUN("perplexity", "-f", path);
    rl_test_expect_refused(&r, 1, "do not fill one window of 512");
    rl_test_run_fini(&r);
}

/* What was scored until then is said, but not printed as if it were the result. */
static void generate_perplexity_can_be_interrupted(void **state)
{
    (void)state;
    const char *const arguments[] = { "perplexity", "-f",     RL_TEST_MODELS "/val.txt",
                                      "--backend",  "oracle", NULL };
    rl_test_run r = rl_test_execute(
        &(rl_test_streams){ .interrupt_ms = 2000, .interrupt_from_start = true }, arguments);
    rl_test_expect_code(&r, 130);
    assert_int_equal(r.out_bytes, 0);
    assert_null(strstr(r.err, "redlite: "));
    rl_test_run_fini(&r);
}

/* Stands against: a comparison that goes on for minutes once nobody wants it. */
static void generate_parity_can_be_interrupted(void **state)
{
    (void)state;
    const char *const arguments[] = { "parity", "--backend", "cpu", "-n", "1500", NULL };
    rl_test_run r = rl_test_execute(
        &(rl_test_streams){ .interrupt_ms = 1500, .interrupt_from_start = true }, arguments);
    rl_test_expect_code(&r, 130);
    assert_null(strstr(r.out, "FAILED"));
    rl_test_run_fini(&r);
}

/* Stands against: replacing the file that a shell has redirected into, with what others wrote there. */
static void generate_logits_add_to_what_is_redirected(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("logits-redirected");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fclose(file);
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    const char *const arguments[] = {
        "logits", "-q", "--tokens", "1", "--out", "/dev/stdout", NULL
    };
    rl_test_run r = rl_test_execute(&(rl_test_streams){ .out_path = path }, arguments);
    rl_test_expect_code(&r, 0);
    rl_test_run_fini(&r);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_size, 4 * 4096);
}

static void generate_bench_prints_a_row_per_test(void **state)
{
    (void)state;
    rl_test_run r = RUN("bench", "--json", "-p", "8", "-n", "4,2", "-d", "0,16", "-r", "2");
    rl_test_expect_code(&r, 0);
    static const struct {
        const char *test;
        double depth;
    } want[] = { { "pp8", 0 },  { "tg4", 0 },  { "tg2", 0 },
                 { "pp8", 16 }, { "tg4", 16 }, { "tg2", 16 } };
    size_t n = 0;
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"), n++) {
        cJSON *row = rl_test_json(line);
        assert_true(n < 6);
        assert_string_equal(rl_test_text(row, "test"), want[n].test);
        assert_true(rl_test_number(row, "depth") == want[n].depth);
        double least = rl_test_number(row, "tok_s_min"), most = rl_test_number(row, "tok_s_max"),
               median = rl_test_number(row, "tok_s_median");
        assert_true(0 < least && least <= median && median <= most);
        cJSON_Delete(row);
    }
    assert_int_equal(n, 6);
    rl_test_run_fini(&r);
    /* Stages of a token take about as long as the token. */
    r = RUN("bench", "--json", "--backend", "cpu", "--stages", "-p", "0", "-n", "16", "-r", "3");
    rl_test_expect_code(&r, 0);
    cJSON *row = rl_test_json(r.out);
    double sum = 0, token_ms = 1000 / rl_test_number(row, "tok_s_min");
    const cJSON *stage = NULL;
    size_t stages = 0;
    cJSON_ArrayForEach(stage, cJSON_GetObjectItem(row, "stages_ms"))
    {
        assert_true(stage->valuedouble > 0);
        sum += stage->valuedouble;
        stages++;
    }
    assert_int_equal(stages, 11);
    assert_true(rl_test_number(row, "stages_tokens") == 48);
    assert_true(sum <= token_ms);
    cJSON_Delete(row);
    rl_test_run_fini(&r);
    r = RUN("bench", "-n", "2000", "-d", "2000");
    rl_test_expect_refused(&r, 1, "2048");
    rl_test_run_fini(&r);
}

RL_TEST_MAIN(RL_TEST(generate, counts_to_fifteen), RL_TEST(generate, text_goes_to_stdout_alone),
             RL_TEST(generate, stops_after_n), RL_TEST(generate, seed_decides),
             RL_TEST(generate, can_ignore_the_end), RL_TEST(generate, full_context_is_said),
             RL_TEST(generate, refuses_what_it_cannot_read),
             RL_TEST(generate, interrupt_keeps_the_text),
             RL_TEST(generate, interrupt_leaves_whole_json), RL_TEST(generate, closed_pipe_ends_it),
             RL_TEST(generate, logits_are_floats_in_a_file),
             RL_TEST(generate, logits_leave_no_half_file),
             RL_TEST(generate, perplexity_scores_half_of_each_window),
             RL_TEST(generate, perplexity_can_be_interrupted),
             RL_TEST(generate, parity_can_be_interrupted),
             RL_TEST(generate, logits_add_to_what_is_redirected),
             RL_TEST(generate, bench_prints_a_row_per_test))
