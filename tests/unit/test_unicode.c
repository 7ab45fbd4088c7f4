/* test_unicode.c - UTF-8 decoding, repair and streaming, and NFC. */
#include "support/test.h"

#include <time.h>

#include "base/bytes.h"
#include "support/vocabulary.h"
#include "text/unicode.h"
#include "text/utf8_stream.h"

/* Every code point survives encoding and decoding, and nothing else is accepted.
 * Stands against: surrogates, overlong forms, and values that no character has. */
static void unicode_code_points_round_trip(void **state)
{
    (void)state;
    char text[4];
    uint32_t code;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t n = rl_utf8_encode(c, text);
        assert_int_equal(rl_utf8_decode(text, n, &code), n);
        assert_int_equal(code, c);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(rl_utf8_decode(text, cut, &code), cut);
            assert_true(code == RL_UTF8_CUT);
        }
    }
    /* All sequences of two bytes, and all of three that begin one of the narrow ranges. */
    size_t valid = 0;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const char two[2] = { (char)a, (char)b };
            valid += rl_utf8_is_valid(two, 2, NULL);
        }
    }
    assert_int_equal(valid, 128 * 128 + 1920);
    valid = 0;
    for (unsigned a = 0xe0; a < 0xf0; a++) {
        for (unsigned b = 0; b < 256; b++) {
            for (unsigned c = 0; c < 256; c++) {
                const char three[3] = { (char)a, (char)b, (char)c };
                valid += rl_utf8_is_valid(three, 3, NULL);
            }
        }
    }
    assert_int_equal(valid, 0x10000 - 0x800 - 0x800);
}

typedef struct repair_case {
    const char *input;
    size_t bytes;
    const char *output;
    size_t bad;
} repair_case;

#define FFFD RL_UTF8_REPLACEMENT

