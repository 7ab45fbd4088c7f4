/* test_splitter.c - the split patterns, their short cuts, and what long runs cost. */
#include "support/test.h"

#include <time.h>

#include "base/bytes.h"
#include "support/vocabulary.h"
#include "text/splitter.h"
#include "text/unicode.h"

typedef struct pattern {
    rl_splitter *splitter;
    rl_split *split;
    rl_split *interpreted; /* the same without machine code */
} pattern;

static pattern open_pattern(const char *name)
{
    rl_error err = { "" };
    pattern p;
    assert_ok(rl_splitter_create(&p.splitter, "test", name, strlen(name), &err));
    assert_ok(rl_split_create(&p.split, p.splitter, &err));
    assert_ok(rl_split_create(&p.interpreted, p.splitter, &err));
    rl_split_interpret(p.interpreted);
    return p;
}

static void close_pattern(pattern p)
{
    rl_split_destroy(p.split);
    rl_split_destroy(p.interpreted);
    rl_splitter_destroy(p.splitter);
}

static void splitter_matches_fixture(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_text_buffer text = { 0 }, expected = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/splits.jsonl"));
    static const char *const names[] = { "qwen2", "qwen35" };
    for (size_t k = 0; k < RL_COUNT_OF(names); k++) {
        pattern p = open_pattern(names[k]);
        const cJSON *line, *piece;
        cJSON_ArrayForEach(line, lines)
        {
            const cJSON *pieces = cJSON_GetObjectItem(line, names[k]);
            if (!pieces) pieces = cJSON_GetObjectItem(line, "qwen2");
            rl_test_text(line, "text", &text);
            size_t at = 0, end;
            cJSON_ArrayForEach(piece, pieces)
            {
                rl_test_text(piece, NULL, &expected);
                assert_true(at < text.bytes);
                assert_ok(rl_split_next(p.split, text.data, text.bytes, at, &end, &err));
                assert_int_equal(end - at, expected.bytes);
                assert_memory_equal(text.data + at, expected.data, expected.bytes);
                assert_ok(rl_split_next_by_pattern(p.split, text.data, text.bytes, at, &end, &err));
                assert_int_equal(end - at, expected.bytes);
                at = end;
            }
            assert_int_equal(at, text.bytes);
        }
        close_pattern(p);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&text);
    rl_text_buffer_fini(&expected);
}

/* White space is the Unicode property, character by character: as the last but one of three, such a
 * character ends a piece of spaces; any other begins the next word.
 * Stands against: U+180E counted as a space (PCRE2), U+0085 or U+2028 not counted. */
static void splitter_knows_white_space(void **state)
{
    (void)state;
    rl_error err = { "" };
    pattern p = open_pattern("qwen2");
    size_t n_spaces = 0;
    for (uint32_t code = 1; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000) continue;
        bool space = (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 ||
                     code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
                     code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
        char text[16];
        size_t n = rl_utf8_encode(code, text), end;
        memcpy(text + n, "\t\t\t", 3);
        assert_ok(rl_split_next(p.split, text, n + 3, 0, &end, &err));
        /* Spaces run to the end; CR and LF end their piece; all else is a piece of its own. */
        bool line_end = code == '\r' || code == '\n';
        assert_int_equal(end, space && !line_end ? n + 3 : n);
        n_spaces += space;
    }
    assert_int_equal(n_spaces, 25);
    close_pattern(p);
}

static void splitter_refuses_unknown_names(void **state)
{
    (void)state;
    static const char *const names[] = { "", "qwen", "qwen2 ", "qwen22", "gpt-2", "default" };
    for (size_t i = 0; i < RL_COUNT_OF(names); i++) {
        rl_error err = { "" };
        rl_splitter *splitter = NULL;
        assert_int_equal(
            rl_splitter_create(&splitter, "file: key", names[i], strlen(names[i]), &err),
            RL_UNSUPPORTED);
        assert_null(splitter);
        assert_non_null(strstr(err.text, "file: key"));
        assert_non_null(strstr(err.text, names[i]));
    }
}

