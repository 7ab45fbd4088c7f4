/* chat.c - `redlite chat`: a conversation, turn by turn.
 *
 * Every turn renders the whole conversation by the model's template and reads only what differs
 * from what the session holds: the longest common prefix of tokens is kept. The recurrent state
 * cannot go back to any position, so a checkpoint is kept before every answer; where the prefix
 * ends earlier than the session stands, the newest checkpoint inside it is taken.
 * The end token that closes an answer is fed to the session. An answer that was stopped has none:
 * the next rendering closes it.
 *
 * Ctrl-C stops the answer and keeps the conversation; a second one leaves. */
#include "chat_input.h"
#include "conversation.h"
#include "generation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct options {
    const char *system;
    uint32_t most;
    cli_sampling sampling;
} options;

static const options defaults = { .most = 1024, .sampling = CLI_SAMPLING_DEFAULTS };

static const cli_option table[] = { { "--system", "TEXT", CLI_TEXT, offsetof(options, system), 0, 0,
                                      NULL, "a system message in front of the conversation" },
                                    { "-n, --n-predict", "N", CLI_UINT, offsetof(options, most), 1,
                                      1 << 30, NULL, "most tokens per answer (1024)" },
                                    CLI_SAMPLING_OPTIONS(options),
                                    { 0 } };

typedef struct chat {
    const cli_call *call;
    rl_model *model;
    rl_session *session;
    rl_sampler *sampler;
    cli_conversation conversation;
    bool terminal, leave;
    cli_timings last, all;
    size_t n_reused; /* prompt tokens of the last turn that the session already held */
} chat;

/* ---- one turn -------------------------------------------------------------------------------- */

static int render(chat *c, uint32_t **ids, size_t *n)
{
    rl_error err = { "" };
    size_t json_bytes, text_bytes;
    char *text = NULL, *json = cli_conversation_json(&c->conversation, &json_bytes);
    if (!json) return cli_error("no memory for the conversation");
    rl_status status = rl_render_chat(c->model, NULL, json, json_bytes, &text, &text_bytes, &err);
    if (!status) status = rl_tokenize(c->model, text, text_bytes, true, ids, n, &err);
    free(json);
    rl_free(text);
    return status ? cli_error_of(status, &err) : -1;
}

/* Brings the session to stand behind these tokens, reading as few of them as possible, and leaves a
 * checkpoint there. */
static int read_tokens(chat *c, const uint32_t *ids, size_t n)
{
    rl_error err = { "" };
    uint32_t position = rl_session_position(c->session);
    const uint32_t *held = rl_session_tokens(c->session);
    if (n > rl_session_n_ctx(c->session))
        return cli_error("the conversation has %zu tokens, but the context holds %u (-c): "
                         "/reset begins anew",
                         n, rl_session_n_ctx(c->session));
    size_t keep = 0;
    while (keep < n && keep < position && held[keep] == ids[keep])
        keep++;
    if (keep == n && position > n) keep = n - 1; /* the logits behind the last one are needed */
    rl_status status = RL_OK;
    if (keep < position) status = rl_session_rewind(c->session, (uint32_t)keep, &err);
    position = rl_session_position(c->session);
    if (!status && position < n)
        status = rl_session_feed(c->session, ids + position, n - position, &err);
    cli_progress_clear();
    if (status && c->all.n_decoded == 0 && !position) { /* nothing was written yet */
        int rc = cli_fall_back(c->call, status, &err, &c->model, &c->session);
        if (rc >= 0) return rc;
        status = rl_session_feed(c->session, ids, n, &err);
        cli_progress_clear();
    }
    if (!status) status = rl_session_checkpoint(c->session, &err);
    c->n_reused = position;
    c->last.n_prompt = n - position;
    for (size_t i = position; !status && i < n; i++)
        rl_sampler_accept(c->sampler, ids[i]);
    return status ? cli_error_of(status, &err) : -1;
}

