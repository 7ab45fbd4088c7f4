/* test_read_faults.c - the n-th read of an expert goes wrong, for every n, in every way that a disk
 * or another program can make it go wrong; and somebody must notice, once, and go on.
 *
 * Below the engine, whatever carries the reads out: the fault is put between the system call and
 * those who believe it. With a pool of the least size, so that every token reads; and with a larger
 * one, so that experts are read ahead, and a fault may hit one that nobody needs yet: in the
 * synchronous step and in gated tokens. */
#include "support/golden.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/decode.h"
#include "support/fake_routed.h"

enum { PROMPT = 5, TOKENS = 4, VOCAB = 512 };

typedef enum fault_kind { FAULT_ERROR, FAULT_SHORT, FAULT_END, FAULT_REPLACED } fault_kind;

/* One read of the text: the `times`-th one that begins at this offset, 1 being the first. */
typedef struct place {
    uint64_t offset;
    uint32_t times;
} place;

typedef struct fault {
    fault_kind kind;
    uint64_t nth, seen; /* reads, as they end; or, */
    bool by_place;      /* whatever order they end in, ... */
    place at;           /* ... this one                    */
    place *places;      /* [n_places] all reads so far, unless NULL */
    uint32_t n_places;
    bool fired;
    uint64_t offset; /* of the read that it hit ...             */
    bool lasts;      /* ... which ends there until this is over */
    const char *path;
    uint8_t *file, *other; /* what belongs there, and what does not */
    size_t file_bytes;
} fault;

typedef struct setup {
    bool ahead; /* the pool has room for reading ahead, which may fail unnoticed */
    rl_engine_params params;
    fault fault;
    uint64_t in_vain;
    rl_engine *engine;
    rl_session *session;
    float want[TOKENS][VOCAB];
} setup;

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    int out = open(path, O_WRONLY | O_CREAT, 0644); /* in place: no new inode, no truncation */
    assert_true(out >= 0);
    assert_int_equal(pwrite(out, bytes, n, 0), n);
    close(out);
}

enum { MAX_PLACES = 4096 };

static uint32_t note_place(fault *f, uint64_t offset)
{
    uint32_t times = 1;
    for (uint32_t i = 0; i < f->n_places; i++)
        times += f->places[i].offset == offset;
    assert_true(f->n_places < MAX_PLACES);
    f->places[f->n_places++] = (place){ offset, times };
    return times;
}

/* Is this read the one? */
static bool is_due(fault *f, uint64_t offset)
{
    if (!f->by_place) return f->seen++ == f->nth;
    uint32_t times = note_place(f, offset);
    return offset == f->at.offset && times == f->at.times;
}

static int32_t on_read(void *context, uint32_t file, uint64_t offset, uint32_t bytes,
                       int32_t result)
{
    fault *f = context;
    (void)file;
    (void)bytes;
    if (f->fired) return f->lasts && offset == f->offset ? 0 : result;
    if (!is_due(f, offset)) return result;
    f->fired = true;
    f->offset = offset;
    f->lasts = f->kind == FAULT_END; /* or it would be a short read, which is tried again */
    switch (f->kind) {
    case FAULT_ERROR: return -EIO;
    case FAULT_SHORT: return result > 1 ? result / 2 : result;
    case FAULT_END: return 0;
    case FAULT_REPLACED: write_file(f->path, f->other, f->file_bytes); return result;
    }
    return result;
}

static void arm(fault *f, fault_kind kind, uint64_t nth)
{
    f->kind = kind;
    f->nth = nth;
    f->seen = 0;
    f->fired = false;
}

static void open_engine(setup *s)
{
    rl_error err = { "" };
    assert_ok(rl_engine_open(&s->engine, s->fault.path, &s->params, &err));
    assert_ok(rl_session_open(&s->session, s->engine, NULL, &err));
    assert_int_equal(s->engine->net.shape.n_vocab, VOCAB);
}

