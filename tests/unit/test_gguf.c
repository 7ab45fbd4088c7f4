/* test_gguf.c - the container: malformed files are refused with a sentence, good ones read right. */
#include "support/test.h"

#include <unistd.h>

#include "base/bytes.h"
#include "gguf/gguf.h"
#include "support/cases.h"

/* Files whose container is well formed: what is wrong with them is found by model/ or text/. */
static const char *const beyond_container[] = {
    "arch-missing.gguf",        "arch-unsupported.gguf",  "key-wrong-type.gguf",
    "key-missing.gguf",         "experts-used-0.gguf",    "experts-used-gt-count.gguf",
    "block-count-max.gguf",     "head-count-0.gguf",      "heads-not-multiple.gguf",
    "tensor-missing.gguf",      "tensor-shape.gguf",      "expert-count-vs-tensor.gguf",
    "vocab-vs-embedding.gguf",  "token-types-short.gguf", "token-invalid-utf8.gguf",
    "merge-without-space.gguf", "eos-out-of-range.gguf",  "tokenizer-unknown.gguf",
};

static bool is_beyond(const char *file)
{
    for (size_t i = 0; i < RL_COUNT_OF(beyond_container); i++)
        if (!strcmp(file, beyond_container[i])) return true;
    return false;
}

/* Every file with a broken container is refused, in a sentence that names the file and the fault;
 * all others open. Stands against: a check that was forgotten, or one too many. */
static void gguf_decides_every_case(void **state)
{
    (void)state;
    size_t n;
    rl_test_case *cases = rl_test_cases(&n);
    assert_true(n >= 60);
    for (size_t i = 0; i < n; i++) {
        const rl_test_case *one = &cases[i];
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        const char *path = rl_test_fixture("bad-gguf/%s", one->file);
        rl_status status = rl_gguf_open(&gguf, path, &err);
        bool expected = one->loads || is_beyond(one->file);
        if (expected != (status == RL_OK))
            fail_msg("%s: %s", one->file, status ? err.text : "opened");
        if (status) {
            assert_null(gguf);
            if (!strstr(err.text, strrchr(one->file, '/') ? "model-0000" : one->file))
                fail_msg("%s is not named in: %s", one->file, err.text);
            if (!rl_test_mentions(one, err.text)) fail_msg("%s: vague: %s", one->file, err.text);
            assert_null(strchr(err.text, '\n'));
        }
        rl_gguf_close(gguf);
    }
    free(cases);
}

/* ---- values --------------------------------------------------------------------------------- */

static rl_gguf *open_fixture(const char *name)
{
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    assert_ok(rl_gguf_open(&gguf, rl_test_fixture("bad-gguf/%s", name), &err));
    return gguf;
}

static void gguf_typed_lookups(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *gguf = open_fixture("good-base.gguf");
    uint32_t u = 77;
    float f = 0;
    bool found = true, b = true;
    rl_gguf_string text;
    assert_ok(rl_gguf_get_u32(gguf, "qwen3next.block_count", &u, NULL, &err));
    assert_int_equal(u, 2);
    assert_ok(rl_gguf_get_u32(gguf, "no.such.key", &u, &found, &err));
    assert_true(!found && u == 2);
    assert_int_equal(rl_gguf_get_u32(gguf, "no.such.key", &u, NULL, &err), RL_FORMAT);
    assert_non_null(strstr(err.text, "no.such.key"));
    assert_int_equal(rl_gguf_get_u32(gguf, "general.architecture", &u, &found, &err), RL_FORMAT);
    assert_non_null(strstr(err.text, "string"));
    assert_ok(rl_gguf_get_f32(gguf, "qwen3next.attention.layer_norm_rms_epsilon", &f, NULL, &err));
    assert_true(f > 0 && f < 1e-4f);
    assert_int_equal(rl_gguf_get_f32(gguf, "qwen3next.block_count", &f, NULL, &err), RL_FORMAT);
    assert_ok(rl_gguf_get_string(gguf, "general.architecture", &text, NULL, &err));
    assert_true(text.bytes == 9 && !memcmp(text.data, "qwen3next", 9));
    assert_ok(rl_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &b, &found, &err));
    assert_true(!found || !b);
    assert_int_equal(rl_gguf_get_bool(gguf, "qwen3next.block_count", &b, NULL, &err), RL_FORMAT);
    rl_gguf_close(gguf);
}

