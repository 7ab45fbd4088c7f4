/* gguf.h - the GGUF container: header, key/values, tensor directory; files split in parts.
 *
 * The container knows no model: what a key or tensor means is model/'s and text/'s business. All
 * metadata is read and checked at open; tensor bytes are never read here, only located.
 * Format: docs/formats-gguf.md. Threads: immutable after open, any thread may read. */
#ifndef RL_GGUF_GGUF_H
#define RL_GGUF_GGUF_H

#include "base/file.h"
#include "base/status.h"

typedef struct rl_gguf rl_gguf;

typedef enum rl_gguf_type {
    RL_GGUF_U8 = 0,
    RL_GGUF_I8,
    RL_GGUF_U16,
    RL_GGUF_I16,
    RL_GGUF_U32,
    RL_GGUF_I32,
    RL_GGUF_F32,
    RL_GGUF_BOOL,
    RL_GGUF_STRING,
    RL_GGUF_ARRAY,
    RL_GGUF_U64,
    RL_GGUF_I64,
    RL_GGUF_F64
} rl_gguf_type;

/* Bytes that belong to the rl_gguf; may contain NUL; not terminated. */
typedef struct rl_gguf_string {
    const char *data;
    size_t bytes;
} rl_gguf_string;

/* One value, or one array. */
typedef struct rl_gguf_value {
    rl_gguf_type type;    /* of the value, RL_GGUF_ARRAY for arrays                      */
    rl_gguf_type element; /* arrays: type of the elements                                */
    uint64_t count;       /* arrays: number of elements; 1 otherwise                     */
    const void *data;     /* the bytes as they lie in the file, little-endian, unaligned; strings:
                             u64 length, then the bytes (see rl_gguf_value_string());
                             arrays of strings: use rl_gguf_array_string()               */
} rl_gguf_value;

/* Where one tensor lies. */
typedef struct rl_gguf_tensor {
    const char *name; /* terminated                                                      */
    uint32_t type;    /* ggml type id, known to quant/                                   */
    uint32_t n_dims;  /* as stored, 1..4                                                 */
    uint64_t dims[4]; /* dims[0] is the row length; missing ones are 1                   */
    uint64_t bytes;   /* size of the data                                                */
    uint64_t offset;  /* absolute, in the file of its part                               */
    uint32_t part;    /* index into the parts of a split file, 0 otherwise               */
} rl_gguf_tensor;

/* Opens `path`, and all other parts when it is the first part of a split file. Every rule of the
 * container (docs/formats-gguf.md, rules 1 to 14 and 24) is checked; the sentence in err names the file
 * and the key or tensor at fault. On success *out owns everything: rl_gguf_close(). */
RL_MUST_CHECK rl_status rl_gguf_open(rl_gguf **out, const char *path, rl_error *err);
void rl_gguf_close(rl_gguf *gguf); /* NULL is fine */

const char *rl_gguf_path(const rl_gguf *gguf); /* of the first part */
uint32_t rl_gguf_version(const rl_gguf *gguf);
uint32_t rl_gguf_n_parts(const rl_gguf *gguf);
const rl_file *rl_gguf_part(const rl_gguf *gguf, uint32_t part); /* borrowed until close */
uint64_t rl_gguf_total_bytes(const rl_gguf *gguf);               /* of all parts */

/* Memory that the open file takes: keys, values and the tensor directory. */
uint64_t rl_gguf_memory_bytes(const rl_gguf *gguf);

uint64_t rl_gguf_n_tensors(const rl_gguf *gguf);
const rl_gguf_tensor *rl_gguf_tensor_at(const rl_gguf *gguf, uint64_t index);     /* file order */
const rl_gguf_tensor *rl_gguf_find_tensor(const rl_gguf *gguf, const char *name); /* or NULL */

uint64_t rl_gguf_n_keys(const rl_gguf *gguf); /* of the first part */
const char *rl_gguf_key_at(const rl_gguf *gguf, uint64_t index, rl_gguf_value *value);
/* false when there is no such key. */
bool rl_gguf_find(const rl_gguf *gguf, const char *key, rl_gguf_value *value);

/* Typed look-ups. A key that is absent leaves *out untouched and sets *found to false (found may
 * be NULL: then an absent key is RL_FORMAT). A key of the wrong type, or an integer that does not
 * fit, is RL_FORMAT with a sentence naming file and key. Integers of any width are accepted. */
RL_MUST_CHECK rl_status rl_gguf_get_u32(const rl_gguf *gguf, const char *key, uint32_t *out,
                                        bool *found, rl_error *err);
RL_MUST_CHECK rl_status rl_gguf_get_f32(const rl_gguf *gguf, const char *key, float *out,
                                        bool *found, rl_error *err);
RL_MUST_CHECK rl_status rl_gguf_get_bool(const rl_gguf *gguf, const char *key, bool *out,
                                         bool *found, rl_error *err);
RL_MUST_CHECK rl_status rl_gguf_get_string(const rl_gguf *gguf, const char *key,
                                           rl_gguf_string *out, bool *found, rl_error *err);

/* A value of type string (asserted). */
rl_gguf_string rl_gguf_value_string(const rl_gguf_value *value);
/* A single integer of any width as u64; false for other types and for negative ones. */
bool rl_gguf_value_u64(const rl_gguf_value *value, uint64_t *out);
/* Element `index` of an array of strings of the first part (asserted); O(1). */
rl_gguf_string rl_gguf_array_string(const rl_gguf *gguf, const rl_gguf_value *array,
                                    uint64_t index);
/* Element `index` of an array of integers or bools as i64 (asserted). */
int64_t rl_gguf_array_int(const rl_gguf_value *array, uint64_t index);

/* "u32" ... "f64"; "unknown" beyond. */
const char *rl_gguf_type_name(uint32_t type);
/* "IQ2_XXS", also for types that are no weights ("I32"). */
const char *rl_gguf_tensor_type_name(const rl_gguf_tensor *tensor);

#endif
