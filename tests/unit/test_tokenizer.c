/* test_tokenizer.c - whole texts to ids and back, on the real vocabulary and on small ones. */
#include "support/test.h"

#include <dirent.h>
#include <pthread.h>

#include "base/bytes.h"
#include "support/vocabulary.h"
#include "text/unicode.h"
#include "text/utf8_stream.h"

static rl_tokenizer *open_qwen3(const char *pre)
{
    return rl_test_tokenizer(rl_test_qwen3_vocabulary(pre));
}

static void check_ids(const rl_tokenizer *tokenizer, const rl_text_buffer *text, uint32_t flags,
                      const rl_tokens *expected)
{
    rl_error err = { "" };
    rl_tokens ids = { 0 };
    assert_ok(rl_tokenizer_encode(tokenizer, text->data, text->bytes, flags, &ids, &err));
    bool same = ids.n == expected->n &&
                (!ids.n || !memcmp(ids.ids, expected->ids, ids.n * sizeof *ids.ids));
    if (!same) {
        size_t i = 0;
        while (i < ids.n && i < expected->n && ids.ids[i] == expected->ids[i])
            i++;
        fail_msg("\"%.*s\": %zu ids for %zu, first difference at %zu", (int)text->bytes, text->data,
                 ids.n, expected->n, i);
    }
    rl_tokens_fini(&ids);
}

/* Every line of a fixture: its ids, and its NFC form back from them. */
static void check_fixture(const rl_tokenizer *tokenizer, const char *name, uint32_t flags,
                          int at_least)
{
    rl_error err = { "" };
    rl_text_buffer text = { 0 }, back = { 0 }, composed = { 0 };
    rl_tokens ids = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/%s", name));
    assert_true(cJSON_GetArraySize(lines) >= at_least);
    const cJSON *line;
    cJSON_ArrayForEach(line, lines)
    {
        rl_test_text(line, "text", &text);
        rl_test_ids(line, "ids", &ids);
        check_ids(tokenizer, &text, flags, &ids);
        back.bytes = composed.bytes = 0;
        assert_ok(rl_tokenizer_decode(tokenizer, ids.ids, ids.n, RL_DECODE_CONTROL, &back, &err));
        assert_ok(rl_nfc(text.data, text.bytes, &composed, &err));
        assert_int_equal(back.bytes, composed.bytes);
        if (back.bytes) assert_memory_equal(back.data, composed.data, back.bytes);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&text);
    rl_text_buffer_fini(&back);
    rl_text_buffer_fini(&composed);
    rl_tokens_fini(&ids);
}

static void tokenizer_encodes_cases(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    check_fixture(tokenizer, "cases.jsonl", RL_ENCODE_SPECIAL, 400);
    check_fixture(tokenizer, "fuzz.jsonl", RL_ENCODE_SPECIAL, 400);
    rl_tokenizer_close(tokenizer);
}

static void tokenizer_keeps_control_text_in_plain_mode(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    check_fixture(tokenizer, "plain.jsonl", 0, 15);
    rl_tokenizer_close(tokenizer);
}

static void tokenizer_encodes_qwen35_cases(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen35");
    check_fixture(tokenizer, "pre_qwen35.jsonl", RL_ENCODE_SPECIAL, 40);
    rl_tokenizer_close(tokenizer);
}

/* The pieces of splits.jsonl, one by one, give the ids of the whole text. */
static void tokenizer_joins_nothing_across_pieces(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    rl_text_buffer text = { 0 };
    rl_tokens by_piece = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/splits.jsonl"));
    const cJSON *line, *piece;
    cJSON_ArrayForEach(line, lines)
    {
        by_piece.n = 0;
        cJSON_ArrayForEach(piece, cJSON_GetObjectItem(line, "qwen2"))
        {
            rl_test_text(piece, NULL, &text);
            assert_ok(rl_tokenizer_encode(tokenizer, text.data, text.bytes, 0, &by_piece, &err));
        }
        rl_test_text(line, "text", &text);
        check_ids(tokenizer, &text, 0, &by_piece);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&text);
    rl_tokens_fini(&by_piece);
    rl_tokenizer_close(tokenizer);
}

