/* stream_threads.c - reads by threads that call pread, for systems without io_uring.
 *
 * Workers take reads from one ring and put results into another, both under one lock: a read is a
 * quarter of a megabyte, so the lock is not what costs.
 *
 * Invariant: waiting reads + reads in workers' hands + results not yet reaped <= depth, so neither
 * ring can overflow. */
#include "cache/stream_driver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"

/* Blocked threads cost little; more than this many never were faster (docs/decisions). */
#define MAX_WORKERS 16

typedef struct threads {
    uint32_t depth, n_workers;
    pthread_t workers[MAX_WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t work; /* a read waits, or stop  */
    pthread_cond_t done; /* a result is there      */
    bool stop;
    rl_driver_read *reads; /* ring [depth] */
    uint32_t first_read, n_reads;
    rl_driver_result *results; /* ring [depth] */
    uint32_t first_result, n_results;
} threads;

static void *worker(void *opaque)
{
    threads *t = opaque;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (!t->n_reads && !t->stop)
            pthread_cond_wait(&t->work, &t->lock);
        if (t->stop) break;
        rl_driver_read read = t->reads[t->first_read];
        t->first_read = (t->first_read + 1) % t->depth;
        t->n_reads--;
        pthread_mutex_unlock(&t->lock);
        ssize_t n = pread(read.descriptor, read.to, read.bytes, (off_t)read.offset);
        int32_t result = n < 0 ? -errno : (int32_t)n;
        pthread_mutex_lock(&t->lock);
        RL_ASSERT(t->n_results < t->depth);
        uint32_t at = (t->first_result + t->n_results++) % t->depth;
        t->results[at] = (rl_driver_result){ read.tag, result };
        pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void threads_close(void *opaque)
{
    threads *t = opaque;
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    RL_ASSERT(!t->n_reads);
    t->stop = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->n_workers; i++)
        pthread_join(t->workers[i], NULL);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t->reads);
    free(t->results);
    free(t);
}

static rl_status threads_open(void **out, const rl_driver_params *params, rl_error *err)
{
    *out = NULL;
    threads *t = calloc(1, sizeof *t);
    if (!t) return rl_fail(err, RL_NOMEM, "no memory for %u reads in flight", params->depth);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    t->depth = params->depth;
    t->reads = calloc(params->depth, sizeof *t->reads);
    t->results = calloc(params->depth, sizeof *t->results);
    if (!t->reads || !t->results) {
        threads_close(t);
        return rl_fail(err, RL_NOMEM, "no memory for %u reads in flight", params->depth);
    }
    uint32_t wanted = params->depth < MAX_WORKERS ? params->depth : MAX_WORKERS;
    sigset_t all, before; /* signals are the program's business, not the workers' */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (t->n_workers < wanted && !pthread_create(&t->workers[t->n_workers], NULL, worker, t))
        t->n_workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!t->n_workers) { /* fewer than wanted are slower, but enough */
        threads_close(t);
        return rl_fail(err, RL_NOMEM, "cannot start a thread for reading");
    }
    *out = t;
    return RL_OK;
}

static void threads_start(void *opaque, const rl_driver_read *read)
{
    threads *t = opaque;
    pthread_mutex_lock(&t->lock);
    RL_ASSERT(t->n_reads < t->depth);
    t->reads[(t->first_read + t->n_reads++) % t->depth] = *read;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
}

static void threads_flush(void *opaque)
{
    (void)opaque;
}

static uint32_t threads_reap(void *opaque, rl_driver_result *results, uint32_t max, bool wait)
{
    threads *t = opaque;
    uint32_t n = 0;
    pthread_mutex_lock(&t->lock);
    while (wait && !t->n_results)
        pthread_cond_wait(&t->done, &t->lock);
    for (; n < max && t->n_results; n++) {
        results[n] = t->results[t->first_result];
        t->first_result = (t->first_result + 1) % t->depth;
        t->n_results--;
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}

static bool threads_registered(const void *opaque)
{
    (void)opaque;
    return false;
}

const rl_stream_driver rl_stream_threads = {
    .name = "pread threads",
    .open = threads_open,
    .close = threads_close,
    .start = threads_start,
    .flush = threads_flush,
    .reap = threads_reap,
    .registered = threads_registered,
};