static void gguf_arrays(void **state)
{
    (void)state;
    rl_gguf *gguf = open_fixture("good-base.gguf");
    rl_gguf_value tokens, types;
    assert_true(rl_gguf_find(gguf, "tokenizer.ggml.tokens", &tokens));
    assert_true(rl_gguf_find(gguf, "tokenizer.ggml.token_type", &types));
    assert_int_equal(tokens.count, 260);
    assert_int_equal(types.count, 260);
    for (uint64_t i = 0; i < tokens.count; i++) {
        rl_gguf_string token = rl_gguf_array_string(gguf, &tokens, i);
        assert_true(token.bytes > 0 && token.bytes < 32);
        int64_t type = rl_gguf_array_int(&types, i);
        assert_true(type >= 1 && type <= 6);
    }
    bool seen = false;
    for (uint64_t i = 0; i < rl_gguf_n_keys(gguf); i++) {
        rl_gguf_value value, again;
        const char *key = rl_gguf_key_at(gguf, i, &value);
        assert_true(rl_gguf_find(gguf, key, &again));
        assert_true(again.data == value.data && again.type == value.type);
        seen |= !strcmp(key, "tokenizer.ggml.tokens");
    }
    assert_true(seen);
    rl_gguf_close(gguf);
}

/* The bytes of a file that the test builds piece by piece. */
typedef struct bytes {
    unsigned char data[4096];
    size_t n;
} bytes;

static void put(bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->data);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_u32(bytes *b, uint32_t v)
{
    put(b, &v, 4);
}

static void put_u64(bytes *b, uint64_t v)
{
    put(b, &v, 8);
}