/* Token bytes and what a reader sees of them, token by token. */
static void tokenizer_streams_cases(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    rl_text_buffer expected = { 0 };
    rl_tokens ids = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/stream.jsonl"));
    const cJSON *line;
    cJSON_ArrayForEach(line, lines)
    {
        rl_test_ids(line, "ids", &ids);
        rl_utf8_stream stream = { { 0 }, 0 };
        char out[1024];
        for (size_t i = 0; i < ids.n; i++) {
            size_t bytes, n;
            const char *data = rl_tokenizer_bytes(tokenizer, ids.ids[i], &bytes);
            char hex[600] = "";
            assert_true(bytes < 256);
            for (size_t k = 0; k < bytes; k++)
                snprintf(hex + 2 * k, 3, "%02x", (unsigned)(uint8_t)data[k]);
            const cJSON *all = cJSON_GetObjectItem(line, "bytes");
            assert_string_equal(hex, cJSON_GetArrayItem(all, (int)i)->valuestring);
            n = rl_utf8_stream_push(&stream, data, bytes, out);
            rl_test_text(cJSON_GetArrayItem(cJSON_GetObjectItem(line, "emit"), (int)i), NULL,
                         &expected);
            assert_int_equal(n, expected.bytes);
            assert_memory_equal(out, expected.data, n);
        }
        rl_test_text(line, "flush", &expected);
        assert_int_equal(rl_utf8_stream_flush(&stream, out), expected.bytes);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&expected);
    rl_tokens_fini(&ids);
    rl_tokenizer_close(tokenizer);
}

/* Refused with the offset, or repaired, as the caller wants.
 * Stands against: a crash, a dropped neighbour, ids left behind by a refused call. */
static void tokenizer_answers_invalid_utf8(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    rl_text_buffer text = { 0 }, replaced = { 0 };
    rl_tokens expected = { 0 }, ids = { 0 };
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/invalid_utf8.jsonl"));
    const cJSON *line;
    cJSON_ArrayForEach(line, lines)
    {
        rl_error err = { "" };
        text.bytes = 0;
        for (const char *hex = cJSON_GetObjectItem(line, "hex")->valuestring; *hex; hex += 2) {
            unsigned value;
            assert_int_equal(sscanf(hex, "%2x", &value), 1);
            assert_ok(rl_text_buffer_append(&text, &(char){ (char)value }, 1, &err));
        }
        ids.n = 0;
        assert_ok(rl_tokens_append(&ids, 77, &err));
        assert_int_equal(
            rl_tokenizer_encode(tokenizer, text.data, text.bytes, RL_ENCODE_SPECIAL, &ids, &err),
            RL_FORMAT);
        assert_int_equal(ids.n, 1);
        size_t bad = 0;
        char offset[32];
        assert_false(rl_utf8_is_valid(text.data, text.bytes, &bad));
        snprintf(offset, sizeof offset, "byte %zu ", bad);
        assert_non_null(strstr(err.text, offset));
        rl_test_ids(line, "ids_replaced", &expected);
        check_ids(tokenizer, &text, RL_ENCODE_SPECIAL | RL_ENCODE_REPLACE, &expected);
        rl_test_text(line, "replaced", &replaced);
        check_ids(tokenizer, &replaced, RL_ENCODE_SPECIAL, &expected);
    }
    cJSON_Delete(lines);
    rl_text_buffer_fini(&text);
    rl_text_buffer_fini(&replaced);
    rl_tokens_fini(&expected);
    rl_tokens_fini(&ids);
    rl_tokenizer_close(tokenizer);
}

static void check_cases_of(const rl_tokenizer *tokenizer, const cJSON *cases)
{
    rl_text_buffer text = { 0 };
    rl_tokens ids = { 0 };
    assert_true(cJSON_GetArraySize(cases) > 4);
    const cJSON *one;
    cJSON_ArrayForEach(one, cases)
    {
        rl_test_text(one, "text", &text);
        rl_test_ids(one, "ids", &ids);
        check_ids(tokenizer, &text, RL_ENCODE_SPECIAL, &ids);
    }
    rl_text_buffer_fini(&text);
    rl_tokens_fini(&ids);
}

static cJSON *read_json(const char *path)
{
    size_t bytes;
    char *text = rl_test_read(path, &bytes);
    cJSON *json = cJSON_Parse(text);
    free(text);
    assert_non_null(json);
    return json;
}

/* Every tiny model among the fixtures carries the same vocabulary of 512 tokens. */
static void tokenizer_encodes_for_tiny_models(void **state)
{
    (void)state;
    cJSON *json = read_json(rl_test_fixture("models/tokenizer-cases.json"));
    DIR *folder = opendir(rl_test_fixture("models"));
    assert_non_null(folder);
    int n = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        const char *end = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "tiny-", 5) || !end || strcmp(end, ".gguf")) continue;
        rl_tokenizer *tokenizer = rl_test_tokenizer(rl_test_fixture("models/%s", entry->d_name));
        assert_int_equal(rl_tokenizer_n_tokens(tokenizer), 512);
        check_cases_of(tokenizer, cJSON_GetObjectItem(json, "cases"));
        rl_tokenizer_close(tokenizer);
        n++;
    }
    closedir(folder);
    assert_true(n >= 1);
    cJSON_Delete(json);
}

