/* jinja_expression.c - tokens to the syntax tree: expressions, by recursive descent.
 *
 * From loosest to tightest: a if b else c, or, and, not, comparisons (in a row, as in Python),
 * + and -, ~, * / // %, **, unary + and -, then attributes, calls, filters and tests. */
#include "text/jinja_parser.h"

#include <string.h>

#include "text/jinja_builtins.h"

static rl_node *parse_choice(rl_parser *p);
static rl_node *parse_or(rl_parser *p);
static rl_node *parse_unary(rl_parser *p, bool with_filters);

rl_node *rl_parse_expression(rl_parser *p)
{
    return parse_choice(p);
}

/* ---- operators ------------------------------------------------------------------------------ */

static rl_node *pair_node(rl_parser *p, rl_node_kind kind, uint32_t line, rl_node *left,
                          rl_node *right)
{
    rl_node *node = rl_parser_node(p, kind, line);
    node->pair.left = left;
    node->pair.right = right;
    return node;
}

static rl_node *parse_choice(rl_parser *p)
{
    rl_parser_enter(p);
    uint32_t line = p->token.line;
    rl_node *value = parse_or(p);
    while (rl_parser_skip_name(p, "if")) {
        rl_node *node = rl_parser_node(p, RL_NODE_CHOICE, line);
        node->choice.yes = value;
        node->choice.test = parse_or(p);
        if (rl_parser_skip_name(p, "else")) node->choice.no = parse_choice(p);
        value = node;
        line = p->token.line;
    }
    rl_parser_leave(p);
    return value;
}

static const uint8_t comparisons[] = { RL_OP_EQ, RL_OP_NE, RL_OP_LT, RL_OP_LE, RL_OP_GT, RL_OP_GE };
static const uint8_t sums[] = { RL_OP_ADD, RL_OP_SUB };
static const uint8_t products[] = { RL_OP_MUL, RL_OP_DIV, RL_OP_FLOORDIV, RL_OP_MOD };

/* The current token's operator if it is one of them, else 0. */
static uint8_t at_one_of(const rl_parser *p, const uint8_t *ops, size_t n)
{
    if (p->token.kind != RL_TOKEN_OPERATOR) return 0;
    for (size_t i = 0; i < n; i++)
        if (ops[i] == p->token.op) return ops[i];
    return 0;
}

static rl_node *parse_power(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *left = parse_unary(p, true);
    while (rl_parser_skip_op(p, RL_OP_POW)) {
        left = pair_node(p, RL_NODE_BINARY, line, left, NULL);
        left->op = RL_OP_POW;
        left->pair.right = parse_unary(p, true);
        line = p->token.line;
    }
    return left;
}

static rl_node *parse_product(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *left = parse_power(p);
    uint8_t op;
    while ((op = at_one_of(p, products, sizeof products)) != 0) {
        rl_parser_next(p);
        left = pair_node(p, RL_NODE_BINARY, line, left, NULL);
        left->op = op;
        left->pair.right = parse_power(p);
        line = p->token.line;
    }
    return left;
}

static rl_node *parse_concat(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *first = parse_product(p);
    if (!rl_parser_at_op(p, RL_OP_TILDE)) return first;
    rl_node *node = rl_parser_node(p, RL_NODE_CONCAT, line);
    rl_parser_add(p, &node->many, first);
    while (rl_parser_skip_op(p, RL_OP_TILDE))
        rl_parser_add(p, &node->many, parse_product(p));
    return node;
}

static rl_node *parse_sum(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *left = parse_concat(p);
    uint8_t op;
    while ((op = at_one_of(p, sums, sizeof sums)) != 0) {
        rl_parser_next(p);
        left = pair_node(p, RL_NODE_BINARY, line, left, NULL);
        left->op = op;
        left->pair.right = parse_concat(p);
        line = p->token.line;
    }
    return left;
}

/* The comparison at the current token, taken; 0 when there is none. */
static uint8_t take_comparison(rl_parser *p)
{
    uint8_t op = at_one_of(p, comparisons, sizeof comparisons);
    if (op) {
        rl_parser_next(p);
        return op;
    }
    if (rl_parser_skip_name(p, "in")) return RL_OP_IN;
    if (rl_parser_at_name(p, "not") && p->ahead.kind == RL_TOKEN_NAME &&
        rl_string_is(p->ahead.value.string, "in")) {
        rl_parser_next(p);
        rl_parser_next(p);
        return RL_OP_NOT_IN;
    }
    return 0;
}

