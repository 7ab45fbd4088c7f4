/* test_expert_stream.c - streaming: every driver, mode and destination; faults in any read. */
#include "support/experts.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "cache/preload.h"

#define KEY(l, e) ((rl_expert_key){ .layer = (l), .expert = (e) })

/* What runs here and what does not: a test for something that is refused is skipped, by name. */
static rl_stream *open_stream(const rl_stream_params *params)
{
    rl_error err = { "" };
    rl_stream *stream = NULL;
    rl_status status = rl_stream_create(&stream, params, &err);
    if (status == RL_UNSUPPORTED) rl_test_skip("%s", err.text);
    assert_ok(status);
    rl_reader_info info = rl_stream_get_info(stream);
    if (params->io != RL_IO_AUTO) assert_int_equal(info.direct, params->io == RL_IO_DIRECT);
    assert_true(info.buffer_bytes <= RL_STREAM_RING_BYTES);
    return stream;
}

/* ---- plain reading ----------------------------------------------------------------------------- */

/* Tokens with random choices over a pool that holds a third of the experts. */
static void play_tokens(test_experts *t, rl_stream *stream, uint32_t n_tokens)
{
    rl_error err = { "" };
    uint64_t random = 99;
    for (uint32_t token = 0; token < n_tokens; token++) {
        for (uint32_t l = 0; l < TEST_LAYERS; l++) {
            uint32_t ids[4];
            for (uint32_t i = 0; i < 4; i++) {
                ids[i] = rl_test_random(&random) % TEST_EXPERTS;
                for (uint32_t j = 0; j < i; j++)
                    if (ids[j] == ids[i]) i--, j = i;
            }
            assert_ok(test_experts_token(t, stream, l, ids, 4, &err));
        }
    }
}

static void reads_exactly(rl_io_mode io, rl_io_driver driver, const char *name)
{
    for (test_sink sink = 0; sink < TEST_SINKS; sink++) {
        for (uint32_t depth = 1; depth <= 32; depth *= 4) {
            test_experts t;
            test_experts_init(&t, name, sink, 0.34, 4);
            rl_stream_params params = test_experts_stream(&t, io, driver);
            params.depth = depth;
            rl_stream *stream = open_stream(&params);
            play_tokens(&t, stream, 8);
            rl_reader_figures figures = rl_stream_get_figures(stream);
            assert_true(figures.reads > 100 && figures.fetched >= figures.bytes);
            assert_int_equal(figures.reads % RL_STREAM_PARTS, 0);
            rl_stream_destroy(stream);
            test_experts_fini(&t);
        }
    }
}

/* Odd sizes and offsets, split files, the last byte of a file, any depth.
 * Stands against: bytes of a neighbour at either end of a range, which no checksum would notice. */
static void stream_reads_uring_direct(void **state)
{
    (void)state;
    reads_exactly(RL_IO_DIRECT, RL_IO_DRIVER_URING, "ud");
}

static void stream_reads_uring_buffered(void **state)
{
    (void)state;
    reads_exactly(RL_IO_BUFFERED, RL_IO_DRIVER_URING, "ub");
}

static void stream_reads_threads_direct(void **state)
{
    (void)state;
    reads_exactly(RL_IO_DIRECT, RL_IO_DRIVER_THREADS, "td");
}

static void stream_reads_threads_buffered(void **state)
{
    (void)state;
    reads_exactly(RL_IO_BUFFERED, RL_IO_DRIVER_THREADS, "tb");
}

/* Ranges of any place and length, with more or less slack around memory that suits direct I/O.
 * Stands against: a whole block that is read over the neighbouring expert. */