static void print_json(const chat *c, const cli_generation *g)
{
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "tokens");
    cli_json_ids(&json, g->tokens, g->n_tokens);
    cli_json_key(&json, "text");
    cli_json_string(&json, g->text, g->text_bytes);
    cli_json_key(&json, "stop");
    cli_json_text(&json, cli_stop_name(g->stop));
    cli_json_key(&json, "prompt_reused");
    cli_json_uint(&json, c->n_reused);
    cli_json_timings(&json, &c->last);
    cli_json_cache(&json, c->session);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

/* The answer to the conversation as it stands. Returns -1 or the exit code; an answer that was
 * stopped is still an answer. */
static int answer(chat *c)
{
    const options *o = c->call->options;
    bool json = c->call->globals.json;
    uint32_t *ids = NULL;
    size_t n = 0;
    c->last = (cli_timings){ 0 };
    uint64_t began = cli_clock_ns();
    int rc = render(c, &ids, &n);
    if (rc < 0) rc = read_tokens(c, ids, n);
    rl_free(ids);
    c->last.prompt_ns = cli_clock_ns() - began;
    if (rc >= 0) return rc;

    cli_generation g = {
        .model = c->model,
        .session = c->session,
        .sampler = c->sampler,
        .most = o->most,
        .feed_end = true,
        .show = json ? NULL : cli_show_text,
    };
    rc = cli_generate_run(&g);
    c->last.decode_ns = g.ns;
    c->last.n_decoded = g.n_tokens;
    c->all.prompt_ns += c->last.prompt_ns;
    c->all.decode_ns += g.ns;
    c->all.n_prompt += c->last.n_prompt;
    c->all.n_decoded += g.n_tokens;
    if (json && rc < 0) print_json(c, &g);
    if (!json) putchar('\n');
    if (rc < 0 && !cli_flush()) rc = CLI_FAILED;
    if (rc < 0 && g.context_full)
        cli_note("the context of %u tokens is full (-c): /reset begins anew",
                 rl_session_n_ctx(c->session));
    else if (rc < 0 && g.stop == CLI_STOP_LENGTH)
        cli_note("stopped after %zu tokens (-n)", g.n_tokens);
    if (rc < 0 && !cli_conversation_add(&c->conversation, "assistant", g.text, g.text_bytes))
        rc = cli_error("no memory for the conversation");
    cli_generation_fini(&g);
    return rc;
}

