/* chat_input.c - see chat_input.h. libedit where it is there, plain lines otherwise. */
#include "chat_input.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#ifdef RL_HAVE_LIBEDIT
#include <histedit.h>
#endif

struct cli_input {
    const char *prompt;
    char *buffer; /* of getline */
    size_t capacity;
    bool terminal;
#ifdef RL_HAVE_LIBEDIT
    EditLine *edit;
    History *history;
#endif
};

#ifdef RL_HAVE_LIBEDIT
static char *get_prompt(EditLine *edit)
{
    cli_input *input = NULL;
    el_get(edit, EL_CLIENTDATA, &input);
    return (char *)(uintptr_t)input->prompt;
}

/* Reads one character and comes back when Ctrl-C arrives instead of one. */
static int get_character(EditLine *edit, wchar_t *out)
{
    char bytes[MB_LEN_MAX + 1];
    size_t n = 0;
    mbstate_t state;
    (void)edit;
    for (;;) {
        if (cli_interrupts()) return -1;
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && cli_interrupts()) return -1;
        if (got < 0 && errno == EINTR) continue; /* another signal: the window changed */
        if (got <= 0) return 0;                  /* the end, or the terminal is gone */
        n++;
        memset(&state, 0, sizeof state);
        size_t used = mbrtowc(out, bytes, n, &state);
        if (used == (size_t)-2 && n < MB_LEN_MAX) continue; /* in the middle of a character */
        if ((used == (size_t)-1 || used == (size_t)-2) && n > 1) {
            /* No character: it is left out, but not the byte that shows it, which may be Enter. */
            bytes[0] = bytes[n - 1];
            n = 1;
            memset(&state, 0, sizeof state);
            used = mbrtowc(out, bytes, n, &state);
            if (used == (size_t)-2) continue;
        }
        if (used == (size_t)-1 || used == (size_t)-2) {
            n = 0;
            continue;
        }
        if (used == 0) *out = 0;
        return 1;
    }
}

static bool open_edit(cli_input *input)
{
    HistEvent event;
    if (!strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968")) setlocale(LC_CTYPE, "C.UTF-8");
    input->edit = el_init("redlite", stdin, stdout, stderr);
    input->history = history_init();
    if (!input->edit || !input->history) return false;
    history(input->history, &event, H_SETSIZE, 500);
    el_set(input->edit, EL_CLIENTDATA, input);
    el_set(input->edit, EL_PROMPT, get_prompt);
    el_set(input->edit, EL_EDITOR, "emacs");
    el_set(input->edit, EL_HIST, history, input->history);
    el_set(input->edit, EL_GETCFN, get_character);
    el_set(input->edit, EL_SIGNAL, 0);
    el_source(input->edit, NULL);
    return true;
}

static cli_line read_edited(cli_input *input, const char **line, size_t *bytes)
{
    int count = 0;
    /* Before the prompt shows, so that a Ctrl-D right behind it is a key and not the tty's. */
    el_set(input->edit, EL_PREP_TERM, 1);
    const char *text = el_gets(input->edit, &count);
    if (cli_interrupts()) {
        el_reset(input->edit);
        putchar('\n');
        fflush(stdout);
        return CLI_LINE_INTERRUPT;
    }
    if (!text || count <= 0) return CLI_LINE_END;
    HistEvent event;
    if (count > 1) history(input->history, &event, H_ENTER, text);
    *line = text;
    *bytes = (size_t)count;
    return CLI_LINE_READ;
}
#endif

cli_input *cli_input_create(bool terminal, const char *prompt)
{
    cli_input *input = calloc(1, sizeof *input);
    if (!input) return NULL;
    input->terminal = terminal;
    input->prompt = prompt;
#ifdef RL_HAVE_LIBEDIT
    if (terminal && !open_edit(input)) {
        cli_input_destroy(input);
        return NULL;
    }
#endif
    return input;
}

void cli_input_destroy(cli_input *input)
{
    if (!input) return;
#ifdef RL_HAVE_LIBEDIT
    if (input->edit) el_end(input->edit);
    if (input->history) history_end(input->history);
#endif
    free(input->buffer);
    free(input);
}

static cli_line read_plain(cli_input *input, const char **line, size_t *bytes)
{
    if (input->terminal) {
        fputs(input->prompt, stdout);
        fflush(stdout);
    }
    ssize_t n = getline(&input->buffer, &input->capacity, stdin);
    if (cli_interrupts()) {
        clearerr(stdin);
        return CLI_LINE_INTERRUPT;
    }
    if (n < 0) return ferror(stdin) ? CLI_LINE_FAILED : CLI_LINE_END;
    *line = input->buffer;
    *bytes = (size_t)n;
    return CLI_LINE_READ;
}

cli_line cli_input_read(cli_input *input, const char **line, size_t *bytes)
{
#ifdef RL_HAVE_LIBEDIT
    cli_line result =
        input->terminal ? read_edited(input, line, bytes) : read_plain(input, line, bytes);
#else
    cli_line result = read_plain(input, line, bytes);
#endif
    if (result != CLI_LINE_READ) return result;
    size_t n = *bytes;
    while (n > 0 && ((*line)[n - 1] == '\n' || (*line)[n - 1] == '\r'))
        n--;
    *bytes = n;
    return result;
}
