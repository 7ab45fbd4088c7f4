/* out_file.h - files that commands write: whole or not at all. */
#ifndef RL_CLI_OUT_FILE_H
#define RL_CLI_OUT_FILE_H

#include <limits.h>
#include <stdio.h>

typedef struct cli_out_file {
    FILE *file;
    char path[PATH_MAX];      /* links followed */
    char part[PATH_MAX + 32]; /* the name until it is whole; empty: written to as it is */
} cli_out_file;

/* Opens `path` for writing under a name of its own beside it. What is no file but a device or a pipe,
 * and what the shell has redirected (/dev/stdout), is written to as it is. Returns -1, or an exit code
 * after an error has been printed. */
int cli_out_file_open(cli_out_file *out, const char *path);

/* Ends the writing. With `whole` the file gets its name, replacing what was there; otherwise, and when
 * anything failed, it is gone. Returns -1, or an exit code after an error has been printed. */
int cli_out_file_close(cli_out_file *out, bool whole);

#endif
