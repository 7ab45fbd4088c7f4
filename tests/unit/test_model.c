/* test_model.c - what the numbers of a file mean: hyper-parameters, names, shapes, totals. */
#include "support/test.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/summary.h"
#include "quant/quant.h"
#include "support/cases.h"
#include "support/remake.h"
#include "text/tokenizer.h"

typedef struct opened {
    rl_gguf *gguf;
    rl_config config;
    rl_weights weights;
} opened;

static rl_status open_model(opened *out, const char *path, rl_error *err)
{
    *out = (opened){ 0 };
    rl_status status = rl_gguf_open(&out->gguf, path, err);
    if (!status) status = rl_config_read(&out->config, out->gguf, err);
    if (!status) status = rl_weights_open(&out->weights, out->gguf, &out->config, err);
    return status;
}

static void close_model(opened *model)
{
    rl_weights_close(&model->weights);
    rl_gguf_close(model->gguf);
}

/* Everything that is looked at when a model is opened, in that order. */
static rl_status open_whole(opened *out, const char *path, rl_error *err)
{
    rl_tokenizer *tokenizer = NULL;
    rl_status status = open_model(out, path, err);
    if (!status) status = rl_tokenizer_open(&tokenizer, out->gguf, err);
    if (!status) assert_int_equal(rl_tokenizer_n_tokens(tokenizer), out->config.n_vocab);
    rl_tokenizer_close(tokenizer);
    return status;
}

/* Every case: refused with a sentence that names the fault, or opened, in any order in one process.
 * Stands against: a check that was forgotten, or one too many. */