static void stream_keeps_to_its_slack(void **state)
{
    (void)state;
    enum { GUARD = 8192, ROOM = 20000 };
    static const size_t slacks[] = { 0, 32, 100, 511, 512, 4096 };
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, "sl", TEST_SINK_FILL, 1, 4);
    size_t file_bytes = 0;
    uint8_t *file = rl_test_read(t.paths[0], &file_bytes), *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, 4096, ROOM + 2 * GUARD + 4096), 0);
    rl_stream_params params = test_experts_stream(&t, RL_IO_DIRECT, RL_IO_DRIVER_AUTO);
    rl_stream *stream = open_stream(&params);
    uint64_t random = 8;
    for (uint32_t round = 0; round < 400; round++) {
        uint64_t dice = rl_test_random(&random);
        rl_stream_range range = { .bytes = 1 + dice % ROOM,
                                  .slack =
                                      slacks[(dice >> 20) % (sizeof slacks / sizeof *slacks)] };
        range.offset = (dice >> 24) % (file_bytes - range.bytes);
        if (dice >> 60 & 1) range.offset &= ~511ull;
        if (dice >> 61 & 1) range.bytes = (range.bytes + 511) & ~511ull;
        if (range.offset + range.bytes > file_bytes) continue;
        uint8_t *into = memory + GUARD + range.offset % 4096;
        range.into = into;
        memset(memory, 0xaa, ROOM + 2 * GUARD + 4096);
        rl_stream_request request = { .n_parts = 1, .parts = { range } };
        rl_stream_done done;
        assert_int_equal(rl_stream_submit(stream, &request, 1), 1);
        assert_true(rl_stream_wait(stream, &done, &err));
        assert_ok(done.status);
        assert_memory_equal(into, file + range.offset, range.bytes);
        for (const uint8_t *at = memory; at < into - range.slack; at++)
            assert_int_equal(*at, 0xaa);
        for (const uint8_t *at = into + range.bytes + range.slack;
             at < memory + ROOM + 2 * GUARD + 4096; at++)
            assert_int_equal(*at, 0xaa);
    }
    rl_stream_destroy(stream);
    free(memory);
    free(file);
    test_experts_fini(&t);
}

/* Many requests at once, answers taken in every way, prefetches promoted and cancelled: each one
 * accepted is answered once, and no byte is lost. */
static void storm(rl_io_driver driver, const char *name)
{
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, name, TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, driver);
    params.n_requests = 20;
    params.depth = 5;
    rl_stream *stream = open_stream(&params);
    uint64_t random = 5;
    uint32_t n_loading = 0, n_cancelled = 0, n_read = 0;
    for (uint32_t step = 0; step < 3000; step++) {
        uint64_t dice = rl_test_random(&random);
        rl_expert_key key = KEY(dice % TEST_LAYERS, (dice >> 8) % TEST_EXPERTS);
        rl_reservation r;
        rl_stream_done done;
        switch ((dice >> 16) % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
            rl_cache_prefetch(t.cache, key, &r);
            if (r.outcome == RL_RESERVE_MISS) {
                rl_stream_request request = test_experts_request(&t, key, r.slot);
                request.prefetch = dice >> 24 & 1;
                if (rl_stream_submit(stream, &request, 1)) {
                    n_loading++;
                } else {
                    assert_int_equal(rl_stream_room(stream), 0);
                    rl_cache_abort(t.cache, r.slot);
                }
            } else {
                rl_cache_release(t.cache, r.slot, RL_RELEASE_USED);
                if (r.outcome == RL_RESERVE_LOADING) rl_stream_promote(stream, r.slot);
            }
            break;
        case 4:
            if (dice >> 24 & 1) rl_stream_cancel(stream, dice >> 25 & 1);
            break;
        case 5: rl_cache_clear(t.cache); break;
        default:
            while (n_loading) {
                bool got = dice >> 24 & 1 ? rl_stream_wait(stream, &done, &err)
                                          : rl_stream_poll(stream, &done, &err);
                if (!got) break;
                n_loading--;
                if (done.status) {
                    assert_int_equal(done.status, RL_INTERRUPTED);
                    rl_cache_abort(t.cache, done.slot);
                    n_cancelled++;
                } else {
                    rl_cache_commit(t.cache, done.slot);
                    test_experts_check(&t, done.key, done.slot);
                    rl_cache_release(t.cache, done.slot, RL_RELEASE_USED);
                    n_read++;
                }
                if (dice >> 26 & 1) break;
            }
        }
        assert_int_equal(rl_stream_pending(stream), n_loading);
    }
    assert_true(n_read > 300 && n_cancelled > 5);
    rl_stream_destroy(stream); /* with requests in flight */
    test_experts_fini(&t);
}

static void stream_storm_uring(void **state)
{
    (void)state;
    storm(RL_IO_DRIVER_URING, "su");
}

static void stream_storm_threads(void **state)
{
    (void)state;
    storm(RL_IO_DRIVER_THREADS, "st");
}

