/* fuzz_tokenizer.c - arbitrary bytes through the tokenizer, and arbitrary edits to a vocabulary.
 *
 * The first byte holds flags: 1, 2, 4 are RL_ENCODE_..., 8 takes the pattern qwen35, 16 says that
 * edits to the vocabulary follow (see edit_vocabulary), up to a zero byte. The rest is the text.
 *
 * What must hold, whatever the bytes:
 *   - ill-formed text is refused, or else counts as its repaired form
 *   - NFC text comes back byte by byte; other text comes back as something with the same NFC form
 *   - fillers never appear, control tokens only where they were asked for
 *   - the stream shows the same text however the bytes are cut
 *   - the short cuts of the splitter agree with its pattern */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "support/vocabulary.h"
#include "text/splitter.h"
#include "text/unicode.h"
#include "text/utf8_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { FLAG_QWEN35 = 8, FLAG_EDITS = 16 };

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* The input, read piece by piece; behind its end there are zeros. */
typedef struct input {
    const uint8_t *data;
    size_t bytes;
} input;

static uint8_t take(input *in)
{
    if (!in->bytes) return 0;
    in->bytes--;
    return *in->data++;
}

static size_t take_index(input *in, size_t n)
{
    size_t low = take(in);
    return (low | (size_t)take(in) << 8) % n;
}

static size_t take_string(input *in, char out[64])
{
    size_t n = take(in) % 63;
    if (n > in->bytes) n = in->bytes;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)take(in);
    out[n] = 0;
    return n;
}

static void edit_keys(rl_test_vocabulary *v, uint8_t op, uint8_t value)
{
    static const char *const models[] = { "gpt2", "llama", NULL };
    static const char *const patterns[] = { "qwen2", "qwen35", "other", NULL };
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id",        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eot_token_id",        "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.unknown_token_id",    "tokenizer.ggml.fim_pre_token_id",
        "tokenizer.ggml.token_id_of_nothing", NULL
    };
    switch (op) {
    case 6:
        v->model = models[value % 3];
        v->pre = patterns[value / 3 % 4];
        break;
    case 7: v->id_key = keys[value % 8]; break;
    case 8:
        v->add_bos = value % 3 - 1;
        v->add_eos = value / 3 % 3 - 1;
        break;
    default:
        v->no_tokens = value & 1;
        v->no_types = value & 2;
        v->no_merges = value & 4;
        v->types_are_strings = value & 8;
        if (value & 16 && v->n_types > 0) v->n_types--;
        break;
    }
}

static void edit_vocabulary(rl_test_vocabulary *v, input *in)
{
    char text[64];
    for (uint8_t op = take(in); op; op = take(in)) {
        size_t at, n;
        switch (op % 11) {
        case 0:
        case 1:
            at = take_index(in, v->n_tokens);
            n = take_string(in, text);
            rl_test_vocabulary_set(&v->tokens[at], text, n);
            break;
        case 2:
            at = take_index(in, v->n_tokens);
            v->types[at] = (int8_t)take(in);
            break;
        case 3:
            at = take_index(in, v->n_merges);
            n = take_string(in, text);
            rl_test_vocabulary_set(&v->merges[at], text, n);
            break;
        case 4:
            take_string(in, text);
            rl_test_vocabulary_add(v, text, (int8_t)take(in));
            break;
        case 5:
            take_string(in, text);
            rl_test_vocabulary_add_merge(v, text);
            break;
        case 10: v->id = (uint32_t)take_index(in, 65536); break;
        default: edit_keys(v, op % 11, take(in)); break;
        }
    }
}

