/* cli.h - what the commands of the program share.
 *
 * A command is one file with one table of options and one function: `redlite help COMMAND`, the
 * parser and the defaults all come from that table. main.c lists the commands; nothing else knows
 * them all. To add one: write NAME.c with a `const cli_command cli_NAME` and give it a row there.
 *
 * Results go to stdout, everything else to stderr. A run ends with 0 (done), 1 (failed: one
 * sentence on stderr), 2 (wrong usage) or 130 (interrupted). One thread. */
#ifndef RL_CLI_CLI_H
#define RL_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "redlite.h"

#define CLI_LENGTH(array)        (sizeof(array) / sizeof((array)[0]))
#define CLI_PRINTF(text, values) __attribute__((format(printf, text, values)))

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* ---- options (options.c) --------------------------------------------------------------------- */

/* What an option's value is, and the C type behind its offset. */
typedef enum cli_kind {
    CLI_FLAG,   /* bool, set to true; no value                                      */
    CLI_TEXT,   /* const char *                                                     */
    CLI_UINT,   /* uint32_t within least..most                                      */
    CLI_SEED,   /* uint64_t                                                         */
    CLI_NUMBER, /* float within least..most                                         */
    CLI_CHOICE, /* int, index of the word in `words`                                */
    CLI_LIST    /* cli_list of uint32_t within least..most, separated by commas     */
} cli_kind;

typedef struct cli_option {
    const char *names; /* "-m, --model": as help shows them; NULL ends a table */
    const char *value; /* "FILE": what help calls the value; NULL for flags    */
    cli_kind kind;
    size_t offset; /* into the options struct of the command */
    double least, most;
    const char *words; /* CLI_CHOICE: "auto|cpu|oracle" */
    const char *help;
} cli_option;

typedef struct cli_list {
    uint32_t *items; /* NULL: not given */
    size_t n;
} cli_list;

/* The options that every command takes, though not every command has a use for each. */
typedef struct cli_globals {
    const char *model; /* never NULL once parsed: the shipped model by default */
    bool model_given;
    int backend; /* index into "auto|cpu|oracle|vulkan" */
    const char *device;
    float cache_mib;           /* may be a fraction; 0: default */
    uint32_t n_threads, n_ctx; /* 0: default */
    int key_type, value_type;  /* -1: default, 0: f32, 1: f16 */
    int io;                    /* an rl_io_mode */
    int prefetch;              /* 0: auto, 1: off */
    uint64_t seed;             /* random unless given */
    bool json, verbose, quiet;
} cli_globals;

/* Which of them `help COMMAND` shows. */
enum {
    CLI_SHOW_MODEL = 1 << 0,   /* -m                                           */
    CLI_SHOW_BACKEND = 1 << 1, /* --backend and what belongs to it             */
    CLI_SHOW_SESSION = 1 << 2, /* -c -ctk -ctv                                 */
    CLI_SHOW_SEED = 1 << 3,
    CLI_SHOW_JSON = 1 << 4,
    CLI_SHOW_ALL = (1 << 5) - 1
};

struct cli_call;

typedef struct cli_command {
    const char *name;
    const char *summary;       /* one line, no full stop                                  */
    const char *usage;         /* what follows the name: "[-p TEXT | -f FILE] [options]"  */
    const char *details;       /* paragraphs behind the options, lines <= 80, or NULL      */
    const cli_option *options; /* ended by a row without names; NULL: none of its own      */
    const void *defaults;      /* an options struct with the defaults; NULL without options */
    size_t options_bytes;      /* its size                                                */
    bool takes_arguments;      /* words that are no options                               */
    unsigned show;             /* CLI_SHOW_...                                            */
    unsigned checkpoints;      /* its session keeps so many, for planning memory          */
    int (*run)(const struct cli_call *call); /* returns the exit code                      */
} cli_command;

/* One run of one command. */
typedef struct cli_call {
    const cli_command *command;
    cli_globals globals;
    const void *options; /* the command's struct, filled */
    char **arguments;    /* words that are no options */
    size_t n_arguments;
} cli_call;

