/* splitter.h - cuts ordinary text into the pieces within which BPE may join bytes.
 *
 * Which cuts is a property of the vocabulary: the GGUF key tokenizer.ggml.pre names one of the
 * published split patterns, and PCRE2 runs it (UTF, UCP, compiled to machine code where the system
 * allows that). The pieces of a text follow each other without gaps. The pattern looks ahead but
 * never behind, so the text may be cut only at its own ends.
 * Rules: docs/text.md. Cases: tests/fixtures/tokenizer/splits.jsonl. */
#ifndef RL_TEXT_SPLITTER_H
#define RL_TEXT_SPLITTER_H

#include "base/status.h"

typedef struct rl_splitter rl_splitter; /* the compiled pattern; immutable, any thread */
typedef struct rl_split rl_split;       /* what one thread needs to run it             */

/* `name` is the value of tokenizer.ggml.pre, not terminated. An unknown one is RL_UNSUPPORTED and
 * the sentence begins with `where` (file and key) and lists the known ones. */
RL_MUST_CHECK rl_status rl_splitter_create(rl_splitter **out, const char *where, const char *name,
                                           size_t name_bytes, rl_error *err);
void rl_splitter_destroy(rl_splitter *splitter); /* NULL is fine */

RL_MUST_CHECK rl_status rl_split_create(rl_split **out, const rl_splitter *splitter, rl_error *err);
void rl_split_destroy(rl_split *split); /* NULL is fine */

/* From now on without machine code, as where the system forbids it; for tests. */
void rl_split_interpret(rl_split *split);

/* The piece of well-formed `text` that begins at `at` < bytes: *end is the offset behind it. Time is
 * proportional to the white space or the piece at hand. */
RL_MUST_CHECK rl_status rl_split_next(rl_split *split, const char *text, size_t bytes, size_t at,
                                      size_t *end, rl_error *err);

/* The same, always through the pattern: what the short cuts of rl_split_next are tested against. */
RL_MUST_CHECK rl_status rl_split_next_by_pattern(rl_split *split, const char *text, size_t bytes,
                                                 size_t at, size_t *end, rl_error *err);

#endif
