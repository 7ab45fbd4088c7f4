/* test_usage.c - the command line itself: help, wrong usage, exit codes, output that cannot be
 * written. Nothing here needs a model to run. */
#include "support/json.h"
#include "support/process.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const commands[] = { "generate",   "chat",       "info",   "devices",
                                        "tokenize",   "detokenize", "render", "logits",
                                        "perplexity", "bench",      "parity", "synth" };

/* The names in the overview, which must be commands that exist. */
static size_t listed_commands(char names[32][32])
{
    rl_test_run r = RUN("help");
    rl_test_expect_code(&r, 0);
    assert_int_equal(r.err_bytes, 0);
    size_t n = 0;
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n"))
        if (line[0] == ' ' && line[1] == ' ' && islower((unsigned char)line[2]) && n < 32)
            assert_int_equal(sscanf(line, " %31s", names[n++]), 1);
    rl_test_run_fini(&r);
    assert_true(n > 0);
    return n;
}

static void usage_help_lists_what_exists(void **state)
{
    (void)state;
    char names[32][32];
    size_t n = listed_commands(names);
    for (size_t i = 0; i < n; i++) {
        rl_test_run by_help = RUN("help", names[i]), by_option = RUN(names[i], "--help");
        rl_test_expect_code(&by_help, 0);
        rl_test_expect_code(&by_option, 0);
        assert_string_equal(by_help.out, by_option.out);
        assert_non_null(strstr(by_help.out, "usage: redlite "));
        rl_test_run_fini(&by_help);
        rl_test_run_fini(&by_option);
    }
}

/* What the overview does not name must not work behind its back. */
static void usage_unlisted_commands_do_not_exist(void **state)
{
    (void)state;
    char names[32][32];
    size_t n = listed_commands(names);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        bool listed = false;
        for (size_t k = 0; k < n; k++)
            listed = listed || !strcmp(names[k], commands[i]);
        if (listed) continue;
        rl_test_run r = RUN(commands[i]);
        rl_test_expect_refused(&r, 2, "there is no command");
        rl_test_run_fini(&r);
    }
}

/* Every option that help names is known to the parser, and takes a value exactly when help says so.
 * An option of the last word without its value is refused as such, not as unknown. */
static void usage_every_option_of_help_is_known(void **state)
{
    (void)state;
    char names[32][32];
    size_t n = listed_commands(names), n_options = 0;
    for (size_t i = 0; i < n; i++) {
        rl_test_run help = RUN("help", names[i]);
        for (char *line = strtok(help.out, "\n"); line; line = strtok(NULL, "\n")) {
            char *option = strstr(line, "--");
            if (strncmp(line, "  ", 2) || !option || option > line + 10) continue;
            size_t length = strcspn(option, " ");
            bool takes_value = isupper((unsigned char)option[length + 1]) ||
                               isdigit((unsigned char)option[length + 1]);
            char name[48];
            snprintf(name, sizeof name, "%.*s%s", (int)length, option, takes_value ? "" : "=1");
            rl_test_run r = RUN(names[i], name);
            rl_test_expect_refused(&r, 2, takes_value ? "needs a value" : "takes no value");
            rl_test_run_fini(&r);
            n_options++;
        }
        rl_test_run_fini(&help);
    }
    assert_true(n_options > 60);
}

