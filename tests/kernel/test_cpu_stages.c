/* test_cpu_stages.c - every stage of the cpu backend against a direct computation in double.
 *
 * The reference (support/stages_reference.h) runs token by token over random small nets of odd shapes;
 * the backend is led through the same tokens in batches of many sizes. The reference's experts are
 * forced, so that a near-tie cannot part the two. */
#include "support/test.h"

#include <math.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/bytes.h"
#include "quant/quant.h"
#include "support/fault.h"
#include "support/stages_reference.h"

enum { F32 = RL_QUANT_F32, F16 = RL_QUANT_F16, Q8_0 = RL_QUANT_Q8_0 };

/* ---- leading the backend along --------------------------------------------------------------- */

static void expect(const float *got, const double *want, size_t n, double tolerance,
                   const char *what, uint32_t layer, uint32_t position)
{
    double error = 0, size = 1e-30;
    for (size_t i = 0; i < n; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (!(sqrt(error / size) <= tolerance))
        fail_msg("%s, layer %u, position %u: relative error %g, allowed %g", what, layer, position,
                 sqrt(error / size), tolerance);
}

typedef struct player {
    rl_test_net *n;
    const rl_test_trace *t; /* NULL: nothing is compared and nothing forced */
    const uint32_t *tokens;
    rl_state *state;
    double tolerance;
    uint32_t position;
    float *tap;    /* room for any tap   */
    float *logits; /* [max_batch][vocab] */
    uint32_t *ids, *assign;
    rl_expert_group *groups;
    bool halves; /* experts in two calls, the later half first */
} player;

/* The groups of ids [n][k]; returns how many. */
static uint32_t group(const rl_shape *s, const uint32_t *ids, uint32_t n, rl_expert_group *groups,
                      uint32_t *assign)
{
    uint32_t n_groups = 0, used = 0;
    for (uint32_t e = 0; e < s->n_expert; e++) {
        rl_expert_group g = { .expert = e, .assign = assign + used };
        for (uint32_t i = 0; i < n * s->n_expert_used; i++)
            if (ids[i] == e) assign[used + g.n++] = i;
        used += g.n;
        if (g.n) groups[n_groups++] = g;
    }
    return n_groups;
}

static void play(player *p, uint32_t n)
{
    rl_error err = { "" };
    rl_test_net *w = p->n;
    const rl_backend_ops *ops = w->ops;
    rl_backend *be = w->be;
    const rl_shape *s = &w->net.shape;
    const uint32_t h = s->n_embd, k = s->n_expert_used, e = s->n_expert;
    const size_t at = (size_t)p->position;
    assert_ok(ops->begin(be,
                         &(rl_batch){ .observed = true,
                                      .state = p->state,
                                      .tokens = p->tokens + at,
                                      .n = n,
                                      .position = p->position },
                         &err));
    assert_ok(ops->embed(be, &err));
    if (p->t) {
        assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
        expect(p->tap, p->t->embed + at * h, (size_t)n * h, 1e-6, "embed", 0, p->position);
    }
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const rl_test_trace_layer *t = p->t ? &p->t->layer[i] : NULL;
        if (w->layers[i].recurrent) {
            assert_ok(ops->delta_in(be, i, &err));
            assert_ok(ops->delta_step(be, i, &err));
        } else {
            assert_ok(ops->attn_in(be, i, &err));
            assert_ok(ops->attn_step(be, i, &err));
        }
        assert_ok(ops->mix_out(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
            expect(p->tap, t->mix + at * h, (size_t)n * h, p->tolerance, "mixer", i, p->position);
        }
        assert_ok(ops->moe_in(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_ROUTER, p->tap, &err));
            expect(p->tap, t->router + at * e, (size_t)n * e, p->tolerance, "router", i,
                   p->position);
            /* The backend's own choice follows from its own logits by the common rule. */
            assert_ok(ops->route(be, i, NULL, p->ids, &err));
            for (uint32_t x = 0; x < n; x++) {
                uint32_t ids[RL_MAX_EXPERTS_USED];
                float weights[RL_MAX_EXPERTS_USED];
                rl_router_topk(p->tap + (size_t)x * e, e, k, ids, weights);
                assert_memory_equal(ids, p->ids + (size_t)x * k, k * sizeof *ids);
            }
        }
        assert_ok(ops->route(be, i, t ? t->ids + at * k : NULL, p->ids, &err));
        if (t) {
            assert_memory_equal(p->ids, t->ids + at * k, (size_t)n * k * sizeof *p->ids);
            assert_ok(ops->read_tap(be, RL_TAP_ROUTE_WEIGHTS, p->tap, &err));
            expect(p->tap, t->weights + at * k, (size_t)n * k, p->tolerance, "weights", i,
                   p->position);
        }
        if (n == 1 && i + 1 < s->n_layer) { /* a guess must disturb nothing */
            uint32_t ahead[RL_MAX_EXPERTS_USED];
            assert_ok(ops->route_ahead(be, i + 1, ahead, &err));
            for (uint32_t a = 0; a < k; a++)
                assert_true(ahead[a] < e);
        }
        assert_ok(ops->moe_shared(be, i, &err));
        const uint32_t n_groups = group(s, p->ids, n, p->groups, p->assign);
        if (p->halves) {
            const uint32_t half = n_groups / 2;
            assert_ok(ops->moe_experts(be, i, p->groups + half, n_groups - half, &err));
            if (half) assert_ok(ops->moe_experts(be, i, p->groups, half, &err));
        } else {
            assert_ok(ops->moe_experts(be, i, p->groups, n_groups, &err));
        }
        assert_ok(ops->moe_out(be, i, &err));
        if (t) {
            assert_ok(ops->read_tap(be, RL_TAP_HIDDEN, p->tap, &err));
            expect(p->tap, t->out + at * h, (size_t)n * h, p->tolerance, "experts", i, p->position);
        }
    }
    for (uint32_t first = 0; first < n; first += RL_HEAD_ROWS) {
        const uint32_t rows = n - first < RL_HEAD_ROWS ? n - first : RL_HEAD_ROWS;
        assert_ok(ops->head(be, first, rows, p->logits + (size_t)first * s->n_vocab, &err));
        if (!p->t) continue;
        assert_ok(ops->read_tap(be, RL_TAP_FINAL_NORM, p->tap, &err));
        expect(p->tap, p->t->final + (at + first) * h, (size_t)rows * h, p->tolerance, "final norm",
               0, p->position + first);
    }
    if (p->t)
        expect(p->logits, p->t->logits + at * s->n_vocab, (size_t)n * s->n_vocab, p->tolerance,
               "logits", 0, p->position);
    assert_ok(ops->end(be, &err));
}

