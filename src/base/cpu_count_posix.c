/* cpu_count_posix.c - how many threads are worth starting: rl_cpu_count() of thread.h.
 *
 * Three limits, the smallest counts: the processors that the affinity mask allows, taken by
 * physical core (two threads of one core share its vector units), and the CPU quota of every
 * control group above the process, version 1 and 2. */
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CPUS 4096

/* First line of root/path without the line's end; false when there is none. */
static bool read_line(const char *root, const char *path, char *out, size_t room)
{
    char name[1024];
    if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name) return false;
    FILE *file = fopen(name, "r");
    if (!file) return false;
    const bool got = fgets(out, (int)room, file) != NULL;
    fclose(file);
    if (got) out[strcspn(out, "\n")] = 0;
    return got;
}

/* The lowest processor of the core that `cpu` belongs to; `cpu` itself where nobody knows. */
static uint32_t core_of(const char *root, uint32_t cpu)
{
    static const char *const names[] = { "core_cpus_list", "thread_siblings_list" };
    for (int i = 0; i < 2; i++) {
        char path[128], line[256];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/%s", cpu, names[i]);
        if (!read_line(root, path, line, sizeof line)) continue;
        char *end;
        const unsigned long first = strtoul(line, &end, 10);
        if (end != line && first < MAX_CPUS) return (uint32_t)first;
    }
    return cpu;
}

static uint32_t allowed_cores(const char *root)
{
#if defined(__linux__)
    static const size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    uint8_t *taken = calloc(MAX_CPUS, 1);
    uint32_t cores = 0;
    if (set && taken && !sched_getaffinity(0, bytes, set))
        for (uint32_t cpu = 0; cpu < MAX_CPUS; cpu++)
            if (CPU_ISSET_S(cpu, bytes, set)) {
                const uint32_t core = core_of(root, cpu);
                cores += !taken[core];
                taken[core] = 1;
            }
    free(taken);
    CPU_FREE(set);
    if (cores) return cores;
#else
    (void)root;
    (void)core_of;
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* Processors that quota / period make, rounded to the nearest; 0: no limit. */
static uint32_t quota_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    const long long cpus = (quota + period / 2) / period;
    return cpus < 1 ? 1 : cpus > MAX_CPUS ? MAX_CPUS : (uint32_t)cpus;
}

static uint32_t group_limit(const char *root, const char *folder, bool version_2)
{
    char path[1024], line[128];
    long long quota = -1, period = 0;
    if (version_2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_line(root, path, line, sizeof line)) return 0;
        if (sscanf(line, "%lld %lld", &quota, &period) != 2) return 0; /* "max 100000" */
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!read_line(root, path, line, sizeof line)) return 0;
        quota = strtoll(line, NULL, 10);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_line(root, path, line, sizeof line)) return 0;
        period = strtoll(line, NULL, 10);
    }
    return quota_cpus(quota, period);
}

static void lower(uint32_t *limit, uint32_t other)
{
    if (other && other < *limit) *limit = other;
}

/* All groups from `group` up to the root of the hierarchy below `mount`. */
static void limit_by_groups(const char *root, const char *mount, const char *group, bool version_2,
                            uint32_t *limit)
{
    char folder[768];
    const int prefix = snprintf(folder, sizeof folder, "%s", mount);
    if (snprintf(folder + prefix, sizeof folder - (size_t)prefix, "%s", group) >=
        (int)(sizeof folder - (size_t)prefix))
        return;
    for (;;) {
        lower(limit, group_limit(root, folder, version_2));
        char *slash = strrchr(folder + prefix, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static bool names_cpu(const char *controllers)
{
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, "cpu", 3) && (at[3] == ',' || at[3] == 0)) return true;
    return false;
}

uint32_t rl_cpu_count_below(const char *root)
{
    uint32_t limit = allowed_cores(root);
    char name[1024], line[1024];
    if (snprintf(name, sizeof name, "%s/proc/self/cgroup", root) >= (int)sizeof name) return limit;
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file)) { /* "number:controllers:/group" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0;
        *group++ = 0;
        if (!*controllers) {
            limit_by_groups(root, "/sys/fs/cgroup", group, true, &limit);
            limit_by_groups(root, "/sys/fs/cgroup/unified", group, true, &limit);
        } else if (names_cpu(controllers)) {
            limit_by_groups(root, "/sys/fs/cgroup/cpu", group, false, &limit);
            limit_by_groups(root, "/sys/fs/cgroup/cpu,cpuacct", group, false, &limit);
        }
    }
    if (file) fclose(file);
    return limit;
}

uint32_t rl_cpu_count(void)
{
    return rl_cpu_count_below("");
}
