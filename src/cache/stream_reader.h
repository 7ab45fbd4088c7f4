/* stream_reader.h - exact ranges of files, many in flight, whatever alignment the file system wants.
 *
 * Between the drivers (which only know system calls) and the streams (which know experts): opens
 * every file a second time for direct I/O where that works, widens a range to whole blocks, carries
 * on after short reads and interruptions, and falls back to buffered reads where direct ones are
 * refused. expert_stream.c and preload.c stand on it.
 *
 * Threads: one owner at a time. Memory: all at create. Borrows the files until destroy. */
#ifndef RL_CACHE_STREAM_READER_H
#define RL_CACHE_STREAM_READER_H

#include "base/file.h"
#include "cache/expert_cache.h"

typedef struct rl_reader rl_reader;

/* How files are read is rl_io_mode of redlite.h:
 *   RL_IO_AUTO      buffered when the page cache can hold the files, or does so already; otherwise
 *                   direct where that works
 *   RL_IO_DIRECT    past the page cache; create fails where the file system cannot
 *   RL_IO_BUFFERED  through the page cache */

typedef enum rl_io_driver {
    RL_IO_DRIVER_AUTO, /* io_uring for direct I/O where there is one, threads otherwise */
    RL_IO_DRIVER_URING,
    RL_IO_DRIVER_THREADS
} rl_io_driver;

/* For tests: sees every result before it is believed (bytes, 0 at the end, or -errno) and returns
 * what is to be believed instead. Called by the owner's thread. */
typedef int32_t (*rl_read_fault)(void *context, uint32_t file, uint64_t offset, uint32_t bytes,
                                 int32_t result);

typedef struct rl_reader_params {
    const rl_file *const
        *files; /* [n_files], copied                                              */
    uint32_t n_files;
    rl_io_mode io;
    rl_io_driver driver;
    uint64_t
        page_cache_bytes; /* AUTO: what the page cache may hold beside us; 0: nothing          */
    uint32_t depth;       /* reads in flight, 1..1024                                          */
    uint32_t n_buffers;   /* bounce buffers, aligned for direct I/O                            */
    size_t range_bytes;   /* the largest range that goes through a bounce buffer               */
    rl_read_fault fault;  /* NULL but in tests */
    void *fault_context;
} rl_reader_params;

/* RL_UNSUPPORTED: the mode or driver that was asked for does not work here; RL_NOMEM. */
RL_MUST_CHECK rl_status rl_reader_create(rl_reader **out, const rl_reader_params *params,
                                         rl_error *err);
void rl_reader_destroy(rl_reader *reader); /* waits for what is in flight; NULL is fine */

typedef struct rl_reader_info {
    const char *driver; /* "io_uring"                                                       */
    bool direct;        /* direct I/O is in use                                             */
    bool registered;    /* bounce buffers are registered with the kernel                    */
    uint32_t align;     /* of direct reads, bytes; 1 when buffered                          */
    uint32_t n_buffers;
    uint64_t buffer_bytes; /* of all bounce buffers together                                   */
    const char *note;      /* why it is not the better thing that was possible ("io_uring is
                              refused here: ..."), for the user; "" when there is nothing to say */
} rl_reader_info;

rl_reader_info rl_reader_get_info(const rl_reader *reader);

#define RL_NO_BUFFER UINT32_MAX

/* One range. `into` != NULL: the bytes land there; `slack` bytes before and behind may be
 * overwritten with what lies around the range in the file. Otherwise they land in `buffer`. */
typedef struct rl_reader_read {
    uint32_t tag; /* comes back */
    uint32_t file;
    uint64_t offset;
    size_t bytes; /* >= 1 */
    void *into;
    size_t slack;
    uint32_t buffer; /* RL_NO_BUFFER when rl_reader_needs_buffer says no */
} rl_reader_read;

/* Whether the read has to go through a bounce buffer: no memory was given, or direct I/O is in use
 * and the given memory does not suit it. With a buffer and `into` both set, the bytes are left in
 * the buffer, and it is the caller who copies them. */
bool rl_reader_needs_buffer(const rl_reader *reader, const rl_reader_read *read);

/* Starts one read, in flight after the next flush or reap at the latest. There must be room. */
void rl_reader_start(rl_reader *reader, const rl_reader_read *read);
void rl_reader_flush(rl_reader *reader);
uint32_t rl_reader_in_flight(const rl_reader *reader);

typedef struct rl_reader_result {
    uint32_t tag;
    const void *data; /* the range's bytes: `into`, or inside the buffer; NULL when it failed */
    int error;        /* errno; 0 with data NULL: the file ended                              */
    uint64_t at;      /* failed: the offset in the file up to which bytes came                */
} rl_reader_result;

/* Collects up to `max` finished reads; with `wait` at least one if anything is in flight. */
uint32_t rl_reader_reap(rl_reader *reader, rl_reader_result *results, uint32_t max, bool wait);

/* The sentence for a result without data: names the file and the expert. Returns RL_IO. */
rl_status rl_reader_fail(const rl_reader *reader, uint32_t file, const rl_reader_result *result,
                         rl_expert_key key, rl_error *err);

/* RL_IO when a file has changed size or modification time since create: its bytes may no longer be
 * those that were described at open. A few microseconds. */
RL_MUST_CHECK rl_status rl_reader_check_files(rl_reader *reader, rl_error *err);
/* The caller has found that the bytes are the old ones all the same: the times that the last check
 * saw become the right ones. A size stays wrong. */
void rl_reader_accept_files(rl_reader *reader);

typedef struct rl_reader_figures {
    uint64_t reads;   /* ranges finished                                              */
    uint64_t placed;  /* of these, straight into the memory they were meant for       */
    uint64_t bytes;   /* asked for                                                    */
    uint64_t fetched; /* read from the files, whole blocks                            */
    uint64_t retries; /* system calls beyond the first of a range                     */
    uint64_t wait_ns; /* the owner spent waiting in reap                              */
    uint64_t busy_ns; /* something was in flight, as the owner sees it                */
} rl_reader_figures;

rl_reader_figures rl_reader_get_figures(const rl_reader *reader);

#endif
