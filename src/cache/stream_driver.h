/* stream_driver.h - who carries out reads in the background: a table with two rows.
 *
 * A driver knows descriptors, memory and numbers; it does not know files, experts or alignment
 * (stream_reader.c does), and it does not retry: a read ends with what the system call said.
 * Threads: one owner, which calls all functions below. */
#ifndef RL_CACHE_STREAM_DRIVER_H
#define RL_CACHE_STREAM_DRIVER_H

#include "base/status.h"

typedef struct rl_driver_params {
    uint32_t depth; /* reads in flight at most: the owner starts no more than this              */
    void *buffers;  /* n_buffers of buffer_bytes each, worth registering; NULL when n_buffers 0 */
    uint32_t n_buffers;
    size_t buffer_bytes;
} rl_driver_params;

typedef struct rl_driver_read {
    int descriptor;
    uint32_t tag;   /* comes back with the result                             */
    void *to;       /* stays valid until the result                           */
    int32_t buffer; /* `to` lies inside this one of the buffers; -1: elsewhere */
    uint32_t bytes; /* 1 .. 2^30                                              */
    uint64_t offset;
} rl_driver_read;

typedef struct rl_driver_result {
    uint32_t tag;
    int32_t result; /* bytes read, 0 at the end of the file, or -errno */
} rl_driver_result;

typedef struct rl_stream_driver {
    const char *name;
    /* RL_UNSUPPORTED when the system does not offer it (the sentence says what it said). */
    rl_status (*open)(void **out, const rl_driver_params *params, rl_error *err);
    /* Nothing may be in flight. */
    void (*close)(void *driver);
    /* Queues one read; it may begin at once, and has begun after flush at the latest. */
    void (*start)(void *driver, const rl_driver_read *read);
    void (*flush)(void *driver);
    /* Collects up to `max` results, in any order. With `wait` at least one; then something must be
     * in flight. */
    uint32_t (*reap)(void *driver, rl_driver_result *results, uint32_t max, bool wait);
    /* Whether the buffers are registered with the kernel. */
    bool (*registered)(const void *driver);
} rl_stream_driver;

extern const rl_stream_driver rl_stream_threads;
#ifdef RL_HAVE_URING
extern const rl_stream_driver rl_stream_uring;
#endif

#endif
