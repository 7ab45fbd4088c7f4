/* expert_stream.h - fills reserved slots from the files, many experts in flight together.
 *
 * How one layer of a token goes (the engine's side):
 *
 *     rl_cache_reserve_layer(cache, layer, ids, k, r);          every expert has a slot now
 *     for each MISS: requests[n++] = where its three parts lie;
 *     rl_stream_submit(stream, requests, n);                    all reads begin here
 *     compute the HITs, and the shared expert;                  reading goes on meanwhile
 *     while (rl_stream_wait(stream, &done, err)) {
 *         if (done.status) { rl_cache_abort(cache, done.slot); ... }
 *         else { rl_cache_commit(cache, done.slot); compute it; }
 *     }
 *     release all;
 *
 * Every request that was accepted is answered exactly once, also when it failed or was cancelled,
 * so whoever commits or aborts by the answers can never leak a slot.
 *
 * Threads: one owner at a time; fill functions run on the owner's thread, inside poll and wait.
 * Memory: all of it at create, see rl_stream_params. */
#ifndef RL_CACHE_EXPERT_STREAM_H
#define RL_CACHE_EXPERT_STREAM_H

#include "cache/stream_reader.h"

enum {
    RL_STREAM_PARTS = 3,                     /* gate, up, down; fewer where they are fused    */
    RL_STREAM_DEPTH = 32,                    /* reads in flight by default: docs/decisions    */
    RL_STREAM_AHEAD = 6,                     /* of these, prefetches beside what is needed: a disk
                                                shares itself among all that is in flight         */
    RL_STREAM_REQUESTS = 256,                /* experts accepted but not answered, by default */
    RL_STREAM_RING_BYTES = 16 * 1024 * 1024, /* bounce buffers by default                     */
    RL_STREAM_MIN_BUFFERS = 3                /* never fewer: one expert in flight             */
};

typedef struct rl_stream rl_stream;

/* One part of an expert has arrived whole: copy it into the slot, repack it, or stage it.
 *   part   which of the request's ranges
 *   bytes  [n_bytes] as they lie in the file, any alignment; borrowed until return
 * A status other than RL_OK fails the request, with *err as its sentence. */
typedef rl_status (*rl_stream_fill)(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                                    const void *bytes, size_t n_bytes, rl_error *err);

typedef struct rl_stream_params {
    const rl_file *const
        *files; /* [n_files] the parts of a split file; borrowed until destroy    */
    uint32_t n_files;
    size_t range_bytes; /* the largest range                                                */
    rl_io_mode io;
    rl_io_driver driver;
    uint64_t
        page_cache_bytes; /* io auto: memory that the page cache may use; 0: none             */
    uint32_t depth;       /* reads in flight; 0: RL_STREAM_DEPTH                              */
    uint32_t n_requests;  /* 0: RL_STREAM_REQUESTS                                            */
    size_t ring_bytes;    /* 0: RL_STREAM_RING_BYTES. As many bounce buffers of range_bytes
                                  + 12 KiB as fit, at most depth + 16, at least MIN_BUFFERS        */
    rl_stream_fill fill;  /* may be NULL when every range says `into`                         */
    void *context;        /* fill's                                                           */
    rl_read_fault fault;  /* tests */
    void *fault_context;
} rl_stream_params;

/* Bounce buffers together, for ranges of up to range_bytes with depth and ring by default. */
uint64_t rl_stream_buffer_bytes(size_t range_bytes);

RL_MUST_CHECK rl_status rl_stream_create(rl_stream **out, const rl_stream_params *params,
                                         rl_error *err);
/* Waits for reads in flight and forgets all requests. NULL is fine. */
void rl_stream_destroy(rl_stream *stream);

typedef struct rl_stream_range {
    uint32_t file;   /* index into files                                                          */
    uint64_t offset; /* absolute, any alignment                                                   */
    size_t bytes;    /* >= 1, <= range_bytes                                                      */
    void *into;   /* host memory for exactly these bytes: no fill call for this part. NULL: fill */
    size_t slack; /* with into: bytes before and behind that may be overwritten meanwhile. Direct
                        I/O then needs no bounce buffer if `into` and `offset` are equal modulo the
                        block (rl_stream_get_info().align, 512 or 4096) and slack covers a block  */
} rl_stream_range;

typedef struct rl_stream_request {
    rl_expert_key key;
    rl_slot slot;
    uint32_t n_parts; /* 1 .. RL_STREAM_PARTS */
    bool prefetch;    /* waits behind all requests that are not */
    rl_stream_range parts[RL_STREAM_PARTS];
} rl_stream_request;

/* Accepts requests and starts as many reads as the depth allows, all of them with one system call.
 * Returns how many were accepted, from the front: fewer than n when n_requests are unanswered. */
RL_MUST_CHECK uint32_t rl_stream_submit(rl_stream *stream, const rl_stream_request *requests,
                                        uint32_t n);

/* A token now needs what was submitted as a prefetch: it moves to the others. */
void rl_stream_promote(rl_stream *stream, rl_slot slot);

/* Requests of which nothing has been started are answered with RL_INTERRUPTED; of those that have
 * been started the rest is not, and they are answered so as well. */
void rl_stream_cancel(rl_stream *stream, bool only_prefetch);

typedef struct rl_stream_done {
    rl_expert_key key;
    rl_slot slot;
    rl_status status; /* RL_OK: every part is in the slot; otherwise abort it */
    bool prefetch;    /* as submitted, or false once promoted                 */
    uint64_t bytes;   /* of all parts, when RL_OK                             */
} rl_stream_done;

/* One answer, if there is one: false otherwise. Keeps the reads going, so call it now and then
 * while computing. A failed request puts its sentence into *err (which may be NULL). */
bool rl_stream_poll(rl_stream *stream, rl_stream_done *done, rl_error *err);

/* The same, but sleeps until there is one; false when nothing is in flight. */
bool rl_stream_wait(rl_stream *stream, rl_stream_done *done, rl_error *err);

/* Requests accepted and not yet answered, and how many more would be accepted. */
uint32_t rl_stream_pending(const rl_stream *stream);
uint32_t rl_stream_room(const rl_stream *stream);

/* Ranges in flight, of prefetches or of the others. */
uint32_t rl_stream_in_flight(const rl_stream *stream, bool prefetch);

/* rl_reader_check_files and rl_reader_accept_files: has somebody rewritten the model under us? */
RL_MUST_CHECK rl_status rl_stream_check_files(rl_stream *stream, rl_error *err);
void rl_stream_accept_files(rl_stream *stream);

rl_reader_info rl_stream_get_info(const rl_stream *stream);
rl_reader_figures rl_stream_get_figures(const rl_stream *stream);

#endif
