/* gguf_read.c - reads the metadata of one GGUF file: header, key/values, tensor records.
 *
 * Everything goes through one cursor that knows how many bytes the file has left. The buffer behind
 * it grows with what was really read, never with what the file claims, and nothing read from the
 * file is used before it was compared with the bytes left. So a hostile file can only make us read
 * itself once.
 *
 * Names are terminated in place: the byte behind a key or tensor name is the first of a number
 * that has been read by then. */
#include "gguf/gguf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "quant/quant.h"

#define HEADER_BYTES      24
#define MIN_KEY_BYTES     13 /* length, no name, type, one byte */
#define MIN_TENSOR_BYTES  24 /* length, no name, n_dims, type, offset */
#define MAX_KEY_BYTES     65535
#define MAX_NAME_BYTES    63
#define DEFAULT_ALIGNMENT 32
/* The largest published metadata are about 20 MB. Offsets into the buffer are 32 bits wide. */
#define MAX_METADATA_BYTES (256u << 20)
#define FIRST_READ         (64u << 10)
#define LARGEST_READ       (4u << 20)

/* ---- the cursor ----------------------------------------------------------------------------- */

typedef struct cursor {
    gguf_part *part;
    const char *path;
    uint64_t file_bytes;
    uint64_t at;        /* never beyond file_bytes */
    const char *during; /* "metadata" or "tensor records", for sentences */
    rl_error *err;
} cursor;

static rl_status truncated(cursor *c, uint64_t wanted)
{
    return rl_fail(c->err, RL_FORMAT,
                   "%s: truncated: end of file inside the %s (%llu bytes wanted at offset %llu, "
                   "the file has %llu)",
                   c->path, c->during, (unsigned long long)wanted, (unsigned long long)c->at,
                   (unsigned long long)c->file_bytes);
}

static uint64_t bytes_left(const cursor *c)
{
    return c->file_bytes - c->at;
}

/* Reads more of the file, so that the buffer covers [0, end). */
static rl_status fill(cursor *c, uint64_t end)
{
    gguf_part *part = c->part;
    if (end > MAX_METADATA_BYTES)
        return rl_fail(c->err, RL_FORMAT, "%s: the %s reach beyond %u MiB, which no model needs",
                       c->path, c->during, MAX_METADATA_BYTES >> 20);
    uint64_t step = part->n_buffer < FIRST_READ ? FIRST_READ : part->n_buffer;
    if (step > LARGEST_READ) step = LARGEST_READ;
    uint64_t target = part->n_buffer + step;
    if (target > c->file_bytes) target = c->file_bytes;
    if (target < end) target = end;
    unsigned char *larger = realloc(part->buffer, (size_t)target);
    if (!larger)
        return rl_fail(c->err, RL_NOMEM, "%s: no memory for %llu bytes of metadata", c->path,
                       (unsigned long long)target);
    part->buffer = larger;
    rl_status status = rl_file_read(part->file, part->n_buffer, larger + part->n_buffer,
                                    (size_t)target - part->n_buffer, c->err);
    if (!status) part->n_buffer = (size_t)target;
    return status;
}

/* Makes the next `bytes` bytes readable at buffer + at. Does not move. */
static inline rl_status need(cursor *c, uint64_t bytes)
{
    if (bytes > bytes_left(c)) return truncated(c, bytes);
    if (c->at + bytes > c->part->n_buffer) return fill(c, c->at + bytes);
    return RL_OK;
}

static rl_status take_u32(cursor *c, uint32_t *out)
{
    rl_status status = need(c, 4);
    if (status) return status;
    *out = rl_load_u32(c->part->buffer + c->at);
    c->at += 4;
    return RL_OK;
}

static rl_status take_u64(cursor *c, uint64_t *out)
{
    rl_status status = need(c, 8);
    if (status) return status;
    *out = rl_load_u64(c->part->buffer + c->at);
    c->at += 8;
    return RL_OK;
}

