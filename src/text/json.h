/* json.h - a strict JSON reader that loses nothing, and the writer that goes with it.
 *
 * Reads RFC 8259 texts: well-formed UTF-8 only, no byte order mark, no comments, no trailing commas,
 * no NaN or Infinity, \u escapes with whole surrogate pairs only. Integers of any length keep all
 * digits, floats are doubles; keys keep their order; of equal keys the last value counts, at the
 * place of the first, as in Python. Why not a library: docs/decisions/0010-own-json-reader.md.
 * Threads: no state, any thread. */
#ifndef RL_TEXT_JSON_H
#define RL_TEXT_JSON_H

#include "text/text_buffer.h"
#include "text/value.h"

/* Arrays and objects within each other: the default bound of reader and writer. */
#define RL_JSON_DEPTH 200

/* Reads exactly one value, with white space around it allowed. Everything lies in the arena, whose
 * limit bounds the memory; a text of n bytes needs at most about 50 n. `what` names the text in
 * errors ("conversation"); max_depth 0 means RL_JSON_DEPTH.
 * RL_FORMAT: not JSON, and the sentence gives line and column; RL_INVALID: too deep or over the
 * arena's limit; RL_NOMEM. */
RL_MUST_CHECK rl_status rl_json_read(rl_arena *arena, const char *text, size_t bytes,
                                     const char *what, unsigned max_depth, rl_value *out,
                                     rl_error *err);

/* How to write; all zero is what Python's json.dumps(ensure_ascii=False) writes:
 * {"a": [1, 2.5, "x"]} */
typedef struct rl_json_style {
    const rl_string *indent;         /* one level; NULL: everything on one line               */
    const rl_string *item_separator; /* default ", ", with an indent ","                      */
    const rl_string *key_separator;  /* default ": "                                          */
    bool ascii;                      /* other characters as \u escapes                        */
    bool sort_keys;                  /* by code point                                         */
    unsigned max_depth;              /* 0: RL_JSON_DEPTH                                      */
    size_t max_bytes;                /* of the whole buffer; 0: no bound                      */
} rl_json_style;

/* Appends a value. style may be NULL. RL_INVALID with the type's name: undefined values, macros and
 * the like have no JSON form; too deep; or too long. On failure what was appended stays. */
RL_MUST_CHECK rl_status rl_json_write(rl_text_buffer *out, rl_value value,
                                      const rl_json_style *style, rl_error *err);

/* Appends a text (well-formed UTF-8) as a JSON string, with its quotes. */
RL_MUST_CHECK rl_status rl_json_write_string(rl_text_buffer *out, const char *text, size_t bytes,
                                             rl_error *err);

#endif