static void model_decides_every_case(void **state)
{
    (void)state;
    size_t n;
    rl_test_case *cases = rl_test_cases(&n);
    for (size_t i = 0; i < n; i++) {
        const rl_test_case *one = &cases[i];
        rl_error err = { "" };
        opened model;
        rl_status status = open_whole(&model, rl_test_fixture("bad-gguf/%s", one->file), &err);
        if (one->loads != (status == RL_OK))
            fail_msg("%s: %s", one->file, status ? err.text : "opened");
        if (status && !rl_test_mentions(one, err.text))
            fail_msg("%s: vague: %s", one->file, err.text);
        close_model(&model);
    }
    free(cases);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* Whatever sizes a file claims, refusing it takes little memory and time.
 * Stands against: a buffer as large as a number in the file. */
static void model_refuses_in_little_memory(void **state)
{
    (void)state;
#ifdef SANITIZED
    rl_test_skip("sanitizers need more address space than this test allows");
#endif
    size_t n;
    rl_test_case *cases = rl_test_cases(&n);
    struct rlimit limit;
    unsigned long long pages = 0;
    FILE *usage = fopen("/proc/self/statm", "r");
    if (!usage || fscanf(usage, "%llu", &pages) != 1) rl_test_skip("no /proc/self/statm");
    fclose(usage);
    getrlimit(RLIMIT_AS, &limit);
    rlim_t before = limit.rlim_cur;
    for (size_t i = 0; i < n; i++) {
        const rl_test_case *one = &cases[i];
        rl_error err = { "" };
        opened model;
        if (one->loads) continue;
        limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (8 << 20);
        assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
        uint64_t start = rl_clock_ns();
        rl_status status = open_whole(&model, rl_test_fixture("bad-gguf/%s", one->file), &err);
        uint64_t took = rl_clock_ns() - start;
        limit.rlim_cur = before;
        setrlimit(RLIMIT_AS, &limit);
        assert_true(status != RL_OK && status != RL_NOMEM);
        assert_true(took < 1000000000);
        close_model(&model);
    }
    free(cases);
}

static void model_reads_a_small_one(void **state)
{
    (void)state;
    rl_error err = { "" };
    opened m;
    assert_ok(open_model(&m, rl_test_fixture("bad-gguf/good-base.gguf"), &err));
    assert_string_equal(m.config.architecture, "qwen3next");
    assert_int_equal(m.config.n_layer, 2);
    assert_true(m.config.recurrent[0] && !m.config.recurrent[1]);
    assert_int_equal(m.config.n_expert, 4);
    assert_int_equal(m.config.n_vocab, 260);
    assert_true(m.weights.tied && m.weights.head == m.weights.embedding);
    assert_non_null(m.weights.layers[0].qkv);
    assert_null(m.weights.layers[0].q);
    assert_non_null(m.weights.layers[1].q);
    assert_null(m.weights.layers[1].qkv);
    close_model(&m);
}

/* Every byte of the experts belongs to exactly one (layer, expert, matrix). */
static void model_slices_cover_the_experts(void **state)
{
    (void)state;
    rl_error err = { "" };
    opened m;
    assert_ok(open_model(&m, rl_test_fixture("bad-gguf/good-base.gguf"), &err));
    for (uint32_t l = 0; l < m.config.n_layer; l++) {
        const rl_weights_layer *layer = &m.weights.layers[l];
        const rl_gguf_tensor *tensors[3] = { layer->gate_exps, layer->up_exps, layer->down_exps };
        uint64_t next[3], sum = 0;
        for (int k = 0; k < 3; k++)
            next[k] = tensors[k]->offset;
        for (uint32_t e = 0; e < m.config.n_expert; e++) {
            rl_slice slices[RL_EXPERT_MATRICES];
            rl_weights_expert(&m.weights, l, e, slices);
            for (int k = 0; k < 3; k++) {
                assert_int_equal(slices[k].offset, next[k]);
                assert_int_equal(slices[k].part, tensors[k]->part);
                next[k] += slices[k].bytes;
                sum += slices[k].bytes;
            }
        }
        for (int k = 0; k < 3; k++)
            assert_int_equal(next[k], tensors[k]->offset + tensors[k]->bytes);
        assert_int_equal(sum, layer->expert_bytes * m.config.n_expert);
    }
    close_model(&m);
}

/* The legacy rows are a permutation: each source row goes to one target row of qkv or gate. */
static void model_legacy_runs_are_a_permutation(void **state)
{
    (void)state;
    static const rl_config shapes[] = {
        { .n_key_head = 2, .n_value_head = 4, .delta_dim = 32 },
        { .n_key_head = 16, .n_value_head = 32, .delta_dim = 128 },
        { .n_key_head = 3, .n_value_head = 3, .delta_dim = 5 },
    };
    for (size_t s = 0; s < RL_COUNT_OF(shapes); s++) {
        const rl_config *c = &shapes[s];
        uint32_t qkv_rows = rl_config_conv_channels(c), gate_rows = rl_config_value_width(c);
        uint8_t *source = calloc(qkv_rows + gate_rows, 1),
                *target = calloc(qkv_rows + gate_rows, 1);
        rl_row_run runs[48];
        assert_true(source && target);
        for (int half = 0; half < 2; half++) {
            uint32_t n = half ? rl_weights_gate_runs(c, runs) : rl_weights_qkv_runs(c, runs);
            for (uint32_t i = 0; i < n; i++)
                for (uint32_t row = 0; row < runs[i].rows; row++) {
                    assert_true(runs[i].target + row < (half ? gate_rows : qkv_rows));
                    source[runs[i].source + row]++;
                    target[(half ? qkv_rows : 0) + runs[i].target + row]++;
                }
        }
        for (uint32_t i = 0; i < qkv_rows + gate_rows; i++)
            assert_true(source[i] == 1 && target[i] == 1);
        free(source);
        free(target);
    }
    /* Key head 1 of the first shape starts at row 192: q, k, two v heads, two z heads. */
    rl_row_run runs[6];
    assert_int_equal(rl_weights_qkv_runs(&shapes[0], runs), 6);
    assert_true(runs[3].source == 192 && runs[3].target == 32 && runs[3].rows == 32);
    assert_true(runs[4].source == 224 && runs[4].target == 96);
    assert_true(runs[5].source == 256 && runs[5].target == 192 && runs[5].rows == 64);
}

static void model_summary_adds_up(void **state)
{
    (void)state;
    rl_error err = { "" };
    opened m;
    static rl_summary s;
    assert_ok(open_model(&m, rl_test_fixture("bad-gguf/good-untied-output.gguf"), &err));
    rl_summary_make(&s, &m.weights);
    uint64_t bytes = 0, tensors = 0, layers = 0;
    for (uint32_t i = 0; i < s.n_types; i++) {
        bytes += s.types[i].bytes;
        tensors += s.types[i].n_tensors;
    }
    for (uint32_t i = 0; i < s.n_classes; i++)
        layers += s.classes[i].n_layers;
    assert_int_equal(bytes, s.tensor_bytes);
    assert_int_equal(tensors, s.n_tensors);
    assert_int_equal(layers, m.config.n_layer);
    assert_int_equal(s.other_bytes, 0);
    assert_int_equal(s.expert_bytes + s.dense_bytes + s.embedding_bytes, s.tensor_bytes);
    assert_int_equal(s.embedding_bytes, m.weights.embedding->bytes);
    close_model(&m);
}

/* ---- rules 15 to 19, one change each --------------------------------------------------------- */

typedef struct rule {
    rl_test_change change[1];
    const char *word; /* in the sentence; NULL: the file must still open */
} rule;

#define SET(key, value)                                                                            \
    {                                                                                              \
        .kind = RL_TEST_SET_U32, .name = key, .number = value                                      \
    }
#define REAL(key, value)                                                                           \
    {                                                                                              \
        .kind = RL_TEST_SET_F32, .name = key, .real = value                                        \
    }
#define DROP(key)                                                                                  \
    {                                                                                              \
        .kind = RL_TEST_DROP_KEY, .name = key                                                      \
    }

static const rule rules[] = {
    { { { RL_TEST_SET_TEXT, "general.architecture", .text = "qwen35moe" } }, "qwen35moe" },
    { { SET("general.architecture", 3) }, "general.architecture" },
    { { SET("general.quantization_version", 3) }, "general.quantization_version" },
    { { SET("general.quantization_version", 2) }, NULL },
    { { SET(".block_count", 0) }, "block_count" },
    { { SET(".block_count", 513) }, "block_count" },
    { { SET(".block_count", 3) }, "blk.2" },
    { { { RL_TEST_SET_U64, ".block_count", .number = 2 } }, NULL },
    { { { RL_TEST_SET_I32, ".block_count", .number = UINT64_MAX } }, "negative" },
    { { REAL(".block_count", 2) }, "block_count" },
    { { SET(".nextn_predict_layers", 2) }, "nextn_predict_layers" },
    { { SET(".nextn_predict_layers", 0) }, NULL },
    { { SET(".context_length", 0) }, "context_length" },
    { { DROP(".context_length") }, "context_length" },
    { { SET(".embedding_length", 0) }, "embedding_length" },
    { { SET(".embedding_length", 16) }, "shape" },
    { { SET(".expert_count", 0) }, "expert_count" },
    { { SET(".expert_count", 1025) }, "expert_count" },
    { { SET(".expert_used_count", 33) }, "expert_used_count" },
    { { DROP(".expert_feed_forward_length") }, NULL },
    { { DROP(".expert_shared_feed_forward_length") }, NULL },
    { { SET(".expert_feed_forward_length", 0) }, "expert_feed_forward_length" },
    { { SET(".attention.head_count_kv", 0) }, "head_count_kv" },
    { { REAL(".attention.layer_norm_rms_epsilon", 0) }, "layer_norm_rms_epsilon" },
    { { REAL(".attention.layer_norm_rms_epsilon", -1) }, "layer_norm_rms_epsilon" },
    { { REAL(".attention.layer_norm_rms_epsilon", (double)NAN) }, "layer_norm_rms_epsilon" },
    { { REAL(".attention.layer_norm_rms_epsilon", (double)INFINITY) }, "layer_norm_rms_epsilon" },
    { { DROP(".attention.layer_norm_rms_epsilon") }, "layer_norm_rms_epsilon" },
    { { DROP(".rope.freq_base") }, "rope.freq_base" },
    { { SET(".rope.dimension_count", 1) }, "rope.dimension_count" },
    { { SET(".rope.dimension_count", 3) }, "rope.dimension_count" },
    { { SET(".rope.dimension_count", 1000) }, "rope.dimension_count" },
    { { REAL(".rope.scaling.factor", 4) }, "rope.scaling.factor" },
    { { { RL_TEST_SET_TEXT, ".rope.scaling.type", .text = "yarn" } }, "rope.scaling.type" },
    { { { RL_TEST_SET_TEXT, ".rope.scaling.type", .text = "none" } }, NULL },
    { { SET(".ssm.conv_kernel", 0) }, "ssm.conv_kernel" },
    { { SET(".ssm.inner_size", 17) }, "ssm.inner_size" },
    { { DROP(".ssm.inner_size") }, "ssm.inner_size" },
    { { SET(".ssm.group_count", 0) }, "ssm.group_count" },
    { { SET(".ssm.group_count", 3) }, "ssm.time_step_rank" },
    { { SET(".ssm.time_step_rank", 1u << 20) }, "ssm" },
    { { SET(".full_attention_interval", 0) }, "full_attention_interval" },
    { { SET(".full_attention_interval", 1) }, "full_attention_interval" },
    { { DROP(".full_attention_interval") }, NULL }, /* the tensors know */
    { { { RL_TEST_SET_BOOLS, ".attention.recurrent_layers", .number = 1, .count = 2, .at = 1 } },
      NULL },
    { { { RL_TEST_SET_BOOLS, ".attention.recurrent_layers", .number = 1, .count = 2, .at = 0 } },
      "recurrent_layers" },
    { { { RL_TEST_SET_BOOLS, ".attention.recurrent_layers", .number = 1, .count = 1 } },
      "recurrent_layers" },
    { { SET(".attention.recurrent_layers", 1) }, "recurrent_layers" },
    { { { RL_TEST_SET_I32S, ".attention.head_count_kv", .number = 1, .count = 1 } },
      "head_count_kv" },
    { { { RL_TEST_SET_I32S, ".attention.head_count_kv", .number = 0, .count = 2 } },
      "head_count_kv" },
    { { SET(".vocab_size", 260) }, NULL },
    { { SET(".vocab_size", 261) }, "vocab_size" },
    { { { .kind = RL_TEST_DROP_TENSOR, .name = "token_embd.weight" } }, "token_embd.weight" },
    { { { .kind = RL_TEST_DROP_TENSOR, .name = "output_norm.weight" } }, "output_norm.weight" },
    { { { .kind = RL_TEST_DROP_TENSOR, .name = "blk.0.ssm_a" } }, "blk.0.ssm_a" },
    { { { .kind = RL_TEST_DROP_TENSOR, .name = "blk.0.attn_qkv.weight" } },
      "blk.0.attn_qkv.weight" },
    { { { RL_TEST_ADD_TENSOR, "blk.0.ssm_in.weight", .dims = { 8, 8 } } }, "blk.0.ssm_in.weight" },
    { { { RL_TEST_ADD_TENSOR, "blk.1.ssm_out.weight", .dims = { 8, 8 } } }, "ssm_out" },
    { { { RL_TEST_ADD_TENSOR, "blk.1.attn_q.bias", .dims = { 8 } } }, "blk.1.attn_q.bias" },
    { { { RL_TEST_ADD_TENSOR, "blk.0.ffn_up_exps.scale", .dims = { 4 } } },
      "blk.0.ffn_up_exps.scale" },
    { { { RL_TEST_ADD_TENSOR, "rope_freqs.weight", .dims = { 4 } } }, "rope_freqs.weight" },
    { { { RL_TEST_ADD_TENSOR, "blk.0.something.else", .dims = { 4 } } }, NULL },
    { { { RL_TEST_ADD_TENSOR, "blk.7.attn_q.bias", .dims = { 4 } } }, NULL }, /* no such layer */
    { { { RL_TEST_RESHAPE, "blk.0.ffn_gate_inp_shexp.weight", .dims = { 8, 1 } } }, NULL },
    { { { RL_TEST_RESHAPE, "blk.0.ffn_gate_inp_shexp.weight", .dims = { 8, 2 } } },
      "blk.0.ffn_gate_inp_shexp.weight" },
    { { { RL_TEST_RESHAPE, "output_norm.weight", .dims = { 9 } } }, "{9}" },
    { { { RL_TEST_RESHAPE, "output_norm.weight", .number = RL_QUANT_F16, .dims = { 8 } } }, NULL },
};

/* Stands against: a hyper-parameter that is divided by, multiplied or indexed with unchecked. */
static void model_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < RL_COUNT_OF(rules); i++) {
        const rule *r = &rules[i];
        rl_error err = { "" };
        opened model;
        const char *path = rl_test_scratch("model_rule.gguf");
        rl_test_edit(rl_test_fixture("bad-gguf/good-base.gguf"), path, r->change, 1);
        rl_status status = open_model(&model, path, &err);
        if ((status == RL_OK) != !r->word)
            fail_msg("rule %zu (%s): %s", i, r->change[0].name, status ? err.text : "opened");
        if (status && (!strstr(err.text, r->word) || !strstr(err.text, path)))
            fail_msg("rule %zu: vague: %s", i, err.text);
        close_model(&model);
    }
}