/* Stands against: a replacement that eats a valid neighbour or reports the wrong place. */
static void unicode_replaces_maximal_subparts(void **state)
{
    (void)state;
    static const repair_case cases[] = {
        { "abc\xff", 4, "abc" FFFD, 3 },
        { "\xe4\xbd"
          "A",
          3, FFFD "A", 0 },
        { "\xf0\x9f\x98\xf0\x9f\x98\x80", 7, FFFD "\xf0\x9f\x98\x80", 0 },
        { "\xe0\x80\x80", 3, FFFD FFFD FFFD, 0 },
        { "\xed\xa0\x80", 3, FFFD FFFD FFFD, 0 },
        { "\xf4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD, 0 },
        { "\xf4\x8f\xbf\xbf\xf4\x8f\xbf", 7, "\xf4\x8f\xbf\xbf" FFFD, 4 },
        { "\xc3\xa9\xc3(", 4, "\xc3\xa9" FFFD "(", 2 },
        { "12345678\xc3", 9, "12345678" FFFD, 8 },
        { "1234567\xc3\xa9\x80zzzzzzzzzzz", 21, "1234567\xc3\xa9" FFFD "zzzzzzzzzzz", 9 },
    };
    rl_error err = { "" };
    rl_text_buffer out = { 0 };
    for (size_t i = 0; i < RL_COUNT_OF(cases); i++) {
        size_t bad = 99;
        assert_false(rl_utf8_is_valid(cases[i].input, cases[i].bytes, &bad));
        assert_int_equal(bad, cases[i].bad);
        out.bytes = 0;
        assert_ok(rl_utf8_replace(cases[i].input, cases[i].bytes, &out, &err));
        assert_int_equal(out.bytes, strlen(cases[i].output));
        assert_memory_equal(out.data, cases[i].output, out.bytes);
        assert_true(rl_utf8_is_valid(out.data, out.bytes, NULL));
    }
    rl_text_buffer_fini(&out);
}

/* However random bytes are cut into pushes, the stream gives what repairing the whole gives, and
 * what it holds back is never complete.
 * Stands against: half a character on the screen, or one that is lost between two tokens. */
static void utf8_stream_equals_repair(void **state)
{
    (void)state;
    static const unsigned char likely[] = { 'a',  0x80, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0, 0xe4,
                                            0xed, 0xf0, 0xf4, 0xff, 0x90, 0x8f, 0xc0 };
    rl_error err = { "" };
    uint64_t seed = 7;
    rl_text_buffer whole = { 0 };
    for (int round = 0; round < 20000; round++) {
        char text[24], out[RL_UTF8_STREAM_ROOM(24) + 8], all[256];
        size_t bytes = rl_test_random(&seed) % (sizeof text + 1), n_all = 0;
        for (size_t i = 0; i < bytes; i++)
            text[i] = (char)likely[rl_test_random(&seed) % sizeof likely];
        whole.bytes = 0;
        assert_ok(rl_utf8_replace(text, bytes, &whole, &err));
        rl_utf8_stream stream = { { 0 }, 0 };
        for (size_t at = 0; at < bytes;) {
            size_t step = 1 + rl_test_random(&seed) % 5;
            if (step > bytes - at) step = bytes - at;
            memset(out, 0x5a, sizeof out);
            size_t n = rl_utf8_stream_push(&stream, text + at, step, out);
            assert_true(n <= RL_UTF8_STREAM_ROOM(step));
            assert_int_equal(out[RL_UTF8_STREAM_ROOM(step)], 0x5a);
            assert_true(rl_utf8_is_valid(out, n, NULL));
            memcpy(all + n_all, out, n);
            n_all += n;
            at += step;
            uint32_t code = RL_UTF8_CUT;
            if (stream.n_held) {
                assert_int_equal(rl_utf8_decode(stream.held, stream.n_held, &code), stream.n_held);
                assert_true(code == RL_UTF8_CUT);
            }
        }
        n_all += rl_utf8_stream_flush(&stream, all + n_all);
        assert_int_equal(stream.n_held, 0);
        assert_int_equal(n_all, whole.bytes);
        assert_memory_equal(all, whole.data, n_all);
    }
    rl_text_buffer_fini(&whole);
}

static void check_nfc(const char *text, size_t bytes, const char *expected, size_t expected_bytes)
{
    rl_error err = { "" };
    rl_text_buffer out = { 0 };
    assert_ok(rl_nfc(text, bytes, &out, &err));
    if (out.bytes != expected_bytes ||
        (expected_bytes && memcmp(out.data, expected, expected_bytes)))
        fail_msg("NFC of \"%.*s\" is \"%.*s\"", (int)bytes, text, (int)out.bytes, out.data);
    rl_text_buffer_fini(&out);
}

/* Stands against: each of the four parts of NFC missing, and stretches cut in the wrong place. */
static void unicode_nfc(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "" },
        { "plain ASCII", "plain ASCII" },
        { "e\u0301", "\u00e9" },
        { "xe\u0301y", "x\u00e9y" },
        { "e\u0301e\u0301 e\u0302", "\u00e9\u00e9 \u00ea" },
        { "\u0301e", "\u0301e" }, /* a mark with nothing before it  */
        { "\u00e9", "\u00e9" },
        { "\u00e9\u0302", "\u00e9\u0302" },
        { "a\u0315\u0300\u05ae", "\u00e0\u05ae\u0315" }, /* ordering                    */
        { "a\u0323\u0307", "\u1ea1\u0307" },
        { "a\u0307\u0323", "\u1ea1\u0307" },
        { "\u212b", "\u00c5" }, /* singleton                      */
        { "\u2126x", "\u03a9x" },
        { "\u0958", "\u0915\u093c" }, /* composition exclusion          */
        { "\u0915\u093c", "\u0915\u093c" },
        { "\ufb01", "\ufb01" },             /* compatibility only: stays      */
        { "\u1100\u1161\u11a8", "\uac01" }, /* Hangul                         */
        { "\uac00\u11a8", "\uac01" },
        { "\uac00 \u11a8", "\uac00 \u11a8" },
        { "\uac00\u11a7\u0301z", "\uac00\u11a7\u0301z" }, /* no tail, though next to them */
        { "\u1100\u1161\u11a7\u11a7", "\uac00\u11a7\u11a7" },
        { "\uf900\u4f60", "\u8c48\u4f60" },
        { "\U0001d15e", "\U0001d157\U0001d165" },
        { "\u0dd9\u0dcf\u0dca", "\u0ddd" }, /* starters that compose          */
        { "\u1e9b\u0323", "\u1e9b\u0323" },
        { "\u0344", "\u0308\u0301" },
        { "\xc2\xa0\u0301", "\xc2\xa0\u0301" },
        { "o\u0302\u0323\u00e9\u0323u", "\u1ed9\u1eb9\u0301u" },
    };
    for (size_t i = 0; i < RL_COUNT_OF(cases); i++)
        check_nfc(cases[i][0], strlen(cases[i][0]), cases[i][1], strlen(cases[i][1]));
    check_nfc("\0e\u0301\0", 5, "\0\u00e9\0", 4);
    static const char quick[] =
        "\u00e9 and \u02ff, and more than one block of sixty-four bytes, as it is read";
    assert_true(rl_nfc_quick(quick, sizeof quick - 1));
    for (size_t at = 0; at < 140; at++) {
        char text[142];
        memset(text, 'a', sizeof text);
        memcpy(text + at, "\u0300", 2);
        assert_false(rl_nfc_quick(text, sizeof text));
        assert_true(rl_nfc_quick(text, at));
    }
}

/* NFC twice is NFC once, and every single character keeps to that, on its own and among others.
 * Stands against: a stretch that ends too early. */