static void play_commit(player *p, uint32_t n)
{
    play(p, n);
    p->n->ops->state_commit(p->n->be, p->state);
    p->position += n;
}

static player player_create(rl_test_net *n, const rl_test_trace *t, const rl_state_params *state,
                            uint32_t batch, double tolerance)
{
    rl_error err = { "" };
    const rl_shape *s = &n->net.shape;
    size_t width = s->n_embd > s->n_expert ? s->n_embd : s->n_expert;
    player p = { .n = n, .t = t, .tokens = t->tokens, .tolerance = tolerance };
    p.tap = malloc(batch * width * sizeof(float));
    p.logits = malloc((size_t)batch * s->n_vocab * sizeof(float));
    p.ids = malloc((size_t)batch * s->n_expert_used * sizeof(uint32_t));
    p.assign = malloc((size_t)batch * s->n_expert_used * sizeof(uint32_t));
    p.groups = malloc(s->n_expert * sizeof *p.groups);
    assert_ok(n->ops->state_create(n->be, &p.state, state, &err));
    return p;
}

static void player_destroy(player *p)
{
    p->n->ops->state_destroy(p->n->be, p->state);
    free(p->tap);
    free(p->logits);
    free(p->ids);
    free(p->assign);
    free(p->groups);
}

static void expect_states(const player *p)
{
    rl_error err = { "" };
    const rl_test_net *n = p->n;
    const rl_shape *s = &n->net.shape;
    const uint32_t channels = rl_shape_conv_channels(s), kv = s->n_head_kv * s->head_dim;
    const size_t delta = (size_t)s->n_value_head * s->delta_dim * s->delta_dim;
    const size_t conv = (size_t)(s->conv_taps - 1) * channels, cache = (size_t)p->position * kv;
    float *got = malloc((delta + conv + cache) * sizeof *got);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const rl_test_trace_layer *t = &p->t->layer[i];
        const double tolerance = p->tolerance;
        if (n->layers[i].recurrent) {
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_CONV, 0, got, &err));
            expect(got, t->conv, conv, tolerance, "conv state", i, p->position);
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_DELTA, 0, got, &err));
            expect(got, t->s, delta, tolerance, "delta state", i, p->position);
        } else {
            assert_ok(n->ops->state_read(n->be, p->state, i, RL_STATE_KEY, p->position, got, &err));
            expect(got, t->keys, cache, tolerance, "keys", i, p->position);
            assert_ok(
                n->ops->state_read(n->be, p->state, i, RL_STATE_VALUE, p->position, got, &err));
            expect(got, t->values, cache, tolerance, "values", i, p->position);
        }
    }
    free(got);
}

