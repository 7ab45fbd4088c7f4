/* test.h - what every test program of the project shares: cmocka, one entry per test, skipping.
 *
 * A test program ends with
 *     RL_TEST_MAIN(RL_TEST(cache, keeps_pinned_slots), RL_TEST(cache, ...))
 * where RL_TEST(module, behaviour) names the function module_behaviour(void **state). Run without
 * arguments it plays all tests; with a name ("cache.keeps_pinned_slots") only that one, and then
 * exit code 77 says "skipped"; --list prints the names. ctest calls it once per name. */
#ifndef RL_TESTS_SUPPORT_TEST_H
#define RL_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

#define RL_TEST(module, behaviour)                                                                 \
    {                                                                                              \
#module "." #behaviour, module##_##behaviour, NULL, NULL, NULL                             \
    }

#define RL_TEST_MAIN(...)                                                                          \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                         \
        return rl_test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);                    \
    }

int rl_test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n_tests);

/* Leaves the test, printed as skipped with this reason. */
_Noreturn void rl_test_skip(const char *format, ...) RL_PRINTF(1, 2);

/* Fails with the sentence in *err unless status is RL_OK. */
#define assert_ok(expression)                                                                      \
    do {                                                                                           \
        rl_status assert_ok_status = (expression);                                                 \
        if (assert_ok_status)                                                                      \
            fail_msg("%s: %s (%s)", #expression, rl_status_name(assert_ok_status), err.text);      \
    } while (0)

/* RL_TEST_FIXTURES "/" name, in static storage of 8 rotating buffers. */
const char *rl_test_fixture(const char *format, ...) RL_PRINTF(1, 2);

/* A path below the build folder for files that a test writes; same storage rule. */
const char *rl_test_scratch(const char *format, ...) RL_PRINTF(1, 2);

/* Reads a whole file or fails the test. The caller frees. */
void *rl_test_read(const char *path, size_t *bytes);

/* A small random generator (splitmix64), the same numbers everywhere. */
uint64_t rl_test_random(uint64_t *state);
float rl_test_random_normal(uint64_t *state);

/* Relative L2 distance |a - b| / |b| over n values, in double; NaN and infinity give infinity. */
double rl_test_relative_l2(const float *a, const float *b, size_t n);
double rl_test_max_abs(const float *a, const float *b, size_t n);

#endif
