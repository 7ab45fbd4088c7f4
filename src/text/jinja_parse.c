/* jinja_parse.c - tokens to the syntax tree: statements. Expressions are in jinja_expression.c.
 *
 * Precedence and oddities follow jinja2's own parser. A tag that does not exist here is
 * RL_UNSUPPORTED with its name; filters and tests that do not exist are found when they are reached,
 * because templates guard them with conditions. */
#include "text/jinja_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

/* ---- errors and memory ---------------------------------------------------------------------- */

void rl_jinja_syntax_error(rl_jinja_source *source, rl_status status, uint32_t line,
                           const char *format, ...)
{
    char reason[384];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    source->status = rl_fail(source->err, status, "%s, line %u: %s", source->name, line, reason);
    longjmp(source->leave, 1);
}

void rl_jinja_no_memory(rl_jinja_source *source)
{
    if (source->arena->over_limit)
        source->status =
            rl_fail(source->err, RL_INVALID, "%s: parsing it takes more than %zu bytes",
                    source->name, source->arena->limit_bytes);
    else
        source->status = rl_fail(source->err, RL_NOMEM, "no memory to parse %s", source->name);
    longjmp(source->leave, 1);
}

void *rl_jinja_take(rl_jinja_source *source, size_t bytes)
{
    void *memory = rl_arena_alloc(source->arena, bytes);
    if (!memory) rl_jinja_no_memory(source);
    return memory;
}

const rl_string *rl_jinja_intern(rl_jinja_source *source, const char *text, size_t bytes)
{
    rl_string probe = { .at = text, .bytes = bytes, .chars = RL_CHARS_UNKNOWN };
    rl_value *known = rl_dict_find(source->names, rl_value_string(&probe));
    if (known) return known->string;
    rl_jinja_name *name = rl_jinja_take(source, sizeof *name);
    const char *copy = rl_arena_copy_text(source->arena, text, bytes);
    if (!copy) rl_jinja_no_memory(source);
    name->string = (rl_string){ .at = copy, .bytes = bytes, .chars = RL_CHARS_UNKNOWN };
    name->id = (uint32_t)source->names->count;
    rl_string_chars(&name->string);
    rl_value value = rl_value_string(&name->string);
    if (!rl_dict_set(source->arena, source->names, value, value)) rl_jinja_no_memory(source);
    return &name->string;
}

/* ---- tokens --------------------------------------------------------------------------------- */

rl_jinja_token rl_parser_next(rl_parser *p)
{
    rl_jinja_token token = p->token;
    if (token.kind != RL_TOKEN_END) {
        p->token = p->ahead;
        if (p->ahead.kind != RL_TOKEN_END) p->ahead = rl_jinja_lex(p->source);
    }
    return token;
}

bool rl_parser_at_op(const rl_parser *p, rl_jinja_operator op)
{
    return p->token.kind == RL_TOKEN_OPERATOR && p->token.op == op;
}

bool rl_parser_at_name(const rl_parser *p, const char *name)
{
    return p->token.kind == RL_TOKEN_NAME && rl_string_is(p->token.value.string, name);
}

bool rl_parser_skip_op(rl_parser *p, rl_jinja_operator op)
{
    bool at = rl_parser_at_op(p, op);
    if (at) rl_parser_next(p);
    return at;
}

bool rl_parser_skip_name(rl_parser *p, const char *name)
{
    bool at = rl_parser_at_name(p, name);
    if (at) rl_parser_next(p);
    return at;
}

