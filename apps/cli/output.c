/* output.c - what the program says: results on stdout that must arrive, talk on stderr. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* How much to say is a property of the run, set once from -v and -q. */
static bool talk_verbose, talk_quiet;
static char later[2048]; /* notes that wait, one per line */

void cli_set_talk(bool verbose, bool quiet)
{
    talk_verbose = verbose;
    talk_quiet = quiet;
}

static void say(const char *start, const char *format, va_list values)
{
    cli_progress_clear();
    fputs(start, stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

int cli_error(const char *format, ...)
{
    va_list values;
    later[0] = 0;
    va_start(values, format);
    say("redlite: ", format, values);
    va_end(values);
    return CLI_FAILED;
}

int cli_error_of(rl_status status, const rl_error *err)
{
    if (status == RL_INTERRUPTED) {
        cli_progress_clear();
        return CLI_INTERRUPTED;
    }
    return cli_error("%s", err->text[0] ? err->text : rl_status_name(status));
}

int cli_usage_error(const cli_command *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say("redlite: ", format, values);
    va_end(values);
    fprintf(stderr, "`redlite help %s` shows how it is used.\n", command->name);
    return CLI_USAGE;
}

void cli_note(const char *format, ...)
{
    if (talk_quiet) return;
    va_list values;
    va_start(values, format);
    say("", format, values);
    va_end(values);
}

void cli_reply(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say("", format, values);
    va_end(values);
}

void cli_note_later(const char *text)
{
    size_t used = strlen(later);
    if (used + strlen(text) + 2 <= sizeof later)
        snprintf(later + used, sizeof later - used, "%s\n", text);
}

void cli_show_notes(void)
{
    if (!talk_quiet && later[0]) {
        cli_progress_clear();
        fputs(later, stderr);
    }
    later[0] = 0;
}

void cli_debug(const char *format, ...)
{
    if (!talk_verbose || talk_quiet) return;
    va_list values;
    va_start(values, format);
    say("", format, values);
    va_end(values);
}

bool cli_flush(void)
{
    static bool complained;
    errno = 0;
    bool arrived = fflush(stdout) == 0 && !ferror(stdout);
    if (!arrived && !complained) {
        complained = true;
        cli_error("the results could not be written to stdout: %s",
                  errno ? strerror(errno) : "an earlier write failed");
    }
    return arrived;
}

/* ---- progress -------------------------------------------------------------------------------- */

enum { PROGRESS_AFTER_MS = 1000, PROGRESS_EVERY_MS = 100, PROGRESS_BAR = 24 };

static struct {
    char what[40];
    int64_t began_ms, drawn_ms;
    uint64_t last_done;
    bool visible;
} progress;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool may_draw(void)
{
    static int terminal = -1;
    if (terminal < 0) {
        const char *kind = getenv("TERM");
        terminal = isatty(STDERR_FILENO) && !(kind && !strcmp(kind, "dumb"));
    }
    return terminal && !talk_quiet;
}

/* "1:07" of milliseconds. */
static void format_time(char out[24], int64_t ms)
{
    long long seconds = (ms + 500) / 1000;
    if (seconds < 3600)
        snprintf(out, 24, "%lld:%02lld", seconds / 60, seconds % 60);
    else
        snprintf(out, 24, "%lldh%02lld", seconds / 3600, seconds / 60 % 60);
}

void cli_progress(const char *what, uint64_t done, uint64_t total, const char *extra)
{
    if (!may_draw()) return;
    int64_t now = now_ms();
    if (strncmp(progress.what, what, sizeof progress.what - 1) || done < progress.last_done ||
        !progress.began_ms) {
        cli_progress_clear();
        snprintf(progress.what, sizeof progress.what, "%s", what);
        progress.began_ms = now;
    }
    progress.last_done = done;
    bool last = total && done >= total;
    if (now - progress.began_ms < PROGRESS_AFTER_MS) return;
    if (now - progress.drawn_ms < PROGRESS_EVERY_MS && !last) return;
    progress.drawn_ms = now;

    char line[256], time_left[24] = "";
    double share = total ? (double)done / (double)total : 0;
    if (share > 1) share = 1;
    if (share > 0 && share < 1)
        format_time(time_left, (int64_t)((double)(now - progress.began_ms) * (1 - share) / share));
    char bar[PROGRESS_BAR + 1];
    for (int i = 0; i < PROGRESS_BAR; i++)
        bar[i] = i < (int)(share * PROGRESS_BAR) ? '#' : '.';
    bar[PROGRESS_BAR] = 0;
    snprintf(line, sizeof line, "%s [%s] %3.0f%%%s%s%s%s%s", progress.what, bar, share * 100,
             time_left[0] ? ", " : "", time_left, time_left[0] ? " left" : "", extra ? ", " : "",
             extra ? extra : "");
    struct winsize size;
    unsigned width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    if (strlen(line) >= width) line[width - 1] = 0;
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    progress.visible = true;
}

static bool command_draws;

void cli_progress_take(void)
{
    command_draws = true;
}

void cli_progress_of_library(const char *what, uint64_t done, uint64_t total)
{
    if (!command_draws) cli_progress(what, done, total, NULL);
}

void cli_progress_clear(void)
{
    if (progress.visible) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    memset(&progress, 0, sizeof progress);
}
