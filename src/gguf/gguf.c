/* gguf.c - opening a model's files, and finding keys and tensors in them. */
#include "gguf/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* ---- lists ---------------------------------------------------------------------------------- */

bool rl_gguf_grow(void **array, size_t *capacity, size_t n, size_t element_bytes)
{
    if (n < *capacity) return true;
    size_t larger = *capacity ? *capacity * 2 : 16;
    uint64_t bytes;
    if (!rl_mul_u64(larger, element_bytes, &bytes)) return false;
    void *moved = realloc(*array, (size_t)bytes);
    if (!moved) return false;
    *array = moved;
    *capacity = larger;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const gguf_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order) return order;
    return x->index < y->index ? -1 : x->index > y->index;
}

int64_t rl_gguf_sort_names(gguf_name *names, size_t n)
{
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(names[i - 1].name, names[i].name)) return (int64_t)names[i].index;
    return -1;
}

const gguf_name *rl_gguf_find_name(const gguf_name *names, size_t n, const char *name)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle].name, name);
        if (!order) return &names[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Joins the tensor records of all parts to one list with names and absolute offsets. */
static rl_status join_tensors(rl_gguf *gguf, rl_error *err)
{
    const char *path = rl_gguf_path(gguf);
    uint64_t n = 0;
    for (uint32_t p = 0; p < gguf->n_parts; p++)
        n += gguf->parts[p].n_infos;
    gguf->tensors = calloc(n ? n : 1, sizeof *gguf->tensors);
    gguf->tensors_by_name = calloc(n ? n : 1, sizeof *gguf->tensors_by_name);
    if (!gguf->tensors || !gguf->tensors_by_name)
        return rl_fail(err, RL_NOMEM, "%s: no memory for %llu tensor records", path,
                       (unsigned long long)n);
    for (uint32_t p = 0; p < gguf->n_parts; p++) {
        gguf_part *part = &gguf->parts[p];
        for (size_t i = 0; i < part->n_infos; i++) {
            const gguf_info *info = &part->infos[i];
            rl_gguf_tensor *tensor = &gguf->tensors[gguf->n_tensors];
            *tensor = (rl_gguf_tensor){ .name = (const char *)part->buffer + info->name,
                                        .type = info->type,
                                        .n_dims = info->n_dims,
                                        .bytes = info->bytes,
                                        .offset = part->data_start + info->offset,
                                        .part = p };
            memcpy(tensor->dims, info->dims, sizeof tensor->dims);
            gguf->tensors_by_name[gguf->n_tensors] =
                (gguf_name){ .name = tensor->name, .index = gguf->n_tensors };
            gguf->n_tensors++;
        }
        free(part->infos);
        part->infos = NULL;
    }
    int64_t twice = rl_gguf_sort_names(gguf->tensors_by_name, (size_t)n);
    if (twice < 0) return RL_OK;
    return rl_fail(err, RL_FORMAT, "%s: duplicate tensor: %s occurs twice",
                   rl_file_path(gguf->parts[gguf->tensors[twice].part].file),
                   gguf->tensors[twice].name);
}

rl_status rl_gguf_open(rl_gguf **out, const char *path, rl_error *err)
{
    RL_ASSERT(out && path);
    *out = NULL;
    rl_gguf *gguf = calloc(1, sizeof *gguf);
    if (gguf) gguf->parts = calloc(1, sizeof *gguf->parts);
    if (!gguf || !gguf->parts) {
        rl_gguf_close(gguf);
        return rl_fail(err, RL_NOMEM, "%s: no memory to open it", path);
    }
    gguf->n_parts = gguf->parts_capacity = 1;
    rl_status status = rl_gguf_part_read(&gguf->parts[0], path, err);
    if (!status) status = rl_gguf_read_split(gguf, err);
    if (!status) status = join_tensors(gguf, err);
    if (status)
        rl_gguf_close(gguf);
    else
        *out = gguf;
    return status;
}

void rl_gguf_close(rl_gguf *gguf)
{
    if (!gguf) return;
    for (uint32_t i = 0; i < gguf->n_parts; i++)
        rl_gguf_part_fini(&gguf->parts[i]);
    free(gguf->parts);
    free(gguf->tensors);
    free(gguf->tensors_by_name);
    free(gguf);
}

/* ---- questions ------------------------------------------------------------------------------ */

const char *rl_gguf_path(const rl_gguf *gguf)
{
    return rl_file_path(gguf->parts[0].file);
}

uint32_t rl_gguf_version(const rl_gguf *gguf)
{
    return gguf->parts[0].version;
}

uint32_t rl_gguf_n_parts(const rl_gguf *gguf)
{
    return gguf->n_parts;
}

const rl_file *rl_gguf_part(const rl_gguf *gguf, uint32_t part)
{
    RL_ASSERT(part < gguf->n_parts);
    return gguf->parts[part].file;
}

uint64_t rl_gguf_total_bytes(const rl_gguf *gguf)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gguf->n_parts; i++)
        bytes += rl_file_size(gguf->parts[i].file);
    return bytes;
}

