/* memory_budget.c - free memory, as the machine and the control groups see it.
 *
 * /proc/self/cgroup says in which group we are, /proc/self/mountinfo where the hierarchy is mounted
 * and which part of it (a container often sees only its own part). From our group upwards every
 * limit is asked; the group that leaves least decides. */
#include "cache/memory_budget.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"

#define NO_LIMIT UINT64_MAX
#define MIB      (1024.0 * 1024.0)
#define GIB      (1024.0 * MIB)

enum { PATH = 1024, LINE = 4096 };

/* The names of one generation's files. */
typedef struct generation {
    const char *limits[2];
    const char *usage;
    const char *cached[2]; /* keys of memory.stat: file pages that can be given up */
} generation;

static const generation version1 = { { "memory.limit_in_bytes", NULL },
                                     "memory.usage_in_bytes",
                                     { "total_inactive_file", "total_active_file" } };
static const generation version2 = { { "memory.max", "memory.high" },
                                     "memory.current",
                                     { "inactive_file", "active_file" } };

/* ---- small files of the kernel ----------------------------------------------------------------- */

static FILE *open_at(const char *root, const char *folder, const char *name)
{
    char path[3 * PATH];
    int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

/* The number in a file of one; "max" is no limit. False when there is no such file or number. */
static bool read_number(const char *root, const char *folder, const char *name, uint64_t *out)
{
    char text[64] = "";
    FILE *file = open_at(root, folder, name);
    if (!file) return false;
    bool got = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (got && !strncmp(text, "max", 3)) {
        *out = NO_LIMIT;
        return true;
    }
    if (!got || !isdigit((unsigned char)text[0])) return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

/* The number behind `key` in a file of "key number" lines; 0 when it is not there. */
static uint64_t read_key(const char *root, const char *folder, const char *name, const char *key)
{
    char line[LINE];
    uint64_t value = 0;
    size_t n = strlen(key);
    FILE *file = open_at(root, folder, name);
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, n) || (line[n] != ' ' && line[n] != ':')) continue;
        value = strtoull(line + n + 1, NULL, 10);
        break;
    }
    if (file) fclose(file);
    return value;
}

/* Whether a comma-separated list has the word. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ',') &&
            (!at[n] || at[n] == ',' || isspace((unsigned char)at[n])))
            return true;
    return false;
}

/* ---- our group, and where it is mounted -------------------------------------------------------- */

/* The path of our group: of the v1 hierarchy with the memory controller, or of v2. */
static bool find_group(const char *root, bool v1, char out[PATH])
{
    char line[LINE];
    bool found = false;
    FILE *file = open_at(root, "/proc/self", "cgroup");
    while (!found && file && fgets(line, sizeof line, file)) {
        /* "4:memory:/path" or "0::/path" */
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controllers++;
        if (v1 ? !has_word(controllers, "memory") : *controllers != 0) continue;
        path[strcspn(path, "\n")] = 0;
        found = path[0] == '/' && strlen(path) < PATH;
        if (found) strcpy(out, path);
    }
    if (file) fclose(file);
    return found;
}

