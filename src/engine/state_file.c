/* state_file.c - a session in a file: rl_session_save() and rl_session_load().
 *
 * Layout, little-endian: header (magic "RLSESS1\n", sizes, fingerprint of the model), then tokens,
 * logits of the last token, per layer the parts of its state in exchange form, then a 64-bit hash
 * of everything before. A file is read twice: first only to check every byte, then into the session,
 * so that a damaged or foreign file changes nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/file_write.h"
#include "engine/hash.h"
#include "engine/session.h"

enum { PIECE = 1 << 20 };

static const char MAGIC[8] = { 'R', 'L', 'S', 'E', 'S', 'S', '1', '\n' };

typedef struct file_header {
    char magic[8];
    uint64_t fingerprint;
    uint32_t n_tokens, n_vocab;
    uint32_t key_type, value_type;
    uint64_t body_bytes; /* all between header and hash */
} file_header;
_Static_assert(sizeof(file_header) == 40, "no padding in the file");

/* The pieces of a body in order: tokens, logits, then the parts of each layer. */
typedef struct section {
    bool state;
    uint32_t layer;
    rl_state_part part;
    uint64_t bytes;
} section;

enum { SECTIONS_PER_LAYER = 2, FIXED_SECTIONS = 2 };

static uint64_t part_bytes(const rl_session *s, rl_state_part part, uint32_t n_tokens)
{
    const rl_shape *shape = &s->engine->net.shape;
    uint64_t row = (uint64_t)shape->n_head_kv * shape->head_dim * n_tokens;
    switch (part) {
    case RL_STATE_CONV: return 4 * (uint64_t)(shape->conv_taps - 1) * rl_shape_conv_channels(shape);
    case RL_STATE_DELTA:
        return 4 * (uint64_t)shape->n_value_head * shape->delta_dim * shape->delta_dim;
    case RL_STATE_KEY: return row * (s->params.key_type ? 2 : 4);
    case RL_STATE_VALUE: return row * (s->params.value_type ? 2 : 4);
    }
    return 0;
}

/* Section `index` of a session with n_tokens; false behind the last. */
static bool section_at(const rl_session *s, uint32_t n_tokens, uint32_t index, section *out)
{
    const rl_net *net = &s->engine->net;
    if (index < FIXED_SECTIONS) {
        *out = (section){ .bytes = 4 * (uint64_t)(index == 0 ? n_tokens : net->shape.n_vocab) };
        return true;
    }
    index -= FIXED_SECTIONS;
    if (index >= SECTIONS_PER_LAYER * net->shape.n_layer) return false;
    *out = (section){ .state = true, .layer = index / SECTIONS_PER_LAYER };
    bool second = index % SECTIONS_PER_LAYER;
    if (net->layers[out->layer].recurrent)
        out->part = second ? RL_STATE_DELTA : RL_STATE_CONV;
    else
        out->part = second ? RL_STATE_VALUE : RL_STATE_KEY;
    out->bytes = part_bytes(s, out->part, n_tokens);
    return true;
}

