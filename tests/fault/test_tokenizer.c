/* test_tokenizer.c - the tokenizer when the n-th allocation or read fails, for every n. */
#include "support/fault.h"
#include "support/test.h"

#include "support/vocabulary.h"

static const char *small_vocabulary(const char *name)
{
    const char *path = rl_test_scratch("fault_%s.gguf", name);
    rl_test_vocabulary v;
    rl_test_vocabulary_init(&v);
    assert_true(rl_test_vocabulary_write(&v, path));
    rl_test_vocabulary_fini(&v);
    return path;
}

/* File and tokenizer together.
 * Stands against: a part left behind by an open that failed half way. */
static void tokenizer_open_survives_any_fault(void **state)
{
    (void)state;
    const char *path = small_vocabulary("open");
    int64_t live = rl_fault_live();
    bool fired = true;
    uint64_t n = 0;
    for (; fired; n++) {
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        rl_tokenizer *tokenizer = NULL;
        rl_fault_arm(n);
        rl_status status = rl_gguf_open(&gguf, path, &err);
        if (!status) status = rl_tokenizer_open(&tokenizer, gguf, &err);
        fired = rl_fault_disarm();
        if (fired && status) {
            assert_true(status == RL_NOMEM || status == RL_IO);
            assert_true(err.text[0] != 0);
            assert_null(tokenizer);
        } else {
            /* Only machine code for the pattern can be done without. */
            assert_int_equal(status, RL_OK);
            assert_non_null(tokenizer);
        }
        rl_tokenizer_close(tokenizer);
        rl_gguf_close(gguf);
        assert_int_equal(rl_fault_live(), live);
    }
    assert_true(n > 15);
}

/* Text that takes every way: special tokens, bytes to repair, marks to compose, a long piece.
 * Stands against: ids of half a text, and lost working storage. */
static void tokenizer_encode_survives_any_fault(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = rl_test_tokenizer(small_vocabulary("encode"));
    char text[3000];
    memset(text, 'a', sizeof text);
    memcpy(text, "<|im|> e\u0301 \xff</think> 12", 22);
    memcpy(text + 2000, "!\n \u1100\u1161", 9);
    for (int i = 0; i < 300; i++)
        memcpy(text + 2100 + 2 * i, "\u0301", 2);
    const uint32_t flags = RL_ENCODE_SPECIAL | RL_ENCODE_REPLACE;
    rl_error err = { "" };
    rl_tokens whole = { 0 };
    assert_ok(rl_tokenizer_encode(tokenizer, text, sizeof text, flags, &whole, &err));
    int64_t live = rl_fault_live();
    bool fired = true;
    uint64_t n = 0;
    for (; fired; n++) {
        rl_tokens ids = { 0 };
        err.text[0] = 0;
        rl_fault_arm(n);
        rl_status status = rl_tokenizer_encode(tokenizer, text, sizeof text, flags, &ids, &err);
        fired = rl_fault_disarm();
        if (fired) {
            assert_int_equal(status, RL_NOMEM);
            assert_true(err.text[0] != 0);
            assert_int_equal(ids.n, 0);
        } else {
            assert_int_equal(status, RL_OK);
            assert_int_equal(ids.n, whole.n);
            assert_memory_equal(ids.ids, whole.ids, ids.n * sizeof *ids.ids);
        }
        rl_tokens_fini(&ids);
        assert_int_equal(rl_fault_live(), live);
    }
    assert_true(n > 15);
    rl_tokens_fini(&whole);
    rl_tokenizer_close(tokenizer);
}

static void tokenizer_decode_survives_any_fault(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = rl_test_tokenizer(small_vocabulary("decode"));
    uint32_t ids[300];
    for (uint32_t i = 0; i < 300; i++)
        ids[i] = 'a' + i % 26;
    int64_t live = rl_fault_live();
    bool fired = true;
    for (uint64_t n = 0; fired; n++) {
        rl_error err = { "" };
        rl_text_buffer out = { 0 };
        rl_fault_arm(n);
        rl_status status = rl_tokenizer_decode(tokenizer, ids, 300, 0, &out, &err);
        fired = rl_fault_disarm();
        assert_int_equal(status, fired ? RL_NOMEM : RL_OK);
        assert_int_equal(out.bytes, fired ? 0 : 300);
        rl_text_buffer_fini(&out);
        assert_int_equal(rl_fault_live(), live);
    }
    rl_tokenizer_close(tokenizer);
}

RL_TEST_MAIN(RL_TEST(tokenizer, open_survives_any_fault),
             RL_TEST(tokenizer, encode_survives_any_fault),
             RL_TEST(tokenizer, decode_survives_any_fault))
