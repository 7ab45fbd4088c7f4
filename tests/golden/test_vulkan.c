/* test_vulkan.c - the vulkan backend against the stored numbers of every fixture model, on whatever
 * Vulkan device is there. The float gate: f32 arithmetic on exactly decoded weights. */
#include "support/golden.h"

#include "golden/models.h"

#ifdef RL_HAVE_VULKAN
#include "backend/vulkan/vk_backend.h"
#include "engine/decode.h"
#include "support/vulkan.h"

/* Whole sequences, then in pieces of seven (batches, cut anywhere) with an f16 cache, then token by
 * token while it continues. Stands against a kernel that is right only for some batch sizes. */
static void float_gate(const char *file)
{
    rl_vk_device_close(rl_test_vulkan_open()); /* skips without a device */
    golden_setup setup = { .model = rl_test_fixture("models/%s.gguf", file),
                           .expect = rl_test_fixture("models/%s", file),
                           .backend = "vulkan" };
    golden_result r;
    golden_trace(&setup, 1e-4);
    golden_sequences(&setup, 0, &r);
    assert_true(r.worst_abs < 1e-3);
    assert_int_equal(r.same_top1, r.positions);
    assert_true(golden_greedy(&setup, 2e-3) >= 8);
    setup.kv_f16 = true;
    golden_sequences(&setup, 7, &r);
    assert_true(r.worst_abs < 1e-2);
}

/* Five tokens, layer by layer: what the software device of a test machine has time for. */
static void trace(const char *file)
{
    rl_vk_device_close(rl_test_vulkan_open()); /* skips without a device */
    golden_setup setup = { .model = rl_test_fixture("models/%s.gguf", file),
                           .expect = rl_test_fixture("models/%s", file),
                           .backend = "vulkan" };
    golden_trace(&setup, 1e-4);
}

/* Tokens with everything resident, counted where the calls to the driver are made.
 * Stands against: a second submission for the logits, commands recorded anew, a state copied. */
static void token_cost(const rl_sampler_params *params)
{
    rl_vk_device_close(rl_test_vulkan_open());
    golden_setup setup = { .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "vulkan" };
    rl_engine *engine;
    rl_session *session;
    rl_sampler *sampler;
    rl_error err = { "" };
    golden_open(&setup, 64, &engine, &session);
    assert_ok(rl_sampler_create(&sampler, params, engine->net.shape.n_vocab, &err));
    uint32_t token = 3;
    assert_ok(rl_session_feed(session, &token, 1, &err));
    rl_backend_counters before, after;
    if (params->temperature > 0) { /* the first one does not know yet how it will be sampled */
        assert_ok(rl_session_sample(session, sampler, &token, &err));
        assert_ok(rl_session_feed(session, &token, 1, &err));
    }
    engine->ops->get_counters(engine->be, &before);
    for (int i = 0; i < 8; i++) {
        assert_ok(rl_session_sample(session, sampler, &token, &err));
        assert_ok(rl_session_feed(session, &token, 1, &err));
    }
    engine->ops->get_counters(engine->be, &after);
    assert_int_equal(after.submissions - before.submissions, 8);
    assert_int_equal(after.waits - before.waits, 8);
    assert_int_equal(after.recordings - before.recordings, 0);
    assert_int_equal(after.state_bytes_copied - before.state_bytes_copied, 0);
    assert_int_equal(after.host_fallbacks, 0);
    rl_sampler_destroy(sampler);
    rl_session_destroy(session);
    rl_engine_close(engine);
}

/* A token leaves its segments in the middle of every layer in turn: some experts are computed, the
 * others have to wait for their slots. Stands against the part of a layer that a segment would have
 * computed and nobody does then, and the largest logits that would have come with the last one. */