static void tokenizer_encodes_for_shipped_model(void **state)
{
    (void)state;
    cJSON *json = read_json(RL_TEST_MODELS "/expected.json");
    rl_tokenizer *tokenizer = rl_test_tokenizer(RL_TEST_MODELS "/redlite-demo-IQ2_XXS.gguf");
    check_cases_of(tokenizer, cJSON_GetObjectItem(json, "tokenizer"));
    rl_tokenizer_close(tokenizer);
    cJSON_Delete(json);
}

static void tokenizer_knows_special_tokens(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    uint32_t id = 0;
    size_t n;
    assert_int_equal(rl_tokenizer_n_tokens(tokenizer), 151936);
    const uint32_t *stops = rl_tokenizer_stops(tokenizer, &n);
    assert_int_equal(n, 2);
    assert_int_equal(stops[0] + stops[1], 151643 + 151645);
    assert_true(rl_tokenizer_is_stop(tokenizer, 151643));
    assert_true(rl_tokenizer_is_stop(tokenizer, 151645));
    assert_false(rl_tokenizer_is_stop(tokenizer, 151644));
    assert_true(rl_tokenizer_special(tokenizer, RL_SPECIAL_EOS, &id) && id == 151645);
    assert_true(rl_tokenizer_special(tokenizer, RL_SPECIAL_PADDING, &id) && id == 151643);
    assert_false(rl_tokenizer_special(tokenizer, RL_SPECIAL_EOT, &id));
    assert_false(rl_tokenizer_adds_bos(tokenizer));
    assert_false(rl_tokenizer_adds_eos(tokenizer));
    assert_true(rl_tokenizer_find(tokenizer, "<|im_start|>", 12, &id) && id == 151644);
    assert_true(rl_tokenizer_find(tokenizer, "<think>", 7, &id));
    assert_int_equal(rl_tokenizer_type(tokenizer, id), RL_TOKEN_USER_DEFINED);
    assert_false(rl_tokenizer_find(tokenizer, "<|im_start|", 11, &id));
    assert_false(rl_tokenizer_find(tokenizer, "[PAD151900]", 11, &id));
    assert_int_equal(rl_tokenizer_type(tokenizer, 151644), RL_TOKEN_CONTROL);
    assert_int_equal(rl_tokenizer_type(tokenizer, 151900), RL_TOKEN_UNUSED);
    rl_tokenizer_bytes(tokenizer, 151900, &n);
    assert_int_equal(n, 0);
    rl_tokenizer_close(tokenizer);
}

/* Exact bytes; control tokens only on request; fillers nothing; ids out of range refused. */
static void tokenizer_decodes(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    rl_text_buffer out = { 0 };
    static const uint32_t ids[] = { 9707, 151900, 1879, 151645, 378, 235 };
    assert_ok(rl_tokenizer_decode(tokenizer, ids, 6, 0, &out, &err));
    assert_int_equal(out.bytes, 11 + 3);
    assert_memory_equal(out.data, "Hello world\xe2\x80\x8d", 14);
    assert_ok(rl_tokenizer_decode(tokenizer, ids, 5, RL_DECODE_CONTROL, &out, &err));
    assert_int_equal(out.bytes, 14 + 23);
    assert_memory_equal(out.data + 14, "Hello world<|im_end|>\xe2\x80", 23);
    assert_int_equal(
        rl_tokenizer_decode(tokenizer, (const uint32_t[]){ 1, 151936 }, 2, 0, &out, &err),
        RL_INVALID);
    assert_int_equal(out.bytes, 37);
    assert_non_null(strstr(err.text, "151936"));
    rl_text_buffer_fini(&out);
    rl_tokenizer_close(tokenizer);
}

/* The longest special token wins, in both modes, and fillers are text.
 * Stands against: <|im|> found inside <|im|>>, and a filler that is produced. */
static void tokenizer_finds_specials_leftmost_longest(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_test_vocabulary v;
    rl_test_vocabulary_init(&v);
    const char *path = rl_test_scratch("tokenizer_specials.gguf");
    assert_true(rl_test_vocabulary_write(&v, path));
    rl_tokenizer *tokenizer = rl_test_tokenizer(path);
    uint32_t im, im2, think;
    assert_true(rl_tokenizer_find(tokenizer, "<|im|>", 6, &im));
    assert_true(rl_tokenizer_find(tokenizer, "<|im|>>", 7, &im2));
    assert_true(rl_tokenizer_find(tokenizer, "<think>", 7, &think));
    rl_tokens ids = { 0 };
    static const char text[] = "<|im|>><|im|>x<<think>[PAD0]<|im";
    assert_ok(rl_tokenizer_encode(tokenizer, text, sizeof text - 1, RL_ENCODE_SPECIAL, &ids, &err));
    const uint32_t with[] = { im2, im,  'x', '<', think, '[', 'P', 'A',
                              'D', '0', ']', '<', '|',   'i', 'm' };
    assert_int_equal(ids.n, RL_COUNT_OF(with));
    assert_memory_equal(ids.ids, with, sizeof with);
    ids.n = 0;
    assert_ok(rl_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &ids, &err));
    assert_int_equal(ids.n, 7 + 6 + 2 + 1 + 6 + 4);
    assert_int_equal(ids.ids[0], '<');
    assert_int_equal(ids.ids[15], think);
    rl_tokens_fini(&ids);
    rl_tokenizer_close(tokenizer);
    rl_test_vocabulary_fini(&v);
}

