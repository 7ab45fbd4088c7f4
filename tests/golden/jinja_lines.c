/* jinja_lines.c - renders templates given on stdin, one JSON object per line, for
 * tools/templates/make_language_cases.py --compare.
 *
 *   in   {"template": "...", "variables": {...}}
 *   out  {"status": "ok", "text": "..."}, or another status with the error's sentence */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja.h"
#include "text/json.h"

static rl_status render(rl_arena *arena, const char *line, size_t bytes, char **text,
                        size_t *text_bytes, rl_error *err)
{
    rl_value job;
    rl_jinja *jinja;
    rl_jinja_params params = { .now = 1700000000 };
    rl_status status = rl_json_read(arena, line, bytes, "line", 0, &job, err);
    if (status) return status;
    const rl_string *template = rl_dict_find_text(job.dict, "template")->string;
    const rl_dict *variables = rl_dict_find_text(job.dict, "variables")->dict;
    status = rl_jinja_parse(&jinja, template->at, template->bytes, "template", err);
    if (status) return status;
    status = rl_jinja_render(jinja, arena, variables, &params, text, text_bytes, err);
    rl_jinja_destroy(jinja);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t bytes; (bytes = getline(&line, &room, stdin)) > 0;) {
        rl_arena arena;
        rl_error err = { { 0 } };
        rl_text_buffer quoted = { 0 };
        char *text = NULL;
        size_t text_bytes = 0;
        rl_arena_init(&arena, (size_t)256 << 20);
        rl_status status = render(&arena, line, (size_t)bytes, &text, &text_bytes, &err);
        const char *shown = status ? err.text : text;
        if (rl_json_write_string(&quoted, shown, status ? strlen(err.text) : text_bytes, &err))
            return 1;
        printf("{\"status\": \"%s\", \"text\": %.*s}\n",
               status == RL_UNSUPPORTED ? "unsupported" : rl_status_name(status), (int)quoted.bytes,
               quoted.data);
        free(text);
        rl_text_buffer_fini(&quoted);
        rl_arena_fini(&arena);
    }
    free(line);
    return 0;
}
