/* gpu_life.c - tests/support/gpu_life.h. */
#include "support/gpu_life.h"

#include "base/bytes.h"
#include "engine/experts.h"

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
    l->engine->ops->time_stages(l->engine->be, &l->stage_times);
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