/* Parses argv (behind the command's name). Returns -1 to go on, otherwise the exit code: help was
 * asked for, or the usage is wrong and stderr says why. *call owns its memory: cli_parse_end(). */
int cli_parse(cli_call *call, const cli_command *command, int argc, char **argv);
void cli_parse_end(cli_call *call);
void cli_print_help(const cli_command *command, FILE *out);
const char *cli_backend_name(const cli_globals *globals); /* "auto", "cpu", ... */

/* ---- messages and results (output.c) --------------------------------------------------------- */

void cli_set_talk(bool verbose, bool quiet);
/* "redlite: SENTENCE" on stderr; returns CLI_FAILED. */
int cli_error(const char *format, ...) CLI_PRINTF(1, 2);
/* The same for a failed call of the library: CLI_INTERRUPTED (silent) or CLI_FAILED. */
int cli_error_of(rl_status status, const rl_error *err);
/* Wrong usage of `command`, with a hint where to read on; returns CLI_USAGE. */
int cli_usage_error(const cli_command *command, const char *format, ...) CLI_PRINTF(2, 3);
void cli_note(const char *format, ...) CLI_PRINTF(1, 2);  /* stderr, not with -q   */
void cli_reply(const char *format, ...) CLI_PRINTF(1, 2); /* stderr, to what somebody typed */
/* A note that shows only when cli_show_notes() is called before anything failed: what was said while
 * opening a model would only stand before the sentence that counts. */
void cli_note_later(const char *text);
void cli_show_notes(void);
void cli_debug(const char *format, ...) CLI_PRINTF(1, 2); /* stderr, only with -v  */

/* Pushes what was printed to stdout on its way. false: it did not arrive (a closed pipe, a full
 * disk), and stderr says so; the command should end with CLI_FAILED. */
bool cli_flush(void);

/* A line on stderr that shows how far a long piece of work is; only on a terminal, not with -q, and
 * not before it has taken a second. `extra` may be NULL. */
void cli_progress(const char *what, uint64_t done, uint64_t total, const char *extra);
void cli_progress_clear(void);
/* The command draws its own line; what the library reports meanwhile is not shown. */
void cli_progress_take(void);
void cli_progress_of_library(const char *what, uint64_t done, uint64_t total);

/* ---- interruption (interrupt.c) -------------------------------------------------------------- */

/* From now on Ctrl-C is counted; the third one ends the program on the spot, with code 130. */
void cli_catch_interrupts(void);
unsigned cli_interrupts(void);
void cli_forget_interrupts(void);

/* ---- models and input (model.c) -------------------------------------------------------------- */

/* Where the shipped model is, or a plain name to complain about. Static storage. */
const char *cli_default_model(void);

/* Opens the model of -m. Returns -1 when it is open, otherwise the exit code. */
int cli_open_model(const cli_call *call, bool vocab_only, rl_model **out);
/* The first reading of a prompt has failed: where "auto" had chosen a GPU and that is what failed, the
 * CPU takes its place. Returns -1 when *model and *session are open anew, otherwise the exit code: then
 * the failure has been said. */
int cli_fall_back(const cli_call *call, rl_status status, const rl_error *err, rl_model **model,
                  rl_session **session);
/* n_ctx: of the session where -c is not given; 0: the library's default. */
int cli_create_session(const cli_call *call, rl_model *model, uint32_t n_ctx, rl_session **out);

/* Reads a file whole ("-": stdin) into a malloc'ed buffer with a NUL behind it; -1 or exit code. */
int cli_read_file(const char *path, char **out, size_t *bytes);

/* The prompt of -p, -f or --tokens, of which exactly one must be given, as tokens (malloc'ed).
 * Tokens are checked against the vocabulary. Returns -1 or the exit code. */
typedef struct cli_prompt {
    const char *text, *file;
    cli_list tokens;
} cli_prompt;
int cli_prompt_check(const cli_command *command, const cli_prompt *prompt);
int cli_prompt_tokens(const cli_prompt *prompt, const rl_model *model, bool parse_special,
                      uint32_t **ids, size_t *n);

#endif