/* ---- nets ------------------------------------------------------------------------------------ */

/* Nothing here is a multiple of a vector. */
static const rl_test_net_params odd = {
    .shape = { .n_layer = 3,
               .n_embd = 36,
               .n_vocab = 53,
               .rms_eps = 1e-6f,
               .n_head = 6,
               .n_head_kv = 2,
               .head_dim = 20,
               .n_rot = 6,
               .rope_base = 1e4f,
               .conv_taps = 3,
               .n_key_head = 2,
               .n_value_head = 6,
               .delta_dim = 20,
               .n_expert = 7,
               .n_expert_used = 3,
               .n_ff_expert = 22,
               .n_ff_shared = 41 },
    .recurrent = "GAG",
    .dense_type = F32,
    .expert_type = F32,
    .down_type = F16,
    .threads = 2,
    .max_batch = 130,
    .isa = "exact",
};

/* The shape of real models, small; quantised. */
static const rl_test_net_params even = {
    .shape = { .n_layer = 4,
               .n_embd = 64,
               .n_vocab = 96,
               .rms_eps = 1e-6f,
               .n_head = 8,
               .n_head_kv = 2,
               .head_dim = 64,
               .n_rot = 16,
               .rope_base = 1e7f,
               .conv_taps = 4,
               .n_key_head = 2,
               .n_value_head = 4,
               .delta_dim = 128,
               .n_expert = 16,
               .n_expert_used = 4,
               .n_ff_expert = 64,
               .n_ff_shared = 32 },
    .recurrent = "GGAA",
    .dense_type = Q8_0,
    .expert_type = Q8_0,
    .down_type = F16,
    .threads = 2,
    .max_batch = 130,
    .isa = "exact",
};

static const uint32_t batches[] = { 1, 2, 63, 64, 65, 130, 1, 1, 5, 1 };

static uint32_t total(const uint32_t *sizes, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sizes[i];
    return sum;
}

/* Plays `sizes` with everything compared. */
static void check(const rl_test_net_params *params, const uint32_t *sizes, size_t n_sizes,
                  uint32_t key_type, uint32_t value_type, double tolerance)
{
    rl_test_net *n = rl_test_net_create(params);
    rl_test_trace *t = rl_test_reference(n, total(sizes, n_sizes));
    player p = player_create(
        n, t, &(rl_state_params){ .n_ctx = t->n, .key_type = key_type, .value_type = value_type },
        params->max_batch, tolerance);
    for (size_t i = 0; i < n_sizes; i++) {
        p.halves = i % 2;
        play_commit(&p, sizes[i]);
    }
    if (!key_type && !value_type) expect_states(&p);
    player_destroy(&p);
    rl_test_trace_free(t);
    rl_test_net_destroy(n);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Every stage, every batch size around the chunk border.
 * Stands against: tails of vectors, padded columns, wrong head maps, a state that loses a token. */
static void cpu_stages_odd_shapes(void **state)
{
    (void)state;
    check(&odd, batches, RL_COUNT_OF(batches), F32, F32, 2e-5);
}

static void cpu_stages_even_shapes(void **state)
{
    (void)state;
    check(&even, batches, RL_COUNT_OF(batches), F32, F32, 2e-5);
}

/* One batch for everything. */
static void cpu_stages_one_batch(void **state)
{
    (void)state;
    static const uint32_t one[] = { 130 };
    check(&odd, one, 1, F32, F32, 2e-5);
    check(&even, one, 1, F32, F32, 2e-5);
}

/* Contexts long enough to be cut into parts, also by batches that cross a cut.
 * Stands against: parts joined wrongly, a part that the first token of a batch cannot see. */
static void cpu_stages_long_context(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 200, 200, 110, 1, 1, 3, 1, 200, 50, 7, 1, 1, 1, 2, 200, 1 };
    rl_test_net_params p = odd;
    p.max_batch = 200;
    check(&p, sizes, RL_COUNT_OF(sizes), F32, F32, 2e-5);
}

