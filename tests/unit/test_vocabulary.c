/* test_vocabulary.c - what a tokenizer refuses to open, and the sentence it gives. */
#include "support/test.h"

#include <unistd.h>

#include "base/bytes.h"
#include "support/cases.h"
#include "support/vocabulary.h"
#include "text/special_set.h"

/* Writes v, opens it, and expects a failure whose sentence names the file and all of `words`. */
static void expect_refusal(const rl_test_vocabulary *v, rl_status expected,
                           const char *const *words)
{
    const char *path = rl_test_scratch("vocabulary_refused_%ld.gguf", (long)getpid());
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    rl_tokenizer *tokenizer = NULL;
    assert_true(rl_test_vocabulary_write(v, path));
    assert_ok(rl_gguf_open(&gguf, path, &err));
    rl_status status = rl_tokenizer_open(&tokenizer, gguf, &err);
    if (status != expected)
        fail_msg("%s: %s instead of %s", words[0], rl_status_name(status),
                 rl_status_name(expected));
    assert_null(tokenizer);
    assert_non_null(strstr(err.text, path));
    assert_null(strchr(err.text, '\n'));
    for (; *words; words++)
        if (!strstr(err.text, *words)) fail_msg("no \"%s\" in: %s", *words, err.text);
    rl_gguf_close(gguf);
    remove(path);
}

#define REFUSED(v, status, ...) expect_refusal(&(v), status, (const char *[]){ __VA_ARGS__, NULL })

/* One spoilt vocabulary per line: a fresh one as `v`, what is done to it, what must be said. */
#define CASE(spoil, status, ...)                                                                   \
    do {                                                                                           \
        rl_test_vocabulary v;                                                                      \
        rl_test_vocabulary_init(&v);                                                               \
        spoil;                                                                                     \
        REFUSED(v, status, __VA_ARGS__);                                                           \
        rl_test_vocabulary_fini(&v);                                                               \
    } while (0)

static void vocabulary_opens_when_nothing_is_wrong(void **state)
{
    (void)state;
    rl_error err = { "" };
    const char *path = rl_test_scratch("vocabulary_good.gguf");
    for (int round = 0; round < 3; round++) {
        rl_test_vocabulary v;
        rl_test_vocabulary_init(&v);
        if (round == 1) v.no_merges = true;
        if (round == 2) v.id_key = NULL;
        assert_true(rl_test_vocabulary_write(&v, path));
        rl_tokenizer *tokenizer = rl_test_tokenizer(path);
        rl_tokens ids = { 0 };
        assert_ok(rl_tokenizer_encode(tokenizer, "aab", 3, 0, &ids, &err));
        assert_int_equal(ids.n, round == 1 ? 3 : 1);
        size_t n;
        rl_tokenizer_stops(tokenizer, &n);
        assert_int_equal(n, 2);
        rl_tokens_fini(&ids);
        rl_tokenizer_close(tokenizer);
        rl_test_vocabulary_fini(&v);
    }
    rl_tokenizer_close(NULL);
}

static void vocabulary_refuses_other_tokenizers(void **state)
{
    (void)state;
    CASE(v.model = NULL, RL_FORMAT, "tokenizer.ggml.model", "missing");
    CASE(v.model = "llama", RL_UNSUPPORTED, "tokenizer.ggml.model", "llama");
    CASE(v.model = "gpt22", RL_UNSUPPORTED, "tokenizer.ggml.model", "gpt22");
    CASE(v.pre = NULL, RL_FORMAT, "tokenizer.ggml.pre", "missing");
    CASE(v.pre = "llama-bpe", RL_UNSUPPORTED, "tokenizer.ggml.pre", "llama-bpe", "qwen2");
}

static void vocabulary_refuses_bad_lists(void **state)
{
    (void)state;
    CASE(v.no_tokens = true, RL_FORMAT, "tokenizer.ggml.tokens", "missing");
    CASE(v.no_types = true, RL_FORMAT, "tokenizer.ggml.token_type", "missing");
    CASE(v.types_are_strings = true, RL_FORMAT, "tokenizer.ggml.token_type", "integers");
    CASE(v.n_types--, RL_FORMAT, "tokenizer.ggml.token_type", "284", "285");
    CASE(v.types[7] = 0, RL_FORMAT, "tokenizer.ggml.token_type[7]", " 0");
    CASE(v.types[7] = 6, RL_FORMAT, "tokenizer.ggml.token_type[7]", " 6");
    CASE(v.types[7] = -1, RL_FORMAT, "tokenizer.ggml.token_type[7]", " -1");
    CASE((rl_test_vocabulary_fini(&v), v.model = "gpt2", v.pre = "qwen2", v.id = 0), RL_FORMAT,
         "tokenizer.ggml.tokens", "byte 0x");
}

