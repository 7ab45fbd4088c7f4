/* jinja.h - the template language of chat templates: parse once, render many times.
 *
 * The definition of right is Python's jinja2 3.1 as chat templates are used there: an immutable
 * sandboxed environment with trim_blocks and lstrip_blocks, loop controls (break, continue), no
 * auto-escaping, `generation` blocks, the functions raise_exception and strftime_now, and a tojson
 * filter that writes plain JSON. What is supported stands in docs/templates.md; whatever is
 * not supported fails with its name and line. A template sees its variables and nothing else.
 *
 * Hostile templates are expected: steps, recursion, output and memory are bounded.
 * Threads: a parsed template is never written to, any number of threads may render it. */
#ifndef RL_TEXT_JINJA_H
#define RL_TEXT_JINJA_H

#include "base/status.h"
#include "text/value.h"

typedef struct rl_jinja rl_jinja;

/* Parses a template of at most 4 MiB. `name` stands in errors ("chat template"). On success *out
 * owns the parsed form: rl_jinja_destroy().
 * RL_FORMAT: not a template, and the sentence names the line; RL_UNSUPPORTED: a statement that does
 * not exist here; RL_INVALID: too large or nested too deeply; RL_NOMEM. */
RL_MUST_CHECK rl_status rl_jinja_parse(rl_jinja **out, const char *text, size_t bytes,
                                       const char *name, rl_error *err);
void rl_jinja_destroy(rl_jinja *jinja); /* NULL is fine */

/* Bounds of one rendering. A field left zero means the default. */
typedef struct rl_jinja_limits {
    uint64_t max_steps; /* default 10 million: evaluated nodes, handled items, 64-byte pieces */
    unsigned max_depth; /* default 1000: nested expressions, statements and macro calls       */
    size_t
        max_output_bytes; /* default 64 MiB                                                     */
} rl_jinja_limits;

/* rl_value.mark: the caller may mark values that go into a template, and learns what the template
 * did with them or with copies of them. */
enum { RL_JINJA_MARKS = 4 }; /* marks are 1..3; 0: not marked */

typedef enum rl_jinja_use {
    RL_JINJA_USED = 1,    /* an operator, filter, attribute or loop was applied, or it was shown */
    RL_JINJA_TESTED = 2,  /* its type was asked for: `is string`, `is mapping` ...              */
    RL_JINJA_AS_JSON = 4, /* the tojson filter was applied                                      */
    RL_JINJA_SPELLED = 8  /* it is a string, and something went over its characters             */
} rl_jinja_use;

typedef struct rl_jinja_uses {
    unsigned seen[RL_JINJA_MARKS]; /* rl_jinja_use bits per mark           */
    unsigned last;                 /* the mark that was used last, 0: none */
} rl_jinja_uses;

typedef struct rl_jinja_params {
    rl_jinja_limits limits;
    int64_t now;         /* Unix time for strftime_now, shown in local time; 0: the clock */
    rl_jinja_uses *uses; /* out, filled on success and on failure; may be NULL            */
} rl_jinja_params;

/* Renders with the members of `variables` (keys are strings). Work memory comes from the arena,
 * whose limit bounds it, and may be shared with the variables. *text is malloc'ed, with a NUL
 * behind it. params may be NULL.
 * RL_INVALID: the template refused the values (raise_exception, a type error, an undefined value
 * used), or a bound was hit; RL_UNSUPPORTED: something that exists in Python but not here;
 * RL_NOMEM. The sentence gives the line. */
RL_MUST_CHECK rl_status rl_jinja_render(const rl_jinja *jinja, rl_arena *arena,
                                        const rl_dict *variables, const rl_jinja_params *params,
                                        char **text, size_t *bytes, rl_error *err);

#endif
