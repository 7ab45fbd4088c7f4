/* test_vulkan_mixer.c - norm, gated delta net and gated attention of the Vulkan backend, against the
 * formulas of docs/numerics.md written down once more in double. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "support/vulkan.h"

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void assert_close(const char *what, const float *have, const double *want, size_t n,
                         double bound)
{
    double scale = 0;
    for (size_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (isnan(want[i]) ? !isnan(have[i]) : !(fabs(have[i] - want[i]) <= bound * scale))
            fail_msg("%s [%zu]: %.9g, expected %.9g (scale %.3g)", what, i, (double)have[i],
                     want[i], scale);
}

static void vulkan_norm(void **state)
{
    (void)state;
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    enum { N = 3, COLS = 1000 };
    float *x = rl_test_random_vector(N * COLS, 3, 1), *w = rl_test_random_vector(COLS, 1, 2);
    float y[N * COLS];
    double want[N * COLS];
    for (int n = 0; n < N; n++) {
        double squares = 0;
        for (int i = 0; i < COLS; i++)
            squares += (double)x[n * COLS + i] * x[n * COLS + i];
        for (int i = 0; i < COLS; i++)
            want[n * COLS + i] = x[n * COLS + i] / sqrt(squares / COLS + 1e-5f) * w[i];
    }
    rl_vk_span gx = rl_test_gpu_put(gpu, x, sizeof y), gw = rl_test_gpu_put(gpu, w, COLS * 4);
    rl_vk_span gy = rl_test_gpu_put(gpu, NULL, sizeof y);
    rl_norm_push push = {
        .x = gx.address, .weight = gw.address, .y = gy.address, .cols = COLS, .eps = 1e-5f
    };
    assert_ok(rl_vk_op_norm(&gpu->ops, &gpu->cmd, N, &push, &err));
    rl_test_gpu_get(gpu, &gy, y, sizeof y);
    assert_close("norm", y, want, N * COLS, 1e-6);
    free(x);
    free(w);
    rl_test_gpu_end(gpu);
}

/* ---- gated delta net ------------------------------------------------------------------------------ */

typedef struct delta_case {
    uint32_t hk, hv, d, taps, n; /* key heads, value heads, size, convolution, tokens */
} delta_case;

/* The layer between its projections, token by token; conv and s are the state, updated. */
static void delta_reference(const delta_case *c, const float *u, const float *z, const float *ba,
                            const float *conv_w, const float *dt, const float *a, const float *norm,
                            double *conv, double *s, double *y)
{
    uint32_t d = c->d, r = c->hv / c->hk, channels = (2 * c->hk + c->hv) * d, past = c->taps - 1;
    double *x = calloc(channels, sizeof *x);
    assert_non_null(x);
    for (uint32_t t = 0; t < c->n; t++) {
        for (uint32_t ch = 0; ch < channels; ch++) {
            double sum = conv_w[ch * c->taps + past] * u[t * channels + ch];
            for (uint32_t j = 0; j < past; j++)
                sum += conv_w[ch * c->taps + j] * conv[j * channels + ch];
            x[ch] = silu(sum);
        }
        memmove(conv, conv + channels, (past - 1) * channels * sizeof *conv);
        for (uint32_t ch = 0; ch < channels; ch++)
            conv[(past - 1) * channels + ch] = u[t * channels + ch];
        for (uint32_t h = 0; h < 2 * c->hk; h++) {
            double squares = 1e-6;
            for (uint32_t i = 0; i < d; i++)
                squares += x[h * d + i] * x[h * d + i];
            double f = 1 / sqrt(squares) / (h < c->hk ? sqrt(d) : 1);
            for (uint32_t i = 0; i < d; i++)
                x[h * d + i] *= f;
        }
        for (uint32_t j = 0; j < c->hv; j++) {
            const float *m = ba + t * 2 * c->hv + j / r * 2 * r;
            double beta = sigmoid(m[j % r]);
            double decay = exp(a[j] * log1p(exp((double)m[r + j % r] + dt[j])));
            const double *q = x + j / r * d, *k = x + (c->hk + j / r) * d;
            const double *v = x + (2 * c->hk + j) * d;
            double *sj = s + (size_t)j * d * d, squares = 0, *o = y + (t * c->hv + j) * d;
            for (uint32_t col = 0; col < d; col++) {
                double p = 0;
                o[col] = 0;
                for (uint32_t n = 0; n < d; n++) {
                    sj[n * d + col] *= decay;
                    p += k[n] * sj[n * d + col];
                }
                double e = beta * (v[col] - p);
                for (uint32_t n = 0; n < d; n++) {
                    sj[n * d + col] += k[n] * e;
                    o[col] += q[n] * sj[n * d + col];
                }
                squares += o[col] * o[col];
            }
            for (uint32_t col = 0; col < d; col++)
                o[col] = o[col] / sqrt(squares / d + 1e-6) * norm[col] *
                         silu(z[(t * c->hv + j) * d + col]);
        }
    }
    free(x);
}

