/* gguf_write.h - writes GGUF files, whole or in parts, without ever holding the tensor data.
 *
 * Order of calls: create; keys and tensor declarations in any order; begin, which fixes the layout
 * and writes the header; the bytes of every tensor in the order of declaration; finish.
 *     rl_gguf_writer_create(&w, path, NULL, err);
 *     rl_gguf_writer_text(w, "general.architecture", "qwen3next");   no status: see below
 *     rl_gguf_writer_tensor(w, "a.weight", RL_QUANT_F32, 1, dims);
 *     rl_gguf_writer_begin(w, err);
 *     rl_gguf_writer_append(w, bytes, n, err);                       any number of pieces
 *     rl_gguf_writer_finish(w, err);
 *     rl_gguf_writer_destroy(w);
 * Keys and declarations only go to memory; a shortage there is remembered and told by begin.
 * Nothing has its final name before finish: without it, destroy removes what was written.
 * Tensors start at multiples of the alignment, in order, as other readers insist.
 * Threads: one owner. */
#ifndef RL_GGUF_GGUF_WRITE_H
#define RL_GGUF_GGUF_WRITE_H

#include "gguf/gguf.h"

typedef struct rl_gguf_writer rl_gguf_writer;

typedef struct rl_gguf_writer_params {
    uint32_t alignment; /* a power of two; 0: 32, and then no general.alignment is written */
} rl_gguf_writer_params;

/* params may be NULL. The path is copied. With more than one part (rl_gguf_writer_next_part) the
 * files are PATH-00001-of-0000N.gguf, where PATH loses its ".gguf". */
RL_MUST_CHECK rl_status rl_gguf_writer_create(rl_gguf_writer **out, const char *path,
                                              const rl_gguf_writer_params *params, rl_error *err);
void rl_gguf_writer_destroy(rl_gguf_writer *writer); /* NULL is fine */

/* ---- keys ------------------------------------------------------------------------------------
 * All go to the first part. Each only once (the caller knows what it wrote); general.alignment and
 * split.* come by themselves (asserted). */

/* A single number or bool; `bits` are its bytes, for all types but string and array. */
void rl_gguf_writer_scalar(rl_gguf_writer *writer, const char *key, rl_gguf_type type,
                           const void *bits);
void rl_gguf_writer_u32(rl_gguf_writer *writer, const char *key, uint32_t value);
void rl_gguf_writer_f32(rl_gguf_writer *writer, const char *key, float value);
void rl_gguf_writer_bool(rl_gguf_writer *writer, const char *key, bool value);
void rl_gguf_writer_text(rl_gguf_writer *writer, const char *key, const char *text);
void rl_gguf_writer_string(rl_gguf_writer *writer, const char *key, rl_gguf_string value);
/* Arrays: of numbers or bools, `count` elements as they lie in memory; of strings. */
void rl_gguf_writer_array(rl_gguf_writer *writer, const char *key, rl_gguf_type element,
                          const void *elements, uint64_t count);
void rl_gguf_writer_strings(rl_gguf_writer *writer, const char *key, const rl_gguf_string *strings,
                            uint64_t count);
/* A value of any type as another file has it. */
void rl_gguf_writer_copy(rl_gguf_writer *writer, const char *key, const rl_gguf *source,
                         const rl_gguf_value *value);

/* ---- tensors -------------------------------------------------------------------------------- */

/* Declares the next tensor. Asserted: a name of 1 to 63 bytes, 1 to 4 dims that are not 0, a known
 * type, whole blocks. */
void rl_gguf_writer_tensor(rl_gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                           const uint64_t *dims);
/* Tensors declared from here on go to another part. */
void rl_gguf_writer_next_part(rl_gguf_writer *writer);

/* Fixes the layout and writes the header of the first part. RL_INVALID for duplicate names. */
RL_MUST_CHECK rl_status rl_gguf_writer_begin(rl_gguf_writer *writer, rl_error *err);

/* Appends to the tensor that is due; not beyond its end (asserted). Padding and the change to the
 * next part come by themselves. */
RL_MUST_CHECK rl_status rl_gguf_writer_append(rl_gguf_writer *writer, const void *bytes, size_t n,
                                              rl_error *err);
/* Bytes that the tensor which is due still needs, and its number in the order of declaration; 0
 * when all are complete. */
uint64_t rl_gguf_writer_due(const rl_gguf_writer *writer, uint64_t *tensor);

/* Sum of all parts, once begin fixed it. */
uint64_t rl_gguf_writer_total_bytes(const rl_gguf_writer *writer);

/* Gives the files their names; all tensors must be complete (asserted). The first part comes last,
 * so a model that can be opened is whole. On failure none of the files is left. */
RL_MUST_CHECK rl_status rl_gguf_writer_finish(rl_gguf_writer *writer, rl_error *err);

#endif
