/* test_chat.c - `redlite chat`: one answer per line of a pipe, and a conversation on a terminal. */
#include "support/json.h"
#include "support/process.h"

#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void chat_answers_every_line(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("What is the capital of France?\n\nWhat is the capital of Italy?\n",
                             "chat", "--temp", "0", "-q");
    rl_test_expect_code(&r, 0);
    assert_string_equal(r.out, "It is Paris.\nIt is Rome.\n");
    assert_int_equal(r.err_bytes, 0);
    rl_test_run_fini(&r);
}

/* Commands belong to the terminal: in a pipe a line is a message, whatever it begins with. */
static void chat_pipe_has_no_commands(void **state)
{
    (void)state;
    rl_test_run r =
        RUN_WITH("/quit\nWhat is the capital of Italy?\n", "chat", "--temp", "0", "-q", "--json");
    rl_test_expect_code(&r, 0);
    char *second = strchr(r.out, '\n');
    assert_non_null(second);
    cJSON *json = rl_test_json(second + 1);
    assert_string_equal(rl_test_text(json, "stop"), "eos");
    cJSON_Delete(json);
    rl_test_run_fini(&r);
}

/* What was read and written before is not read again: the second turn only reads its own part. */
static void chat_reads_only_what_is_new(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("What is the capital of France?\nAnd of Italy?\n", "chat", "--json",
                             "-q", "--temp", "0");
    rl_test_expect_code(&r, 0);
    char *second = strchr(r.out, '\n');
    assert_non_null(second);
    *second++ = 0;
    cJSON *a = rl_test_json(r.out), *b = rl_test_json(second);
    double read_first = rl_test_number(rl_test_member(a, "timings"), "prompt_n");
    double wrote_first = cJSON_GetArraySize(rl_test_member(a, "tokens"));
    assert_true(rl_test_number(a, "prompt_reused") == 0);
    assert_string_equal(rl_test_text(a, "stop"), "eos");
    /* The end token was fed, too. */
    assert_true(rl_test_number(b, "prompt_reused") == read_first + wrote_first);
    cJSON_Delete(a);
    cJSON_Delete(b);
    rl_test_run_fini(&r);
}

/* The same conversation read in one go gives the same next answer. */
static void chat_turns_equal_one_reading(void **state)
{
    (void)state;
    rl_test_run r =
        RUN_WITH("What is the capital of France?\nCount to 15.\n", "chat", "--temp", "0", "-q");
    rl_test_run one = RUN("generate", "-q", "--temp", "0", "-p",
                          "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
                          "<|im_start|>assistant\nIt is Paris.<|im_end|>\n"
                          "<|im_start|>user\nCount to 15.<|im_end|>\n<|im_start|>assistant\n");
    rl_test_expect_code(&r, 0);
    char *second = strchr(r.out, '\n');
    assert_non_null(second);
    assert_string_equal(second + 1, one.out);
    rl_test_run_fini(&r);
    rl_test_run_fini(&one);
}

static void chat_full_context_ends_a_pipe(void **state)
{
    (void)state;
    rl_test_run r = RUN_WITH("What is the capital of France?\nCount to 15.\n", "chat", "--temp",
                             "0", "-c", "32");
    rl_test_expect_code(&r, 1);
    assert_string_equal(r.out, "It is Paris.\n");
    assert_non_null(strstr(r.err, "the context holds 32"));
    rl_test_run_fini(&r);
}

static rl_test_terminal *start(const char *option, const char *value)
{
    const char *const arguments[] = { "chat", "--temp", "0", option, value, NULL };
    rl_test_terminal *t = rl_test_terminal_start(arguments);
    rl_test_terminal_expect(t, "/help lists");
    rl_test_terminal_expect(t, "> ");
    return t;
}

