/* test_routed.c - the decoder's ways give the same bits, leave the same cache, and survive misses
 * and failed loads at any layer. On a host emulation of the routed step: the engine's side alone. */
#include "support/golden.h"

#include <unistd.h>

#include "engine/decode.h"
#include "support/fake_routed.h"

enum { PROMPT = 20, TOKENS = 40 };

typedef struct run {
    rl_engine *engine;
    rl_session *session;
    float logits[TOKENS][512];
    uint32_t tokens[TOKENS];
} run;

static golden_setup setup_for(const char *way)
{
    return (golden_setup){ .model = rl_test_fixture("models/tiny-s-Q8_0.gguf"),
                           .backend = "fake-routed",
                           .ops = fake_routed_ops(),
                           .no_prefetch = true,
                           .speculative = way };
}

static void open_run(run *r, const golden_setup *setup)
{
    rl_error err = { "" };
    uint32_t prompt[PROMPT];
    golden_open(setup, 256, &r->engine, &r->session);
    assert_int_equal(r->engine->net.shape.n_vocab, 512);
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 7 * i % 500;
    assert_ok(rl_session_feed(r->session, prompt, PROMPT, &err));
}

static void close_run(run *r)
{
    rl_session_destroy(r->session);
    rl_engine_close(r->engine);
}