static void close_engine(setup *s)
{
    rl_session_destroy(s->session);
    rl_engine_close(s->engine);
}

static void open_setup(setup *s, const char *name, rl_io_mode io)
{
    rl_error err = { "" };
    size_t bytes;
    s->ahead = strstr(name, "ahead") != NULL;
    s->in_vain = 0;
    s->fault = (fault){ .fired = true };
    s->fault.file = rl_test_read(rl_test_fixture("models/tiny-s-Q8_0.gguf"), &bytes);
    s->fault.file_bytes = bytes;
    s->fault.path = strdup(rl_test_scratch("read-faults-%s.gguf", name));
    unlink(s->fault.path);
    write_file(s->fault.path, s->fault.file, bytes);
    s->fault.other = malloc(bytes);
    assert_non_null(s->fault.other);
    for (size_t i = 0; i < bytes; i++)
        s->fault.other[i] = s->fault.file[i] ^ 0x55;
    const bool gated = strstr(name, "gated") != NULL;
    s->params = (rl_engine_params){ .ops = gated ? fake_routed_ops() : rl_backend_find("cpu"),
                                    .n_threads = 1,
                                    .cache_bytes = UINT64_MAX,
                                    .io = io,
                                    .speculative = gated ? "gated" : NULL,
                                    .fault = on_read,
                                    .fault_context = &s->fault };
    if (!s->params.ops) rl_test_skip("no cpu backend in this build");
    rl_status status = rl_engine_open(&s->engine, s->fault.path, &s->params, &err);
    if (status == RL_UNSUPPORTED && io == RL_IO_DIRECT) rl_test_skip("%s", err.text);
    assert_ok(status);
    const rl_cache_plan *plan = rl_experts_plan(s->engine->experts);
    s->params.cache_bytes = s->ahead ? plan->full_bytes / 2 : plan->minimum_bytes;
    rl_engine_close(s->engine);
}

static void close_setup(setup *s)
{
    unlink(s->fault.path);
    free((void *)(uintptr_t)s->fault.path);
    free(s->fault.file);
    free(s->fault.other);
}

/* Nobody holds a slot any more, and the table says what the cache says. */
static void check_rest(const setup *s)
{
    const rl_cache *cache = rl_experts_cache(s->engine->experts);
    rl_cache_check(cache);
    rl_cache_census census = rl_cache_count(cache, RL_CACHE_NONE);
    assert_int_equal(census.pinned, 0);
    assert_int_equal(census.loading, 0);
    assert_int_equal(census.free + census.resident, census.slots);
    rl_residency_check(rl_experts_residency(s->engine->experts), cache);
}

/* One step of the text: the prompt at once, then single tokens. A failure leaves the session where
 * it was; with the fault gone, the same step succeeds. */
static void feed(setup *s, uint32_t step, uint64_t *failed)
{
    static const uint32_t text[PROMPT + TOKENS - 1] = { 1, 7, 42, 99, 3, 200, 5, 11 };
    rl_error err = { "" };
    uint32_t position = rl_session_position(s->session), n = step ? 1 : PROMPT;
    const uint32_t *tokens = step ? text + PROMPT + step - 1 : text;
    bool fired_before = s->fault.fired;
    rl_status status = rl_session_feed(s->session, tokens, n, &err);
    check_rest(s);
    if (!status) {
        /* A replaced file is found by the next read, if this one was in vain. */
        if (s->fault.fired && !fired_before && s->fault.kind != FAULT_SHORT) {
            assert_true(s->ahead);
            s->in_vain++;
            s->fault.lasts = false;
            if (s->fault.kind == FAULT_REPLACED)
                write_file(s->fault.path, s->fault.file, s->fault.file_bytes);
        }
        return;
    }
    ++*failed;
    s->fault.lasts = false;
    assert_true(s->fault.fired && !fired_before);
    assert_int_equal(status, RL_IO);
    assert_non_null(strstr(err.text, s->fault.path));
    assert_non_null(strstr(err.text, "expert"));
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(rl_session_position(s->session), position);
    if (s->fault.kind == FAULT_REPLACED) {
        /* As long as the other file stands there, nothing is believed. */
        assert_int_equal(rl_session_feed(s->session, tokens, n, &err), RL_IO);
        assert_non_null(strstr(err.text, "changed"));
        check_rest(s);
        write_file(s->fault.path, s->fault.file, s->fault.file_bytes);
    }
    assert_ok(rl_session_feed(s->session, tokens, n, &err));
    check_rest(s);
}

