/* test_json.c - the JSON reader and writer, and the values they make. */
#include "support/test.h"

#include "text/json.h"

static rl_arena arena;

static rl_status read_text(const char *text, rl_value *out, rl_error *err)
{
    rl_arena_fini(&arena);
    rl_arena_init(&arena, (size_t)64 << 20);
    return rl_json_read(&arena, text, strlen(text), "input", 0, out, err);
}

/* What the writer makes of what the reader made; static storage. */
static const char *rewritten(const char *text)
{
    static char out[4096];
    rl_text_buffer buffer = { 0 };
    rl_error err = { { 0 } };
    rl_value value;
    assert_ok(read_text(text, &value, &err));
    assert_ok(rl_json_write(&buffer, value, NULL, &err));
    assert_true(buffer.bytes < sizeof out);
    memcpy(out, buffer.data, buffer.bytes);
    out[buffer.bytes] = '\0';
    rl_text_buffer_fini(&buffer);
    return out;
}

/* Nothing that a conversation can contain gets lost: digits, order, characters.
 * Stands against: tool arguments that come out slightly different. */
static void json_loses_nothing(void **state)
{
    (void)state;
    assert_string_equal(rewritten(" {\"z\":1,\"a\":[true,false,null],\"m\":{}} "),
                        "{\"z\": 1, \"a\": [true, false, null], \"m\": {}}");
    assert_string_equal(
        rewritten("[9007199254740993,-9223372036854775808,12345678901234567890123]"),
        "[9007199254740993, -9223372036854775808, 12345678901234567890123]");
    assert_string_equal(rewritten("[1.0,10.50,1e2,1E-7,-0.0,-0,1.5e300]"),
                        "[1.0, 10.5, 100.0, 1e-07, -0.0, 0, 1.5e+300]");
    assert_string_equal(
        rewritten("\"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\\u0001\\u0000é\""),
        "\"é😀/\\b\\f\\n\\r\\t\\\"\\\\\\u0001\\u0000é\"");
    assert_string_equal(rewritten("\"</script> \x7f &'\""), "\"</script> \x7f &'\"");
    assert_string_equal(rewritten("{\"a\":1,\"b\":2,\"a\":3}"), "{\"a\": 3, \"b\": 2}");
    assert_string_equal(rewritten("[]"), "[]");
    assert_string_equal(rewritten("\t\r\n[[[]],{\"\":{}}]\n"), "[[[]], {\"\": {}}]");
    rl_arena_fini(&arena);
}

/* Objects with many members find each of them, and keep the order. */
static void json_finds_members_of_large_objects(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_value value;
    char *text = malloc(1 << 20), key[32];
    size_t at = 0;
    assert_non_null(text);
    text[at++] = '{';
    for (int i = 0; i < 20000; i++)
        at += (size_t)sprintf(text + at, "%s\"k%d\":%d", i ? "," : "", i * 7919 % 20000, i);
    strcpy(text + at, "}");
    assert_ok(read_text(text, &value, &err));
    assert_int_equal(value.dict->count, 20000);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "k%d", i * 7919 % 20000);
        rl_value *found = rl_dict_find_text(value.dict, key);
        assert_non_null(found);
        assert_int_equal(found->integer, i);
        assert_true(rl_string_is(value.dict->pairs[i].key.string, key));
    }
    assert_null(rl_dict_find_text(value.dict, "k20000"));
    free(text);
    rl_arena_fini(&arena);
}

/* Everything that is not JSON is refused, with the place.
 * Stands against: a reader that guesses. */
static void json_refuses_what_is_not_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "line 1, column 1: a value is missing" },
        { "  \n ", "line 2, column 2: a value is missing" },
        { "nul", "expected a value" },
        { "True", "expected a value" },
        { "NaN", "expected a value" },
        { "-Infinity", "a digit is missing" },
        { "'a'", "expected a value" },
        { "[1,]", "column 4: expected a value" },
        { "[1 2]", "expected ',' or ']'" },
        { "[1", "expected ',' or ']'" },
        { "[", "a value is missing" },
        { "]", "expected a value" },
        { "{\"a\" 1}", "expected ':'" },
        { "{\"a\":1,}", "expected a key" },
        { "{a:1}", "expected a key" },
        { "{1:1}", "expected a key" },
        { "{\"a\":1", "expected ',' or '}'" },
        { "{", "expected a key" },
        { "01", "may not begin with 0" },
        { "-", "a digit is missing" },
        { "-a", "a digit is missing" },
        { "1.", "behind the point" },
        { ".5", "expected a value" },
        { "+1", "expected a value" },
        { "1e", "in the exponent" },
        { "1e+", "in the exponent" },
        { "\"a", "the string does not end" },
        { "\"a\\", "the string does not end" },
        { "\"a\\\"", "the string does not end" },
        { "\"a\nb\"", "line 1, column 3: a control character" },
        { "\"\\x41\"", "unknown escape" },
        { "\"\\u12g4\"", "four hexadecimal digits" },
        { "\"\\u12\"", "four hexadecimal digits" },
        { "\"\\ud800\"", "half a surrogate pair" },
        { "\"\\ud800\\u0041\"", "half a surrogate pair" },
        { "\"\\udc00\"", "half a surrogate pair" },
        { "1 2", "something follows" },
        { "{\"a\":\n\n  é}", "line 3, column 3" },
        { "\xef\xbb\xbf[]", "expected a value" },
        { "\"\xff\"", "not valid UTF-8 at byte 1" },
        { "\"\xed\xa0\x80\"", "not valid UTF-8" },
        { "\"\xc0\x80\"", "not valid UTF-8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_error err = { { 0 } };
        rl_value value;
        rl_status status = read_text(cases[i].text, &value, &err);
        if (status != RL_FORMAT) fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.text, cases[i].says) || strncmp(err.text, "input: ", 7) != 0)
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, err.text, cases[i].says);
    }
    rl_arena_fini(&arena);
}