uint64_t rl_gguf_memory_bytes(const rl_gguf *gguf)
{
    uint64_t bytes = gguf->n_tensors * (sizeof *gguf->tensors + sizeof *gguf->tensors_by_name);
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        const gguf_part *p = &gguf->parts[i];
        bytes += p->n_buffer + p->n_keys * sizeof *p->keys_by_name +
                 p->keys_capacity * sizeof *p->keys + p->strings_capacity * sizeof *p->strings +
                 p->infos_capacity * sizeof *p->infos;
    }
    return bytes;
}

uint64_t rl_gguf_n_tensors(const rl_gguf *gguf)
{
    return gguf->n_tensors;
}

const rl_gguf_tensor *rl_gguf_tensor_at(const rl_gguf *gguf, uint64_t index)
{
    RL_ASSERT(index < gguf->n_tensors);
    return &gguf->tensors[index];
}

const rl_gguf_tensor *rl_gguf_find_tensor(const rl_gguf *gguf, const char *name)
{
    const gguf_name *entry =
        rl_gguf_find_name(gguf->tensors_by_name, (size_t)gguf->n_tensors, name);
    return entry ? &gguf->tensors[entry->index] : NULL;
}

static rl_gguf_value value_of(const gguf_part *part, const gguf_key *key)
{
    rl_gguf_value value = { .type = (rl_gguf_type)key->type,
                            .element = (rl_gguf_type)key->element,
                            .count = key->count };
    if (key->type == RL_GGUF_ARRAY && key->element == RL_GGUF_STRING)
        value.data = part->strings ? part->strings + key->payload : NULL;
    else
        value.data = part->buffer + key->payload;
    return value;
}

bool rl_gguf_part_find(const gguf_part *part, const char *key, rl_gguf_value *value)
{
    const gguf_name *entry = rl_gguf_find_name(part->keys_by_name, part->n_keys, key);
    if (!entry) return false;
    *value = value_of(part, &part->keys[entry->index]);
    return true;
}

uint64_t rl_gguf_n_keys(const rl_gguf *gguf)
{
    return gguf->parts[0].n_keys;
}

const char *rl_gguf_key_at(const rl_gguf *gguf, uint64_t index, rl_gguf_value *value)
{
    const gguf_part *part = &gguf->parts[0];
    RL_ASSERT(index < part->n_keys);
    if (value) *value = value_of(part, &part->keys[index]);
    return (const char *)part->buffer + part->keys[index].name;
}

bool rl_gguf_find(const rl_gguf *gguf, const char *key, rl_gguf_value *value)
{
    return rl_gguf_part_find(&gguf->parts[0], key, value);
}

rl_gguf_string rl_gguf_array_string(const rl_gguf *gguf, const rl_gguf_value *array, uint64_t index)
{
    RL_ASSERT(array->type == RL_GGUF_ARRAY && array->element == RL_GGUF_STRING &&
              index < array->count);
    const uint32_t *offsets = array->data;
    const unsigned char *string = gguf->parts[0].buffer + offsets[index];
    return (rl_gguf_string){ .data = (const char *)string + 8,
                             .bytes = (size_t)rl_load_u64(string) };
}
