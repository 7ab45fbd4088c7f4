/* vocabulary.c - tests/support/vocabulary.h. */
#include "support/vocabulary.h"

#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "support/test.h"
#include "support/unpack.h"
#include "text/unicode.h"

/* ---- the real one ---------------------------------------------------------------------------- */

/* Test programs run side by side: whoever comes first puts the complete file in place. */
static void put_in_place(const char *path, const char *head, size_t head_bytes, const char *tail,
                         size_t tail_bytes)
{
    char draft[1100];
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(draft, "wb");
    if (!file) fail_msg("%s: cannot write", draft);
    bool ok = fwrite(head, 1, head_bytes, file) == head_bytes &&
              fwrite(tail, 1, tail_bytes, file) == tail_bytes;
    ok = !fclose(file) && ok;
    if (!ok || rename(draft, path)) fail_msg("%s: cannot write", path);
}

const char *rl_test_qwen3_vocabulary(const char *pre)
{
    static char path[2][1024];
    bool other = strcmp(pre, "qwen2") != 0;
    snprintf(path[other], sizeof path[0], "%s", rl_test_scratch("qwen3-vocab-%s.gguf", pre));
    if (!access(path[other], R_OK)) return path[other];
    size_t bytes;
    char *data = rl_test_unpack(rl_test_fixture("tokenizer/qwen3-vocab.gguf.gz"), &bytes);
    static const char value[] = "tokenizer.ggml.pre\x08\0\0\0\x05\0\0\0\0\0\0\0qwen2";
    char *at = memmem(data, bytes, value, sizeof value - 1);
    assert_non_null(at);
    /* Head up to the length of the value, then the new length and value, then the rest. */
    size_t head = (size_t)(at - data) + sizeof value - 1 - 5 - 8;
    char *joined = malloc(bytes + 64);
    assert_non_null(joined);
    uint64_t n = strlen(pre);
    memcpy(joined, &n, 8);
    memcpy(joined + 8, pre, n);
    memcpy(joined + 8 + n, data + head + 13, bytes - head - 13);
    put_in_place(path[other], data, head, joined, 8 + n + bytes - head - 13);
    free(joined);
    free(data);
    return path[other];
}

rl_tokenizer *rl_test_tokenizer(const char *path)
{
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    rl_tokenizer *tokenizer = NULL;
    assert_ok(rl_gguf_open(&gguf, path, &err));
    assert_ok(rl_tokenizer_open(&tokenizer, gguf, &err));
    rl_gguf_close(gguf);
    return tokenizer;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

#define NUL_STAND_IN "\xef\xb7\x90" /* U+FDD0 */

cJSON *rl_test_jsonl(const char *path)
{
    size_t bytes;
    char *text = rl_test_read(path, &bytes);
    assert_null(strstr(text, "\\ufdd0"));
    for (char *nul = strstr(text, "\\u0000"); nul; nul = strstr(nul, "\\u0000"))
        memcpy(nul, "\\ufdd0", 6);
    cJSON *lines = cJSON_CreateArray();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *item = cJSON_Parse(line);
        if (!item) fail_msg("%s: not JSON: %s", path, line);
        cJSON_AddItemToArray(lines, item);
    }
    free(text);
    assert_true(cJSON_GetArraySize(lines) > 0);
    return lines;
}

void rl_test_text(const cJSON *object, const char *key, rl_text_buffer *out)
{
    rl_error err = { "" };
    const cJSON *item = key ? cJSON_GetObjectItemCaseSensitive(object, key) : object;
    assert_true(cJSON_IsString(item));
    const char *text = item->valuestring;
    out->bytes = 0;
    for (;;) {
        const char *nul = strstr(text, NUL_STAND_IN);
        size_t bytes = nul ? (size_t)(nul - text) : strlen(text);
        assert_ok(rl_text_buffer_append(out, text, bytes, &err));
        if (!nul) break;
        assert_ok(rl_text_buffer_append(out, "", 1, &err));
        text = nul + 3;
    }
    assert_ok(rl_text_buffer_reserve(out, 1, &err)); /* never NULL, even when empty */
}

void rl_test_ids(const cJSON *object, const char *key, rl_tokens *out)
{
    rl_error err = { "" };
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key), *id;
    assert_true(cJSON_IsArray(array));
    out->n = 0;
    cJSON_ArrayForEach(id, array) assert_ok(rl_tokens_append(out, (uint32_t)id->valuedouble, &err));
}

/* ---- small vocabularies ---------------------------------------------------------------------- */

void rl_test_byte_character(unsigned byte, char out[5])
{
    unsigned code = 0x100;
    for (unsigned b = 0; b <= byte; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && itself) code = b;
        if (b < byte && !itself) code++;
    }
    out[rl_utf8_encode(code, out)] = 0;
}

void rl_test_vocabulary_set(rl_test_string *string, const void *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    RL_ASSERT(copy);
    memcpy(copy, data, bytes);
    free(string->data);
    *string = (rl_test_string){ .data = copy, .bytes = bytes };
}

uint32_t rl_test_vocabulary_add(rl_test_vocabulary *v, const char *text, int32_t type)
{
    v->tokens = realloc(v->tokens, (v->n_tokens + 1) * sizeof *v->tokens);
    v->types = realloc(v->types, (v->n_tokens + 1) * sizeof *v->types);
    RL_ASSERT(v->tokens && v->types);
    v->tokens[v->n_tokens] = (rl_test_string){ 0 };
    rl_test_vocabulary_set(&v->tokens[v->n_tokens], text, strlen(text));
    v->types[v->n_tokens] = type;
    v->n_types = v->n_tokens + 1;
    return (uint32_t)v->n_tokens++;
}