static float *doubled(const float *one, size_t n) /* [2][n], the second copy full of nonsense */
{
    float *two = malloc(2 * n * sizeof *two);
    assert_non_null(two);
    for (size_t i = 0; i < n; i++) {
        two[i] = one[i];
        two[n + i] = 1e9f;
    }
    return two;
}

static void check_delta(delta_case c)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    uint32_t channels = (2 * c.hk + c.hv) * c.d, values = c.hv * c.d, past = c.taps - 1;
    size_t n_conv = (size_t)past * channels, n_state = (size_t)values * c.d;
    uint32_t parts = c.d / rl_vk_delta_cols(c.d);
    float *u = rl_test_random_vector((size_t)c.n * channels, 1, 1);
    float *z = rl_test_random_vector((size_t)c.n * values, 1, 2);
    float *ba = rl_test_random_vector((size_t)c.n * 2 * c.hv, 2, 3);
    float *conv_w = rl_test_random_vector((size_t)channels * c.taps, 0.5f, 4);
    float *dt = rl_test_random_vector(c.hv, 1, 5), *a = rl_test_random_vector(c.hv, 1, 6);
    float *norm = rl_test_random_vector(c.d, 1, 7);
    float *conv = rl_test_random_vector(n_conv, 1, 8), *s = rl_test_random_vector(n_state, 0.3f, 9);
    for (uint32_t j = 0; j < c.hv; j++)
        a[j] = -fabsf(a[j]);
    double *conv_d = malloc(n_conv * sizeof *conv_d), *s_d = malloc(n_state * sizeof *s_d);
    double *want = malloc(c.n * values * sizeof *want);
    float *y = malloc(c.n * values * sizeof *y), *sums = malloc(c.n * c.hv * parts * sizeof *sums);
    assert_true(conv_d && s_d && want && y && sums);
    for (size_t i = 0; i < n_conv; i++)
        conv_d[i] = conv[i];
    for (size_t i = 0; i < n_state; i++)
        s_d[i] = s[i];
    float *conv2 = doubled(conv, n_conv), *s2 = doubled(s, n_state);
    rl_vk_span g_conv = rl_test_gpu_put(gpu, conv2, 2 * n_conv * 4);
    rl_vk_span g_s = rl_test_gpu_put(gpu, s2, 2 * n_state * 4);
    rl_vk_span g_y = rl_test_gpu_put(gpu, NULL, c.n * values * 4);
    rl_vk_span g_sums = rl_test_gpu_put(gpu, NULL, c.n * c.hv * parts * 4);
    rl_delta_push push = {
        .u = rl_test_gpu_put(gpu, u, (size_t)c.n * channels * 4).address,
        .z = rl_test_gpu_put(gpu, z, (size_t)c.n * values * 4).address,
        .ba = rl_test_gpu_put(gpu, ba, (size_t)c.n * 2 * c.hv * 4).address,
        .conv_w = rl_test_gpu_put(gpu, conv_w, (size_t)channels * c.taps * 4).address,
        .dt = rl_test_gpu_put(gpu, dt, c.hv * 4).address,
        .a = rl_test_gpu_put(gpu, a, c.hv * 4).address,
        .norm = rl_test_gpu_put(gpu, norm, c.d * 4).address,
        .conv = g_conv.address,
        .state = g_s.address,
        .y = g_y.address,
        .sums = g_sums.address,
        .token = gpu->token.address,
        .n_key_head = c.hk,
        .n_value_head = c.hv,
        .taps = c.taps,
    };
    /* Twice over, so that the second run reads what the first has written: the copies alternate. */
    for (uint32_t side = 0; side < 2; side++) {
        rl_test_gpu_set_token(gpu, &(rl_vk_token){ .side = side, .n = c.n });
        assert_ok(rl_vk_op_delta_step(&gpu->ops, &gpu->cmd, c.d, &push, &err));
        rl_test_gpu_get(gpu, &g_y, y, c.n * values * sizeof *y);
        rl_test_gpu_get(gpu, &g_sums, sums, c.n * c.hv * parts * sizeof *sums);
        for (uint32_t i = 0; i < c.n * values; i++) {
            float squares = 0;
            for (uint32_t k = 0; k < parts; k++)
                squares += sums[i / c.d * parts + k];
            y[i] *= 1 / sqrtf(squares / (float)c.d + 1e-6f);
        }
        delta_reference(&c, u, z, ba, conv_w, dt, a, norm, conv_d, s_d, want);
        assert_close("delta y", y, want, c.n * values, 2e-5);
        rl_test_gpu_get(gpu, &g_conv, conv2, 2 * n_conv * 4);
        rl_test_gpu_get(gpu, &g_s, s2, 2 * n_state * 4);
        assert_close("conv", conv2 + (1 - side) * n_conv, conv_d, n_conv, 0);
        assert_close("state", s2 + (1 - side) * n_state, s_d, n_state, 2e-5);
        if (side == 0) { /* what was read is untouched */
            assert_memory_equal(conv2, conv, n_conv * 4);
            assert_memory_equal(s2, s, n_state * 4);
        }
    }
    float *all[] = { u, z, ba, conv_w, dt, a, norm, conv, s, conv2, s2, y, sums };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(conv_d);
    free(s_d);
    free(want);
    rl_test_gpu_end(gpu);
}