static void put_text(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_header(bytes *b, uint64_t n_tensors, uint64_t n_keys)
{
    b->n = 0;
    put(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, n_tensors);
    put_u64(b, n_keys);
}

static const char *save(const bytes *b, const char *name)
{
    const char *path = rl_test_scratch("%s", name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b->data, 1, b->n, file), b->n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_refused(const bytes *b, const char *word)
{
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    const char *path = save(b, "gguf_refused.gguf");
    assert_int_not_equal(rl_gguf_open(&gguf, path, &err), RL_OK);
    assert_null(gguf);
    if (!strstr(err.text, word)) fail_msg("no word '%s' in: %s", word, err.text);
}

/* Integers of every width, the limits of each. */
static void gguf_integer_widths(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t type, bytes;
        uint64_t bits;
        bool fits;
    } rows[] = {
        { "u8", RL_GGUF_U8, 1, 0xff, true },
        { "i8", RL_GGUF_I8, 1, 0x7f, true },
        { "i8-negative", RL_GGUF_I8, 1, 0xff, false },
        { "u16", RL_GGUF_U16, 2, 0xfffe, true },
        { "i16-negative", RL_GGUF_I16, 2, 0x8000, false },
        { "u32", RL_GGUF_U32, 4, 0xffffffff, true },
        { "i32", RL_GGUF_I32, 4, 0x7fffffff, true },
        { "i32-negative", RL_GGUF_I32, 4, 0x80000000, false },
        { "u64", RL_GGUF_U64, 8, 0xffffffff, true },
        { "u64-large", RL_GGUF_U64, 8, 0x100000000, false },
        { "u64-top", RL_GGUF_U64, 8, UINT64_MAX, false },
        { "i64", RL_GGUF_I64, 8, 5, true },
        { "i64-negative", RL_GGUF_I64, 8, UINT64_MAX, false },
    };
    bytes b;
    put_header(&b, 0, RL_COUNT_OF(rows));
    for (size_t i = 0; i < RL_COUNT_OF(rows); i++) {
        put_text(&b, rows[i].key);
        put_u32(&b, rows[i].type);
        put(&b, &rows[i].bits, rows[i].bytes);
    }
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    assert_ok(rl_gguf_open(&gguf, save(&b, "gguf_integers.gguf"), &err));
    for (size_t i = 0; i < RL_COUNT_OF(rows); i++) {
        uint32_t out = 0;
        rl_status status = rl_gguf_get_u32(gguf, rows[i].key, &out, NULL, &err);
        assert_int_equal(status == RL_OK, rows[i].fits);
        if (rows[i].fits)
            assert_int_equal(out, rows[i].bits);
        else
            assert_non_null(strstr(err.text, rows[i].key));
    }
    rl_gguf_close(gguf);
}

/* ---- faults that the corpus does not have --------------------------------------------------- */

static void gguf_refuses_odd_names_and_values(void **state)
{
    (void)state;
    bytes b;
    put_header(&b, 0, 1);
    put_u64(&b, 4);
    put(&b, "a\0bc", 4);
    put_u32(&b, RL_GGUF_U8);
    put(&b, "\1", 1);
    expect_refused(&b, "NUL");

    put_header(&b, 0, 1);
    put_text(&b, "a\xed\xa0\x80"); /* a surrogate */
    put_u32(&b, RL_GGUF_U8);
    put(&b, "\1", 1);
    expect_refused(&b, "UTF-8");

    put_header(&b, 0, 1);
    put_text(&b, "flag");
    put_u32(&b, RL_GGUF_BOOL);
    put(&b, "\2", 1);
    expect_refused(&b, "flag");

    for (uint32_t type = 4; type <= 5; type++) { /* retired types */
        put_header(&b, 1, 0);
        put_text(&b, "a.weight");
        put_u32(&b, 1);
        put_u64(&b, 32);
        put_u32(&b, type);
        put_u64(&b, 0);
        expect_refused(&b, "a.weight");
    }

    put_header(&b, 1, 0);
    put_text(&b, "a.weight");
    put_u32(&b, 1);
    put_u64(&b, 1ull << 63);
    put_u32(&b, 0);
    put_u64(&b, 0);
    expect_refused(&b, "overflow");

    put_header(&b, 1, 0);
    put_text(&b, "a.weight");
    put_u32(&b, 1);
    put_u64(&b, 8);
    put_u32(&b, 0);
    put_u64(&b, UINT64_MAX - 31);
    expect_refused(&b, "end of file");

    put_header(&b, 1, 0);
    put_text(&b, "");
    put_u32(&b, 1);
    put_u64(&b, 8);
    put_u32(&b, 0);
    put_u64(&b, 0);
    expect_refused(&b, "name");

    b.n = 0;
    put(&b, "PK\3\4xxxxxxxxxxxxxxxxxxxxxxxx", 28);
    expect_refused(&b, "zip");
    b.n = 0;
    put_u64(&b, 20);
    put(&b, "{\"__metadata__\":{}}  xxxxxxxx", 28);
    expect_refused(&b, "safetensors");
}

/* A file cut anywhere is refused until the last tensor byte is there.
 * Stands against: one read that trusts a length. */
static void gguf_refuses_every_truncation(void **state)
{
    (void)state;
    size_t n;
    unsigned char *whole = rl_test_read(rl_test_fixture("bad-gguf/good-no-final-padding.gguf"), &n);
    const char *path = rl_test_scratch("gguf_truncated.gguf");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(whole, 1, n, file);
    fclose(file);
    for (size_t cut = n; cut-- > 0;) {
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        if (cut > 9000 && cut % 101) continue; /* inside the data all cuts are alike */
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_int_not_equal(rl_gguf_open(&gguf, path, &err), RL_OK);
        assert_true(strstr(err.text, path) && strlen(err.text) > strlen(path) + 10);
    }
    free(whole);
}

/* Any byte of the metadata may be anything: the file opens or is refused, and the same process
 * goes on. Stands against: crashes, and errors without a sentence. */
static void gguf_survives_damaged_bytes(void **state)
{
    (void)state;
    size_t n;
    unsigned char *whole = rl_test_read(rl_test_fixture("bad-gguf/good-base.gguf"), &n);
    const char *path = rl_test_scratch("gguf_damaged.gguf");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(whole, 1, n, file);
    for (size_t at = 0; at < 8000; at++) {
        static const unsigned char masks[] = { 0x01, 0x80, 0xff };
        unsigned char damaged = whole[at] ^ masks[at % 3];
        fseek(file, (long)at, SEEK_SET);
        fputc(damaged, file);
        fflush(file);
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        if (rl_gguf_open(&gguf, path, &err)) assert_true(err.text[0]);
        rl_gguf_close(gguf);
        fseek(file, (long)at, SEEK_SET);
        fputc(whole[at], file);
    }
    fclose(file);
    free(whole);
}

/* ---- split files ---------------------------------------------------------------------------- */

static void gguf_reads_split_files(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *split = open_fixture("good-split/model-00001-of-00002.gguf");
    rl_gguf *whole = open_fixture("good-base.gguf");
    assert_int_equal(rl_gguf_n_parts(split), 2);
    assert_int_equal(rl_gguf_n_tensors(split), rl_gguf_n_tensors(whole));
    bool second = false;
    for (uint64_t i = 0; i < rl_gguf_n_tensors(whole); i++) {
        const rl_gguf_tensor *a = rl_gguf_tensor_at(whole, i);
        const rl_gguf_tensor *b = rl_gguf_find_tensor(split, a->name);
        assert_non_null(b);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->dims, b->dims, sizeof a->dims);
        void *x = malloc((size_t)a->bytes), *y = malloc((size_t)a->bytes);
        assert_true(x && y);
        assert_ok(rl_file_read(rl_gguf_part(whole, 0), a->offset, x, (size_t)a->bytes, &err));
        assert_ok(rl_file_read(rl_gguf_part(split, b->part), b->offset, y, (size_t)b->bytes, &err));
        assert_memory_equal(x, y, (size_t)a->bytes);
        free(x);
        free(y);
        second |= b->part == 1;
    }
    assert_true(second);
    assert_null(rl_gguf_find_tensor(whole, "no.such.tensor"));
    rl_gguf_close(split);
    rl_gguf_close(whole);
}

