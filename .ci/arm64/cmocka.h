/* cmocka.h - a stand-in for the few functions of cmocka that the kernel tests use, for cross builds
 * where the library is not there. Same names, same meaning, nothing more. */
#ifndef RL_CI_ARM64_CMOCKA_H
#define RL_CI_ARM64_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};

extern jmp_buf mini_cmocka_leave; /* 1: failed, 2: skipped */

_Noreturn static inline void mini_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    longjmp(mini_cmocka_leave, 1);
}

#define fail_msg(...) mini_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip()        longjmp(mini_cmocka_leave, 2)
#define assert_true(e)                                                                             \
    do {                                                                                           \
        if (!(e)) mini_fail(__FILE__, __LINE__, "%s", #e);                                         \
    } while (0)
#define assert_false(e)        assert_true(!(e))
#define assert_null(e)         assert_true(!(e))
#define assert_non_null(e)     assert_true((e) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_int_equal(a, b)                                                                     \
    do {                                                                                           \
        long long mini_a = (long long)(a), mini_b = (long long)(b);                                \
        if (mini_a != mini_b)                                                                      \
            mini_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #a, mini_a, mini_b);             \
    } while (0)
#define assert_in_range(a, low, high)    assert_true((a) >= (low) && (a) <= (high))
#define assert_string_equal(a, b)        assert_true(!strcmp(a, b))
#define assert_string_not_equal(a, b)    assert_true(strcmp(a, b))
#define assert_memory_equal(a, b, bytes) assert_true(!memcmp(a, b, bytes))

int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n_tests,
                            int (*setup)(void **), int (*teardown)(void **));

#endif
