/* gguf_internal.h - what the files of gguf/ share and nobody else sees.
 *
 * One file on disk is one gguf_part. Its metadata lies in one buffer, as it lies in the file; keys
 * and strings are offsets into it while it still grows, and pointers afterwards. */
#ifndef RL_GGUF_INTERNAL_H
#define RL_GGUF_INTERNAL_H

#include "gguf/gguf.h"

typedef struct gguf_key {
    uint32_t name;    /* offset in the buffer; the bytes there are terminated                */
    uint8_t type;     /* rl_gguf_type                                                        */
    uint8_t element;  /* arrays: rl_gguf_type of the elements                                */
    uint64_t count;   /* arrays: elements; otherwise 1                                       */
    uint64_t payload; /* offset in the buffer; arrays of strings: first entry in `strings`   */
} gguf_key;

/* A tensor record as read; `bytes` is computed from dims and type. */
typedef struct gguf_info {
    uint32_t name; /* offset in the buffer, terminated */
    uint32_t type;
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t offset; /* from the start of the data section */
    uint64_t bytes;
} gguf_info;

/* An entry of a list sorted by name. */
typedef struct gguf_name {
    const char *name;
    uint64_t index;
} gguf_name;

typedef struct gguf_part {
    rl_file *file;
    uint32_t version;
    uint64_t alignment;
    uint64_t data_start; /* offset of the data section in the file */

    unsigned char *buffer; /* the first n_buffer bytes of the file */
    size_t n_buffer;
    gguf_key *keys;
    size_t n_keys, keys_capacity;
    gguf_name *keys_by_name; /* [n_keys] */
    uint32_t *strings;       /* offsets of the length fields of all strings in arrays */
    size_t n_strings, strings_capacity;
    gguf_info *infos;
    size_t n_infos, infos_capacity;
} gguf_part;

struct rl_gguf {
    gguf_part *parts;
    uint32_t n_parts;
    uint32_t parts_capacity; /* parts[i] beyond n_parts are zero */
    rl_gguf_tensor *tensors; /* of all parts, in file order */
    uint64_t n_tensors;
    gguf_name *tensors_by_name;
};

/* Opens one file and reads header, key/values and tensor records (rules 1 to 14). The part is
 * zeroed by the caller and must be given to rl_gguf_part_fini() whatever the result. */
RL_MUST_CHECK rl_status rl_gguf_part_read(gguf_part *part, const char *path, rl_error *err);
void rl_gguf_part_fini(gguf_part *part);

/* The value of a key of one part; false when absent. */
bool rl_gguf_part_find(const gguf_part *part, const char *key, rl_gguf_value *value);

/* After parts[0] was read: reads the others if it is the first of several, refuses it if it is
 * not the first (rule 24). parts is reallocated. */
RL_MUST_CHECK rl_status rl_gguf_read_split(rl_gguf *gguf, rl_error *err);

/* Sorts by name. The index of the second of two equal names, or -1. */
int64_t rl_gguf_sort_names(gguf_name *names, size_t n);
const gguf_name *rl_gguf_find_name(const gguf_name *names, size_t n, const char *name);

/* Makes room for one more element; false without memory. */
bool rl_gguf_grow(void **array, size_t *capacity, size_t n, size_t element_bytes);

/* Text from a file for an error sentence: at most 80 bytes, everything unprintable as '?'. */
typedef struct gguf_quoted {
    char text[88];
} gguf_quoted;
gguf_quoted rl_gguf_quote(const void *bytes, uint64_t n);

#endif
