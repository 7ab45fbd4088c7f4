/* conversation.c - see conversation.h. */
#include "conversation.h"

#include "json.h"
#include "out_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_conversation_clear(cli_conversation *c)
{
    while (c->n)
        cli_conversation_drop_last(c);
}

void cli_conversation_fini(cli_conversation *c)
{
    cli_conversation_clear(c);
    free(c->messages);
    free(c->system);
    memset(c, 0, sizeof *c);
}

static bool add_owned(cli_conversation *c, char *role, char *content, size_t bytes)
{
    if (c->n == c->capacity) {
        size_t capacity = c->capacity ? c->capacity * 2 : 16;
        cli_message *bigger = realloc(c->messages, capacity * sizeof *bigger);
        if (!bigger) return false;
        c->messages = bigger;
        c->capacity = capacity;
    }
    c->messages[c->n++] = (cli_message){ role, content, bytes };
    return true;
}

bool cli_conversation_add(cli_conversation *c, const char *role, const char *content, size_t bytes)
{
    char *own_role = strdup(role), *own_content = malloc(bytes + 1);
    if (own_role && own_content) {
        memcpy(own_content, content, bytes);
        own_content[bytes] = 0;
        if (add_owned(c, own_role, own_content, bytes)) return true;
    }
    free(own_role);
    free(own_content);
    return false;
}

void cli_conversation_drop_last(cli_conversation *c)
{
    if (!c->n) return;
    c->n--;
    free(c->messages[c->n].role);
    free(c->messages[c->n].content);
}

bool cli_conversation_set_system(cli_conversation *c, const char *text)
{
    char *own = text && *text ? strdup(text) : NULL;
    if (text && *text && !own) return false;
    free(c->system);
    c->system = own;
    return true;
}

static void write_message(cli_json *json, const char *role, const char *content, size_t bytes)
{
    cli_json_open(json, '{');
    cli_json_key(json, "role");
    cli_json_text(json, role);
    cli_json_key(json, "content");
    cli_json_string(json, content, bytes);
    cli_json_close(json, '}');
}

static void write_conversation(const cli_conversation *c, FILE *out)
{
    cli_json json = { .out = out };
    cli_json_open(&json, '{');
    cli_json_key(&json, "messages");
    cli_json_open(&json, '[');
    if (c->system) write_message(&json, "system", c->system, strlen(c->system));
    for (size_t i = 0; i < c->n; i++)
        write_message(&json, c->messages[i].role, c->messages[i].content,
                      c->messages[i].content_bytes);
    cli_json_close(&json, ']');
    cli_json_key(&json, "add_generation_prompt");
    cli_json_bool(&json, true);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

char *cli_conversation_json(const cli_conversation *c, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out) return NULL;
    write_conversation(c, out);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

int cli_conversation_save(const cli_conversation *c, const char *path)
{
    cli_out_file out;
    int rc = cli_out_file_open(&out, path);
    if (rc >= 0) return rc;
    write_conversation(c, out.file);
    return cli_out_file_close(&out, true);
}

/* One {"role":..,"content":..}; other keys are passed over. */
static bool load_message(cli_json_in *in, cli_conversation *c)
{
    char *role = NULL, *content = NULL;
    size_t content_bytes = 0, bytes;
    bool more = cli_json_take(in, '{') && !cli_json_take(in, '}'), fine = more;
    while (fine && more) {
        char *key = cli_json_take_string(in, &bytes);
        fine = key && cli_json_take(in, ':');
        if (fine && !strcmp(key, "role") && !role)
            fine = (role = cli_json_take_string(in, &bytes)) != NULL;
        else if (fine && !strcmp(key, "content") && !content)
            fine = (content = cli_json_take_string(in, &content_bytes)) != NULL;
        else if (fine)
            fine = cli_json_skip(in);
        free(key);
        more = fine && cli_json_take(in, ',');
    }
    fine = fine && cli_json_take(in, '}') && role && content;
    if (fine && !strcmp(role, "system") && !c->n && !c->system) {
        c->system = content;
        free(role);
        return true;
    }
    if (fine && add_owned(c, role, content, content_bytes)) return true;
    free(role);
    free(content);
    return false;
}

static bool load_messages(cli_json_in *in, cli_conversation *c)
{
    if (!cli_json_take(in, '[')) return false;
    if (cli_json_take(in, ']')) return true;
    do {
        if (!load_message(in, c)) return false;
    } while (cli_json_take(in, ','));
    return cli_json_take(in, ']');
}

static bool load_object(cli_json_in *in, cli_conversation *c)
{
    bool found = false;
    size_t bytes;
    if (!cli_json_take(in, '{')) return false;
    do {
        char *key = cli_json_take_string(in, &bytes);
        bool fine = key && cli_json_take(in, ':');
        bool messages = fine && !strcmp(key, "messages") && !found;
        free(key);
        if (!fine) return false;
        if (messages ? !load_messages(in, c) : !cli_json_skip(in)) return false;
        found = found || messages;
    } while (cli_json_take(in, ','));
    return cli_json_take(in, '}') && cli_json_at_end(in) && found;
}

int cli_conversation_load(cli_conversation *c, const char *path)
{
    char *text = NULL;
    size_t bytes;
    int rc = cli_read_file(path, &text, &bytes);
    if (rc >= 0) return rc;
    cli_conversation loaded = { 0 };
    cli_json_in in = { .at = text, .end = text + bytes };
    bool fine = load_object(&in, &loaded);
    free(text);
    if (!fine) {
        cli_conversation_fini(&loaded);
        return cli_error("%s: is not a saved conversation%s%s", path, in.wrong ? ": " : "",
                         in.wrong ? in.wrong : "");
    }
    cli_conversation_fini(c);
    *c = loaded;
    return -1;
}
