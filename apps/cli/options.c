/* options.c - command lines against tables of options, and help out of the same tables.
 *
 * Strict: an unknown option, a number outside its range, a missing value or a stray word is wrong
 * usage, said in one sentence. Options may stand in any order; a later one replaces an earlier one;
 * "--name=value" and "--name value" are the same; "--" ends the options. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define BACKENDS "auto|cpu|oracle|vulkan"

#define GLOBAL(member) offsetof(cli_globals, member)

static const struct {
    unsigned show;
    cli_option option;
} global_options[] = {
    { CLI_SHOW_MODEL,
      { "-m, --model", "FILE", CLI_TEXT, GLOBAL(model), 0, 0, NULL,
        "GGUF file, the first part of a split one; default: the shipped model" } },
    { CLI_SHOW_BACKEND,
      { "--backend", "NAME", CLI_CHOICE, GLOBAL(backend), 0, 0, BACKENDS,
        "what computes: " BACKENDS } },
    { CLI_SHOW_BACKEND,
      { "--device", "N|NAME", CLI_TEXT, GLOBAL(device), 0, 0, NULL,
        "which device, as `redlite devices` lists them" } },
    { CLI_SHOW_BACKEND,
      { "--cache-mib", "N", CLI_NUMBER, GLOBAL(cache_mib), 0.001, 1 << 24, NULL,
        "memory for routed experts; default: as much as fits" } },
    { CLI_SHOW_BACKEND,
      { "-t, --threads", "N", CLI_UINT, GLOBAL(n_threads), 1, 256, NULL,
        "CPU threads; default: one per core" } },
    { CLI_SHOW_BACKEND,
      { "--io", "MODE", CLI_CHOICE, GLOBAL(io), 0, 0, "auto|direct|buffered",
        "how experts are read: auto|direct|buffered" } },
    { CLI_SHOW_BACKEND,
      { "--prefetch", "MODE", CLI_CHOICE, GLOBAL(prefetch), 0, 0, "auto|off",
        "read experts ahead of the router: auto|off" } },
    { CLI_SHOW_SESSION,
      { "-c, --ctx-size", "N", CLI_UINT, GLOBAL(n_ctx), 1, 1 << 30, NULL,
        "most tokens in a session; default: the model's, at most 4096" } },
    { CLI_SHOW_SESSION,
      { "-ctk, --cache-type-k", "TYPE", CLI_CHOICE, GLOBAL(key_type), 0, 0, "f32|f16",
        "keys in the attention cache: f32|f16; default f16, f32 for the oracle" } },
    { CLI_SHOW_SESSION,
      { "-ctv, --cache-type-v", "TYPE", CLI_CHOICE, GLOBAL(value_type), 0, 0, "f32|f16",
        "values in the attention cache, likewise" } },
    { CLI_SHOW_SEED,
      { "-s, --seed", "N", CLI_SEED, GLOBAL(seed), 0, 0, NULL,
        "start of the random numbers; default: another one each time" } },
    { CLI_SHOW_JSON, { "--json", NULL, CLI_FLAG, GLOBAL(json), 0, 0, NULL, "results as JSON" } },
    { CLI_SHOW_ALL,
      { "-v, --verbose", NULL, CLI_FLAG, GLOBAL(verbose), 0, 0, NULL, "say more on stderr" } },
    { CLI_SHOW_ALL,
      { "-q, --quiet", NULL, CLI_FLAG, GLOBAL(quiet), 0, 0, NULL,
        "no notes and no progress on stderr" } },
};

static const char *const backend_names[] = { "auto", "cpu", "oracle", "vulkan" };

const char *cli_backend_name(const cli_globals *globals)
{
    return backend_names[globals->backend];
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Whether `word` of n bytes is one of a list separated by `separator`; its index, or -1. */
static int find_word(const char *list, const char *separator, const char *word, size_t n)
{
    int index = 0;
    while (*list) {
        size_t length = strcspn(list, separator);
        if (length == n && !strncmp(list, word, n)) return index;
        list += length;
        list += strspn(list, separator);
        index++;
    }
    return -1;
}

static bool parse_u64(const char *text, const char **end, uint64_t *out)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    *end = text;
    *out = value;
    return true;
}

