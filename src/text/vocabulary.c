/* vocabulary.c - text/vocabulary.h: checks and copies the token lists of a GGUF file.
 *
 * While reading, every token text is in a hash table, as it stands in the file: that finds
 * duplicates, and names the parts and the result of each merge. The table is gone afterwards. */
#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "text/special_set.h"
#include "text/unicode.h"

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES  "tokenizer.ggml.token_type"
#define KEY_MERGES "tokenizer.ggml.merges"

/* ---- the table of texts --------------------------------------------------------------------- */

typedef struct text_place {
    uint32_t hash;
    uint32_t id; /* RL_BPE_NO_TOKEN: empty */
} text_place;

typedef struct reader {
    const rl_gguf *gguf;
    const char *path;
    rl_gguf_value tokens;
    rl_gguf_value types;
    rl_gguf_value merges; /* count 0 when missing */
    text_place *table;
    uint32_t table_bits;
    int16_t byte_of[0x144]; /* character of the alphabet -> byte, -1 */
} reader;

static uint32_t hash_text(const char *text, size_t bytes)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = bytes * k;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        h = (h ^ rl_load_u64(text)) * k;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, bytes);
    h = (h ^ rest) * k;
    h ^= h >> 29;
    return (uint32_t)(h * k >> 32);
}

/* The place of a text, or the empty one where it would go. */
static text_place *find_place(const reader *r, const char *text, size_t bytes, uint32_t hash)
{
    size_t mask = ((size_t)1 << r->table_bits) - 1;
    size_t at = hash >> (32 - r->table_bits);
    for (; r->table[at].id != RL_BPE_NO_TOKEN; at = (at + 1) & mask) {
        if (r->table[at].hash != hash) continue;
        rl_gguf_string other = rl_gguf_array_string(r->gguf, &r->tokens, r->table[at].id);
        if (other.bytes == bytes && !memcmp(other.data, text, bytes)) break;
    }
    return &r->table[at];
}

static uint32_t find_id(const reader *r, const char *text, size_t bytes)
{
    return find_place(r, text, bytes, hash_text(text, bytes))->id;
}

/* ---- the byte alphabet ---------------------------------------------------------------------- */

/* Printable bytes stand for themselves; the other 68, in order, for U+0100 and following. */
static void fill_alphabet(reader *r)
{
    memset(r->byte_of, 0xff, sizeof r->byte_of);
    uint32_t next = 0x100;
    for (int b = 0; b < 256; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        r->byte_of[itself ? (uint32_t)b : next++] = (int16_t)b;
    }
}

