/* tokenizer.h - text to token ids and back, by the vocabulary of a GGUF file.
 *
 * Encoding: the texts of special tokens are found first; what lies between them is brought to NFC,
 * cut into pieces by the split pattern that the file names, and each piece goes through BPE.
 * Decoding: the bytes of the tokens, one behind the other; text/utf8_stream.h makes characters of
 * them. Rules: docs/text.md.
 *
 * Threads: an rl_tokenizer never changes after open; any number of threads may use one at the same
 * time, without locks: a call that needs working storage takes its own. */
#ifndef RL_TEXT_TOKENIZER_H
#define RL_TEXT_TOKENIZER_H

#include "gguf/gguf.h"
#include "text/text_buffer.h"
#include "text/tokens.h"
#include "text/vocabulary.h"

typedef struct rl_tokenizer rl_tokenizer;

/* Longest text that one call of rl_tokenizer_encode() takes. */
#define RL_TEXT_MAX_BYTES ((size_t)1 << 29)

/* Checks the tokenizer keys of the file in full (docs/text.md lists what is refused) and copies what
 * it needs; the rl_gguf may be closed afterwards. A sentence in err names file, key and index. */
RL_MUST_CHECK rl_status rl_tokenizer_open(rl_tokenizer **out, const rl_gguf *gguf, rl_error *err);
void rl_tokenizer_close(rl_tokenizer *tokenizer); /* NULL is fine */

/* What open will take at most for this file, the table that is gone afterwards included; nothing is
 * checked. */
uint64_t rl_tokenizer_planned_bytes(const rl_gguf *gguf);

/* ---- the vocabulary ------------------------------------------------------------------------- */

/* Number of tokens, fillers included: ids are below it. */
uint32_t rl_tokenizer_n_tokens(const rl_tokenizer *tokenizer);

/* These three take ids below n_tokens (asserted).
 * The bytes that a token stands for; borrowed until close, not terminated, NUL possible. Control
 * tokens give their text; unused ones nothing. */
rl_token_type rl_tokenizer_type(const rl_tokenizer *tokenizer, uint32_t id);
const char *rl_tokenizer_bytes(const rl_tokenizer *tokenizer, uint32_t id, size_t *bytes);
/* True for tokens that end generation: the file's eos, eot and eom, and <|endoftext|> and
 * <|im_end|> where they exist. */
bool rl_tokenizer_is_stop(const rl_tokenizer *tokenizer, uint32_t id);

/* All tokens for which is_stop is true, each once. */
const uint32_t *rl_tokenizer_stops(const rl_tokenizer *tokenizer, size_t *n);

typedef enum rl_special_name {
    RL_SPECIAL_BOS, /* tokenizer.ggml.bos_token_id, and so on */
    RL_SPECIAL_EOS,
    RL_SPECIAL_PADDING,
    RL_SPECIAL_UNKNOWN,
    RL_SPECIAL_EOT,
    RL_SPECIAL_EOM,
    RL_N_SPECIALS
} rl_special_name;

/* False when the file names no such token. */
bool rl_tokenizer_special(const rl_tokenizer *tokenizer, rl_special_name name, uint32_t *id);

/* The control or user-defined token with exactly this text; false when there is none. */
bool rl_tokenizer_find(const rl_tokenizer *tokenizer, const char *text, size_t bytes, uint32_t *id);

/* What the file asks for: add_bos_token, add_eos_token. */
bool rl_tokenizer_adds_bos(const rl_tokenizer *tokenizer);
bool rl_tokenizer_adds_eos(const rl_tokenizer *tokenizer);

/* ---- text to ids ---------------------------------------------------------------------------- */

enum {
    RL_ENCODE_SPECIAL = 1,  /* the texts of control tokens become these tokens (rendered chats);
                               without it they are plain text (what a user typed). User-defined
                               tokens are found in either case, fillers in neither            */
    RL_ENCODE_REPLACE = 2,  /* ill-formed UTF-8 becomes U+FFFD; without it, it is refused        */
    RL_ENCODE_SEQUENCE = 4, /* the text is a sequence of its own: BOS and EOS are added if, and
                               only if, the file asks for them                                */
};

/* Appends the ids of `text` to *out; it must be a whole text, since characters and pieces do not
 * reach over the ends. On failure *out keeps what it had: RL_FORMAT with the offset of the first
 * byte that is not UTF-8, RL_INVALID for more than RL_TEXT_MAX_BYTES, RL_NOMEM.
 * Time O(bytes log(longest piece)); working storage O(bytes). */
RL_MUST_CHECK rl_status rl_tokenizer_encode(const rl_tokenizer *tokenizer, const char *text,
                                            size_t bytes, uint32_t flags, rl_tokens *out,
                                            rl_error *err);

/* ---- ids to text ---------------------------------------------------------------------------- */

enum {
    RL_DECODE_CONTROL = 1, /* control tokens give their text; without it, nothing */
};

/* Appends exactly the bytes of the tokens; they need not be well-formed UTF-8. Unused tokens give
 * nothing. An id that is not below n_tokens is RL_INVALID, and *out keeps what it had. */
RL_MUST_CHECK rl_status rl_tokenizer_decode(const rl_tokenizer *tokenizer, const uint32_t *ids,
                                            size_t n, uint32_t flags, rl_text_buffer *out,
                                            rl_error *err);

#endif