static void drained(void)
{
    rl_vk_device_close(rl_test_vulkan_open());
    golden_setup setup = { .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "vulkan" };
    rl_engine *e;
    rl_session *whole, *apart;
    rl_error err = { "" };
    golden_open(&setup, 64, &e, &whole);
    const rl_session_params f32 = { .n_ctx = 64, .key_f32 = true, .value_f32 = true };
    assert_ok(rl_session_open(&apart, e, &f32, &err));
    const uint32_t token = 3, k = e->net.shape.n_expert_used;
    assert_ok(rl_session_feed(whole, &token, 1, &err));
    const size_t bytes = e->net.shape.n_vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    memcpy(want, rl_session_logits(whole), bytes);
    const rl_backend_ops *ops = e->ops;
    for (uint32_t at = 0; at < e->net.shape.n_layer; at++) {
        rl_batch batch = { .top = at % 2, .state = apart->state, .tokens = &token, .n = 1 };
        assert_ok(ops->begin(e->be, &batch, &err));
        assert_ok(ops->embed(e->be, &err));
        for (uint32_t i = 0; i < e->net.shape.n_layer; i++) {
            bool recurrent = e->net.layers[i].recurrent;
            assert_ok(recurrent ? ops->delta_in(e->be, i, &err) : ops->attn_in(e->be, i, &err));
            assert_ok(recurrent ? ops->delta_step(e->be, i, &err) : ops->attn_step(e->be, i, &err));
            assert_ok(ops->mix_out(e->be, i, &err));
            assert_ok(ops->moe_in(e->be, i, &err));
            uint32_t ids[RL_MAX_EXPERTS_USED], ranks[RL_MAX_EXPERTS_USED];
            rl_expert_group groups[RL_MAX_EXPERTS_USED];
            assert_ok(ops->route(e->be, i, NULL, ids, &err));
            for (uint32_t r = 0; r < k; r++) {
                ranks[r] = r;
                groups[r] = (rl_expert_group){ .expert = ids[r], .n = 1, .assign = &ranks[r] };
            }
            assert_ok(ops->moe_shared(e->be, i, &err));
            assert_ok(ops->moe_experts(e->be, i, groups, k / 2, &err));
            if (i == at) assert_ok(ops->drain(e->be, &err));
            assert_ok(ops->moe_experts(e->be, i, groups + k / 2, k - k / 2, &err));
            assert_ok(ops->moe_out(e->be, i, &err));
        }
        assert_ok(ops->head(e->be, 0, 1, batch.top ? NULL : got, &err));
        assert_ok(ops->end(e->be, &err)); /* not committed: the next round begins anew */
        if (batch.top) {
            rl_top_logits top;
            uint32_t best;
            ops->routed->read_top(e->be, &top);
            assert_ok(ops->routed->read_logits(e->be, got, &best, &err));
            assert_int_equal(top.n, RL_TOP_LOGITS);
            assert_int_equal(top.tokens[0], best);
            for (uint32_t i = 0; i < top.n; i++) {
                assert_true(top.logits[i] == want[top.tokens[i]]);
                assert_true(!i || top.logits[i] < top.logits[i - 1]);
            }
        }
        assert_memory_equal(got, want, bytes);
    }
    free(want);
    free(got);
    rl_session_destroy(apart);
    rl_session_destroy(whole);
    rl_engine_close(e);
}

/* What a session's segments cost to record, and the logits of a few tokens. */
typedef struct recorded {
    uint64_t dispatches, barriers;
    float logits[4][512];
} recorded;

static void record_session(rl_engine *e, recorded *out)
{
    const rl_session_params params = { .n_ctx = 64 };
    const rl_vk_counters *now = &rl_vk_of(e->be)->stream->counters, before = *now;
    rl_session *session;
    rl_error err = { "" };
    assert_ok(rl_session_open(&session, e, &params, &err));
    out->dispatches = now->dispatches - before.dispatches;
    out->barriers = now->barriers - before.barriers;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t token = 3 + 7 * i;
        assert_ok(rl_session_feed(session, &token, 1, &err));
        memcpy(out->logits[i], rl_session_logits(session), sizeof out->logits[i]);
    }
    rl_session_destroy(session);
}