static void copy_file(const char *from, const char *to)
{
    size_t n;
    void *data = rl_test_read(from, &n);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
    free(data);
}

/* Another part than the first is refused with the name of the first; so is a first part that was
 * renamed. */
static void gguf_wants_the_first_part(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    const char *second = rl_test_fixture("bad-gguf/good-split/model-00002-of-00002.gguf");
    assert_int_equal(rl_gguf_open(&gguf, second, &err), RL_FORMAT);
    assert_non_null(strstr(err.text, "model-00001-of-00002.gguf"));
    const char *renamed = rl_test_scratch("gguf_renamed.gguf");
    copy_file(rl_test_fixture("bad-gguf/good-split/model-00001-of-00002.gguf"), renamed);
    assert_int_equal(rl_gguf_open(&gguf, renamed, &err), RL_FORMAT);
    assert_non_null(strstr(err.text, "-00001-of-00002.gguf"));
    assert_null(gguf);
}

RL_TEST_MAIN(RL_TEST(gguf, decides_every_case), RL_TEST(gguf, typed_lookups), RL_TEST(gguf, arrays),
             RL_TEST(gguf, integer_widths), RL_TEST(gguf, refuses_odd_names_and_values),
             RL_TEST(gguf, refuses_every_truncation), RL_TEST(gguf, survives_damaged_bytes),
             RL_TEST(gguf, reads_split_files), RL_TEST(gguf, wants_the_first_part))
