/* memory_budget.h - how many bytes this process may still take, and who says so.
 *
 * The smaller of what the machine has available and what the process's memory control group, and
 * every group above it, leaves. Both generations are understood: version 1 (memory.limit_in_bytes)
 * and version 2 (memory.max, and memory.high, above which the kernel throttles). Cached file pages
 * count as free, because the kernel gives them up.
 *
 * Threads: pure functions of what the files say at the moment of the call. */
#ifndef RL_CACHE_MEMORY_BUDGET_H
#define RL_CACHE_MEMORY_BUDGET_H

#include "base/status.h"

typedef struct rl_memory_budget {
    uint64_t free_bytes; /* the answer */
    uint64_t
        machine_bytes;    /* available on the machine; 0 when nothing says so                    */
    uint64_t group_bytes; /* left by the tightest control group; UINT64_MAX without a limit      */
    uint64_t group_limit; /* the limit of that group; UINT64_MAX                                 */
    char group[160];      /* its path within the hierarchy, "" without a limit                   */
    char reason[256];     /* "7.2 GiB are free: control group /user.slice allows 8.0 GiB ..."    */
} rl_memory_budget;

/* `root` is put in front of every path that is read ("" for the system's own; tests use a tree of
 * their own). Never fails: what cannot be read limits nothing, and reason says so. */
void rl_memory_budget_read(rl_memory_budget *out, const char *root);

/* What an expert pool may have when `other_bytes` are needed beside it: the rest, less a reserve of
 * 1/32 of the free memory but at least 128 MiB (a quarter, where there is little), and never more
 * than wanted_bytes (the pool that holds everything). */
uint64_t rl_memory_budget_pool(const rl_memory_budget *budget, uint64_t other_bytes,
                               uint64_t wanted_bytes);
uint64_t rl_memory_budget_reserve(const rl_memory_budget *budget);

/* "17.9 GiB", below one "6.2 MiB"; returns its argument. */
enum { RL_SIZE_TEXT = 24 };
const char *rl_size_text(char out[RL_SIZE_TEXT], uint64_t bytes);

#endif
