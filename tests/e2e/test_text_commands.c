/* test_text_commands.c - tokenize, detokenize and render as a user meets them; what tokens and
 * texts are right is the tokenizer's and template's own tests' business. */
#include "support/json.h"
#include "support/process.h"

static cJSON *read_json(const char *path)
{
    size_t bytes;
    char *text = rl_test_read(path, &bytes);
    cJSON *json = rl_test_json(text);
    free(text);
    return json;
}

static void text_tokenize_agrees_with_the_model_card(void **state)
{
    (void)state;
    cJSON *expected = read_json(RL_TEST_MODELS "/expected.json"), *one;
    cJSON_ArrayForEach(one, rl_test_member(expected, "tokenizer"))
    {
        rl_test_run r = RUN("tokenize", "-p", rl_test_text(one, "text"));
        rl_test_expect_code(&r, 0);
        cJSON *ids = rl_test_json(r.out);
        assert_true(cJSON_Compare(ids, rl_test_member(one, "ids"), true));

        rl_test_run back = RUN_WITH(r.out, "detokenize");
        rl_test_expect_code(&back, 0);
        assert_string_equal(back.out, rl_test_text(one, "text"));
        rl_test_run_fini(&back);
        cJSON_Delete(ids);
        rl_test_run_fini(&r);
    }
    cJSON_Delete(expected);
}

static void text_control_tokens_can_stay_text(void **state)
{
    (void)state;
    rl_test_run special = RUN("tokenize", "-p", "<|im_start|>");
    rl_test_run plain = RUN("tokenize", "--no-special", "-p", "<|im_start|>");
    assert_string_equal(special.out, "[1]\n");
    rl_test_expect_code(&plain, 0);
    cJSON *ids = rl_test_json(plain.out);
    assert_true(cJSON_GetArraySize(ids) > 1);
    cJSON_Delete(ids);
    rl_test_run_fini(&special);
    rl_test_run_fini(&plain);
}

static void text_jsonl_gives_a_line_per_line(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("\"Hello, world!\"\n\"\"\n  \"\\ud83e\\udd8a\"  \n\"Hello, world!\"",
                             "tokenize", "--jsonl");
    rl_test_run fox = RUN("tokenize", "-p", "\xf0\x9f\xa6\x8a");
    rl_test_expect_code(&r, 0);
    char want[300];
    snprintf(want, sizeof want, "[2216,14,1173,3]\n[]\n%s[2216,14,1173,3]\n", fox.out);
    assert_string_equal(r.out, want);
    rl_test_run_fini(&fox);
    rl_test_run_fini(&r);
}

/* A NUL byte is a character like others, also through JSON. */
static void text_nul_bytes_survive(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("\"a\\u0000b\"\n", "tokenize", "--jsonl");
    rl_test_expect_code(&r, 0);
    rl_test_run back = RUN_WITH(r.out, "detokenize");
    assert_int_equal(back.out_bytes, 3);
    assert_memory_equal(back.out, "a\0b", 3);
    rl_test_run_fini(&r);
    rl_test_run_fini(&back);
}

/* The lines before a wrong one are answered; the sentence names the line. */
static void text_jsonl_names_the_wrong_line(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "hello", "\"open",       "\"a\" \"b\"", "[\"a\"]", "\"\\ud800\"", "\"\\x\"", "{}",
        "",      "\"\xff\xfe\"", "\"\x01\"",    "null",    "\"\\u12\"",   "\"a\",",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char input[100];
        snprintf(input, sizeof input, "\"a\"\n%s\n\"a\"\n", wrong[i]);
        rl_test_run r = RUN_WITH(input, "tokenize", "--jsonl");
        rl_test_expect_code(&r, 1);
        if (!strstr(r.err, "line 2 of stdin")) fail_msg("'%s': %s", wrong[i], r.err);
        size_t lines = 0;
        for (const char *c = r.out; *c; c++)
            lines += *c == '\n';
        assert_int_equal(lines, 1);
        rl_test_run_fini(&r);
    }
}

static void text_tokenize_reads_files(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("tokenize-input.txt");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("Hello, world!", file);
    fclose(file);
    rl_test_run from_file = RUN("tokenize", "-f", path);
    rl_test_run from_stdin = RUN_WITH("Hello, world!", "tokenize", "-f", "-");
    assert_string_equal(from_file.out, "[2216,14,1173,3]\n");
    assert_string_equal(from_stdin.out, "[2216,14,1173,3]\n");
    rl_test_run_fini(&from_file);
    rl_test_run_fini(&from_stdin);
}