/* Steps over a string and yields the offset of its first byte and its length. */
static rl_status take_string(cursor *c, const char *what, uint64_t *offset, uint64_t *bytes)
{
    rl_status status = take_u64(c, bytes);
    if (status) return status;
    if (*bytes > bytes_left(c))
        return rl_fail(c->err, RL_FORMAT,
                       "%s: %s has a string length of %llu, the file ends after %llu more bytes "
                       "(truncated?)",
                       c->path, what, (unsigned long long)*bytes,
                       (unsigned long long)bytes_left(c));
    status = need(c, *bytes);
    if (status) return status;
    *offset = c->at;
    c->at += *bytes;
    return RL_OK;
}

/* ---- texts ---------------------------------------------------------------------------------- */

gguf_quoted rl_gguf_quote(const void *bytes, uint64_t n)
{
    gguf_quoted out;
    const unsigned char *p = bytes;
    size_t shown = n > 80 ? 80 : (size_t)n;
    for (size_t i = 0; i < shown; i++)
        out.text[i] = p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?';
    out.text[shown] = 0;
    if (n > 80) strcpy(out.text + 80, "...");
    return out;
}

/* Valid UTF-8 without NUL: shortest forms only, no surrogates, at most U+10FFFF. */
static bool is_plain_utf8(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n;) {
        unsigned char b = p[i];
        if (!b) return false;
        if (b < 0x80) {
            i++;
            continue;
        }
        unsigned more = b >= 0xf0 ? 3 : b >= 0xe0 ? 2 : 1;
        if (b < 0xc2 || b > 0xf4 || more >= n - i) return false;
        unsigned char low = 0x80, high = 0xbf; /* range of the second byte */
        if (b == 0xe0) low = 0xa0;
        if (b == 0xed) high = 0x9f;
        if (b == 0xf0) low = 0x90;
        if (b == 0xf4) high = 0x8f;
        if (p[i + 1] < low || p[i + 1] > high) return false;
        for (unsigned k = 2; k <= more; k++)
            if ((p[i + k] & 0xc0) != 0x80) return false;
        i += more + 1;
    }
    return true;
}

/* ---- header --------------------------------------------------------------------------------- */

static rl_status refuse_magic(cursor *c)
{
    const unsigned char *p = c->part->buffer;
    const char *hint = "";
    if (!memcmp(p, "FUGG", 4))
        hint = "; this looks like a byte-swapped (big-endian) file";
    else if (!memcmp(p, "PK\3\4", 4))
        hint = "; this looks like a zip archive or a PyTorch checkpoint";
    else if (!memcmp(p, "GGML", 4) || !memcmp(p, "lmgg", 4) || !memcmp(p, "tjgg", 4) ||
             !memcmp(p, "fmgg", 4))
        hint = "; this looks like a model file from before GGUF";
    else if (!memcmp(p, "version ", 8))
        hint = "; this looks like a git-lfs pointer, not the file itself";
    else if (p[8] == '{' && rl_load_u64(p) < c->file_bytes)
        hint = "; this looks like a safetensors file";
    return rl_fail(c->err, RL_FORMAT,
                   "%s: not a GGUF file: the magic is '%s' (%02x %02x %02x %02x) instead of "
                   "'GGUF'%s",
                   c->path, rl_gguf_quote(p, 4).text, p[0], p[1], p[2], p[3], hint);
}