static void usage_wrong_usage_is_code_2(void **state)
{
    (void)state;
    static const struct {
        const char *arguments[8];
        const char *word;
    } cases[] = {
        { { "frobnicate" }, "there is no command 'frobnicate'" },
        { { "help", "frobnicate" }, "there is no command" },
        { { "generate", "--frobnicate" }, "unknown option --frobnicate" },
        { { "generate", "-x" }, "unknown option -x" },
        { { "generate", "word" }, "'word' is not an option" },
        { { "generate" }, "give -p or -f" },
        { { "generate", "-p", "a", "-f", "b" }, "only one of" },
        { { "generate", "-p", "a", "-n", "-1" }, "-n takes a whole number" },
        { { "generate", "-p", "a", "-n", "1.5" }, "-n takes a whole number" },
        { { "generate", "-p", "a", "-n", "99999999999999999999" }, "-n takes a whole number" },
        { { "generate", "-p", "a", "-n", "" }, "-n takes a whole number" },
        { { "generate", "-p", "a", "--temp", "nan" }, "--temp takes a number" },
        { { "generate", "-p", "a", "--temp", "-1" }, "--temp takes a number" },
        { { "generate", "-p", "a", "--temp", "0x1" }, "--temp takes a number" },
        { { "generate", "-p", "a", "--top-p", "1.5" }, "--top-p takes a number from 0 to 1" },
        { { "generate", "-p", "a", "-c", "0" }, "-c takes a whole number from 1" },
        { { "generate", "-p", "a", "-t", "257" }, "-t takes a whole number from 1 to 256" },
        { { "generate", "-p", "a", "-s", "18446744073709551616" }, "-s takes a whole number" },
        { { "generate", "-p", "a", "--backend", "tpu" }, "--backend takes one of" },
        { { "generate", "-p", "a", "-ctk", "q8" }, "-ctk takes one of f32|f16" },
        { { "generate", "--tokens", "1,,2" }, "--tokens takes whole numbers" },
        { { "generate", "--tokens", "1,2," }, "--tokens takes whole numbers" },
        { { "generate", "--tokens", "-1" }, "--tokens takes whole numbers" },
        { { "generate", "--tokens", "4294967296" }, "--tokens takes whole numbers" },
        { { "tokenize" }, "give one of" },
        { { "tokenize", "-p", "a", "--jsonl" }, "give one of" },
        { { "detokenize", "x" }, "'x' is not a token id" },
        { { "detokenize", "1", "-1" }, "unknown option -1" },
        { { "logits", "--tokens", "1" }, "give --out FILE" },
        { { "perplexity" }, "-f FILE" },
        { { "perplexity", "-f", "x", "-c", "3" }, "-c 4" },
        { { "bench", "-p", "0", "-n", "0" }, "nothing to measure" },
        { { "bench", "-r", "0" }, "-r takes a whole number from 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_test_run r = rl_test_execute(NULL, cases[i].arguments);
        rl_test_expect_refused(&r, 2, cases[i].word);
        rl_test_run_fini(&r);
    }
}

static void usage_no_command_shows_the_overview(void **state)
{
    (void)state;
    rl_test_run r = rl_test_execute(NULL, (const char *const[]){ NULL });
    rl_test_expect_code(&r, 2);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(strstr(r.err, "usage: redlite COMMAND"));
    rl_test_run_fini(&r);
}

static void usage_version_is_the_librarys(void **state)
{
    (void)state;
    rl_test_run r = RUN("--version");
    rl_test_expect_code(&r, 0);
    char want[64];
    snprintf(want, sizeof want, "redlite %s\n", rl_version());
    assert_string_equal(r.out, want);
    rl_test_run_fini(&r);
}

/* Options may come in any order, spelled with = or with a blank, and the last one counts. */
static void usage_spellings_are_equal(void **state)
{
    (void)state;
    rl_test_run a = RUN("tokenize", "--prompt=a b", "--quiet");
    rl_test_run b = RUN("tokenize", "-q", "-p", "other", "--prompt", "a b");
    rl_test_expect_code(&a, 0);
    rl_test_expect_code(&b, 0);
    assert_string_equal(a.out, b.out);
    rl_test_run_fini(&a);
    rl_test_run_fini(&b);
    rl_test_run dashes = RUN("detokenize", "--", "1", "2");
    rl_test_expect_code(&dashes, 0);
    rl_test_run_fini(&dashes);
}

/* A full disk must not look like success. */
static void usage_full_disk_is_a_failure(void **state)
{
    (void)state;
    static const char *const runs[][5] = {
        { "help" }, { "--version" },      { "help", "info" }, { "tokenize", "-p", "a" },
        { "info" }, { "info", "--json" },
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        rl_test_run r = rl_test_execute(&(rl_test_streams){ .out_path = "/dev/full" }, runs[i]);
        rl_test_expect_refused(&r, 1, "could not be written to stdout: No space left");
        rl_test_run_fini(&r);
    }
}

/* Results named as a device, a pipe or a link go there.
 * Stands against: a new file moved over /dev/full, which then is no device for anybody. */
static void usage_what_is_no_file_is_not_replaced(void **state)
{
    (void)state;
    const char *link = rl_test_scratch("usage-link"), *target = rl_test_scratch("usage-target");
    const char *pipe = rl_test_scratch("usage-pipe");
    const char *const full[][8] = {
        { "logits", "-q", "--tokens", "1", "--out", link },
        { "synth", "-q", "--preset", "tiny", "-o", link },
    };
    struct stat there;
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++) {
        unlink(link);
        assert_int_equal(symlink("/dev/full", link), 0);
        rl_test_run r = rl_test_execute(NULL, full[i]);
        rl_test_expect_refused(&r, 1, "No space left");
        rl_test_run_fini(&r);
        assert_int_equal(lstat(link, &there), 0);
        assert_true(S_ISLNK(there.st_mode));
        assert_int_equal(stat("/dev/full", &there), 0);
        assert_true(S_ISCHR(there.st_mode));
    }
    unlink(pipe);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    rl_test_run r = RUN("logits", "-q", "--tokens", "1", "--out", pipe);
    rl_test_expect_code(&r, 0);
    rl_test_run_fini(&r);
    static char row[4 * 4096 + 1];
    assert_int_equal(read(reader, row, sizeof row), sizeof row - 1);
    close(reader);
    unlink(pipe);
    /* The file that a link names is written, and the link stays. */
    unlink(link);
    assert_int_equal(symlink(target, link), 0);
    FILE *old = fopen(target, "wb");
    assert_non_null(old);
    fclose(old);
    r = rl_test_execute(NULL, full[1]);
    rl_test_expect_code(&r, 0);
    rl_test_run_fini(&r);
    assert_int_equal(lstat(link, &there), 0);
    assert_true(S_ISLNK(there.st_mode));
    assert_int_equal(lstat(target, &there), 0);
    assert_true(S_ISREG(there.st_mode) && there.st_size > 1000);
    unlink(link);
    unlink(target);
}