static void vulkan_delta_step_target_heads(void **state)
{
    (void)state;
    check_delta((delta_case){ .hk = 2, .hv = 4, .d = 128, .taps = 4, .n = 1 });
}

static void vulkan_delta_step_batches(void **state)
{
    (void)state;
    check_delta((delta_case){ .hk = 2, .hv = 2, .d = 32, .taps = 4, .n = 7 });
    check_delta((delta_case){ .hk = 1, .hv = 3, .d = 64, .taps = 3, .n = 2 });
}

static void vulkan_delta_step_odd_shapes(void **state)
{
    (void)state;
    check_delta((delta_case){ .hk = 1, .hv = 2, .d = 24, .taps = 2, .n = 3 });
    check_delta((delta_case){ .hk = 3, .hv = 3, .d = 16, .taps = 4, .n = 1 });
}

/* ---- gated attention ------------------------------------------------------------------------------ */

typedef struct attn_case {
    uint32_t hq, hkv, d, rot, position, n, splits;
    bool key_f16, value_f16;
    bool damaged; /* the first head's first cached key is not a number */
} attn_case;

static double cached(double x, bool f16)
{
    return f16 ? (double)rl_f32_from_f16(rl_f16_from_f32((float)x)) : x;
}

/* norm and rotation of one head */
static void prepare(const float *head, const float *w, const float *angles, uint32_t d,
                    uint32_t rot, double *out)
{
    double squares = 0, x[256];
    for (uint32_t i = 0; i < d; i++)
        squares += (double)head[i] * head[i];
    for (uint32_t i = 0; i < d; i++)
        out[i] = x[i] = head[i] / sqrt(squares / d + 1e-6) * w[i];
    for (uint32_t i = 0; i < rot / 2; i++) {
        double c = angles[2 * i], s = angles[2 * i + 1];
        out[i] = x[i] * c - x[i + rot / 2] * s;
        out[i + rot / 2] = x[i + rot / 2] * c + x[i] * s;
    }
}

