/* model.c - opening what the commands work on: the model, a session, input files, prompts. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIPPED_MODEL "redlite-demo-IQ2_XXS.gguf"

enum { MAX_INPUT_BYTES = 1 << 30 };

/* Beside the program (build tree: ../models), below the prefix that the program stands in, below
 * the prefix it was made for, in the source tree. */
const char *cli_default_model(void)
{
    static char found[PATH_MAX];
    char program[PATH_MAX / 2], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    const struct {
        const char *start, *rest;
    } places[] = {
        { program, "/../models" },
        { program, "/../share/redlite" },
        { RL_INSTALL_DATA, "" },
        { RL_SOURCE_MODELS, "" },
    };
    for (size_t i = 0; i < CLI_LENGTH(places); i++) {
        if (!places[i].start[0]) continue;
        snprintf(path, sizeof path, "%s%s/" SHIPPED_MODEL, places[i].start, places[i].rest);
        if (realpath(path, found)) return found;
    }
    return SHIPPED_MODEL;
}

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    (void)context;
    cli_progress_of_library(what, done, total);
    return cli_interrupts() == 0;
}

static void on_note(void *context, const char *text)
{
    (void)context;
    cli_note_later(text);
}

static int open_model(const cli_call *call, const char *backend, bool vocab_only, rl_model **out)
{
    const cli_globals *g = &call->globals;
    rl_error err = { "" };
    rl_model_params params = {
        .backend = backend,
        .device = g->device,
        .n_threads = g->n_threads,
        .cache_bytes = (uint64_t)((double)g->cache_mib * (1 << 20)),
        .plan_ctx = g->n_ctx,
        .plan_key_f32 = g->key_type == 0,
        .plan_value_f32 = g->value_type == 0,
        .plan_checkpoints = call->command->checkpoints,
        .io = (rl_io_mode)g->io,
        .no_prefetch = g->prefetch == 1,
        .vocab_only = vocab_only,
        .progress = on_progress,
        .note = on_note,
    };
    rl_status status = rl_model_open(out, g->model, &params, &err);
    cli_progress_clear();
    if (status) return cli_error_of(status, &err);
    rl_model_info info;
    rl_model_get_info(*out, &info);
    cli_debug("model %s (%s) from %s", info.name, info.architecture, g->model);
    if (!vocab_only) cli_debug("computing on %s", info.backend);
    return -1;
}

int cli_open_model(const cli_call *call, bool vocab_only, rl_model **out)
{
    return open_model(call, cli_backend_name(&call->globals), vocab_only, out);
}

int cli_fall_back(const cli_call *call, rl_status status, const rl_error *err, rl_model **model,
                  rl_session **session)
{
    const cli_globals *g = &call->globals;
    rl_model_info info;
    rl_model_get_info(*model, &info);
    if ((status != RL_DEVICE && status != RL_NOMEM) || strcmp(cli_backend_name(g), "auto") ||
        g->device || !strncmp(info.backend, "cpu", 3))
        return cli_error_of(status, err);
    cli_note("the CPU goes on: %s", err->text);
    uint32_t n_ctx = rl_session_n_ctx(*session);
    rl_session_destroy(*session);
    rl_model_close(*model);
    *session = NULL;
    *model = NULL;
    int rc = open_model(call, "cpu", false, model);
    return rc < 0 ? cli_create_session(call, *model, n_ctx, session) : rc;
}

int cli_create_session(const cli_call *call, rl_model *model, uint32_t n_ctx, rl_session **out)
{
    const cli_globals *g = &call->globals;
    rl_error err = { "" };
    rl_model_info info;
    rl_model_get_info(model, &info);
    /* The oracle says what is right, so it keeps what it computed. */
    bool f32 = !strncmp(info.backend, "oracle", 6);
    rl_session_params params = {
        .n_ctx = g->n_ctx ? g->n_ctx : n_ctx,
        .key_f32 = g->key_type < 0 ? f32 : g->key_type == 0,
        .value_f32 = g->value_type < 0 ? f32 : g->value_type == 0,
    };
    rl_status status = rl_session_create(out, model, &params, &err);
    if (status) return cli_error_of(status, &err);
    return -1;
}

int cli_read_file(const char *path, char **out, size_t *bytes)
{
    bool is_stdin = !strcmp(path, "-");
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) return cli_error("%s: cannot be opened: %s", path, strerror(errno));
    size_t n = 0, capacity = 1 << 16;
    char *data = malloc(capacity);
    int rc = -1;
    for (;;) {
        if (n + 1 >= capacity) {
            char *more = capacity < MAX_INPUT_BYTES ? realloc(data, capacity * 2) : NULL;
            if (!more) {
                rc = cli_error("%s: larger than this program reads (1 GiB)", path);
                break;
            }
            data = more;
            capacity *= 2;
        }
        if (!data) {
            rc = cli_error("%s: no memory to read it", path);
            break;
        }
        errno = 0;
        size_t got = fread(data + n, 1, capacity - 1 - n, file);
        n += got;
        if (got) continue;
        if (ferror(file) && errno == EINTR && !cli_interrupts()) {
            clearerr(file);
            continue;
        }
        if (cli_interrupts())
            rc = CLI_INTERRUPTED;
        else if (ferror(file))
            rc = cli_error("%s: cannot be read: %s", path, strerror(errno));
        break;
    }
    if (!is_stdin) fclose(file);
    if (rc >= 0) {
        free(data);
        return rc;
    }
    data[n] = 0;
    *out = data;
    *bytes = n;
    return -1;
}

int cli_prompt_check(const cli_command *command, const cli_prompt *prompt)
{
    int given = !!prompt->text + !!prompt->file + !!prompt->tokens.items;
    if (given == 1) return -1;
    return cli_usage_error(command, "%s",
                           given ? "give only one of -p, -f and --tokens"
                                 : "there is nothing to read: give -p or -f");
}

static int copy_ids(const uint32_t *from, size_t n, uint32_t **ids, size_t *n_ids)
{
    *ids = malloc((n + 1) * sizeof **ids);
    if (!*ids) return cli_error("no memory for the prompt");
    if (n) memcpy(*ids, from, n * sizeof **ids);
    *n_ids = n;
    return -1;
}

int cli_prompt_tokens(const cli_prompt *prompt, const rl_model *model, bool parse_special,
                      uint32_t **ids, size_t *n)
{
    rl_error err = { "" };
    rl_model_info info;
    rl_model_get_info(model, &info);
    if (prompt->tokens.items) {
        for (size_t i = 0; i < prompt->tokens.n; i++)
            if (prompt->tokens.items[i] >= info.n_vocab)
                return cli_error("token %u is not in the vocabulary of %u tokens",
                                 prompt->tokens.items[i], info.n_vocab);
        return copy_ids(prompt->tokens.items, prompt->tokens.n, ids, n);
    }
    char *file_text = NULL;
    const char *text = prompt->text;
    size_t bytes = text ? strlen(text) : 0, n_found;
    uint32_t *found = NULL;
    if (!text) {
        int rc = cli_read_file(prompt->file, &file_text, &bytes);
        if (rc >= 0) return rc;
        text = file_text;
    }
    rl_status status = rl_tokenize(model, text, bytes, parse_special, &found, &n_found, &err);
    free(file_text);
    if (status && prompt->file) return cli_error("%s: %s", prompt->file, err.text);
    if (status) return cli_error_of(status, &err);
    int rc = copy_ids(found, n_found, ids, n);
    rl_free(found);
    return rc;
}