/* What a token needs does not wait behind what it may need. */
static void stream_needed_overtakes_prefetch(void **state)
{
    (void)state;
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, "ov", TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, RL_IO_DRIVER_AUTO);
    params.depth = 1;
    rl_stream *stream = open_stream(&params);
    rl_stream_request requests[6];
    for (uint32_t e = 0; e < 6; e++) {
        rl_reservation r;
        rl_cache_reserve(t.cache, KEY(0, e), &r);
        requests[e] = test_experts_request(&t, KEY(0, e), r.slot);
        requests[e].prefetch = e < 4;
    }
    assert_int_equal(rl_stream_submit(stream, requests, 4), 4);
    rl_stream_promote(stream, requests[3].slot);
    assert_int_equal(rl_stream_submit(stream, requests + 4, 2), 2);
    /* one read was in flight already: expert 0 keeps its place for that part only */
    uint32_t order[6], n = 0;
    rl_stream_done done;
    while (rl_stream_wait(stream, &done, &err)) {
        assert_ok(done.status);
        assert_int_equal(done.prefetch, done.key.expert < 3);
        order[n++] = done.key.expert;
    }
    const uint32_t expected[6] = { 3, 4, 5, 0, 1, 2 };
    assert_int_equal(n, 6);
    assert_memory_equal(order, expected, sizeof order);
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

/* As long as something needed is being read, few prefetches are.
 * Stands against: a token that waits for its experts while the disk divides itself among guesses. */
static void stream_few_prefetches_beside_needed(void **state)
{
    (void)state;
    enum { PREFETCHES = 4, NEEDED = 2, ALL = PREFETCHES + NEEDED };
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, "fw", TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, RL_IO_DRIVER_AUTO);
    rl_stream *stream = open_stream(&params);
    rl_stream_request requests[ALL];
    for (uint32_t e = 0; e < ALL; e++) {
        rl_reservation r;
        rl_cache_reserve(t.cache, KEY(0, e), &r);
        requests[e] = test_experts_request(&t, KEY(0, e), r.slot);
        requests[e].prefetch = e >= NEEDED;
    }
    assert_int_equal(rl_stream_submit(stream, requests, ALL), ALL);
    assert_int_equal(rl_stream_in_flight(stream, false), NEEDED * RL_STREAM_PARTS);
    assert_int_equal(rl_stream_in_flight(stream, true), RL_STREAM_AHEAD);
    /* One of them is needed now: so are its reads, and others may take their place. */
    rl_stream_promote(stream, requests[NEEDED].slot);
    assert_int_equal(rl_stream_in_flight(stream, false), (NEEDED + 1) * RL_STREAM_PARTS);
    assert_int_equal(rl_stream_in_flight(stream, true), RL_STREAM_AHEAD - RL_STREAM_PARTS);
    rl_stream_done done;
    uint32_t n = 0;
    while (rl_stream_wait(stream, &done, &err)) {
        assert_ok(done.status);
        assert_true(!rl_stream_in_flight(stream, false) ||
                    rl_stream_in_flight(stream, true) <= RL_STREAM_AHEAD);
        n++;
    }
    assert_int_equal(n, ALL);
    assert_int_equal(rl_stream_in_flight(stream, false) + rl_stream_in_flight(stream, true), 0);
    /* Alone they have the whole depth. */
    assert_int_equal(rl_stream_submit(stream, requests + NEEDED, PREFETCHES), PREFETCHES);
    assert_int_equal(rl_stream_in_flight(stream, true), PREFETCHES * RL_STREAM_PARTS);
    while (rl_stream_wait(stream, &done, &err))
        assert_ok(done.status);
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

typedef struct handover {
    rl_stream *stream;
    const rl_stream_request *requests;
    uint32_t n;
} handover;

static void *submit_and_leave(void *opaque)
{
    handover *h = opaque;
    assert_int_equal(rl_stream_submit(h->stream, h->requests, h->n), h->n);
    return NULL;
}

/* The thread that asked is gone before the bytes are there: sessions of one model may be used by
 * different threads. Stands against: reads that the kernel cancels with their thread. */
