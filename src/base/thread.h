/* thread.h - the fork-join pool: one loop, split over a fixed set of threads.
 *
 * The calling thread takes part. Workers spin for a short while after a loop, then sleep, so that
 * the many small loops of a token start within a microsecond and an idle program costs nothing. A
 * worker that gets no processor delays nobody unless it is in the middle of a task.
 * Threads: one caller at a time; the pool belongs to its owner. */
#ifndef RL_BASE_THREAD_H
#define RL_BASE_THREAD_H

#include "base/status.h"

typedef struct rl_pool rl_pool;

/* `n_threads` counts the caller: 1 makes a pool without workers. 1..256. */
RL_MUST_CHECK rl_status rl_pool_create(rl_pool **out, uint32_t n_threads, rl_error *err);
void rl_pool_destroy(rl_pool *pool);
uint32_t rl_pool_threads(const rl_pool *pool);
/* Loops so far: each ends in a barrier, where there are workers and more than one task. */
uint64_t rl_pool_loops(const rl_pool *pool);

/* Calls task(arg, i, thread) for every i in [0, n_tasks), in any order, each once; thread is in
 * [0, n_threads). Returns when all are done. Tasks are handed out in runs of neighbours that get
 * shorter towards the end, so uneven ones even out; where costs grow or fall with the index, let the
 * dear ones come first. What the caller wrote before is visible to the tasks, what they wrote to the
 * caller. */
typedef void (*rl_task)(void *arg, uint32_t index, uint32_t thread);
void rl_pool_run(rl_pool *pool, rl_task task, void *arg, uint32_t n_tasks);

/* Physical cores that this process may use: affinity and cgroup CPU limits respected; >= 1. */
uint32_t rl_cpu_count(void);
/* The same with /proc and /sys looked for below `root`; for tests. */
uint32_t rl_cpu_count_below(const char *root);

#endif
