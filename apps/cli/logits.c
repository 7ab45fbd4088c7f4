/* logits.c - `redlite logits`: what the model computes, number by number, into a file. */
#include "cli.h"
#include "json.h"
#include "out_file.h"

#include <stdlib.h>

typedef struct options {
    cli_prompt prompt;
    const char *out;
    bool last;
} options;

static const cli_option table[] = {
    { "--tokens", "1,2,3", CLI_LIST, offsetof(options, prompt.tokens), 0, 4294967295.0, NULL,
      "the tokens to read" },
    { "-p, --prompt", "TEXT", CLI_TEXT, offsetof(options, prompt.text), 0, 0, NULL,
      "the same as text; control tokens may be spelled in it" },
    { "-f, --file", "FILE", CLI_TEXT, offsetof(options, prompt.file), 0, 0, NULL,
      "the same out of a file; - is stdin" },
    { "-o, --out", "FILE", CLI_TEXT, offsetof(options, out), 0, 0, NULL, "where the numbers go" },
    { "--last", NULL, CLI_FLAG, offsetof(options, last), 0, 0, NULL,
      "only those behind the last token" },
    { 0 }
};

typedef struct writer {
    FILE *file;
    size_t n_vocab, n_tokens, n_rows;
    bool last, failed;
} writer;

static bool write_row(void *context, size_t index, const float *logits)
{
    writer *w = context;
    cli_progress("logits", index + 1, w->n_tokens, NULL);
    if (cli_interrupts()) return false;
    if (w->last && index + 1 < w->n_tokens) return true;
    w->n_rows++;
    w->failed = fwrite(logits, sizeof *logits, w->n_vocab, w->file) != w->n_vocab;
    return !w->failed;
}

static int write_file(const cli_call *call, rl_session *session, const uint32_t *ids, writer *w)
{
    const options *o = call->options;
    rl_error err = { "" };
    cli_out_file out;
    int rc = cli_out_file_open(&out, o->out);
    if (rc >= 0) return rc;
    w->file = out.file;
    cli_show_notes();
    cli_progress_take();
    rl_status status = rl_session_feed_each(session, ids, w->n_tokens, write_row, w, &err);
    cli_progress_clear();
    rc = cli_out_file_close(&out, !status && !w->failed);
    return rc < 0 && status ? cli_error_of(status, &err) : rc;
}

static void report(const cli_call *call, const writer *w)
{
    const options *o = call->options;
    if (!call->globals.json) {
        cli_note("%s: f32 [%zu][%zu]", o->out, w->n_rows, w->n_vocab);
        return;
    }
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "file");
    cli_json_text(&json, o->out);
    cli_json_key(&json, "n_tokens");
    cli_json_uint(&json, w->n_rows);
    cli_json_key(&json, "n_vocab");
    cli_json_uint(&json, w->n_vocab);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    rl_model *model = NULL;
    rl_session *session = NULL;
    uint32_t *ids = NULL;
    rl_model_info info;
    writer w = { .last = o->last };
    int rc = cli_prompt_check(call->command, &o->prompt);
    if (rc >= 0) return rc;
    if (!o->out) return cli_usage_error(call->command, "give --out FILE");
    rc = cli_open_model(call, false, &model);
    if (rc < 0) rc = cli_prompt_tokens(&o->prompt, model, true, &ids, &w.n_tokens);
    if (rc < 0 && !w.n_tokens) rc = cli_error("there is no token to read");
    if (rc < 0) rc = cli_create_session(call, model, 0, &session);
    if (rc < 0 && w.n_tokens > rl_session_n_ctx(session))
        rc = cli_error("%zu tokens are given, but the context holds %u: raise -c", w.n_tokens,
                       rl_session_n_ctx(session));
    if (rc < 0) {
        rl_model_get_info(model, &info);
        w.n_vocab = info.n_vocab;
        rc = write_file(call, session, ids, &w);
    }
    if (rc < 0) {
        report(call, &w);
        rc = CLI_DONE;
    }
    free(ids);
    rl_session_destroy(session);
    rl_model_close(model);
    return rc;
}

const cli_command cli_logits = {
    .name = "logits",
    .summary = "writes the logits behind every token to a file",
    .usage = "--tokens IDS --out FILE [options]",
    .details = "The file holds little-endian 32-bit floats, [n_tokens][n_vocab].\n",
    .options = table,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_MODEL | CLI_SHOW_BACKEND | CLI_SHOW_SESSION | CLI_SHOW_JSON,
    .run = run,
};