/* Behind the first play: every token but the prompt went the way that is meant. */
static void check_tokens(const setup *s)
{
    rl_decode_counts n = rl_decoder_counts(s->engine->decoder);
    assert_int_equal(s->params.speculative ? n.gated : n.sync, TOKENS - 1);
}

static void play(setup *s, bool compare, uint64_t *failed)
{
    rl_error err = { "" };
    assert_ok(rl_session_reset(s->session, &err));
    rl_cache_clear(rl_experts_cache(s->engine->experts));
    for (uint32_t step = 0; step < TOKENS; step++) {
        feed(s, step, failed);
        const float *logits = rl_session_logits(s->session);
        if (compare)
            assert_memory_equal(logits, s->want[step], sizeof s->want[step]);
        else
            memcpy(s->want[step], logits, sizeof s->want[step]);
    }
}

/* Stands against: a slot that stays pinned, a table that points to bytes which never came, a session
 * that has half a token, and wrong numbers without a word. */
static void check_faults(const char *name, rl_io_mode io, fault_kind kind)
{
    static setup s;
    open_setup(&s, name, io);
    open_engine(&s);
    uint64_t failed = 0, n = 0;
    play(&s, false, &failed);
    assert_int_equal(failed, 0);
    check_tokens(&s);
    for (bool fired = true; fired; n++) {
        arm(&s.fault, kind, n);
        play(&s, true, &failed);
        fired = s.fault.fired;
        s.fault.fired = true;
    }
    printf("%s: %llu faults, %llu of them stopped a token, %llu hit what was read ahead in vain\n",
           name, (unsigned long long)n - 1, (unsigned long long)failed,
           (unsigned long long)s.in_vain);
    assert_true(n > 50);
    assert_int_equal(failed + s.in_vain, kind == FAULT_SHORT ? 0 : n - 1);
    if (!s.ahead) assert_int_equal(s.in_vain, 0);
    close_engine(&s);
    close_setup(&s);
}

/* The same where no timing decides what a fault hits: what is read ahead has ended before its layer
 * begins, every play begins with a new engine, and reads are told by their place. Then a fault in
 * what was read ahead never stops a token, one in what is needed always does, and both are as many
 * as the cache says.
 * Stands against: a failed guess that is believed, or that fails a token which can do without. */
