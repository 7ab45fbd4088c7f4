/* test_read_faults.c - the n-th read of an expert goes wrong, for every n, in every way that a disk
 * or another program can make it go wrong; and somebody must notice, once, and go on.
 *
 * Below the engine, whatever carries the reads out: the fault is put between the system call and
 * those who believe it. With a pool of the least size, so that every token reads. */
#include "support/golden.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROMPT = 5, TOKENS = 4, VOCAB = 512 };

typedef enum fault_kind { FAULT_ERROR, FAULT_SHORT, FAULT_END, FAULT_REPLACED } fault_kind;

typedef struct fault {
    fault_kind kind;
    uint64_t nth, seen; /* reads */
    bool fired;
    uint64_t offset; /* of the read that it hit ...             */
    bool lasts;      /* ... which ends there until this is over */
    const char *path;
    uint8_t *file, *other; /* what belongs there, and what does not */
    size_t file_bytes;
} fault;

typedef struct setup {
    bool ahead; /* the pool has room for reading ahead, which may fail unnoticed */
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

static int32_t on_read(void *context, uint32_t file, uint64_t offset, uint32_t bytes,
                       int32_t result)
{
    fault *f = context;
    (void)file;
    (void)bytes;
    if (f->fired) return f->lasts && offset == f->offset ? 0 : result;
    if (f->seen++ != f->nth) return result;
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
    rl_engine_params params = { .ops = rl_backend_find("cpu"),
                                .n_threads = 1,
                                .cache_bytes = UINT64_MAX,
                                .io = io,
                                .fault = on_read,
                                .fault_context = &s->fault };
    if (!params.ops) rl_test_skip("no cpu backend in this build");
    rl_status status = rl_engine_open(&s->engine, s->fault.path, &params, &err);
    if (status == RL_UNSUPPORTED && io == RL_IO_DIRECT) rl_test_skip("%s", err.text);
    assert_ok(status);
    const rl_cache_plan *plan = rl_experts_plan(s->engine->experts);
    params.cache_bytes = s->ahead ? plan->full_bytes / 2 : plan->minimum_bytes;
    rl_engine_close(s->engine);
    assert_ok(rl_engine_open(&s->engine, s->fault.path, &params, &err));
    assert_ok(rl_session_open(&s->session, s->engine, NULL, &err));
    assert_int_equal(s->engine->net.shape.n_vocab, VOCAB);
}

static void close_setup(setup *s)
{
    rl_session_destroy(s->session);
    rl_engine_close(s->engine);
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
    uint64_t failed = 0, n = 0;
    play(&s, false, &failed);
    assert_int_equal(failed, 0);
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
    if (s.ahead && kind == FAULT_ERROR) assert_true(s.in_vain > 0);
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
FAULTS(ahead_error_long, RL_IO_AUTO, FAULT_ERROR)
FAULTS(ahead_short_long, RL_IO_AUTO, FAULT_SHORT)
FAULTS(ahead_replaced_long, RL_IO_AUTO, FAULT_REPLACED)

RL_TEST_MAIN(RL_TEST(read_faults, direct_error), RL_TEST(read_faults, direct_short),
             RL_TEST(read_faults, direct_end), RL_TEST(read_faults, direct_replaced),
             RL_TEST(read_faults, buffered_error), RL_TEST(read_faults, buffered_short),
             RL_TEST(read_faults, buffered_end), RL_TEST(read_faults, buffered_replaced),
             RL_TEST(read_faults, ahead_error_long), RL_TEST(read_faults, ahead_short_long),
             RL_TEST(read_faults, ahead_replaced_long))