void rl_test_vocabulary_add_merge(rl_test_vocabulary *v, const char *merge)
{
    v->merges = realloc(v->merges, (v->n_merges + 1) * sizeof *v->merges);
    RL_ASSERT(v->merges);
    v->merges[v->n_merges] = (rl_test_string){ 0 };
    rl_test_vocabulary_set(&v->merges[v->n_merges++], merge, strlen(merge));
}

void rl_test_vocabulary_init(rl_test_vocabulary *v)
{
    /* In the byte alphabet: U+0120 is the space, and the last four are bytes of other characters:
     * U+00E9 (C3 A9), U+0301 (CC 81), and the first two of U+1F600 (F0 9F). */
    static const char *const merges[] = {
        "a a",           "b c",           "aa aa",
        "a b",           "\u0120 a",      "c c",
        "ab c",          "\u0120 \u0120", "\u0120\u0120 \u0120\u0120",
        "aa b",          "bc bc",         "aaaa aaaa",
        "\u0120a b",     "\u00c3 \u00a9", "\u00cc \u0123",
        "\u00f0 \u0141", "! !",           "!! !!",
        "1 2",           "\u010a \u010a",
    };
    *v = (rl_test_vocabulary){ .model = "gpt2", .pre = "qwen2", .add_bos = -1, .add_eos = -1 };
    for (unsigned b = 0; b < 256; b++) {
        char text[5];
        rl_test_byte_character(b, text);
        rl_test_vocabulary_add(v, text, RL_TOKEN_NORMAL);
    }
    for (size_t i = 0; i < RL_COUNT_OF(merges); i++) {
        char joined[64];
        const char *space = strchr(merges[i], ' ');
        snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        rl_test_vocabulary_add(v, joined, RL_TOKEN_NORMAL);
        rl_test_vocabulary_add_merge(v, merges[i]);
    }
    v->id = rl_test_vocabulary_add(v, "<|endoftext|>", RL_TOKEN_CONTROL);
    v->id_key = "tokenizer.ggml.eos_token_id";
    rl_test_vocabulary_add(v, "<|im_start|>", RL_TOKEN_CONTROL);
    rl_test_vocabulary_add(v, "<|im_end|>", RL_TOKEN_CONTROL);
    rl_test_vocabulary_add(v, "<|im|>", RL_TOKEN_CONTROL);
    rl_test_vocabulary_add(v, "<|im|>>", RL_TOKEN_CONTROL);
    rl_test_vocabulary_add(v, "<think>", RL_TOKEN_USER_DEFINED);
    rl_test_vocabulary_add(v, "</think>", RL_TOKEN_USER_DEFINED);
    rl_test_vocabulary_add(v, "[PAD0]", RL_TOKEN_UNUSED);
    rl_test_vocabulary_add(v, "[PAD0]", RL_TOKEN_UNUSED);
}

static void free_strings(rl_test_string *strings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(strings[i].data);
    free(strings);
}

void rl_test_vocabulary_fini(rl_test_vocabulary *v)
{
    free_strings(v->tokens, v->n_tokens);
    free_strings(v->merges, v->n_merges);
    free(v->types);
    *v = (rl_test_vocabulary){ 0 };
}

static void put_u32(FILE *file, uint32_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_u64(FILE *file, uint64_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

static void put_string(FILE *file, const void *data, size_t bytes)
{
    put_u64(file, bytes);
    fwrite(data, 1, bytes, file);
}

static void put_key(FILE *file, const char *key, rl_gguf_type type)
{
    put_string(file, key, strlen(key));
    put_u32(file, type);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    put_key(file, key, RL_GGUF_STRING);
    put_string(file, text, strlen(text));
}

static void put_strings(FILE *file, const char *key, const rl_test_string *strings, size_t n)
{
    put_key(file, key, RL_GGUF_ARRAY);
    put_u32(file, RL_GGUF_STRING);
    put_u64(file, n);
    for (size_t i = 0; i < n; i++)
        put_string(file, strings[i].data, strings[i].bytes);
}

bool rl_test_vocabulary_write(const rl_test_vocabulary *v, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    put_u32(file, 0x46554747); /* "GGUF" */
    put_u32(file, 3);
    put_u64(file, 0);
    put_u64(file, 0u + !!v->model + !!v->pre + !!v->id_key + (v->add_bos >= 0) + (v->add_eos >= 0) +
                      !v->no_tokens + !v->no_types + !v->no_merges);
    if (v->model) put_text(file, "tokenizer.ggml.model", v->model);
    if (v->pre) put_text(file, "tokenizer.ggml.pre", v->pre);
    if (v->id_key) {
        put_key(file, v->id_key, RL_GGUF_U32);
        put_u32(file, v->id);
    }
    if (v->add_bos >= 0) {
        put_key(file, "tokenizer.ggml.add_bos_token", RL_GGUF_BOOL);
        fputc(v->add_bos, file);
    }
    if (v->add_eos >= 0) {
        put_key(file, "tokenizer.ggml.add_eos_token", RL_GGUF_BOOL);
        fputc(v->add_eos, file);
    }
    if (!v->no_tokens) put_strings(file, "tokenizer.ggml.tokens", v->tokens, v->n_tokens);
    if (!v->no_types && v->types_are_strings) {
        put_strings(file, "tokenizer.ggml.token_type", v->tokens, v->n_tokens);
    } else if (!v->no_types) {
        put_key(file, "tokenizer.ggml.token_type", RL_GGUF_ARRAY);
        put_u32(file, RL_GGUF_I32);
        put_u64(file, v->n_types);
        if (v->n_types) fwrite(v->types, sizeof *v->types, v->n_types, file);
    }
    if (!v->no_merges) put_strings(file, "tokenizer.ggml.merges", v->merges, v->n_merges);
    bool ok = !ferror(file);
    return !fclose(file) && ok;
}
