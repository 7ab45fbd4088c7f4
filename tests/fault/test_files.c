/* test_files.c - base/file.h when allocations and reads fail; also proves the fault machinery. */
#include "support/fault.h"
#include "support/test.h"

#include "base/file.h"

static const char *write_small_file(void)
{
    const char *path = rl_test_scratch("fault_files.bin");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fputs("twelve bytes", out);
    fclose(out);
    return path;
}

/* The counter sees every call, strikes exactly once, and a later call works again.
 * Stands against: fault tests that pass because nothing ever fails. */
static void fault_strikes_the_nth_call(void **state)
{
    (void)state;
    void *volatile block[4] = { NULL };
    int64_t live = rl_fault_live();
    rl_fault_arm(2);
    for (int i = 0; i < 4; i++)
        block[i] = malloc(16);
    assert_true(rl_fault_disarm());
    assert_int_equal(rl_fault_calls(), 4);
    assert_non_null(block[1]);
    assert_null(block[2]);
    assert_non_null(block[3]);
    assert_int_equal(rl_fault_live() - live, 3);
    for (int i = 0; i < 4; i++)
        free(block[i]);
    rl_fault_arm_from(1);
    for (int i = 0; i < 4; i++)
        block[i] = calloc(1, 16);
    assert_true(rl_fault_disarm());
    assert_non_null(block[0]);
    assert_null(block[1]);
    assert_null(block[3]);
    free(block[0]);
    assert_int_equal(rl_fault_live(), live);
}

/* Stands against: a leaked descriptor or buffer, and against an error without a sentence. */
static void files_survive_any_fault(void **state)
{
    (void)state;
    const char *path = write_small_file();
    int64_t live = rl_fault_live();
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        assert_true(n < 100);
        rl_error err = { "" };
        char *text = NULL;
        size_t bytes = 0;
        rl_fault_arm(n);
        rl_status status = rl_file_read_all(path, 100, &text, &bytes, &err);
        fired = rl_fault_disarm();
        if (fired) {
            assert_true(status == RL_NOMEM || status == RL_IO);
            assert_non_null(strstr(err.text, path));
            assert_null(text);
        } else {
            assert_int_equal(status, RL_OK);
            assert_int_equal(bytes, 12);
            assert_string_equal(text, "twelve bytes");
            assert_true(n >= 3);
        }
        free(text);
        assert_int_equal(rl_fault_live(), live);
    }
}

RL_TEST_MAIN(RL_TEST(fault, strikes_the_nth_call), RL_TEST(files, survive_any_fault))