/* Gate and up in one tensor: the slices follow each other, gate first. */
static void model_fused_gate_up(void **state)
{
    (void)state;
    static const rl_test_change changes[] = {
        { .kind = RL_TEST_DROP_TENSOR, .name = "blk.1.ffn_gate_exps.weight" },
        { .kind = RL_TEST_DROP_TENSOR, .name = "blk.1.ffn_up_exps.weight" },
        { RL_TEST_ADD_TENSOR, "blk.1.ffn_gate_up_exps.weight", RL_QUANT_F16, .dims = { 8, 8, 4 } },
    };
    rl_error err = { "" };
    opened m;
    const char *path = rl_test_scratch("model_fused.gguf");
    rl_test_edit(rl_test_fixture("bad-gguf/good-base.gguf"), path, changes, 3);
    assert_ok(open_model(&m, path, &err));
    rl_slice slices[RL_EXPERT_MATRICES];
    const rl_weights_layer *layer = &m.weights.layers[1];
    assert_true(layer->gate_up_exps && !layer->gate_exps && !layer->up_exps);
    assert_int_equal(layer->expert_bytes, m.weights.layers[0].expert_bytes);
    rl_weights_expert(&m.weights, 1, 3, slices);
    assert_int_equal(slices[RL_EXPERT_GATE].offset, layer->gate_up_exps->offset + 3 * 8 * 8 * 2);
    assert_int_equal(slices[RL_EXPERT_UP].offset, slices[RL_EXPERT_GATE].offset + 4 * 8 * 2);
    assert_int_equal(rl_weights_expert_type(layer, RL_EXPERT_UP), RL_QUANT_F16);
    close_model(&m);
}

