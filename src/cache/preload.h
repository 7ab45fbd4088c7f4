/* preload.h - full residency: every expert is read once, when the model is opened.
 *
 * Ranges are read in the order of the file, neighbours together, in large pieces with several in
 * flight; so a disk that only likes sequential reads is as fast as it can be, and an expert is
 * complete when its last part has come by.
 *
 * Threads: fill, loaded and progress run on the caller's thread. Memory: depth * chunk_bytes of
 * buffers and 24 bytes per range, while it runs. */
#ifndef RL_CACHE_PRELOAD_H
#define RL_CACHE_PRELOAD_H

#include "cache/expert_stream.h"

enum { RL_PRELOAD_CHUNK_BYTES = 8 * 1024 * 1024, RL_PRELOAD_DEPTH = 4 };

typedef struct rl_preload_progress {
    uint64_t done_bytes, total_bytes;
    uint64_t elapsed_ns;
    double bytes_per_s; /* of the last second or so; of everything at the end */
    double remaining_s; /* at that rate */
    uint32_t n_loaded;  /* experts that are complete */
    uint32_t n_requests;
} rl_preload_progress;

typedef struct rl_preload_params {
    const rl_file *const *files; /* [n_files] */
    uint32_t n_files;
    rl_io_mode io;
    rl_io_driver driver;
    uint64_t
        page_cache_bytes; /* as in rl_stream_params                                           */
    size_t chunk_bytes;   /* 0: RL_PRELOAD_CHUNK_BYTES; grows to the largest range            */
    uint32_t depth;       /* 0: RL_PRELOAD_DEPTH                                              */
    const rl_stream_request
        *requests; /* [n_requests] every expert with its slot, in any order    */
    uint32_t n_requests;
    rl_stream_fill
        fill; /* as in rl_stream_params                                                 */
    /* The expert is whole: commit it. */
    void (*loaded)(void *context, rl_expert_key key, rl_slot slot);
    /* Called about ten times a second and at the end; false stops. May be NULL. */
    bool (*progress)(void *context, const rl_preload_progress *progress);
    void *context; /* of all three */
    rl_read_fault fault;
    void *fault_context;
} rl_preload_params;

/* RL_OK: every request was loaded. Otherwise (RL_INTERRUPTED when progress said stop) those for
 * which loaded() was not called have to be aborted. */
RL_MUST_CHECK rl_status rl_preload(const rl_preload_params *params, rl_error *err);

#endif
