/* jinja_builtins.h - the tables of what templates can call: filters, tests, methods, functions.
 *
 * A row's parameters are written as in Python: names with spaces between, the first `required` of
 * them without default. Arguments arrive in that order, MISSING where none was given. A leading
 * slash means that they cannot be given by name; "*" alone that the function takes its arguments
 * as they come. */
#ifndef RL_TEXT_JINJA_BUILTINS_H
#define RL_TEXT_JINJA_BUILTINS_H

#include "text/jinja_run.h"

enum { RL_JINJA_MAX_PARAMS = 5 };

typedef struct rl_jinja_filter {
    const char *name;
    const char *params;
    unsigned required;
    rl_value (*apply)(rl_jinja_run *run, rl_value subject, const rl_value *args);
    rl_value (*apply_free)(rl_jinja_run *run, rl_value subject, const rl_jinja_args *args);
} rl_jinja_filter;

typedef struct rl_jinja_test {
    const char *name;
    unsigned n_args;
    bool (*holds)(rl_jinja_run *run, rl_value subject, rl_value arg);
    bool asks_type; /* the answer depends on the type alone */
} rl_jinja_test;

/* What the result of a string method is, and whether string arguments are escaped, when the string
 * is marked safe. */
typedef enum rl_markup { RL_MARKUP_PLAIN, RL_MARKUP_WRAP, RL_MARKUP_LIST } rl_markup;

typedef struct rl_jinja_method {
    const char *name;
    const char *params;
    unsigned required;
    rl_value (*call)(rl_jinja_run *run, rl_value self, const rl_value *args);
    rl_markup markup;
} rl_jinja_method;

typedef struct rl_jinja_function {
    const char *name;
    rl_value (*call)(rl_jinja_run *run,
                     const rl_jinja_args *args); /* NULL: exists in Python only */
} rl_jinja_function;

typedef struct rl_bound_method {
    rl_value self;
    const rl_jinja_method *method;
} rl_bound_method;

/* NULL when there is no such thing here. */
const rl_jinja_filter *rl_jinja_find_filter(const rl_string *name);
const rl_jinja_test *rl_jinja_find_test(const rl_string *name);
const rl_jinja_function *rl_jinja_find_function(const rl_string *name);
bool rl_jinja_knows_filter(const rl_string *name); /* also those that only Python's jinja2 has */
bool rl_jinja_knows_test(const rl_string *name);

/* The method of a value, NULL when it has none of that name. Leaves with RL_UNSUPPORTED for
 * attributes that Python has and this does not; *unsafe: the sandbox forbids it. */
const rl_jinja_method *rl_jinja_find_method(rl_jinja_run *run, rl_value of, const rl_string *name,
                                            bool *unsafe);

/* Puts arguments in the order of `params` (see above) or leaves with a TypeError. */
void rl_jinja_bind(rl_jinja_run *run, const char *what, const char *name, const char *params,
                   unsigned required, const rl_jinja_args *args, rl_value *out);

rl_value rl_jinja_apply_filter(rl_jinja_run *run, const rl_string *name,
                               const rl_jinja_filter *filter, rl_value subject,
                               const rl_jinja_args *args);
bool rl_jinja_apply_test(rl_jinja_run *run, const rl_string *name, const rl_jinja_test *test,
                         rl_value subject, const rl_jinja_args *args);
rl_value rl_jinja_call_method(rl_jinja_run *run, rl_value self, const rl_jinja_method *method,
                              const rl_jinja_args *args);

/* Arguments of built-in functions: checked, with a default for MISSING. */
int64_t rl_jinja_int_arg(rl_jinja_run *run, rl_value value, int64_t fallback);
bool rl_jinja_bool_arg(rl_value value, bool fallback);
/* A string, or a TypeError that names `what`. */
const rl_string *rl_jinja_string_arg(rl_jinja_run *run, rl_value value, const char *what);

/* The filter tables, each in its own file; a row without name ends them. */
extern const rl_jinja_filter rl_jinja_text_filters[], rl_jinja_list_filters[];

#endif
