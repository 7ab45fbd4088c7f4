/* gpu_life.c - tests/support/gpu_life.h. */
#ifdef RL_HAVE_VULKAN
#include "support/gpu_life.h"

#include "base/bytes.h"
#include "engine/experts.h"
#include "support/vulkan_guard.h"

enum { BATCH = 4, CONTEXT = 64, SLOTS = 24 };

static const uint32_t prompt[] = { 1, 7, 42, 99, 3, 200 };

static rl_status open_engine(rl_gpu_life *l, rl_error *err)
{
    rl_engine_params params = { .ops = rl_backend_find("vulkan"),
                                .n_threads = 1,
                                .n_batch = BATCH,
                                .n_ctx = CONTEXT,
                                .cache_bytes = l->setup->bounded ? SLOTS * 6656 : UINT64_MAX,
                                .no_preload = !l->setup->preload,
                                .settle_ahead = true,
                                .speculative = l->setup->way };
    return rl_engine_open(&l->engine, rl_test_fixture("models/tiny-s-Q8_0.gguf"), &params, err);
}

static rl_status open_session(rl_gpu_life *l, rl_error *err)
{
    return rl_session_open(&l->session, l->engine, &(rl_session_params){ .n_ctx = CONTEXT }, err);
}

static rl_status feed_prompt(rl_gpu_life *l, rl_error *err)
{
    /* What an earlier try has read stays read. */
    uint32_t at = rl_session_position(l->session);
    return rl_session_feed(l->session, prompt + at, RL_COUNT_OF(prompt) - at, err);
}

static rl_status checkpoint(rl_gpu_life *l, rl_error *err)
{
    return rl_session_checkpoint(l->session, err);
}

static rl_status choose(rl_gpu_life *l, rl_sampler_params params, rl_error *err)
{
    rl_status status = rl_sampler_create(&l->sampler, &params, l->engine->net.shape.n_vocab, err);
    uint32_t token;
    if (!status) status = rl_session_sample(l->session, l->sampler, &token, err);
    if (!status) l->tokens[l->n_tokens++] = token;
    rl_sampler_destroy(l->sampler);
    l->sampler = NULL;
    return status;
}

static rl_status choose_largest(rl_gpu_life *l, rl_error *err)
{
    return choose(l, (rl_sampler_params){ 0 }, err);
}

static rl_status choose_any(rl_gpu_life *l, rl_error *err)
{
    return choose(l, (rl_sampler_params){ .temperature = 1, .top_k = 20, .top_p = 0.9f, .seed = 5 },
                  err);
}

static rl_status feed(rl_gpu_life *l, rl_error *err)
{
    const uint32_t *token = l->n_tokens ? &l->tokens[l->n_tokens - 1] : prompt;
    return rl_session_feed(l->session, token, 1, err);
}

static rl_status save(rl_gpu_life *l, rl_error *err)
{
    return rl_session_save(l->session, l->setup->saved, err);
}

/* A failure on the way leaves an empty session: the prompt once more. */
static rl_status go_back(rl_gpu_life *l, rl_error *err)
{
    rl_status status = rl_session_rewind(l->session, RL_COUNT_OF(prompt), err);
    uint32_t position = rl_session_position(l->session);
    if (status && position && position <= RL_COUNT_OF(prompt))
        fail_msg("a session that could not go back stands at %u", position);
    return status || position ? status : feed_prompt(l, err);
}

static rl_status reset(rl_gpu_life *l, rl_error *err)
{
    return rl_session_reset(l->session, err);
}

static rl_status load(rl_gpu_life *l, rl_error *err)
{
    return rl_session_load(l->session, l->setup->saved, err);
}

static rl_status feed_timed(rl_gpu_life *l, rl_error *err)
{
    l->engine->ops->time_stages(l->engine->be, &l->times);
    return feed(l, err);
}

static rl_status feed_untimed(rl_gpu_life *l, rl_error *err)
{
    l->engine->ops->time_stages(l->engine->be, NULL);
    return feed(l, err);
}

static rl_status read_logits(rl_gpu_life *l, rl_error *err)
{
    pthread_mutex_lock(&l->engine->lock);
    rl_status status = rl_session_settle(l->session, err);
    pthread_mutex_unlock(&l->engine->lock);
    const float *logits = rl_session_logits(l->session);
    if (!status && !logits) return rl_fail(err, RL_INVALID, "no token was fed");
    if (!status) memcpy(l->logits, logits, sizeof l->logits);
    return status;
}

