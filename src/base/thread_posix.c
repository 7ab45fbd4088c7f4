/* thread_posix.c - base/thread.h on pthreads.
 *
 * The loop under way is one word: its number and how many of its tasks are not yet claimed. A
 * thread takes tasks by lowering that word with a compare-and-swap, which fails as soon as another
 * loop has begun; who has claimed a task may rely on the loop's other fields, because the caller
 * waits until as many tasks are done as there were. Workers that come late, or not at all, hold
 * nobody up: with more threads than cores the caller simply does more of the work itself.
 *
 * Waiting happens in three steps: pauses for some microseconds, then yielding the processor to
 * whoever needs it, then (workers only) sleeping on a condition. */
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

enum {
    PAUSE_NS = 10000,  /* of pure pauses                      */
    AWAKE_NS = 200000, /* with yielding, before a sleep       */
    ROUND = 16         /* pauses between two looks at a clock */
};

struct rl_pool {
    uint32_t n_threads;
    uint32_t n_started; /* workers that exist, without the caller */
    pthread_t *workers;
    /* The loop; constant while tasks of it are claimed. */
    rl_task task;
    void *arg;
    uint32_t n_tasks;
    uint64_t n_loops;                     /* the caller's */
    _Alignas(64) _Atomic uint64_t open;   /* number of the loop << 32 | tasks not yet claimed */
    _Alignas(64) _Atomic uint64_t undone; /* tasks not yet done                            */
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

/* Some neighbouring tasks of loop `number`: first .. end - 1. */
typedef struct tasks {
    uint32_t number, first, end;
} tasks;

/* Claims tasks; false when none is left, and then out->number alone counts. At first many at a time,
 * so that a thread walks through neighbouring memory and the threads seldom meet at the word; towards
 * the end one by one, so that all finish together. */
static inline bool claim(rl_pool *pool, tasks *out)
{
    uint64_t word = atomic_load_explicit(&pool->open, memory_order_acquire);
    while ((uint32_t)word) {
        const uint32_t left = (uint32_t)word, share = left / (2 * pool->n_threads);
        const uint32_t n = share ? share : 1;
        if (atomic_compare_exchange_weak_explicit(&pool->open, &word, word - n,
                                                  memory_order_acquire, memory_order_acquire)) {
            const uint32_t first = pool->n_tasks - left;
            *out = (tasks){ .number = (uint32_t)(word >> 32), .first = first, .end = first + n };
            return true;
        }
    }
    out->number = (uint32_t)(word >> 32);
    return false;
}

/* Does tasks as long as there are any; returns the number of the loop that ran dry. */
static uint32_t take_tasks(rl_pool *pool, uint32_t thread)
{
    tasks mine;
    while (claim(pool, &mine)) {
        for (uint32_t i = mine.first; i < mine.end; i++)
            pool->task(pool->arg, i, thread);
        atomic_fetch_sub_explicit(&pool->undone, mine.end - mine.first, memory_order_release);
    }
    return mine.number;
}

/* The first step: true as soon as *word differs from `old` in its upper or lower half. */
static inline bool changed(const _Atomic uint64_t *word, uint32_t old, uint32_t shift)
{
    for (int i = 0; i < ROUND; i++) {
        if ((uint32_t)(atomic_load_explicit(word, memory_order_acquire) >> shift) != old)
            return true;
        cpu_relax();
    }
    return false;
}

/* What comes between two rounds of looking; *since is when waiting began, 0 at first. False: it has
 * lasted AWAKE_NS. */
static bool keep_waiting(uint64_t *since)
{
    const uint64_t now = rl_clock_ns();
    if (!*since) *since = now;
    if (now - *since < PAUSE_NS) return true;
    sched_yield();
    return now - *since < AWAKE_NS;
}

/* Waits for another loop than number `seen`. */
static void await_loop(rl_pool *pool, uint32_t seen)
{
    uint64_t since = 0;
    do {
        if (changed(&pool->open, seen, 32)) return;
    } while (keep_waiting(&since));
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    /* Sequentially consistent, as the caller's store and look at the sleepers are: one of the two
     * sees the other. */
    while ((uint32_t)(atomic_load(&pool->open) >> 32) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void publish(rl_pool *pool, uint32_t n_tasks)
{
    const uint64_t number = (atomic_load_explicit(&pool->open, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->open, number << 32 | n_tasks);
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
        await_loop(pool, seen);
        seen = take_tasks(pool, start.thread);
        /* Only now: who came late for the last loop may have run dry in the one that says stop, and
         * would wait for another for ever. */
        if (atomic_load(&pool->stop)) return NULL;
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

uint64_t rl_pool_loops(const rl_pool *pool)
{
    return pool->n_loops;
}

void rl_pool_run(rl_pool *pool, rl_task task, void *arg, uint32_t n_tasks)
{
    if (!n_tasks) return;
    pool->n_loops++;
    if (n_tasks == 1 || !pool->n_started) {
        for (uint32_t i = 0; i < n_tasks; i++)
            task(arg, i, 0);
        return;
    }
    /* Nobody holds a task of the loop before, so nobody reads these. */
    pool->task = task;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->undone, n_tasks, memory_order_relaxed);
    publish(pool, n_tasks);
    take_tasks(pool, 0);
    uint64_t since = 0;
    for (uint64_t left; (left = atomic_load_explicit(&pool->undone, memory_order_acquire));)
        if (!changed(&pool->undone, (uint32_t)left, 0)) keep_waiting(&since);
}
