/* test_base.c - the ground floor: number conversions, size arithmetic, files, the thread pool. */
#include "support/test.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Pools that go right after a loop, while workers are still on their way to it. */
static void base_pool_goes_while_workers_come(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (uint32_t round = 0; round < 500; round++) {
        rl_pool *pool = NULL;
        assert_ok(rl_pool_create(&pool, 4, &err));
        static count_job job;
        atomic_store(&job.total, 0);
        for (uint32_t loop = 0; loop < 1 + round % 8; loop++)
            rl_pool_run(pool, count_task, &job, 37);
        assert_int_equal(atomic_load(&job.total), 37 * (1 + round % 8));
        rl_pool_destroy(pool);
    }
}

/* Sleeping workers come back: loops with pauses between them, longer than workers stay awake. */
static void base_pool_wakes_sleepers(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_pool *pool = NULL;
    assert_ok(rl_pool_create(&pool, 4, &err));
    static count_job job;
    for (uint32_t round = 0; round < 30; round++) {
        atomic_store(&job.total, 0);
        rl_pool_run(pool, count_task, &job, 500);
        assert_int_equal(atomic_load(&job.total), 500);
        usleep(round % 3 * 700);
    }
    rl_pool_destroy(pool);
}

static void write_below(const char *root, const char *path, const char *text)
{
    char name[1024];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(name, 0777);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Physical cores, then every control group from the process up to the root.
 * Stands against: 64 threads in a container that may use two processors. */
static void base_cpu_count_respects_limits(void **state)
{
    (void)state;
    const char *root = rl_test_scratch("cpu_count");
    char path[256];
    assert_true(rl_cpu_count() >= 1);
    for (uint32_t cpu = 0; cpu < 256; cpu += 2) { /* pairs of neighbours share a core */
        for (uint32_t twin = 0; twin < 2; twin++) {
            char pair[32];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/core_cpus_list",
                     cpu + twin);
            snprintf(pair, sizeof pair, "%u-%u\n", cpu, cpu + 1);
            write_below(root, path, pair);
        }
    }
    write_below(root, "/proc/self/cgroup", "");
    uint32_t all = rl_cpu_count_below("/nonexistent"), cores = rl_cpu_count_below(root);
    assert_true(cores >= (all + 1) / 2 && cores <= all);

    /* Without siblings, so that the limits below are what counts. */
    root = rl_test_scratch("cpu_count_groups");
    write_below(root, "/proc/self/cgroup", "0::/a/b\n");
    write_below(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    write_below(root, "/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    assert_int_equal(rl_cpu_count_below(root), all);
    write_below(root, "/sys/fs/cgroup/a/cpu.max", "120000 100000\n"); /* the parent's counts */
    assert_int_equal(rl_cpu_count_below(root), 1);
    write_below(root, "/sys/fs/cgroup/a/cpu.max", "20000 100000\n");
    assert_int_equal(rl_cpu_count_below(root), 1);
    write_below(root, "/sys/fs/cgroup/a/cpu.max", "99900000 100000\n");
    assert_int_equal(rl_cpu_count_below(root), all);
    write_below(root, "/proc/self/cgroup", "5:memory:/x\n4:cpuacct,cpu:/c\n");
    write_below(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
    write_below(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    assert_int_equal(rl_cpu_count_below(root), all);
    write_below(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
    assert_int_equal(rl_cpu_count_below(root), 1);
}

RL_TEST_MAIN(RL_TEST(base, f16_round_trip), RL_TEST(base, checked_arithmetic),
             RL_TEST(base, file_errors), RL_TEST(base, pool_runs_each_task_once),
             RL_TEST(base, pool_goes_while_workers_come), RL_TEST(base, pool_wakes_sleepers),
             RL_TEST(base, cpu_count_respects_limits))
