/* stream_uring.c - reads through Linux io_uring.
 *
 * One ring, filled and emptied by the owner. No flag is used that binds the ring to one thread
 * (single issuer, deferred task work): sessions of one model may be driven by different threads,
 * one after the other.
 *
 * Should the kernel stop taking submissions while we run, the ring is left alone from then on:
 * what it has taken still completes, everything else is read in place by pread. Slower, still right.
 *
 * Invariants: n_ring reads are known to the kernel, n_late are in `late`; both together are what
 * the owner has in flight. */
#include "cache/stream_driver.h"

#ifdef RL_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

#define SUBMIT_TRIES 1000 /* of 1 ms each at most, before the ring is given up */

typedef struct uring {
    struct io_uring ring;
    bool open, registered;
    bool dead; /* no submission any more                               */
    uint32_t depth;
    uint32_t n_ring;        /* submitted, not yet reaped                            */
    rl_driver_read *queued; /* [depth] prepared since the last flush, for `dead`     */
    uint32_t n_queued;
    rl_driver_result *late; /* [depth] results of reads made in place               */
    uint32_t n_late;
} uring;

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void uring_close(void *opaque)
{
    uring *u = opaque;
    if (!u) return;
    if (u->open) io_uring_queue_exit(&u->ring);
    free(u->queued);
    free(u->late);
    free(u);
}

/* One round trip: some sandboxes allow setting a ring up but not using it. */
static int try_nothing(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    struct io_uring_cqe *cqe = NULL;
    if (!sqe) return -ENOSYS;
    io_uring_prep_nop(sqe);
    int code = io_uring_submit(ring);
    if (code < 0) return code;
    do
        code = io_uring_wait_cqe(ring, &cqe);
    while (code == -EINTR);
    if (code < 0) return code;
    code = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    return code;
}

static rl_status uring_open(void **out, const rl_driver_params *params, rl_error *err)
{
    *out = NULL;
    uring *u = calloc(1, sizeof *u);
    struct iovec *vectors = NULL;
    rl_status status = RL_OK;
    if (!u) goto no_memory;
    u->depth = params->depth;
    u->queued = calloc(params->depth, sizeof *u->queued);
    u->late = calloc(params->depth, sizeof *u->late);
    if (!u->queued || !u->late) goto no_memory;

    int code = io_uring_queue_init(params->depth, &u->ring, 0);
    if (!code) {
        u->open = true;
        code = try_nothing(&u->ring);
    }
    if (code) {
        status = rl_fail(err, RL_UNSUPPORTED, "io_uring is refused here: %s", strerror(-code));
        goto done;
    }
    /* Registering saves pinning the pages for every read. It counts against the locked-memory
     * limit, which is small on some systems; without it everything works as well. */
    if (params->n_buffers) {
        vectors = calloc(params->n_buffers, sizeof *vectors);
        if (!vectors) goto no_memory;
        for (uint32_t i = 0; i < params->n_buffers; i++) {
            vectors[i].iov_base = (char *)params->buffers + i * params->buffer_bytes;
            vectors[i].iov_len = params->buffer_bytes;
        }
        u->registered = !io_uring_register_buffers(&u->ring, vectors, params->n_buffers);
    }
    *out = u;
    u = NULL;
    goto done;

no_memory:
    status = rl_fail(err, RL_NOMEM, "no memory for %u reads in flight", params->depth);
done:
    free(vectors);
    uring_close(u);
    return status;
}

static void read_in_place(uring *u, const rl_driver_read *read)
{
    ssize_t n = pread(read->descriptor, read->to, read->bytes, (off_t)read->offset);
    RL_ASSERT(u->n_late < u->depth);
    u->late[u->n_late++] = (rl_driver_result){ read->tag, n < 0 ? -errno : (int32_t)n };
}

static void uring_start(void *opaque, const rl_driver_read *read)
{
    uring *u = opaque;
    RL_ASSERT(u->n_ring + u->n_queued + u->n_late < u->depth);
    if (u->dead) {
        read_in_place(u, read);
        return;
    }
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    RL_ASSERT(sqe); /* the ring holds `depth` entries and is empty after every flush */
    if (u->registered && read->buffer >= 0)
        io_uring_prep_read_fixed(sqe, read->descriptor, read->to, read->bytes, read->offset,
                                 read->buffer);
    else
        io_uring_prep_read(sqe, read->descriptor, read->to, read->bytes, read->offset);
    io_uring_sqe_set_data64(sqe, read->tag);
    u->queued[u->n_queued++] = *read;
}

static void uring_flush(void *opaque)
{
    uring *u = opaque;
    uint32_t taken = 0;
    for (int tries = 0; taken < u->n_queued; tries++) {
        int code = io_uring_submit(&u->ring);
        if (code > 0) {
            taken += (uint32_t)code;
            u->n_ring += (uint32_t)code;
        } else if (code == 0 || code == -EAGAIN || code == -EBUSY || code == -EINTR) {
            /* the kernel is short of memory, or a signal came: the same again */
            if (tries == SUBMIT_TRIES) break;
            if (code != -EINTR) nap();
        } else {
            break;
        }
    }
    if (taken < u->n_queued) {
        u->dead = true;
        for (uint32_t i = taken; i < u->n_queued; i++)
            read_in_place(u, &u->queued[i]);
    }
    u->n_queued = 0;
}

static uint32_t uring_reap(void *opaque, rl_driver_result *results, uint32_t max, bool wait)
{
    uring *u = opaque;
    uint32_t n = 0;
    for (; n < max && u->n_late; n++)
        results[n] = u->late[--u->n_late];
    RL_ASSERT(!wait || n || u->n_ring);
    while (n < max && u->n_ring) {
        struct io_uring_cqe *cqe = NULL;
        int code =
            wait && !n ? io_uring_wait_cqe(&u->ring, &cqe) : io_uring_peek_cqe(&u->ring, &cqe);
        if (code == 0) {
            results[n++] = (rl_driver_result){ (uint32_t)io_uring_cqe_get_data64(cqe), cqe->res };
            io_uring_cqe_seen(&u->ring, cqe);
            u->n_ring--;
        } else if (wait && !n) {
            if (code != -EINTR) nap(); /* it still owes us results that write into memory */
        } else {
            break;
        }
    }
    return n;
}

static bool uring_registered(const void *opaque)
{
    return ((const uring *)opaque)->registered;
}

const rl_stream_driver rl_stream_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .start = uring_start,
    .flush = uring_flush,
    .reap = uring_reap,
    .registered = uring_registered,
};

#else
typedef int rl_stream_uring_is_not_built; /* a translation unit must declare something */
#endif