/* Router and choice are one dispatch in segments, where workgroups can hand over; otherwise they are
 * two with a barrier between, and the numbers are the same. Half of the pool: there are guesses. */
static void one_dispatch_to_route(void)
{
    static recorded one, two;
    rl_vk_device_close(rl_test_vulkan_open());
    golden_setup setup = { .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "vulkan",
                           .speculative = "0",
                           .settle_ahead = true };
    rl_engine *e;
    rl_session *session;
    golden_open(&setup, 64, &e, &session);
    setup.cache_bytes = rl_experts_plan(e->experts)->full_bytes / 2;
    rl_session_destroy(session);
    rl_engine_close(e);
    golden_open(&setup, 64, &e, &session);
    rl_session_destroy(session);
    rl_vk_device_info *info = &rl_vk_of(e->be)->device->info;
    if (!info->hands_over) rl_test_skip("workgroups cannot hand over here");
    rl_vk_of(e->be)->ops.links = false; /* barriers are counted */
    record_session(e, &one);
    info->hands_over = false;
    record_session(e, &two);
    assert_memory_equal(one.logits, two.logits, sizeof one.logits);
    uint32_t n =
        e->net.shape.n_layer; /* recorded twice: one by one, where they guess, and as a whole */
    assert_int_equal(two.dispatches - one.dispatches, 2 * n + n - 1);
    assert_int_equal(two.barriers - one.barriers, 2 * n);
    rl_engine_close(e);
}

/* The small model, every expert resident, where stages can be linked. */
static rl_vk_backend *open_linkable(rl_engine **e, rl_session **session)
{
    rl_vk_device_close(rl_test_vulkan_open());
    golden_setup setup = { .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "vulkan" };
    golden_open(&setup, 64, e, session);
    rl_vk_backend *vk = rl_vk_of((*e)->be);
    if (!vk->device->info.hands_over) rl_test_skip("workgroups cannot hand over here");
    return vk;
}

/* Linked stages that wait for somebody who never comes, from the second token on: the token is computed
 * again with barriers, the next ones with barriers from the start, and all of them right.
 * Stands against a token that hangs, and one that is lost or kept half. */
static void late(void)
{
    enum { TOKENS = 6, SINCE = 2 };
    static float want[TOKENS][512];
    uint64_t cost[TOKENS];
    rl_engine *e;
    rl_session *session;
    rl_error err = { "" };
    golden_may_be_late = true;
    rl_vk_backend *vk = open_linkable(&e, &session);
    for (int linked = 0; linked < 2; linked++) {
        vk->ops.links = linked;
        assert_ok(rl_session_reset(session, &err));
        for (uint32_t i = 0; i < TOKENS; i++) {
            uint32_t token = 3 + 7 * i;
            if (linked &&
                i == SINCE) { /* what the mixer hands on is overwritten before all have it */
                session->state->numbered.mixed = vk->buf.shared_gate.address;
                session->state->recorded = false;
            }
            uint64_t before = vk->stream->counters.submissions;
            assert_ok(rl_session_feed(session, &token, 1, &err));
            const float *logits = rl_session_logits(session);
            uint64_t submissions = vk->stream->counters.submissions - before;
            if (linked) assert_int_equal(submissions, cost[i] + (i == SINCE));
            cost[i] = submissions;
            assert_true(vk->ops.links == (linked && i < SINCE));
            if (!linked)
                memcpy(want[i], logits, sizeof want[i]);
            else
                assert_memory_equal(want[i], logits, sizeof want[i]);
        }
    }
    rl_session_destroy(session);
    rl_engine_close(e);
    golden_may_be_late = false;
}

/* The GPU's clock: by stage where barriers part them, one time for all layers where they overlap.
 * Stands against a timestamp between stages that overlap, which would wait for all work before it. */
