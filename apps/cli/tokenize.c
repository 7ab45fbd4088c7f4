/* tokenize.c - `redlite tokenize`: text in, one JSON array of token ids per input out. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *text, *file;
    bool jsonl, no_special;
} options;

static const cli_option table[] = { { "-p, --prompt", "TEXT", CLI_TEXT, offsetof(options, text), 0,
                                      0, NULL, "the text" },
                                    { "-f, --file", "FILE", CLI_TEXT, offsetof(options, file), 0, 0,
                                      NULL, "the text is in a file; - is stdin" },
                                    { "--jsonl", NULL, CLI_FLAG, offsetof(options, jsonl), 0, 0,
                                      NULL, "each line of stdin is one JSON string" },
                                    { "--no-special", NULL, CLI_FLAG, offsetof(options, no_special),
                                      0, 0, NULL, "text that spells a control token stays text" },
                                    { 0 } };

static int print_tokens(const rl_model *model, const options *o, const char *text, size_t bytes,
                        const char *where)
{
    rl_error err = { "" };
    uint32_t *ids = NULL;
    size_t n = 0;
    rl_status status = rl_tokenize(model, text, bytes, !o->no_special, &ids, &n, &err);
    if (status) return where ? cli_error("%s: %s", where, err.text) : cli_error_of(status, &err);
    cli_json json = { .out = stdout };
    cli_json_ids(&json, ids, n);
    cli_json_end_line(&json);
    rl_free(ids);
    return cli_flush() ? -1 : CLI_FAILED;
}

static int tokenize_line(const rl_model *model, const options *o, const char *line, size_t bytes,
                         uint64_t number)
{
    char where[48];
    size_t text_bytes;
    snprintf(where, sizeof where, "line %llu of stdin", (unsigned long long)number);
    cli_json_in in = { .at = line, .end = line + bytes };
    char *text = cli_json_take_string(&in, &text_bytes);
    if (!text) return cli_error("%s: %s", where, in.wrong);
    int rc = cli_json_at_end(&in) ? print_tokens(model, o, text, text_bytes, where)
                                  : cli_error("%s: more than one JSON string", where);
    free(text);
    return rc;
}

static int tokenize_lines(const rl_model *model, const options *o)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    int rc = -1;
    for (uint64_t number = 1; rc < 0 && (bytes = getline(&line, &capacity, stdin)) >= 0; number++)
        rc = tokenize_line(model, o, line, (size_t)bytes, number);
    free(line);
    if (rc >= 0) return rc;
    if (cli_interrupts()) return CLI_INTERRUPTED;
    return ferror(stdin) ? cli_error("stdin cannot be read") : CLI_DONE;
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    rl_model *model = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (!!o->text + !!o->file + o->jsonl != 1)
        return cli_usage_error(call->command, "give one of -p, -f and --jsonl");
    int rc = cli_open_model(call, true, &model);
    if (rc >= 0) return rc;
    if (o->jsonl) {
        rc = tokenize_lines(model, o);
    } else {
        if (o->file) rc = cli_read_file(o->file, &text, &bytes);
        if (rc < 0)
            rc = print_tokens(model, o, o->file ? text : o->text, o->file ? bytes : strlen(o->text),
                              o->file);
        if (rc < 0) rc = CLI_DONE;
    }
    free(text);
    rl_model_close(model);
    return rc;
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids, one JSON array per input",
    .usage = "-p TEXT | -f FILE | --jsonl [options]",
    .options = table,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_MODEL,
    .run = run,
};
