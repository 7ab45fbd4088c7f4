/* gguf_write.c - gguf/gguf_write.h.
 *
 * Keys are encoded into one buffer as they come. A part's header is assembled in memory when its
 * turn comes; tensor bytes go straight to the file. */
#include "gguf/gguf_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/file_write.h"
#include "gguf/gguf_internal.h"
#include "quant/quant.h"

#define DEFAULT_ALIGNMENT 32
#define VERSION           3

/* A growing buffer; `failed` when memory ran out once. */
typedef struct bytes {
    char *data;
    size_t n, capacity;
    bool failed;
} bytes;

typedef struct declared {
    char name[64];
    uint32_t type, n_dims, part;
    uint64_t dims[4];
    uint64_t bytes, offset; /* offset: in the data section of its part */
} declared;

typedef struct written_part {
    char *path;
    rl_file_writer *file;
    uint64_t n_tensors;
} written_part;

struct rl_gguf_writer {
    char *path;
    uint32_t alignment;
    bytes keys;
    uint64_t n_keys;
    declared *tensors;
    size_t n_tensors, tensors_capacity;
    uint32_t n_parts;
    bool no_memory;

    written_part *parts; /* from begin on */
    uint64_t total_bytes;
    size_t due;          /* tensor that is being written */
    uint64_t due_offset; /* bytes of it that are there */
    uint32_t part;       /* file that is being written */
};

/* ---- encoding ------------------------------------------------------------------------------- */

