/* thread_posix.c - base/thread.h on pthreads.
 *
 * A loop is published by a new generation in `gate`, together with an open door. A worker enters by
 * counting itself in while the door is open, takes task indices from one atomic counter, and counts
 * itself out. The caller, out of tasks, shuts the door and waits for those inside only: a worker that
 * the system has not woken yet finds the door shut and is not waited for, so more threads than
 * cores cost little, and nobody can touch the next loop's arguments. */
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
    _Alignas(64) atomic_uint next;          /* next task index                                */
    _Alignas(64) atomic_uint_fast64_t gate; /* generation | OPEN | workers inside        */
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

#define INSIDE_MASK 0xffffu
#define OPEN        0x10000u
#define GENERATION  0x100000000u /* one loop further */

static uint32_t generation_of(uint64_t gate)
{
    return (uint32_t)(gate / GENERATION);
}

/* Waits until the generation is not `seen`; returns the gate as it is then. */
static uint64_t await_generation(rl_pool *pool, uint32_t seen)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
        if (generation_of(gate) != seen) return gate;
        cpu_relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (generation_of(atomic_load(&pool->gate)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load_explicit(&pool->gate, memory_order_acquire);
}

/* The next generation, with the door open or not. Nobody is inside. */
static void publish(rl_pool *pool, uint64_t door)
{
    uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    atomic_store(&pool->gate, (generation_of(gate) + 1ull) * GENERATION + door);
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
        uint_fast64_t gate = await_generation(pool, seen);
        if (atomic_load(&pool->stop)) return NULL;
        seen = generation_of(gate);
        while (gate & OPEN && generation_of(gate) == seen)
            if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1,
                                                      memory_order_acquire, memory_order_acquire)) {
                take_tasks(pool, start.thread);
                atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
                break;
            }
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
    publish(pool, 0);
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
    publish(pool, OPEN);
    take_tasks(pool, 0);
    atomic_fetch_and_explicit(&pool->gate, ~(uint_fast64_t)OPEN, memory_order_relaxed);
    for (uint32_t spins = 0; atomic_load_explicit(&pool->gate, memory_order_acquire) & INSIDE_MASK;
         spins++) {
        cpu_relax();
        if (spins > SPIN_ROUNDS) sched_yield(); /* somebody inside has lost its core */
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