/* Translates a normal token; false and *code when a character is not of the alphabet. */
static bool translate(const reader *r, rl_gguf_string text, char *out, size_t *bytes,
                      uint32_t *code)
{
    *bytes = 0;
    for (size_t at = 0; at < text.bytes;) {
        at += rl_utf8_decode(text.data + at, text.bytes - at, code);
        if (*code >= RL_COUNT_OF(r->byte_of) || r->byte_of[*code] < 0) return false;
        out[(*bytes)++] = (char)r->byte_of[*code];
    }
    return true;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Text of a file inside a message: printable ASCII, cut where it is long. */
typedef struct shown_text {
    char text[48];
} shown_text;

static shown_text show(const char *text, size_t bytes)
{
    shown_text shown;
    size_t n = 0;
    for (; n < bytes && n < sizeof shown.text - 4; n++)
        shown.text[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
    memcpy(shown.text + n, "...", 4);
    if (n == bytes) shown.text[n] = 0;
    return shown;
}

static rl_status bad_token(const reader *r, uint32_t id, const char *what, rl_error *err)
{
    rl_gguf_string text = rl_gguf_array_string(r->gguf, &r->tokens, id);
    return rl_fail(err, RL_FORMAT, "%s: %s[%u] \"%s\" %s", r->path, KEY_TOKENS, id,
                   show(text.data, text.bytes).text, what);
}

/* Enters a token into the table of texts. Unused ones may stand there twice, and give way. */
static rl_status enter(const reader *r, const rl_vocabulary *v, uint32_t id, rl_error *err)
{
    rl_gguf_string text = rl_gguf_array_string(r->gguf, &r->tokens, id);
    uint32_t hash = hash_text(text.data, text.bytes);
    text_place *place = find_place(r, text.data, text.bytes, hash);
    if (place->id != RL_BPE_NO_TOKEN) {
        if (v->type[id] == RL_TOKEN_UNUSED) return RL_OK;
        if (v->type[place->id] != RL_TOKEN_UNUSED)
            return rl_fail(err, RL_FORMAT, "%s: %s[%u] \"%s\" is a duplicate of token %u", r->path,
                           KEY_TOKENS, id, show(text.data, text.bytes).text, place->id);
    }
    *place = (text_place){ .hash = hash, .id = id };
    return RL_OK;
}

static rl_status read_token(const reader *r, rl_vocabulary *v, uint32_t id, rl_error *err)
{
    rl_gguf_string text = rl_gguf_array_string(r->gguf, &r->tokens, id);
    char *out = v->bytes + v->offset[id];
    size_t bytes = 0;
    int64_t type = rl_gguf_array_int(&r->types, id);
    if (type < RL_TOKEN_NORMAL || type > RL_TOKEN_UNUSED)
        return rl_fail(err, RL_FORMAT, "%s: %s[%u] is %lld, which this kind of tokenizer lacks",
                       r->path, KEY_TYPES, id, (long long)type);
    v->type[id] = (uint8_t)type;
    if (!rl_utf8_is_valid(text.data, text.bytes, NULL))
        return bad_token(r, id, "is not valid UTF-8", err);
    if (!text.bytes && type != RL_TOKEN_UNUSED) return bad_token(r, id, "is empty", err);
    if (type == RL_TOKEN_NORMAL) {
        uint32_t code;
        if (!translate(r, text, out, &bytes, &code))
            return rl_fail(err, RL_FORMAT, "%s: %s[%u] \"%s\" has U+%04X, no byte's character",
                           r->path, KEY_TOKENS, id, show(text.data, text.bytes).text, code);
    } else if (type != RL_TOKEN_UNUSED) {
        if (text.bytes > RL_SPECIAL_MAX_BYTES)
            return bad_token(r, id, "is too long for a special token", err);
        memcpy(out, text.data, text.bytes);
        bytes = text.bytes;
    }
    v->offset[id + 1] = v->offset[id] + (uint32_t)bytes;
    return enter(r, v, id, err);
}

static rl_status read_tokens(reader *r, rl_vocabulary *v, rl_error *err)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < r->tokens.count; i++)
        total += rl_gguf_array_string(r->gguf, &r->tokens, i).bytes;
    if (r->tokens.count >= INT32_MAX || total >= INT32_MAX)
        return rl_fail(err, RL_UNSUPPORTED, "%s: %s has more than 2 GiB of tokens", r->path,
                       KEY_TOKENS);
    v->n = (uint32_t)r->tokens.count;
    r->table_bits = 4;
    while (((uint64_t)3 << r->table_bits) / 4 < v->n)
        r->table_bits++;
    size_t table_bytes = sizeof *r->table << r->table_bits;
    r->table = malloc(table_bytes);
    v->type = malloc(v->n);
    v->offset = malloc(((size_t)v->n + 1) * sizeof *v->offset);
    v->bytes = malloc((size_t)total + 1);
    if (!r->table || !v->type || !v->offset || !v->bytes)
        return rl_fail(err, RL_NOMEM, "%s: no memory for %u tokens", r->path, v->n);
    memset(r->table, 0xff, table_bytes); /* every id is RL_BPE_NO_TOKEN */
    v->offset[0] = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        rl_status status = read_token(r, v, id, err);
        if (status) return status;
    }
    v->endoftext = find_id(r, "<|endoftext|>", 13);
    v->im_end = find_id(r, "<|im_end|>", 10);
    return RL_OK;
}