static void stream_survives_its_submitting_thread(void **state)
{
    (void)state;
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, "th", TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_DIRECT, RL_IO_DRIVER_AUTO);
    rl_stream *stream = open_stream(&params);
    for (uint32_t round = 0; round < 60; round++) {
        rl_stream_request requests[TEST_EXPERTS];
        for (uint32_t e = 0; e < TEST_EXPERTS; e++) {
            rl_reservation r;
            rl_cache_reserve(t.cache, KEY(round % TEST_LAYERS, e), &r);
            assert_int_equal(r.outcome, RL_RESERVE_MISS);
            requests[e] = test_experts_request(&t, r.key, r.slot);
        }
        handover h = { stream, requests, TEST_EXPERTS };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, submit_and_leave, &h), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        rl_stream_done done;
        uint32_t n = 0;
        for (; rl_stream_wait(stream, &done, &err); n++) {
            assert_ok(done.status);
            rl_cache_commit(t.cache, done.slot);
            test_experts_check(&t, done.key, done.slot);
            rl_cache_release(t.cache, done.slot, RL_RELEASE_USED);
        }
        assert_int_equal(n, TEST_EXPERTS);
        rl_cache_clear(t.cache);
    }
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

/* What lies in the page cache is taken from there, what does not is not put there; and when the page
 * cache has room for everything, it is used. Stands against: cold reads at half the speed. */