static void put(bytes *b, const void *data, size_t n)
{
    if (b->failed) return;
    if (n > b->capacity - b->n) {
        size_t larger = b->capacity ? b->capacity * 2 : 4096;
        while (larger - b->n < n)
            larger *= 2;
        char *moved = realloc(b->data, larger);
        if (!moved) {
            b->failed = true;
            return;
        }
        b->data = moved;
        b->capacity = larger;
    }
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_u32(bytes *b, uint32_t value)
{
    put(b, &value, sizeof value);
}

static void put_u64(bytes *b, uint64_t value)
{
    put(b, &value, sizeof value);
}

static void put_string(bytes *b, const void *data, size_t n)
{
    put_u64(b, n);
    put(b, data, n);
}

static void put_key(bytes *b, const char *key, rl_gguf_type type)
{
    put_string(b, key, strlen(key));
    put_u32(b, type);
}

static uint32_t scalar_bytes(rl_gguf_type type)
{
    static const uint8_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    RL_ASSERT((uint32_t)type < RL_COUNT_OF(size) && size[type]);
    return size[type];
}

static bytes *start_key(rl_gguf_writer *w, const char *key, rl_gguf_type type)
{
    RL_ASSERT(!w->parts && key[0] && strcmp(key, "general.alignment") && strncmp(key, "split.", 6));
    put_key(&w->keys, key, type);
    w->n_keys++;
    return &w->keys;
}

void rl_gguf_writer_scalar(rl_gguf_writer *w, const char *key, rl_gguf_type type, const void *bits)
{
    put(start_key(w, key, type), bits, scalar_bytes(type));
}

void rl_gguf_writer_u32(rl_gguf_writer *w, const char *key, uint32_t value)
{
    rl_gguf_writer_scalar(w, key, RL_GGUF_U32, &value);
}

void rl_gguf_writer_f32(rl_gguf_writer *w, const char *key, float value)
{
    rl_gguf_writer_scalar(w, key, RL_GGUF_F32, &value);
}

void rl_gguf_writer_bool(rl_gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value;
    rl_gguf_writer_scalar(w, key, RL_GGUF_BOOL, &byte);
}

void rl_gguf_writer_text(rl_gguf_writer *w, const char *key, const char *text)
{
    rl_gguf_writer_string(w, key, (rl_gguf_string){ .data = text, .bytes = strlen(text) });
}

void rl_gguf_writer_string(rl_gguf_writer *w, const char *key, rl_gguf_string value)
{
    put_string(start_key(w, key, RL_GGUF_STRING), value.data, value.bytes);
}

void rl_gguf_writer_array(rl_gguf_writer *w, const char *key, rl_gguf_type element,
                          const void *elements, uint64_t count)
{
    bytes *b = start_key(w, key, RL_GGUF_ARRAY);
    put_u32(b, element);
    put_u64(b, count);
    put(b, elements, (size_t)count * scalar_bytes(element));
}

void rl_gguf_writer_strings(rl_gguf_writer *w, const char *key, const rl_gguf_string *strings,
                            uint64_t count)
{
    bytes *b = start_key(w, key, RL_GGUF_ARRAY);
    put_u32(b, RL_GGUF_STRING);
    put_u64(b, count);
    for (uint64_t i = 0; i < count; i++)
        put_string(b, strings[i].data, strings[i].bytes);
}

void rl_gguf_writer_copy(rl_gguf_writer *w, const char *key, const rl_gguf *source,
                         const rl_gguf_value *value)
{
    if (value->type == RL_GGUF_STRING) {
        rl_gguf_writer_string(w, key, rl_gguf_value_string(value));
    } else if (value->type != RL_GGUF_ARRAY) {
        rl_gguf_writer_scalar(w, key, value->type, value->data);
    } else if (value->element != RL_GGUF_STRING) {
        rl_gguf_writer_array(w, key, value->element, value->data, value->count);
    } else {
        bytes *b = start_key(w, key, RL_GGUF_ARRAY);
        put_u32(b, RL_GGUF_STRING);
        put_u64(b, value->count);
        for (uint64_t i = 0; i < value->count; i++) {
            rl_gguf_string string = rl_gguf_array_string(source, value, i);
            put_string(b, string.data, string.bytes);
        }
    }
}

/* ---- declaring ------------------------------------------------------------------------------ */

rl_status rl_gguf_writer_create(rl_gguf_writer **out, const char *path,
                                const rl_gguf_writer_params *params, rl_error *err)
{
    RL_ASSERT(out && path);
    *out = NULL;
    rl_gguf_writer *w = calloc(1, sizeof *w);
    if (w) w->path = strdup(path);
    if (!w || !w->path) {
        free(w);
        return rl_fail(err, RL_NOMEM, "%s: no memory to write it", path);
    }
    w->alignment = params && params->alignment ? params->alignment : DEFAULT_ALIGNMENT;
    RL_ASSERT(!(w->alignment & (w->alignment - 1)));
    w->n_parts = 1;
    *out = w;
    return RL_OK;
}

void rl_gguf_writer_tensor(rl_gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                           const uint64_t *dims)
{
    const rl_quant_info *info = rl_quant_find(type);
    size_t name_bytes = strlen(name);
    declared tensor = { .type = type, .n_dims = n_dims, .part = w->n_parts - 1 };
    uint64_t weights = 1;
    RL_ASSERT(!w->parts && info && name_bytes && name_bytes < sizeof tensor.name);
    RL_ASSERT(n_dims >= 1 && n_dims <= 4 && dims[0] % info->block == 0);
    for (uint32_t i = 0; i < n_dims; i++) {
        RL_ASSERT(dims[i] && rl_mul_u64(weights, dims[i], &weights));
        tensor.dims[i] = dims[i];
    }
    RL_ASSERT(rl_quant_bytes(info, weights, &tensor.bytes) && tensor.bytes < INT64_MAX / 2);
    memcpy(tensor.name, name, name_bytes + 1);
    if (rl_gguf_grow((void **)&w->tensors, &w->tensors_capacity, w->n_tensors, sizeof tensor))
        w->tensors[w->n_tensors++] = tensor;
    else
        w->no_memory = true;
}

void rl_gguf_writer_next_part(rl_gguf_writer *w)
{
    RL_ASSERT(!w->parts && w->n_parts < 65535);
    w->n_parts++;
}

/* ---- layout --------------------------------------------------------------------------------- */

static rl_status no_memory(const rl_gguf_writer *w, rl_error *err)
{
    return rl_fail(err, RL_NOMEM, "%s: no memory for its header", w->path);
}

/* No two tensors of one name. */
static rl_status check_names(const rl_gguf_writer *w, rl_error *err)
{
    gguf_name *names = calloc(w->n_tensors ? w->n_tensors : 1, sizeof *names);
    if (!names) return no_memory(w, err);
    for (size_t i = 0; i < w->n_tensors; i++)
        names[i] = (gguf_name){ .name = w->tensors[i].name, .index = i };
    int64_t twice = rl_gguf_sort_names(names, w->n_tensors);
    free(names);
    if (twice < 0) return RL_OK;
    return rl_fail(err, RL_INVALID, "%s: tensor %s was declared twice", w->path,
                   w->tensors[twice].name);
}

/* Where the file of a part goes. */
static char *make_part_path(const rl_gguf_writer *w, uint32_t part)
{
    size_t n = strlen(w->path);
    if (w->n_parts == 1) return strdup(w->path);
    if (n > 5 && !strcmp(w->path + n - 5, ".gguf")) n -= 5;
    char *path = malloc(n + 32);
    if (path)
        snprintf(path, n + 32, "%.*s-%05u-of-%05u.gguf", (int)n, w->path, part + 1, w->n_parts);
    return path;
}

/* Everything of a part before its data section, padded. */
static void encode_header(const rl_gguf_writer *w, uint32_t part, bytes *out)
{
    bool aligned = w->alignment != DEFAULT_ALIGNMENT, split = w->n_parts > 1;
    static const char zeros[64];
    uint64_t n_keys = (part ? 0 : w->n_keys) + (aligned ? 1 : 0) + (split ? 3 : 0);
    out->n = 0;
    put(out, "GGUF", 4);
    put_u32(out, VERSION);
    put_u64(out, w->parts[part].n_tensors);
    put_u64(out, n_keys);
    if (!part) put(out, w->keys.data, w->keys.n);
    if (aligned) {
        put_key(out, "general.alignment", RL_GGUF_U32);
        put_u32(out, w->alignment);
    }
    if (split) {
        uint16_t no = (uint16_t)part, count = (uint16_t)w->n_parts;
        int32_t tensors = (int32_t)w->n_tensors;
        put_key(out, "split.no", RL_GGUF_U16);
        put(out, &no, sizeof no);
        put_key(out, "split.count", RL_GGUF_U16);
        put(out, &count, sizeof count);
        put_key(out, "split.tensors.count", RL_GGUF_I32);
        put(out, &tensors, sizeof tensors);
    }
    for (size_t i = 0; i < w->n_tensors; i++) {
        const declared *tensor = &w->tensors[i];
        if (tensor->part != part) continue;
        put_string(out, tensor->name, strlen(tensor->name));
        put_u32(out, tensor->n_dims);
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            put_u64(out, tensor->dims[d]);
        put_u32(out, tensor->type);
        put_u64(out, tensor->offset);
    }
    if (!w->parts[part].n_tensors) return;
    while (!out->failed && out->n & (w->alignment - 1)) {
        size_t missing = w->alignment - (out->n & (w->alignment - 1));
        put(out, zeros, missing < sizeof zeros ? missing : sizeof zeros);
    }
}

static rl_status begin_part(rl_gguf_writer *w, uint32_t part, rl_error *err)
{
    bytes header = { 0 };
    rl_status status = rl_file_writer_open(&w->parts[part].file, w->parts[part].path, err);
    if (status) return status;
    w->part = part;
    encode_header(w, part, &header);
    status = header.failed ? no_memory(w, err)
                           : rl_file_writer_append(w->parts[part].file, header.data, header.n, err);
    free(header.data);
    return status;
}

/* Files up to and including `part` exist from here on, also those without tensors. */
static rl_status reach_part(rl_gguf_writer *w, uint32_t part, rl_error *err)
{
    rl_status status = RL_OK;
    while (w->part < part && !status) {
        status = rl_file_writer_seal(w->parts[w->part].file, err);
        if (!status) status = begin_part(w, w->part + 1, err);
    }
    return status;
}

static rl_status lay_out(rl_gguf_writer *w, rl_error *err)
{
    w->parts = calloc(w->n_parts, sizeof *w->parts);
    if (!w->parts) return no_memory(w, err);
    for (uint32_t p = 0; p < w->n_parts; p++) {
        w->parts[p].path = make_part_path(w, p);
        if (!w->parts[p].path) return no_memory(w, err);
    }
    uint64_t next = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        declared *tensor = &w->tensors[i];
        if (i && tensor->part != w->tensors[i - 1].part) next = 0;
        tensor->offset = next;
        next += rl_align_up(tensor->bytes, w->alignment);
        w->total_bytes += rl_align_up(tensor->bytes, w->alignment);
        w->parts[tensor->part].n_tensors++;
    }
    bytes header = { 0 };
    for (uint32_t p = 0; p < w->n_parts; p++) {
        encode_header(w, p, &header);
        w->total_bytes += header.n;
    }
    free(header.data);
    return header.failed ? no_memory(w, err) : RL_OK;
}