/* Decimal digits, point and exponent only: no hexadecimal, no "nan", no blanks. */
static bool parse_number(const char *text, double *out)
{
    char *end;
    if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

static bool parse_list(const char *text, const cli_option *option, cli_list *out)
{
    size_t capacity = 1;
    for (const char *c = text; *c; c++)
        capacity += *c == ',';
    uint32_t *items = calloc(capacity, sizeof *items);
    if (!items) return false;
    for (size_t n = 0; n < capacity; n++) {
        uint64_t value;
        if (!parse_u64(text, &text, &value) || (double)value < option->least ||
            (double)value > option->most || *text != (n + 1 < capacity ? ',' : 0)) {
            free(items);
            return false;
        }
        text++;
        items[n] = (uint32_t)value;
    }
    free(out->items);
    out->items = items;
    out->n = capacity;
    return true;
}

/* Stores one value; returns -1, or says what is wrong with it and returns CLI_USAGE. */
static int store(const cli_command *command, const cli_option *option, const char *name,
                 const char *value, void *base)
{
    char *target = (char *)base + option->offset;
    uint64_t integer;
    double number;
    const char *end;
    switch (option->kind) {
    case CLI_FLAG: *(bool *)(void *)target = true; return -1;
    case CLI_TEXT: *(const char **)(void *)target = value; return -1;
    case CLI_UINT:
        if (!parse_u64(value, &end, &integer) || *end || (double)integer < option->least ||
            (double)integer > option->most)
            return cli_usage_error(command, "%s takes a whole number from %.0f to %.0f, not '%s'",
                                   name, option->least, option->most, value);
        *(uint32_t *)(void *)target = (uint32_t)integer;
        return -1;
    case CLI_SEED:
        if (!parse_u64(value, &end, &integer) || *end)
            return cli_usage_error(command, "%s takes a whole number below 2^64, not '%s'", name,
                                   value);
        *(uint64_t *)(void *)target = integer;
        return -1;
    case CLI_NUMBER:
        if (!parse_number(value, &number) || number < option->least || number > option->most)
            return cli_usage_error(command, "%s takes a number from %g to %g, not '%s'", name,
                                   option->least, option->most, value);
        *(float *)(void *)target = (float)number;
        return -1;
    case CLI_CHOICE: {
        int index = find_word(option->words, "|", value, strlen(value));
        if (index < 0)
            return cli_usage_error(command, "%s takes one of %s, not '%s'", name, option->words,
                                   value);
        *(int *)(void *)target = index;
        return -1;
    }
    case CLI_LIST:
        if (!parse_list(value, option, (cli_list *)(void *)target))
            return cli_usage_error(
                command, "%s takes whole numbers from %.0f to %.0f separated by commas, not '%s'",
                name, option->least, option->most, value);
        return -1;
    }
    return -1;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Finds an option by one of its names; *base is the struct that its offset counts in. */
static const cli_option *find_option(cli_call *call, void *own, const char *name, size_t n,
                                     void **base)
{
    *base = own;
    for (const cli_option *o = call->command->options; o && o->names; o++)
        if (find_word(o->names, ", ", name, n) >= 0) return o;
    *base = &call->globals;
    for (size_t i = 0; i < CLI_LENGTH(global_options); i++)
        if (find_word(global_options[i].option.names, ", ", name, n) >= 0)
            return &global_options[i].option;
    return NULL;
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint64_t)time(NULL);
    return seed >> 32; /* short enough to be typed again */
}

int cli_parse(cli_call *call, const cli_command *command, int argc, char **argv)
{
    memset(call, 0, sizeof *call);
    call->command = command;
    call->globals.key_type = call->globals.value_type = -1;
    call->globals.seed = random_seed();
    void *own = calloc(1, command->options_bytes + 1);
    call->options = own;
    call->arguments = calloc((size_t)argc + 1, sizeof *call->arguments);
    if (!own || !call->arguments) return cli_error("no memory for the command line");
    if (command->defaults) memcpy(own, command->defaults, command->options_bytes);

    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        if (options_end || word[0] != '-' || !word[1]) {
            if (!command->takes_arguments)
                return cli_usage_error(command, "'%s' is not an option", word);
            call->arguments[call->n_arguments++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            options_end = true;
            continue;
        }
        if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
            cli_print_help(command, stdout);
            return cli_flush() ? CLI_DONE : CLI_FAILED;
        }
        char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        void *base;
        const cli_option *option = find_option(call, own, word, length, &base);
        if (!option) return cli_usage_error(command, "unknown option %s", name);
        const char *value = equals ? equals + 1 : NULL;
        if (!option->value && value) return cli_usage_error(command, "%s takes no value", name);
        if (option->value && !value) {
            if (i + 1 == argc) return cli_usage_error(command, "%s needs a value", name);
            value = argv[++i];
        }
        int rc = store(command, option, name, value, base);
        if (rc >= 0) return rc;
    }
    cli_set_talk(call->globals.verbose, call->globals.quiet);
    call->globals.model_given = call->globals.model != NULL;
    if (!call->globals.model) call->globals.model = cli_default_model();
    return -1;
}

void cli_parse_end(cli_call *call)
{
    const cli_option *options = call->command->options;
    for (const cli_option *o = options; call->options && o && o->names; o++)
        if (o->kind == CLI_LIST)
            free(
                ((const cli_list *)(const void *)((const char *)call->options + o->offset))->items);
    free((void *)(uintptr_t)call->options);
    free(call->arguments);
    memset(call, 0, sizeof *call);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_option(const cli_option *o, FILE *out)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s", o->names[1] == '-' ? "    " : "", o->names,
             o->value ? " " : "", o->value ? o->value : "");
    fprintf(out, "  %-30s %s\n", left, o->help);
}

void cli_print_help(const cli_command *command, FILE *out)
{
    fprintf(out, "redlite %s - %s\n\nusage: redlite %s %s\n", command->name, command->summary,
            command->name, command->usage);
    if (command->options && command->options->names) fputc('\n', out);
    for (const cli_option *o = command->options; o && o->names; o++)
        print_option(o, out);
    fputc('\n', out);
    for (size_t i = 0; i < CLI_LENGTH(global_options); i++)
        if (global_options[i].show & command->show || global_options[i].show == CLI_SHOW_ALL)
            print_option(&global_options[i].option, out);
    if (command->details) fprintf(out, "\n%s", command->details);
}