/* Random text from the characters on which the rules turn: short cuts and pattern agree.
 * Stands against: a short cut that forgets what may follow a word. */
static void splitter_short_cuts_change_nothing(void **state)
{
    (void)state;
    static const char *const atoms[] = {
        "a",      "Z",      "s",      "t",          "re",     "LL",     "'",      " ",
        " ",      "  ",     "\n",     "\r\n",       "\t",     "0",      "7",      ".",
        "!",      "<",      "|",      "\u00e9",     "\u0301", "\u4f60", "\u0660", "\u00b2",
        "\u2028", "\u180e", "\u017f", "\U0001f600", "\u0e33", "\x7f",   "\x1f",   "_"
    };
    rl_error err = { "" };
    uint64_t seed = 11;
    static const char *const names[] = { "qwen2", "qwen35" };
    for (size_t k = 0; k < RL_COUNT_OF(names); k++) {
        pattern p = open_pattern(names[k]);
        for (int round = 0; round < 60000; round++) {
            char text[160] = "";
            int n = 1 + (int)(rl_test_random(&seed) % 24);
            for (int i = 0; i < n; i++)
                strcat(text, atoms[rl_test_random(&seed) % RL_COUNT_OF(atoms)]);
            size_t bytes = strlen(text);
            for (size_t at = 0, end, slow, other; at < bytes; at = end) {
                assert_ok(rl_split_next(p.split, text, bytes, at, &end, &err));
                assert_ok(rl_split_next_by_pattern(p.split, text, bytes, at, &slow, &err));
                assert_ok(rl_split_next_by_pattern(p.interpreted, text, bytes, at, &other, &err));
                if (end != slow || end != other)
                    fail_msg("%s: piece at %zu of \"%s\"", names[k], at, text);
            }
        }
        close_pattern(p);
    }
}

/* Runs of millions of characters of every class.
 * Stands against: match limits, a machine stack that overflows, and quadratic backing off. */
static void splitter_takes_long_runs(void **state)
{
    (void)state;
    static const char *const atoms[] = { "a",          "\u00e9", " ",      "\n",     "\r",
                                         "\t",         "!",      "\u0301", "\u3000", "\u4f60",
                                         "\U0001f600", " \n",    "\n ",    "!\n" };
    enum { BYTES = 3000000 };
    rl_error err = { "" };
    char *text = malloc(BYTES + 8);
    assert_non_null(text);
    pattern p = open_pattern("qwen2");
    clock_t start = clock();
    for (size_t k = 0; k < RL_COUNT_OF(atoms); k++) {
        size_t n = strlen(atoms[k]), bytes = 0;
        while (bytes + n <= BYTES) {
            memcpy(text + bytes, atoms[k], n);
            bytes += n;
        }
        size_t at = 0, end, pieces = 0;
        for (; at < bytes && pieces < 1000; at = end, pieces++)
            assert_ok(rl_split_next(p.split, text, bytes, at, &end, &err));
        assert_true(pieces <= 2 || !strcmp(atoms[k], "!\n"));
        text[bytes] = 'x'; /* a word behind the run: spaces must back off by one */
        for (at = 0, pieces = 0; at <= bytes && pieces < 1000; at = end, pieces++)
            assert_ok(rl_split_next_by_pattern(p.split, text, bytes + 1, at, &end, &err));
        assert_true(pieces <= 3 || !strcmp(atoms[k], "!\n"));
        for (at = 0, pieces = 0; at <= bytes && pieces < 1000; at = end, pieces++)
            assert_ok(rl_split_next_by_pattern(p.interpreted, text, bytes + 1, at, &end, &err));
        assert_true(pieces <= 3 || !strcmp(atoms[k], "!\n"));
    }
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
    close_pattern(p);
    free(text);
}

RL_TEST_MAIN(RL_TEST(splitter, matches_fixture), RL_TEST(splitter, knows_white_space),
             RL_TEST(splitter, refuses_unknown_names), RL_TEST(splitter, short_cuts_change_nothing),
             RL_TEST(splitter, takes_long_runs))