static rl_status read_header(cursor *c, uint64_t *n_tensors, uint64_t *n_keys)
{
    if (c->file_bytes < HEADER_BYTES)
        return rl_fail(c->err, RL_FORMAT, "%s: %s, a GGUF header has %d bytes", c->path,
                       c->file_bytes ? "the file is too short" : "the file is empty", HEADER_BYTES);
    rl_status status = need(c, HEADER_BYTES);
    if (status) return status;
    const unsigned char *p = c->part->buffer;
    if (memcmp(p, "GGUF", 4)) return refuse_magic(c);
    uint32_t version = rl_load_u32(p + 4);
    *n_tensors = rl_load_u64(p + 8);
    *n_keys = rl_load_u64(p + 16);
    c->at = HEADER_BYTES;
    c->part->version = version;
    if (version && !(version & 0xffff))
        return rl_fail(c->err, RL_UNSUPPORTED,
                       "%s: a big-endian GGUF file (version field %08x); only little-endian ones "
                       "can be read",
                       c->path, version);
    if (version < 2 || version > 3)
        return rl_fail(c->err, RL_UNSUPPORTED, "%s: GGUF version %u; versions 2 and 3 can be read",
                       c->path, version);
    if (*n_keys > bytes_left(c) / MIN_KEY_BYTES)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: the header's key/value count is %lld, the file has only %llu bytes of "
                       "metadata at most",
                       c->path, (long long)*n_keys, (unsigned long long)bytes_left(c));
    if (*n_tensors > bytes_left(c) / MIN_TENSOR_BYTES)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: the header's tensor count is %lld, the file has only %llu bytes behind "
                       "the header",
                       c->path, (long long)*n_tensors, (unsigned long long)bytes_left(c));
    return RL_OK;
}

/* ---- key/values ----------------------------------------------------------------------------- */

/* Bytes of one value; 0 for strings and arrays. */
static uint32_t scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return bytes[type];
}

static rl_status check_bools(cursor *c, const char *key, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (c->part->buffer[at + i] > 1)
            return rl_fail(c->err, RL_FORMAT, "%s: key %s: a bool is %u, neither 0 nor 1", c->path,
                           key, c->part->buffer[at + i]);
    return RL_OK;
}

static rl_status read_string_array(cursor *c, const char *key, gguf_key *record)
{
    gguf_part *part = c->part;
    record->payload = part->n_strings;
    for (uint64_t i = 0; i < record->count; i++) {
        uint64_t offset, bytes;
        uint64_t length_at = c->at;
        rl_status status = take_string(c, key, &offset, &bytes);
        if (status) return status;
        if (!rl_gguf_grow((void **)&part->strings, &part->strings_capacity, part->n_strings,
                          sizeof *part->strings))
            return rl_fail(c->err, RL_NOMEM, "%s: no memory for the strings of %s", c->path, key);
        part->strings[part->n_strings++] = (uint32_t)length_at;
    }
    return RL_OK;
}

static rl_status read_array(cursor *c, const char *key, gguf_key *record)
{
    uint32_t element;
    rl_status status = take_u32(c, &element);
    if (status) return status;
    status = take_u64(c, &record->count);
    if (status) return status;
    if (element == RL_GGUF_ARRAY)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: key %s: the element type is array; nested arrays are not allowed",
                       c->path, key);
    if (element > RL_GGUF_F64)
        return rl_fail(c->err, RL_FORMAT, "%s: key %s: unknown array element type %u", c->path, key,
                       element);
    record->element = (uint8_t)element;
    uint64_t each = element == RL_GGUF_STRING ? 8 : scalar_bytes(element);
    if (record->count > bytes_left(c) / each)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: key %s: an array count of %llu does not fit into the %llu bytes left "
                       "in the file (truncated?)",
                       c->path, key, (unsigned long long)record->count,
                       (unsigned long long)bytes_left(c));
    if (element == RL_GGUF_STRING) return read_string_array(c, key, record);
    status = need(c, record->count * each);
    if (status) return status;
    record->payload = c->at;
    c->at += record->count * each;
    if (element == RL_GGUF_BOOL) return check_bools(c, key, record->payload, record->count);
    return RL_OK;
}

static rl_status read_value(cursor *c, const char *key, gguf_key *record)
{
    uint64_t offset, bytes;
    rl_status status;
    record->count = 1;
    record->payload = c->at;
    switch (record->type) {
    case RL_GGUF_STRING: return take_string(c, key, &offset, &bytes);
    case RL_GGUF_ARRAY: return read_array(c, key, record);
    default:
        status = need(c, scalar_bytes(record->type));
        if (status) return status;
        c->at += scalar_bytes(record->type);
        if (record->type == RL_GGUF_BOOL) return check_bools(c, key, record->payload, 1);
        return RL_OK;
    }
}