static rl_node *parse_comparison(rl_parser *p)
{
    enum { MOST = 64 };
    uint8_t ops[MOST], op;
    uint32_t line = p->token.line;
    rl_node *first = parse_sum(p), *node = NULL;
    while ((op = take_comparison(p)) != 0) {
        if (!node) {
            node = rl_parser_node(p, RL_NODE_COMPARE, line);
            node->compare.first = first;
        }
        if (node->compare.others.count == MOST)
            rl_jinja_syntax_error(p->source, RL_INVALID, line, "more than %d comparisons in a row",
                                  MOST);
        ops[node->compare.others.count] = op;
        rl_parser_add(p, &node->compare.others, parse_sum(p));
    }
    if (!node) return first;
    uint8_t *copy = rl_jinja_take(p->source, node->compare.others.count);
    memcpy(copy, ops, node->compare.others.count);
    node->compare.ops = copy;
    return node;
}

static rl_node *parse_not(rl_parser *p)
{
    uint32_t line = p->token.line;
    if (!rl_parser_skip_name(p, "not")) return parse_comparison(p);
    rl_parser_enter(p);
    rl_node *node = pair_node(p, RL_NODE_NOT, line, parse_not(p), NULL);
    rl_parser_leave(p);
    return node;
}

static rl_node *parse_and(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *left = parse_not(p);
    while (rl_parser_skip_name(p, "and")) {
        left = pair_node(p, RL_NODE_AND, line, left, parse_not(p));
        line = p->token.line;
    }
    return left;
}

static rl_node *parse_or(rl_parser *p)
{
    uint32_t line = p->token.line;
    rl_node *left = parse_and(p);
    while (rl_parser_skip_name(p, "or")) {
        left = pair_node(p, RL_NODE_OR, line, left, parse_and(p));
        line = p->token.line;
    }
    return left;
}

/* ---- literals and names --------------------------------------------------------------------- */

static rl_node *constant(rl_parser *p, uint32_t line, rl_value value)
{
    rl_node *node = rl_parser_node(p, RL_NODE_CONSTANT, line);
    node->value = value;
    return node;
}

static rl_node *parse_name(rl_parser *p)
{
    rl_jinja_token token = rl_parser_next(p);
    const rl_string *name = token.value.string;
    if (rl_string_is(name, "true") || rl_string_is(name, "True"))
        return constant(p, token.line, rl_value_bool(true));
    if (rl_string_is(name, "false") || rl_string_is(name, "False"))
        return constant(p, token.line, rl_value_bool(false));
    if (rl_string_is(name, "none") || rl_string_is(name, "None"))
        return constant(p, token.line, rl_value_none());
    rl_node *node = rl_parser_node(p, RL_NODE_NAME, token.line);
    node->name = name;
    if (p->macro) {
        p->macro->uses_varargs |= rl_string_is(name, "varargs");
        p->macro->uses_kwargs |= rl_string_is(name, "kwargs");
        p->macro->uses_caller |= rl_string_is(name, "caller");
    }
    return node;
}

/* Strings next to each other are one. */
static rl_node *parse_strings(rl_parser *p)
{
    rl_jinja_token token = rl_parser_next(p);
    rl_value value = token.value;
    while (p->token.kind == RL_TOKEN_STRING) {
        const rl_string *sum =
            rl_string_join(p->source->arena, value.string, rl_parser_next(p).value.string);
        if (!sum) rl_jinja_no_memory(p->source);
        value = rl_value_string(sum);
    }
    /* Without spare room: a rendering must not append in place to a template's string. */
    if (value.string->room) {
        const rl_string *copy =
            rl_string_over(p->source->arena, value.string->at, value.string->bytes);
        if (!copy) rl_jinja_no_memory(p->source);
        rl_string_chars(copy);
        value = rl_value_string(copy);
    }
    return constant(p, token.line, value);
}

static rl_node *parse_list(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_LIST, rl_parser_next(p).line);
    while (!rl_parser_at_op(p, RL_OP_RBRACKET)) {
        if (node->many.count) rl_parser_expect_op(p, RL_OP_COMMA);
        if (rl_parser_at_op(p, RL_OP_RBRACKET)) break;
        rl_parser_add(p, &node->many, rl_parse_expression(p));
    }
    rl_parser_next(p);
    return node;
}

