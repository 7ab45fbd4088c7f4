/* cmocka.c - see cmocka.h beside it. */
#include "cmocka.h"

jmp_buf mini_cmocka_leave;

int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n_tests,
                            int (*setup)(void **), int (*teardown)(void **))
{
    (void)group;
    (void)setup;
    (void)teardown;
    volatile int failed = 0;
    for (volatile size_t i = 0; i < n_tests; i++) {
        void *state = NULL;
        int how = setjmp(mini_cmocka_leave);
        if (!how) tests[i].test_func(&state);
        printf("%s %s\n", how == 1 ? "FAILED " : how == 2 ? "SKIPPED" : "OK     ", tests[i].name);
        if (how == 1) failed++;
    }
    return failed;
}