static void text_invalid_utf8_is_refused(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("ab\xff", "tokenize", "-f", "-");
    rl_test_expect_refused(&r, 1, "UTF-8");
    rl_test_run_fini(&r);
}

static void text_detokenize_prints_exactly_the_bytes(void **state)
{
    (void)state;
    rl_test_run r = RUN("detokenize", "2216", "14", "1173", "3");
    rl_test_expect_code(&r, 0);
    assert_string_equal(r.out, "Hello, world!");
    rl_test_run_fini(&r);
    r = RUN("detokenize", "--json", "2216", "14");
    assert_string_equal(r.out, "\"Hello,\"\n");
    rl_test_run_fini(&r);
    r = RUN_WITH("[]", "detokenize");
    rl_test_expect_code(&r, 0);
    assert_int_equal(r.out_bytes, 0);
    rl_test_run_fini(&r);
    r = RUN_WITH(" [ 1 ,\n 372 ] ", "detokenize");
    assert_string_equal(r.out, "<|im_start|>user");
    rl_test_run_fini(&r);
}

static void text_detokenize_refuses_what_is_no_id(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        "",
        "[",
        "[1",
        "[1,]",
        "[-1]",
        "[1.5]",
        "[4294967296]",
        "[01]",
        "[1] [2]",
        "[\"1\"]",
        "[99999999999]",
        "{}",
        "1",
        "[1 2]",
        "[18446744073709551617]",
        "[null]",
        "[[1]]",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        rl_test_run r = RUN_WITH(inputs[i], "detokenize");
        rl_test_expect_refused(&r, 1, "stdin: ");
        rl_test_run_fini(&r);
    }
    rl_test_run r = RUN("detokenize", "4096");
    rl_test_expect_refused(&r, 1, "4096");
    rl_test_run_fini(&r);
}

static const char conversation[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}";
static const char rendered[] = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";

static void text_render_is_byte_exact(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH(conversation, "render");
    rl_test_expect_code(&r, 0);
    assert_string_equal(r.out, rendered);
    assert_int_equal(r.err_bytes, 0);
    rl_test_run_fini(&r);

    char lines[400];
    snprintf(lines, sizeof lines, "%s\n%s\n", conversation, conversation);
    r = RUN_WITH(lines, "render", "--jsonl");
    rl_test_expect_code(&r, 0);
    char *second = strchr(r.out, '\n');
    assert_non_null(second);
    *second++ = 0;
    cJSON *a = rl_test_json(r.out), *b = rl_test_json(second);
    assert_string_equal(a->valuestring, rendered);
    assert_string_equal(b->valuestring, rendered);
    cJSON_Delete(a);
    cJSON_Delete(b);
    rl_test_run_fini(&r);
}

static void text_render_takes_a_template_file(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("render.jinja");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}\n\nend\n", file);
    fclose(file);
    rl_test_run r = RUN_WITH(conversation, "render", "--chat-template-file", path);
    rl_test_expect_code(&r, 0);
    assert_string_equal(r.out, "[user: Hi]\nend");
    rl_test_run_fini(&r);
}

static void text_render_refuses_what_is_no_conversation(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        "", "[]", "{}", "{\"messages\":1}", "{\"messages\":[", "x"
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        rl_test_run r = RUN_WITH(inputs[i], "render");
        rl_test_expect_refused(&r, 1, "stdin: ");
        rl_test_run_fini(&r);
        char line[200];
        snprintf(line, sizeof line, "%s\n%s\n", conversation, inputs[i]);
        r = RUN_WITH(line, "render", "--jsonl");
        rl_test_expect_code(&r, 1);
        assert_non_null(strstr(r.err, "line 2 of stdin"));
        rl_test_run_fini(&r);
    }
}

RL_TEST_MAIN(RL_TEST(text, tokenize_agrees_with_the_model_card),
             RL_TEST(text, control_tokens_can_stay_text),
             RL_TEST(text, jsonl_gives_a_line_per_line), RL_TEST(text, nul_bytes_survive),
             RL_TEST(text, jsonl_names_the_wrong_line), RL_TEST(text, tokenize_reads_files),
             RL_TEST(text, invalid_utf8_is_refused),
             RL_TEST(text, detokenize_prints_exactly_the_bytes),
             RL_TEST(text, detokenize_refuses_what_is_no_id), RL_TEST(text, render_is_byte_exact),
             RL_TEST(text, render_takes_a_template_file),
             RL_TEST(text, render_refuses_what_is_no_conversation))
