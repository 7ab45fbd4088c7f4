/* process.c - tests/support/process.h. */
#include "support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 60000, MAX_ARGUMENTS = 64 };

typedef struct buffer {
    char *data;
    size_t bytes, capacity;
} buffer;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads what is there; false at the end. */
static bool drain(int fd, buffer *b)
{
    if (b->capacity - b->bytes < 65536) {
        b->capacity = (b->capacity + 65536) * 2;
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    ssize_t got = read(fd, b->data + b->bytes, b->capacity - b->bytes - 1);
    if (got > 0) b->bytes += (size_t)got;
    b->data[b->bytes] = 0;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static void become_program(const char *const *arguments, const char *const *setting)
{
    char *argv[MAX_ARGUMENTS + 2] = { RL_TEST_PROGRAM };
    for (int i = 0; arguments[i] && i < MAX_ARGUMENTS; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    for (; setting && *setting; setting++)
        putenv((char *)(uintptr_t)*setting);
    execv(RL_TEST_PROGRAM, argv);
    dprintf(STDERR_FILENO, "%s cannot be run\n", RL_TEST_PROGRAM);
    _exit(127);
}

static void pipe_of(int fds[2])
{
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
}

rl_test_run rl_test_execute(const rl_test_streams *streams, const char *const *arguments)
{
    static const rl_test_streams none;
    const rl_test_streams *s = streams ? streams : &none;
    int in[2], out[2], err[2];
    pipe_of(in);
    pipe_of(out);
    pipe_of(err);
    if (s->out_closed) close(out[0]); /* before there is a program that could write */
    signal(SIGPIPE, SIG_IGN);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        int target = s->out_path ? open(s->out_path, O_WRONLY | O_CLOEXEC) : out[1];
        dup2(in[0], STDIN_FILENO);
        dup2(target, STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        become_program(arguments, s->setting);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);

    buffer held_out = { 0 }, held_err = { 0 };
    size_t sent = 0;
    bool out_open = !s->out_closed, err_open = true, in_open = true, killed = false;
    int64_t began = now_ms(), first_byte = s->interrupt_from_start ? began : 0;
    int64_t limit_ms = s->limit_s ? 1000 * (int64_t)s->limit_s : LIMIT_MS;
    bool interrupted = s->interrupt_ms == 0;
    while (out_open || err_open) {
        if (in_open && sent == s->input_bytes) {
            close(in[1]);
            in_open = false;
        }
        struct pollfd fds[3] = { { out_open ? out[0] : -1, POLLIN, 0 },
                                 { err_open ? err[0] : -1, POLLIN, 0 },
                                 { in_open ? in[1] : -1, POLLOUT, 0 } };
        poll(fds, 3, 20);
        if (fds[0].revents) out_open = drain(out[0], &held_out);
        if (fds[1].revents) err_open = drain(err[0], &held_err);
        if (fds[2].revents) {
            ssize_t wrote = write(in[1], s->input + sent, s->input_bytes - sent);
            if (wrote > 0) sent += (size_t)wrote;
            if (wrote < 0 && errno != EAGAIN && errno != EINTR) sent = s->input_bytes;
        }
        bool begun = s->interrupt_from ? held_err.data && strstr(held_err.data, s->interrupt_from)
                                       : held_out.bytes > 0;
        if (!first_byte && begun) first_byte = now_ms();
        if (!interrupted && first_byte && now_ms() - first_byte >= s->interrupt_ms) {
            kill(child, SIGINT);
            interrupted = true;
        }
        if (now_ms() - began > limit_ms && !killed) {
            kill(child, SIGKILL);
            killed = true;
        }
    }
    if (in_open) close(in[1]);
    if (!s->out_closed) close(out[0]);
    close(err[0]);
    int status = 0;
    struct rusage used;
    assert_int_equal(wait4(child, &status, 0, &used), child);
    if (killed)
        fail_msg("redlite %s did not end within %d s", arguments[0], (int)(limit_ms / 1000));
    rl_test_run run = {
        .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .out = held_out.data ? held_out.data : calloc(1, 1),
        .out_bytes = held_out.bytes,
        .err = held_err.data ? held_err.data : calloc(1, 1),
        .err_bytes = held_err.bytes,
        .peak_bytes = (uint64_t)used.ru_maxrss * 1024,
    };
    return run;
}

void rl_test_run_fini(rl_test_run *run)
{
    free(run->out);
    free(run->err);
    memset(run, 0, sizeof *run);
}

void rl_test_expect_code(const rl_test_run *run, int code)
{
    if (run->code == code) return;
    fail_msg("exit code %d (signal %d), not %d\nstdout: %.2000s\nstderr: %.2000s", run->code,
             run->signal, code, run->out, run->err);
}

void rl_test_expect_refused(const rl_test_run *run, int code, const char *word)
{
    rl_test_expect_code(run, code);
    if (run->out_bytes) fail_msg("stdout is not empty: %.500s", run->out);
    if (strncmp(run->err, "redlite: ", 9) || !strstr(run->err, word))
        fail_msg("stderr does not begin with 'redlite: ' or lacks '%s': %.500s", word, run->err);
    size_t lines = 0;
    for (const char *c = run->err; *c; c++)
        lines += *c == '\n';
    if (lines != (code == 2 ? 2 : 1)) fail_msg("not one sentence: %.500s", run->err);
}

/* ---- on a terminal --------------------------------------------------------------------------- */

struct rl_test_terminal {
    pid_t child;
    int fd;
    buffer shown;
    size_t looked; /* up to where expect() has looked */
    bool ended;
};

rl_test_terminal *rl_test_terminal_start(const char *const *arguments)
{
    rl_test_terminal *t = calloc(1, sizeof *t);
    assert_non_null(t);
    struct winsize size = { .ws_row = 30, .ws_col = 100 };
    fflush(NULL);
    t->child = forkpty(&t->fd, NULL, NULL, &size);
    if (t->child < 0) {
        free(t);
        rl_test_skip("this machine has no pseudo-terminals: %s", strerror(errno));
    }
    if (t->child == 0) {
        static const char *const setting[] = { "TERM=xterm", NULL };
        become_program(arguments, setting);
    }
    t->shown.data = calloc(1, 1);
    return t;
}

void rl_test_terminal_type(rl_test_terminal *t, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(write(t->fd, text, n), n);
}

static void watch(rl_test_terminal *t, int wait_ms)
{
    struct pollfd fd = { t->fd, POLLIN, 0 };
    if (poll(&fd, 1, wait_ms) > 0 && !drain(t->fd, &t->shown)) t->ended = true;
}

void rl_test_terminal_expect(rl_test_terminal *t, const char *text)
{
    int64_t began = now_ms();
    for (;;) {
        char *found = strstr(t->shown.data + t->looked, text);
        if (found) {
            t->looked = (size_t)(found - t->shown.data) + strlen(text);
            return;
        }
        if (t->ended || now_ms() - began > LIMIT_MS) {
            kill(t->child, SIGKILL);
            fail_msg("the terminal %s without showing '%s': %s", t->ended ? "ended" : "waited",
                     text, t->shown.data);
        }
        watch(t, 50);
    }
}

const char *rl_test_terminal_shown(const rl_test_terminal *t)
{
    return t->shown.data;
}

int rl_test_terminal_finish(rl_test_terminal *t)
{
    int64_t began = now_ms();
    int status = 0, code = -1;
    while (!t->ended && now_ms() - began < LIMIT_MS)
        watch(t, 50);
    if (!t->ended) {
        kill(t->child, SIGKILL);
        waitpid(t->child, &status, 0);
        fail_msg("the program on the terminal did not end: %s", t->shown.data);
    }
    waitpid(t->child, &status, 0);
    if (WIFEXITED(status)) code = WEXITSTATUS(status);
    close(t->fd);
    free(t->shown.data);
    free(t);
    return code;
}
