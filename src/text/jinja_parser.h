/* jinja_parser.h - what the two halves of the parser know of each other: jinja_parse.c reads
 * statements, jinja_expression.c expressions.
 *
 * Every function stands at the current token and leaves at the first one that it does not take.
 * Errors leave by longjmp (jinja_ast.h). */
#ifndef RL_TEXT_JINJA_PARSER_H
#define RL_TEXT_JINJA_PARSER_H

#include "text/jinja_ast.h"

typedef struct rl_parser {
    rl_jinja_source *source;
    rl_jinja_token token, ahead;
    unsigned nesting;
    unsigned loops;       /* around the current place, inside the current macro */
    rl_node_macro *macro; /* the innermost one being read, or NULL */
} rl_parser;

/* Takes the current token. */
rl_jinja_token rl_parser_next(rl_parser *p);
bool rl_parser_at_op(const rl_parser *p, rl_jinja_operator op);
bool rl_parser_at_name(const rl_parser *p, const char *name);
/* Takes the token if it is the one; says whether it was. */
bool rl_parser_skip_op(rl_parser *p, rl_jinja_operator op);
bool rl_parser_skip_name(rl_parser *p, const char *name);
void rl_parser_expect_op(rl_parser *p, rl_jinja_operator op);
rl_jinja_token rl_parser_expect_name(rl_parser *p);
/* "expected X, got Y", or "unexpected Y" when expected is NULL. */
_Noreturn void rl_parser_unexpected(rl_parser *p, const char *expected);

rl_node *rl_parser_node(rl_parser *p, rl_node_kind kind, uint32_t line);
void rl_parser_add(rl_parser *p, rl_node_list *list, rl_node *item);
/* Around everything that recurses: bounds the nesting. */
void rl_parser_enter(rl_parser *p);
void rl_parser_leave(rl_parser *p);

/* Expressions. A tuple is one expression, or several with commas between them. */
typedef enum rl_tuple_mode {
    RL_TUPLE_WHOLE,     /* any expressions                                                   */
    RL_TUPLE_NO_CHOICE, /* without "a if b else c" (conditions of statements)                */
    RL_TUPLE_ITERABLE,  /* the same, in front of "recursive" or "if"                         */
    RL_TUPLE_IN_PARENS, /* any expressions, may be empty                                     */
    RL_TUPLE_TARGET     /* names and literals only, in front of "in" or "="                  */
} rl_tuple_mode;
rl_node *rl_parse_tuple(rl_parser *p, rl_tuple_mode mode);
rl_node *rl_parse_expression(rl_parser *p);

/* A tuple of names, checked to be assignable. */
rl_node *rl_parse_target(rl_parser *p, rl_tuple_mode mode);

/* Filters around `subject`: "| name(args) | ..."; the second form begins with the bare name. */
rl_node *rl_parse_filters(rl_parser *p, rl_node *subject);
rl_node *rl_parse_first_filter(rl_parser *p, rl_node *subject);

#endif