static rl_node *parse_dict(rl_parser *p)
{
    rl_node *node = rl_parser_node(p, RL_NODE_DICT, rl_parser_next(p).line);
    while (!rl_parser_at_op(p, RL_OP_RBRACE)) {
        if (node->many.count) rl_parser_expect_op(p, RL_OP_COMMA);
        if (rl_parser_at_op(p, RL_OP_RBRACE)) break;
        rl_parser_add(p, &node->many, rl_parse_expression(p));
        rl_parser_expect_op(p, RL_OP_COLON);
        rl_parser_add(p, &node->many, rl_parse_expression(p));
    }
    rl_parser_next(p);
    return node;
}

static rl_node *parse_primary(rl_parser *p)
{
    if (p->token.kind == RL_TOKEN_NAME) return parse_name(p);
    if (p->token.kind == RL_TOKEN_STRING) return parse_strings(p);
    if (p->token.kind == RL_TOKEN_NUMBER) {
        rl_jinja_token token = rl_parser_next(p);
        return constant(p, token.line, token.value);
    }
    if (rl_parser_at_op(p, RL_OP_LBRACKET)) return parse_list(p);
    if (rl_parser_at_op(p, RL_OP_LBRACE)) return parse_dict(p);
    if (!rl_parser_skip_op(p, RL_OP_LPAREN)) rl_parser_unexpected(p, NULL);
    rl_node *node = rl_parse_tuple(p, RL_TUPLE_IN_PARENS);
    rl_parser_expect_op(p, RL_OP_RPAREN);
    return node;
}

/* ---- tuples --------------------------------------------------------------------------------- */

static bool at_tuple_end(const rl_parser *p, rl_tuple_mode mode)
{
    if (p->token.kind == RL_TOKEN_PRINT_END || p->token.kind == RL_TOKEN_BLOCK_END ||
        rl_parser_at_op(p, RL_OP_RPAREN))
        return true;
    if (mode == RL_TUPLE_TARGET) return rl_parser_at_name(p, "in");
    return mode == RL_TUPLE_ITERABLE && rl_parser_at_name(p, "recursive");
}

rl_node *rl_parse_tuple(rl_parser *p, rl_tuple_mode mode)
{
    rl_parser_enter(p);
    uint32_t line = p->token.line;
    rl_node *node = NULL, *item = NULL;
    for (;;) {
        if (at_tuple_end(p, mode)) break;
        if (mode == RL_TUPLE_TARGET)
            item = parse_primary(p);
        else if (mode == RL_TUPLE_NO_CHOICE || mode == RL_TUPLE_ITERABLE)
            item = parse_or(p);
        else
            item = rl_parse_expression(p);
        bool comma = rl_parser_at_op(p, RL_OP_COMMA);
        if (!node && comma) node = rl_parser_node(p, RL_NODE_TUPLE, line);
        if (node) rl_parser_add(p, &node->many, item);
        if (!comma) break;
        rl_parser_next(p);
    }
    rl_parser_leave(p);
    if (node) return node;
    if (item) return item;
    if (mode != RL_TUPLE_IN_PARENS) rl_parser_unexpected(p, "an expression");
    return rl_parser_node(p, RL_NODE_TUPLE, line);
}

static void check_target(rl_parser *p, const rl_node *target)
{
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None" };
    if (target->kind == RL_NODE_TUPLE) {
        for (uint32_t i = 0; i < target->many.count; i++)
            check_target(p, target->many.items[i]);
        return;
    }
    if (target->kind != RL_NODE_NAME)
        rl_jinja_syntax_error(p->source, RL_FORMAT, target->line,
                              "only names and tuples of names can be assigned to");
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (rl_string_is(target->name, reserved[i])) rl_parser_unexpected(p, "a variable");
    if (p->loops && rl_string_is(target->name, "loop"))
        rl_jinja_syntax_error(p->source, RL_FORMAT, target->line,
                              "the variable 'loop' of a loop cannot be assigned to");
}

rl_node *rl_parse_target(rl_parser *p, rl_tuple_mode mode)
{
    rl_node *target = rl_parse_tuple(p, mode);
    check_target(p, target);
    return target;
}

/* ---- what follows a value ------------------------------------------------------------------- */