static void cpu_stages_half_cache(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 70, 1, 1, 64, 5 };
    check(&odd, sizes, RL_COUNT_OF(sizes), F16, F16, 3e-3);
    check(&even, sizes, RL_COUNT_OF(sizes), F16, F32, 3e-3);
    check(&even, sizes, RL_COUNT_OF(sizes), F32, F16, 3e-3);
}

/* Every table of kernels that this machine can run. */
static void cpu_stages_every_isa(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 66, 1, 9 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        if (!rl_cpu_kernels_at(i)) continue;
        rl_test_net_params p = odd;
        p.isa = rl_cpu_kernels_name(i);
        check(&p, sizes, RL_COUNT_OF(sizes), F32, F32, 2e-5); /* F32 weights: f32 everywhere */
        p = even;
        p.isa = rl_cpu_kernels_name(i);
        check(&p, sizes, RL_COUNT_OF(sizes), F16, F16, strcmp(p.isa, "exact") ? 5e-2 : 3e-3);
        n++;
    }
    assert_true(n >= 2);
}

/* The same bits with any number of threads, also with more threads than cores.
 * Stands against: sums whose order depends on who came first. */
static void cpu_stages_threads_do_not_matter(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 2, 130, 1, 65, 1, 130, 130, 120, 1, 1 };
    static const uint32_t threads[] = { 1, 2, 5 };
    static const char *const isas[] = { "exact", NULL };
    for (size_t isa = 0; isa < RL_COUNT_OF(isas); isa++) {
        float *first = NULL;
        for (size_t i = 0; i < RL_COUNT_OF(threads); i++) {
            rl_test_net_params params = even;
            params.threads = threads[i];
            params.isa = isas[isa];
            rl_test_net *n = rl_test_net_create(&params);
            rl_test_trace *t = rl_test_reference(n, 1);
            const uint32_t n_tokens = total(sizes, RL_COUNT_OF(sizes));
            uint32_t *tokens = malloc(n_tokens * sizeof *tokens);
            uint64_t seed = 3;
            for (uint32_t x = 0; x < n_tokens; x++)
                tokens[x] = (uint32_t)(rl_test_random(&seed) % params.shape.n_vocab);
            player p = player_create(n, t, &(rl_state_params){ .n_ctx = n_tokens, F16, F16 },
                                     params.max_batch, 0);
            p.t = NULL;
            p.tokens = tokens;
            float *all = malloc((size_t)n_tokens * params.shape.n_vocab * sizeof *all);
            for (size_t b = 0; b < RL_COUNT_OF(sizes); b++) {
                const size_t at = (size_t)p.position * params.shape.n_vocab;
                p.halves = (i + b) % 2; /* nor does the order in which experts come */
                play_commit(&p, sizes[b]);
                memcpy(all + at, p.logits, (size_t)sizes[b] * params.shape.n_vocab * sizeof *all);
            }
            if (first) {
                assert_memory_equal(first, all,
                                    (size_t)n_tokens * params.shape.n_vocab * sizeof *all);
                free(all);
            } else {
                first = all;
            }
            player_destroy(&p);
            free(tokens);
            rl_test_trace_free(t);
            rl_test_net_destroy(n);
        }
        free(first);
    }
}