/* mountinfo writes blanks and backslashes as three octal digits. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; to++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && isdigit((unsigned char)at[2]) &&
            isdigit((unsigned char)at[3])) {
            *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = 0;
}

/* Where the hierarchy is mounted, and which of its folders stands there. */
static bool find_mount(const char *root, bool v1, char subtree[PATH], char point[PATH])
{
    char line[LINE];
    bool found = false;
    FILE *file = open_at(root, "/proc/self", "mountinfo");
    while (!found && file && fgets(line, sizeof line, file)) {
        /* 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory */
        char *rest = strstr(line, " - ");
        if (!rest) continue;
        *rest = 0;
        char type[64] = "", options[LINE] = "";
        if (sscanf(rest + 3, "%63s %*s %4095s", type, options) < 1) continue;
        if (strcmp(type, v1 ? "cgroup" : "cgroup2") || (v1 && !has_word(options, "memory")))
            continue;
        if (sscanf(line, "%*s %*s %*s %1023s %1023s", subtree, point) != 2) continue;
        unescape(subtree);
        unescape(point);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* One folder of the hierarchy: does it leave less than what we know already? */
static void ask_group(rl_memory_budget *out, const char *root, const generation *g,
                      const char *folder, const char *name)
{
    uint64_t limit = NO_LIMIT, used = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t value = 0;
        if (g->limits[i] && read_number(root, folder, g->limits[i], &value) && value < limit)
            limit = value;
    }
    /* version 1 says "no limit" by a number near 2^63 */
    if (limit >= UINT64_C(1) << 62) return;
    if (!read_number(root, folder, g->usage, &used) || used == NO_LIMIT) used = 0;
    uint64_t cached = read_key(root, folder, "memory.stat", g->cached[0]) +
                      read_key(root, folder, "memory.stat", g->cached[1]);
    used -= cached < used ? cached : used;
    uint64_t left = limit > used ? limit - used : 0;
    if (left >= out->group_bytes) return;
    out->group_bytes = left;
    out->group_limit = limit;
    snprintf(out->group, sizeof out->group, "%.*s", (int)sizeof out->group - 1, *name ? name : "/");
}

static void ask_hierarchy(rl_memory_budget *out, const char *root, bool v1)
{
    char group[PATH], subtree[PATH], point[PATH], folder[2 * PATH];
    if (!find_group(root, v1, group) || !find_mount(root, v1, subtree, point)) return;
    /* Of our path only what lies below the mounted folder can be seen. */
    char *below = group;
    size_t n = strlen(subtree);
    if (n > 1) {
        bool inside = !strncmp(group, subtree, n) && (!group[n] || group[n] == '/');
        if (inside)
            below += n;
        else
            *below = 0; /* a mount of somewhere else: its top is all we can ask */
    }
    if (strstr(below, "/..")) *below = 0;
    for (;;) {
        size_t end = strlen(below);
        while (end && below[end - 1] == '/')
            below[--end] = 0;
        int written = snprintf(folder, sizeof folder, "%s%s", point, below);
        if (written > 0 && (size_t)written < sizeof folder)
            ask_group(out, root, v1 ? &version1 : &version2, folder, below);
        if (!end) break;
        *strrchr(below, '/') = 0;
    }
}

static uint64_t machine_available(const char *root)
{
    uint64_t kib = read_key(root, "/proc", "meminfo", "MemAvailable");
    if (!kib) /* before Linux 3.14 */
        kib = read_key(root, "/proc", "meminfo", "MemFree") +
              read_key(root, "/proc", "meminfo", "Cached");
    if (kib) return kib * 1024;
#if defined(_SC_AVPHYS_PAGES)
    if (!*root) {
        long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
        if (pages > 0 && size > 0) return (uint64_t)pages * (uint64_t)size;
    }
#endif
    return 0;
}

void rl_memory_budget_read(rl_memory_budget *out, const char *root)
{
    RL_ASSERT(out && root);
    *out = (rl_memory_budget){ .group_bytes = NO_LIMIT, .group_limit = NO_LIMIT };
    out->machine_bytes = machine_available(root);
    ask_hierarchy(out, root, true);
    ask_hierarchy(out, root, false);
    out->free_bytes = out->machine_bytes;
    if (out->group_bytes < out->machine_bytes || !out->machine_bytes)
        out->free_bytes = out->group_bytes == NO_LIMIT ? 0 : out->group_bytes;
    char free_text[RL_SIZE_TEXT], limit_text[RL_SIZE_TEXT];
    rl_size_text(free_text, out->free_bytes);
    if (!out->free_bytes && out->group_bytes == NO_LIMIT)
        snprintf(out->reason, sizeof out->reason,
                 "the system does not say how much memory is free");
    else if (out->group_bytes == out->free_bytes)
        snprintf(out->reason, sizeof out->reason,
                 "%s are free under the %s limit of control group %s", free_text,
                 rl_size_text(limit_text, out->group_limit), out->group);
    else
        snprintf(out->reason, sizeof out->reason, "%s of memory are free", free_text);
}

uint64_t rl_memory_budget_reserve(const rl_memory_budget *budget)
{
    uint64_t least = UINT64_C(128) << 20;
    if (least > budget->free_bytes / 4) least = budget->free_bytes / 4;
    return budget->free_bytes / 32 > least ? budget->free_bytes / 32 : least;
}

uint64_t rl_memory_budget_pool(const rl_memory_budget *budget, uint64_t other_bytes,
                               uint64_t wanted_bytes)
{
    uint64_t taken = 0;
    if (!rl_add_u64(other_bytes, rl_memory_budget_reserve(budget), &taken)) taken = UINT64_MAX;
    uint64_t rest = budget->free_bytes > taken ? budget->free_bytes - taken : 0;
    return rest < wanted_bytes ? rest : wanted_bytes;
}

const char *rl_size_text(char out[RL_SIZE_TEXT], uint64_t bytes)
{
    bool large = (double)bytes >= GIB;
    snprintf(out, RL_SIZE_TEXT, "%.1f %s", (double)bytes / (large ? GIB : MIB),
             large ? "GiB" : "MiB");
    return out;
}