static rl_status read_bytes(const reader *r, const rl_vocabulary *v, rl_bpe *bpe, rl_error *err)
{
    for (uint32_t code = 0; code < RL_COUNT_OF(r->byte_of); code++) {
        if (r->byte_of[code] < 0) continue;
        char text[4];
        uint32_t id = find_id(r, text, rl_utf8_encode(code, text));
        if (id == RL_BPE_NO_TOKEN || v->type[id] != RL_TOKEN_NORMAL)
            return rl_fail(err, RL_FORMAT, "%s: %s has no token for the byte 0x%02x", r->path,
                           KEY_TOKENS, (unsigned)r->byte_of[code]);
        bpe->byte_token[r->byte_of[code]] = id;
    }
    return RL_OK;
}

/* ---- merges --------------------------------------------------------------------------------- */

static rl_status bad_merge(const reader *r, uint32_t rank, const char *what, rl_error *err)
{
    rl_gguf_string text = rl_gguf_array_string(r->gguf, &r->merges, rank);
    return rl_fail(err, RL_FORMAT, "%s: %s[%u] \"%s\" %s", r->path, KEY_MERGES, rank,
                   show(text.data, text.bytes).text, what);
}

/* The normal token with this text, RL_BPE_NO_TOKEN. */
static uint32_t find_normal(const reader *r, const rl_vocabulary *v, const char *text, size_t bytes)
{
    uint32_t id = find_id(r, text, bytes);
    return id != RL_BPE_NO_TOKEN && v->type[id] == RL_TOKEN_NORMAL ? id : RL_BPE_NO_TOKEN;
}

/* The same, but looks at the token `guess` first: vocabularies list the results of their merges in
 * order, and a look at the next one is far cheaper than a random access. */
static uint32_t find_next(const reader *r, const rl_vocabulary *v, const char *text, size_t bytes,
                          uint32_t guess)
{
    if (guess < v->n && v->type[guess] == RL_TOKEN_NORMAL) {
        rl_gguf_string next = rl_gguf_array_string(r->gguf, &r->tokens, guess);
        if (next.bytes == bytes && !memcmp(next.data, text, bytes)) return guess;
    }
    return find_normal(r, v, text, bytes);
}

/* Reads merge number `rank`. `joined` has room for its text; *merged is the result of the merge
 * before, and then of this one. */
static rl_status read_merge(const reader *r, const rl_vocabulary *v, rl_bpe *bpe, uint32_t rank,
                            char *joined, uint32_t *merged, rl_error *err)
{
    rl_gguf_string text = rl_gguf_array_string(r->gguf, &r->merges, rank);
    const char *space = memchr(text.data, ' ', text.bytes);
    size_t left = space ? (size_t)(space - text.data) : 0;
    size_t right = space ? text.bytes - left - 1 : 0;
    if (!space || memchr(space + 1, ' ', right))
        return bad_merge(r, rank, "is not two parts with one space between them", err);
    memcpy(joined, text.data, left);
    memcpy(joined + left, space + 1, right);
    rl_bpe_merge merge = { .rank = rank,
                           .left = find_normal(r, v, text.data, left),
                           .right = find_normal(r, v, space + 1, right),
                           .merged = find_next(r, v, joined, left + right, *merged + 1) };
    if (merge.left == RL_BPE_NO_TOKEN)
        return bad_merge(r, rank, "has a left part that is not a normal token", err);
    if (merge.right == RL_BPE_NO_TOKEN)
        return bad_merge(r, rank, "has a right part that is not a normal token", err);
    if (merge.merged == RL_BPE_NO_TOKEN)
        return bad_merge(r, rank, "has a result that is not a normal token", err);
    *merged = merge.merged;
    rl_bpe_add(bpe, &merge);
    return RL_OK;
}