static uint32_t next_token(const run *r)
{
    const float *logits = rl_session_logits(r->session);
    uint32_t best = 0;
    for (uint32_t i = 1; i < 512; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void decode_one(run *r, uint32_t i)
{
    rl_error err = { "" };
    r->tokens[i] = next_token(r);
    assert_ok(rl_session_feed(r->session, &r->tokens[i], 1, &err));
    memcpy(r->logits[i], rl_session_logits(r->session), sizeof r->logits[i]);
}

static void decode_all(run *r)
{
    for (uint32_t i = 0; i < TOKENS; i++)
        decode_one(r, i);
}

/* Asks for what is absent until nothing is left to be thrown out: who leaves, and in which order. */
static void assert_same_order(rl_cache *a, rl_cache *b)
{
    enum { MOST = 256 };
    rl_expert_key absent[MOST];
    rl_slot taken[MOST];
    uint32_t n_absent = 0, n = 0;
    for (uint32_t layer = 0; layer < rl_cache_n_layer(a); layer++)
        for (uint32_t e = 0; e < rl_cache_n_expert(a); e++) {
            rl_expert_key key = { layer, e };
            bool there = !rl_slot_is_none(rl_cache_find(a, key));
            assert_int_equal(there, !rl_slot_is_none(rl_cache_find(b, key)));
            if (!there) absent[n_absent++] = key;
            assert_true(n_absent < MOST);
        }
    while (n < n_absent) {
        rl_reservation ra, rb;
        rl_reserve outcome = rl_cache_reserve(a, absent[n], &ra);
        assert_int_equal(rl_cache_reserve(b, absent[n], &rb), outcome);
        if (outcome != RL_RESERVE_MISS) break;
        assert_memory_equal(&ra.evicted_key, &rb.evicted_key, sizeof ra.evicted_key);
        assert_memory_equal(&ra.slot, &rb.slot, sizeof ra.slot);
        taken[n++] = ra.slot;
    }
    for (uint32_t i = 0; i < n; i++) {
        rl_cache_abort(a, taken[i]);
        rl_cache_abort(b, taken[i]);
    }
}

/* What was counted, what is there, and in which order it would leave. */
static void assert_same_cache(run *a, run *b)
{
    rl_cache *ca = rl_experts_cache(a->engine->experts), *cb = rl_experts_cache(b->engine->experts);
    rl_cache_figures fa = rl_cache_get_figures(ca, RL_CACHE_DECODE);
    rl_cache_figures fb = rl_cache_get_figures(cb, RL_CACHE_DECODE);
    assert_int_equal(fa.hits, fb.hits);
    assert_int_equal(fa.misses, fb.misses);
    assert_int_equal(fa.waits, fb.waits);
    assert_int_equal(fa.evictions, fb.evictions);
    assert_int_equal(fa.prefetches, fb.prefetches);
    assert_int_equal(fa.prefetch_used, fb.prefetch_used);
    assert_int_equal(fa.prefetch_wasted, fb.prefetch_wasted);
    rl_cache_check(ca);
    rl_cache_check(cb);
    assert_same_order(ca, cb);
}

/* Stands against: a way that computes something else, or leaves another LRU order behind. With
 * `ahead`, both read ahead, and what they read has arrived when its layer begins, so that both must
 * count the same. */
static void check_way(const char *way, bool ahead)
{
    static run sync, other;
    golden_setup setup = setup_for("0");
    open_run(&sync, &setup);
    uint64_t minimum = rl_experts_plan(sync.engine->experts)->minimum_bytes;
    uint64_t full = rl_experts_plan(sync.engine->experts)->full_bytes;
    close_run(&sync);
    const uint64_t sizes[] = { minimum, 2 * minimum, 4 * minimum, full / 2, full };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        setup = setup_for("0");
        setup.cache_bytes = sizes[i];
        setup.no_prefetch = !ahead;
        setup.settle_ahead = ahead;
        open_run(&sync, &setup);
        decode_all(&sync);
        setup.speculative = way;
        open_run(&other, &setup);
        decode_all(&other);
        assert_memory_equal(sync.tokens, other.tokens, sizeof sync.tokens);
        assert_memory_equal(sync.logits, other.logits, sizeof sync.logits);
        if (strcmp(way, "restart")) assert_same_cache(&sync, &other);
        rl_decode_counts c = rl_decoder_counts(other.engine->decoder);
        uint64_t n_ahead =
            rl_cache_get_figures(rl_experts_cache(other.engine->experts), RL_CACHE_DECODE)
                .prefetches;
        /* The least pools have no room for it, the full one no need. */
        assert_int_equal(n_ahead > 0, ahead && (i == 2 || i == 3));
        printf(
            "%s, %llu bytes: routed %llu, resumed %llu (%llu loads), restarted %llu, gated %llu, "
            "sync %llu; %llu read ahead\n",
            way, (unsigned long long)sizes[i], (unsigned long long)c.routed,
            (unsigned long long)c.resumed, (unsigned long long)c.resumes,
            (unsigned long long)c.restarted, (unsigned long long)c.gated,
            (unsigned long long)c.sync, (unsigned long long)n_ahead);
        assert_int_equal(c.routed + c.resumed + c.gated + c.sync, TOKENS);
        close_run(&sync);
        close_run(&other);
    }
}

#define WAY(name, text, ahead)                                                                     \
    static void routed_##name(void **state)                                                        \
    {                                                                                              \
        (void)state;                                                                               \
        check_way(text, ahead);                                                                    \
    }
WAY(restart, "restart", false)
WAY(resume, "resume", false)
WAY(gated, "gated", false)
WAY(gated_ahead, "gated", true)
WAY(auto, "auto", false)

/* What the test below has seen of the token under way. */
static struct {
    rl_cache *cache;
    uint64_t n_absent; /* asked for and not there, up to the last gate that was opened */
    uint32_t n_open;   /* gates opened so far ... */
    bool read;         /* ... and whether something had to be read for the last one */
    uint32_t behind_reads, behind_gate; /* guesses asked for */
} seen;

static uint64_t count_absent(void)
{
    const rl_cache_figures f = rl_cache_get_figures(seen.cache, RL_CACHE_DECODE);
    return f.misses + f.waits;
}

static rl_status see_gate(rl_backend *be, uint32_t layer, rl_error *err)
{
    seen.read = count_absent() > seen.n_absent;
    seen.n_absent = count_absent();
    seen.n_open = layer + 1;
    return fake_routed_ops()->routed->open_gate(be, layer, err);
}

static rl_status see_guess(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    bool open = seen.n_open == layer;
    if (open)
        assert_false(seen.read);
    else
        assert_true(count_absent() > seen.n_absent);
    seen.behind_gate += open;
    seen.behind_reads += !open;
    return fake_routed_ops()->route_ahead(be, layer, ids, err);
}

static rl_backend_ops seeing;

static rl_status open_seeing(rl_backend **out, const rl_backend_params *params, rl_error *err)
{
    rl_status status = fake_routed_ops()->open(out, params, err);
    if (!status) (*out)->ops = &seeing;
    return status;
}

/* A device that has all it needs is not kept waiting for the reading of guesses; where something is
 * being read, they are queued behind it.
 * Stands against: a host that is busy while it could have opened a gate. */
static void routed_gate_opens_before_guesses(void **state)
{
    (void)state;
    static run r;
    golden_setup setup = setup_for("gated");
    rl_routed_ops routed = *setup.ops->routed;
    routed.open_gate = see_gate;
    seeing = *setup.ops;
    seeing.open = open_seeing;
    seeing.routed = &routed;
    seeing.route_ahead = see_guess;
    setup.ops = &seeing;
    open_run(&r, &setup);
    setup.cache_bytes = rl_experts_plan(r.engine->experts)->full_bytes / 2;
    close_run(&r);
    setup.no_prefetch = false;
    open_run(&r, &setup);
    memset(&seen, 0, sizeof seen);
    seen.cache = rl_experts_cache(r.engine->experts);
    for (uint32_t i = 0; i < TOKENS; i++) {
        seen.n_open = 0;
        decode_one(&r, i);
    }
    printf("guesses asked for: %u behind reads, %u behind an open gate\n", seen.behind_reads,
           seen.behind_gate);
    assert_true(seen.behind_reads && seen.behind_gate);
    close_run(&r);
}

/* What the router of the token at `i` chose, from an undisturbed run. */
static void record_choices(uint32_t choices[TOKENS][4][4])
{
    static run r;
    golden_setup setup = setup_for("resume");
    open_run(&r, &setup);
    for (uint32_t i = 0; i < TOKENS; i++) {
        decode_one(&r, i);
        r.engine->ops->routed->read_choices(r.engine->be, choices[i][0]);
    }
    close_run(&r);
}

/* A miss at every layer in turn, then at several layers of one token.
 * Stands against: a resume that starts at the wrong stage, or loads once too often. */
static void routed_misses_at_every_layer(void **state)
{
    (void)state;
    static run clean, disturbed;
    static uint32_t choices[TOKENS][4][4];
    golden_setup setup = setup_for("resume");
    record_choices(choices);
    open_run(&clean, &setup);
    decode_all(&clean);
    close_run(&clean);
    open_run(&disturbed, &setup);
    uint64_t expected = rl_decoder_counts(disturbed.engine->decoder).resumes;
    for (uint32_t i = 0; i < TOKENS; i++) {
        if (i == TOKENS / 2) expected = rl_decoder_counts(disturbed.engine->decoder).resumes;
        uint32_t layers = i < TOKENS / 2 ? 0 : i % 16; /* a set of layers, later on */
        for (uint32_t layer = 0; layer < 4; layer++)
            if (layers >> layer & 1) {
                rl_expert_key key = { layer, choices[i][layer][i % 4] };
                assert_true(rl_cache_evict(rl_experts_cache(disturbed.engine->experts), key));
                expected++;
            }
        decode_one(&disturbed, i);
        if (i >= TOKENS / 2)
            assert_int_equal(rl_decoder_counts(disturbed.engine->decoder).resumes, expected);
    }
    assert_memory_equal(clean.tokens, disturbed.tokens, sizeof clean.tokens);
    assert_memory_equal(clean.logits, disturbed.logits, sizeof clean.logits);
    close_run(&disturbed);
}

/* A load that fails in mid-token: the token has never been, and a retry gives the right one. */
static void check_failed_load(const char *way, bool ahead)
{
    static run clean, r;
    rl_error err = { "" };
    golden_setup setup = setup_for("0");
    open_run(&clean, &setup);
    decode_all(&clean);
    uint64_t pool = rl_experts_plan(clean.engine->experts)->minimum_bytes * (ahead ? 4 : 2);
    close_run(&clean);

    size_t bytes;
    char *file = rl_test_read(setup.model, &bytes);
    const char *copy = rl_test_scratch("routed-%s%s.gguf", way, ahead ? "-ahead" : "");
    FILE *out = fopen(copy, "wb");
    assert_int_equal(fwrite(file, 1, bytes, out), bytes);
    fclose(out);
    setup.model = copy;
    setup.speculative = way;
    setup.cache_bytes = pool;
    setup.no_prefetch = !ahead;
    open_run(&r, &setup);
    uint32_t failures = 0;
    for (uint32_t i = 0; i < TOKENS; i++) {
        uint32_t token = next_token(&r), position = rl_session_position(r.session);
        assert_int_equal(truncate(copy, (off_t)(bytes / 2 + (i * 997) % (bytes / 2))), 0);
        rl_status status = rl_session_feed(r.session, &token, 1, &err);
        out = fopen(copy, "r+b");
        assert_int_equal(fwrite(file, 1, bytes, out), bytes);
        fclose(out);
        if (status) {
            failures++;
            assert_int_equal(status, RL_IO);
            assert_non_null(strstr(err.text, copy));
            assert_int_equal(rl_session_position(r.session), position);
            rl_cache *cache = rl_experts_cache(r.engine->experts);
            rl_cache_check(cache);
            assert_int_equal(rl_cache_count(cache, RL_CACHE_NONE).pinned, 0);
            assert_int_equal(rl_cache_count(cache, RL_CACHE_NONE).loading, 0);
            decode_one(&r, i);
        } else {
            r.tokens[i] = token;
            memcpy(r.logits[i], rl_session_logits(r.session), sizeof r.logits[i]);
        }
    }
    printf("%s%s: %u of %u tokens failed once\n", way, ahead ? " ahead" : "", failures, TOKENS);
    assert_true(failures > TOKENS / 4);
    assert_memory_equal(clean.tokens, r.tokens, sizeof clean.tokens);
    assert_memory_equal(clean.logits, r.logits, sizeof clean.logits);
    close_run(&r);
    free(file);
}

#define FAILED_LOAD(name, text, ahead)                                                             \
    static void routed_failed_load_##name(void **state)                                            \
    {                                                                                              \
        (void)state;                                                                               \
        check_failed_load(text, ahead);                                                            \
    }
FAILED_LOAD(sync, "0", false)
FAILED_LOAD(sync_ahead, "0", true)
FAILED_LOAD(restart, "restart", false)
FAILED_LOAD(resume, "resume", false)
FAILED_LOAD(gated, "gated", false)
FAILED_LOAD(gated_ahead, "gated", true)

/* Everything resident: one submission and one wait per token. */
static void routed_one_submission_per_token(void **state)
{
    (void)state;
    static run r;
    golden_setup setup = setup_for("auto");
    open_run(&r, &setup);
    decode_all(&r); /* loads what this text needs */
    rl_error err = { "" };
    uint32_t position = rl_session_position(r.session);
    rl_backend_counters before, after;
    rl_decode_counts counts = rl_decoder_counts(r.engine->decoder);
    r.engine->ops->get_counters(r.engine->be, &before);
    uint32_t token = r.tokens[TOKENS - 1];
    for (uint32_t i = 0; i < 30; i++)
        assert_ok(rl_session_feed(r.session, &token, 1, &err));
    r.engine->ops->get_counters(r.engine->be, &after);
    rl_decode_counts now = rl_decoder_counts(r.engine->decoder);
    assert_int_equal(rl_session_position(r.session), position + 30);
    assert_int_equal(after.submissions - before.submissions, 30 + (now.resumes - counts.resumes));
    assert_int_equal(after.waits - before.waits, after.submissions - before.submissions);
    assert_true(now.routed - counts.routed >= 20);
    close_run(&r);
}

/* Logits stay with the backend until somebody wants more than the largest, and are the right ones
 * then, whatever came in between.
 * Stands against: reading what another session, a failed token or a later one has left there. */
static void check_logits_left(const char *way)
{
    static run read, left;
    rl_error err = { "" };
    golden_setup setup = setup_for(way);
    open_run(&read, &setup);
    open_run(&left, &setup);
    decode_all(&read);
    rl_session *other;
    rl_sampler *greedy, *warm, *again;
    assert_ok(rl_session_open(&other, left.engine, NULL, &err));
    const rl_sampler_params plain = { 0 }, hot = { .temperature = 1, .seed = 3 };
    assert_ok(rl_sampler_create(&greedy, &plain, 512, &err));
    assert_ok(rl_sampler_create(&warm, &hot, 512, &err));
    assert_ok(rl_sampler_create(&again, &hot, 512, &err));
    for (uint32_t i = 0; i < TOKENS; i++) {
        uint32_t token, never = 512, drawn;
        assert_ok(rl_session_sample(left.session, greedy, &token, &err));
        assert_int_equal(token, read.tokens[i]);
        assert_ok(rl_session_feed(left.session, &token, 1, &err));
        assert_ptr_equal(left.engine->left, left.session);
        assert_int_equal(rl_session_feed(left.session, &never, 1, &err), RL_INVALID);
        const uint32_t few[] = { 1, 2, 3 };
        switch (i % 6) {
        case 0: break; /* overwritten by the next token, read by nobody */
        case 1: assert_ok(rl_session_feed(other, few, 1, &err)); break;
        case 2: assert_ok(rl_session_feed(other, few, 3, &err)); break;
        case 3: assert_ok(rl_session_checkpoint(left.session, &err)); break;
        case 4:
            assert_ok(rl_session_sample(left.session, warm, &drawn, &err));
            assert_int_equal(drawn, rl_sampler_sample(again, read.logits[i]));
            break;
        case 5: break;
        }
        if (i % 6) assert_memory_equal(rl_session_logits(left.session), read.logits[i], 512 * 4);
        if (i % 6) assert_ptr_not_equal(left.engine->left, left.session);
    }
    /* back to the last checkpoint, at the end of token TOKENS - TOKENS % 6 + 3 */
    uint32_t at = (TOKENS - 4) / 6 * 6 + 3, token = 5;
    assert_ok(rl_session_feed(left.session, &token, 1, &err));
    assert_ok(rl_session_rewind(left.session, PROMPT + at + 1, &err));
    assert_memory_equal(rl_session_logits(left.session), read.logits[at], 512 * 4);
    assert_ok(rl_session_feed(left.session, &token, 1, &err));
    rl_session_destroy(left.session); /* with its logits left */
    assert_null(left.engine->left);
    rl_session_destroy(other);
    rl_engine_close(left.engine);
    rl_sampler_destroy(greedy);
    rl_sampler_destroy(warm);
    rl_sampler_destroy(again);
    close_run(&read);
}

static void routed_logits_left(void **state)
{
    (void)state;
    check_logits_left("resume");
    check_logits_left("0");
}

RL_TEST_MAIN(RL_TEST(routed, logits_left), RL_TEST(routed, restart), RL_TEST(routed, resume),
             RL_TEST(routed, gated), RL_TEST(routed, gated_ahead),
             RL_TEST(routed, gate_opens_before_guesses), RL_TEST(routed, auto),
             RL_TEST(routed, misses_at_every_layer), RL_TEST(routed, failed_load_sync),
             RL_TEST(routed, failed_load_restart), RL_TEST(routed, failed_load_resume),
             RL_TEST(routed, failed_load_gated), RL_TEST(routed, failed_load_sync_ahead),
             RL_TEST(routed, failed_load_gated_ahead), RL_TEST(routed, one_submission_per_token))