static void vocabulary_refuses_bad_tokens(void **state)
{
    (void)state;
    CASE(rl_test_vocabulary_set(&v.tokens[256], "\xff\xfe", 2), RL_FORMAT,
         "tokenizer.ggml.tokens[256]", "UTF-8");
    CASE(rl_test_vocabulary_set(&v.tokens[284], "\xc3", 1), RL_FORMAT, "tokenizer.ggml.tokens[284]",
         "UTF-8");
    CASE(rl_test_vocabulary_set(&v.tokens[257], "a\u4f60", 4), RL_FORMAT,
         "tokenizer.ggml.tokens[257]", "U+4F60");
    CASE(rl_test_vocabulary_set(&v.tokens[257], "a b", 3), RL_FORMAT, "tokenizer.ggml.tokens[257]",
         "U+0020");
    CASE(rl_test_vocabulary_set(&v.tokens[257], "\u0144", 2), RL_FORMAT,
         "tokenizer.ggml.tokens[257]", "U+0144");
    CASE(rl_test_vocabulary_set(&v.tokens[258], "", 0), RL_FORMAT, "tokenizer.ggml.tokens[258]",
         "empty");
    CASE(rl_test_vocabulary_set(&v.tokens[281], "", 0), RL_FORMAT, "tokenizer.ggml.tokens[281]",
         "empty");
    CASE(rl_test_vocabulary_add(&v, "aab", RL_TOKEN_NORMAL), RL_FORMAT,
         "tokenizer.ggml.tokens[285]", "duplicate", "265");
    CASE(rl_test_vocabulary_add(&v, "<|im|>", RL_TOKEN_USER_DEFINED), RL_FORMAT,
         "tokenizer.ggml.tokens[285]", "<|im|>", "duplicate", "279");
    CASE(rl_test_vocabulary_set(&v.tokens[0x80], "zzzzz", 5), RL_FORMAT, "tokenizer.ggml.tokens",
         "byte 0x80");
    CASE(v.types['q'] = RL_TOKEN_CONTROL, RL_FORMAT, "tokenizer.ggml.tokens", "byte 0x71");
    enum { TOO_LONG = RL_SPECIAL_MAX_BYTES + 1 };
    char *text = malloc(TOO_LONG);
    assert_non_null(text);
    memset(text, 'x', TOO_LONG);
    CASE(rl_test_vocabulary_set(&v.tokens[280], text, TOO_LONG), RL_FORMAT,
         "tokenizer.ggml.tokens[280]", "too long", "xxx...");
    free(text);
}

static void vocabulary_refuses_bad_merges(void **state)
{
    (void)state;
    static const char *const broken[] = { "", "a", "ab", "a b c", "a  b", " a b", "a b " };
    for (size_t i = 0; i < RL_COUNT_OF(broken); i++)
        CASE(rl_test_vocabulary_add_merge(&v, broken[i]), RL_FORMAT, "tokenizer.ggml.merges[20]",
             "one space", broken[i]);
    CASE(rl_test_vocabulary_add_merge(&v, "zz a"), RL_FORMAT, "tokenizer.ggml.merges[20]", "left");
    CASE(rl_test_vocabulary_add_merge(&v, " a"), RL_FORMAT, "tokenizer.ggml.merges[20]", "left");
    CASE(rl_test_vocabulary_add_merge(&v, "a zz"), RL_FORMAT, "tokenizer.ggml.merges[20]", "right");
    CASE(rl_test_vocabulary_add_merge(&v, "a z"), RL_FORMAT, "tokenizer.ggml.merges[20]", "result");
    CASE(rl_test_vocabulary_add_merge(&v, "[PAD0] a"), RL_FORMAT, "tokenizer.ggml.merges[20]",
         "left");
    CASE(v.types[256] = RL_TOKEN_UNUSED, RL_FORMAT, "tokenizer.ggml.merges[0]", "result", "a a");
}