/* What a token is called in a sentence, in static words or the caller's storage. */
static const char *describe(const rl_jinja_token *token, char *out, size_t room)
{
    switch (token->kind) {
    case RL_TOKEN_END: return "the end of the template";
    case RL_TOKEN_DATA: return "text";
    case RL_TOKEN_PRINT_BEGIN: return "'{{'";
    case RL_TOKEN_PRINT_END: return "'}}'";
    case RL_TOKEN_BLOCK_BEGIN: return "'{%'";
    case RL_TOKEN_BLOCK_END: return "'%}'";
    case RL_TOKEN_STRING: return "a string";
    case RL_TOKEN_NUMBER: return "a number";
    case RL_TOKEN_NAME:
        snprintf(out, room, "'%.*s'",
                 (int)(token->value.string->bytes > 60 ? 60 : token->value.string->bytes),
                 token->value.string->at);
        return out;
    default: snprintf(out, room, "'%s'", rl_jinja_operator_text(token->op)); return out;
    }
}

void rl_parser_unexpected(rl_parser *p, const char *expected)
{
    char words[80];
    const char *got = describe(&p->token, words, sizeof words);
    if (expected)
        rl_jinja_syntax_error(p->source, RL_FORMAT, p->token.line, "expected %s, got %s", expected,
                              got);
    rl_jinja_syntax_error(p->source, RL_FORMAT, p->token.line, "unexpected %s", got);
}

void rl_parser_expect_op(rl_parser *p, rl_jinja_operator op)
{
    char words[16];
    snprintf(words, sizeof words, "'%s'", rl_jinja_operator_text(op));
    if (!rl_parser_skip_op(p, op)) rl_parser_unexpected(p, words);
}

rl_jinja_token rl_parser_expect_name(rl_parser *p)
{
    if (p->token.kind != RL_TOKEN_NAME) rl_parser_unexpected(p, "a name");
    return rl_parser_next(p);
}

static void expect_kind(rl_parser *p, rl_jinja_token_kind kind, const char *what)
{
    if (p->token.kind != kind) rl_parser_unexpected(p, what);
    rl_parser_next(p);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

rl_node *rl_parser_node(rl_parser *p, rl_node_kind kind, uint32_t line)
{
    rl_node *node = rl_jinja_take(p->source, sizeof *node);
    memset(node, 0, sizeof *node);
    node->kind = (uint8_t)kind;
    node->line = line;
    return node;
}

void rl_parser_add(rl_parser *p, rl_node_list *list, rl_node *item)
{
    /* Full at 0, 4, 8, 16 ...: the capacity is not stored. */
    bool full = list->count == 0 || (list->count >= 4 && !(list->count & (list->count - 1)));
    if (full) {
        size_t capacity = list->count ? (size_t)list->count * 2 : 4;
        rl_node **items = rl_jinja_take(p->source, capacity * sizeof *items);
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = item;
}

void rl_parser_enter(rl_parser *p)
{
    if (++p->nesting > RL_JINJA_MAX_NESTING)
        rl_jinja_syntax_error(p->source, RL_INVALID, p->token.line, "nested deeper than %d levels",
                              RL_JINJA_MAX_NESTING);
}

void rl_parser_leave(rl_parser *p)
{
    p->nesting--;
}

/* ---- statements ----------------------------------------------------------------------------- */

static rl_node *parse_body(rl_parser *p, const char *const *ends);

/* Stands behind the words of a tag: takes its "%}" and everything up to one of the end words, which
 * is the current token then. */
static rl_node *parse_block(rl_parser *p, const char *const *ends)
{
    rl_parser_skip_op(p, RL_OP_COLON);
    expect_kind(p, RL_TOKEN_BLOCK_END, "'%}'");
    rl_node *body = parse_body(p, ends);
    if (p->token.kind != RL_TOKEN_END) return body;
    rl_jinja_syntax_error(p->source, RL_FORMAT, p->token.line,
                          "unexpected end of template, '%s' is missing", ends[0]);
}

/* The same for a tag with one end word, which is taken. */
static rl_node *parse_whole_block(rl_parser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    rl_node *body = parse_block(p, ends);
    rl_parser_next(p);
    return body;
}

static rl_node *parse_if(rl_parser *p)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL };
    rl_node *node = rl_parser_node(p, RL_NODE_IF, p->token.line);
    do {
        rl_parser_next(p);
        rl_parser_add(p, &node->branches.tests, rl_parse_tuple(p, RL_TUPLE_NO_CHOICE));
        rl_parser_add(p, &node->branches.bodies, parse_block(p, ends));
    } while (rl_parser_at_name(p, "elif"));
    if (rl_parser_skip_name(p, "else"))
        node->branches.otherwise = parse_whole_block(p, "endif");
    else
        rl_parser_next(p);
    return node;
}