static uint64_t largest_section(const rl_session *s, uint32_t n_tokens, uint64_t *total)
{
    uint64_t largest = 1;
    section now;
    *total = 0;
    for (uint32_t i = 0; section_at(s, n_tokens, i, &now); i++) {
        *total += now.bytes;
        if (now.bytes > largest) largest = now.bytes;
    }
    return largest;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct output {
    rl_file_writer *writer;
    rl_hash hash; /* of what was put */
} output;

static rl_status put(output *out, const void *bytes, size_t n, rl_error *err)
{
    rl_hash_add(&out->hash, bytes, n);
    return rl_file_writer_append(out->writer, bytes, n, err);
}

static rl_status write_body(rl_session *s, output *out, uint8_t *scratch, uint64_t total,
                            rl_error *err)
{
    rl_engine *e = s->engine;
    file_header header = { .fingerprint = e->fingerprint,
                           .n_tokens = s->position,
                           .n_vocab = e->net.shape.n_vocab,
                           .key_type = s->params.key_type,
                           .value_type = s->params.value_type,
                           .body_bytes = total };
    memcpy(header.magic, MAGIC, sizeof MAGIC);
    rl_status status = put(out, &header, sizeof header, err);
    section now;
    for (uint32_t i = 0; !status && section_at(s, s->position, i, &now); i++) {
        const void *bytes = i == 0 ? (const void *)s->tokens : s->logits;
        if (now.state) {
            bytes = scratch;
            status =
                e->ops->state_read(e->be, s->state, now.layer, now.part, s->position, scratch, err);
        }
        if (!status) status = put(out, bytes, now.bytes, err);
    }
    const uint64_t value = rl_hash_value(&out->hash);
    return status ? status : rl_file_writer_append(out->writer, &value, sizeof value, err);
}

rl_status rl_session_save(rl_session *s, const char *path, rl_error *err)
{
    struct stat there;
    uint64_t total;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return rl_fail(err, RL_IO, "%s: is not a regular file", path);
    uint8_t *scratch = malloc(largest_section(s, s->position, &total));
    if (!scratch) return rl_fail(err, RL_NOMEM, "%s: no memory to write the session", path);
    output out = { .hash = rl_hash_start() };
    rl_status status = rl_file_writer_open(&out.writer, path, err);
    if (!status) {
        pthread_mutex_lock(&s->engine->lock);
        status = rl_session_settle(s, err);
        if (!status) status = write_body(s, &out, scratch, total, err);
        pthread_mutex_unlock(&s->engine->lock);
        if (!status) status = rl_file_writer_sync(out.writer, err);
        if (status)
            rl_file_writer_abandon(out.writer);
        else
            status = rl_file_writer_commit(out.writer, err);
    }
    free(scratch);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Everything that can be wrong with a file is found here, before the session changes. */
static rl_status check_file(const rl_session *s, const rl_file *file, file_header *header,
                            uint8_t *piece, rl_error *err)
{
    const char *path = rl_file_path(file);
    uint64_t size = rl_file_size(file), hash_bytes = sizeof(uint64_t), total;
    if (size < sizeof *header + hash_bytes)
        return rl_fail(err, RL_FORMAT, "%s: too short for a session file", path);
    rl_status status = rl_file_read(file, 0, header, sizeof *header, err);
    if (status) return status;
    if (memcmp(header->magic, MAGIC, sizeof MAGIC))
        return rl_fail(err, RL_FORMAT, "%s: not a session file of this program", path);

    rl_hash hash = rl_hash_start();
    uint64_t end = size - hash_bytes, stored;
    for (uint64_t at = 0; at < end; at += PIECE) {
        size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;
        status = rl_file_read(file, at, piece, n, err);
        if (status) return status;
        rl_hash_add(&hash, piece, n);
    }
    status = rl_file_read(file, end, &stored, sizeof stored, err);
    if (status) return status;
    if (stored != rl_hash_value(&hash))
        return rl_fail(err, RL_FORMAT, "%s: damaged: its checksum does not match", path);

    if (header->fingerprint != s->engine->fingerprint ||
        header->n_vocab != s->engine->net.shape.n_vocab)
        return rl_fail(err, RL_INVALID, "%s: made with another model than %s", path,
                       rl_gguf_path(s->engine->file));
    if (header->key_type != s->params.key_type || header->value_type != s->params.value_type)
        return rl_fail(err, RL_INVALID, "%s: made with another type of key/value cache", path);
    if (header->n_tokens > s->params.n_ctx)
        return rl_fail(err, RL_INVALID, "%s: %u tokens do not fit a context of %u tokens", path,
                       header->n_tokens, s->params.n_ctx);
    largest_section(s, header->n_tokens, &total);
    if (header->body_bytes != total || size != sizeof *header + total + hash_bytes)
        return rl_fail(err, RL_FORMAT, "%s: damaged: its size does not match its contents", path);
    return RL_OK;
}

/* The tokens are indices later, so a file with a right checksum must still not lie about them. */
static rl_status check_tokens(const rl_session *s, const rl_file *file, uint32_t n_tokens,
                              uint32_t *tokens, rl_error *err)
{
    rl_status status =
        rl_file_read(file, sizeof(file_header), tokens, n_tokens * sizeof *tokens, err);
    for (uint32_t i = 0; !status && i < n_tokens; i++)
        if (tokens[i] >= s->engine->net.shape.n_vocab)
            status = rl_fail(err, RL_FORMAT, "%s: token %u of it is not in the vocabulary",
                             rl_file_path(file), i);
    return status;
}

static rl_status read_body(rl_session *s, const rl_file *file, uint32_t n_tokens, uint8_t *scratch,
                           rl_error *err)
{
    rl_engine *e = s->engine;
    uint64_t at = sizeof(file_header);
    section now;
    for (uint32_t i = 0; section_at(s, n_tokens, i, &now); i++) {
        void *to = i == 0 ? (void *)s->tokens : i == 1 ? (void *)s->logits : scratch;
        rl_status status = rl_file_read(file, at, to, now.bytes, err);
        if (!status && now.state)
            status =
                e->ops->state_write(e->be, s->state, now.layer, now.part, n_tokens, scratch, err);
        if (status) return status;
        at += now.bytes;
    }
    s->position = n_tokens;
    return RL_OK;
}

rl_status rl_session_load(rl_session *s, const char *path, rl_error *err)
{
    rl_file *file = NULL;
    uint8_t *scratch = NULL;
    uint32_t *tokens = NULL;
    file_header header;
    uint64_t total;
    rl_status status = rl_file_open(&file, path, err);
    if (status) return status;
    uint8_t *piece = malloc(PIECE);
    status = piece ? check_file(s, file, &header, piece, err)
                   : rl_fail(err, RL_NOMEM, "%s: no memory to read the session", path);
    if (!status) {
        scratch = malloc(largest_section(s, header.n_tokens, &total));
        tokens = malloc((header.n_tokens + 1ull) * sizeof *tokens);
        if (!scratch || !tokens)
            status = rl_fail(err, RL_NOMEM, "%s: no memory to read the session", path);
    }
    if (!status) status = check_tokens(s, file, header.n_tokens, tokens, err);
    if (!status) status = rl_session_reset(s, err);
    if (!status && header.n_tokens) { /* else it was saved before anything was read */
        pthread_mutex_lock(&s->engine->lock);
        status = read_body(s, file, header.n_tokens, scratch, err);
        pthread_mutex_unlock(&s->engine->lock);
        if (status) rl_session_forget(s); /* half a state is worse than none */
    }
    free(tokens);
    free(scratch);
    free(piece);
    rl_file_close(file);
    return status;
}
