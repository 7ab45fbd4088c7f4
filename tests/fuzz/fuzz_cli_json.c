/* fuzz_cli_json.c - the JSON that the commands read from stdin and saved conversations.
 *
 * The first byte chooses what is expected. Whatever is taken must be written and taken back equal, and
 * whatever bytes are written must be read as JSON again. */
#include "cli/conversation.h"
#include "cli/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* conversation.c reads files by way of the program's own functions; here the file is memory. */
static const uint8_t *file_data;
static size_t file_bytes;

int cli_read_file(const char *path, char **out, size_t *bytes)
{
    (void)path;
    *out = malloc(file_bytes + 1);
    if (!*out) return CLI_FAILED;
    memcpy(*out, file_data, file_bytes);
    (*out)[file_bytes] = 0;
    *bytes = file_bytes;
    return -1;
}

int cli_error(const char *format, ...)
{
    (void)format;
    return CLI_FAILED;
}

/* The text of what `write` writes; free it. */
typedef void writer(cli_json *json, const void *what, size_t n);

static char *written(writer *write, const void *what, size_t n, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out) abort();
    cli_json json = { .out = out };
    write(&json, what, n);
    fclose(out);
    return text;
}

static void write_ids(cli_json *json, const void *what, size_t n)
{
    cli_json_ids(json, what, n);
}

/* One value of every kind, out of any bytes. */
static void write_values(cli_json *json, const void *what, size_t n)
{
    double number = 0;
    memcpy(&number, what, n < sizeof number ? n : sizeof number);
    cli_json_open(json, '{');
    cli_json_key(json, "text");
    cli_json_string(json, what, n);
    cli_json_key(json, "number");
    cli_json_number(json, number, (int)(n % 10));
    cli_json_key(json, "list");
    cli_json_open(json, '[');
    cli_json_uint(json, n);
    cli_json_bool(json, n % 2 == 0);
    cli_json_null(json);
    cli_json_close(json, ']');
    cli_json_close(json, '}');
    cli_json_end_line(json);
}

static void ids(cli_json_in *in)
{
    size_t n, n_again, bytes;
    uint32_t *found = cli_json_take_ids(in, &n);
    if (!found) {
        if (!in->wrong) abort();
        return;
    }
    char *text = written(write_ids, found, n, &bytes);
    cli_json_in back = { .at = text, .end = text + bytes };
    uint32_t *again = cli_json_take_ids(&back, &n_again);
    if (!again || n_again != n || memcmp(again, found, n * sizeof *found)) abort();
    free(again);
    free(text);
    free(found);
}

static void values(const uint8_t *data, size_t n)
{
    size_t bytes;
    char *text = written(write_values, data, n, &bytes);
    cli_json_in back = { .at = text, .end = text + bytes };
    if (!cli_json_skip(&back) || !cli_json_at_end(&back)) abort();
    free(text);
}

/* Messages as a chat adds them, one byte of role each and the rest as content. */
static void build(const uint8_t *data, size_t n)
{
    static const char *const roles[] = { "user", "assistant", "tool" };
    cli_conversation c = { 0 }, again = { 0 };
    size_t bytes, n_kept = 0;
    for (size_t i = 0; i < n && c.n < 8; i += n_kept + 1) {
        n_kept = data[i] % 16;
        if (n_kept > n - i - 1) n_kept = n - i - 1;
        if (!cli_conversation_add(&c, roles[data[i] % 3], (const char *)data + i + 1, n_kept))
            abort();
        if (data[i] > 250) cli_conversation_drop_last(&c);
    }
    if (!cli_conversation_set_system(&c, n % 2 ? "be brief" : NULL)) abort();
    char *json = cli_conversation_json(&c, &bytes);
    if (!json) abort();
    file_data = (const uint8_t *)json;
    file_bytes = bytes;
    if (cli_conversation_load(&again, "") >= 0 || again.n != c.n) abort();
    cli_conversation_clear(&again);
    cli_conversation_fini(&again);
    cli_conversation_fini(&c);
    free(json);
}

static void conversation(void)
{
    cli_conversation c = { 0 }, again = { 0 };
    if (cli_conversation_load(&c, "") < 0) {
        size_t n, n_again;
        char *json = cli_conversation_json(&c, &n);
        if (!json) abort();
        file_data = (const uint8_t *)json;
        file_bytes = n;
        if (cli_conversation_load(&again, "") >= 0) abort();
        char *json_again = cli_conversation_json(&again, &n_again);
        if (!json_again || n != n_again || memcmp(json, json_again, n)) abort();
        free(json);
        free(json_again);
    }
    cli_conversation_fini(&c);
    cli_conversation_fini(&again);
}

static void string(cli_json_in *in)
{
    size_t bytes, bytes_again, n;
    char *text = cli_json_take_string(in, &bytes);
    if (!text) {
        if (!in->wrong) abort();
        return;
    }
    char *json_text = NULL;
    FILE *out = open_memstream(&json_text, &n);
    if (!out) abort();
    cli_json json = { .out = out };
    cli_json_string(&json, text, bytes);
    fclose(out);
    cli_json_in back = { .at = json_text, .end = json_text + n };
    char *again = cli_json_take_string(&back, &bytes_again);
    if (!again || !cli_json_at_end(&back)) abort();
    free(again);
    free(json_text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    cli_json_in in = { .at = (const char *)data + 1, .end = (const char *)data + size };
    file_data = data + 1;
    file_bytes = size - 1;
    switch (data[0] % 6) {
    case 0: string(&in); break;
    case 1: ids(&in); break;
    case 2:
        if (!cli_json_skip(&in) && !in.wrong) abort();
        break;
    case 3: conversation(); break;
    case 4: values(data + 1, size - 1); break;
    case 5: build(data + 1, size - 1); break;
    }
    return 0;
}
