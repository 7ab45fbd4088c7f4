/* vocabulary.h - the tokens of a GGUF file: their bytes, their types, and the merges.
 *
 * A vocabulary is read once, checked in full, and copied: the file may be closed afterwards.
 * Normal tokens are written in the file in an alphabet of 256 characters that stand for bytes; here
 * they are raw bytes. Other tokens are plain text.
 * Format: docs/text.md. Threads: immutable once read. */
#ifndef RL_TEXT_VOCABULARY_H
#define RL_TEXT_VOCABULARY_H

#include "gguf/gguf.h"
#include "text/bpe.h"

/* As in tokenizer.ggml.token_type. Type 6 (byte) belongs to another kind of tokenizer. */
typedef enum rl_token_type {
    RL_TOKEN_NORMAL = 1,
    RL_TOKEN_UNKNOWN = 2,
    RL_TOKEN_CONTROL = 3,      /* <|im_end|>: structure, not text                       */
    RL_TOKEN_USER_DEFINED = 4, /* <think>: text, but always a token of its own          */
    RL_TOKEN_UNUSED = 5,       /* filler up to a round number; never produced, no bytes */
} rl_token_type;

typedef struct rl_vocabulary {
    uint32_t n;
    uint8_t *type;    /* [n] rl_token_type                        */
    uint32_t *offset; /* [n + 1] into bytes                       */
    char *bytes;      /* of all tokens, one behind the other      */
    /* The tokens that end a text, if the file has them under these names; RL_BPE_NO_TOKEN. */
    uint32_t endoftext; /* <|endoftext|> */
    uint32_t im_end;    /* <|im_end|>    */
} rl_vocabulary;

/* Reads tokenizer.ggml.tokens, .token_type and .merges (which may be missing) into *vocabulary and
 * *bpe. Refused, with file, key and index: everything that docs/text.md lists. On failure both are
 * as if never read. */
RL_MUST_CHECK rl_status rl_vocabulary_read(rl_vocabulary *vocabulary, rl_bpe *bpe,
                                           const rl_gguf *gguf, rl_error *err);
void rl_vocabulary_fini(rl_vocabulary *vocabulary);

#endif