static void *cache_bytes(const double *values, size_t n, bool f16, size_t *bytes)
{
    *bytes = n * (f16 ? 2 : 4);
    uint8_t *out = malloc(*bytes);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        float f = (float)values[i];
        uint16_t h = rl_f16_from_f32(f);
        memcpy(out + i * (f16 ? 2 : 4), f16 ? (void *)&h : (void *)&f, f16 ? 2 : 4);
    }
    return out;
}

static void check_attention(attn_case c)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    uint32_t d = c.d, row = c.hkv * d, total = c.position + c.n;
    float *q = rl_test_random_vector((size_t)c.n * c.hq * 2 * d, 1, 1);
    float *k = rl_test_random_vector((size_t)c.n * row, 1, 2);
    float *v = rl_test_random_vector((size_t)c.n * row, 1, 3);
    float *qw = rl_test_random_vector(d, 1, 4), *kw = rl_test_random_vector(d, 1, 5);
    float *angles = rl_test_random_vector((size_t)c.n * c.rot, 1, 6);
    for (uint32_t i = 0; i < c.n * c.rot / 2; i++) {
        float x = angles[2 * i];
        angles[2 * i] = cosf(x);
        angles[2 * i + 1] = sinf(x);
    }
    double *keys = calloc((size_t)total * row, sizeof *keys);
    double *values = calloc((size_t)total * row, sizeof *values);
    double *want = calloc((size_t)c.n * c.hq * d, sizeof *want);
    double *score = malloc(total * sizeof *score);
    float *y = malloc((size_t)c.n * c.hq * d * sizeof *y);
    assert_true(keys && values && want && score && y);
    uint64_t seed = 7;
    for (size_t i = 0; i < (size_t)c.position * row; i++) {
        keys[i] = cached(rl_test_random_normal(&seed), c.key_f16);
        values[i] = cached(rl_test_random_normal(&seed), c.value_f16);
    }
    for (size_t i = (size_t)c.position * row; i < (size_t)total * row; i++)
        keys[i] = values[i] = NAN; /* until they are written */
    if (c.damaged) keys[0] = NAN;
    size_t key_bytes, value_bytes;
    void *kb = cache_bytes(keys, (size_t)total * row, c.key_f16, &key_bytes);
    void *vb = cache_bytes(values, (size_t)total * row, c.value_f16, &value_bytes);
    rl_vk_span g_keys = rl_test_gpu_put(gpu, kb, key_bytes);
    rl_vk_span g_values = rl_test_gpu_put(gpu, vb, value_bytes);
    for (uint32_t t = 0; t < c.n; t++)
        for (uint32_t h = 0; h < c.hkv; h++) {
            double head[256];
            prepare(k + t * row + h * d, kw, angles + t * c.rot, d, c.rot, head);
            for (uint32_t i = 0; i < d; i++) {
                size_t at = (size_t)(c.position + t) * row + h * d + i;
                keys[at] = cached(head[i], c.key_f16);
                values[at] = cached(v[t * row + h * d + i], c.value_f16);
            }
        }
    for (uint32_t t = 0; t < c.n; t++)
        for (uint32_t h = 0; h < c.hq; h++) {
            double head[256], top = -1e300, sum = 0;
            const float *qh = q + ((size_t)t * c.hq + h) * 2 * d;
            size_t kv = (size_t)(h / (c.hq / c.hkv)) * d;
            prepare(qh, qw, angles + t * c.rot, d, c.rot, head);
            for (uint32_t s = 0; s <= c.position + t; s++) {
                score[s] = 0;
                for (uint32_t i = 0; i < d; i++)
                    score[s] += head[i] * keys[(size_t)s * row + kv + i] / sqrt(d);
                top = fmax(top, score[s]);
            }
            double *out = want + ((size_t)t * c.hq + h) * d;
            for (uint32_t s = 0; s <= c.position + t; s++) {
                double p = exp(score[s] - top);
                sum += p;
                for (uint32_t i = 0; i < d; i++)
                    out[i] += p * values[(size_t)s * row + kv + i];
            }
            for (uint32_t i = 0; i < d; i++)
                out[i] *= sigmoid(qh[d + i]) / sum;
        }

    rl_vk_span g_q = rl_test_gpu_put(gpu, q, (size_t)c.n * c.hq * 2 * d * 4);
    rl_vk_span g_y = rl_test_gpu_put(gpu, NULL, (size_t)c.n * c.hq * d * 4);
    rl_attn_prep_push prep = {
        .q = g_q.address,
        .k = rl_test_gpu_put(gpu, k, (size_t)c.n * row * 4).address,
        .v = rl_test_gpu_put(gpu, v, (size_t)c.n * row * 4).address,
        .q_norm = rl_test_gpu_put(gpu, qw, d * 4).address,
        .k_norm = rl_test_gpu_put(gpu, kw, d * 4).address,
        .keys = g_keys.address,
        .values = g_values.address,
        .rope = rl_test_gpu_put(gpu, angles, (size_t)c.n * c.rot * 4).address,
        .token = gpu->token.address,
        .n_head = c.hq,
        .n_head_kv = c.hkv,
        .n_rot = c.rot,
        .eps = 1e-6f,
    };
    size_t parts = (size_t)c.n * c.splits * c.hq * (d + 2) * 4;
    rl_attn_push push = {
        .q = prep.q,
        .k = prep.k,
        .v = prep.v,
        .q_norm = prep.q_norm,
        .k_norm = prep.k_norm,
        .keys = prep.keys,
        .values = prep.values,
        .rope = prep.rope,
        .parts = rl_test_gpu_put(gpu, NULL, parts).address,
        .token = gpu->token.address,
        .n_head = c.hq,
        .n_head_kv = c.hkv,
        .n_rot = c.rot,
        .splits = c.splits,
        .eps = 1e-6f,
    };
    rl_attn_out_push join = {
        .parts = push.parts,
        .q = prep.q,
        .y = g_y.address,
        .token = gpu->token.address,
        .n_head = c.hq,
        .splits = c.splits,
    };
    rl_vk_cache_types types = { d, c.key_f16, c.value_f16 };
    rl_test_gpu_set_token(gpu, &(rl_vk_token){ .position = c.position, .n = c.n });
    bool fused = c.n == 1;
    if (!fused) {
        assert_ok(rl_vk_op_attn_prep(&gpu->ops, &gpu->cmd, c.n, &types, &prep, &err));
        rl_vk_cmd_barrier(&gpu->cmd);
    }
    assert_ok(rl_vk_op_attn(&gpu->ops, &gpu->cmd, c.n, fused, &types, &push, &err));
    rl_vk_cmd_barrier(&gpu->cmd);
    assert_ok(rl_vk_op_attn_out(&gpu->ops, &gpu->cmd, c.n, d, &join, &err));
    rl_test_gpu_get(gpu, &g_y, y, (size_t)c.n * c.hq * d * 4);
    /* A key that lies between two halves may be rounded to either: f32 decides, not double. */
    assert_close("attention", y, want, (size_t)c.n * c.hq * d, c.key_f16 ? 2e-4 : 1e-5);

    /* the appended rows: equal up to the last bit of the cache's type */
    float *after = malloc((size_t)total * row * sizeof *after);
    assert_non_null(after);
    void *raw = malloc(key_bytes > value_bytes ? key_bytes : value_bytes);
    assert_non_null(raw);
    for (int which = 0; which < 2; which++) {
        bool f16 = which ? c.value_f16 : c.key_f16;
        rl_test_gpu_get(gpu, which ? &g_values : &g_keys, raw, which ? value_bytes : key_bytes);
        for (size_t i = 0; i < (size_t)total * row; i++)
            after[i] = f16 ? rl_f32_from_f16(((uint16_t *)raw)[i]) : ((float *)raw)[i];
        assert_close(which ? "values" : "keys", after, which ? values : keys, (size_t)total * row,
                     f16 ? 1e-3 : 1e-6);
    }
    void *all[] = { q, k, v, qw, kw, angles, keys, values, want, score, y, kb, vb, after, raw };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    rl_test_gpu_end(gpu);
}