static rl_status read_key(cursor *c, uint64_t index)
{
    gguf_part *part = c->part;
    char what[40];
    snprintf(what, sizeof what, "the name of key %llu", (unsigned long long)index);
    uint64_t name, name_bytes;
    uint32_t type;
    rl_status status = take_string(c, what, &name, &name_bytes);
    if (status) return status;
    if (!name_bytes)
        return rl_fail(c->err, RL_FORMAT, "%s: key %llu has an empty name", c->path,
                       (unsigned long long)index);
    gguf_quoted key = rl_gguf_quote(part->buffer + name, name_bytes);
    if (name_bytes > MAX_KEY_BYTES)
        return rl_fail(c->err, RL_FORMAT, "%s: key %s: a name of %llu bytes is too long", c->path,
                       key.text, (unsigned long long)name_bytes);
    if (!is_plain_utf8(part->buffer + name, name_bytes))
        return rl_fail(c->err, RL_FORMAT, "%s: key %s: the name is no valid UTF-8 or contains NUL",
                       c->path, key.text);
    status = take_u32(c, &type);
    if (status) return status;
    part->buffer[name + name_bytes] = 0;
    if (type > RL_GGUF_F64)
        return rl_fail(c->err, RL_FORMAT, "%s: key %s: unknown value type %u", c->path, key.text,
                       type);
    if (!rl_gguf_grow((void **)&part->keys, &part->keys_capacity, part->n_keys, sizeof *part->keys))
        return rl_fail(c->err, RL_NOMEM, "%s: no memory for key %s", c->path, key.text);
    gguf_key *record = &part->keys[part->n_keys++];
    *record = (gguf_key){ .name = (uint32_t)name, .type = (uint8_t)type };
    return read_value(c, key.text, record);
}

static rl_status index_keys(cursor *c)
{
    gguf_part *part = c->part;
    part->keys_by_name = calloc(part->n_keys ? part->n_keys : 1, sizeof *part->keys_by_name);
    if (!part->keys_by_name)
        return rl_fail(c->err, RL_NOMEM, "%s: no memory for the key index", c->path);
    for (size_t i = 0; i < part->n_keys; i++)
        part->keys_by_name[i] =
            (gguf_name){ .name = (const char *)part->buffer + part->keys[i].name, .index = i };
    int64_t twice = rl_gguf_sort_names(part->keys_by_name, part->n_keys);
    if (twice < 0) return RL_OK;
    const char *name = (const char *)part->buffer + part->keys[twice].name;
    return rl_fail(c->err, RL_FORMAT, "%s: duplicate key: %s occurs twice", c->path,
                   rl_gguf_quote(name, strlen(name)).text);
}

/* Tensor records are still to be read and may move the buffer, so this cannot use the index. */
static rl_status read_alignment(cursor *c)
{
    gguf_part *part = c->part;
    part->alignment = DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < part->n_keys; i++) {
        const gguf_key *key = &part->keys[i];
        if (strcmp((const char *)part->buffer + key->name, "general.alignment")) continue;
        if (key->type != RL_GGUF_U32)
            return rl_fail(c->err, RL_FORMAT,
                           "%s: key general.alignment has type %s instead of u32", c->path,
                           rl_gguf_type_name(key->type));
        uint32_t alignment = rl_load_u32(part->buffer + key->payload);
        if (!alignment || (alignment & (alignment - 1)))
            return rl_fail(c->err, RL_FORMAT,
                           "%s: general.alignment is %u, which is no power of two", c->path,
                           alignment);
        part->alignment = alignment;
    }
    return RL_OK;
}

/* ---- tensor records ------------------------------------------------------------------------- */

/* Types that no weight matrix has but a file may hold: plain numbers, and one activation format.
 * They can be located; model/ refuses them where weights are needed. */