rl_status rl_gguf_writer_begin(rl_gguf_writer *w, rl_error *err)
{
    RL_ASSERT(!w->parts && w->n_tensors <= INT32_MAX);
    if (w->no_memory || w->keys.failed) return no_memory(w, err);
    rl_status status = check_names(w, err);
    if (!status) status = lay_out(w, err);
    if (!status) status = begin_part(w, 0, err);
    if (!status && w->n_tensors) status = reach_part(w, w->tensors[0].part, err);
    return status;
}

/* ---- data ----------------------------------------------------------------------------------- */

uint64_t rl_gguf_writer_total_bytes(const rl_gguf_writer *w)
{
    return w->total_bytes;
}

uint64_t rl_gguf_writer_due(const rl_gguf_writer *w, uint64_t *tensor)
{
    if (w->due == w->n_tensors) return 0;
    if (tensor) *tensor = w->due;
    return w->tensors[w->due].bytes - w->due_offset;
}

static rl_status pad(rl_gguf_writer *w, uint64_t n, rl_error *err)
{
    static const char zeros[64];
    rl_status status = RL_OK;
    while (n && !status) {
        size_t piece = n < sizeof zeros ? (size_t)n : sizeof zeros;
        status = rl_file_writer_append(w->parts[w->part].file, zeros, piece, err);
        n -= piece;
    }
    return status;
}

