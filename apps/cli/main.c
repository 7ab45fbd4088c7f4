/* main.c - the program: finds the command and runs it. */
#include "cli.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* In the order of `redlite help`. What is not here does not exist. */
#define CLI_COMMANDS(X)                                                                            \
    X(generate)                                                                                    \
    X(chat)                                                                                        \
    X(info)                                                                                        \
    X(devices)                                                                                     \
    X(tokenize)                                                                                    \
    X(detokenize)                                                                                  \
    X(render)                                                                                      \
    X(logits)                                                                                      \
    X(perplexity)                                                                                  \
    X(parity)                                                                                      \
    X(bench)                                                                                       \
    X(synth)

#define X(name) extern const cli_command cli_##name;
CLI_COMMANDS(X)
#undef X

static const cli_command *const commands[] = {
#define X(name) &cli_##name,
    CLI_COMMANDS(X)
#undef X
};

static const cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < CLI_LENGTH(commands); i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static void print_overview(FILE *out)
{
    fprintf(out,
            "redlite %s - runs sparse mixture-of-experts models of the Qwen3-Next family\n\n"
            "usage: redlite COMMAND [options]\n\n",
            rl_version());
    for (size_t i = 0; i < CLI_LENGTH(commands); i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`redlite help COMMAND` lists the options of a command.\n", out);
}

static int unknown_command(const char *name)
{
    cli_error("there is no command '%s'", name);
    fputs("`redlite help` lists the commands.\n", stderr);
    return CLI_USAGE;
}

static int help(int argc, char **argv)
{
    const cli_command *command = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc > 0 && !command) return unknown_command(argv[0]);
    if (command)
        cli_print_help(command, stdout);
    else
        print_overview(stdout);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
}

/* A standard stream that is closed keeps its number, or the next file that is opened, be it the
 * model, would be read as input or written to as output. Using it fails as if it were closed. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    /* Only characters follow the user's locale, numbers are written one way everywhere. */
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error, said in a sentence, ... */
    signal(SIGXFSZ, SIG_IGN); /* ... and so is a file that may not grow */
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return help(argc - 2, argv + 2);
    if (!strcmp(name, "--version")) {
        printf("redlite %s\n", rl_version());
        return cli_flush() ? CLI_DONE : CLI_FAILED;
    }
    const cli_command *command = find_command(name);
    if (!command) return unknown_command(name);

    cli_call call;
    int code = cli_parse(&call, command, argc - 2, argv + 2);
    if (code < 0) {
        cli_catch_interrupts();
        code = command->run(&call);
        cli_progress_clear();
        if (!cli_flush() && code == CLI_DONE) code = CLI_FAILED;
    }
    cli_parse_end(&call);
    return code;
}
