/* jinja_ast.h - tokens and syntax tree, shared by jinja_lex.c, jinja_parse.c and jinja_eval*.c.
 *
 * Everything lies in the template's own arena. Names are interned: equal names are the same
 * rl_string, so variables are found by comparing pointers. */
#ifndef RL_TEXT_JINJA_AST_H
#define RL_TEXT_JINJA_AST_H

#include <setjmp.h>
#include <stdarg.h>

#include "base/status.h"
#include "text/value.h"

/* ---- tokens --------------------------------------------------------------------------------- */

typedef enum rl_jinja_token_kind {
    RL_TOKEN_END, /* of the template */
    RL_TOKEN_DATA,
    RL_TOKEN_PRINT_BEGIN, /* {{ */
    RL_TOKEN_PRINT_END,   /* }} */
    RL_TOKEN_BLOCK_BEGIN, /* {% */
    RL_TOKEN_BLOCK_END,   /* %} */
    RL_TOKEN_NAME,
    RL_TOKEN_STRING,
    RL_TOKEN_NUMBER,
    RL_TOKEN_OPERATOR
} rl_jinja_token_kind;

typedef enum rl_jinja_operator {
    RL_OP_ADD = 1,
    RL_OP_SUB,
    RL_OP_MUL,
    RL_OP_DIV,
    RL_OP_FLOORDIV,
    RL_OP_MOD,
    RL_OP_POW,
    RL_OP_TILDE,
    RL_OP_EQ,
    RL_OP_NE,
    RL_OP_LT,
    RL_OP_LE,
    RL_OP_GT,
    RL_OP_GE,
    RL_OP_IN,
    RL_OP_NOT_IN,
    RL_OP_ASSIGN,
    RL_OP_DOT,
    RL_OP_COLON,
    RL_OP_PIPE,
    RL_OP_COMMA,
    RL_OP_SEMICOLON,
    RL_OP_LPAREN,
    RL_OP_RPAREN,
    RL_OP_LBRACKET,
    RL_OP_RBRACKET,
    RL_OP_LBRACE,
    RL_OP_RBRACE
} rl_jinja_operator;

/* How an operator is written. */
const char *rl_jinja_operator_text(rl_jinja_operator op);

typedef struct rl_jinja_token {
    rl_jinja_token_kind kind;
    rl_jinja_operator op; /* OPERATOR */
    uint32_t line;
    rl_value value; /* NAME (interned), STRING, DATA: a string; NUMBER: int, bigint or float */
} rl_jinja_token;

/* ---- what lexing and parsing share ---------------------------------------------------------- */

enum { RL_JINJA_MAX_NESTING = 300, RL_JINJA_MAX_BYTES = 4 << 20 };

/* One parsing in progress. The first error leaves by longjmp to `leave`: everything taken lies in
 * the arena, so nothing is lost on the way. */
typedef struct rl_jinja_source {
    rl_arena *arena;
    const char *name;
    rl_error *err;
    rl_status status;
    jmp_buf leave;
    rl_dict *names; /* interned */

    /* lexer */
    const char *begin, *at, *end; /* newlines are all \n, the last one is gone */
    uint32_t line;
    enum { RL_LEX_TEXT, RL_LEX_PRINT, RL_LEX_BLOCK } state;
    bool line_starting;              /* the last token ended with a newline */
    char open[RL_JINJA_MAX_NESTING]; /* closing brackets that are due */
    unsigned n_open;
} rl_jinja_source;

_Noreturn void rl_jinja_syntax_error(rl_jinja_source *source, rl_status status, uint32_t line,
                                     const char *format, ...) RL_PRINTF(4, 5);
_Noreturn void rl_jinja_no_memory(rl_jinja_source *source);

/* Memory from the arena, or the way out. */
void *rl_jinja_take(rl_jinja_source *source, size_t bytes);

/* A name of the template. Whatever is said to be interned is the `string` of one of these. */
typedef struct rl_jinja_name {
    rl_string string;
    uint32_t id; /* from 0, in the order of first appearance */
} rl_jinja_name;
const rl_string *rl_jinja_intern(rl_jinja_source *source, const char *text, size_t bytes);

/* Takes a copy of the text with normalised newlines, ready to be read. */
void rl_jinja_lex_begin(rl_jinja_source *source, const char *text, size_t bytes);
rl_jinja_token rl_jinja_lex(rl_jinja_source *source);

/* ---- syntax tree ---------------------------------------------------------------------------- */