rl_status rl_gguf_writer_append(rl_gguf_writer *w, const void *data, size_t n, rl_error *err)
{
    RL_ASSERT(w->parts && n <= rl_gguf_writer_due(w, NULL));
    if (!n) return RL_OK;
    rl_status status = rl_file_writer_append(w->parts[w->part].file, data, n, err);
    if (status) return status;
    const declared *tensor = &w->tensors[w->due];
    w->due_offset += n;
    if (w->due_offset < tensor->bytes) return RL_OK;
    w->due++;
    w->due_offset = 0;
    status = pad(w, rl_align_up(tensor->bytes, w->alignment) - tensor->bytes, err);
    if (!status && w->due < w->n_tensors) status = reach_part(w, w->tensors[w->due].part, err);
    return status;
}

rl_status rl_gguf_writer_finish(rl_gguf_writer *w, rl_error *err)
{
    RL_ASSERT(w->parts && w->due == w->n_tensors);
    rl_status status = reach_part(w, w->n_parts - 1, err);
    if (!status) status = rl_file_writer_seal(w->parts[w->part].file, err);
    uint32_t part = w->n_parts;
    while (part && !status) {
        rl_file_writer *file = w->parts[part - 1].file;
        w->parts[part - 1].file = NULL;
        status = rl_file_writer_commit(file, err);
        if (!status) part--;
    }
    if (status)
        for (uint32_t p = part; p < w->n_parts; p++)
            remove(w->parts[p].path);
    return status;
}

void rl_gguf_writer_destroy(rl_gguf_writer *w)
{
    if (!w) return;
    for (uint32_t p = 0; w->parts && p < w->n_parts; p++) {
        rl_file_writer_abandon(w->parts[p].file);
        free(w->parts[p].path);
    }
    free(w->parts);
    free(w->tensors);
    free(w->keys.data);
    free(w->path);
    free(w);
}
