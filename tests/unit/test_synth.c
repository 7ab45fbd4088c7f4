/* test_synth.c - synthetic models: the layout of the published file, bytes that only the seed
 * decides, codes that all occur. How such models behave when run: golden/test_synth_run.c. */
#include "support/test.h"

#include <math.h>
#include <unistd.h>

#include "base/bytes.h"
#include "model/summary.h"
#include "model/synth_internal.h"
#include "text/tokenizer.h"

/* ---- the published file ----------------------------------------------------------------------- */

/* Layers by number, as the table of the published file names them. */
static bool in_set_a(uint32_t i)
{
    return i <= 5 || (i >= 43 && i <= 47);
}

static bool in_set_b(uint32_t i)
{
    static const uint8_t between[] = { 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 41 };
    for (size_t k = 0; k < sizeof between; k++)
        if (between[k] == i) return true;
    return i <= 5 || i >= 42;
}

static bool is_attention(uint32_t i)
{
    return i % 4 == 3;
}

static bool is_recurrent(uint32_t i)
{
    return i % 4 != 3;
}

static bool not_set_a(uint32_t i)
{
    return !in_set_a(i);
}

static bool not_set_b(uint32_t i)
{
    return !in_set_b(i);
}

static bool is_any(uint32_t i)
{
    return i < 48;
}

/* In the order of the file: by name inside a layer. */
static const struct {
    const char *name, *type;
    uint64_t dims[3];
    uint32_t count;
    uint64_t bytes;
    bool (*layers)(uint32_t layer); /* NULL: not in a layer */
} published[] = {
    { "output.weight", "Q5_K", { 2048, 151936, 1 }, 1, 213925888, NULL },
    { "output_norm.weight", "F32", { 2048, 1, 1 }, 1, 8192, NULL },
    { "token_embd.weight", "Q2_K", { 2048, 151936, 1 }, 1, 102100992, NULL },
    { "attn_gate.weight", "IQ2_XXS", { 2048, 4096, 1 }, 36, 2162688, is_recurrent },
    { "attn_k.weight", "Q4_K", { 2048, 512, 1 }, 12, 589824, is_attention },
    { "attn_k_norm.weight", "F32", { 256, 1, 1 }, 12, 1024, is_attention },
    { "attn_norm.weight", "F32", { 2048, 1, 1 }, 48, 8192, is_any },
    { "attn_output.weight", "Q4_K", { 4096, 2048, 1 }, 12, 4718592, is_attention },
    { "attn_q.weight", "IQ2_XXS", { 2048, 8192, 1 }, 12, 4325376, is_attention },
    { "attn_q_norm.weight", "F32", { 256, 1, 1 }, 12, 1024, is_attention },
    { "attn_qkv.weight", "IQ2_XXS", { 2048, 8192, 1 }, 36, 4325376, is_recurrent },
    { "attn_v.weight", "Q4_K", { 2048, 512, 1 }, 12, 589824, is_attention },
    { "ffn_down_exps.weight", "IQ2_XS", { 512, 2048, 512 }, 11, 155189248, in_set_a },
    { "ffn_down_exps.weight", "IQ1_M", { 512, 2048, 512 }, 37, 117440512, not_set_a },
    { "ffn_down_shexp.weight", "Q6_K", { 512, 2048, 1 }, 24, 860160, in_set_b },
    { "ffn_down_shexp.weight", "IQ2_XXS", { 512, 2048, 1 }, 24, 270336, not_set_b },
    { "ffn_gate_exps.weight", "IQ2_XS", { 2048, 512, 512 }, 11, 155189248, in_set_a },
    { "ffn_gate_exps.weight", "IQ1_M", { 2048, 512, 512 }, 37, 117440512, not_set_a },
    { "ffn_gate_inp.weight", "F32", { 2048, 512, 1 }, 48, 4194304, is_any },
    { "ffn_gate_inp_shexp.weight", "F32", { 2048, 1, 1 }, 48, 8192, is_any },
    { "ffn_gate_shexp.weight", "Q6_K", { 2048, 512, 1 }, 24, 860160, in_set_b },
    { "ffn_gate_shexp.weight", "IQ2_XXS", { 2048, 512, 1 }, 24, 270336, not_set_b },
    { "ffn_up_exps.weight", "IQ2_XS", { 2048, 512, 512 }, 11, 155189248, in_set_a },
    { "ffn_up_exps.weight", "IQ1_M", { 2048, 512, 512 }, 37, 117440512, not_set_a },
    { "ffn_up_shexp.weight", "Q6_K", { 2048, 512, 1 }, 24, 860160, in_set_b },
    { "ffn_up_shexp.weight", "IQ2_XXS", { 2048, 512, 1 }, 24, 270336, not_set_b },
    { "post_attention_norm.weight", "F32", { 2048, 1, 1 }, 48, 8192, is_any },
    { "ssm_a", "F32", { 32, 1, 1 }, 36, 128, is_recurrent },
    { "ssm_ba.weight", "Q8_0", { 2048, 64, 1 }, 36, 139264, is_recurrent },
    { "ssm_conv1d.weight", "F32", { 4, 8192, 1 }, 36, 131072, is_recurrent },
    { "ssm_dt.bias", "F32", { 32, 1, 1 }, 36, 128, is_recurrent },
    { "ssm_norm.weight", "F32", { 128, 1, 1 }, 36, 512, is_recurrent },
    { "ssm_out.weight", "Q4_K", { 4096, 2048, 1 }, 36, 4718592, is_recurrent },
};