static void stream_auto_follows_the_page_cache(void **state)
{
    (void)state;
    test_experts t;
    test_experts_init(&t, "pc", TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_DIRECT, RL_IO_DRIVER_AUTO);
    rl_stream_destroy(open_stream(&params)); /* skips where there is no direct I/O */
    params.io = RL_IO_AUTO;
    rl_stream *stream = open_stream(&params); /* just written: cached */
    assert_false(rl_stream_get_info(stream).direct);
    rl_stream_destroy(stream);
    for (uint32_t i = 0; i < TEST_FILES; i++) {
        assert_int_equal(fsync(rl_file_descriptor(t.files[i])), 0);
        posix_fadvise(rl_file_descriptor(t.files[i]), 0, 0, POSIX_FADV_DONTNEED);
    }
    stream = open_stream(&params);
    assert_true(rl_stream_get_info(stream).direct);
    rl_stream_destroy(stream);
    params.page_cache_bytes = 1 << 30;
    stream = open_stream(&params);
    assert_false(rl_stream_get_info(stream).direct);
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

/* ---- faults ------------------------------------------------------------------------------------ */

typedef enum fault_kind {
    FAULT_EIO,
    FAULT_END,   /* no bytes, as from a file cut short   */
    FAULT_SHORT, /* fewer bytes than asked for           */
    FAULT_EINTR,
    FAULT_EAGAIN,
    FAULT_EINVAL, /* direct I/O refused after all         */
    FAULT_KINDS
} fault_kind;

typedef struct fault {
    fault_kind kind;
    uint32_t at, seen;
    bool fired, sticky;
    uint64_t offset;
} fault;

static int32_t strike(void *context, uint32_t file, uint64_t offset, uint32_t bytes, int32_t result)
{
    fault *f = context;
    (void)file;
    (void)bytes;
    bool now = f->sticky ? f->seen >= f->at : f->seen == f->at;
    f->seen++;
    if (!now) return result;
    f->fired = true;
    f->offset = offset;
    switch (f->kind) {
    case FAULT_EIO: return -EIO;
    case FAULT_END: return 0;
    case FAULT_SHORT: return result > 1 ? result / 2 : result;
    case FAULT_EINTR: return -EINTR;
    case FAULT_EAGAIN: return -EAGAIN;
    default: return -EINVAL;
    }
}

/* The n-th read fails, for every n and in every way. Either the token does not notice, or it fails
 * with one sentence that names file and expert; then the same token again succeeds. The cache, its
 * pins and the residency table are checked after each.
 * Stands against: leaked slots, half-filled experts that count as resident, endless retries. */
static void any_read_may_fail(rl_io_mode io, rl_io_driver driver, const char *name)
{
    const uint32_t ids[5] = { 3, 7, 0, 11, 5 };
    for (fault_kind kind = 0; kind < FAULT_KINDS; kind++) {
        for (test_sink sink = 0; sink < TEST_SINKS; sink++) {
            test_experts t;
            fault f = { .kind = kind };
            test_experts_init(&t, name, sink, 0.4, 5);
            rl_stream_params params = test_experts_stream(&t, io, driver);
            params.fault = strike;
            params.fault_context = &f;
            params.depth = 6;
            rl_stream *stream = open_stream(&params);
            do {
                f.seen = 0;
                f.fired = false;
                rl_cache_clear(t.cache);
                for (uint32_t l = 2; l < TEST_LAYERS; l++) {
                    rl_error err = { "" };
                    bool before = f.fired;
                    rl_status status = test_experts_token(&t, stream, l, ids, 5, &err);
                    bool hard = kind == FAULT_EIO || (io == RL_IO_BUFFERED &&
                                                      (kind == FAULT_END || kind == FAULT_EINVAL));
                    if (!hard || before || !f.fired) {
                        assert_ok(status);
                        continue;
                    }
                    assert_int_equal(status, RL_IO);
                    assert_non_null(strstr(err.text, t.paths[1]));
                    assert_non_null(strstr(err.text, "expert"));
                    if (kind == FAULT_END) assert_non_null(strstr(err.text, "the file ends at"));
                    assert_ok(test_experts_token(&t, stream, l, ids, 5, &err));
                }
                f.at++;
            } while (f.fired);
            assert_true(f.at > 2 * 5 * RL_STREAM_PARTS);
            rl_stream_destroy(stream);
            test_experts_fini(&t);
        }
    }
}

static void stream_survives_faults_uring_direct(void **state)
{
    (void)state;
    any_read_may_fail(RL_IO_DIRECT, RL_IO_DRIVER_URING, "fud");
}

static void stream_survives_faults_uring_buffered(void **state)
{
    (void)state;
    any_read_may_fail(RL_IO_BUFFERED, RL_IO_DRIVER_URING, "fub");
}

static void stream_survives_faults_threads_direct(void **state)
{
    (void)state;
    any_read_may_fail(RL_IO_DIRECT, RL_IO_DRIVER_THREADS, "ftd");
}

static void stream_survives_faults_threads_buffered(void **state)
{
    (void)state;
    any_read_may_fail(RL_IO_BUFFERED, RL_IO_DRIVER_THREADS, "ftb");
}

/* A disk that only answers "try again" ends in an error, not in a loop. */
static void stream_gives_up_at_last(void **state)
{
    (void)state;
    const uint32_t ids[2] = { 1, 2 };
    test_experts t;
    rl_error err = { "" };
    fault f = { .kind = FAULT_EAGAIN, .sticky = true };
    test_experts_init(&t, "gu", TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, RL_IO_DRIVER_AUTO);
    params.fault = strike;
    params.fault_context = &f;
    rl_stream *stream = open_stream(&params);
    assert_int_equal(test_experts_token(&t, stream, 0, ids, 2, &err), RL_IO);
    assert_non_null(strstr(err.text, strerror(EAGAIN)));
    f.at = UINT32_MAX;
    assert_ok(test_experts_token(&t, stream, 0, ids, 2, &err));
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

/* The back end fails while taking the bytes: its sentence arrives, the rest goes on. */
static void stream_passes_on_fill_failures(void **state)
{
    (void)state;
    const uint32_t ids[4] = { 1, 2, 8, 9 };
    for (uint64_t at = 1; at <= 12; at++) {
        test_experts t;
        rl_error err = { "" };
        test_experts_init(&t, "ff", TEST_SINK_FILL, 1, 4);
        rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, RL_IO_DRIVER_AUTO);
        rl_stream *stream = open_stream(&params);
        t.fail_fill_at = at;
        assert_int_equal(test_experts_token(&t, stream, 0, ids, 4, &err), RL_DEVICE);
        assert_non_null(strstr(err.text, "the device went away"));
        assert_ok(test_experts_token(&t, stream, 0, ids, 4, &err));
        rl_stream_destroy(stream);
        test_experts_fini(&t);
    }
}

/* Somebody cuts the file while it is open, then puts it back. */
static void cut_file(rl_io_mode io, const char *name)
{
    const uint32_t ids[3] = { 0, 6, 11 };
    test_experts t;
    rl_error err = { "" };
    test_experts_init(&t, name, TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, io, RL_IO_DRIVER_AUTO);
    rl_stream *stream = open_stream(&params);
    assert_ok(rl_stream_check_files(stream, &err));
    uint64_t cut = t.parts[3][6][0].offset + 100;
    assert_int_equal(truncate(t.paths[1], (off_t)cut), 0);
    assert_int_equal(test_experts_token(&t, stream, 3, ids, 3, &err), RL_IO);
    char ends[64];
    snprintf(ends, sizeof ends, "the file ends at byte %llu", (unsigned long long)cut);
    if (!strstr(err.text, ends)) fail_msg("%s", err.text);
    assert_non_null(strstr(err.text, t.paths[1]));
    assert_ok(test_experts_token(&t, stream, 0, ids, 3, &err)); /* the other file */
    assert_int_equal(rl_stream_check_files(stream, &err), RL_IO);
    assert_non_null(strstr(err.text, "changed"));
    test_experts_write(&t, 1);
    assert_ok(test_experts_token(&t, stream, 3, ids, 3, &err));
    /* replaced by another file of that name: we keep the one that was opened */
    test_experts other = t;
    other.seed++;
    assert_int_equal(remove(t.paths[1]), 0);
    test_experts_write(&other, 1);
    rl_cache_clear(t.cache);
    assert_ok(test_experts_token(&t, stream, 3, ids, 3, &err));
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

static void stream_file_cut_and_replaced_direct(void **state)
{
    (void)state;
    cut_file(RL_IO_DIRECT, "cd");
}

static void stream_file_cut_and_replaced_buffered(void **state)
{
    (void)state;
    cut_file(RL_IO_BUFFERED, "cb");
}

/* ---- where io_uring is refused ----------------------------------------------------------------- */

#ifdef __linux__
/* The calls from `first` to io_uring_register (425..427) answer with this errno from now on. */
static void forbid_uring(uint32_t first, uint32_t why)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 427, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | why),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof code / sizeof code[0], .filter = code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(77);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(77);
}

