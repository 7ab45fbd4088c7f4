/* test_number.c - decimal text to numbers and back. */
#include "support/test.h"

#include <locale.h>
#include <math.h>

#include "text/number.h"

static void check_print(double value, const char *expected)
{
    char text[RL_NUMBER_ROOM];
    size_t bytes = rl_float_print(value, text);
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
}

/* The form is Python's, at all its borders. */
static void number_prints_as_python(void **state)
{
    (void)state;
    check_print(0.0, "0.0");
    check_print(-0.0, "-0.0");
    check_print(1, "1.0");
    check_print(-2.5, "-2.5");
    check_print(10.5, "10.5");
    check_print(100, "100.0");
    check_print(0.1, "0.1");
    check_print(1e15, "1000000000000000.0");
    check_print(1234567890123456, "1234567890123456.0");
    check_print(1e16, "1e+16");
    check_print(1.5e16, "1.5e+16");
    check_print(0.0001, "0.0001");
    check_print(0.00012345, "0.00012345");
    check_print(0.00001, "1e-05");
    check_print(1e100, "1e+100");
    check_print(1e22, "1e+22");
    check_print(1e23, "1e+23");
    check_print(9007199254740993.0, "9007199254740992.0");
    check_print(5e-324, "5e-324");
    check_print(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_print(1.7976931348623157e308, "1.7976931348623157e+308");
    check_print(0x1p-44, "5.684341886080802e-14"); /* the nearest 16 digits do not read back */
    check_print(INFINITY, "inf");
    check_print(-INFINITY, "-inf");
    check_print(NAN, "nan");
}

/* What is printed reads back as the same number, and no decimal of fewer digits does. */
static void number_is_shortest(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rl_test_random(&seed);
        if (i % 3 == 0) bits &= ~UINT64_C(0) << 52; /* powers of two */
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        char text[RL_NUMBER_ROOM], shorter[64];
        size_t bytes = rl_float_print(value, text);
        if (rl_float_read(text, bytes) != value) fail_msg("%s does not read back", text);
        int digits = 0, zeros = 0;
        for (size_t k = 0; k < bytes && text[k] != 'e'; k++) {
            if (text[k] < '0' || text[k] > '9' || (!digits && text[k] == '0')) continue;
            digits++;
            zeros = text[k] == '0' ? zeros + 1 : 0;
        }
        digits -= zeros;
        if (digits < 2) continue;
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
        if (strtod(shorter, NULL) == value)
            fail_msg("%s is not the shortest, %s is", text, shorter);
    }
}

/* Reading rounds correctly, also where many digits matter, and knows no locale. */
static void number_reads_floats(void **state)
{
    (void)state;
    char text[2000];
    assert_true(rl_float_read("-12.5e-1", 8) == -1.25);
    assert_true(rl_float_read("1_000.25", 8) == 1000.25);
    assert_true(rl_float_read("0.0", 3) == 0 && signbit(rl_float_read("-0.0", 4)));
    assert_true(isinf(rl_float_read("1e999999999999999999999", 23)));
    assert_true(rl_float_read("1e-999999999999999999999", 24) == 0);
    assert_true(rl_float_read("123456789e-8", 12) == 1.23456789);
    /* 1 + 2^-53 exactly is a tie, one digit a thousand places later is not. */
    int n = snprintf(text, sizeof text, "1.00000000000000011102230246251565404236316680908203125");
    assert_true(rl_float_read(text, (size_t)n) == 1.0);
    memset(text + n, '0', 1500);
    text[n + 1500] = '1';
    assert_true(rl_float_read(text, (size_t)n + 1501) == 1.0 + 0x1p-52);
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        check_print(2.5, "2.5");
        assert_true(rl_float_read("2.5", 3) == 2.5);
        setlocale(LC_NUMERIC, "C");
    }
}

/* Integers are exact up to 64 bits and keep their digits beyond. */
static void number_reads_integers(void **state)
{
    (void)state;
    rl_arena arena;
    rl_value value;
    bool too_long;
    rl_arena_init(&arena, 0);
    assert_true(rl_int_read(&arena, "9007199254740993", 16, 10, &value, &too_long));
    assert_true(value.kind == RL_VALUE_INT && value.integer == 9007199254740993);
    assert_true(rl_int_read(&arena, "-9223372036854775808", 20, 10, &value, &too_long));
    assert_true(value.kind == RL_VALUE_INT && value.integer == INT64_MIN);
    assert_true(rl_int_read(&arena, "9223372036854775807", 19, 10, &value, &too_long));
    assert_true(value.kind == RL_VALUE_INT && value.integer == INT64_MAX);
    assert_true(rl_int_read(&arena, "9223372036854775808", 19, 10, &value, &too_long));
    assert_true(value.kind == RL_VALUE_BIGINT && rl_string_is(value.string, "9223372036854775808"));
    assert_true(rl_int_read(&arena, "-0012345678901234567890123", 26, 10, &value, &too_long));
    assert_true(rl_string_is(value.string, "-12345678901234567890123"));
    assert_true(rl_int_read(&arena, "ff_ff", 5, 16, &value, &too_long) && value.integer == 65535);
    assert_false(rl_int_read(&arena, "fffffffffffffffff", 17, 16, &value, &too_long));
    assert_true(too_long);
    rl_arena_fini(&arena);
}

RL_TEST_MAIN(RL_TEST(number, prints_as_python), RL_TEST(number, is_shortest),
             RL_TEST(number, reads_floats), RL_TEST(number, reads_integers))
