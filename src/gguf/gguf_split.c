/* gguf_split.c - models that come as several files, NAME-00001-of-000NN.gguf (rule 24).
 *
 * The user names the first part. It says how many there are; the names of the others follow from
 * its own, and each must agree about its number and the totals. */
#include "gguf/gguf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define MAX_PARTS 65535
/* "-00001-of-00003.gguf" */
#define TAIL_BYTES 20

/* The numbers in the end of a path; false when it does not follow the pattern. */
static bool parse_tail(const char *path, uint32_t *number, uint32_t *count)
{
    size_t n = strlen(path);
    if (n < TAIL_BYTES) return false;
    const char *tail = path + n - TAIL_BYTES;
    if (tail[0] != '-' || memcmp(tail + 6, "-of-", 4) || memcmp(tail + 15, ".gguf", 5))
        return false;
    *number = *count = 0;
    for (int i = 0; i < 5; i++) {
        char a = tail[1 + i], b = tail[10 + i];
        if (a < '0' || a > '9' || b < '0' || b > '9') return false;
        *number = *number * 10 + (uint32_t)(a - '0');
        *count = *count * 10 + (uint32_t)(b - '0');
    }
    return true;
}

/* The path of part `index` (from 0); the caller frees. NULL without memory. */
static char *part_path(const char *path, uint32_t index, uint32_t count)
{
    size_t stem = strlen(path) - TAIL_BYTES;
    char *out = malloc(stem + 48);
    if (!out) return NULL;
    memcpy(out, path, stem);
    snprintf(out + stem, 48, "-%05u-of-%05u.gguf", index + 1, count);
    return out;
}

/* An integer key of one part. Absent: *found is false. */
static rl_status split_key(const gguf_part *part, const char *key, uint64_t *out, bool *found,
                           rl_error *err)
{
    rl_gguf_value value;
    *found = rl_gguf_part_find(part, key, &value);
    if (!*found || rl_gguf_value_u64(&value, out)) return RL_OK;
    return rl_fail(err, RL_FORMAT, "%s: key %s is no integer, or negative (type %s)",
                   rl_file_path(part->file), key, rl_gguf_type_name(value.type));
}

static rl_status require_key(const gguf_part *part, const char *key, uint64_t *out, rl_error *err)
{
    bool found;
    rl_status status = split_key(part, key, out, &found, err);
    if (!status && !found)
        return rl_fail(err, RL_FORMAT, "%s: a part of a split file without the key %s",
                       rl_file_path(part->file), key);
    return status;
}

/* Every part says where it belongs and what the whole consists of. */
static rl_status check_part(const gguf_part *part, uint32_t index, uint64_t count,
                            uint64_t n_tensors, rl_error *err)
{
    const char *path = rl_file_path(part->file);
    uint64_t number, its_count, its_tensors;
    rl_status status = require_key(part, "split.no", &number, err);
    if (!status) status = require_key(part, "split.count", &its_count, err);
    if (!status) status = require_key(part, "split.tensors.count", &its_tensors, err);
    if (status) return status;
    if (number != index)
        return rl_fail(err, RL_FORMAT, "%s: split.no is %llu, this part should say %u", path,
                       (unsigned long long)number, index);
    if (its_count != count)
        return rl_fail(err, RL_FORMAT, "%s: split.count is %llu, the first part says %llu", path,
                       (unsigned long long)its_count, (unsigned long long)count);
    if (its_tensors != n_tensors)
        return rl_fail(err, RL_FORMAT, "%s: split.tensors.count is %llu, the first part says %llu",
                       path, (unsigned long long)its_tensors, (unsigned long long)n_tensors);
    return RL_OK;
}

/* The file's own name must fit what its keys say. */
static rl_status check_first(const gguf_part *first, uint64_t count, rl_error *err)
{
    const char *path = rl_file_path(first->file);
    uint32_t named_number, named_count;
    uint64_t number;
    rl_status status = require_key(first, "split.no", &number, err);
    if (status) return status;
    if (count > MAX_PARTS)
        return rl_fail(err, RL_FORMAT, "%s: split.count is %llu, more than %d parts", path,
                       (unsigned long long)count, MAX_PARTS);
    bool pattern = parse_tail(path, &named_number, &named_count);
    if (number) {
        char *first_path = pattern ? part_path(path, 0, (uint32_t)count) : NULL;
        status = rl_fail(err, RL_FORMAT,
                         "%s: this is part %llu of a model split in %llu files (split.no); name "
                         "the first part, %s",
                         path, (unsigned long long)number + 1, (unsigned long long)count,
                         first_path ? first_path : "the file that ends in -00001-of-NNNNN.gguf");
        free(first_path);
        return status;
    }
    if (!pattern || named_number != 1 || named_count != count)
        return rl_fail(err, RL_FORMAT,
                       "%s: the first of %llu parts (split.count), but its name does not end in "
                       "-00001-of-%05llu.gguf, so the others cannot be found",
                       path, (unsigned long long)count, (unsigned long long)count);
    return RL_OK;
}

rl_status rl_gguf_read_split(rl_gguf *gguf, rl_error *err)
{
    uint64_t count, n_tensors, found_tensors = gguf->parts[0].n_infos;
    bool found;
    RL_ASSERT(gguf->n_parts == 1);
    rl_status status = split_key(&gguf->parts[0], "split.count", &count, &found, err);
    if (status) return status;
    if (!found || count <= 1) return RL_OK;
    status = check_first(&gguf->parts[0], count, err);
    if (!status) status = require_key(&gguf->parts[0], "split.tensors.count", &n_tensors, err);
    if (status) return status;
    for (uint32_t i = 1; i < count; i++) {
        size_t capacity = gguf->parts_capacity;
        if (!rl_gguf_grow((void **)&gguf->parts, &capacity, i, sizeof *gguf->parts))
            return rl_fail(err, RL_NOMEM, "%s: no memory for part %u", rl_gguf_path(gguf), i + 1);
        gguf->parts_capacity = (uint32_t)capacity;
        const char *first_path = rl_file_path(gguf->parts[0].file);
        char *path = part_path(first_path, i, (uint32_t)count);
        if (!path) return rl_fail(err, RL_NOMEM, "%s: no memory for part %u", first_path, i + 1);
        gguf_part *part = &gguf->parts[i];
        *part = (gguf_part){ 0 };
        gguf->n_parts = i + 1; /* from here on it is closed with the rest */
        rl_error why = { "" };
        status = rl_gguf_part_read(part, path, &why);
        if (status == RL_IO && !part->file)
            rl_fail(err, status, "%s: part %u of %llu of this split model cannot be opened: %s",
                    first_path, i + 1, (unsigned long long)count, why.text);
        else if (status)
            rl_fail(err, status, "%s", why.text);
        free(path);
        if (!status) status = check_part(part, i, count, n_tensors, err);
        if (status) return status;
        found_tensors += part->n_infos;
    }
    if (found_tensors != n_tensors)
        return rl_fail(err, RL_FORMAT,
                       "%s: split.tensors.count is %llu, but the %llu parts hold %llu tensors",
                       rl_file_path(gguf->parts[0].file), (unsigned long long)n_tensors,
                       (unsigned long long)count, (unsigned long long)found_tensors);
    return RL_OK;
}