static const rl_quant_info plain_types[] = {
    { .name = "Q8_1", .type = 9, .block = 32, .block_bytes = 36 },
    { .name = "I8", .type = 24, .block = 1, .block_bytes = 1 },
    { .name = "I16", .type = 25, .block = 1, .block_bytes = 2 },
    { .name = "I32", .type = 26, .block = 1, .block_bytes = 4 },
    { .name = "I64", .type = 27, .block = 1, .block_bytes = 8 },
    { .name = "F64", .type = 28, .block = 1, .block_bytes = 8 },
};

static const rl_quant_info *find_storage(uint32_t type)
{
    for (size_t i = 0; i < RL_COUNT_OF(plain_types); i++)
        if (plain_types[i].type == type) return &plain_types[i];
    return rl_quant_find(type);
}

const char *rl_gguf_tensor_type_name(const rl_gguf_tensor *tensor)
{
    const rl_quant_info *info = find_storage(tensor->type);
    return info ? info->name : "unknown"; /* cannot be: such files are refused */
}

/* Number of weights and bytes, from dims and type. */
static rl_status measure_tensor(cursor *c, const char *name, gguf_info *info)
{
    const rl_quant_info *quant = find_storage(info->type);
    if (!quant) {
        char why[160];
        rl_quant_refusal(info->type, why, sizeof why);
        return rl_fail(c->err, RL_UNSUPPORTED, "%s: tensor %s: %s", c->path, name, why);
    }
    uint64_t weights = 1;
    for (uint32_t d = 0; d < info->n_dims; d++) {
        if (!info->dims[d])
            return rl_fail(c->err, RL_FORMAT, "%s: tensor %s: dimension %u is zero", c->path, name,
                           d);
        if (info->dims[d] > INT64_MAX || !rl_mul_u64(weights, info->dims[d], &weights) ||
            weights > INT64_MAX)
            return rl_fail(c->err, RL_FORMAT,
                           "%s: tensor %s: its size overflows (dimension %u is %llu)", c->path,
                           name, d, (unsigned long long)info->dims[d]);
    }
    if (info->dims[0] % quant->block)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: tensor %s: rows of %llu weights are no multiple of the %u-weight block "
                       "of %s",
                       c->path, name, (unsigned long long)info->dims[0], quant->block, quant->name);
    if (!rl_quant_bytes(quant, weights, &info->bytes))
        return rl_fail(c->err, RL_FORMAT, "%s: tensor %s: its size in bytes overflows", c->path,
                       name);
    return RL_OK;
}

