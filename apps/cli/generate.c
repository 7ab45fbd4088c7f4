/* generate.c - `redlite generate`: reads a prompt and continues it. */
#include "generation.h"

#include <stdlib.h>

typedef struct options {
    cli_prompt prompt;
    uint32_t most;
    cli_sampling sampling;
} options;

static const options defaults = { .most = 256, .sampling = CLI_SAMPLING_DEFAULTS };

static const cli_option table[] = {
    { "-p, --prompt", "TEXT", CLI_TEXT, offsetof(options, prompt.text), 0, 0, NULL,
      "the text to continue; control tokens may be spelled in it" },
    { "-f, --file", "FILE", CLI_TEXT, offsetof(options, prompt.file), 0, 0, NULL,
      "the same out of a file; - is stdin" },
    { "--tokens", "1,2,3", CLI_LIST, offsetof(options, prompt.tokens), 0, 4294967295.0, NULL,
      "the same as token ids" },
    { "-n, --n-predict", "N", CLI_UINT, offsetof(options, most), 0, 1 << 30, NULL,
      "most tokens to write (256)" },
    CLI_SAMPLING_OPTIONS(options),
    { 0 }
};

typedef struct result {
    uint32_t *prompt;
    size_t n_prompt;
    cli_generation generation;
    cli_timings timings;
} result;

static int read_prompt(const cli_call *call, rl_model **model, rl_session **session, result *r)
{
    rl_error err = { "" };
    uint32_t n_ctx = rl_session_n_ctx(*session);
    if (!r->n_prompt) return cli_error("the prompt is empty: at least one token is needed");
    if (r->n_prompt > n_ctx)
        return cli_error("the prompt has %zu tokens, but the context holds %u: raise -c",
                         r->n_prompt, n_ctx);
    cli_show_notes();
    uint64_t began = cli_clock_ns();
    rl_status status = rl_session_feed(*session, r->prompt, r->n_prompt, &err);
    cli_progress_clear();
    if (status) {
        int rc = cli_fall_back(call, status, &err, model, session);
        if (rc >= 0) return rc;
        status = rl_session_feed(*session, r->prompt, r->n_prompt, &err);
        cli_progress_clear();
    }
    r->timings.prompt_ns = cli_clock_ns() - began;
    if (status) return cli_error_of(status, &err);
    r->timings.n_prompt = r->n_prompt;
    return -1;
}

static void print_json(const cli_call *call, const rl_session *session, result *r)
{
    const cli_generation *g = &r->generation;
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "prompt_tokens");
    cli_json_ids(&json, r->prompt, r->n_prompt);
    cli_json_key(&json, "tokens");
    cli_json_ids(&json, g->tokens, g->n_tokens);
    cli_json_key(&json, "text");
    cli_json_string(&json, g->text ? g->text : "", g->text_bytes);
    cli_json_key(&json, "stop");
    cli_json_text(&json, cli_stop_name(g->stop));
    cli_json_key(&json, "seed");
    cli_json_uint(&json, call->globals.seed);
    cli_json_timings(&json, &r->timings);
    cli_json_cache(&json, session);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

static int generate(const cli_call *call, rl_model **model, rl_session **session,
                    rl_sampler *sampler, result *r)
{
    const options *o = call->options;
    cli_generation *g = &r->generation;
    for (size_t i = 0; i < r->n_prompt; i++)
        rl_sampler_accept(sampler, r->prompt[i]);
    int rc = read_prompt(call, model, session, r);
    *g = (cli_generation){
        .model = *model, .session = *session, .sampler = sampler, .most = o->most
    };
    if (!call->globals.json) g->show = cli_show_text;
    if (!*session) return rc; /* nothing could take the GPU's place */
    if (rc == CLI_INTERRUPTED)
        g->stop = CLI_STOP_INTERRUPT;
    else if (rc < 0)
        rc = cli_generate_run(g);
    r->timings.decode_ns = g->ns;
    r->timings.n_decoded = g->n_tokens;
    if (rc >= 0 && rc != CLI_INTERRUPTED) return rc;

    if (call->globals.json)
        print_json(call, *session, r);
    else if (g->text_bytes)
        putchar('\n');
    if (g->context_full)
        cli_note("stopped after %zu of %u tokens: the context of %u is full (-c)", g->n_tokens,
                 o->most, rl_session_n_ctx(*session));
    cli_debug("read %zu tokens in %.1f ms, wrote %zu in %.1f ms (%.1f tokens/s), seed %llu",
              r->n_prompt, (double)r->timings.prompt_ns / 1e6, g->n_tokens, (double)g->ns / 1e6,
              g->ns ? (double)g->n_tokens * 1e9 / (double)g->ns : 0,
              (unsigned long long)call->globals.seed);
    return g->stop == CLI_STOP_INTERRUPT ? CLI_INTERRUPTED : CLI_DONE;
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    rl_model *model = NULL;
    rl_session *session = NULL;
    rl_sampler *sampler = NULL;
    result r = { 0 };
    int rc = cli_prompt_check(call->command, &o->prompt);
    if (rc >= 0) return rc;
    uint64_t began = cli_clock_ns();
    rc = cli_open_model(call, false, &model);
    if (rc < 0) rc = cli_create_session(call, model, 0, &session);
    r.timings.load_ns = cli_clock_ns() - began;
    if (rc < 0) rc = cli_prompt_tokens(&o->prompt, model, true, &r.prompt, &r.n_prompt);
    if (rc < 0) rc = cli_create_sampler(call, &o->sampling, model, &sampler);
    if (rc < 0) rc = generate(call, &model, &session, sampler, &r);
    cli_generation_fini(&r.generation);
    free(r.prompt);
    rl_sampler_destroy(sampler);
    rl_session_destroy(session);
    rl_model_close(model);
    return rc;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continues a text",
    .usage = "-p TEXT | -f FILE | --tokens IDS [options]",
    .details = "With --json: prompt_tokens, tokens (with the end token), text (without it), stop\n"
               "(eos, length or interrupt), seed, timings, cache.\n",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_ALL,
    .run = run,
};