/* Few positions, one more than a tile, many pieces, more pieces than tiles. */
static void vulkan_attention_positions(void **state)
{
    (void)state;
    attn_case c = { .hq = 4, .hkv = 2, .d = 32, .rot = 16, .n = 1, .splits = 4 };
    uint32_t positions[] = { 0, 1, 31, 32, 33, 127, 128, 300, 5000 };
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        c.position = positions[i];
        check_attention(c);
    }
}

/* A single token by both kernels: for few keys, and for many. */
static void vulkan_attention_few_and_many(void **state)
{
    (void)state;
    rl_vk_ops *ops = &rl_test_gpu_begin()->ops;
    const uint32_t before = ops->shallow, position = 70;
    attn_case c = {
        .hq = 8, .hkv = 2, .d = 64, .rot = 32, .position = position, .n = 1, .splits = 2
    };
    ops->shallow = position; /* from there on keys are many */
    check_attention(c);
    ops->shallow = position + 1;
    check_attention(c);
    ops->shallow = before;
}

static void vulkan_attention_target_heads(void **state)
{
    (void)state;
    check_attention((attn_case){ .hq = 16,
                                 .hkv = 2,
                                 .d = 256,
                                 .rot = 64,
                                 .position = 70,
                                 .n = 1,
                                 .splits = 3,
                                 .key_f16 = true,
                                 .value_f16 = true });
}

