/* test_in_place.c - direct reads of large experts go straight into their slots.
 *
 * A slot is laid out as the file's blocks are, with room for what a first and last block bring
 * besides. What such a read may destroy is a neighbour: so numbers are compared with those of a pool
 * that was read through the page cache, and nothing may have been copied. */
#include "support/golden.h"

#include <unistd.h>

#include "model/synth.h"

enum { TOKENS = 24, PROMPT = 8, BLOCK = 512 };

static const char *write_model(const char *name, const char *mix, uint32_t width)
{
    rl_error err = { "" };
    rl_synth_params params;
    assert_true(rl_synth_preset("tiny", &params));
    params.n_embd = 1024;
    params.n_expert = 8;
    params.n_expert_used = 2;
    params.n_ff_expert = width;
    params.mix = mix;
    params.seed = 11;
    const char *path = rl_test_scratch("in-place-%s.gguf", name);
    assert_ok(rl_synth_write(&params, path, &err));
    return path;
}

typedef struct result {
    float *logits; /* [TOKENS - PROMPT + 1][n_vocab] */
    size_t bytes;
    rl_experts_figures figures;
    uint32_t n_odd; /* matrices that do not begin with a block */
    uint32_t align;
} result;

static result play(const char *path, rl_io_mode io, uint64_t cache_bytes)
{
    rl_error err = { "" };
    rl_engine *engine = NULL;
    rl_session *session = NULL;
    rl_engine_params params = {
        .ops = rl_backend_find("cpu"), .n_threads = 2, .cache_bytes = cache_bytes, .io = io
    };
    if (!params.ops) rl_test_skip("no cpu backend in this build");
    rl_status status = rl_engine_open(&engine, path, &params, &err);
    if (status == RL_UNSUPPORTED) rl_test_skip("%s", err.text);
    assert_ok(status);
    assert_ok(rl_session_open(&session, engine, NULL, &err));
    uint32_t n_vocab = engine->net.shape.n_vocab, tokens[TOKENS], rows = 0;
    size_t row = n_vocab * sizeof(float);
    result r = { .logits = malloc((TOKENS - PROMPT + 1) * row) };
    assert_non_null(r.logits);
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = 7919 * (i + 1) % n_vocab;
    for (uint32_t at = 0; at < TOKENS;) {
        uint32_t n = at ? 1 : PROMPT;
        assert_ok(rl_session_feed(session, tokens + at, n, &err));
        memcpy(r.logits + (size_t)rows++ * n_vocab, rl_session_logits(session), row);
        at += n;
    }
    r.bytes = rows * row;
    r.figures = rl_experts_get_figures(engine->experts);
    r.align = rl_experts_io(engine->experts).align;
    for (uint32_t i = 0; i < engine->net.shape.n_layer; i++) {
        const rl_expert_layout *l = &engine->net.layers[i].expert;
        r.n_odd += (l->gate_offset % BLOCK != 0) + (l->up_offset % BLOCK != 0) +
                   (l->down_offset % BLOCK != 0);
    }
    rl_session_destroy(session);
    rl_engine_close(engine);
    return r;
}

static uint64_t small_pool(const char *path)
{
    rl_error err = { "" };
    rl_engine *engine = NULL;
    rl_engine_params params = { .ops = rl_backend_find("cpu"), .n_threads = 1, .no_preload = true };
    if (!params.ops) rl_test_skip("no cpu backend in this build");
    assert_ok(rl_engine_open(&engine, path, &params, &err));
    uint64_t bytes = 2 * rl_experts_plan(engine->experts)->minimum_bytes;
    rl_engine_close(engine);
    return bytes;
}

/* Stands against: a read that reaches into the neighbour, and a layout that fits no read. */
static void in_place_needs_no_copy(void **state)
{
    (void)state;
    static const char *const mixes[] = { "target", "Q4_K", "Q8_0" };
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++) {
        const char *path = write_model("large", mixes[i], 512);
        uint64_t pool = small_pool(path);
        result want = play(path, RL_IO_BUFFERED, UINT64_MAX), got = play(path, RL_IO_DIRECT, pool);
        printf("%s: %llu of %llu reads in place, %u matrices begin within a block\n", mixes[i],
               (unsigned long long)got.figures.placed, (unsigned long long)got.figures.matrices,
               got.n_odd);
        assert_int_equal(got.bytes, want.bytes);
        assert_memory_equal(got.logits, want.logits, got.bytes);
        assert_true(got.figures.matrices > 100);
        assert_true(got.n_odd > 0); /* or there was nothing to it */
        if (got.align == BLOCK) assert_int_equal(got.figures.placed, got.figures.matrices);
        free(want.logits);
        free(got.logits);
        unlink(path);
    }
}

/* Small experts are not worth the room: they are copied, and right. */
static void in_place_leaves_small_ones(void **state)
{
    (void)state;
    const char *path = write_model("small", "Q8_0", 32);
    uint64_t pool = small_pool(path);
    result want = play(path, RL_IO_BUFFERED, UINT64_MAX), got = play(path, RL_IO_DIRECT, pool);
    assert_int_equal(got.bytes, want.bytes);
    assert_memory_equal(got.logits, want.logits, got.bytes);
    assert_int_equal(got.n_odd, 0);
    assert_true(got.figures.placed < got.figures.matrices);
    free(want.logits);
    free(got.logits);
    unlink(path);
}

RL_TEST_MAIN(RL_TEST(in_place, needs_no_copy), RL_TEST(in_place, leaves_small_ones))
