/* tokenizer.c - text/tokenizer.h: reads the tokenizer keys, and connects the parts of this folder
 * (special_set, unicode, splitter, bpe) into one way from text to ids. */
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "text/bpe.h"
#include "text/special_set.h"
#include "text/splitter.h"
#include "text/unicode.h"

enum { MAX_STOPS = 8 };

struct rl_tokenizer {
    rl_vocabulary vocabulary;
    rl_bpe bpe;
    rl_splitter *splitter;
    rl_special_set always;       /* user-defined tokens             */
    rl_special_set with_control; /* user-defined and control tokens */
    uint32_t special[RL_N_SPECIALS];
    uint32_t stops[MAX_STOPS];
    size_t n_stops;
    bool adds_bos;
    bool adds_eos;
};

/* ---- open ----------------------------------------------------------------------------------- */

static const char *const special_keys[RL_N_SPECIALS] = {
    [RL_SPECIAL_BOS] = "tokenizer.ggml.bos_token_id",
    [RL_SPECIAL_EOS] = "tokenizer.ggml.eos_token_id",
    [RL_SPECIAL_PADDING] = "tokenizer.ggml.padding_token_id",
    [RL_SPECIAL_UNKNOWN] = "tokenizer.ggml.unknown_token_id",
    [RL_SPECIAL_EOT] = "tokenizer.ggml.eot_token_id",
    [RL_SPECIAL_EOM] = "tokenizer.ggml.eom_token_id",
};

static rl_status read_splitter(rl_tokenizer *t, const rl_gguf *gguf, rl_error *err)
{
    rl_gguf_string model = { 0 }, pre = { 0 };
    rl_status status = rl_gguf_get_string(gguf, "tokenizer.ggml.model", &model, NULL, err);
    if (status) return status;
    if (model.bytes != 4 || memcmp(model.data, "gpt2", 4))
        return rl_fail(err, RL_UNSUPPORTED,
                       "%s: tokenizer.ggml.model is \"%.*s\"; only gpt2 (byte-level BPE) is known",
                       rl_gguf_path(gguf), model.bytes < 64 ? (int)model.bytes : 64, model.data);
    status = rl_gguf_get_string(gguf, "tokenizer.ggml.pre", &pre, NULL, err);
    if (status) return status;
    char where[256];
    snprintf(where, sizeof where, "%s: tokenizer.ggml.pre", rl_gguf_path(gguf));
    return rl_splitter_create(&t->splitter, where, pre.data, pre.bytes, err);
}

static bool is_special_id(const char *key)
{
    static const char begin[] = "tokenizer.ggml.", end[] = "_token_id";
    size_t bytes = strlen(key);
    return bytes > sizeof begin - 1 + sizeof end - 1 && !memcmp(key, begin, sizeof begin - 1) &&
           !strcmp(key + bytes - (sizeof end - 1), end);
}

/* Every key tokenizer.ggml.NAME_token_id must name a token, also those that nobody here uses. */
static rl_status read_specials(rl_tokenizer *t, const rl_gguf *gguf, rl_error *err)
{
    for (int i = 0; i < RL_N_SPECIALS; i++)
        t->special[i] = RL_BPE_NO_TOKEN;
    for (uint64_t k = 0; k < rl_gguf_n_keys(gguf); k++) {
        rl_gguf_value value;
        const char *key = rl_gguf_key_at(gguf, k, &value);
        if (!is_special_id(key)) continue;
        uint32_t id = 0;
        rl_status status = rl_gguf_get_u32(gguf, key, &id, NULL, err);
        if (status) return status;
        if (id >= t->vocabulary.n)
            return rl_fail(err, RL_FORMAT, "%s: %s is %u, but there are only %u tokens",
                           rl_gguf_path(gguf), key, id, t->vocabulary.n);
        for (int i = 0; i < RL_N_SPECIALS; i++)
            if (!strcmp(key, special_keys[i])) t->special[i] = id;
    }
    bool found;
    rl_status status =
        rl_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &t->adds_bos, &found, err);
    if (!status)
        status = rl_gguf_get_bool(gguf, "tokenizer.ggml.add_eos_token", &t->adds_eos, &found, err);
    if (status) return status;
    if (t->adds_bos && t->special[RL_SPECIAL_BOS] == RL_BPE_NO_TOKEN)
        return rl_fail(err, RL_FORMAT, "%s: add_bos_token is true, but the key %s is missing",
                       rl_gguf_path(gguf), special_keys[RL_SPECIAL_BOS]);
    if (t->adds_eos && t->special[RL_SPECIAL_EOS] == RL_BPE_NO_TOKEN)
        return rl_fail(err, RL_FORMAT, "%s: add_eos_token is true, but the key %s is missing",
                       rl_gguf_path(gguf), special_keys[RL_SPECIAL_EOS]);
    return RL_OK;
}