static rl_node *parse_for(rl_parser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    rl_node *node = rl_parser_node(p, RL_NODE_FOR, p->token.line);
    rl_parser_next(p);
    p->loops++;
    node->loop.target = rl_parse_target(p, RL_TUPLE_TARGET);
    p->loops--;
    if (!rl_parser_skip_name(p, "in")) rl_parser_unexpected(p, "'in'");
    node->loop.over = rl_parse_tuple(p, RL_TUPLE_ITERABLE);
    if (rl_parser_skip_name(p, "if")) node->loop.filter = rl_parse_expression(p);
    if (rl_parser_at_name(p, "recursive"))
        rl_jinja_syntax_error(p->source, RL_UNSUPPORTED, p->token.line,
                              "recursive loops are not supported");
    p->loops++;
    node->loop.body = parse_block(p, ends);
    p->loops--;
    if (rl_parser_skip_name(p, "else"))
        node->loop.otherwise = parse_whole_block(p, "endfor");
    else
        rl_parser_next(p);
    return node;
}

static rl_node *parse_set(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_SET, p->token.line);
    rl_parser_next(p);
    if (p->token.kind == RL_TOKEN_NAME && p->ahead.kind == RL_TOKEN_OPERATOR &&
        p->ahead.op == RL_OP_DOT) {
        rl_node *target = rl_parser_node(p, RL_NODE_NS_TARGET, p->token.line);
        target->attribute.variable = rl_parser_next(p).value.string;
        rl_parser_next(p);
        target->attribute.name = rl_parser_expect_name(p).value.string;
        node->assign.target = target;
    } else {
        node->assign.target = rl_parse_target(p, RL_TUPLE_TARGET);
    }
    if (rl_parser_skip_op(p, RL_OP_ASSIGN)) {
        node->assign.value = rl_parse_tuple(p, RL_TUPLE_WHOLE);
        return node;
    }
    node->kind = RL_NODE_SET_BLOCK;
    if (rl_parser_at_op(p, RL_OP_PIPE))
        node->assign.value = rl_parse_filters(p, rl_parser_node(p, RL_NODE_INPUT, p->token.line));
    node->assign.body = parse_whole_block(p, "endset");
    return node;
}

/* A body that runs as a function: breaking out of a loop around it is not possible. */
static rl_node *parse_function_body(rl_parser *p, rl_node_macro *macro, const char *end)
{
    rl_node_macro *outer = p->macro;
    unsigned loops = p->loops;
    p->macro = macro;
    p->loops = 0;
    rl_node *body = parse_whole_block(p, end);
    p->loops = loops;
    p->macro = outer;
    if (outer) { /* a name used inside is also used outside */
        outer->uses_caller |= macro->uses_caller;
        outer->uses_kwargs |= macro->uses_kwargs;
        outer->uses_varargs |= macro->uses_varargs;
    }
    return body;
}

static void parse_signature(rl_parser *p, rl_node_macro *macro)
{
    enum { MOST_PARAMS = 100 };
    rl_parser_expect_op(p, RL_OP_LPAREN);
    while (!rl_parser_at_op(p, RL_OP_RPAREN)) {
        if (macro->params.count) rl_parser_expect_op(p, RL_OP_COMMA);
        rl_jinja_token name = rl_parser_expect_name(p);
        if (macro->params.count == MOST_PARAMS)
            rl_jinja_syntax_error(p->source, RL_INVALID, name.line, "more than %d parameters",
                                  MOST_PARAMS);
        for (uint32_t i = 0; i < macro->params.count; i++)
            if (macro->params.items[i]->name == name.value.string)
                rl_jinja_syntax_error(p->source, RL_FORMAT, name.line, "two parameters '%s'",
                                      name.value.string->at);
        rl_node *param = rl_parser_node(p, RL_NODE_NAME, name.line);
        param->name = name.value.string;
        rl_parser_add(p, &macro->params, param);
        if (rl_parser_skip_op(p, RL_OP_ASSIGN))
            rl_parser_add(p, &macro->defaults, rl_parse_expression(p));
        else if (macro->defaults.count)
            rl_jinja_syntax_error(p->source, RL_FORMAT, name.line,
                                  "non-default argument follows default argument");
    }
    rl_parser_next(p);
}