/* A device that is not there is an error, also where only one could be meant. */
static void usage_devices_must_exist(void **state)
{
    (void)state;
    static const char *const runs[][10] = {
        { "generate", "-p", "a", "-n", "1", "--backend", "cpu", "--device", "nosuch" },
        { "generate", "-p", "a", "-n", "1", "--backend", "cpu", "--device", "77" },
        { "generate", "-p", "a", "-n", "1", "--backend", "oracle", "--device", "nosuch" },
        { "generate", "-p", "a", "-n", "1", "--device", "nosuch" },
        { "parity", "--tokens", "1", "-n", "1", "--backend", "cpu", "--device", "nosuch" },
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        rl_test_run r = rl_test_execute(NULL, runs[i]);
        rl_test_expect_refused(&r, 1, "there is no device");
        rl_test_run_fini(&r);
    }
    /* Every device in the list of the cpu is taken by its number, its name and a part of it. */
    rl_test_run list = RUN("devices", "--json");
    cJSON *devices = rl_test_json(list.out), *one;
    cJSON_ArrayForEach(one, devices)
    {
        if (strcmp(rl_test_text(one, "backend"), "cpu")) continue;
        char number[24];
        snprintf(number, sizeof number, "%.0f", rl_test_number(one, "index"));
        const char *const names[] = { number, rl_test_text(one, "name") };
        for (size_t i = 0; i < 2; i++) {
            rl_test_run r = RUN("generate", "-p", "a", "-n", "1", "-v", "--device", names[i]);
            rl_test_expect_code(&r, 0);
            assert_non_null(strstr(r.err, "computing on cpu"));
            rl_test_run_fini(&r);
        }
    }
    cJSON_Delete(devices);
    rl_test_run_fini(&list);
}

/* An empty RL_CPU is none; a wrong one is told what there is. */
static void usage_kernels_are_named(void **state)
{
    (void)state;
    static const char *const arguments[] = { "generate", "-q", "-p", "a", "-n", "1", NULL };
    rl_test_run r = rl_test_execute(
        &(rl_test_streams){ .setting = (const char *const[]){ "RL_CPU=", NULL } }, arguments);
    rl_test_expect_code(&r, 0);
    rl_test_run_fini(&r);
    r = rl_test_execute(
        &(rl_test_streams){ .setting = (const char *const[]){ "RL_CPU=nosuch", NULL } }, arguments);
    rl_test_expect_refused(&r, 1, "RL_CPU=nosuch: no such kernels; there are exact, scalar, ");
    rl_test_run_fini(&r);
}