/* In a child: 0 when streaming works over threads and says why. */
static int stream_without_uring(const char *name)
{
    const uint32_t ids[4] = { 4, 1, 2, 3 };
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, name, TEST_SINK_FILL, 1, 4);
    rl_stream_params params = test_experts_stream(&t, RL_IO_BUFFERED, RL_IO_DRIVER_URING);
    rl_stream *stream = NULL;
    if (rl_stream_create(&stream, &params, &err) != RL_UNSUPPORTED) return 2;
    params.driver = RL_IO_DRIVER_AUTO;
    params.io = RL_IO_DIRECT;
    rl_status status = rl_stream_create(&stream, &params, &err);
    if (status == RL_UNSUPPORTED) { /* no direct I/O in this folder; then threads it is anyway */
        params.io = RL_IO_AUTO;
        status = rl_stream_create(&stream, &params, &err);
    }
    if (status) return 3;
    rl_reader_info info = rl_stream_get_info(stream);
    if (strcmp(info.driver, "pread threads")) return 4;
#ifdef RL_HAVE_URING
    if (info.direct && !strstr(info.note, "io_uring is refused")) return 5;
#endif
    for (uint32_t l = 0; l < TEST_LAYERS; l++)
        if (test_experts_token(&t, stream, l, ids, 4, &err)) return 6;
    rl_stream_destroy(stream);
    test_experts_fini(&t);
    return 0;
}

/* Containers forbid io_uring by seccomp, old kernels do not know it. */
static void stream_falls_back_to_threads(void **state)
{
    (void)state;
    const struct {
        uint32_t first, why;
    } refusals[] = { { 425, EPERM }, { 425, ENOSYS }, { 426, EPERM }, { 425, EACCES } };
    for (uint32_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            forbid_uring(refusals[i].first, refusals[i].why);
            _exit(stream_without_uring("fb"));
        }
        int result = 0;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFEXITED(result));
        if (WEXITSTATUS(result) == 77) rl_test_skip("seccomp filters are refused here");
        assert_int_equal(WEXITSTATUS(result), 0);
    }
}
#else
static void stream_falls_back_to_threads(void **state)
{
    (void)state;
    rl_test_skip("io_uring is a Linux matter");
}
#endif

/* ---- preload ----------------------------------------------------------------------------------- */

typedef struct loading {
    test_experts *t;
    uint32_t n_loaded, n_told, stop_after;
    uint64_t last_bytes;
} loading;