/* Opens the tokenizer of a vocabulary through a file in memory; NULL when it is refused. */
static rl_tokenizer *open_vocabulary(const rl_test_vocabulary *v, bool must_open)
{
    static int file = -1;
    char path[64];
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    rl_tokenizer *tokenizer = NULL;
    if (file < 0) file = memfd_create("vocabulary", MFD_CLOEXEC);
    CHECK(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(rl_test_vocabulary_write(v, path));
    CHECK(rl_gguf_open(&gguf, path, &err) == RL_OK);
    rl_status status = rl_tokenizer_open(&tokenizer, gguf, &err);
    rl_gguf_close(gguf);
    CHECK(!status == !!tokenizer);
    CHECK(!status || strstr(err.text, path));
    CHECK(!status || !must_open);
    return tokenizer;
}

/* ---- what must hold -------------------------------------------------------------------------- */

static rl_text_buffer repaired, composed, back, again;
static rl_tokens ids;

static bool same(const rl_text_buffer *a, const rl_text_buffer *b)
{
    return a->bytes == b->bytes && (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

static void encode(const rl_tokenizer *t, const rl_text_buffer *text, uint32_t flags)
{
    rl_error err = { "" };
    uint32_t end;
    ids.n = 0;
    back.bytes = 0;
    CHECK(rl_tokenizer_encode(t, text->data, text->bytes, flags, &ids, &err) == RL_OK);
    size_t from = 0, to = ids.n;
    if (flags & RL_ENCODE_SEQUENCE && rl_tokenizer_adds_bos(t)) {
        CHECK(rl_tokenizer_special(t, RL_SPECIAL_BOS, &end) && ids.ids[0] == end);
        from++;
    }
    if (flags & RL_ENCODE_SEQUENCE && rl_tokenizer_adds_eos(t)) {
        CHECK(rl_tokenizer_special(t, RL_SPECIAL_EOS, &end) && ids.ids[to - 1] == end);
        to--;
    }
    for (size_t i = from; i < to; i++) {
        rl_token_type type = rl_tokenizer_type(t, ids.ids[i]);
        CHECK(type != RL_TOKEN_UNUSED && type != RL_TOKEN_UNKNOWN);
        CHECK(type != RL_TOKEN_CONTROL || flags & RL_ENCODE_SPECIAL);
    }
    CHECK(rl_tokenizer_decode(t, ids.n ? ids.ids + from : NULL, to - from, RL_DECODE_CONTROL, &back,
                              &err) == RL_OK);
}

static void check_encoding(const rl_tokenizer *t, const rl_text_buffer *text, uint32_t flags)
{
    rl_error err = { "" };
    size_t bad = 0;
    if (!rl_utf8_is_valid(text->data, text->bytes, &bad)) {
        ids.n = 0;
        CHECK(bad < text->bytes);
        CHECK(rl_tokenizer_encode(t, text->data, text->bytes, flags & ~(uint32_t)RL_ENCODE_REPLACE,
                                  &ids, &err) == RL_FORMAT);
        CHECK(ids.n == 0);
        flags |= RL_ENCODE_REPLACE;
    }
    repaired.bytes = composed.bytes = again.bytes = 0;
    CHECK(rl_utf8_replace(text->data, text->bytes, &repaired, &err) == RL_OK);
    CHECK(rl_nfc(repaired.data, repaired.bytes, &composed, &err) == RL_OK);
    CHECK(rl_utf8_is_valid(composed.data, composed.bytes, NULL));
    encode(t, text, flags);
    CHECK(rl_nfc(back.data, back.bytes, &again, &err) == RL_OK);
    CHECK(same(&again, &composed));
    encode(t, &composed, flags & ~(uint32_t)RL_ENCODE_REPLACE);
    CHECK(same(&back, &composed));
}

static void check_stream(const rl_text_buffer *text, unsigned step)
{
    rl_utf8_stream stream = { { 0 }, 0 };
    size_t n = 0;
    char *out = malloc(RL_UTF8_STREAM_ROOM(text->bytes));
    CHECK(out);
    for (size_t at = 0; at < text->bytes; at += step) {
        size_t bytes = text->bytes - at < step ? text->bytes - at : step;
        n += rl_utf8_stream_push(&stream, text->data + at, bytes, out + n);
    }
    n += rl_utf8_stream_flush(&stream, out + n);
    CHECK(n == repaired.bytes && (!n || !memcmp(out, repaired.data, n)));
    free(out);
}

static void check_split(rl_split *split, const rl_text_buffer *text)
{
    rl_error err = { "" };
    for (size_t at = 0, end, slow; at < text->bytes; at = end) {
        CHECK(rl_split_next(split, text->data, text->bytes, at, &end, &err) == RL_OK);
        CHECK(rl_split_next_by_pattern(split, text->data, text->bytes, at, &slow, &err) == RL_OK);
        CHECK(end == slow && end > at && end <= text->bytes);
        CHECK(rl_utf8_is_valid(text->data + at, end - at, NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const patterns[] = { "qwen2", "qwen35" };
    static rl_tokenizer *fixed[2];
    static rl_splitter *splitters[2];
    static rl_split *splits[2];
    for (int i = 0; i < 2 && !fixed[i]; i++) {
        rl_error err = { "" };
        rl_test_vocabulary v;
        rl_test_vocabulary_init(&v);
        v.pre = patterns[i];
        fixed[i] = open_vocabulary(&v, true);
        rl_test_vocabulary_fini(&v);
        CHECK(!rl_splitter_create(&splitters[i], "", patterns[i], strlen(patterns[i]), &err));
        CHECK(!rl_split_create(&splits[i], splitters[i], &err));
    }
    input in = { .data = data, .bytes = bytes };
    uint8_t flags = take(&in);
    int which = flags & FLAG_QWEN35 ? 1 : 0;
    rl_tokenizer *edited = NULL;
    if (flags & FLAG_EDITS) {
        rl_test_vocabulary v;
        rl_test_vocabulary_init(&v);
        v.pre = patterns[which];
        edit_vocabulary(&v, &in);
        edited = open_vocabulary(&v, false);
        rl_test_vocabulary_fini(&v);
        if (!edited) return 0;
    }
    const rl_tokenizer *t = edited ? edited : fixed[which];
    const rl_text_buffer text = { .data = (char *)(uintptr_t)in.data, .bytes = in.bytes };
    check_encoding(t, &text, flags & 7);
    check_stream(&text, 1 + (flags >> 5));
    check_split(splits[which], &composed);
    for (uint32_t id = 0; edited && id < rl_tokenizer_n_tokens(edited); id++) {
        uint32_t found;
        size_t n;
        const char *name = rl_tokenizer_bytes(edited, id, &n);
        rl_token_type type = rl_tokenizer_type(edited, id);
        CHECK((type == RL_TOKEN_UNUSED) == (n == 0));
        bool special = type == RL_TOKEN_CONTROL || type == RL_TOKEN_USER_DEFINED;
        if (special) CHECK(rl_tokenizer_find(edited, name, n, &found) && found == id);
        if (type == RL_TOKEN_UNUSED) CHECK(!rl_tokenizer_is_stop(edited, id));
    }
    rl_tokenizer_close(edited);
    return 0;
}