/* What a shell makes of the program's name and `rest`: its exit code, and the start of its output. */
static int shell(const char *rest, char *out, size_t room)
{
    char line[4096];
    snprintf(line, sizeof line, "'%s' %s", RL_TEST_PROGRAM, rest);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, room - 1, pipe);
    out[n] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Stands against: a model that is opened as file 0 and then read as what the user types. */
static void usage_closed_streams_stay_closed(void **state)
{
    (void)state;
    char out[4096];
    assert_int_equal(shell("chat -q 2>&1 <&-", out, sizeof out), 1);
    assert_non_null(strstr(out, "cannot be read"));
    assert_int_equal(shell("tokenize --jsonl 2>&1 <&-", out, sizeof out), 1);
    assert_string_equal(out, "redlite: stdin cannot be read\n");
    assert_int_equal(shell("info 2>&1 >&-", out, sizeof out), 1);
    assert_non_null(strstr(out, "could not be written to stdout"));
    const char *path = rl_test_scratch("usage-closed.f32");
    char rest[2048];
    snprintf(rest, sizeof rest, "logits --tokens 1 --out '%s' <&- >&- 2>&-", path);
    assert_int_equal(shell(rest, out, sizeof out), 0);
    size_t bytes;
    free(rl_test_read(path, &bytes));
    assert_int_equal(bytes, 4 * 4096);
    unlink(path);
}

/* A limit on the size of files is a full disk, not a signal, and leaves nothing behind. */
static void usage_limited_files_are_failures(void **state)
{
    (void)state;
    char out[4096], line[4096];
    const char *path = rl_test_scratch("usage-limit.gguf");
    snprintf(line, sizeof line,
             "ulimit -f 8; '%s' synth -q --preset tiny -o '%s' 2>&1; echo $?; ls '%s'* 2>&1",
             RL_TEST_PROGRAM, path, path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = 0;
    pclose(pipe);
    assert_non_null(strstr(out, "File too large\n1\nls: "));
}

/* A reader that went away is a write error, not a signal. */
static void usage_closed_pipe_is_a_failure(void **state)
{
    (void)state;
    const char *const arguments[] = { "info", "--json", NULL };
    rl_test_run r = rl_test_execute(&(rl_test_streams){ .out_closed = true }, arguments);
    rl_test_expect_refused(&r, 1, "could not be written to stdout: Broken pipe");
    rl_test_run_fini(&r);
}

static void usage_missing_files_are_named(void **state)
{
    (void)state;
    static const char *const runs[][8] = {
        { "info", "-m", "/nowhere/a.gguf" },
        { "generate", "-p", "a", "-m", "/nowhere/a.gguf" },
        { "tokenize", "-p", "a", "-m", "/nowhere/a.gguf" },
        { "tokenize", "-f", "/nowhere/a.gguf" },
        { "perplexity", "-f", "/nowhere/a.gguf" },
        { "render", "--chat-template-file", "/nowhere/a.gguf" },
        { "logits", "--tokens", "1", "--out", "/nowhere/a.gguf" },
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        rl_test_run r = rl_test_execute(NULL, runs[i]);
        rl_test_expect_refused(&r, 1, "/nowhere/a.gguf");
        rl_test_run_fini(&r);
    }
    rl_test_run folder = RUN("info", "-m", "/");
    rl_test_expect_refused(&folder, 1, "/");
    rl_test_run_fini(&folder);
}

RL_TEST_MAIN(RL_TEST(usage, help_lists_what_exists), RL_TEST(usage, unlisted_commands_do_not_exist),
             RL_TEST(usage, every_option_of_help_is_known), RL_TEST(usage, wrong_usage_is_code_2),
             RL_TEST(usage, no_command_shows_the_overview), RL_TEST(usage, version_is_the_librarys),
             RL_TEST(usage, spellings_are_equal), RL_TEST(usage, full_disk_is_a_failure),
             RL_TEST(usage, closed_pipe_is_a_failure), RL_TEST(usage, missing_files_are_named),
             RL_TEST(usage, what_is_no_file_is_not_replaced), RL_TEST(usage, devices_must_exist),
             RL_TEST(usage, kernels_are_named), RL_TEST(usage, closed_streams_stay_closed),
             RL_TEST(usage, limited_files_are_failures))