/* A per-layer list of head counts: only attention layers count, and they must agree. */
static void model_heads_per_layer(void **state)
{
    (void)state;
    rl_test_change change = { RL_TEST_SET_I32S, ".attention.head_count_kv", .count = 2, .at = 1 };
    rl_error err = { "" };
    opened m;
    assert_ok(open_model(&m, rl_test_fixture("bad-gguf/good-base.gguf"), &err));
    change.other = (int32_t)m.config.n_head_kv; /* layer 0 is recurrent and says 0 */
    close_model(&m);
    const char *path = rl_test_scratch("model_heads.gguf");
    rl_test_edit(rl_test_fixture("bad-gguf/good-base.gguf"), path, &change, 1);
    assert_ok(open_model(&m, path, &err));
    assert_int_equal(m.config.n_head_kv, change.other);
    close_model(&m);
}

RL_TEST_MAIN(RL_TEST(model, rules), RL_TEST(model, fused_gate_up), RL_TEST(model, heads_per_layer),
             RL_TEST(model, decides_every_case), RL_TEST(model, refuses_in_little_memory),
             RL_TEST(model, reads_a_small_one), RL_TEST(model, slices_cover_the_experts),
             RL_TEST(model, legacy_runs_are_a_permutation), RL_TEST(model, summary_adds_up))
