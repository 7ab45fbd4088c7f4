/* jinja_lex.c - template text to tokens, white space control included.
 *
 * The rules are those of jinja2 with trim_blocks and lstrip_blocks: a block or comment swallows one
 * newline behind it, and the blanks before it when nothing else stands on its line; "-" at a tag
 * swallows all white space on that side, "+" none. Data tokens come out with all of that done.
 *
 * Invariants
 *   - begin <= at <= end; `line` counts the newlines before `at`
 *   - end tags are only seen while no bracket is open */
#include "text/jinja_ast.h"

#include <string.h>

#include "text/jinja_text.h"
#include "text/number.h"
#include "text/unicode.h"

static const struct {
    const char *text;
    rl_jinja_operator op;
} operators[] = {
    /* longer ones first */
    { "**", RL_OP_POW },        { "//", RL_OP_FLOORDIV }, { "==", RL_OP_EQ },
    { "!=", RL_OP_NE },         { "<=", RL_OP_LE },       { ">=", RL_OP_GE },
    { "+", RL_OP_ADD },         { "-", RL_OP_SUB },       { "*", RL_OP_MUL },
    { "/", RL_OP_DIV },         { "%", RL_OP_MOD },       { "~", RL_OP_TILDE },
    { "<", RL_OP_LT },          { ">", RL_OP_GT },        { "=", RL_OP_ASSIGN },
    { ".", RL_OP_DOT },         { ":", RL_OP_COLON },     { "|", RL_OP_PIPE },
    { ",", RL_OP_COMMA },       { ";", RL_OP_SEMICOLON }, { "(", RL_OP_LPAREN },
    { ")", RL_OP_RPAREN },      { "[", RL_OP_LBRACKET },  { "]", RL_OP_RBRACKET },
    { "{", RL_OP_LBRACE },      { "}", RL_OP_RBRACE },    { "in", RL_OP_IN },
    { "not in", RL_OP_NOT_IN }, /* the last two are names, never matched as operators */
};
enum { SYMBOLS = sizeof operators / sizeof operators[0] - 2 };

const char *rl_jinja_operator_text(rl_jinja_operator op)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (operators[i].op == op) return operators[i].text;
    return "?";
}

/* ---- preparing the text --------------------------------------------------------------------- */

void rl_jinja_lex_begin(rl_jinja_source *source, const char *text, size_t bytes)
{
    char *copy = rl_jinja_take(source, bytes + 1);
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r') {
            copy[n++] = '\n';
            if (i + 1 < bytes && text[i + 1] == '\n') i++;
        } else {
            copy[n++] = text[i];
        }
    }
    if (n && copy[n - 1] == '\n') n--;
    source->begin = source->at = copy;
    source->end = copy + n;
    source->line = 1;
    source->state = RL_LEX_TEXT;
    source->line_starting = true;
}

static void advance(rl_jinja_source *s, const char *to)
{
    for (const char *p = s->at; p < to; p++)
        s->line += *p == '\n';
    if (to > s->at) s->line_starting = to[-1] == '\n';
    s->at = to;
}

static bool starts_with(const rl_jinja_source *s, const char *p, const char *text)
{
    size_t bytes = strlen(text);
    return (size_t)(s->end - p) >= bytes && !memcmp(p, text, bytes);
}

static const char *skip_space(const rl_jinja_source *s, const char *p)
{
    return p + rl_text_leading_space(p, (size_t)(s->end - p));
}

/* Behind the end mark at p, which the caller has seen: "-%}" eats white space, "%}" one newline
 * when `trim` is set, "+%}" nothing. NULL when no such mark begins at p. */
static const char *past_end_mark(const rl_jinja_source *s, const char *p, const char *mark,
                                 bool plus, bool trim)
{
    if (starts_with(s, p, mark)) {
        p += 2;
        return trim && p < s->end && *p == '\n' ? p + 1 : p;
    }
    if (p == s->end || !starts_with(s, p + 1, mark)) return NULL;
    if (*p == '-') return skip_space(s, p + 3);
    return *p == '+' && plus ? p + 3 : NULL;
}

static rl_jinja_token token_of(const rl_jinja_source *s, rl_jinja_token_kind kind)
{
    return (rl_jinja_token){ .kind = kind, .line = s->line };
}

