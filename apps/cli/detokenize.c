/* detokenize.c - `redlite detokenize`: token ids in, exactly their bytes out. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* Each argument is one id. */
static int ids_of_arguments(const cli_call *call, uint32_t **ids, size_t *n)
{
    *ids = calloc(call->n_arguments, sizeof **ids);
    if (!*ids) return cli_error("no memory for token ids");
    *n = call->n_arguments;
    for (size_t i = 0; i < *n; i++) {
        char text[32];
        size_t one;
        snprintf(text, sizeof text, "[%.28s]", call->arguments[i]);
        cli_json_in in = { .at = text, .end = text + strlen(text) };
        uint32_t *id = cli_json_take_ids(&in, &one);
        bool fine = id && one == 1 && cli_json_at_end(&in);
        if (fine) (*ids)[i] = id[0];
        free(id);
        if (!fine)
            return cli_usage_error(call->command, "'%s' is not a token id", call->arguments[i]);
    }
    return -1;
}

static int ids_of_stdin(uint32_t **ids, size_t *n)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = cli_read_file("-", &text, &bytes);
    if (rc >= 0) return rc;
    cli_json_in in = { .at = text, .end = text + bytes };
    *ids = cli_json_take_ids(&in, n);
    if (!*ids)
        rc = cli_error("stdin: %s", in.wrong);
    else if (!cli_json_at_end(&in))
        rc = cli_error("stdin: there is more behind the array of token ids");
    free(text);
    return rc;
}

static int run(const cli_call *call)
{
    rl_error err = { "" };
    rl_model *model = NULL;
    uint32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0, bytes = 0;
    int rc = call->n_arguments ? ids_of_arguments(call, &ids, &n) : ids_of_stdin(&ids, &n);
    if (rc < 0) rc = cli_open_model(call, true, &model);
    if (rc < 0) {
        rl_status status = rl_detokenize(model, ids, n, &text, &bytes, &err);
        rc = status ? cli_error_of(status, &err) : CLI_DONE;
    }
    if (rc == CLI_DONE && call->globals.json) {
        cli_json json = { .out = stdout };
        cli_json_string(&json, text, bytes);
        cli_json_end_line(&json);
    } else if (rc == CLI_DONE) {
        fwrite(text, 1, bytes, stdout);
    }
    rl_free(text);
    free(ids);
    rl_model_close(model);
    return rc;
}

const cli_command cli_detokenize = {
    .name = "detokenize",
    .summary = "token ids to exactly their bytes",
    .usage = "[ID...] [options]",
    .details = "The ids are arguments, or one JSON array on stdin. Nothing is added to the bytes.\n"
               "With --json they are one JSON string, in which bytes that are no UTF-8 show as\n"
               "U+FFFD.\n",
    .takes_arguments = true,
    .show = CLI_SHOW_MODEL | CLI_SHOW_JSON,
    .run = run,
};