typedef struct expected {
    int layer; /* -1: the first three */
    size_t row;
    uint64_t offset, n;
    uint32_t counts[RL_COUNT_OF(published)];
} expected;

/* The next row of the table that has a tensor in the layer at hand; layer by layer. */
static void advance(expected *e)
{
    for (;; e->row++) {
        if (e->row == RL_COUNT_OF(published)) {
            e->row = 0;
            e->layer++;
        }
        if (e->layer < 0 && !published[e->row].layers) return;
        if (e->layer >= 0 && published[e->row].layers &&
            published[e->row].layers((uint32_t)e->layer))
            return;
    }
}

static void compare_tensor(void *context, const rl_gguf_tensor *t)
{
    expected *e = context;
    char name[64];
    advance(e);
    if (e->layer < 0)
        snprintf(name, sizeof name, "%s", published[e->row].name);
    else
        snprintf(name, sizeof name, "blk.%d.%s", e->layer, published[e->row].name);
    assert_string_equal(t->name, name);
    assert_string_equal(rl_gguf_tensor_type_name(t), published[e->row].type);
    assert_memory_equal(t->dims, published[e->row].dims, sizeof published[0].dims);
    assert_int_equal(t->bytes, published[e->row].bytes);
    assert_int_equal(t->offset, e->offset);
    e->offset = (e->offset + t->bytes + 31) / 32 * 32;
    e->counts[e->row]++;
    e->n++;
    e->row++;
}

/* Names, order, types, shapes and data offsets of the published 80B file. */
static void synth_lists_the_published_file(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_synth_params params;
    expected e = { .layer = -1 };
    assert_true(rl_synth_preset("qwen3-next-80b-iq2_xxs", &params));
    assert_ok(rl_synth_list(&params, compare_tensor, &e, &err));
    assert_int_equal(e.n, 843);
    assert_int_equal(e.offset, 19292986368);
    for (size_t i = 0; i < RL_COUNT_OF(published); i++)
        assert_int_equal(e.counts[i], published[i].count);
}

static void add_bytes(void *context, const rl_gguf_tensor *t)
{
    *(uint64_t *)context += t->bytes;
}

/* Totals of other published mixtures of the same model. */
static void synth_knows_other_mixtures(void **state)
{
    (void)state;
    static const struct {
        const char *mix;
        uint64_t bytes, mib; /* one of them */
    } mixes[] = {
        { "target", 19292986368, 0 },
        { "target-iq3_xxs", 31720723456, 0 },
        { "stock-iq2_xxs", 21191887872, 0 },
        { "stock-q2_k", 0, 27908 },
        { "q4_k_m", 0, 46237 },
    };
    for (size_t i = 0; i < RL_COUNT_OF(mixes); i++) {
        rl_error err = { "" };
        rl_synth_params params;
        uint64_t bytes = 0;
        assert_true(rl_synth_preset("qwen3-next-80b-iq2_xxs", &params));
        params.mix = mixes[i].mix;
        assert_ok(rl_synth_list(&params, add_bytes, &bytes, &err));
        if (mixes[i].bytes)
            assert_int_equal(bytes, mixes[i].bytes);
        else
            assert_int_equal(bytes >> 20, mixes[i].mib);
    }
}