static rl_node_macro *new_macro(rl_parser *p)
{
    rl_node_macro *macro = rl_jinja_take(p->source, sizeof *macro);
    *macro = (rl_node_macro){ 0 };
    return macro;
}

/* Parameters of these names shadow the special ones. */
static void drop_shadowed(rl_node_macro *macro)
{
    for (uint32_t i = 0; i < macro->params.count; i++) {
        const rl_string *name = macro->params.items[i]->name;
        if (rl_string_is(name, "varargs")) macro->uses_varargs = false;
        if (rl_string_is(name, "kwargs")) macro->uses_kwargs = false;
        if (rl_string_is(name, "caller")) macro->uses_caller = false;
    }
}

static rl_node *parse_macro(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_MACRO, p->token.line);
    rl_parser_next(p);
    node->macro = new_macro(p);
    node->macro->name = rl_parser_expect_name(p).value.string;
    parse_signature(p, node->macro);
    node->macro->body = parse_function_body(p, node->macro, "endmacro");
    drop_shadowed(node->macro);
    return node;
}

static rl_node *parse_call_block(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_CALL_BLOCK, p->token.line);
    rl_parser_next(p);
    node->call_block.macro = new_macro(p);
    if (rl_parser_at_op(p, RL_OP_LPAREN)) parse_signature(p, node->call_block.macro);
    node->call_block.call = rl_parse_expression(p);
    if (node->call_block.call->kind != RL_NODE_CALL)
        rl_jinja_syntax_error(p->source, RL_FORMAT, node->line, "expected a call");
    node->call_block.macro->body = parse_function_body(p, node->call_block.macro, "endcall");
    drop_shadowed(node->call_block.macro);
    return node;
}

static rl_node *parse_filter_block(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_FILTER_BLOCK, p->token.line);
    rl_parser_next(p);
    node->assign.value = rl_parse_first_filter(p, rl_parser_node(p, RL_NODE_INPUT, node->line));
    node->assign.body = parse_whole_block(p, "endfilter");
    return node;
}

static rl_node *parse_with(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_WITH, p->token.line);
    rl_parser_next(p);
    while (p->token.kind != RL_TOKEN_BLOCK_END && p->token.kind != RL_TOKEN_END) {
        if (node->with.targets.count) rl_parser_expect_op(p, RL_OP_COMMA);
        rl_parser_add(p, &node->with.targets, rl_parse_target(p, RL_TUPLE_TARGET));
        rl_parser_expect_op(p, RL_OP_ASSIGN);
        rl_parser_add(p, &node->with.values, rl_parse_expression(p));
    }
    node->with.body = parse_whole_block(p, "endwith");
    return node;
}

/* Marks the assistant's part for training; here it is its contents, with variables of its own. */
static rl_node *parse_generation(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_SCOPE, p->token.line);
    rl_parser_next(p);
    node->pair.left = parse_function_body(p, new_macro(p), "endgeneration");
    return node;
}

static rl_node *parse_loop_control(rl_parser *p)
{
    bool is_break = rl_parser_at_name(p, "break");
    rl_node *node = rl_parser_node(p, is_break ? RL_NODE_BREAK : RL_NODE_CONTINUE, p->token.line);
    if (!p->loops)
        rl_jinja_syntax_error(p->source, RL_FORMAT, node->line, "'%s' outside of a loop",
                              is_break ? "break" : "continue");
    rl_parser_next(p);
    return node;
}