/* The arguments of a call, filter or test, from "(" to ")". */
static rl_node_args *parse_args(rl_parser *p)
{
    enum { MOST = 32 };
    const rl_string *names[MOST];
    uint32_t line = p->token.line;
    rl_node_args *args = rl_jinja_take(p->source, sizeof *args);
    *args = (rl_node_args){ 0 };
    rl_parser_expect_op(p, RL_OP_LPAREN);
    for (bool first = true; !rl_parser_at_op(p, RL_OP_RPAREN); first = false) {
        if (!first) rl_parser_expect_op(p, RL_OP_COMMA);
        if (rl_parser_at_op(p, RL_OP_RPAREN)) break;
        bool valid = !args->more_named;
        if (rl_parser_skip_op(p, RL_OP_MUL)) {
            valid &= !args->more_positional;
            args->more_positional = rl_parse_expression(p);
        } else if (rl_parser_skip_op(p, RL_OP_POW)) {
            args->more_named = rl_parse_expression(p);
        } else if (p->token.kind == RL_TOKEN_NAME && p->ahead.kind == RL_TOKEN_OPERATOR &&
                   p->ahead.op == RL_OP_ASSIGN) {
            valid &= args->named.count < MOST;
            if (valid) names[args->named.count] = p->token.value.string;
            rl_parser_next(p);
            rl_parser_next(p);
            rl_parser_add(p, &args->named, rl_parse_expression(p));
        } else {
            valid &= !args->more_positional && !args->named.count;
            rl_parser_add(p, &args->positional, rl_parse_expression(p));
        }
        if (!valid)
            rl_jinja_syntax_error(p->source, RL_FORMAT, line, "invalid arguments of a call");
    }
    rl_parser_next(p);
    size_t bytes = args->named.count * sizeof *names;
    const rl_string **copy = rl_jinja_take(p->source, bytes);
    if (bytes) memcpy(copy, names, bytes);
    args->names = copy;
    return args;
}

static rl_node *parse_bound(rl_parser *p)
{
    if (rl_parser_at_op(p, RL_OP_COLON) || rl_parser_at_op(p, RL_OP_RBRACKET)) return NULL;
    return rl_parse_expression(p);
}

/* Stands behind "[". */
static rl_node *parse_subscript(rl_parser *p, rl_node *of, uint32_t line)
{
    rl_node *start = rl_parser_at_op(p, RL_OP_COLON) ? NULL : rl_parse_expression(p);
    rl_node *node;
    if (rl_parser_skip_op(p, RL_OP_COLON)) {
        node = rl_parser_node(p, RL_NODE_SLICE, line);
        node->slice.of = of;
        node->slice.start = start;
        node->slice.stop = parse_bound(p);
        if (rl_parser_skip_op(p, RL_OP_COLON)) node->slice.step = parse_bound(p);
    } else {
        node = pair_node(p, RL_NODE_ITEM, line, of, start);
    }
    if (rl_parser_at_op(p, RL_OP_COMMA))
        rl_jinja_syntax_error(p->source, RL_UNSUPPORTED, p->token.line,
                              "indexing with several values is not supported");
    rl_parser_expect_op(p, RL_OP_RBRACKET);
    return node;
}

/* Stands behind ".". */
static rl_node *parse_attribute(rl_parser *p, rl_node *of, uint32_t line)
{
    if (p->token.kind == RL_TOKEN_NAME) {
        rl_node *node = rl_parser_node(p, RL_NODE_ATTRIBUTE, line);
        node->attribute.of = of;
        node->attribute.name = rl_parser_next(p).value.string;
        return node;
    }
    if (p->token.kind != RL_TOKEN_NUMBER || p->token.value.kind == RL_VALUE_FLOAT)
        rl_parser_unexpected(p, "a name or an index");
    rl_jinja_token index = rl_parser_next(p);
    return pair_node(p, RL_NODE_ITEM, line, of, constant(p, index.line, index.value));
}

static rl_node *parse_call(rl_parser *p, rl_node *callee)
{
    rl_node *node = rl_parser_node(p, RL_NODE_CALL, p->token.line);
    node->call.callee = callee;
    node->call.args = parse_args(p);
    return node;
}