static const struct {
    const char *name;
    rl_status (*play)(rl_gpu_life *l, rl_error *err);
} steps[] = {
    { "open", open_engine },
    { "make a session", open_session },
    { "feed the prompt", feed_prompt },
    { "keep a checkpoint", checkpoint },
    { "choose the largest", choose_largest },
    { "feed it", feed },
    { "choose the largest again", choose_largest },
    { "feed that", feed },
    { "choose any", choose_any },
    { "feed what was chosen", feed },
    { "save", save },
    { "go back", go_back },
    { "choose after going back", choose_largest },
    { "feed after going back", feed },
    { "reset", reset },
    { "load", load },
    { "choose any after loading", choose_any },
    { "feed after loading", feed },
    { "feed on the clock", feed_timed },
    { "feed off the clock", feed_untimed },
    { "read the logits", read_logits },
};

void rl_gpu_begin(rl_gpu_life *l, const rl_gpu_setup *setup)
{
    *l = (rl_gpu_life){ .setup = setup };
}

rl_status rl_gpu_step(rl_gpu_life *l, rl_error *err)
{
    rl_status status = steps[l->step].play(l, err);
    if (!status) l->step++;
    return status;
}

bool rl_gpu_is_over(const rl_gpu_life *l)
{
    return l->step == RL_COUNT_OF(steps);
}

const char *rl_gpu_step_name(const rl_gpu_life *l)
{
    return rl_gpu_is_over(l) ? "the end" : steps[l->step].name;
}

bool rl_gpu_step_needs_device(const rl_gpu_life *l)
{
    static rl_status (*const always[])(rl_gpu_life *, rl_error *) = {
        open_session, feed_prompt, feed, reset, feed_timed, feed_untimed,
    };
    rl_status (*play)(rl_gpu_life *, rl_error *) = steps[l->step].play;
    uint32_t position = rl_session_position(l->session);
    for (size_t i = 0; i < RL_COUNT_OF(always); i++)
        if (play == always[i]) return true;
    return (play == save && position) || (play == go_back && position > RL_COUNT_OF(prompt));
}

void rl_gpu_check(const rl_gpu_life *l)
{
    rl_engine *e = l->engine;
    if (!e) return;
    assert_int_equal(pthread_mutex_trylock(&e->lock), 0);
    pthread_mutex_unlock(&e->lock);
    rl_cache_check(rl_experts_cache(e->experts));
    assert_int_equal(rl_cache_count(rl_experts_cache(e->experts), RL_CACHE_NONE).pinned, 0);
    assert_true(rl_experts_consistent(e->experts));
}

void rl_gpu_end(rl_gpu_life *l)
{
    rl_session_destroy(l->session);
    rl_engine_close(l->engine);
    l->session = NULL;
    l->engine = NULL;
}

/* ---- whole lives --------------------------------------------------------------------------------- */

const rl_gpu_fault rl_gpu_faults[RL_GPU_FAULTS] = {
    [RL_GPU_LOST] = { "lost", VK_ERROR_DEVICE_LOST, RL_DEVICE, false },
    [RL_GPU_DEVICE_MEMORY] = { "device memory", VK_ERROR_OUT_OF_DEVICE_MEMORY, RL_NOMEM, false },
    [RL_GPU_HOST_MEMORY] = { "host memory", VK_ERROR_OUT_OF_HOST_MEMORY, RL_NOMEM, false },
    [RL_GPU_NO_MEMORY] = { "memory for good", VK_ERROR_OUT_OF_DEVICE_MEMORY, RL_NOMEM, true },
};

rl_decode_counts rl_gpu_live(rl_gpu_life *l, const rl_gpu_setup *setup)
{
    static const rl_gpu_fault none = { .name = "nothing" };
    rl_error err = { "" };
    rl_gpu_begin(l, setup);
    rl_guard_arm(0, VK_SUCCESS);
    while (!rl_gpu_is_over(l)) {
        assert_ok(rl_gpu_step(l, &err));
        rl_gpu_check(l);
    }
    rl_decode_counts counts = rl_decoder_counts(l->engine->decoder);
    l->read_ahead =
        rl_cache_get_figures(rl_experts_cache(l->engine->experts), RL_CACHE_DECODE).prefetches;
    rl_gpu_end(l);
    rl_guard_disarm();
    rl_gpu_check_nothing_left(&none, 0);
    return counts;
}