static rl_status preload_fill(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                              const void *bytes, size_t n_bytes, rl_error *err)
{
    return test_experts_fill(((loading *)context)->t, key, slot, part, bytes, n_bytes, err);
}

static void preload_loaded(void *context, rl_expert_key key, rl_slot slot)
{
    loading *l = context;
    test_experts_check(l->t, key, slot);
    rl_cache_commit(l->t->cache, slot);
    rl_cache_release(l->t->cache, slot, RL_RELEASE_USED);
    l->n_loaded++;
}

static bool preload_progress(void *context, const rl_preload_progress *p)
{
    loading *l = context;
    assert_true(p->done_bytes >= l->last_bytes && p->done_bytes <= p->total_bytes);
    assert_int_equal(p->n_loaded, l->n_loaded);
    l->last_bytes = p->done_bytes;
    l->n_told++;
    return !l->stop_after || l->n_told < l->stop_after;
}

/* Reserves a slot for every expert and loads them all; what is not loaded is aborted. */
static rl_status load_everything(test_experts *t, loading *l, rl_io_mode io, rl_io_driver driver,
                                 size_t chunk, fault *f, rl_error *err)
{
    static rl_stream_request requests[TEST_LAYERS * TEST_EXPERTS];
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < TEST_LAYERS; layer++) {
        for (uint32_t e = 0; e < TEST_EXPERTS; e++) {
            rl_reservation r;
            assert_int_equal(rl_cache_reserve(t->cache, KEY(layer, e), &r), RL_RESERVE_MISS);
            requests[n++] = test_experts_request(t, r.key, r.slot);
        }
    }
    *l = (loading){ .t = t, .stop_after = l->stop_after };
    rl_status status = rl_preload(&(rl_preload_params){ .files = (const rl_file *const *)t->files,
                                                        .n_files = TEST_FILES,
                                                        .io = io,
                                                        .driver = driver,
                                                        .chunk_bytes = chunk,
                                                        .requests = requests,
                                                        .n_requests = n,
                                                        .fill = preload_fill,
                                                        .loaded = preload_loaded,
                                                        .progress = preload_progress,
                                                        .context = l,
                                                        .fault = f ? strike : NULL,
                                                        .fault_context = f },
                                  err);
    for (uint32_t i = 0; i < n; i++)
        if (rl_slot_is_none(rl_cache_find(t->cache, requests[i].key)))
            rl_cache_abort(t->cache, requests[i].slot);
    test_experts_check_idle(t);
    return status;
}

/* Every expert arrives whole, whatever the chunks; then no token misses. */
static void preload_loads_everything(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (uint32_t i = 0; i < 12; i++) {
        test_experts t;
        loading l = { .stop_after = 0 };
        rl_io_mode io = i & 1 ? RL_IO_BUFFERED : RL_IO_AUTO;
        rl_io_driver driver = i & 2 ? RL_IO_DRIVER_THREADS : RL_IO_DRIVER_AUTO;
        test_experts_init(&t, "pl", i % TEST_SINKS, 1, 4);
        size_t chunk = i < 4 ? 1 : i < 8 ? 200000 : 0;
        assert_ok(load_everything(&t, &l, io, driver, chunk, NULL, &err));
        assert_int_equal(l.n_loaded, TEST_LAYERS * TEST_EXPERTS);
        assert_true(l.n_told >= 1);
        uint64_t bytes = 0;
        for (uint32_t layer = 0; layer < TEST_LAYERS; layer++)
            for (uint32_t p = 0; p < RL_STREAM_PARTS; p++)
                bytes += TEST_EXPERTS * t.parts[layer][0][p].bytes;
        assert_int_equal(l.last_bytes, bytes);
        assert_int_equal(rl_cache_count(t.cache, RL_CACHE_NONE).free, 0);
        test_experts_fini(&t);
    }
}

/* A fault in any chunk ends the load with a sentence; nothing stays half done, and a second try
 * succeeds. Every load moves all bytes, so sanitizers see every fifth chunk fail, each kind of fault
 * at other ones. */