static void chat_terminal_talks(void **state)
{
    (void)state;
    rl_test_terminal *t = start(NULL, NULL);
    rl_test_terminal_type(t, "What is the capital of France?\n");
    rl_test_terminal_expect(t, "It is Paris.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/stats\n");
    rl_test_terminal_expect(t, "last turn   0 tokens kept");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/nonsense\n");
    rl_test_terminal_expect(t, "There is no command /nonsense");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

static void chat_end_of_input_leaves(void **state)
{
    (void)state;
    rl_test_terminal *t = start(NULL, NULL);
    rl_test_terminal_type(t, "\x04");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

/* One Ctrl-C stops the answer and keeps the conversation; a second one leaves with code 130. */
static void chat_interrupt_stops_the_answer(void **state)
{
    (void)state;
    rl_test_terminal *t = start("--ignore-eos", NULL);
    rl_test_terminal_type(t, "Tell me a story about a fox.\n");
    rl_test_terminal_expect(t, "Once upon a time");
    rl_test_terminal_type(t, "\x03");
    rl_test_terminal_expect(t, "\n> ");
    rl_test_terminal_type(t, "/stats\n");
    rl_test_terminal_expect(t, "context     ");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/reset\n");
    rl_test_terminal_expect(t, "begins anew");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "Tell me a story about a fox.\n");
    rl_test_terminal_expect(t, "Once upon a time");
    rl_test_terminal_type(t, "\x03");
    rl_test_terminal_expect(t, "\n> ");
    rl_test_terminal_type(t, "\x03");
    assert_int_equal(rl_test_terminal_finish(t), 130);
}

/* After an interrupted answer the next turn goes on: the answer is closed in the next rendering. */
static void chat_goes_on_after_an_interrupt(void **state)
{
    (void)state;
    rl_test_terminal *t = start(NULL, NULL);
    rl_test_terminal_type(t, "Tell me a story about a fox.\n");
    rl_test_terminal_expect(t, "Once upon a time");
    rl_test_terminal_type(t, "\x03");
    rl_test_terminal_expect(t, "\n> ");
    rl_test_terminal_type(t, "What is the capital of France?\n");
    rl_test_terminal_expect(t, "Paris");
    rl_test_terminal_expect(t, "\n> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

static void chat_interrupt_at_the_prompt(void **state)
{
    (void)state;
    rl_test_terminal *t = start(NULL, NULL);
    rl_test_terminal_type(t, "half a line");
    rl_test_terminal_expect(t, "half a line");
    rl_test_terminal_type(t, "\x03");
    rl_test_terminal_expect(t, "Ctrl-C again");
    rl_test_terminal_expect(t, "> ");
    /* What was typed is forgotten, and the next line stands for itself. */
    rl_test_terminal_type(t, "What is the capital of Italy?\n");
    rl_test_terminal_expect(t, "It is Rome.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "\x03");
    rl_test_terminal_expect(t, "Ctrl-C again");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "\x03");
    assert_int_equal(rl_test_terminal_finish(t), 130);
}

static void chat_saves_and_loads(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("chat-saved.json");
    char line[1200];
    rl_test_terminal *t = start(NULL, NULL);
    rl_test_terminal_type(t, "What is the capital of France?\n");
    rl_test_terminal_expect(t, "It is Paris.");
    rl_test_terminal_expect(t, "> ");
    snprintf(line, sizeof line, "/save %s\n", path);
    rl_test_terminal_type(t, line);
    rl_test_terminal_expect(t, "Saved as");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);

    size_t bytes;
    char *text = rl_test_read(path, &bytes);
    cJSON *json = rl_test_json(text);
    assert_int_equal(cJSON_GetArraySize(rl_test_member(json, "messages")), 2);
    cJSON_Delete(json);
    free(text);

    /* With the state nothing is read again. */
    snprintf(line, sizeof line, "/load %s\n", path);
    t = start(NULL, NULL);
    rl_test_terminal_type(t, line);
    rl_test_terminal_expect(t, "Loaded 2 messages.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "What is the capital of Italy?\n");
    rl_test_terminal_expect(t, "It is Rome.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/stats\n");
    rl_test_terminal_expect(t, "last turn   ");
    assert_null(strstr(rl_test_terminal_shown(t), "last turn   0 tokens kept"));
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);

    /* Without it, or with a damaged one, the conversation is still there. */
    char damaged[1200];
    snprintf(damaged, sizeof damaged, "%s.state", path);
    assert_int_equal(truncate(damaged, 100), 0);
    t = start(NULL, NULL);
    rl_test_terminal_type(t, line);
    rl_test_terminal_expect(t, "Loaded 2 messages, to be read again");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "What is the capital of Italy?\n");
    rl_test_terminal_expect(t, "It is Rome.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/load /dev/null\n");
    rl_test_terminal_expect(t, "/dev/null: is not a saved conversation");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

/* Stands against: an older conversation that is lost because the disk is full. */
static void chat_saves_all_or_nothing(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("chat-kept.json");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("older", file);
    fclose(file);
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){ .rlim_cur = 50, .rlim_max = before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    rl_test_terminal *t = start(NULL, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    rl_test_terminal_type(t, "What is the capital of France?\n");
    rl_test_terminal_expect(t, "It is Paris.");
    rl_test_terminal_expect(t, "> ");
    char line[1200];
    snprintf(line, sizeof line, "/save %s\n", path);
    rl_test_terminal_type(t, line);
    rl_test_terminal_expect(t, "cannot be written");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
    size_t bytes;
    char *held = rl_test_read(path, &bytes);
    assert_string_equal(held, "older");
    free(held);
}

/* Stands against: a penalty for tokens of a conversation that was forgotten. */
static void chat_begins_anew_in_everything(void **state)
{
    (void)state;
    static const char question[] = "Tell me about a fox.\n";
    char first[400];
    const char *const arguments[] = { "chat", "--temp", "0",  "--repeat-penalty",
                                      "1.5",  "-n",     "25", NULL };
    rl_test_terminal *t = rl_test_terminal_start(arguments);
    rl_test_terminal_expect(t, "/help lists");
    rl_test_terminal_expect(t, "> ");
    for (int round = 0; round < 2; round++) {
        const size_t from = strlen(rl_test_terminal_shown(t));
        rl_test_terminal_type(t, question);
        rl_test_terminal_expect(t, "a fox.");
        rl_test_terminal_expect(t, "> ");
        const char *shown = strstr(rl_test_terminal_shown(t) + from, "a fox.");
        assert_non_null(shown);
        if (round == 0)
            snprintf(first, sizeof first, "%.60s", shown);
        else
            assert_memory_equal(shown, first, strlen(first));
        rl_test_terminal_type(t, "What is the capital of Italy?\n");
        rl_test_terminal_expect(t, "> ");
        rl_test_terminal_type(t, "/reset\n");
        rl_test_terminal_expect(t, "begins anew.");
        rl_test_terminal_expect(t, "> ");
    }
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

static void chat_has_a_system_message(void **state)
{
    (void)state;
    rl_test_terminal *t = start("--system", "Be kind.");
    rl_test_terminal_type(t, "/system\n");
    rl_test_terminal_expect(t, "System message: Be kind.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/system Be brief.\n");
    rl_test_terminal_expect(t, "System message: Be brief.");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "What is the capital of France?\n");
    rl_test_terminal_expect(t, "Paris");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

/* Bytes that are no character are left out, and nothing else with them: not the letter and not the
 * Enter behind a cut one. What is typed is answered with -q, too. */
static void chat_leaves_out_half_characters(void **state)
{
    (void)state;
    static const char *const arguments[] = { "chat", "-q", NULL };
    rl_test_terminal *t = rl_test_terminal_start(arguments);
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "\xff\xfe/\xc3nonsense\xf0\x9f\n");
    rl_test_terminal_expect(t, "There is no command /nonsense;");
    rl_test_terminal_expect(t, "> ");
    rl_test_terminal_type(t, "/quit\n");
    assert_int_equal(rl_test_terminal_finish(t), 0);
}

/* Stands against: a chat whose terminal has gone, and which asks for the next key for ever. */
static void chat_ends_with_its_terminal(void **state)
{
    (void)state;
    int terminal, status = 0;
    fflush(NULL);
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) rl_test_skip("this machine has no pseudo-terminals: %s", strerror(errno));
    if (child == 0) {
        signal(SIGHUP, SIG_IGN); /* as nohup does */
        execl(RL_TEST_PROGRAM, RL_TEST_PROGRAM, "chat", "-q", (char *)NULL);
        _exit(127);
    }
    char shown[256];
    assert_true(read(terminal, shown, sizeof shown) > 0);
    close(terminal);
    pid_t ended = 0;
    for (int i = 0; i < 600 && !ended; i++) {
        ended = waitpid(child, &status, WNOHANG);
        if (!ended) usleep(50000);
    }
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        fail_msg("it runs on without a terminal");
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 127);
}

RL_TEST_MAIN(RL_TEST(chat, answers_every_line), RL_TEST(chat, pipe_has_no_commands),
             RL_TEST(chat, reads_only_what_is_new), RL_TEST(chat, turns_equal_one_reading),
             RL_TEST(chat, full_context_ends_a_pipe), RL_TEST(chat, terminal_talks),
             RL_TEST(chat, end_of_input_leaves), RL_TEST(chat, interrupt_stops_the_answer),
             RL_TEST(chat, goes_on_after_an_interrupt), RL_TEST(chat, interrupt_at_the_prompt),
             RL_TEST(chat, saves_and_loads), RL_TEST(chat, saves_all_or_nothing),
             RL_TEST(chat, begins_anew_in_everything), RL_TEST(chat, has_a_system_message),
             RL_TEST(chat, ends_with_its_terminal), RL_TEST(chat, leaves_out_half_characters))
