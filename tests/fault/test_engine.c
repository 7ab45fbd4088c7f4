/* test_engine.c - opening a model, running it, saving and loading a session, when the n-th
 * allocation or read fails, for every n. */
#include "support/fault.h"
#include "support/test.h"

#include <unistd.h>

#include "engine/experts.h"
#include "engine/session.h"

static const uint32_t tokens[] = { 1, 7, 42, 99, 3, 200, 5 };

typedef struct setup {
    const rl_backend_ops *ops;
    const char *model, *saved;
} setup;

static setup setup_for(const char *backend)
{
    const rl_backend_ops *ops = rl_backend_find(backend);
    if (!ops) rl_test_skip("no backend %s in this build", backend);
    return (setup){ .ops = ops,
                    .model = rl_test_fixture("bad-gguf/good-base.gguf"),
                    .saved = rl_test_scratch("fault-session-%s.bin", backend) };
}

/* Everything a program does with a model, in one go. */
static rl_status whole_life(const setup *s, float *logits, rl_error *err)
{
    rl_engine *engine = NULL;
    rl_session *session = NULL;
    rl_engine_params params = { .ops = s->ops, .n_threads = 1, .n_batch = 4, .cache_bytes = 0 };
    rl_session_params small = { .n_ctx = 32 };
    rl_status status = rl_engine_open(&engine, s->model, &params, err);
    if (!status) status = rl_session_open(&session, engine, &small, err);
    if (!status) status = rl_session_feed(session, tokens, 5, err);
    if (!status) status = rl_session_checkpoint(session, err);
    if (!status) status = rl_session_save(session, s->saved, err);
    if (!status) status = rl_session_feed(session, tokens + 5, 1, err);
    if (!status) status = rl_session_rewind(session, 5, err);
    if (!status) status = rl_session_load(session, s->saved, err);
    if (!status) status = rl_session_feed(session, tokens + 5, 2, err);
    if (!status)
        memcpy(logits, rl_session_logits(session), engine->net.shape.n_vocab * sizeof *logits);
    rl_session_destroy(session);
    rl_engine_close(engine);
    return status;
}

/* Stands against: a leak or a crash on an error path, and a failure that goes unnoticed and leaves
 * wrong numbers. */
static void check_life(const char *backend)
{
    setup s = setup_for(backend);
    static float want[512], got[512];
    rl_error err = { "" };
    assert_ok(whole_life(&s, want, &err)); /* also: what libraries keep for ever is kept now */
    int64_t live = rl_fault_live();
    bool fired = true;
    uint64_t n = 0, failed = 0;
    for (; fired; n++) {
        err.text[0] = 0;
        memset(got, 0, sizeof got);
        rl_fault_arm(n);
        rl_status status = whole_life(&s, got, &err);
        fired = rl_fault_disarm();
        if (status) {
            failed++;
            assert_true(fired);
            if (status != RL_NOMEM && status != RL_IO)
                fail_msg("fault %llu: %s (%s)", (unsigned long long)n, rl_status_name(status),
                         err.text);
            assert_true(err.text[0] != 0);
        } else {
            assert_memory_equal(got, want, sizeof want);
        }
        if (rl_fault_live() != live)
            fail_msg("fault %llu (%s): %lld blocks stay behind", (unsigned long long)n, err.text,
                     (long long)(rl_fault_live() - live));
    }
    printf("%s: %llu faults, %llu of them stopped it\n", backend, (unsigned long long)n,
           (unsigned long long)failed);
    assert_true(failed > 50);
    unlink(s.saved);
}

/* A failure in the middle of a text leaves a session that goes on as if nothing had been. */
static void check_feed(const char *backend)
{
    setup s = setup_for(backend);
    rl_error err = { "" };
    rl_engine *engine = NULL;
    rl_session *session = NULL;
    static float want[2][512];
    /* Too small a pool for everything, so that feeding reads. */
    rl_engine_params params = { .ops = s.ops, .n_threads = 1, .cache_bytes = UINT64_MAX };
    assert_ok(rl_engine_open(&engine, s.model, &params, &err));
    params.cache_bytes = rl_experts_plan(engine->experts)->minimum_bytes;
    rl_engine_close(engine);
    assert_ok(rl_engine_open(&engine, s.model, &params, &err));
    assert_ok(rl_session_open(&session, engine, NULL, &err));
    uint32_t n_vocab = engine->net.shape.n_vocab;
    assert_ok(rl_session_feed(session, tokens, 4, &err));
    memcpy(want[0], rl_session_logits(session), n_vocab * sizeof(float));
    assert_ok(rl_session_feed(session, tokens + 4, 1, &err));
    memcpy(want[1], rl_session_logits(session), n_vocab * sizeof(float));
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        assert_ok(rl_session_reset(session, &err));
        rl_fault_arm(n);
        rl_status status = rl_session_feed(session, tokens, 4, &err);
        fired = rl_fault_disarm();
        if (status) {
            assert_int_equal(rl_session_position(session), 0);
            assert_ok(rl_session_feed(session, tokens, 4, &err));
        }
        assert_memory_equal(rl_session_logits(session), want[0], n_vocab * sizeof(float));
        assert_ok(rl_session_feed(session, tokens + 4, 1, &err));
        assert_memory_equal(rl_session_logits(session), want[1], n_vocab * sizeof(float));
        rl_cache_check(rl_experts_cache(engine->experts));
        assert_int_equal(rl_cache_count(rl_experts_cache(engine->experts), RL_CACHE_NONE).pinned,
                         0);
    }
    rl_session_destroy(session);
    rl_engine_close(engine);
}

#define BACKEND(name)                                                                              \
    static void engine_life_survives_any_fault_##name(void **state)                                \
    {                                                                                              \
        (void)state;                                                                               \
        check_life(#name);                                                                         \
    }                                                                                              \
    static void engine_feed_survives_any_fault_##name(void **state)                                \
    {                                                                                              \
        (void)state;                                                                               \
        check_feed(#name);                                                                         \
    }
BACKEND(oracle)
BACKEND(cpu)

RL_TEST_MAIN(RL_TEST(engine, life_survives_any_fault_oracle),
             RL_TEST(engine, feed_survives_any_fault_oracle),
             RL_TEST(engine, life_survives_any_fault_cpu),
             RL_TEST(engine, feed_survives_any_fault_cpu))