typedef enum rl_node_kind {
    /* expressions */
    RL_NODE_CONSTANT,  /* value                                                                 */
    RL_NODE_NAME,      /* name                                                                  */
    RL_NODE_LIST,      /* many                                                                  */
    RL_NODE_TUPLE,     /* many                                                                  */
    RL_NODE_DICT,      /* many: key, value, key, value ...                                      */
    RL_NODE_CONCAT,    /* many, joined by ~                                                     */
    RL_NODE_BINARY,    /* pair, op: arithmetic                                                  */
    RL_NODE_AND,       /* pair                                                                  */
    RL_NODE_OR,        /* pair                                                                  */
    RL_NODE_NOT,       /* pair.left                                                             */
    RL_NODE_NEGATE,    /* pair.left                                                             */
    RL_NODE_PLUS,      /* pair.left                                                             */
    RL_NODE_COMPARE,   /* compare                                                               */
    RL_NODE_CHOICE,    /* choice: yes if test else no                                           */
    RL_NODE_ATTRIBUTE, /* attribute: of.name                                                    */
    RL_NODE_ITEM,      /* pair: left[right]                                                     */
    RL_NODE_SLICE,     /* slice                                                                 */
    RL_NODE_CALL,      /* call                                                                  */
    RL_NODE_FILTER,    /* apply                                                                 */
    RL_NODE_TEST,      /* apply                                                                 */
    RL_NODE_INPUT,     /* the captured text that the filters of a block work on                 */
    /* statements */
    RL_NODE_DATA,         /* value: text as it is                                                */
    RL_NODE_PRINT,        /* pair.left                                                           */
    RL_NODE_BODY,         /* body: statements                                                    */
    RL_NODE_IF,           /* branches                                                            */
    RL_NODE_FOR,          /* loop                                                                */
    RL_NODE_SET,          /* assign: target = value                                              */
    RL_NODE_SET_BLOCK,    /* assign: target = body, through filters when value is not NULL       */
    RL_NODE_NS_TARGET,    /* attribute.name of the namespace in variable attribute.variable      */
    RL_NODE_MACRO,        /* macro                                                               */
    RL_NODE_CALL_BLOCK,   /* call_block                                                          */
    RL_NODE_FILTER_BLOCK, /* assign: body through the filters of value                           */
    RL_NODE_WITH,         /* with                                                                */
    RL_NODE_SCOPE,        /* pair.left: a body with variables of its own (generation)            */
    RL_NODE_BREAK,
    RL_NODE_CONTINUE
} rl_node_kind;

typedef struct rl_node rl_node;
struct rl_jinja_filter;
struct rl_jinja_test;

typedef struct rl_node_list {
    rl_node **items;
    uint32_t count;
} rl_node_list;

/* Arguments of a call, filter or test. */
typedef struct rl_node_args {
    rl_node_list positional;
    rl_node_list named; /* values; names beside them */
    const rl_string **names;
    rl_node *more_positional, *more_named; /* *x and **x, NULL: none */
} rl_node_args;

typedef struct rl_node_macro {
    const rl_string *name; /* NULL: the body of a call block */
    rl_node_list params;   /* NAME nodes */
    rl_node_list defaults; /* of the last parameters */
    rl_node *body;
    bool uses_varargs, uses_kwargs, uses_caller;
} rl_node_macro;

struct rl_node {
    uint8_t kind;
    uint8_t op;
    uint32_t line;
    union {
        rl_value value;
        const rl_string *name;
        rl_node_list many;
        struct {
            rl_node_list statements;
            /* If the body has variables of its own: those that are undefined in it until they are
             * set, whatever the names mean outside (jinja_scope.c). */
            const rl_string **hidden;
            uint32_t n_hidden;
        } body;
        struct {
            rl_node *left, *right;
        } pair;
        struct {
            rl_node *first;
            rl_node_list others;
            const uint8_t *ops;
        } compare;
        struct {
            rl_node *test, *yes, *no; /* no: may be NULL */
        } choice;
        struct {
            rl_node *of;
            const rl_string *variable; /* NS_TARGET only */
            const rl_string *name;
        } attribute;
        struct {
            rl_node *of, *start, *stop, *step; /* bounds: may be NULL */
        } slice;
        struct {
            rl_node *callee;
            rl_node_args *args;
        } call;
        struct {
            rl_node *subject;
            const rl_string *name;
            const struct rl_jinja_filter *filter; /* NULL: not supported, an error when reached */
            const struct rl_jinja_test *test;
            rl_node_args *args;
        } apply;
        struct {
            rl_node_list tests, bodies;
            rl_node *otherwise; /* may be NULL */
        } branches;
        struct {
            rl_node *target, *over, *filter, *body, *otherwise; /* filter, otherwise: may be NULL */
        } loop;
        struct {
            rl_node *target, *value, *body;
        } assign;
        rl_node_macro *macro;
        struct {
            rl_node *call;
            rl_node_macro *macro;
        } call_block;
        struct {
            rl_node_list targets, values;
            rl_node *body;
        } with;
    };
};

/* Parses all of source; the BODY node. Leaves by longjmp on errors. */
rl_node *rl_jinja_parse_source(rl_jinja_source *source);

/* Fills in `hidden` of all bodies that have variables of their own, the template's included. */
void rl_jinja_find_scopes(rl_jinja_source *source, rl_node *body);

#endif
