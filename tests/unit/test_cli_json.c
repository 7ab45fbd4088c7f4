/* test_cli_json.c - the commands' own little JSON: what is written is always valid, what is read is
 * read exactly or refused. */
#include "support/json.h"
#include "support/test.h"

#include "cli/json.h"

#include <math.h>

/* Writes one string value and returns the JSON text. */
static char *written(const char *text, size_t bytes)
{
    char *out = NULL;
    size_t n;
    FILE *file = open_memstream(&out, &n);
    assert_non_null(file);
    cli_json json = { .out = file };
    cli_json_string(&json, text, bytes);
    fclose(file);
    return out;
}

static void cli_json_strings_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *want;
    } cases[] = {
        { "", 0, "\"\"" },
        { "a\"b\\c/", 6, "\"a\\\"b\\\\c/\"" },
        { "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"" },
        { "\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\"" },
        { "caf\xc3\xa9 \xf0\x9f\xa6\x8a", 10, "\"caf\xc3\xa9 \xf0\x9f\xa6\x8a\"" },
        /* what is no UTF-8: alone, cut off, overlong, a surrogate, beyond the last one */
        { "a\xff", 2, "\"a\xef\xbf\xbd\"" },
        { "\xf0\x9f", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xf4\x8f\xbf\xbf", 4, "\"\xf4\x8f\xbf\xbf\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *out = written(cases[i].text, cases[i].bytes);
        assert_string_equal(out, cases[i].want);
        free(out);
    }
}

static void cli_json_commas_stand_between(void **state)
{
    (void)state;
    char *out = NULL;
    size_t n;
    FILE *file = open_memstream(&out, &n);
    assert_non_null(file);
    cli_json json = { .out = file };
    cli_json_open(&json, '{');
    cli_json_key(&json, "a");
    cli_json_ids(&json, (uint32_t[]){ 1, 4294967295u }, 2);
    cli_json_key(&json, "b");
    cli_json_open(&json, '{');
    cli_json_close(&json, '}');
    cli_json_key(&json, "c");
    cli_json_number(&json, NAN, 3);
    cli_json_key(&json, "d");
    cli_json_number(&json, -1.25, 3);
    cli_json_key(&json, "e");
    cli_json_ids(&json, NULL, 0);
    cli_json_key(&json, "f");
    cli_json_bool(&json, true);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
    cli_json_uint(&json, UINT64_MAX);
    fclose(file);
    assert_string_equal(out, "{\"a\":[1,4294967295],\"b\":{},\"c\":null,\"d\":-1.250,\"e\":[],"
                             "\"f\":true}\n18446744073709551615");
    free(out);
}

/* Every byte string comes back as it was, as long as it is UTF-8. */
static void cli_json_strings_come_back(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 2000; round++) {
        char text[256];
        size_t n = 0, bytes;
        while (n < 240 && rl_test_random(&random) % 40) {
            uint32_t c = (uint32_t)(rl_test_random(&random) >> (44 + rl_test_random(&random) % 20));
            if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
            if (c < 0x80) {
                text[n++] = (char)c;
            } else if (c < 0x800) {
                text[n++] = (char)(0xc0 | c >> 6);
                text[n++] = (char)(0x80 | (c & 63));
            } else if (c < 0x10000) {
                text[n++] = (char)(0xe0 | c >> 12);
                text[n++] = (char)(0x80 | (c >> 6 & 63));
                text[n++] = (char)(0x80 | (c & 63));
            } else {
                text[n++] = (char)(0xf0 | c >> 18);
                text[n++] = (char)(0x80 | (c >> 12 & 63));
                text[n++] = (char)(0x80 | (c >> 6 & 63));
                text[n++] = (char)(0x80 | (c & 63));
            }
        }
        char *out = written(text, n);
        cli_json_in in = { .at = out, .end = out + strlen(out) };
        char *back = cli_json_take_string(&in, &bytes);
        assert_non_null(back);
        assert_int_equal(bytes, n);
        assert_memory_equal(back, text, n);
        assert_true(cli_json_at_end(&in));
        free(back);
        free(out);
    }
}

static void cli_json_escapes_are_read(void **state)
{
    (void)state;
    const char *text = " \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83e\\udd8a\\u0000\" ";
    cli_json_in in = { .at = text, .end = text + strlen(text) };
    size_t bytes;
    char *out = cli_json_take_string(&in, &bytes);
    static const char want[] = "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8a";
    assert_non_null(out);
    assert_int_equal(bytes, sizeof want); /* with the NUL */
    assert_memory_equal(out, want, sizeof want);
    assert_true(cli_json_at_end(&in));
    free(out);
}

static void cli_json_wrong_strings_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "a",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\q\"",
        "\"\\u1",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\n\"",
        "'a'",
        "\"\\ud83e\\ud83e\"",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cli_json_in in = { .at = cases[i], .end = cases[i] + strlen(cases[i]) };
        size_t bytes;
        assert_null(cli_json_take_string(&in, &bytes));
        assert_non_null(in.wrong);
    }
}

static void cli_json_values_are_passed_over(void **state)
{
    (void)state;
    static const char *const fine[] = {
        "1",
        "-1.5e+3",
        "true",
        "null",
        "\"x\"",
        "[]",
        "{}",
        "[1,[2,{\"a\":\"\\u0041\"}],null]",
        " { \"k\" : [ ] , \"\" : false } ",
    };
    static const char *const wrong[] = { "",           "[",     "{",        "[1,]",
                                         "{\"a\"}",    "{1:2}", "{\"a\":}", "[1 2]",
                                         "{\"a\":1,}", "\"x",   "nul",      "]" };
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        cli_json_in in = { .at = fine[i], .end = fine[i] + strlen(fine[i]) };
        if (!cli_json_skip(&in) || !cli_json_at_end(&in)) fail_msg("%s", fine[i]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_json_in in = { .at = wrong[i], .end = wrong[i] + strlen(wrong[i]) };
        if (cli_json_skip(&in)) fail_msg("%s", wrong[i]);
        assert_non_null(in.wrong);
    }
    char deep[2000];
    memset(deep, '[', sizeof deep);
    cli_json_in in = { .at = deep, .end = deep + sizeof deep };
    assert_false(cli_json_skip(&in)); /* and the stack is still there */
}

RL_TEST_MAIN(RL_TEST(cli_json, strings_are_escaped), RL_TEST(cli_json, commas_stand_between),
             RL_TEST(cli_json, strings_come_back), RL_TEST(cli_json, escapes_are_read),
             RL_TEST(cli_json, wrong_strings_are_refused),
             RL_TEST(cli_json, values_are_passed_over))
