/* test_experts.c - cache, plan, residency, stream and preload when an allocation, a read or the
 * io_uring submission fails, each at its n-th call for every n. */
#include "support/experts.h"
#include "support/fault.h"
#include "support/test.h"

#include <errno.h>

#include "cache/preload.h"

static void succeed_or_say_why(rl_status status, bool fired, rl_status expected,
                               const rl_error *err)
{
    if (!fired) {
        assert_int_equal(status, RL_OK);
        return;
    }
    if (status) {
        assert_int_equal(status, expected);
        assert_true(strlen(err->text) > 10);
    }
}

/* Stands against: leaks and half-made objects when memory runs out at open. */
static void experts_creation_survives_no_memory(void **state)
{
    (void)state;
    uint64_t layer_bytes[3] = { 1000, 2000, 1000 };
    int64_t live = rl_fault_live();
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        rl_error err = { "" };
        rl_cache *cache = NULL;
        rl_cache_plan plan;
        assert_true(n < 20);
        rl_fault_arm(n);
        rl_status status = rl_cache_plan_init(&plan,
                                              &(rl_cache_plan_params){ .n_layer = 3,
                                                                       .n_expert = 8,
                                                                       .n_expert_used = 2,
                                                                       .layer_bytes = layer_bytes,
                                                                       .budget_bytes = 20000,
                                                                       .name = "model" },
                                              &err);
        if (!status)
            status = rl_cache_create(&cache,
                                     &(rl_cache_params){ .n_layer = 3,
                                                         .n_expert = 8,
                                                         .n_class = plan.n_class,
                                                         .layer_class = plan.layer_class,
                                                         .class_slots = plan.class_slots },
                                     &err);
        fired = rl_fault_disarm();
        succeed_or_say_why(status, fired, RL_NOMEM, &err);
        assert_int_equal(status != RL_OK, fired);
        assert_int_equal(cache == NULL, status != RL_OK);
        rl_cache_destroy(cache);
        rl_cache_plan_fini(&plan);
    }
    assert_int_equal(rl_fault_live(), live);
}

/* Creation, and then the token: nothing may be allocated in it. */
static void stream_over(rl_io_mode io, rl_io_driver driver, const char *name)
{
    const uint32_t ids[4] = { 3, 1, 8, 10 };
    test_experts t;
    test_experts_init(&t, name, TEST_SINK_FILL, 0.5, 4);
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        rl_error err = { "" };
        rl_stream *stream = NULL;
        rl_stream_params params = test_experts_stream(&t, io, driver);
        params.n_requests = 32;
        params.ring_bytes = 1;
        assert_true(n < 200);
        int64_t live = rl_fault_live();
        rl_fault_arm(n);
        rl_status status = rl_stream_create(&stream, &params, &err);
        fired = rl_fault_disarm();
        /* a failed read while probing for direct I/O means that there is none */
        if (fired && status) assert_true(status == RL_NOMEM || status == RL_UNSUPPORTED);
        if (!fired && status == RL_UNSUPPORTED) rl_test_skip("%s", err.text);
        succeed_or_say_why(status, fired, status, &err);
        assert_int_equal(stream == NULL, status != RL_OK);
        if (stream) {
            for (uint32_t l = 0; l < TEST_LAYERS; l++)
                assert_ok(test_experts_token(&t, stream, l, ids, 4, &err));
            rl_cache_clear(t.cache);
        }
        rl_stream_destroy(stream);
        assert_int_equal(rl_fault_live(), live);
    }
    /* the token loop: with threads every pread is one of ours and may fail; nothing else may call */
    rl_error err = { "" };
    rl_stream *stream = NULL;
    rl_stream_params params = test_experts_stream(&t, io, driver);
    assert_ok(rl_stream_create(&stream, &params, &err));
    fired = true;
    for (uint64_t n = 0; fired; n++) {
        assert_true(n < 200);
        rl_cache_clear(t.cache);
        rl_fault_arm(n);
        rl_status status = test_experts_token(&t, stream, 1, ids, 4, &err);
        fired = rl_fault_disarm();
        succeed_or_say_why(status, fired, RL_IO, &err);
        if (driver == RL_IO_DRIVER_URING) assert_int_equal(rl_fault_calls(), 0);
        if (driver == RL_IO_DRIVER_THREADS) assert_true(rl_fault_calls() >= 12);
        if (status) assert_non_null(strstr(err.text, strerror(EIO)));
        assert_ok(test_experts_token(&t, stream, 1, ids, 4, &err));
    }
    rl_stream_destroy(stream);
    test_experts_fini(&t);
}

