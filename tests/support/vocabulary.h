/* vocabulary.h - vocabularies for tests: the real one, small ones made to order, and JSON lines. */
#ifndef RL_TESTS_SUPPORT_VOCABULARY_H
#define RL_TESTS_SUPPORT_VOCABULARY_H

#include <cjson/cJSON.h>

#include "text/tokenizer.h"

/* Unpacks the Qwen3 vocabulary into the build folder, with this split pattern ("qwen2" as it is
 * published, or "qwen35"), and returns the path, in static storage. */
const char *rl_test_qwen3_vocabulary(const char *pre);

/* Opens the tokenizer of a file, or fails the test. */
rl_tokenizer *rl_test_tokenizer(const char *path);

/* Every line of a .jsonl file as an item of an array; the caller deletes. NUL characters, which a C
 * string cannot hold, come out as U+FDD0: rl_test_text() gives the true text. */
cJSON *rl_test_jsonl(const char *path);

/* The string `key` of an object with its NULs; `out` is overwritten. */
void rl_test_text(const cJSON *object, const char *key, rl_text_buffer *out);

/* The array of ids `key` of an object; `out` is overwritten. */
void rl_test_ids(const cJSON *object, const char *key, rl_tokens *out);

/* ---- small vocabularies ---------------------------------------------------------------------- */

typedef struct rl_test_string {
    char *data; /* owned */
    size_t bytes;
} rl_test_string;

/* A vocabulary that can be spoilt before it is written. */
typedef struct rl_test_vocabulary {
    rl_test_string *tokens;
    int32_t *types;
    size_t n_tokens;
    size_t n_types; /* entries of token_type written; normally n_tokens */
    rl_test_string *merges;
    size_t n_merges;
    const char *model; /* NULL: the key is left out, here and below */
    const char *pre;
    const char *id_key; /* one special id */
    uint32_t id;
    int add_bos, add_eos; /* -1: left out */
    bool no_tokens, no_types, no_merges;
    bool types_are_strings; /* token_type is written as an array of strings */
} rl_test_vocabulary;

/* 256 byte tokens (ids 0 to 255 in the order of the bytes), merges over a, b, c, space and the bytes
 * of some characters, two fillers, and special tokens that are prefixes of each other:
 * control <|endoftext|>, <|im_start|>, <|im_end|>, <|im|>, <|im|>>; user-defined <think>, </think>. */
void rl_test_vocabulary_init(rl_test_vocabulary *v);
void rl_test_vocabulary_fini(rl_test_vocabulary *v);
uint32_t rl_test_vocabulary_add(rl_test_vocabulary *v, const char *text, int32_t type);
void rl_test_vocabulary_set(rl_test_string *string, const void *data, size_t bytes);
void rl_test_vocabulary_add_merge(rl_test_vocabulary *v, const char *merge);

/* Writes it as a GGUF file without tensors; false when that fails. */
bool rl_test_vocabulary_write(const rl_test_vocabulary *v, const char *path);

/* The character that stands for a byte in token texts, terminated. */
void rl_test_byte_character(unsigned byte, char out[5]);

#endif
