/* jinja_methods.h - what jinja_methods.c, jinja_string.c and the filters share. */
#ifndef RL_TEXT_JINJA_METHODS_H
#define RL_TEXT_JINJA_METHODS_H

#include "text/jinja_builtins.h"
#include "text/jinja_text.h"

/* Ends with a row without name. */
extern const rl_jinja_method rl_jinja_string_methods[];

/* The (key, value) tuples of a dict. */
rl_value rl_jinja_dict_items(rl_jinja_run *run, const rl_dict *dict, rl_list_flavor flavor);

/* The text in another case; safe stays safe. */
rl_value rl_jinja_change_case(rl_jinja_run *run, rl_value text, rl_case to);

/* Without the characters of `chars` (NONE or MISSING: white space) at its ends. */
rl_value rl_jinja_strip(rl_jinja_run *run, rl_value text, rl_value chars, bool left, bool right);

rl_value rl_jinja_replace(rl_jinja_run *run, rl_value text, rl_value from, rl_value to,
                          int64_t most);

/* Centred in `width` characters. */
rl_value rl_jinja_center(rl_jinja_run *run, rl_value text, int64_t width, rl_value fill);

/* The lines, with their ends if `keep`. */
rl_list *rl_jinja_lines(rl_jinja_run *run, rl_value text, bool keep);

#endif