static void experts_stream_survives_uring(void **state)
{
    (void)state;
    stream_over(RL_IO_DIRECT, RL_IO_DRIVER_URING, "xu");
}

static void experts_stream_survives_threads(void **state)
{
    (void)state;
    stream_over(RL_IO_BUFFERED, RL_IO_DRIVER_THREADS, "xt");
}

static void commit(void *context, rl_expert_key key, rl_slot slot)
{
    test_experts *t = context;
    test_experts_check(t, key, slot);
    rl_cache_commit(t->cache, slot);
    rl_cache_release(t->cache, slot, RL_RELEASE_USED);
}

static void experts_preload_survives(void **state)
{
    (void)state;
    test_experts t;
    test_experts_init(&t, "xp", TEST_SINK_FILL, 1, 4);
    static rl_stream_request requests[TEST_LAYERS * TEST_EXPERTS];
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        rl_error err = { "" };
        uint32_t n_requests = 0;
        assert_true(n < 200);
        rl_cache_clear(t.cache);
        for (uint32_t l = 0; l < TEST_LAYERS; l++) {
            for (uint32_t e = 0; e < TEST_EXPERTS; e++) {
                rl_reservation r;
                rl_cache_reserve(t.cache, (rl_expert_key){ l, e }, &r);
                requests[n_requests++] = test_experts_request(&t, r.key, r.slot);
            }
        }
        int64_t live = rl_fault_live();
        rl_fault_arm(n);
        rl_status status =
            rl_preload(&(rl_preload_params){ .files = (const rl_file *const *)t.files,
                                             .n_files = TEST_FILES,
                                             .io = RL_IO_BUFFERED,
                                             .driver = RL_IO_DRIVER_THREADS,
                                             .chunk_bytes = 400000,
                                             .requests = requests,
                                             .n_requests = n_requests,
                                             .fill = test_experts_fill,
                                             .loaded = commit,
                                             .context = &t },
                       &err);
        fired = rl_fault_disarm();
        assert_int_equal(status != RL_OK, fired);
        if (status) assert_true(status == RL_NOMEM || status == RL_IO);
        assert_int_equal(strlen(err.text) > 10, fired);
        assert_int_equal(rl_fault_live(), live);
        for (uint32_t i = 0; i < n_requests; i++)
            if (rl_slot_is_none(rl_cache_find(t.cache, requests[i].key)))
                rl_cache_abort(t.cache, requests[i].slot);
        test_experts_check_idle(&t);
    }
    test_experts_fini(&t);
}

#ifdef RL_HAVE_URING
#include <liburing.h>

static int submit_fails_at, submit_error;

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring)
{
    if (submit_fails_at > 0 && --submit_fails_at == 0) return submit_error;
    return __real_io_uring_submit(ring);
}

/* The kernel is out of memory for a moment, or stops taking submissions for good: the tokens come
 * out right either way, the second time by reads in place. */
static void experts_submission_fails(void **state)
{
    (void)state;
    const int errors[] = { -EAGAIN, -EBUSY, -EINTR, -ENXIO, -EPERM };
    const uint32_t ids[4] = { 3, 1, 8, 10 };
    test_experts t;
    test_experts_init(&t, "xs", TEST_SINK_FILL, 0.5, 4);
    for (uint32_t kind = 0; kind < sizeof errors / sizeof errors[0]; kind++) {
        for (int n = 1; n < 30; n++) {
            rl_error err = { "" };
            rl_stream *stream = NULL;
            rl_stream_params params = test_experts_stream(&t, RL_IO_AUTO, RL_IO_DRIVER_URING);
            params.depth = 5;
            rl_status status = rl_stream_create(&stream, &params, &err);
            if (status == RL_UNSUPPORTED) rl_test_skip("%s", err.text);
            assert_ok(status);
            submit_fails_at = n;
            submit_error = errors[kind];
            rl_cache_clear(t.cache);
            for (uint32_t l = 0; l < TEST_LAYERS; l++)
                assert_ok(test_experts_token(&t, stream, l, ids, 4, &err));
            submit_fails_at = 0;
            rl_stream_destroy(stream);
        }
    }
    test_experts_fini(&t);
}
#else
static void experts_submission_fails(void **state)
{
    (void)state;
    rl_test_skip("io_uring is not in this build");
}
#endif

RL_TEST_MAIN(RL_TEST(experts, creation_survives_no_memory), RL_TEST(experts, stream_survives_uring),
             RL_TEST(experts, stream_survives_threads), RL_TEST(experts, preload_survives),
             RL_TEST(experts, submission_fails))
