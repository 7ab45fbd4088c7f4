/* render.c - `redlite render`: a conversation as JSON in, the prompt that the model reads out. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *template_file;
    bool jsonl;
} options;

static const cli_option table[] = { { "--chat-template-file", "FILE", CLI_TEXT,
                                      offsetof(options, template_file), 0, 0, NULL,
                                      "use this template, not the model's own" },
                                    { "--jsonl", NULL, CLI_FLAG, offsetof(options, jsonl), 0, 0,
                                      NULL, "one conversation per line, one JSON string per line" },
                                    { 0 } };

/* The prompt goes to stdout as it is, or as a line with one JSON string. */
static int render(const rl_model *model, const char *template_text, const char *json, size_t bytes,
                  bool as_json, const char *where)
{
    rl_error err = { "" };
    char *text = NULL;
    size_t text_bytes = 0;
    rl_status status = rl_render_chat(model, template_text, json, bytes, &text, &text_bytes, &err);
    if (status) return cli_error("%s: %s", where, err.text);
    if (as_json) {
        cli_json out = { .out = stdout };
        cli_json_string(&out, text, text_bytes);
        cli_json_end_line(&out);
    } else {
        fwrite(text, 1, text_bytes, stdout);
    }
    rl_free(text);
    return cli_flush() ? -1 : CLI_FAILED;
}

static int render_lines(const rl_model *model, const char *template_text)
{
    char *line = NULL, where[48];
    size_t capacity = 0;
    ssize_t bytes;
    int rc = -1;
    for (uint64_t number = 1; rc < 0 && (bytes = getline(&line, &capacity, stdin)) >= 0; number++) {
        snprintf(where, sizeof where, "line %llu of stdin", (unsigned long long)number);
        rc = render(model, template_text, line, (size_t)bytes, true, where);
    }
    free(line);
    if (rc >= 0) return rc;
    if (cli_interrupts()) return CLI_INTERRUPTED;
    return ferror(stdin) ? cli_error("stdin cannot be read") : CLI_DONE;
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    rl_model *model = NULL;
    char *template_text = NULL, *json = NULL;
    size_t template_bytes = 0, bytes = 0;
    int rc = -1;
    if (o->template_file) rc = cli_read_file(o->template_file, &template_text, &template_bytes);
    if (rc < 0 && template_text && strlen(template_text) != template_bytes)
        rc = cli_error("%s: a template holds no NUL bytes", o->template_file);
    /* A template of its own needs no model, unless one is named. */
    if (rc < 0 && (!o->template_file || call->globals.model_given))
        rc = cli_open_model(call, true, &model);
    if (rc < 0 && o->jsonl) rc = render_lines(model, template_text);
    if (rc < 0) rc = cli_read_file("-", &json, &bytes);
    if (rc < 0) rc = render(model, template_text, json, bytes, call->globals.json, "stdin");
    if (rc < 0) rc = CLI_DONE;
    free(json);
    free(template_text);
    rl_model_close(model);
    return rc;
}

const cli_command cli_render = {
    .name = "render",
    .summary = "a conversation as the text that the model reads",
    .usage = "< CONVERSATION.json [options]",
    .details = "stdin: {\"messages\":[{\"role\":\"user\",\"content\":\"...\"}],\"tools\":[...],\n"
               "\"add_generation_prompt\":true,\"continue_final_message\":false,\n"
               "\"enable_thinking\":true}; all but messages may be left out. The text is printed\n"
               "byte by byte, with no line feed added.\n",
    .options = table,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_MODEL | CLI_SHOW_JSON,
    .run = run,
};