static rl_value make_string(rl_jinja_source *s, const char *text, size_t bytes)
{
    const rl_string *string = rl_string_over(s->arena, text, bytes);
    if (!string) rl_jinja_no_memory(s);
    rl_string_chars(string); /* counted now, because a parsed template is never written to */
    return rl_value_string(string);
}

/* ---- text between tags ---------------------------------------------------------------------- */

/* Where the text before the tag ends once the tag's white space control is applied. */
static const char *text_end(const rl_jinja_source *s, const char *tag, char sign, bool may_lstrip)
{
    if (sign == '-') return tag - rl_text_trailing_space(s->at, (size_t)(tag - s->at));
    if (sign == '+' || !may_lstrip) return tag;
    const char *line = tag;
    while (line > s->at && line[-1] != '\n')
        line--;
    if (line == s->at && !s->line_starting) return tag;
    return skip_space(s, line) >= tag ? line : tag;
}

/* The next "{{", "{%" or "{#", or the end. */
static const char *find_tag(const rl_jinja_source *s)
{
    const char *p = s->at;
    while ((p = memchr(p, '{', (size_t)(s->end - p))) != NULL) {
        if (p + 1 < s->end && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
        p++;
    }
    return s->end;
}

static void skip_comment(rl_jinja_source *s, const char *inside)
{
    uint32_t line = s->line;
    for (const char *p = inside; p < s->end; p++) {
        const char *past = past_end_mark(s, p, "#}", true, true);
        if (!past) continue;
        advance(s, past);
        return;
    }
    rl_jinja_syntax_error(s, RL_FORMAT, line, "missing end of comment tag");
}

/* Behind "{% word %}" at p, NULL when something else stands there. *sign is that of the tag. */
static const char *past_word_tag(const rl_jinja_source *s, const char *p, const char *word,
                                 char *sign, bool end_raw)
{
    if (!starts_with(s, p, "{%")) return NULL;
    p += 2;
    *sign = p < s->end && (*p == '-' || *p == '+') ? *p++ : ' ';
    p = skip_space(s, p);
    if (!starts_with(s, p, word)) return NULL;
    p = skip_space(s, p + strlen(word));
    return past_end_mark(s, p, "%}", end_raw, end_raw);
}

/* at stands behind {% raw %}: everything up to {% endraw %} is text. */
static rl_jinja_token lex_raw(rl_jinja_source *s)
{
    rl_jinja_token token = token_of(s, RL_TOKEN_DATA);
    for (const char *p = s->at; p < s->end; p++) {
        char sign;
        const char *past = *p == '{' ? past_word_tag(s, p, "endraw", &sign, true) : NULL;
        if (!past) continue;
        const char *first = s->at, *last = text_end(s, p, sign, true);
        advance(s, past);
        token.value = make_string(s, first, (size_t)(last - first));
        return token;
    }
    rl_jinja_syntax_error(s, RL_FORMAT, s->line, "missing end of raw directive");
}

static rl_jinja_token lex_text(rl_jinja_source *s)
{
    for (;;) {
        if (s->at == s->end) return token_of(s, RL_TOKEN_END);
        const char *tag = find_tag(s), *first = s->at, *last = tag;
        char sign = ' ';
        if (tag < s->end) {
            if (tag + 2 < s->end && (tag[2] == '-' || tag[2] == '+')) sign = tag[2];
            last = text_end(s, tag, sign, tag[1] != '{');
        }
        if (last > first) {
            rl_jinja_token token = token_of(s, RL_TOKEN_DATA);
            advance(s, tag);
            token.value = make_string(s, first, (size_t)(last - first));
            return token;
        }
        advance(s, tag);
        char raw_sign;
        const char *past_raw =
            tag[1] == '%' ? past_word_tag(s, tag, "raw", &raw_sign, false) : NULL;
        if (past_raw) {
            advance(s, past_raw);
            return lex_raw(s);
        }
        const char *inside = tag + 2 + (sign != ' ');
        if (tag[1] == '#') {
            skip_comment(s, inside);
            continue;
        }
        rl_jinja_token token =
            token_of(s, tag[1] == '{' ? RL_TOKEN_PRINT_BEGIN : RL_TOKEN_BLOCK_BEGIN);
        s->state = tag[1] == '{' ? RL_LEX_PRINT : RL_LEX_BLOCK;
        advance(s, inside);
        return token;
    }
}

/* ---- inside tags ---------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_digit_of(char c, int base)
{
    if (base <= 10) return c >= '0' && c < '0' + base;
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Digits with single underscores between them: (_?d)* from p on. */
static const char *past_digits(const rl_jinja_source *s, const char *p, int base)
{
    for (;;) {
        const char *q = p < s->end && *p == '_' ? p + 1 : p;
        if (q == s->end || !is_digit_of(*q, base)) return p;
        p = q + 1;
    }
}

/* Behind the float at p: digits with a fraction, an exponent, or both; NULL when there is none. */
static const char *past_float(const rl_jinja_source *s, const char *p)
{
    if (p > s->begin && p[-1] == '.') return NULL; /* x.0.1 are two indices */
    const char *whole = past_digits(s, p, 10), *past = NULL;
    if (whole + 1 < s->end && *whole == '.' && is_digit(whole[1]))
        past = whole = past_digits(s, whole + 1, 10);
    if (whole < s->end && (*whole | 0x20) == 'e') {
        const char *e = whole + 1;
        if (e < s->end && (*e == '+' || *e == '-')) e++;
        if (e < s->end && is_digit(*e)) past = past_digits(s, e, 10);
    }
    return past;
}

static rl_jinja_token lex_number(rl_jinja_source *s)
{
    rl_jinja_token token = token_of(s, RL_TOKEN_NUMBER);
    const char *p = s->at, *past = past_float(s, p);
    if (past) {
        token.value = rl_value_float(rl_float_read(p, (size_t)(past - p)));
        advance(s, past);
        return token;
    }
    int base = 10;
    if (*p == '0') {
        char letter = p + 1 < s->end ? (char)(p[1] | 0x20) : ' ';
        int named = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
        past = named ? past_digits(s, p + 2, named) : NULL;
        if (past && past > p + 2) {
            base = named;
            p += 2;
        } else {
            past = past_digits(s, p, 1); /* 0, 00, 0_0: any more digits are another token */
        }
    } else {
        past = past_digits(s, p, 10);
    }
    bool too_long;
    if (!rl_int_read(s->arena, p, (size_t)(past - p), base, &token.value, &too_long)) {
        if (!too_long) rl_jinja_no_memory(s);
        rl_jinja_syntax_error(s, RL_UNSUPPORTED, s->line, "integer literal beyond 64 bits");
    }
    advance(s, past);
    return token;
}

/* The digits of \x, \u, \U or an octal escape at p; leaves by an error when there are too few. */
static uint32_t escape_code(rl_jinja_source *s, const char **p, int base, int at_least, int at_most)
{
    uint32_t code = 0;
    int n = 0;
    for (; n < at_most && is_digit_of(**p, base); n++, (*p)++)
        code =
            code * (uint32_t)base + (uint32_t)(is_digit(**p) ? **p - '0' : (**p | 0x20) - 'a' + 10);
    if (n < at_least) rl_jinja_syntax_error(s, RL_FORMAT, s->line, "truncated escape in a string");
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        rl_jinja_syntax_error(s, RL_FORMAT, s->line, "escape \\U%08x is no character", code);
    return code;
}

/* Decodes what stands behind a backslash at p (before the closing quote). */
static size_t unescape(rl_jinja_source *s, const char **p, char *to)
{
    static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
    char c = **p;
    const char *simple = c ? strchr(from, c) : NULL;
    (*p)++;
    if (c == '\n') return 0;
    if (simple) {
        *to = into[simple - from];
        return 1;
    }
    if (c >= '0' && c <= '7') {
        (*p)--;
        return rl_utf8_encode(escape_code(s, p, 8, 1, 3), to);
    }
    if (c == 'x') return rl_utf8_encode(escape_code(s, p, 16, 2, 2), to);
    if (c == 'u') return rl_utf8_encode(escape_code(s, p, 16, 4, 4), to);
    if (c == 'U') return rl_utf8_encode(escape_code(s, p, 16, 8, 8), to);
    if (c == 'N') rl_jinja_syntax_error(s, RL_UNSUPPORTED, s->line, "string escape \\N{name}");
    if ((unsigned char)c >= 0x80)
        rl_jinja_syntax_error(s, RL_UNSUPPORTED, s->line,
                              "a backslash before a character beyond ASCII");
    to[0] = '\\'; /* unknown escapes stay as they are */
    to[1] = c;
    return 2;
}

static rl_jinja_token lex_string(rl_jinja_source *s)
{
    rl_jinja_token token = token_of(s, RL_TOKEN_STRING);
    const char *first = s->at + 1, *last = first;
    while (last < s->end && *last != *s->at)
        last += *last == '\\' && last + 1 < s->end ? 2 : 1;
    if (last >= s->end)
        rl_jinja_syntax_error(s, RL_FORMAT, s->line, "a string begins here and does not end");
    /* 2: an escape may write one byte more than it has left, see `to` above */
    char *text = rl_jinja_take(s, (size_t)(last - first) + 2);
    size_t bytes = 0;
    for (const char *p = first; p < last;) {
        if (*p != '\\') {
            text[bytes++] = *p++;
        } else {
            p++;
            bytes += unescape(s, &p, text + bytes);
        }
    }
    token.value = make_string(s, text, bytes);
    advance(s, last + 1);
    return token;
}

static rl_jinja_token lex_name(rl_jinja_source *s)
{
    rl_jinja_token token = token_of(s, RL_TOKEN_NAME);
    const char *p = s->at;
    while (p < s->end && is_name(*p))
        p++;
    if (p < s->end && (unsigned char)*p >= 0x80)
        rl_jinja_syntax_error(s, RL_UNSUPPORTED, s->line, "a name with characters beyond ASCII");
    token.value = rl_value_string(rl_jinja_intern(s, s->at, (size_t)(p - s->at)));
    advance(s, p);
    return token;
}

/* Keeps the stack of open brackets. */
static void balance(rl_jinja_source *s, char c)
{
    char closing = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    if (closing) {
        if (s->n_open == RL_JINJA_MAX_NESTING)
            rl_jinja_syntax_error(s, RL_INVALID, s->line, "more than %d brackets within each other",
                                  RL_JINJA_MAX_NESTING);
        s->open[s->n_open++] = closing;
    } else if (c == ')' || c == ']' || c == '}') {
        if (!s->n_open) rl_jinja_syntax_error(s, RL_FORMAT, s->line, "unexpected '%c'", c);
        char due = s->open[--s->n_open];
        if (due != c)
            rl_jinja_syntax_error(s, RL_FORMAT, s->line, "unexpected '%c', expected '%c'", c, due);
    }
}

static rl_jinja_token lex_operator(rl_jinja_source *s)
{
    rl_jinja_token token = token_of(s, RL_TOKEN_OPERATOR);
    for (size_t i = 0; i < SYMBOLS; i++) {
        if (!starts_with(s, s->at, operators[i].text)) continue;
        token.op = operators[i].op;
        balance(s, *s->at);
        advance(s, s->at + strlen(operators[i].text));
        return token;
    }
    uint32_t code;
    size_t length = rl_utf8_decode(s->at, (size_t)(s->end - s->at), &code);
    if (code < 0x20)
        rl_jinja_syntax_error(s, RL_FORMAT, s->line, "unexpected character U+%04X", code);
    rl_jinja_syntax_error(s, RL_FORMAT, s->line, "unexpected character '%.*s'", (int)length, s->at);
}

static rl_jinja_token lex_tag(rl_jinja_source *s)
{
    bool print = s->state == RL_LEX_PRINT;
    for (;;) {
        if (!s->n_open) {
            const char *past = past_end_mark(s, s->at, print ? "}}" : "%}", !print, !print);
            if (past) {
                rl_jinja_token token = token_of(s, print ? RL_TOKEN_PRINT_END : RL_TOKEN_BLOCK_END);
                s->state = RL_LEX_TEXT;
                advance(s, past);
                return token;
            }
        }
        if (s->at == s->end) return token_of(s, RL_TOKEN_END);
        const char *past = skip_space(s, s->at);
        if (past == s->at) break;
        advance(s, past);
    }
    char c = *s->at;
    if (is_digit(c)) return lex_number(s);
    if (is_name(c)) return lex_name(s);
    if (c == '\'' || c == '"') return lex_string(s);
    return lex_operator(s);
}

rl_jinja_token rl_jinja_lex(rl_jinja_source *source)
{
    return source->state == RL_LEX_TEXT ? lex_text(source) : lex_tag(source);
}