static void unicode_nfc_is_stable(void **state)
{
    (void)state;
    rl_error err = { "" };
    uint64_t seed = 3;
    static const uint32_t ranges[][2] = {
        { 0x20, 0x7f },     { 0xc0, 0x2ff },    { 0x300, 0x36f },   { 0x300, 0x36f },
        { 0x900, 0xdff },   { 0x1100, 0x11ff }, { 0x1e00, 0x1fff }, { 0xac00, 0xac40 },
        { 0x3041, 0x309a }, { 0xf900, 0xfaff }, { 0x590, 0x5ff },   { 0x1d150, 0x1d1c0 },
    };
    rl_text_buffer text = { 0 }, once = { 0 }, twice = { 0 };
    for (int round = 0; round < 20000; round++) {
        text.bytes = once.bytes = twice.bytes = 0;
        size_t n = 1 + rl_test_random(&seed) % 12;
        assert_ok(rl_text_buffer_reserve(&text, 4 * n, &err));
        for (size_t i = 0; i < n; i++) {
            const uint32_t *range = ranges[rl_test_random(&seed) % RL_COUNT_OF(ranges)];
            uint32_t code = range[0] + (uint32_t)(rl_test_random(&seed) % (range[1] - range[0]));
            text.bytes += rl_utf8_encode(code, text.data + text.bytes);
        }
        assert_ok(rl_nfc(text.data, text.bytes, &once, &err));
        assert_ok(rl_nfc(once.data, once.bytes, &twice, &err));
        assert_int_equal(once.bytes, twice.bytes);
        assert_memory_equal(once.data, twice.data, once.bytes);
        assert_true(once.bytes <= 3 * text.bytes);
        if (rl_nfc_quick(text.data, text.bytes)) {
            assert_int_equal(once.bytes, text.bytes);
            assert_memory_equal(once.data, text.data, text.bytes);
        }
    }
    rl_text_buffer_fini(&text);
    rl_text_buffer_fini(&once);
    rl_text_buffer_fini(&twice);
}

/* A million combining marks in the worst order.
 * Stands against: quadratic ordering, with which this would take an hour. */
static void unicode_nfc_of_many_marks(void **state)
{
    (void)state;
    enum { N = 1000000 };
    rl_error err = { "" };
    rl_text_buffer text = { 0 }, out = { 0 };
    assert_ok(rl_text_buffer_append(&text, "a", 1, &err));
    for (int i = 0; i < N / 2; i++)
        assert_ok(rl_text_buffer_append(&text, "\u0301\u0323", 4, &err));
    clock_t start = clock();
    assert_ok(rl_nfc(text.data, text.bytes, &out, &err));
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    /* The first U+0323 joins the letter, the others go before all U+0301. */
    assert_int_equal(out.bytes, 3 + 2 * (N - 1));
    assert_memory_equal(out.data, "\u1ea1\u0323\u0323", 7);
    assert_memory_equal(out.data + out.bytes - 4, "\u0301\u0301", 4);
    rl_text_buffer_fini(&text);
    rl_text_buffer_fini(&out);
}

/* The table of cases of the fixture, through the stream. */
static void utf8_stream_matches_fixture(void **state)
{
    (void)state;
    rl_text_buffer expected = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/stream.jsonl"));
    const cJSON *line;
    cJSON_ArrayForEach(line, lines)
    {
        rl_utf8_stream stream = { { 0 }, 0 };
        const cJSON *emit = cJSON_GetObjectItem(line, "emit");
        const cJSON *pieces = cJSON_GetObjectItem(line, "bytes"), *piece;
        int index = 0;
        char out[1024];
        cJSON_ArrayForEach(piece, pieces)
        {
            char bytes[256];
            size_t n = 0;
            for (const char *hex = piece->valuestring; *hex; hex += 2) {
                unsigned value;
                assert_int_equal(sscanf(hex, "%2x", &value), 1);
                bytes[n++] = (char)value;
            }
            assert_true(RL_UTF8_STREAM_ROOM(n) <= sizeof out);
            size_t n_out = rl_utf8_stream_push(&stream, bytes, n, out);
            rl_test_text(cJSON_GetArrayItem(emit, index++), NULL, &expected);
            assert_int_equal(n_out, expected.bytes);
            assert_memory_equal(out, expected.data, n_out);
        }
        rl_test_text(line, "flush", &expected);
        assert_int_equal(rl_utf8_stream_flush(&stream, out), expected.bytes);
        assert_memory_equal(out, expected.data, expected.bytes);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&expected);
}

RL_TEST_MAIN(RL_TEST(unicode, code_points_round_trip), RL_TEST(unicode, replaces_maximal_subparts),
             RL_TEST(utf8_stream, equals_repair), RL_TEST(utf8_stream, matches_fixture),
             RL_TEST(unicode, nfc), RL_TEST(unicode, nfc_is_stable),
             RL_TEST(unicode, nfc_of_many_marks))
