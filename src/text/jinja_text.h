/* jinja_text.h - characters and case as Python's str knows them.
 *
 * All texts are well-formed UTF-8. Case conversion is full (one character may become several, and
 * a sigma at the end of a word is a final one). Properties come from utf8proc.
 * Threads: no state, any thread. */
#ifndef RL_TEXT_JINJA_TEXT_H
#define RL_TEXT_JINJA_TEXT_H

#include "text/text_buffer.h"
#include "text/value.h"

bool rl_code_is_space(uint32_t code);   /* str.isspace */
bool rl_code_is_alpha(uint32_t code);   /* str.isalpha */
bool rl_code_is_decimal(uint32_t code); /* str.isdecimal */
bool rl_code_is_word(uint32_t code);    /* \w of regular expressions */
bool rl_code_is_lower(uint32_t code);
bool rl_code_is_upper(uint32_t code);
bool rl_code_is_title(uint32_t code);     /* Dz and its like */
bool rl_code_is_printable(uint32_t code); /* repr() shows it as it is */
bool rl_code_is_line_end(uint32_t code);  /* str.splitlines ends a line here */

/* The character that ends at text + bytes (bytes > 0); *length is its size. */
uint32_t rl_text_last_code(const char *text, size_t bytes, size_t *length);

/* The bytes of white space that begin or end the text. */
size_t rl_text_leading_space(const char *text, size_t bytes);
size_t rl_text_trailing_space(const char *text, size_t bytes);

/* The offset of character number `index`, or `bytes` when there are fewer. */
size_t rl_text_offset(const rl_string *text, size_t index);

/* The offset of the first (last) occurrence of a needle, or SIZE_MAX. An empty needle is found at
 * once. Time O(bytes + needle_bytes). */
size_t rl_text_find(const char *text, size_t bytes, const char *needle, size_t needle_bytes);
size_t rl_text_find_last(const char *text, size_t bytes, const char *needle, size_t needle_bytes);

typedef enum rl_case {
    RL_CASE_LOWER,
    RL_CASE_UPPER,
    RL_CASE_CAPITAL, /* str.capitalize: first character title case, the others lower */
    RL_CASE_TITLE    /* str.title: so for every run of letters */
} rl_case;

/* Appends the text in another case. */
RL_MUST_CHECK rl_status rl_text_change_case(rl_text_buffer *out, const char *text, size_t bytes,
                                            rl_case to, rl_error *err);

#endif
