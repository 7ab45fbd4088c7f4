/* process.h - runs the program under test: with its input and output held, or on a terminal.
 *
 * The program is RL_TEST_PROGRAM, the redlite of this build. Nothing here waits for ever: a run that
 * takes longer than a minute, or the limit it is given, is killed and fails the test. */
#ifndef RL_TESTS_SUPPORT_PROCESS_H
#define RL_TESTS_SUPPORT_PROCESS_H

#include "support/test.h"

typedef struct rl_test_run {
    int code;   /* exit code; -1 when a signal ended it */
    int signal; /* or 0 */
    char *out;  /* stdout, terminated */
    size_t out_bytes;
    char *err; /* stderr, terminated */
    size_t err_bytes;
    uint64_t peak_bytes; /* most resident memory it ever had */
} rl_test_run;

/* Where the program's standard streams go other than to us; a zeroed one changes nothing. */
typedef struct rl_test_streams {
    const char *input; /* stdin; NULL: empty */
    size_t input_bytes;
    const char *out_path;       /* stdout is this file, e.g. /dev/full; NULL: held               */
    bool out_closed;            /* stdout is a pipe that nobody reads                            */
    unsigned interrupt_ms;      /* SIGINT after so many ms from the first byte of stdout ...     */
    bool interrupt_from_start;  /* ... or, when true, from the start                             */
    const char *interrupt_from; /* ... or, unless NULL, from these words on stderr               */
    const char *const *setting; /* NAME=VALUE ..., NULL at the end; added to the environment     */
    unsigned limit_s;           /* killed after so long; 0: a minute                             */
} rl_test_streams;

/* Runs the program with these arguments (NULL at the end). Free with rl_test_run_fini(). */
rl_test_run rl_test_execute(const rl_test_streams *streams, const char *const *arguments);
void rl_test_run_fini(rl_test_run *run);

/* rl_test_run r = RUN("info", "--json"); RUN_WITH(input, "tokenize", "--jsonl") */
#define RUN(...) rl_test_execute(NULL, (const char *const[]){ __VA_ARGS__, NULL })
#define RUN_WITH(text, ...)                                                                        \
    rl_test_execute(&(rl_test_streams){ .input = (text), .input_bytes = strlen(text) },            \
                    (const char *const[]){ __VA_ARGS__, NULL })

/* Fails with everything the run said unless it ended with `code`. */
void rl_test_expect_code(const rl_test_run *run, int code);
/* A failed run: code, nothing on stdout, and stderr is "redlite: ..." with `word` in it. */
void rl_test_expect_refused(const rl_test_run *run, int code, const char *word);

/* ---- on a terminal --------------------------------------------------------------------------- */

typedef struct rl_test_terminal rl_test_terminal;

/* Starts the program on a terminal of its own. */
rl_test_terminal *rl_test_terminal_start(const char *const *arguments);
void rl_test_terminal_type(rl_test_terminal *t, const char *text);
/* Waits until the program has shown `text` behind what earlier calls found; fails after a while. */
void rl_test_terminal_expect(rl_test_terminal *t, const char *text);
/* Everything shown so far. */
const char *rl_test_terminal_shown(const rl_test_terminal *t);
/* Waits for the end; returns the exit code. */
int rl_test_terminal_finish(rl_test_terminal *t);

#endif