/* One sentence: what failed, on what. */
static void check_sentence(const rl_gpu_life *l, const rl_gpu_fault *f, uint64_t n,
                           rl_status status, const rl_error *err)
{
    const char *text = err->text;
    bool says_what = strstr(text, "vk") || strstr(text, "MiB");
    /* What cannot be mapped is written through the ring, which costs one queue its gated step. */
    if (!strcmp(rl_guard_struck(), "vkMapMemory") && status == RL_UNSUPPORTED &&
        strstr(text, "no gated step"))
        return;
    bool says_where =
        strstr(text, l->setup->device) || !l->engine; /* before a device is chosen: none */
    if (status != f->status || !text[0] || strchr(text, '\n') || !says_what || !says_where ||
        (f->result == VK_ERROR_DEVICE_LOST && !strstr(text, "lost") &&
         strcmp(rl_guard_struck(), "vkCreateDevice")))
        fail_msg("%s at call %llu (%s), %s: %s: \"%s\"", f->name, (unsigned long long)n,
                 rl_guard_struck(), rl_gpu_step_name(l), rl_status_name(status), text);
}

/* The rest of a life on a lost device: whatever needs it says so. */
static void play_on_lost(rl_gpu_life *l)
{
    rl_error err = { "" };
    rl_session *another = NULL;
    for (; l->session && !rl_gpu_is_over(l); l->step++) {
        bool needs = rl_gpu_step_needs_device(l);
        uint32_t step = l->step;
        rl_status status = rl_gpu_step(l, &err);
        l->step = step;
        if (needs && (status != RL_DEVICE || !strstr(err.text, "lost")))
            fail_msg("on a lost device, %s: %s: \"%s\"", rl_gpu_step_name(l),
                     rl_status_name(status), err.text);
        rl_gpu_check(l);
    }
    if (!l->engine) return;
    assert_int_equal(rl_session_open(&another, l->engine, NULL, &err), RL_DEVICE);
    assert_null(another);
}

/* One life with the n-th call failing. True when it was that call, not one that is never made. */
bool rl_gpu_live_through(const rl_gpu_setup *setup, const rl_gpu_fault *f, uint64_t n,
                         const rl_gpu_life *want)
{
    rl_gpu_life l;
    rl_error err = { "" };
    rl_gpu_begin(&l, setup);
    if (f->stays)
        rl_guard_arm_from(n, (VkResult)f->result);
    else
        rl_guard_arm(n, (VkResult)f->result);
    bool failed = false, over = false;
    while (!over && !rl_gpu_is_over(&l)) {
        err.text[0] = 0;
        rl_status status = rl_gpu_step(&l, &err);
        rl_gpu_check(&l);
        if (!status) continue;
        check_sentence(&l, f, n, status, &err);
        assert_false(failed && !f->stays); /* once, unless it stays */
        failed = true;
        if (f->result == VK_ERROR_DEVICE_LOST) {
            play_on_lost(&l);
            over = true;
        }
        if (f->stays) over = true;
    }
    bool all = rl_gpu_is_over(&l) && !(f->result == VK_ERROR_DEVICE_LOST && failed);
    rl_gpu_end(&l); /* still failing, where it stays */
    bool fired = rl_guard_disarm();
    if (failed) assert_true(fired);
    if (all) {
        assert_int_equal(l.n_tokens, want->n_tokens);
        assert_memory_equal(l.tokens, want->tokens, sizeof l.tokens);
        assert_memory_equal(l.logits, want->logits, sizeof l.logits);
    }
    return fired;
}

void rl_gpu_check_nothing_left(const rl_gpu_fault *f, uint64_t n)
{
    if (rl_guard_complaint())
        fail_msg("%s at call %llu (%s): %s", f->name, (unsigned long long)n, rl_guard_struck(),
                 rl_guard_complaint());
    if (rl_guard_live())
        fail_msg("%s at call %llu (%s): %u objects stay behind", f->name, (unsigned long long)n,
                 rl_guard_struck(), rl_guard_live());
}
#else
typedef int rl_test_no_gpu_life;
#endif