static void stage_times(void)
{
    enum { TOKENS = 4 };
    rl_engine *e;
    rl_session *session;
    rl_error err = { "" };
    rl_vk_backend *vk = open_linkable(&e, &session);
    if (vk->device->info.timestamp_ns <= 0) rl_test_skip("the device has no timestamps");
    for (int linked = 0; linked < 2; linked++) {
        rl_stage_times times = { 0 };
        vk->ops.links = linked;
        e->ops->time_stages(e->be, &times);
        for (uint32_t i = 0; i < TOKENS; i++) {
            uint32_t token = 3 + 7 * i;
            assert_ok(rl_session_feed(session, &token, 1, &err));
        }
        e->ops->time_stages(e->be, NULL);
        assert_int_equal(times.n_tokens, TOKENS);
        for (rl_stage stage = 0; stage < RL_STAGES; stage++) {
            bool ends = stage == RL_STAGE_EMBED || stage == RL_STAGE_HEAD;
            bool within = stage != RL_STAGE_LAYERS && stage != RL_STAGE_MOE_IN; /* with route */
            assert_true((times.ns[stage] > 0) ==
                        (ends || (linked ? stage == RL_STAGE_LAYERS : within)));
        }
    }
    rl_session_destroy(session);
    rl_engine_close(e);
}

enum { GATED_TOKENS = 24 };

typedef struct gated_run {
    uint32_t tokens[GATED_TOKENS];
    float logits[GATED_TOKENS][512];
    rl_cache_figures figures;
    uint64_t passes; /* over dense matrices, per token */
} gated_run;

/* Greedy tokens in a pool for half of the experts; what is read ahead has come when its layer begins. */
static void run_in_half(gated_run *r, const char *way, bool no_prefetch)
{
    golden_setup setup = { .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "vulkan",
                           .speculative = way,
                           .no_prefetch = no_prefetch,
                           .settle_ahead = true };
    rl_engine *e;
    rl_session *session;
    rl_error err = { "" };
    golden_open(&setup, 64, &e, &session);
    const bool gates = e->ops->routed->submit_gated != NULL;
    setup.cache_bytes = rl_experts_plan(e->experts)->full_bytes / 2;
    rl_session_destroy(session);
    rl_engine_close(e);
    if (!gates) rl_test_skip("the device has no gated step");
    golden_open(&setup, 64, &e, &session);
    rl_backend_counters before, after;
    uint32_t token = 3;
    assert_ok(rl_session_feed(session, &token, 1, &err));
    e->ops->get_counters(e->be, &before);
    for (uint32_t i = 0; i < GATED_TOKENS; i++) {
        const float *logits = rl_session_logits(session);
        token = 0;
        for (uint32_t v = 1; v < 512; v++)
            if (logits[v] > logits[token]) token = v;
        r->tokens[i] = token;
        assert_ok(rl_session_feed(session, &token, 1, &err));
        memcpy(r->logits[i], rl_session_logits(session), sizeof r->logits[i]);
        assert_true(rl_experts_consistent(e->experts));
    }
    e->ops->get_counters(e->be, &after);
    r->passes = (after.dense_passes - before.dense_passes) / GATED_TOKENS;
    r->figures = rl_cache_get_figures(rl_experts_cache(e->experts), RL_CACHE_DECODE);
    const rl_decode_counts n = rl_decoder_counts(e->decoder);
    assert_int_equal(strcmp(way, "gated") ? n.sync : n.gated, GATED_TOKENS + 1);
    rl_session_destroy(session);
    rl_engine_close(e);
}

/* Stands against: guesses of a gated token that nobody reads, that are of another layer or token, or
 * that cost kernels when nobody wants them. */