static void add_stop(rl_tokenizer *t, uint32_t id)
{
    if (id == RL_BPE_NO_TOKEN || t->vocabulary.type[id] == RL_TOKEN_UNUSED ||
        rl_tokenizer_is_stop(t, id))
        return;
    RL_ASSERT(t->n_stops < MAX_STOPS);
    t->stops[t->n_stops++] = id;
}

/* The texts to search for, with control tokens or without. */
static rl_status make_set(const rl_tokenizer *t, bool control, rl_special_set *set, rl_error *err)
{
    const rl_vocabulary *v = &t->vocabulary;
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n; id++)
        n += v->type[id] == RL_TOKEN_USER_DEFINED || (control && v->type[id] == RL_TOKEN_CONTROL);
    rl_special *items = malloc((n + 1) * sizeof *items);
    if (!items) return rl_fail(err, RL_NOMEM, "no memory for %u special tokens", n);
    n = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        if (v->type[id] != RL_TOKEN_USER_DEFINED && (!control || v->type[id] != RL_TOKEN_CONTROL))
            continue;
        items[n++] = (rl_special){ .text = v->bytes + v->offset[id],
                                   .bytes = v->offset[id + 1] - v->offset[id],
                                   .id = id };
    }
    rl_status status = rl_special_set_init(set, items, n, err);
    free(items);
    return status;
}

rl_status rl_tokenizer_open(rl_tokenizer **out, const rl_gguf *gguf, rl_error *err)
{
    RL_ASSERT(out && gguf);
    *out = NULL;
    rl_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return rl_fail(err, RL_NOMEM, "%s: no memory for the tokenizer", rl_gguf_path(gguf));
    rl_status status = read_splitter(t, gguf, err);
    if (!status) status = rl_vocabulary_read(&t->vocabulary, &t->bpe, gguf, err);
    if (!status) status = read_specials(t, gguf, err);
    if (!status) status = make_set(t, false, &t->always, err);
    if (!status) status = make_set(t, true, &t->with_control, err);
    if (status) {
        rl_tokenizer_close(t);
        return status;
    }
    add_stop(t, t->special[RL_SPECIAL_EOS]);
    add_stop(t, t->special[RL_SPECIAL_EOT]);
    add_stop(t, t->special[RL_SPECIAL_EOM]);
    add_stop(t, t->vocabulary.endoftext);
    add_stop(t, t->vocabulary.im_end);
    *out = t;
    return RL_OK;
}

void rl_tokenizer_close(rl_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    rl_special_set_fini(&tokenizer->with_control);
    rl_special_set_fini(&tokenizer->always);
    rl_bpe_fini(&tokenizer->bpe);
    rl_vocabulary_fini(&tokenizer->vocabulary);
    rl_splitter_destroy(tokenizer->splitter);
    free(tokenizer);
}

