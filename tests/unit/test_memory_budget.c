/* test_memory_budget.c - free memory as told by made-up /proc and cgroup trees. */
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "cache/memory_budget.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static char root[512];

/* Every test has a tree of its own. */
static void new_tree(const char *name)
{
    snprintf(root, sizeof root, "%s", rl_test_scratch("budget_%s_%d", name, (int)getpid()));
    assert_int_equal(mkdir(root, 0755), 0);
}

static void put(const char *path, const char *format, ...) RL_PRINTF(2, 3);

static void put(const char *path, const char *format, ...)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(full, 0755);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    if (!file) fail_msg("%s: cannot write", full);
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

static void drop_tree(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void put_meminfo(uint64_t available)
{
    put("/proc/meminfo",
        "MemTotal:       32000000 kB\nMemFree:         1000000 kB\n"
        "MemAvailable:   %llu kB\nBuffers:           30000 kB\nCached: 500 kB\n",
        (unsigned long long)(available / 1024));
}

static rl_memory_budget read_tree(void)
{
    rl_memory_budget budget;
    rl_memory_budget_read(&budget, root);
    assert_true(strlen(budget.reason) > 0);
    return budget;
}

static void budget_machine_alone(void **state)
{
    (void)state;
    new_tree("m");
    put_meminfo(7 * GIB);
    rl_memory_budget budget = read_tree();
    assert_true(budget.free_bytes == 7 * GIB && budget.group_bytes == UINT64_MAX);
    assert_non_null(strstr(budget.reason, "7.0 GiB of memory are free"));
    drop_tree();
}

/* Version 1, as Docker on older systems mounts it: the container sees its own part only.
 * Stands against: being killed by the group's limit while the machine has plenty. */
static void budget_v1(void **state)
{
    (void)state;
    new_tree("v1");
    put_meminfo(20 * GIB);
    put("/proc/self/cgroup", "11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/init\n");
    put("/proc/self/mountinfo",
        "30 25 0:27 / /dev/shm rw - tmpfs tmpfs rw\n"
        "32 31 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,nosuid shared:9 - cgroup cgroup "
        "rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "%llu\n", (unsigned long long)(4 * GIB));
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "%llu\n", (unsigned long long)(3 * GIB));
    put("/sys/fs/cgroup/memory/memory.stat",
        "cache 1\ninactive_file 5\ntotal_inactive_file %llu\ntotal_active_file %llu\n",
        (unsigned long long)GIB, (unsigned long long)(GIB / 2));
    rl_memory_budget budget = read_tree();
    assert_true(budget.free_bytes == 4 * GIB - 3 * GIB + GIB + GIB / 2);
    assert_true(budget.group_limit == 4 * GIB);
    assert_non_null(strstr(budget.reason, "2.5 GiB are free under the 4.0 GiB limit"));
    /* version 1 says "none" by a huge number */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(read_tree().free_bytes == 20 * GIB);
    drop_tree();
}

/* Version 2, limit two levels up; a blank in the mount point.
 * Stands against: looking at the own group only, whose memory.max says "max". */
static void budget_v2_parents(void **state)
{
    (void)state;
    new_tree("v2");
    put_meminfo(20 * GIB);
    put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n");
    put("/proc/self/mountinfo", "24 1 0:22 / /sys/fs/c\\040g rw shared:9 - cgroup2 cgroup2 rw\n");
    put("/sys/fs/c g/user.slice/user-1000.slice/session-2.scope/memory.max", "max\n");
    put("/sys/fs/c g/user.slice/user-1000.slice/session-2.scope/memory.high", "max\n");
    put("/sys/fs/c g/user.slice/user-1000.slice/memory.max", "%llu\n",
        (unsigned long long)(10 * GIB));
    put("/sys/fs/c g/user.slice/user-1000.slice/memory.current", "%llu\n",
        (unsigned long long)(2 * GIB));
    put("/sys/fs/c g/user.slice/memory.max", "%llu\n", (unsigned long long)(16 * GIB));
    put("/sys/fs/c g/user.slice/memory.current", "%llu\n", (unsigned long long)(3 * GIB));
    rl_memory_budget budget = read_tree();
    assert_true(budget.free_bytes == 8 * GIB);
    assert_string_equal(budget.group, "/user.slice/user-1000.slice");
    put("/sys/fs/c g/user.slice/memory.high", "%llu\n", (unsigned long long)(6 * GIB));
    budget = read_tree();
    assert_true(budget.free_bytes == 3 * GIB);
    assert_string_equal(budget.group, "/user.slice");
    put("/sys/fs/c g/user.slice/memory.current", "%llu\n", (unsigned long long)(7 * GIB));
    assert_true(read_tree().free_bytes == 0); /* over the limit already */
    put_meminfo(1 * GIB);
    put("/sys/fs/c g/user.slice/memory.current", "0\n");
    budget = read_tree();
    assert_true(budget.free_bytes == 1 * GIB);
    assert_non_null(strstr(budget.reason, "of memory are free"));
    drop_tree();
}

/* A container with a cgroup namespace: the path is "/", and so is the mount's folder. */
static void budget_v2_namespace(void **state)
{
    (void)state;
    new_tree("ns");
    put_meminfo(20 * GIB);
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", "24 1 0:22 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n");
    put("/sys/fs/cgroup/memory.max", "%llu\n", (unsigned long long)(2 * GIB));
    put("/sys/fs/cgroup/memory.current", "%llu\n", (unsigned long long)(900 * MIB));
    put("/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file %llu\nactive_file %llu\n",
        (unsigned long long)(300 * MIB), (unsigned long long)(100 * MIB));
    assert_true(read_tree().free_bytes == 2 * GIB - 500 * MIB);
    /* moved into a sibling's namespace: the path points outside of what is mounted */
    put("/proc/self/cgroup", "0::/../other\n");
    assert_true(read_tree().free_bytes == 2 * GIB - 500 * MIB);
    drop_tree();
}

/* Both generations mounted at once; the tighter one decides. */
static void budget_hybrid(void **state)
{
    (void)state;
    new_tree("hy");
    put_meminfo(20 * GIB);
    put("/proc/self/cgroup", "4:memory:/jobs/7\n0::/jobs/7\n");
    put("/proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "%llu",
        (unsigned long long)(5 * GIB));
    put("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "0");
    put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "%llu", (unsigned long long)(3 * GIB));
    put("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "%llu", (unsigned long long)MIB);
    rl_memory_budget budget = read_tree();
    assert_true(budget.free_bytes == 3 * GIB - MIB);
    assert_string_equal(budget.group, "/jobs");
    drop_tree();
}

/* Nothing, or nonsense: no crash, no number made up. */
static void budget_survives_nonsense(void **state)
{
    (void)state;
    new_tree("no");
    rl_memory_budget budget = read_tree();
    assert_true(budget.free_bytes == 0 && budget.group_bytes == UINT64_MAX);
    assert_non_null(strstr(budget.reason, "does not say"));
    put_meminfo(2 * GIB);
    put("/proc/self/cgroup", "garbage\n::\n0::\n4:memory\n4:memory:no/slash/at/front\n");
    put("/proc/self/mountinfo", " - \n - cgroup\n1 - cgroup2 x\n"
                                "35 31 0:32 / /m rw - cgroup cgroup rw,memory_not\n"
                                "36 31 0:32 / /m rw - cgroup cgroup rw,memory\n");
    put("/m/memory.limit_in_bytes", "many\n");
    assert_true(read_tree().free_bytes == 2 * GIB);
    put("/m/memory.limit_in_bytes", "%llu\n", (unsigned long long)GIB);
    put("/proc/self/cgroup", "garbage\n4:memory:/gone\n");
    assert_true(read_tree().free_bytes == GIB); /* usage unknown: the limit itself */
    drop_tree();
    rl_memory_budget_read(&budget, ""); /* the system's own, whatever it is */
    assert_true(budget.free_bytes > 0);
}

/* What the pool gets. */
static void budget_pool(void **state)
{
    (void)state;
    rl_memory_budget budget = { .free_bytes = 32 * GIB };
    assert_true(rl_memory_budget_reserve(&budget) == GIB);
    assert_true(rl_memory_budget_pool(&budget, 2 * GIB, 17 * GIB) == 17 * GIB);
    assert_true(rl_memory_budget_pool(&budget, 20 * GIB, 17 * GIB) == 11 * GIB);
    assert_true(rl_memory_budget_pool(&budget, 40 * GIB, 17 * GIB) == 0);
    assert_true(rl_memory_budget_pool(&budget, UINT64_MAX, GIB) == 0);
    budget.free_bytes = GIB;
    assert_true(rl_memory_budget_reserve(&budget) == 128 * MIB);
    budget.free_bytes = 64 * MIB; /* a container for a small model */
    assert_true(rl_memory_budget_reserve(&budget) == 16 * MIB);
    assert_true(rl_memory_budget_pool(&budget, 40 * MIB, GIB) == 8 * MIB);
}

/* Small models have pools of a few MiB: "0.0 GiB" says nothing about them. */
static void budget_size_text(void **state)
{
    (void)state;
    char text[RL_SIZE_TEXT];
    assert_string_equal(rl_size_text(text, 6488064), "6.2 MiB");
    assert_string_equal(rl_size_text(text, GIB - 1), "1024.0 MiB");
    assert_string_equal(rl_size_text(text, 3 * GIB / 2), "1.5 GiB");
    assert_string_equal(rl_size_text(text, 0), "0.0 MiB");
    rl_size_text(text, UINT64_MAX);
}

RL_TEST_MAIN(RL_TEST(budget, machine_alone), RL_TEST(budget, v1), RL_TEST(budget, v2_parents),
             RL_TEST(budget, v2_namespace), RL_TEST(budget, hybrid),
             RL_TEST(budget, survives_nonsense), RL_TEST(budget, pool), RL_TEST(budget, size_text))