/* BOS and EOS: only if the file asks, and only around a whole sequence. */
static void tokenizer_adds_what_the_file_asks(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (int bits = 0; bits < 4; bits++) {
        rl_test_vocabulary v;
        rl_test_vocabulary_init(&v);
        v.id_key = bits == 1 ? "tokenizer.ggml.bos_token_id" : "tokenizer.ggml.eos_token_id";
        v.add_bos = bits == 1;
        v.add_eos = bits == 2;
        const char *path = rl_test_scratch("tokenizer_adds_%d.gguf", bits);
        assert_true(rl_test_vocabulary_write(&v, path));
        rl_tokenizer *tokenizer = rl_test_tokenizer(path);
        rl_tokens ids = { 0 };
        assert_ok(rl_tokenizer_encode(tokenizer, "x", 1, RL_ENCODE_SEQUENCE, &ids, &err));
        assert_int_equal(ids.n, bits == 1 || bits == 2 ? 2 : 1);
        assert_int_equal(ids.ids[bits == 1], 'x');
        if (ids.n == 2) assert_int_equal(ids.ids[bits != 1], v.id);
        ids.n = 0;
        assert_ok(rl_tokenizer_encode(tokenizer, "x", 1, 0, &ids, &err));
        assert_int_equal(ids.n, 1);
        ids.n = 0;
        assert_ok(rl_tokenizer_encode(tokenizer, NULL, 0, 0, &ids, &err));
        assert_int_equal(ids.n, 0);
        rl_tokens_fini(&ids);
        rl_tokenizer_close(tokenizer);
        rl_test_vocabulary_fini(&v);
    }
}

typedef struct job {
    const rl_tokenizer *tokenizer;
    const cJSON *lines;
    int failures;
} job;

static void *encode_all(void *arg)
{
    job *j = arg;
    const cJSON *line;
    rl_text_buffer text = { 0 };
    rl_tokens ids = { 0 }, expected = { 0 };
    cJSON_ArrayForEach(line, j->lines)
    {
        rl_error err;
        rl_test_text(line, "text", &text);
        rl_test_ids(line, "ids", &expected);
        ids.n = 0;
        if (rl_tokenizer_encode(j->tokenizer, text.data, text.bytes, RL_ENCODE_SPECIAL, &ids, &err))
            j->failures++;
        else if (ids.n != expected.n ||
                 (ids.n && memcmp(ids.ids, expected.ids, ids.n * sizeof *ids.ids)))
            j->failures++;
    }
    rl_text_buffer_fini(&text);
    rl_tokens_fini(&ids);
    rl_tokens_fini(&expected);
    return NULL;
}

/* Four threads, one tokenizer. Stands against: working storage that is shared. */
static void tokenizer_serves_many_threads(void **state)
{
    (void)state;
    rl_tokenizer *tokenizer = open_qwen3("qwen2");
    cJSON *lines = rl_test_jsonl(rl_test_fixture("tokenizer/fuzz.jsonl"));
    pthread_t threads[4];
    job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){ .tokenizer = tokenizer, .lines = lines };
        assert_int_equal(pthread_create(&threads[i], NULL, encode_all, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].failures, 0);
    }
    cJSON_Delete(lines);
    rl_tokenizer_close(tokenizer);
}

RL_TEST_MAIN(RL_TEST(tokenizer, encodes_cases),
             RL_TEST(tokenizer, keeps_control_text_in_plain_mode),
             RL_TEST(tokenizer, encodes_qwen35_cases),
             RL_TEST(tokenizer, joins_nothing_across_pieces), RL_TEST(tokenizer, streams_cases),
             RL_TEST(tokenizer, answers_invalid_utf8), RL_TEST(tokenizer, encodes_for_tiny_models),
             RL_TEST(tokenizer, encodes_for_shipped_model),
             RL_TEST(tokenizer, knows_special_tokens), RL_TEST(tokenizer, decodes),
             RL_TEST(tokenizer, finds_specials_leftmost_longest),
             RL_TEST(tokenizer, adds_what_the_file_asks), RL_TEST(tokenizer, serves_many_threads))