/* A message without an answer is taken back, so that the next one does not follow it. */
static int turn(chat *c, const char *text, size_t bytes)
{
    if (!cli_conversation_add(&c->conversation, "user", text, bytes))
        return cli_error("no memory for the conversation");
    int rc = answer(c);
    if (rc >= 0) cli_conversation_drop_last(&c->conversation);
    return rc;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void command_help(chat *c, const char *argument);

/* The sampler forgets what it has seen, and its draws begin anew; then it is told what the session
 * holds. */
static int renew_sampler(chat *c)
{
    const options *o = c->call->options;
    rl_sampler *fresh = NULL;
    int rc = cli_create_sampler(c->call, &o->sampling, c->model, &fresh);
    if (rc >= 0) return rc;
    rl_sampler_destroy(c->sampler);
    c->sampler = fresh;
    const uint32_t *held = rl_session_tokens(c->session);
    for (uint32_t i = 0; i < rl_session_position(c->session); i++)
        rl_sampler_accept(c->sampler, held[i]);
    return -1;
}

static int reset(chat *c)
{
    rl_error err = { "" };
    rl_status status = rl_session_reset(c->session, &err);
    return status ? cli_error_of(status, &err) : renew_sampler(c);
}

static void command_reset(chat *c, const char *argument)
{
    (void)argument;
    cli_conversation_clear(&c->conversation);
    if (reset(c) < 0) cli_reply("The conversation begins anew.");
}

static bool state_path(char out[4096], const char *path)
{
    if (snprintf(out, 4096, "%s.state", path) < 4096) return true;
    cli_error("%s: the path is too long", path);
    return false;
}

static void command_save(chat *c, const char *argument)
{
    rl_error err = { "" };
    char state[4096];
    if (!*argument) {
        cli_reply("/save FILE");
        return;
    }
    if (!state_path(state, argument)) return;
    if (cli_conversation_save(&c->conversation, argument) >= 0) return;
    rl_status status = rl_session_save(c->session, state, &err);
    if (status)
        cli_error_of(status, &err);
    else
        cli_reply("Saved as %s and %s.", argument, state);
}

/* The state file only saves reading; without it the conversation is read again. */
static void command_load(chat *c, const char *argument)
{
    rl_error err = { "" };
    char state[4096];
    if (!*argument) {
        cli_reply("/load FILE");
        return;
    }
    if (!state_path(state, argument)) return;
    if (cli_conversation_load(&c->conversation, argument) >= 0) return;
    rl_status status = rl_session_load(c->session, state, &err);
    if (status) {
        cli_reply("%s", err.text);
        if (reset(c) >= 0) return;
    } else if (renew_sampler(c) >= 0) {
        return;
    }
    cli_reply("Loaded %zu messages%s.", c->conversation.n,
              status ? ", to be read again with the next one" : "");
}

static void command_system(chat *c, const char *argument)
{
    if (*argument && !cli_conversation_set_system(&c->conversation, argument))
        cli_error("no memory for the system message");
    else if (c->conversation.system)
        cli_reply("System message: %s", c->conversation.system);
    else
        cli_reply("There is no system message; /system TEXT sets one.");
}

static void command_stats(chat *c, const char *argument)
{
    (void)argument;
    rl_session_stats s;
    rl_session_get_stats(c->session, &s);
    cli_reply("context     %u of %u tokens", rl_session_position(c->session),
              rl_session_n_ctx(c->session));
    cli_reply("last turn   %zu tokens kept, %zu read in %.0f ms, %zu written at %.1f tokens/s",
              c->n_reused, c->last.n_prompt, (double)c->last.prompt_ns / 1e6, c->last.n_decoded,
              c->last.decode_ns ? (double)c->last.n_decoded * 1e9 / (double)c->last.decode_ns : 0);
    cli_reply("all turns   %zu read, %zu written at %.1f tokens/s", c->all.n_prompt,
              c->all.n_decoded,
              c->all.decode_ns ? (double)c->all.n_decoded * 1e9 / (double)c->all.decode_ns : 0);
    uint64_t asked = s.hits + s.misses + s.arriving;
    if (s.slots_all)
        cli_reply("experts     %u of %u slots used, %u to %u different ones per layer",
                  s.slots_used, s.slots_all, s.distinct_experts_min, s.distinct_experts_max);
    if (asked)
        cli_reply("            %llu hits (%.1f %%), %llu misses, %llu evictions, %.1f MiB read, "
                  "%.2f ms waited per token",
                  (unsigned long long)s.hits, 100.0 * (double)s.hits / (double)asked,
                  (unsigned long long)s.misses, (unsigned long long)s.evictions,
                  (double)s.bytes_read / (1 << 20),
                  s.generated_tokens ? (double)s.wait_ns / 1e6 / (double)s.generated_tokens : 0);
}

static void command_quit(chat *c, const char *argument)
{
    (void)argument;
    c->leave = true;
}

static const struct {
    const char *name, *argument, *help;
    void (*run)(chat *c, const char *argument);
} chat_commands[] = {
    { "/help", "", "this list", command_help },
    { "/reset", "", "forget the conversation", command_reset },
    { "/save", "FILE", "write the conversation and the state to files", command_save },
    { "/load", "FILE", "go on with a saved conversation", command_load },
    { "/system", "TEXT", "set the system message, or show it", command_system },
    { "/stats", "", "tokens, speed and cache", command_stats },
    { "/quit", "", "leave (so does Ctrl-D)", command_quit },
};

static void command_help(chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    for (size_t i = 0; i < CLI_LENGTH(chat_commands); i++)
        cli_reply("  %-8s %-5s %s", chat_commands[i].name, chat_commands[i].argument,
                  chat_commands[i].help);
    cli_reply("Ctrl-C stops an answer, a second one leaves.");
}

static void run_command(chat *c, const char *line)
{
    size_t length = strcspn(line, " \t");
    const char *argument = line + length + strspn(line + length, " \t");
    for (size_t i = 0; i < CLI_LENGTH(chat_commands); i++) {
        if (strlen(chat_commands[i].name) != length || strncmp(chat_commands[i].name, line, length))
            continue;
        chat_commands[i].run(c, argument);
        return;
    }
    cli_reply("There is no command %.*s; /help lists them.", (int)length, line);
}

/* ---- the loops ------------------------------------------------------------------------------- */

static int terminal_loop(chat *c, cli_input *input)
{
    unsigned interrupts = 0; /* since the last line */
    const char *line;
    size_t bytes;
    while (!c->leave) {
        cli_forget_interrupts();
        switch (cli_input_read(input, &line, &bytes)) {
        case CLI_LINE_END: putchar('\n'); return CLI_DONE;
        case CLI_LINE_FAILED: return cli_error("the terminal cannot be read");
        case CLI_LINE_INTERRUPT:
            if (++interrupts > 1) return CLI_INTERRUPTED;
            cli_note("(Ctrl-C again, Ctrl-D or /quit leaves.)");
            continue;
        case CLI_LINE_READ: break;
        }
        interrupts = 0;
        if (!bytes) continue;
        if (line[0] == '/') {
            char *command = strndup(line, bytes);
            if (command) run_command(c, command);
            free(command);
            continue;
        }
        int rc = turn(c, line, bytes);
        if (!c->session) return rc; /* nothing could take the GPU's place */
        interrupts = cli_interrupts();
        if (interrupts > 1) return CLI_INTERRUPTED;
        if (rc == CLI_FAILED && !cli_flush()) return rc;
    }
    return CLI_DONE;
}

/* One answer per line, and the first failure ends it. */
static int pipe_loop(chat *c, cli_input *input)
{
    const char *line;
    size_t bytes;
    for (;;) {
        switch (cli_input_read(input, &line, &bytes)) {
        case CLI_LINE_END: return CLI_DONE;
        case CLI_LINE_INTERRUPT: return CLI_INTERRUPTED;
        case CLI_LINE_FAILED: return cli_error("stdin cannot be read");
        case CLI_LINE_READ: break;
        }
        if (!bytes) continue;
        int rc = turn(c, line, bytes);
        if (rc >= 0) return rc;
        if (cli_interrupts()) return CLI_INTERRUPTED;
    }
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    chat c = { .call = call,
               .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !call->globals.json };
    cli_input *input = cli_input_create(c.terminal, "> ");
    int rc = input ? -1 : cli_error("the terminal cannot be set up for typing");
    if (rc < 0) rc = cli_open_model(call, false, &c.model);
    if (rc < 0) rc = cli_create_session(call, c.model, 0, &c.session);
    if (rc < 0) rc = cli_create_sampler(call, &o->sampling, c.model, &c.sampler);
    if (rc < 0 && !cli_conversation_set_system(&c.conversation, o->system))
        rc = cli_error("no memory for the system message");
    if (rc < 0) cli_show_notes();
    if (rc < 0 && c.terminal) {
        rl_model_info info;
        rl_model_get_info(c.model, &info);
        cli_note("%s on %s. /help lists what can be typed besides questions.", info.name,
                 info.backend);
    }
    if (rc < 0) rc = c.terminal ? terminal_loop(&c, input) : pipe_loop(&c, input);
    cli_conversation_fini(&c.conversation);
    rl_sampler_destroy(c.sampler);
    rl_session_destroy(c.session);
    rl_model_close(c.model);
    cli_input_destroy(input);
    return rc;
}

const cli_command cli_chat = {
    .name = "chat",
    .summary = "talks with the model",
    .usage = "[options]",
    .details = "On a terminal: a conversation; /help lists its commands, Ctrl-C stops an answer,\n"
               "a second one leaves. Otherwise every line of stdin is a message and gets one\n"
               "answer (with --json one JSON object per line).\n",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_ALL,
    .checkpoints = 4,
    .run = run,
};
