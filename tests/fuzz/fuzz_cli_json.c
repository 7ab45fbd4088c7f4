/* fuzz_cli_json.c - the JSON that the commands read from stdin and saved conversations.
 *
 * The first byte chooses what is expected. Whatever is taken must be written and taken back equal. */
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
    size_t n;
    switch (data[0] % 4) {
    case 0: string(&in); break;
    case 1: free(cli_json_take_ids(&in, &n)); break;
    case 2:
        if (!cli_json_skip(&in) && !in.wrong) abort();
        break;
    case 3: conversation(); break;
    }
    return 0;
}
