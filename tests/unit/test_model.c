/* test_model.c - what the numbers of a file mean: hyper-parameters, names, shapes, totals. */
#include "support/test.h"

#include "base/bytes.h"
#include "model/summary.h"
#include "support/cases.h"

/* Files whose only fault is in the vocabulary: text/ finds it. */
static const char *const beyond_model[] = {
    "token-types-short.gguf", "token-invalid-utf8.gguf", "merge-without-space.gguf",
    "eos-out-of-range.gguf",  "tokenizer-unknown.gguf",
};

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

/* Stands against: a check of the hyper-parameters or shapes that was forgotten, or one too many. */
static void model_decides_every_case(void **state)
{
    (void)state;
    size_t n;
    rl_test_case *cases = rl_test_cases(&n);
    for (size_t i = 0; i < n; i++) {
        const rl_test_case *one = &cases[i];
        rl_error err = { "" };
        opened model;
        bool expected = one->loads;
        for (size_t k = 0; k < RL_COUNT_OF(beyond_model); k++)
            expected |= !strcmp(one->file, beyond_model[k]);
        rl_status status = open_model(&model, rl_test_fixture("bad-gguf/%s", one->file), &err);
        if (expected != (status == RL_OK))
            fail_msg("%s: %s", one->file, status ? err.text : "opened");
        if (status && !rl_test_mentions(one, err.text))
            fail_msg("%s: vague: %s", one->file, err.text);
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

RL_TEST_MAIN(RL_TEST(model, decides_every_case), RL_TEST(model, reads_a_small_one),
             RL_TEST(model, slices_cover_the_experts),
             RL_TEST(model, legacy_runs_are_a_permutation), RL_TEST(model, summary_adds_up))
