/* chat_input.h - lines typed by a person, with history, or lines of a file or pipe. */
#ifndef RL_CLI_CHAT_INPUT_H
#define RL_CLI_CHAT_INPUT_H

#include "cli.h"

typedef struct cli_input cli_input;

typedef enum cli_line {
    CLI_LINE_READ,      /* *line holds it, without the line feed                      */
    CLI_LINE_END,       /* no more input                                              */
    CLI_LINE_INTERRUPT, /* Ctrl-C while waiting; what was typed so far is forgotten   */
    CLI_LINE_FAILED     /* reading failed                                             */
} cli_line;

/* `terminal`: edit lines behind a prompt; otherwise take them as they come. NULL: no memory. */
cli_input *cli_input_create(bool terminal, const char *prompt);
void cli_input_destroy(cli_input *input);
/* The line is terminated, may hold NUL bytes, and is borrowed until the next call. */
cli_line cli_input_read(cli_input *input, const char **line, size_t *bytes);

#endif