/* ---- files ------------------------------------------------------------------------------------ */

static void synthesise(const rl_synth_params *params, const char *path)
{
    rl_error err = { "" };
    assert_ok(rl_synth_write(params, path, &err));
}

/* Equal seeds: equal bytes, whatever the number of threads. Another seed: other bytes everywhere. */
static void synth_depends_on_the_seed_alone(void **state)
{
    (void)state;
    rl_synth_params params;
    size_t n[3];
    unsigned char *data[3];
    assert_true(rl_synth_preset("tiny", &params));
    params.n_ff_expert = 2048; /* tensors of several tiles */
    for (int i = 0; i < 3; i++) {
        const char *path = rl_test_scratch("synth_seed_%d.gguf", i);
        params.seed = i == 2 ? 8 : 7;
        params.n_threads = i == 1 ? 3 : 1;
        synthesise(&params, path);
        data[i] = rl_test_read(path, &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_int_equal(n[0], n[2]);
    assert_memory_equal(data[0], data[1], n[0]);
    size_t same = 0;
    for (size_t i = n[0] / 2; i < n[0]; i++)
        same += data[0][i] == data[2][i];
    assert_true(same < n[0] / 2 / 50);
    for (int i = 0; i < 3; i++)
        free(data[i]);
}

/* What was written opens as a model, says what was asked for, and has a sound vocabulary. */
static void synth_files_open(void **state)
{
    (void)state;
    static const char *const mixes[] = { "target", "q4_k_m", "stock-iq2_xxs", "F16",
                                         "mxfp4",  "nvfp4",  "Q1_0",          "TQ1_0" };
    for (size_t i = 0; i < RL_COUNT_OF(mixes); i++) {
        rl_error err = { "" };
        rl_synth_params params;
        rl_gguf *gguf = NULL;
        rl_config c;
        rl_weights w;
        rl_tokenizer *tokenizer = NULL;
        const char *path = rl_test_scratch("synth_open.gguf");
        assert_true(rl_synth_preset("tiny", &params));
        params.mix = mixes[i];
        params.tied = i & 1;
        params.n_layer = 3;
        params.attention_interval = 2;
        params.n_vocab = 300;
        synthesise(&params, path);
        assert_ok(rl_gguf_open(&gguf, path, &err));
        assert_ok(rl_config_read(&c, gguf, &err));
        assert_ok(rl_weights_open(&w, gguf, &c, &err));
        assert_ok(rl_tokenizer_open(&tokenizer, gguf, &err));
        assert_int_equal(rl_tokenizer_n_tokens(tokenizer), 300);
        assert_int_equal(c.n_layer, 3);
        assert_true(c.recurrent[0] && !c.recurrent[1] && c.recurrent[2]);
        assert_int_equal(w.tied, params.tied);
        assert_int_equal(c.n_expert, params.n_expert);
        rl_tokenizer_close(tokenizer);
        rl_weights_close(&w);
        rl_gguf_close(gguf);
    }
}

static void synth_copies_a_vocabulary(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_synth_params params;
    rl_gguf *source = NULL, *copy = NULL;
    const char *path = rl_test_scratch("synth_vocab.gguf");
    const char *vocab = rl_test_fixture("models/tiny-s-Q8_0.gguf");
    assert_true(rl_synth_preset("tiny", &params));
    params.vocab = vocab;
    params.n_vocab = 0;
    synthesise(&params, path);
    assert_ok(rl_gguf_open(&source, vocab, &err));
    assert_ok(rl_gguf_open(&copy, path, &err));
    size_t n_copied = 0;
    for (uint64_t i = 0; i < rl_gguf_n_keys(source); i++) {
        rl_gguf_value a, b;
        const char *key = rl_gguf_key_at(source, i, &a);
        if (strncmp(key, "tokenizer.", 10)) continue;
        assert_true(rl_gguf_find(copy, key, &b));
        assert_true(a.type == b.type && a.count == b.count);
        n_copied++;
    }
    assert_true(n_copied >= 8);
    assert_int_equal(rl_gguf_find_tensor(copy, "token_embd.weight")->dims[1], 512);
    rl_gguf_close(source);
    rl_gguf_close(copy);
    params.n_vocab = 511;
    assert_int_equal(rl_synth_write(&params, path, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "512"));
}

static bool stop_early(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    assert_true(done <= total);
    return done < 500000;
}

static void synth_refuses_nonsense(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_synth_params good, p;
    const char *path = rl_test_scratch("synth_never.gguf");
    assert_false(rl_synth_preset("large", &good));
    assert_true(rl_synth_preset("tiny", &good));
#define REFUSED(change, word)                                                                      \
    p = good;                                                                                      \
    change;                                                                                        \
    assert_int_equal(rl_synth_write(&p, path, &err), RL_INVALID);                                  \
    assert_non_null(strstr(err.text, word))
    REFUSED(p.n_layer = 0, "layers");
    REFUSED(p.n_layer = 513, "layers");
    REFUSED(p.n_expert_used = 17, "experts per token");
    REFUSED(p.n_expert = 1025, "experts");
    REFUSED(p.n_head_kv = 3, "query heads");
    REFUSED(p.n_value_head = 3, "value heads");
    REFUSED(p.n_rot = 7, "rotated");
    REFUSED(p.n_rot = 66, "rotated");
    REFUSED(p.n_vocab = 258, "vocabulary");
    REFUSED(p.mix = "Q8_K", "Q8_K");
    REFUSED(p.mix = "quarter", "quarter");
    REFUSED(p.rms_eps = 0, "epsilon");
    p = good;
    p.progress = stop_early;
    assert_int_equal(rl_synth_write(&p, path, &err), RL_INTERRUPTED);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

/* For every type: the decoded weights have the wanted size, lie around zero, and every byte of the
 * block takes every value that the type allows. Stands against: kernels that are only ever tested
 * with a part of a codebook, and files whose numbers vanish or explode. */
static void synth_blocks_are_sane(void **state)
{
    (void)state;
    enum { BLOCKS = 20000 };
    for (uint32_t k = 0; k < rl_quant_count(); k++) {
        const rl_quant_info *info = rl_quant_at(k);
        if (info->type == RL_QUANT_Q8_K) continue;
        synth_fill fill = { .type = info->type, .shape = SYNTH_SPREAD, .a = 0.02 };
        uint32_t n = BLOCKS / (info->block >= 256 ? 8 : 1);
        unsigned char *blocks = malloc((size_t)n * info->block_bytes);
        float *weights = malloc((size_t)n * info->block * sizeof *weights);
        assert_true(blocks && weights);
        rl_synth_fill_init(&fill);
        rl_synth_fill_run(&fill, 3, blocks, n);
        rl_quant_decode(info, blocks, (size_t)n * info->block, weights);
        double sum = 0, squares = 0;
        for (size_t i = 0; i < (size_t)n * info->block; i++) {
            assert_true(isfinite(weights[i]));
            sum += weights[i];
            squares += (double)weights[i] * weights[i];
        }
        double count = (double)n * info->block, rms = sqrt(squares / count);
        bool coarse = info->type == RL_QUANT_NVFP4; /* its smallest scales are far apart */
        if (fabs(rms / 0.02 - 1) > (coarse ? 0.3 : 0.05) || fabs(sum / count) > 0.02 * rms)
            fail_msg("%s: rms %g, mean %g", info->name, rms, sum / count);
        free(blocks);
        free(weights);
    }
}

typedef struct seen {
    bool value[65536];
    uint32_t n;
} seen;

static void see(seen *s, uint32_t value)
{
    s->n += !s->value[value];
    s->value[value] = true;
}

/* Codes and group scales of the target's types, field by field. */
static void synth_every_code_occurs(void **state)
{
    (void)state;
    enum { N = 60000 };
    unsigned char *blocks = malloc((size_t)N * 256);
    seen *s = calloc(4, sizeof *s);
    assert_true(blocks && s);
#define FILL(t)                                                                                    \
    do {                                                                                           \
        synth_fill fill = { .type = t, .a = 0.02 };                                                \
        memset(s, 0, 4 * sizeof *s);                                                               \
        rl_synth_fill_init(&fill);                                                                 \
        rl_synth_fill_run(&fill, 9, blocks, N);                                                    \
    } while (0)
    FILL(RL_QUANT_IQ1_M);
    for (int i = 0; i < N; i++) {
        const rl_block_iq1_m *b = (const rl_block_iq1_m *)blocks + i;
        see(&s[0], b->qs[5] | (uint32_t)(b->qh[2] >> 4 & 15) << 8); /* index and shift of group 5 */
        see(&s[1], rl_load_u16(b->scales[1]) & 0xfff);
    }
    assert_true(s[0].n == 4096 && s[1].n == 4096);
    FILL(RL_QUANT_IQ2_XS);
    for (int i = 0; i < 30 * N; i++) {
        const rl_block_iq2_xs *b = (const rl_block_iq2_xs *)blocks + i / 30;
        see(&s[0], rl_load_u16(b->qs + 2 * (i % 30)));
        see(&s[1], b->scales[i % 8]);
    }
    assert_true(s[0].n == 65536 && s[1].n == 256);
    FILL(RL_QUANT_IQ2_XXS);
    for (int i = 0; i < N; i++) {
        const rl_block_iq2_xxs *b = (const rl_block_iq2_xxs *)blocks + i;
        see(&s[0], b->groups[0]);
        see(&s[1], rl_load_u16(b->groups + 6) >> 5); /* a sign index and the scale */
    }
    assert_true(s[0].n == 256 && s[1].n == 2048);
    FILL(RL_QUANT_Q4_K);
    for (int i = 0; i < N; i++) {
        const rl_block_q4_k *b = (const rl_block_q4_k *)blocks + i;
        uint32_t low = b->scales[1] & 63, high = (b->scales[9] & 15) | b->scales[1] >> 6 << 4;
        uint32_t low_min = b->scales[5] & 63, high_min = b->scales[9] >> 4 | b->scales[5] >> 6 << 4;
        see(&s[0], low | high << 8);
        see(&s[1], low_min | high_min << 8);
        see(&s[2], b->qs[77]);
        assert_int_equal(low >> 2, low_min >> 2);
        assert_int_equal(high >> 2, high_min >> 2);
        if (low != low_min) see(&s[3], low_min);
    }
    assert_true(s[0].n == 4096 && s[1].n == 4096 && s[2].n == 256 && s[3].n == 64);
    FILL(RL_QUANT_Q2_K);
    for (int i = 0; i < N; i++) {
        const rl_block_q2_k *b = (const rl_block_q2_k *)blocks + i;
        see(&s[0], b->scales[3] & 15);
        see(&s[1], b->scales[3] >> 4);
        see(&s[2], b->qs[63]);
    }
    assert_true(s[0].n == 16 && s[1].n == 16 && s[2].n == 256);
    FILL(RL_QUANT_Q6_K);
    for (int i = 0; i < N; i++) {
        const rl_block_q6_k *b = (const rl_block_q6_k *)blocks + i;
        see(&s[0], (uint8_t)b->scales[15]);
        see(&s[1], b->ql[0]);
        see(&s[2], b->qh[63]);
    }
    assert_true(s[0].n == 256 && s[1].n == 256 && s[2].n == 256);
    free(blocks);
    free(s);
}

RL_TEST_MAIN(RL_TEST(synth, lists_the_published_file), RL_TEST(synth, knows_other_mixtures),
             RL_TEST(synth, depends_on_the_seed_alone), RL_TEST(synth, files_open),
             RL_TEST(synth, copies_a_vocabulary), RL_TEST(synth, refuses_nonsense),
             RL_TEST(synth, blocks_are_sane), RL_TEST(synth, every_code_occurs))