/* A batch that is not committed leaves no trace; a copied state continues with the same bits. */
static void cpu_stages_state_moves(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (int which = 0; which < 2; which++) {
        const rl_test_net_params *params = which ? &even : &odd;
        rl_test_net *n = rl_test_net_create(params);
        const rl_shape *s = &params->shape;
        rl_test_trace *t = rl_test_reference(n, 100);
        const rl_state_params sp = { .n_ctx = 100, .key_type = F16, .value_type = F32 };
        player a = player_create(n, t, &sp, params->max_batch, 3e-3);
        player b = player_create(n, t, &sp, params->max_batch, 3e-3);
        play_commit(&a, 70);
        play(&a, 30); /* forgotten */
        float *want = malloc(s->n_vocab * sizeof *want);

        size_t room = (size_t)s->n_value_head * s->delta_dim * s->delta_dim;
        const size_t conv = (size_t)s->conv_taps * rl_shape_conv_channels(s);
        const size_t kv = (size_t)100 * s->n_head_kv * s->head_dim;
        if (room < conv) room = conv;
        if (room < kv) room = kv;
        float *part = malloc(room * sizeof *part);
        for (uint32_t i = 0; i < s->n_layer; i++) {
            const rl_state_part first = n->layers[i].recurrent ? RL_STATE_CONV : RL_STATE_KEY;
            for (rl_state_part x = first; x <= first + 1; x++) {
                assert_ok(n->ops->state_read(n->be, a.state, i, x, 70, part, &err));
                assert_ok(n->ops->state_write(n->be, b.state, i, x, 70, part, &err));
            }
        }
        b.position = 70;
        static const uint32_t next[] = { 1, 1, 3, 1, 2, 1 };
        for (size_t i = 0; i < RL_COUNT_OF(next); i++) {
            play(&a, i % 2 ? 5 : 1); /* forgotten, in the middle of single tokens too */
            play_commit(&a, next[i]);
            memcpy(want, a.logits, s->n_vocab * sizeof *want);
            play_commit(&b, next[i]);
            assert_memory_equal(want, b.logits, s->n_vocab * sizeof *want);
        }

        /* From zeros again, in the used state and in a new one. */
        player c = player_create(n, t, &sp, params->max_batch, 3e-3);
        assert_ok(n->ops->state_reset(n->be, a.state, &err));
        a.position = 0;
        play_commit(&a, 64);
        play_commit(&c, 64);
        assert_memory_equal(a.logits, c.logits, (size_t)64 * s->n_vocab * sizeof *want);
        free(part);
        free(want);
        player_destroy(&a);
        player_destroy(&b);
        player_destroy(&c);
        rl_test_trace_free(t);
        rl_test_net_destroy(n);
    }
}

/* The counters say what was walked: every dense matrix once per batch, whatever its size; and that the
 * threads meet at most eight times per layer of a token. */
static void cpu_stages_counters(void **state)
{
    (void)state;
    rl_test_net *n = rl_test_net_create(&even);
    rl_test_trace *t = rl_test_reference(n, 130);
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = 200 }, even.max_batch, 2e-5);
    p.t = NULL;
    play_commit(&p, 2);
    rl_backend_counters before, after;
    const uint32_t sizes[] = { 1, 64, 63 };
    for (size_t i = 0; i < RL_COUNT_OF(sizes); i++) {
        n->ops->get_counters(n->be, &before);
        play_commit(&p, sizes[i]);
        n->ops->get_counters(n->be, &after);
        /* per layer 4 of the mixer, router, the shared expert's gate and its 3 matrices; the head;
         * one token also looks ahead in all layers but the last */
        const uint32_t ahead = sizes[i] == 1 ? even.shape.n_layer - 1 : 0;
        assert_int_equal(after.dense_passes - before.dense_passes,
                         9 * even.shape.n_layer + 1 + ahead);
        assert_int_equal(after.tokens - before.tokens, sizes[i]);
        assert_true(after.expert_passes - before.expert_passes <=
                    (uint64_t)even.shape.n_layer * even.shape.n_expert);
        if (sizes[i] == 1)
            assert_int_equal(after.expert_passes - before.expert_passes,
                             even.shape.n_layer * even.shape.n_expert_used);
        /* A loop for the guess of each next layer aside. Batches may have more: they are rare. */
        const uint64_t loops = after.loops - before.loops - ahead;
        assert_true(loops >= even.shape.n_layer &&
                    loops <= (sizes[i] == 1 ? 8 : 16) * even.shape.n_layer);
        assert_int_equal(after.state_bytes_copied, 0);
    }
    player_destroy(&p);
    rl_test_trace_free(t);
    rl_test_net_destroy(n);
}

