/* thread_posix.c - base/thread.h on pthreads.
 *
 * A loop is published by raising `generation`. Workers fetch task indices from one atomic counter.
 * The caller leaves only after every worker has left the loop (`inside` is back at zero and all
 * indices are taken), so a late worker can never touch the next loop's arguments. */
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

#define SPIN_ROUNDS 4000 /* about 20-60 us of pauses before a worker sleeps */

struct rl_pool {
    uint32_t n_threads;
    uint32_t n_started; /* workers that exist, without the caller */
    pthread_t *workers;
    rl_task task;
    void *arg;
    uint32_t n_tasks;
    _Alignas(64) atomic_uint next;       /* next task index                          */
    _Alignas(64) atomic_uint generation; /* raised once per loop, and once to stop   */
    _Alignas(64) atomic_uint inside;     /* workers that still may take a task       */
    _Alignas(64) atomic_uint sleepers;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

typedef struct worker_start {
    rl_pool *pool;
    uint32_t thread;
} worker_start;

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_tasks(rl_pool *pool, uint32_t thread)
{
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->n_tasks) return;
        pool->task(pool->arg, i, thread);
    }
}

/* Waits until `generation` differs from `seen`; returns the new value. */
static uint32_t await_generation(rl_pool *pool, uint32_t seen)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        uint32_t now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen) return now;
        cpu_relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->generation) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load_explicit(&pool->generation, memory_order_acquire);
}

static void publish(rl_pool *pool)
{
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void *worker_main(void *opaque)
{
    worker_start start = *(worker_start *)opaque;
    rl_pool *pool = start.pool;
    free(opaque);
    uint32_t seen = 0;
    for (;;) {
        seen = await_generation(pool, seen);
        if (atomic_load(&pool->stop)) return NULL;
        take_tasks(pool, start.thread);
        atomic_fetch_sub_explicit(&pool->inside, 1, memory_order_release);
    }
}

rl_status rl_pool_create(rl_pool **out, uint32_t n_threads, rl_error *err)
{
    RL_ASSERT(out && n_threads >= 1 && n_threads <= 256);
    *out = NULL;
    rl_pool *pool = NULL;
    if (posix_memalign((void **)&pool, 64, sizeof *pool))
        return rl_fail(err, RL_NOMEM, "no memory for a pool of %u threads", n_threads);
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = calloc(n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        rl_pool_destroy(pool);
        return rl_fail(err, RL_NOMEM, "no memory for a pool of %u threads", n_threads);
    }
    for (uint32_t i = 1; i < n_threads; i++) {
        worker_start *start = malloc(sizeof *start);
        if (start) *start = (worker_start){ .pool = pool, .thread = i };
        if (!start || pthread_create(&pool->workers[i - 1], NULL, worker_main, start)) {
            free(start);
            rl_pool_destroy(pool);
            return rl_fail(err, RL_NOMEM, "cannot start thread %u of %u", i + 1, n_threads);
        }
        pool->n_started++;
    }
    *out = pool;
    return RL_OK;
}

void rl_pool_destroy(rl_pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stop, true);
    publish(pool);
    for (uint32_t i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

uint32_t rl_pool_threads(const rl_pool *pool)
{
    return pool->n_threads;
}

void rl_pool_run(rl_pool *pool, rl_task task, void *arg, uint32_t n_tasks)
{
    if (!n_tasks) return;
    if (n_tasks == 1 || !pool->n_started) {
        for (uint32_t i = 0; i < n_tasks; i++)
            task(arg, i, 0);
        return;
    }
    pool->task = task;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->inside, pool->n_started, memory_order_relaxed);
    publish(pool);
    take_tasks(pool, 0);
    for (uint32_t spins = 0; atomic_load_explicit(&pool->inside, memory_order_acquire); spins++) {
        cpu_relax();
        if (spins > SPIN_ROUNDS) sched_yield(); /* more threads than cores: let them finish */
    }
}

uint32_t rl_cpu_count(void)
{
    uint32_t count = 1;
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        count = (uint32_t)CPU_COUNT(&set);
    return count;
}