uint64_t rl_tokenizer_planned_bytes(const rl_gguf *gguf)
{
    rl_gguf_value tokens = { .count = 0 }, merges = { .count = 0 };
    bool strings = rl_gguf_find(gguf, "tokenizer.ggml.tokens", &tokens) &&
                   tokens.type == RL_GGUF_ARRAY && tokens.element == RL_GGUF_STRING;
    uint64_t bytes = 0, places = 16, pairs = 16;
    if (!strings) return 0;
    if (!rl_gguf_find(gguf, "tokenizer.ggml.merges", &merges)) merges.count = 0;
    for (uint64_t i = 0; i < tokens.count; i++)
        bytes += rl_gguf_array_string(gguf, &tokens, i).bytes;
    while (3 * places / 4 < tokens.count)
        places *= 2;
    while (3 * pairs / 4 < merges.count)
        pairs *= 2;
    /* type and offset; the table of texts while reading (vocabulary.c); the table of merges */
    return bytes + tokens.count * 5 + places * 8 + pairs * sizeof(rl_bpe_merge);
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

uint32_t rl_tokenizer_n_tokens(const rl_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.n;
}

rl_token_type rl_tokenizer_type(const rl_tokenizer *tokenizer, uint32_t id)
{
    RL_ASSERT(id < tokenizer->vocabulary.n);
    return (rl_token_type)tokenizer->vocabulary.type[id];
}

const char *rl_tokenizer_bytes(const rl_tokenizer *tokenizer, uint32_t id, size_t *bytes)
{
    const rl_vocabulary *v = &tokenizer->vocabulary;
    RL_ASSERT(id < v->n);
    *bytes = v->offset[id + 1] - v->offset[id];
    return v->bytes + v->offset[id];
}

bool rl_tokenizer_is_stop(const rl_tokenizer *tokenizer, uint32_t id)
{
    RL_ASSERT(id < tokenizer->vocabulary.n);
    for (size_t i = 0; i < tokenizer->n_stops; i++)
        if (tokenizer->stops[i] == id) return true;
    return false;
}

const uint32_t *rl_tokenizer_stops(const rl_tokenizer *tokenizer, size_t *n)
{
    *n = tokenizer->n_stops;
    return tokenizer->stops;
}

bool rl_tokenizer_special(const rl_tokenizer *tokenizer, rl_special_name name, uint32_t *id)
{
    RL_ASSERT(name < RL_N_SPECIALS);
    if (tokenizer->special[name] == RL_BPE_NO_TOKEN) return false;
    *id = tokenizer->special[name];
    return true;
}

bool rl_tokenizer_find(const rl_tokenizer *tokenizer, const char *text, size_t bytes, uint32_t *id)
{
    const rl_special *item = rl_special_set_find(&tokenizer->with_control, text, bytes);
    if (item) *id = item->id;
    return item != NULL;
}

bool rl_tokenizer_adds_bos(const rl_tokenizer *tokenizer)
{
    return tokenizer->adds_bos;
}

bool rl_tokenizer_adds_eos(const rl_tokenizer *tokenizer)
{
    return tokenizer->adds_eos;
}

/* ---- text to ids ---------------------------------------------------------------------------- */

/* The working storage of one call. */
typedef struct encoder {
    const rl_tokenizer *tokenizer;
    rl_split *split;
    rl_bpe_scratch bpe;
    rl_text_buffer repaired; /* the text, where it was not UTF-8 */
    rl_text_buffer composed; /* ordinary text in NFC             */
    rl_tokens *out;
} encoder;

/* Text without special tokens. */
static rl_status encode_ordinary(encoder *e, const char *text, size_t bytes, rl_error *err)
{
    rl_status status = RL_OK;
    if (!rl_nfc_quick(text, bytes)) {
        e->composed.bytes = 0;
        status = rl_nfc(text, bytes, &e->composed, err);
        text = e->composed.data;
        bytes = e->composed.bytes;
    }
    for (size_t at = 0, end; at < bytes && !status; at = end) {
        status = rl_split_next(e->split, text, bytes, at, &end, err);
        if (status) break;
        status = rl_bpe_encode(&e->tokenizer->bpe, &e->bpe, text + at, end - at, e->out, err);
    }
    return status;
}

static rl_status encode_text(encoder *e, const char *text, size_t bytes, uint32_t flags,
                             rl_error *err)
{
    const rl_tokenizer *t = e->tokenizer;
    const rl_special_set *set = flags & RL_ENCODE_SPECIAL ? &t->with_control : &t->always;
    rl_status status = RL_OK;
    size_t at = 0;
    while (at < bytes && !status) {
        size_t found = bytes;
        const rl_special *item = rl_special_set_search(set, text, bytes, at, &found);
        status = encode_ordinary(e, text + at, found - at, err);
        if (!item) break;
        if (!status) status = rl_tokens_append(e->out, item->id, err);
        at = found + item->bytes;
    }
    return status;
}

static rl_status check_text(encoder *e, const char **text, size_t *bytes, uint32_t flags,
                            rl_error *err)
{
    size_t bad = 0;
    if (*bytes > RL_TEXT_MAX_BYTES)
        return rl_fail(err, RL_INVALID, "a text of %zu bytes is too long (at most %zu)", *bytes,
                       RL_TEXT_MAX_BYTES);
    if (rl_utf8_is_valid(*text, *bytes, &bad)) return RL_OK;
    if (!(flags & RL_ENCODE_REPLACE))
        return rl_fail(err, RL_FORMAT, "the text is not valid UTF-8 at byte %zu (0x%02x)", bad,
                       (unsigned)(unsigned char)(*text)[bad]);
    rl_status status = rl_utf8_replace(*text, *bytes, &e->repaired, err);
    *text = e->repaired.data;
    *bytes = e->repaired.bytes;
    return status;
}

rl_status rl_tokenizer_encode(const rl_tokenizer *tokenizer, const char *text, size_t bytes,
                              uint32_t flags, rl_tokens *out, rl_error *err)
{
    RL_ASSERT(tokenizer && (text || !bytes) && out);
    encoder e = { .tokenizer = tokenizer, .out = out };
    size_t n_before = out->n;
    bool whole = flags & RL_ENCODE_SEQUENCE;
    rl_status status = check_text(&e, &text, &bytes, flags, err);
    if (!status) status = rl_split_create(&e.split, tokenizer->splitter, err);
    if (!status && whole && tokenizer->adds_bos)
        status = rl_tokens_append(out, tokenizer->special[RL_SPECIAL_BOS], err);
    if (!status) status = encode_text(&e, text, bytes, flags, err);
    if (!status && whole && tokenizer->adds_eos)
        status = rl_tokens_append(out, tokenizer->special[RL_SPECIAL_EOS], err);
    if (status) out->n = n_before;
    rl_split_destroy(e.split);
    rl_bpe_scratch_fini(&e.bpe);
    rl_text_buffer_fini(&e.repaired);
    rl_text_buffer_fini(&e.composed);
    return status;
}

/* ---- ids to text ---------------------------------------------------------------------------- */

rl_status rl_tokenizer_decode(const rl_tokenizer *tokenizer, const uint32_t *ids, size_t n,
                              uint32_t flags, rl_text_buffer *out, rl_error *err)
{
    RL_ASSERT(tokenizer && (ids || !n) && out);
    const rl_vocabulary *v = &tokenizer->vocabulary;
    size_t bytes_before = out->bytes;
    rl_status status = RL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        if (ids[i] >= v->n) {
            status =
                rl_fail(err, RL_INVALID, "token %u (number %zu) is not below %u", ids[i], i, v->n);
            break;
        }
        if (v->type[ids[i]] == RL_TOKEN_CONTROL && !(flags & RL_DECODE_CONTROL)) continue;
        uint32_t from = v->offset[ids[i]];
        status = rl_text_buffer_append(out, v->bytes + from, v->offset[ids[i] + 1] - from, err);
    }
    if (status) out->bytes = bytes_before;
    return status;
}
