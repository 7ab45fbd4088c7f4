/* cpu_populate.c - backs the expert pool with memory ahead of its first use.
 *
 * A page is cleared when it is first touched. Where experts are read straight into their slots, that
 * happens inside the call that starts the reads, and a new pool of 8.5 GiB was filled at 60 to 85 % of
 * what the disk can do (docs/decisions/0003-streaming.md). So a thread of its own touches the pool
 * before the reads do. It stays AHEAD of the slots in use, no more: slots are handed out in the order
 * of their memory, and what is never used is never backed.
 *
 * Only where the system can do that beside others who write there (Linux 5.14, MADV_POPULATE_WRITE);
 * elsewhere, and when no thread can be started, memory is backed where it is touched, as ever.
 *
 * Locking: lock guards stop and, of every area, wanted and done. wanted is written by the owner alone,
 * who may read it without. */
#include "backend/cpu/cpu_backend.h"

#ifdef __linux__

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PIECE ((size_t)32 << 20)
#define AHEAD ((size_t)256 << 20)

typedef struct area {
    rl_cpu_memory memory;
    size_t wanted; /* bytes from its beginning that are in use, or will be at once */
    size_t done;   /* bytes from its beginning that are backed                     */
} area;

struct rl_cpu_populate {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    uint32_t n;
    area areas[];
};

/* The first area that has less than AHEAD behind what is in use; NULL when none has. */
static area *next_area(rl_cpu_populate *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        area *a = &p->areas[i];
        const size_t left = a->memory.size - a->done;
        if (left && (a->done < a->wanted || a->done - a->wanted < AHEAD)) return a;
    }
    return NULL;
}

static void *populate(void *opaque)
{
    rl_cpu_populate *p = opaque;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        area *a = next_area(p);
        if (!a) {
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        const size_t at = a->done, left = a->memory.size - at, n = left < PIECE ? left : PIECE;
        pthread_mutex_unlock(&p->lock);
        int code = madvise(a->memory.bytes + at, n, MADV_POPULATE_WRITE) ? errno : 0;
        pthread_mutex_lock(&p->lock);
        if (code == EAGAIN || code == EINTR) continue;
        if (code) break; /* an older kernel, or no memory: whoever touches it will hear */
        a->done += n;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

rl_cpu_populate *rl_cpu_populate_start(const rl_cpu_memory *areas, uint32_t n)
{
    size_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all += areas[i].size;
    if (all <= PIECE) return NULL; /* sooner touched than a thread is started */
    rl_cpu_populate *p = calloc(1, sizeof *p + n * sizeof *p->areas);
    if (!p) return NULL;
    p->n = n;
    for (uint32_t i = 0; i < n; i++)
        p->areas[i].memory = areas[i];
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    sigset_t everything, before; /* signals are the program's business */
    sigfillset(&everything);
    pthread_sigmask(SIG_SETMASK, &everything, &before);
    const int code = pthread_create(&p->thread, NULL, populate, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!code) return p;
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

void rl_cpu_populate_reach(rl_cpu_populate *p, uint32_t index, size_t end)
{
    if (!p || end <= p->areas[index].wanted) return;
    pthread_mutex_lock(&p->lock);
    p->areas[index].wanted = end;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void rl_cpu_populate_stop(rl_cpu_populate *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

#else

rl_cpu_populate *rl_cpu_populate_start(const rl_cpu_memory *areas, uint32_t n)
{
    (void)areas;
    (void)n;
    return NULL;
}

void rl_cpu_populate_reach(rl_cpu_populate *populate, uint32_t index, size_t end)
{
    (void)populate;
    (void)index;
    (void)end;
}

void rl_cpu_populate_stop(rl_cpu_populate *populate)
{
    (void)populate;
}

#endif