/* Depth and memory are bounded, whatever comes in. */
static void json_is_bounded(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_value value;
    rl_text_buffer out = { 0 };
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, '[', n);
    text[n] = '\0';
    assert_int_equal(read_text(text, &value, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "nested deeper than 200 levels"));
    for (size_t i = 0; i + 1 < n; i += 2)
        memcpy(text + i, "1,", 2);
    memcpy(text, "[1", 2);
    memcpy(text + n - 2, "1]", 2);
    rl_arena_fini(&arena);
    rl_arena_init(&arena, (size_t)1 << 20);
    assert_int_equal(rl_json_read(&arena, text, n, "input", 0, &value, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "more than 1048576 bytes of memory"));
    assert_true(arena.taken_bytes <= (size_t)1 << 20);
    assert_ok(read_text(text, &value, &err));
    assert_true(arena.taken_bytes < 50 * n);
    /* A value that holds itself many times over: small in memory, endless as text. */
    rl_value inner = value;
    for (int i = 0; i < 40; i++) {
        rl_list *list = rl_list_create(&arena, 2);
        assert_non_null(list);
        assert_true(rl_list_add(&arena, list, inner) && rl_list_add(&arena, list, inner));
        inner = rl_value_list(list);
    }
    assert_int_equal(rl_json_write(&out, inner, &(rl_json_style){ .max_bytes = n }, &err),
                     RL_INVALID);
    assert_true(out.bytes <= n);
    rl_text_buffer_fini(&out);
    for (int i = 0; i < 1000; i++) {
        rl_list *list = rl_list_create(&arena, 1);
        assert_non_null(list);
        assert_true(rl_list_add(&arena, list, inner));
        inner = rl_value_list(list);
    }
    assert_int_equal(rl_json_write(&out, inner, NULL, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "nested deeper"));
    rl_text_buffer_fini(&out);
    free(text);
    rl_arena_fini(&arena);
}

static const rl_string *string_of(const char *text)
{
    const rl_string *string = rl_string_create(&arena, text, strlen(text));
    assert_non_null(string);
    return string;
}

/* Indentation, separators, sorting and \u escapes as json.dumps has them. */
static void json_writes_in_styles(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_value value;
    rl_text_buffer out = { 0 };
    assert_ok(read_text("{\"b\":[1,{}],\"a\":\"é😀\",\"e\":[]}", &value, &err));
    const rl_json_style styles[] = {
        { .indent = string_of("  ") },
        { .sort_keys = true,
          .ascii = true,
          .item_separator = string_of(","),
          .key_separator = string_of(":") },
    };
    static const char *const expected[] = {
        "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"é😀\",\n  \"e\": []\n}",
        "{\"a\":\"\\u00e9\\ud83d\\ude00\",\"b\":[1,{}],\"e\":[]}",
    };
    for (int i = 0; i < 2; i++) {
        out.bytes = 0;
        assert_ok(rl_json_write(&out, value, &styles[i], &err));
        assert_int_equal(out.bytes, strlen(expected[i]));
        assert_memory_equal(out.data, expected[i], out.bytes);
    }
    out.bytes = 0;
    assert_ok(rl_json_write_string(&out, "a\"\n", 3, &err));
    assert_memory_equal(out.data, "\"a\\\"\\n\"", 7);
    assert_int_equal(rl_json_write(&out, (rl_value){ .kind = RL_VALUE_UNDEFINED }, NULL, &err),
                     RL_INVALID);
    rl_text_buffer_fini(&out);
    rl_arena_fini(&arena);
}

/* Appending to a string again and again costs what is appended, and never changes the strings that
 * share its bytes. */
static void json_strings_append_in_place(void **state)
{
    (void)state;
    rl_arena_init(&arena, (size_t)64 << 20);
    const rl_string *text = string_of("begin"), *piece = string_of("0123456789"), *half = NULL;
    for (int i = 0; i < 100000; i++) {
        text = rl_string_join(&arena, text, piece);
        assert_non_null(text);
        if (i == 50000) half = text;
    }
    assert_int_equal(text->bytes, 1000005);
    const rl_string *other = rl_string_join(&arena, half, string_of("other"));
    assert_non_null(other);
    assert_memory_equal(other->at + half->bytes, "other", 5);
    assert_memory_equal(text->at + half->bytes, "01234", 5);
    assert_int_equal(rl_string_chars(other), other->bytes);
    assert_true(arena.taken_bytes < (size_t)16 << 20);
    rl_arena_fini(&arena);
}

RL_TEST_MAIN(RL_TEST(json, loses_nothing), RL_TEST(json, finds_members_of_large_objects),
             RL_TEST(json, refuses_what_is_not_json), RL_TEST(json, is_bounded),
             RL_TEST(json, writes_in_styles), RL_TEST(json, strings_append_in_place))