static void gated_ahead(void)
{
    static gated_run sync, gated, plain;
    rl_vk_device_close(rl_test_vulkan_open());
    run_in_half(&gated, "gated", false);
    run_in_half(&plain, "gated", true);
    run_in_half(&sync, "0", false);
    const rl_cache_figures *s = &sync.figures, *g = &gated.figures;
    printf(
        "gated: %llu hits, %llu misses, %llu read ahead, %llu of them used; without guesses %llu "
        "misses\n",
        (unsigned long long)g->hits, (unsigned long long)g->misses,
        (unsigned long long)g->prefetches, (unsigned long long)g->prefetch_used,
        (unsigned long long)plain.figures.misses);
    assert_memory_equal(gated.tokens, sync.tokens, sizeof sync.tokens);
    assert_memory_equal(gated.logits, sync.logits, sizeof sync.logits);
    assert_memory_equal(plain.logits, sync.logits, sizeof sync.logits);
    assert_memory_equal(g, s, sizeof *s);
    assert_true(g->prefetches > 50 && 2 * g->prefetch_used > g->prefetches);
    assert_true(g->misses < plain.figures.misses);
    assert_int_equal(plain.figures.prefetches, 0);
    assert_int_equal(gated.passes - plain.passes, 3); /* routers of layers 1 to 3 */
}
#else
static void late(void)
{
    rl_test_skip("built without the Vulkan backend");
}
static void stage_times(void)
{
    rl_test_skip("built without the Vulkan backend");
}
static void one_dispatch_to_route(void)
{
    rl_test_skip("built without the Vulkan backend");
}
static void gated_ahead(void)
{
    rl_test_skip("built without the Vulkan backend");
}
static void drained(void)
{
    rl_test_skip("built without the Vulkan backend");
}
static void token_cost(const rl_sampler_params *params)
{
    (void)params;
    rl_test_skip("built without the Vulkan backend");
}
static void float_gate(const char *file)
{
    (void)file;
    rl_test_skip("built without the Vulkan backend");
}
static void trace(const char *file)
{
    float_gate(file);
}
#endif

#define X(name, file, plain, kl)                                                                   \
    static void vulkan_trace_##name(void **state)                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        trace(file);                                                                               \
    }                                                                                              \
    static void vulkan_##name##_long(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        float_gate(file);                                                                          \
    }
MODEL_LIST(X)
#undef X

/* One model in full, in every run. */
static void vulkan_tiny_s_q8_0(void **state)
{
    (void)state;
    float_gate("tiny-s-Q8_0");
}

static void vulkan_one_submission_per_token(void **state)
{
    (void)state;
    token_cost(&(rl_sampler_params){ .temperature = 0 });
}

static void vulkan_one_submission_per_sampled_token(void **state)
{
    (void)state;
    token_cost(&(rl_sampler_params){
        .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .presence_penalty = 1.5f });
}

static void vulkan_token_leaves_its_segments(void **state)
{
    (void)state;
    drained();
}

static void vulkan_one_dispatch_to_route(void **state)
{
    (void)state;
    one_dispatch_to_route();
}

static void vulkan_late_token_runs_again(void **state)
{
    (void)state;
    late();
}

static void vulkan_stage_times(void **state)
{
    (void)state;
    stage_times();
}

static void vulkan_gated_token_reads_ahead(void **state)
{
    (void)state;
    gated_ahead();
}

#define X(name, file, plain, kl) RL_TEST(vulkan, trace_##name), RL_TEST(vulkan, name##_long),
RL_TEST_MAIN(RL_TEST(vulkan, one_submission_per_token),
             RL_TEST(vulkan, one_submission_per_sampled_token),
             RL_TEST(vulkan, token_leaves_its_segments), RL_TEST(vulkan, gated_token_reads_ahead),
             RL_TEST(vulkan, one_dispatch_to_route), RL_TEST(vulkan, late_token_runs_again),
             RL_TEST(vulkan, stage_times), MODEL_LIST(X) RL_TEST(vulkan, tiny_s_q8_0))