/* Angles stay right where f32 positions times frequencies would be off by tenths of a radian. */
static void cpu_stages_far_positions(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_test_net_params params = odd;
    params.recurrent = "AGG";
    rl_test_net *n = rl_test_net_create(&params);
    const rl_shape *s = &params.shape;
    rl_test_trace *t = rl_test_reference(n, 1);
    const uint32_t position = 130001, d = s->head_dim;
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = position + 1 }, 130, 0);
    p.t = NULL;
    uint32_t *tokens = calloc(position + 1, sizeof *tokens);
    tokens[position] = t->tokens[0];
    p.tokens = tokens;
    p.position = position;
    play_commit(&p, 1);
    float *keys = malloc((size_t)p.position * s->n_head_kv * d * sizeof *keys);
    assert_ok(n->ops->state_read(n->be, p.state, 0, RL_STATE_KEY, p.position, keys, &err));
    /* The reference key of position 0 is not rotated. */
    double *want = rl_test_doubles(d);
    memcpy(want, t->layer[0].keys, d * sizeof *want);
    rl_test_rotate(s, position, want);
    expect(keys + (size_t)position * s->n_head_kv * d, want, d, 2e-6, "rotated key", 0, position);
    free(want);
    free(keys);
    free(tokens);
    player_destroy(&p);
    rl_test_trace_free(t);
    rl_test_net_destroy(n);
}

/* Batches take nothing from the heap, and what attach takes grows with the batch. */
static void cpu_stages_allocate_nothing(void **state)
{
    (void)state;
    rl_test_net *n = rl_test_net_create(&odd);
    rl_test_trace *t = rl_test_reference(n, 1);
    player p = player_create(n, t, &(rl_state_params){ .n_ctx = 200 }, odd.max_batch, 0);
    uint32_t tokens[200] = { 0 };
    p.t = NULL;
    p.tokens = tokens;
    play_commit(&p, 130);
    rl_fault_arm(UINT64_MAX);
    play_commit(&p, 1);
    play_commit(&p, 64);
    const uint64_t calls = rl_fault_calls();
    rl_fault_disarm();
    assert_int_equal(calls, 0);
    assert_true(n->ops->batch_bytes(&odd.shape, 130) > 130u * odd.shape.n_embd * sizeof(float));
    assert_true(n->ops->batch_bytes(&odd.shape, 260) > n->ops->batch_bytes(&odd.shape, 130));
    player_destroy(&p);
    rl_test_trace_free(t);
    rl_test_net_destroy(n);
}

/* Wrong names are errors, not crashes. */
static void cpu_stages_refusals(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_backend *be = NULL;
    const rl_backend_ops *ops = &rl_backend_cpu;
    assert_int_equal(ops->open(&be, &(rl_backend_params){ .isa = "mmx" }, &err), RL_INVALID);
    assert_null(be);
    assert_non_null(strstr(err.text, "mmx"));
    assert_ok(ops->open(&be, &(rl_backend_params){ .n_threads = 1 }, &err));
    rl_weight w = { .type = Q8_0, .rows = 2, .cols = 33 };
    assert_int_equal(ops->weight_alloc(be, &w, "blk.0.x", &err), RL_INVALID);
    assert_non_null(strstr(err.text, "blk.0.x"));
    w = (rl_weight){ .type = 77, .rows = 2, .cols = 32 };
    assert_int_equal(ops->weight_alloc(be, &w, "blk.0.x", &err), RL_UNSUPPORTED);
    const uint64_t bytes = UINT64_MAX / 4;
    const uint32_t count = 1000;
    assert_int_equal(ops->pool_create(be, 1, &bytes, &count, &err), RL_NOMEM);
    assert_false(ops->supports(be, 77, true));
    assert_true(ops->supports(be, Q8_0, true));
    ops->close(be);
    ops->close(NULL);
}

RL_TEST_MAIN(RL_TEST(cpu_stages, odd_shapes), RL_TEST(cpu_stages, even_shapes),
             RL_TEST(cpu_stages, one_batch), RL_TEST(cpu_stages, long_context),
             RL_TEST(cpu_stages, half_cache), RL_TEST(cpu_stages, every_isa),
             RL_TEST(cpu_stages, threads_do_not_matter), RL_TEST(cpu_stages, state_moves),
             RL_TEST(cpu_stages, counters), RL_TEST(cpu_stages, far_positions),
             RL_TEST(cpu_stages, allocate_nothing), RL_TEST(cpu_stages, refusals))