static void check_settled(const char *name, fault_kind kind)
{
    static setup s;
    open_setup(&s, name, RL_IO_AUTO);
    s.params.settle_ahead = true;
    place *all = calloc(MAX_PLACES, sizeof *all), *again = calloc(MAX_PLACES, sizeof *again);
    assert_true(all && again);
    s.fault.by_place = true;
    s.fault.places = all;
    arm(&s.fault, kind, 0); /* no read begins at byte 0 for the 0th time */
    uint64_t failed = 0;
    open_engine(&s);
    play(&s, false, &failed);
    check_tokens(&s);
    uint64_t needed = 0, ahead = 0;
    for (int phase = RL_CACHE_PREFILL; phase <= RL_CACHE_DECODE; phase++) {
        rl_cache_figures f = rl_cache_get_figures(rl_experts_cache(s.engine->experts), phase);
        needed += 3 * f.misses;
        ahead += 3 * f.prefetches;
    }
    close_engine(&s);
    uint32_t n = s.fault.n_places;
    assert_int_equal(failed, 0);
    assert_int_equal(n, needed + ahead);
    s.fault.places = again;
#ifdef RL_TEST_INSTRUMENTED
    enum { STRIDE = 7 }; /* every place takes a new engine, which is slow there */
#else
    enum { STRIDE = 1 };
#endif
    uint32_t n_played = 0;
    for (uint32_t i = 0; i < n; i += STRIDE, n_played++) {
        s.fault.n_places = 0;
        s.fault.at = all[i];
        arm(&s.fault, kind, 0);
        open_engine(&s);
        play(&s, true, &failed);
        close_engine(&s);
        assert_true(s.fault.fired);
    }
    printf("%s: %u reads, %llu needed and %llu ahead; %llu faults stopped a token, %llu did not\n",
           name, n, (unsigned long long)needed, (unsigned long long)ahead,
           (unsigned long long)failed, (unsigned long long)s.in_vain);
    assert_true(ahead > 50 && needed > 50);
    if (kind != FAULT_SHORT) assert_int_equal(failed + s.in_vain, n_played);
    if (kind == FAULT_ERROR && STRIDE == 1) assert_int_equal(failed, needed);
    /* Nothing is believed of a file that was replaced, neither what comes next. */
    if (kind == FAULT_REPLACED && STRIDE == 1) assert_true(failed >= needed);
    if (kind == FAULT_SHORT) assert_int_equal(failed + s.in_vain, 0);
    free(all);
    free(again);
    close_setup(&s);
}

#define FAULTS(name, io, kind)                                                                     \
    static void read_faults_##name(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        check_faults(#name, io, kind);                                                             \
    }
FAULTS(direct_error, RL_IO_DIRECT, FAULT_ERROR)
FAULTS(direct_short, RL_IO_DIRECT, FAULT_SHORT)
FAULTS(direct_end, RL_IO_DIRECT, FAULT_END)
FAULTS(direct_replaced, RL_IO_DIRECT, FAULT_REPLACED)
FAULTS(buffered_error, RL_IO_BUFFERED, FAULT_ERROR)
FAULTS(buffered_short, RL_IO_BUFFERED, FAULT_SHORT)
FAULTS(buffered_end, RL_IO_BUFFERED, FAULT_END)
FAULTS(buffered_replaced, RL_IO_BUFFERED, FAULT_REPLACED)
FAULTS(ahead_error, RL_IO_AUTO, FAULT_ERROR)
FAULTS(ahead_short, RL_IO_AUTO, FAULT_SHORT)
FAULTS(ahead_replaced, RL_IO_AUTO, FAULT_REPLACED)
FAULTS(gated_ahead_error, RL_IO_AUTO, FAULT_ERROR)

#define SETTLED(name, kind)                                                                        \
    static void read_faults_##name(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        check_settled(#name, kind);                                                                \
    }
SETTLED(ahead_settled_error, FAULT_ERROR)
SETTLED(ahead_settled_short, FAULT_SHORT)
SETTLED(ahead_settled_replaced, FAULT_REPLACED)
SETTLED(gated_ahead_settled_error, FAULT_ERROR)
SETTLED(gated_ahead_settled_replaced, FAULT_REPLACED)

RL_TEST_MAIN(RL_TEST(read_faults, direct_error), RL_TEST(read_faults, direct_short),
             RL_TEST(read_faults, direct_end), RL_TEST(read_faults, direct_replaced),
             RL_TEST(read_faults, buffered_error), RL_TEST(read_faults, buffered_short),
             RL_TEST(read_faults, buffered_end), RL_TEST(read_faults, buffered_replaced),
             RL_TEST(read_faults, ahead_error), RL_TEST(read_faults, ahead_short),
             RL_TEST(read_faults, ahead_replaced), RL_TEST(read_faults, ahead_settled_error),
             RL_TEST(read_faults, ahead_settled_short),
             RL_TEST(read_faults, ahead_settled_replaced), RL_TEST(read_faults, gated_ahead_error),
             RL_TEST(read_faults, gated_ahead_settled_error),
             RL_TEST(read_faults, gated_ahead_settled_replaced))