static void preload_survives_faults(void **state)
{
#ifdef RL_TEST_INSTRUMENTED
    const uint32_t step = 5;
#else
    const uint32_t step = 1;
#endif
    (void)state;
    for (fault_kind kind = 0; kind < FAULT_KINDS; kind++) {
        bool hard = kind == FAULT_EIO || kind == FAULT_END || kind == FAULT_EINVAL;
        fault f = { .kind = kind, .at = (uint32_t)kind % step };
        test_experts t;
        test_experts_init(&t, "pf", TEST_SINK_FILL, 1, 4);
        do {
            rl_error err = { "" };
            loading l = { .stop_after = 0 };
            f.seen = 0;
            f.fired = false;
            rl_cache_clear(t.cache);
            rl_status status =
                load_everything(&t, &l, RL_IO_BUFFERED, RL_IO_DRIVER_AUTO, 300000, &f, &err);
            if (hard && f.fired) {
                assert_int_equal(status, RL_IO);
                assert_non_null(strstr(err.text, "expert"));
                assert_true(strstr(err.text, t.paths[0]) || strstr(err.text, t.paths[1]));
            } else {
                assert_ok(status);
            }
            rl_cache_clear(t.cache);
            assert_ok(load_everything(&t, &l, RL_IO_AUTO, RL_IO_DRIVER_AUTO, 0, NULL, &err));
            f.at += step;
        } while (f.fired);
        test_experts_fini(&t);
        assert_true(f.at > 10);
    }
}

static bool stop_at_once(void *context, const rl_preload_progress *p)
{
    (void)context;
    return p->done_bytes == p->total_bytes;
}

static int32_t slow_disk(void *context, uint32_t file, uint64_t offset, uint32_t bytes,
                         int32_t result)
{
    (void)context, (void)file, (void)offset, (void)bytes;
    usleep(30000);
    return result;
}

/* Ctrl-C while loading 18 GiB must not wait for the last byte. */
static void preload_can_be_interrupted(void **state)
{
    (void)state;
    rl_error err = { "" };
    test_experts t;
    test_experts_init(&t, "pi", TEST_SINK_FILL, 1, 4);
    rl_stream_request requests[TEST_EXPERTS];
    for (uint32_t e = 0; e < TEST_EXPERTS; e++) {
        rl_reservation r;
        rl_cache_reserve(t.cache, KEY(0, e), &r);
        requests[e] = test_experts_request(&t, r.key, r.slot);
    }
    loading l = { .t = &t };
    rl_status status = rl_preload(&(rl_preload_params){ .files = (const rl_file *const *)t.files,
                                                        .n_files = TEST_FILES,
                                                        .chunk_bytes = 80000,
                                                        .requests = requests,
                                                        .n_requests = TEST_EXPERTS,
                                                        .fill = preload_fill,
                                                        .loaded = preload_loaded,
                                                        .progress = stop_at_once,
                                                        .fault = slow_disk,
                                                        .context = &l },
                                  &err);
    assert_int_equal(status, RL_INTERRUPTED);
    assert_true(l.n_loaded < TEST_EXPERTS);
    assert_non_null(strstr(err.text, "of 12 experts"));
    test_experts_fini(&t);
}

RL_TEST_MAIN(RL_TEST(stream, reads_uring_direct), RL_TEST(stream, reads_uring_buffered),
             RL_TEST(stream, reads_threads_direct), RL_TEST(stream, reads_threads_buffered),
             RL_TEST(stream, keeps_to_its_slack), RL_TEST(stream, storm_uring),
             RL_TEST(stream, storm_threads), RL_TEST(stream, needed_overtakes_prefetch),
             RL_TEST(stream, few_prefetches_beside_needed),
             RL_TEST(stream, survives_its_submitting_thread),
             RL_TEST(stream, auto_follows_the_page_cache),
             RL_TEST(stream, survives_faults_uring_direct),
             RL_TEST(stream, survives_faults_uring_buffered),
             RL_TEST(stream, survives_faults_threads_direct),
             RL_TEST(stream, survives_faults_threads_buffered), RL_TEST(stream, gives_up_at_last),
             RL_TEST(stream, passes_on_fill_failures),
             RL_TEST(stream, file_cut_and_replaced_direct),
             RL_TEST(stream, file_cut_and_replaced_buffered),
             RL_TEST(stream, falls_back_to_threads), RL_TEST(preload, loads_everything),
             RL_TEST(preload, survives_faults), RL_TEST(preload, can_be_interrupted))