static rl_status read_merges(const reader *r, const rl_vocabulary *v, rl_bpe *bpe, rl_error *err)
{
    size_t longest = 0;
    uint32_t merged = 0;
    if (r->merges.count >= INT32_MAX)
        return rl_fail(err, RL_UNSUPPORTED, "%s: %s has too many entries", r->path, KEY_MERGES);
    for (uint32_t rank = 0; rank < r->merges.count; rank++) {
        size_t bytes = rl_gguf_array_string(r->gguf, &r->merges, rank).bytes;
        if (bytes > longest) longest = bytes;
    }
    rl_status status = rl_bpe_init(bpe, (size_t)r->merges.count, err);
    char *joined = malloc(longest + 1);
    if (!status && !joined)
        status = rl_fail(err, RL_NOMEM, "%s: no memory for the merges", r->path);
    if (!status) status = read_bytes(r, v, bpe, err);
    for (uint32_t rank = 0; !status && rank < r->merges.count; rank++)
        status = read_merge(r, v, bpe, rank, joined, &merged, err);
    free(joined);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static rl_status find_array(const reader *r, const char *key, bool strings, rl_gguf_value *value,
                            rl_error *err)
{
    if (!rl_gguf_find(r->gguf, key, value))
        return rl_fail(err, RL_FORMAT, "%s: the key %s is missing", r->path, key);
    bool integers = value->element != RL_GGUF_STRING && value->element != RL_GGUF_F32 &&
                    value->element != RL_GGUF_F64 && value->element != RL_GGUF_BOOL;
    if (value->type != RL_GGUF_ARRAY || (strings ? value->element != RL_GGUF_STRING : !integers))
        return rl_fail(err, RL_FORMAT, "%s: %s is not an array of %s", r->path, key,
                       strings ? "strings" : "integers");
    return RL_OK;
}

static rl_status find_arrays(reader *r, rl_error *err)
{
    rl_gguf_value ignored;
    rl_status status = find_array(r, KEY_TOKENS, true, &r->tokens, err);
    if (!status) status = find_array(r, KEY_TYPES, false, &r->types, err);
    if (!status && rl_gguf_find(r->gguf, KEY_MERGES, &ignored))
        status = find_array(r, KEY_MERGES, true, &r->merges, err);
    if (status) return status;
    if (r->types.count != r->tokens.count)
        return rl_fail(err, RL_FORMAT, "%s: %s has %llu entries for %llu tokens", r->path,
                       KEY_TYPES, (unsigned long long)r->types.count,
                       (unsigned long long)r->tokens.count);
    const rl_gguf_tensor *embedding = rl_gguf_find_tensor(r->gguf, "token_embd.weight");
    if (embedding && embedding->dims[1] != r->tokens.count)
        return rl_fail(err, RL_FORMAT, "%s: token_embd.weight has %llu rows for %llu tokens in %s",
                       r->path, (unsigned long long)embedding->dims[1],
                       (unsigned long long)r->tokens.count, KEY_TOKENS);
    return RL_OK;
}

rl_status rl_vocabulary_read(rl_vocabulary *vocabulary, rl_bpe *bpe, const rl_gguf *gguf,
                             rl_error *err)
{
    reader r = { .gguf = gguf, .path = rl_gguf_path(gguf) };
    *vocabulary = (rl_vocabulary){ 0 };
    *bpe = (rl_bpe){ 0 };
    fill_alphabet(&r);
    rl_status status = find_arrays(&r, err);
    if (!status) status = read_tokens(&r, vocabulary, err);
    if (!status) status = read_merges(&r, vocabulary, bpe, err);
    free(r.table);
    if (status) {
        rl_vocabulary_fini(vocabulary);
        rl_bpe_fini(bpe);
    }
    return status;
}

void rl_vocabulary_fini(rl_vocabulary *vocabulary)
{
    free(vocabulary->type);
    free(vocabulary->offset);
    free(vocabulary->bytes);
    *vocabulary = (rl_vocabulary){ 0 };
}