static void vocabulary_refuses_bad_special_ids(void **state)
{
    (void)state;
    CASE(v.id = 285, RL_FORMAT, "tokenizer.ggml.eos_token_id", "285");
    CASE(v.id = UINT32_MAX, RL_FORMAT, "tokenizer.ggml.eos_token_id", "4294967295");
    CASE((v.id = 285, v.id_key = "tokenizer.ggml.fim_pre_token_id"), RL_FORMAT,
         "tokenizer.ggml.fim_pre_token_id", "285");
    CASE(v.add_bos = 1, RL_FORMAT, "add_bos_token", "tokenizer.ggml.bos_token_id");
    CASE((v.add_eos = 1, v.id_key = NULL), RL_FORMAT, "add_eos_token",
         "tokenizer.ggml.eos_token_id");
}

/* An unused token may stand in the list twice, and as the double of a used one: the used one
 * counts, whichever comes first. */
static void vocabulary_ignores_unused_doubles(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_test_vocabulary v;
    rl_test_vocabulary_init(&v);
    rl_test_vocabulary_add(&v, "<|im|>", RL_TOKEN_UNUSED);
    rl_test_vocabulary_add(&v, "<new>", RL_TOKEN_UNUSED);
    uint32_t used = rl_test_vocabulary_add(&v, "<new>", RL_TOKEN_CONTROL);
    const char *path = rl_test_scratch("vocabulary_doubles.gguf");
    assert_true(rl_test_vocabulary_write(&v, path));
    rl_tokenizer *tokenizer = rl_test_tokenizer(path);
    rl_tokens ids = { 0 };
    assert_ok(rl_tokenizer_encode(tokenizer, "<|im|><new>", 11, RL_ENCODE_SPECIAL, &ids, &err));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ids[0], 279);
    assert_int_equal(ids.ids[1], used);
    rl_tokens_fini(&ids);
    rl_tokenizer_close(tokenizer);
    rl_test_vocabulary_fini(&v);
}

/* The malformed files of the fixtures whose container is sound: those that break a rule of the
 * tokenizer are refused here with a fitting word, the well-formed ones open. */
static void vocabulary_judges_the_malformed_files(void **state)
{
    (void)state;
    static const char *const tokenizer_cases[] = {
        "tokenizer-unknown.gguf",   "token-types-short.gguf", "token-invalid-utf8.gguf",
        "merge-without-space.gguf", "eos-out-of-range.gguf",  "vocab-vs-embedding.gguf",
    };
    size_t n, refused = 0, opened = 0;
    rl_test_case *cases = rl_test_cases(&n);
    for (size_t i = 0; i < n; i++) {
        bool ours = false;
        for (size_t k = 0; k < RL_COUNT_OF(tokenizer_cases); k++)
            ours |= !strcmp(cases[i].file, tokenizer_cases[k]);
        if (!ours && !cases[i].loads) continue;
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        rl_tokenizer *tokenizer = NULL;
        assert_ok(rl_gguf_open(&gguf, rl_test_fixture("bad-gguf/%s", cases[i].file), &err));
        rl_status status = rl_tokenizer_open(&tokenizer, gguf, &err);
        if (cases[i].loads) {
            if (status) fail_msg("%s: %s", cases[i].file, err.text);
            opened++;
        } else {
            assert_true(status == RL_FORMAT || status == RL_UNSUPPORTED);
            if (!rl_test_mentions(&cases[i], err.text)) fail_msg("%s: %s", cases[i].file, err.text);
            refused++;
        }
        rl_tokenizer_close(tokenizer);
        rl_gguf_close(gguf);
    }
    assert_int_equal(refused, RL_COUNT_OF(tokenizer_cases));
    assert_true(opened >= 5);
    free(cases);
}

RL_TEST_MAIN(RL_TEST(vocabulary, opens_when_nothing_is_wrong),
             RL_TEST(vocabulary, refuses_other_tokenizers), RL_TEST(vocabulary, refuses_bad_lists),
             RL_TEST(vocabulary, refuses_bad_tokens), RL_TEST(vocabulary, refuses_bad_merges),
             RL_TEST(vocabulary, refuses_bad_special_ids),
             RL_TEST(vocabulary, ignores_unused_doubles),
             RL_TEST(vocabulary, judges_the_malformed_files))