static rl_node *parse_print(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_BODY, p->token.line);
    rl_parser_next(p);
    while (p->token.kind != RL_TOKEN_BLOCK_END) {
        if (node->body.statements.count) rl_parser_expect_op(p, RL_OP_COMMA);
        rl_node *print = rl_parser_node(p, RL_NODE_PRINT, p->token.line);
        print->pair.left = rl_parse_expression(p);
        rl_parser_add(p, &node->body.statements, print);
    }
    return node;
}

static const struct {
    const char *word;
    rl_node *(*parse)(rl_parser *p); /* stands at the word, leaves at "%}" */
} statements[] = {
    { "if", parse_if },
    { "for", parse_for },
    { "set", parse_set },
    { "macro", parse_macro },
    { "call", parse_call_block },
    { "filter", parse_filter_block },
    { "with", parse_with },
    { "print", parse_print },
    { "generation", parse_generation },
    { "break", parse_loop_control },
    { "continue", parse_loop_control },
};

static rl_node *parse_statement(rl_parser *p)
{
    static const char *const misplaced[] = { "endif",   "elif",     "else",         "endfor",
                                             "endset",  "endmacro", "endcall",      "endfilter",
                                             "endwith", "endraw",   "endgeneration" };
    if (p->token.kind != RL_TOKEN_NAME) rl_parser_unexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!rl_parser_at_name(p, statements[i].word)) continue;
        rl_parser_enter(p);
        rl_node *node = statements[i].parse(p);
        rl_parser_leave(p);
        return node;
    }
    for (size_t i = 0; i < sizeof misplaced / sizeof misplaced[0]; i++)
        if (rl_parser_at_name(p, misplaced[i])) rl_parser_unexpected(p, NULL);
    int bytes = p->token.value.string->bytes > 60 ? 60 : (int)p->token.value.string->bytes;
    rl_jinja_syntax_error(p->source, RL_UNSUPPORTED, p->token.line, "unknown tag '%.*s'", bytes,
                          p->token.value.string->at);
}

static bool at_any(const rl_parser *p, const char *const *names)
{
    for (; names && *names; names++)
        if (rl_parser_at_name(p, *names)) return true;
    return false;
}

/* Text, prints and statements up to "{% END", where END is one of `ends` (NULL: none), or to the
 * end of the template. */
static rl_node *parse_body(rl_parser *p, const char *const *ends)
{
    rl_node *body = rl_parser_node(p, RL_NODE_BODY, p->token.line), *item;
    for (;;) {
        switch (p->token.kind) {
        case RL_TOKEN_END: return body;
        case RL_TOKEN_DATA:
            item = rl_parser_node(p, RL_NODE_DATA, p->token.line);
            item->value = rl_parser_next(p).value;
            break;
        case RL_TOKEN_PRINT_BEGIN:
            item = rl_parser_node(p, RL_NODE_PRINT, p->token.line);
            rl_parser_next(p);
            item->pair.left = rl_parse_tuple(p, RL_TUPLE_WHOLE);
            expect_kind(p, RL_TOKEN_PRINT_END, "'}}'");
            break;
        case RL_TOKEN_BLOCK_BEGIN:
            rl_parser_next(p);
            if (at_any(p, ends)) return body;
            item = parse_statement(p);
            expect_kind(p, RL_TOKEN_BLOCK_END, "'%}'");
            break;
        default: rl_parser_unexpected(p, NULL);
        }
        rl_parser_add(p, &body->body.statements, item);
    }
}

rl_node *rl_jinja_parse_source(rl_jinja_source *source)
{
    rl_parser p = { .source = source };
    p.token = rl_jinja_lex(source);
    p.ahead = p.token.kind == RL_TOKEN_END ? p.token : rl_jinja_lex(source);
    rl_node *body = parse_body(&p, NULL);
    rl_jinja_find_scopes(source, body);
    return body;
}