static rl_status read_tensor(cursor *c, uint64_t index)
{
    gguf_part *part = c->part;
    char what[40];
    snprintf(what, sizeof what, "the name of tensor %llu", (unsigned long long)index);
    uint64_t at, name_bytes;
    rl_status status = take_string(c, what, &at, &name_bytes);
    if (status) return status;
    gguf_quoted name = rl_gguf_quote(part->buffer + at, name_bytes);
    if (!name_bytes || name_bytes > MAX_NAME_BYTES)
        return rl_fail(c->err, RL_FORMAT,
                       "%s: tensor %llu: its name has %llu bytes, allowed are 1 to %d (%s)",
                       c->path, (unsigned long long)index, (unsigned long long)name_bytes,
                       MAX_NAME_BYTES, name.text);
    if (!is_plain_utf8(part->buffer + at, name_bytes))
        return rl_fail(c->err, RL_FORMAT,
                       "%s: tensor %s: the name is no valid UTF-8 or contains NUL", c->path,
                       name.text);
    gguf_info info = { .name = (uint32_t)at, .dims = { 1, 1, 1, 1 } };
    status = take_u32(c, &info.n_dims);
    if (status) return status;
    part->buffer[at + name_bytes] = 0;
    if (!info.n_dims || info.n_dims > 4)
        return rl_fail(c->err, RL_FORMAT, "%s: tensor %s has %u dimensions, allowed are 1 to 4",
                       c->path, name.text, info.n_dims);
    for (uint32_t d = 0; d < info.n_dims && !status; d++)
        status = take_u64(c, &info.dims[d]);
    if (!status) status = take_u32(c, &info.type);
    if (!status) status = take_u64(c, &info.offset);
    if (!status) status = measure_tensor(c, name.text, &info);
    if (status) return status;
    if (info.offset & (part->alignment - 1))
        return rl_fail(c->err, RL_FORMAT, "%s: tensor %s: offset %llu is not aligned to %llu bytes",
                       c->path, name.text, (unsigned long long)info.offset,
                       (unsigned long long)part->alignment);
    if (!rl_gguf_grow((void **)&part->infos, &part->infos_capacity, part->n_infos,
                      sizeof *part->infos))
        return rl_fail(c->err, RL_NOMEM, "%s: no memory for tensor %s", c->path, name.text);
    part->infos[part->n_infos++] = info;
    return RL_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const gguf_info *const *x = a, *const *y = b;
    return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

/* Every tensor lies inside the file, and no two share a byte. */
static rl_status check_ranges(cursor *c)
{
    gguf_part *part = c->part;
    const char *text = (const char *)part->buffer;
    rl_status status = RL_OK;
    if (!part->n_infos) return RL_OK;
    uint64_t padding = (part->alignment - (c->at & (part->alignment - 1))) & (part->alignment - 1);
    const gguf_info **sorted = malloc(part->n_infos * sizeof(const gguf_info *));
    if (!sorted) return rl_fail(c->err, RL_NOMEM, "%s: no memory for the tensor list", c->path);
    part->data_start = c->at + padding;
    for (size_t i = 0; i < part->n_infos; i++) {
        const gguf_info *info = &part->infos[i];
        uint64_t end;
        sorted[i] = info;
        if (!rl_add_u64(part->data_start, info->offset, &end) ||
            !rl_add_u64(end, info->bytes, &end) || end > c->file_bytes) {
            status = rl_fail(c->err, RL_FORMAT,
                             "%s: tensor %s: %llu bytes at offset %llu of the data section go "
                             "past the end of file (%llu bytes; truncated?)",
                             c->path, text + info->name, (unsigned long long)info->bytes,
                             (unsigned long long)info->offset, (unsigned long long)c->file_bytes);
            goto done;
        }
    }
    qsort(sorted, part->n_infos, sizeof *sorted, compare_offsets);
    for (size_t i = 1; i < part->n_infos; i++)
        if (sorted[i]->offset - sorted[i - 1]->offset < sorted[i - 1]->bytes) {
            status = rl_fail(c->err, RL_FORMAT, "%s: tensors %s and %s overlap at offset %llu",
                             c->path, text + sorted[i - 1]->name, text + sorted[i]->name,
                             (unsigned long long)sorted[i]->offset);
            goto done;
        }
done:
    free(sorted);
    return status;
}

/* ---- one file ------------------------------------------------------------------------------- */

rl_status rl_gguf_part_read(gguf_part *part, const char *path, rl_error *err)
{
    uint64_t n_tensors = 0, n_keys = 0;
    rl_status status = rl_file_open(&part->file, path, err);
    if (status) return status;
    cursor c = { .part = part,
                 .path = path,
                 .file_bytes = rl_file_size(part->file),
                 .during = "metadata",
                 .err = err };
    status = read_header(&c, &n_tensors, &n_keys);
    for (uint64_t i = 0; i < n_keys && !status; i++)
        status = read_key(&c, i);
    if (!status) status = read_alignment(&c);
    c.during = "tensor records";
    for (uint64_t i = 0; i < n_tensors && !status; i++)
        status = read_tensor(&c, i);
    if (status) return status;
    /* The buffer was filled ahead, into the data. */
    unsigned char *smaller = realloc(part->buffer, (size_t)c.at);
    if (smaller) {
        part->buffer = smaller;
        part->n_buffer = (size_t)c.at;
    }
    status = index_keys(&c);
    if (!status) status = check_ranges(&c);
    return status;
}

void rl_gguf_part_fini(gguf_part *part)
{
    rl_file_close(part->file);
    free(part->buffer);
    free(part->keys);
    free(part->keys_by_name);
    free(part->strings);
    free(part->infos);
    *part = (gguf_part){ 0 };
}