static void vulkan_attention_batches(void **state)
{
    (void)state;
    attn_case c = { .hq = 4, .hkv = 2, .d = 64, .rot = 16, .position = 40, .n = 5, .splits = 2 };
    c.key_f16 = true;
    check_attention(c);
    c.position = 0;
    c.splits = 1;
    c.n = 33;
    check_attention(c);
}

static void vulkan_attention_odd_shapes(void **state)
{
    (void)state;
    /* one head per group; three heads share a key; a head size that is no power of two */
    check_attention(
        (attn_case){ .hq = 2, .hkv = 2, .d = 64, .rot = 64, .position = 9, .n = 1, .splits = 8 });
    check_attention(
        (attn_case){ .hq = 6, .hkv = 2, .d = 48, .rot = 20, .position = 65, .n = 1, .splits = 2 });
    check_attention((attn_case){ .hq = 9,
                                 .hkv = 1,
                                 .d = 32,
                                 .rot = 2,
                                 .position = 5,
                                 .n = 1,
                                 .splits = 1,
                                 .value_f16 = true });
}

/* The smallest teams in the widest subgroups need the most shared memory. Whether there is enough, the
 * validation layer says when the kernel is made; it does not run, since to compile it takes long.
 * Skipped without the layer; says nothing behind other tests in one process, which open without it. */
static void vulkan_attention_shared_memory(void **state)
{
    (void)state;
    setenv("RL_VULKAN_VALIDATE", "1", 1);
    rl_vk_ops *ops = &rl_test_gpu_begin()->ops;
    const uint32_t before = ops->subgroup;
    rl_error err;
    rl_vk_cache_types types = { .head_dim = 240 };
    rl_attn_push push = { .n_head = 4, .n_head_kv = 1, .splits = 1 };
    ops->subgroup = 128;
    rl_status status = rl_vk_op_attn(ops, &rl_test_gpu_begin()->cmd, 1, true, &types, &push, &err);
    ops->subgroup = before;
    assert_ok(status);
    rl_test_gpu_end(rl_test_gpu_begin());
}

/* What is broken has to show: a score that is not a number is not left out. */
static void vulkan_attention_damaged_key(void **state)
{
    (void)state;
    check_attention((attn_case){ .hq = 4,
                                 .hkv = 2,
                                 .d = 64,
                                 .rot = 16,
                                 .position = 70,
                                 .n = 1,
                                 .splits = 2,
                                 .damaged = true });
}

RL_TEST_MAIN(RL_TEST(vulkan, norm), RL_TEST(vulkan, delta_step_target_heads),
             RL_TEST(vulkan, delta_step_batches), RL_TEST(vulkan, delta_step_odd_shapes),
             RL_TEST(vulkan, attention_positions), RL_TEST(vulkan, attention_few_and_many),
             RL_TEST(vulkan, attention_target_heads), RL_TEST(vulkan, attention_batches),
             RL_TEST(vulkan, attention_odd_shapes), RL_TEST(vulkan, attention_shared_memory),
             RL_TEST(vulkan, attention_damaged_key))
#else
static void vulkan_mixer(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, mixer))
#endif