static rl_node *parse_postfix(rl_parser *p, rl_node *node)
{
    for (;;) {
        uint32_t line = p->token.line;
        if (rl_parser_skip_op(p, RL_OP_DOT))
            node = parse_attribute(p, node, line);
        else if (rl_parser_skip_op(p, RL_OP_LBRACKET))
            node = parse_subscript(p, node, line);
        else if (rl_parser_at_op(p, RL_OP_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* A name that may have dots in it. */
static const rl_string *parse_dotted_name(rl_parser *p)
{
    const rl_string *name = rl_parser_expect_name(p).value.string;
    while (rl_parser_skip_op(p, RL_OP_DOT)) {
        static const rl_string dot = { .at = ".", .bytes = 1, .chars = 1 };
        const rl_string *more = rl_parser_expect_name(p).value.string;
        name = rl_string_join(p->source->arena, name, &dot);
        if (name) name = rl_string_join(p->source->arena, name, more);
        if (!name) rl_jinja_no_memory(p->source);
    }
    return name;
}

rl_node *rl_parse_first_filter(rl_parser *p, rl_node *subject)
{
    rl_node *node = rl_parser_node(p, RL_NODE_FILTER, p->token.line);
    node->apply.subject = subject;
    node->apply.name = parse_dotted_name(p);
    node->apply.filter = rl_jinja_find_filter(node->apply.name);
    if (rl_parser_at_op(p, RL_OP_LPAREN)) node->apply.args = parse_args(p);
    return rl_parse_filters(p, node);
}

rl_node *rl_parse_filters(rl_parser *p, rl_node *subject)
{
    while (rl_parser_skip_op(p, RL_OP_PIPE)) {
        rl_node *node = rl_parser_node(p, RL_NODE_FILTER, p->token.line);
        node->apply.subject = subject;
        node->apply.name = parse_dotted_name(p);
        node->apply.filter = rl_jinja_find_filter(node->apply.name);
        if (rl_parser_at_op(p, RL_OP_LPAREN)) node->apply.args = parse_args(p);
        subject = node;
    }
    return subject;
}

/* "x is divisibleby 3": one argument without parentheses. */
static bool at_bare_argument(const rl_parser *p)
{
    if (p->token.kind == RL_TOKEN_NAME)
        return !rl_parser_at_name(p, "else") && !rl_parser_at_name(p, "or") &&
               !rl_parser_at_name(p, "and");
    return p->token.kind == RL_TOKEN_STRING || p->token.kind == RL_TOKEN_NUMBER ||
           rl_parser_at_op(p, RL_OP_LBRACKET) || rl_parser_at_op(p, RL_OP_LBRACE);
}

/* Stands behind "is". */
static rl_node *parse_test(rl_parser *p, rl_node *subject, uint32_t line)
{
    bool negated = rl_parser_skip_name(p, "not");
    rl_node *node = rl_parser_node(p, RL_NODE_TEST, line);
    node->apply.subject = subject;
    node->apply.name = parse_dotted_name(p);
    node->apply.test = rl_jinja_find_test(node->apply.name);
    if (rl_parser_at_op(p, RL_OP_LPAREN)) {
        node->apply.args = parse_args(p);
    } else if (at_bare_argument(p)) {
        if (rl_parser_at_name(p, "is"))
            rl_jinja_syntax_error(p->source, RL_FORMAT, p->token.line,
                                  "tests cannot be chained with 'is'");
        node->apply.args = rl_jinja_take(p->source, sizeof *node->apply.args);
        *node->apply.args = (rl_node_args){ 0 };
        rl_parser_add(p, &node->apply.args->positional, parse_postfix(p, parse_primary(p)));
    }
    return negated ? pair_node(p, RL_NODE_NOT, line, node, NULL) : node;
}

static rl_node *parse_filters_and_tests(rl_parser *p, rl_node *node)
{
    for (;;) {
        uint32_t line = p->token.line;
        if (rl_parser_at_op(p, RL_OP_PIPE))
            node = rl_parse_filters(p, node);
        else if (rl_parser_skip_name(p, "is"))
            node = parse_test(p, node, line);
        else if (rl_parser_at_op(p, RL_OP_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

static rl_node *parse_unary(rl_parser *p, bool with_filters)
{
    uint32_t line = p->token.line;
    rl_node *node;
    rl_parser_enter(p);
    if (rl_parser_skip_op(p, RL_OP_SUB))
        node = pair_node(p, RL_NODE_NEGATE, line, parse_unary(p, false), NULL);
    else if (rl_parser_skip_op(p, RL_OP_ADD))
        node = pair_node(p, RL_NODE_PLUS, line, parse_unary(p, false), NULL);
    else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    if (with_filters) node = parse_filters_and_tests(p, node);
    rl_parser_leave(p);
    return node;
}
