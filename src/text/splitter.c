/* splitter.c - text/splitter.h on PCRE2.
 *
 * The patterns are the published ones but for one point: PCRE2 counts U+180E as white space, the
 * Unicode property White_Space (which the patterns mean by \s) does not. So \s is written out.
 *
 * Every match is anchored, because every character begins some piece. PCRE2 allocates through the
 * functions below, so that a failed allocation is seen here like any other. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/splitter.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

#define SPACES                                                                                     \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define ENGLISH_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_RULES                                                                                \
    "|[" SPACES "]*[\\r\\n]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+" /* \s+(?!\S)|\s+ */

static const struct {
    const char *name;
    const char *pattern;
} known_patterns[] = {
    /* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*
     * |\s*[\r\n]+|\s+(?!\S)|\s+ */
    { "qwen2", ENGLISH_SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
                              "|\\p{N}"
                              "| ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n]*" SPACE_RULES },
    /* The same, with marks as parts of words. */
    { "qwen35", ENGLISH_SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"
                               "|\\p{N}"
                               "| ?[^" SPACES "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACE_RULES },
};

struct rl_splitter {
    pcre2_general_context *memory;
    pcre2_code *code;
    bool jit;
};

struct rl_split {
    const rl_splitter *splitter;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    bool jit;
};

static void *take_memory(size_t bytes, void *data)
{
    (void)data;
    return malloc(bytes);
}

static void give_memory(void *block, void *data)
{
    (void)data;
    free(block);
}

static rl_status compile(rl_splitter *splitter, const char *pattern, rl_error *err)
{
    splitter->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (!splitter->memory) return rl_fail(err, RL_NOMEM, "no memory for the split pattern");
    pcre2_compile_context *context = pcre2_compile_context_create(splitter->memory);
    if (!context) return rl_fail(err, RL_NOMEM, "no memory for the split pattern");
    int error = 0;
    PCRE2_SIZE offset = 0;
    splitter->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (!splitter->code && error == PCRE2_ERROR_HEAP_FAILED)
        return rl_fail(err, RL_NOMEM, "no memory for the split pattern");
    if (!splitter->code) {
        PCRE2_UCHAR8 text[128] = { 0 };
        pcre2_get_error_message(error, text, sizeof text);
        return rl_fail(err, RL_UNSUPPORTED, "this PCRE2 does not take the split pattern: %s",
                       (const char *)text);
    }
    /* Where the system forbids new machine code, the pattern is interpreted. */
    splitter->jit = pcre2_jit_compile(splitter->code, PCRE2_JIT_COMPLETE) == 0;
    return RL_OK;
}

rl_status rl_splitter_create(rl_splitter **out, const char *where, const char *name,
                             size_t name_bytes, rl_error *err)
{
    RL_ASSERT(out && where && name);
    *out = NULL;
    const char *pattern = NULL;
    for (size_t i = 0; i < RL_COUNT_OF(known_patterns); i++)
        if (strlen(known_patterns[i].name) == name_bytes &&
            !memcmp(known_patterns[i].name, name, name_bytes))
            pattern = known_patterns[i].pattern;
    if (!pattern)
        return rl_fail(err, RL_UNSUPPORTED,
                       "%s: the pre-tokenizer \"%.*s\" is not known (known: qwen2, qwen35)", where,
                       name_bytes < 64 ? (int)name_bytes : 64, name);
    rl_splitter *splitter = calloc(1, sizeof *splitter);
    if (!splitter) return rl_fail(err, RL_NOMEM, "no memory for the split pattern");
    rl_status status = compile(splitter, pattern, err);
    if (status) {
        rl_splitter_destroy(splitter);
        return status;
    }
    *out = splitter;
    return RL_OK;
}

void rl_splitter_destroy(rl_splitter *splitter)
{
    if (!splitter) return;
    pcre2_code_free(splitter->code);
    pcre2_general_context_free(splitter->memory);
    free(splitter);
}

rl_status rl_split_create(rl_split **out, const rl_splitter *splitter, rl_error *err)
{
    RL_ASSERT(out && splitter);
    *out = NULL;
    rl_split *split = calloc(1, sizeof *split);
    if (!split) return rl_fail(err, RL_NOMEM, "no memory to split text");
    split->splitter = splitter;
    split->jit = splitter->jit;
    split->limits = pcre2_match_context_create(splitter->memory);
    split->match = pcre2_match_data_create(1, splitter->memory);
    if (!split->limits || !split->match) {
        rl_split_destroy(split);
        return rl_fail(err, RL_NOMEM, "no memory to split text");
    }
    /* The interpreter counts every step back out of a run of spaces; there is one per byte. */
    pcre2_set_match_limit(split->limits, UINT32_MAX);
    *out = split;
    return RL_OK;
}

void rl_split_interpret(rl_split *split)
{
    split->jit = false;
}

void rl_split_destroy(rl_split *split)
{
    if (!split) return;
    pcre2_match_data_free(split->match);
    pcre2_match_context_free(split->limits);
    free(split);
}

rl_status rl_split_next_by_pattern(rl_split *split, const char *text, size_t bytes, size_t at,
                                   size_t *end, rl_error *err)
{
    const pcre2_code *code = split->splitter->code;
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (split->jit)
        found = pcre2_jit_match(code, subject, bytes, at, PCRE2_NO_UTF_CHECK, split->match,
                                split->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, subject, bytes, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            split->match, split->limits);
    if (found == PCRE2_ERROR_NOMEMORY) return rl_fail(err, RL_NOMEM, "no memory to split text");
    PCRE2_SIZE *range = pcre2_get_ovector_pointer(split->match);
    if (found < 0 || range[0] != at || range[1] <= at)
        return rl_fail(err, RL_UNSUPPORTED, "the split pattern stopped at byte %zu (PCRE2: %d)", at,
                       found);
    *end = range[1];
    return RL_OK;
}

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The two most frequent pieces of most texts need no pattern: a word of ASCII letters, with the
 * space before it, that no other letter or mark can continue; and an ASCII digit. */
rl_status rl_split_next(rl_split *split, const char *text, size_t bytes, size_t at, size_t *end,
                        rl_error *err)
{
    size_t from = text[at] == ' ' ? at + 1 : at;
    size_t to = from;
    while (to < bytes && is_ascii_letter(text[to]))
        to++;
    if (to > from && (to == bytes || (unsigned char)text[to] < 0x80)) {
        *end = to;
        return RL_OK;
    }
    if (text[at] >= '0' && text[at] <= '9') {
        *end = at + 1;
        return RL_OK;
    }
    return rl_split_next_by_pattern(split, text, bytes, at, end, err);
}
