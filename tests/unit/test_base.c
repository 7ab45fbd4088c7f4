/* test_base.c - the ground floor: number conversions, size arithmetic, files, the thread pool. */
#include "support/test.h"

#include <math.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/thread.h"

/* Every f16 value survives the way to f32 and back.
 * Stands against: wrong subnormals, which only show in tiny scales of real files. */
static void base_f16_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = rl_f32_from_f16((uint16_t)h);
        if (isnan(f)) continue;
        assert_int_equal(rl_f16_from_f32(f), h);
    }
    assert_true(rl_f32_from_f16(0x0001) == 0x1p-24f);
    assert_true(rl_f32_from_f16(0x3c00) == 1.0f);
    assert_int_equal(rl_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(rl_f16_from_f32(1.0f + 0x1p-11f), 0x3c00); /* ties to even */
    assert_int_equal(rl_f16_from_f32(0x1p-25f), 0x0000);
}

/* Stands against: a wrapped product that passes a bounds check. */
static void base_checked_arithmetic(void **state)
{
    (void)state;
    uint64_t r = 7;
    assert_false(rl_mul_u64(1ull << 33, 1ull << 31, &r));
    assert_int_equal(r, 7);
    assert_true(rl_mul_u64(1ull << 32, (1ull << 32) - 1, &r));
    assert_false(rl_add_u64(UINT64_MAX, 1, &r));
    assert_true(rl_add_u64(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
}

static void base_file_errors(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_file *file = NULL;
    assert_int_equal(rl_file_open(&file, "/nonexistent/x", &err), RL_IO);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    assert_int_equal(rl_file_open(&file, "/", &err), RL_IO);
    assert_non_null(strstr(err.text, "directory"));
    const char *path = rl_test_scratch("base_file.bin");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fputs("12345", out);
    fclose(out);
    assert_ok(rl_file_open(&file, path, &err));
    char text[8];
    assert_ok(rl_file_read(file, 1, text, 4, &err));
    assert_memory_equal(text, "2345", 4);
    assert_int_equal(rl_file_read(file, 3, text, 4, &err), RL_IO);
    assert_non_null(strstr(err.text, "ends"));
    rl_file_close(file);
}

typedef struct count_job {
    atomic_uint hits[1000];
    atomic_uint total;
} count_job;

static void count_task(void *arg, uint32_t index, uint32_t thread)
{
    count_job *job = arg;
    assert_true(thread < 4);
    atomic_fetch_add(&job->hits[index], 1);
    atomic_fetch_add(&job->total, 1);
}

/* Every index exactly once, many loops in a row, more threads than cores.
 * Stands against: a late worker that takes a task of the next loop. */
static void base_pool_runs_each_task_once(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_pool *pool = NULL;
    assert_ok(rl_pool_create(&pool, 4, &err));
    static count_job job;
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t n = round % 37 + 1;
        atomic_store(&job.total, 0);
        rl_pool_run(pool, count_task, &job, n);
        assert_int_equal(atomic_load(&job.total), n);
    }
    assert_int_equal(atomic_load(&job.hits[0]), 2000);
    rl_pool_destroy(pool);
}

RL_TEST_MAIN(RL_TEST(base, f16_round_trip), RL_TEST(base, checked_arithmetic),
             RL_TEST(base, file_errors), RL_TEST(base, pool_runs_each_task_once))
