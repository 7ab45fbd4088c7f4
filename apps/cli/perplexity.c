/* perplexity.c - `redlite perplexity`: how well the model foresees a text.
 *
 * Consecutive windows of c tokens, each read from an empty session, the incomplete last one left
 * out. In a window the targets are tokens c/2+1 to c-1 (from 0), each foretold by those before it.
 * perplexity = exp(mean negative log likelihood of all targets). Control-token text is plain. */
#include "cli.h"
#include "json.h"

#include <math.h>
#include <stdlib.h>

typedef struct options {
    cli_prompt prompt;
} options;

static const cli_option table[] = { { "-f, --file", "FILE", CLI_TEXT,
                                      offsetof(options, prompt.file), 0, 0, NULL,
                                      "the text; - is stdin" },
                                    { 0 } };

typedef struct score {
    const uint32_t *window;
    size_t n_ctx, n_vocab;
    size_t n_windows, done_windows;
    double sum; /* of negative log likelihoods */
    size_t n_scored;
} score;

/* -log of the probability that softmax(logits) gives to `target`. */
static double surprise(const float *logits, size_t n, uint32_t target)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (logits[i] > top) top = logits[i];
    for (size_t i = 0; i < n; i++)
        sum += exp(logits[i] - top);
    return top + log(sum) - logits[target];
}

static bool score_token(void *context, size_t index, const float *logits)
{
    score *s = context;
    if (index >= s->n_ctx / 2 && index + 1 < s->n_ctx) {
        s->sum += surprise(logits, s->n_vocab, s->window[index + 1]);
        s->n_scored++;
    }
    char extra[48] = "";
    if (s->n_scored)
        snprintf(extra, sizeof extra, "perplexity %.4f", exp(s->sum / (double)s->n_scored));
    cli_progress("perplexity", s->done_windows * s->n_ctx + index + 1, s->n_windows * s->n_ctx,
                 extra);
    return cli_interrupts() == 0;
}

static int score_windows(rl_session *session, const uint32_t *ids, score *s)
{
    rl_error err = { "" };
    cli_show_notes();
    cli_progress_take();
    for (; s->done_windows < s->n_windows; s->done_windows++) {
        s->window = ids + s->done_windows * s->n_ctx;
        rl_status status = rl_session_reset(session, &err);
        if (!status)
            status = rl_session_feed_each(session, s->window, s->n_ctx, score_token, s, &err);
        if (status == RL_INTERRUPTED && s->n_scored)
            cli_note("interrupted in window %zu of %zu: perplexity so far %.4f",
                     s->done_windows + 1, s->n_windows, exp(s->sum / (double)s->n_scored));
        if (status) return cli_error_of(status, &err);
        cli_debug("window %zu of %zu: perplexity so far %.4f", s->done_windows + 1, s->n_windows,
                  exp(s->sum / (double)s->n_scored));
    }
    cli_progress_clear();
    return -1;
}

static void report(const cli_call *call, const score *s)
{
    double nll = s->sum / (double)s->n_scored;
    if (!call->globals.json) {
        printf("perplexity %.4f (%zu tokens scored in %zu windows of %zu)\n", exp(nll), s->n_scored,
               s->done_windows, s->n_ctx);
        return;
    }
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "ppl");
    cli_json_number(&json, exp(nll), 6);
    cli_json_key(&json, "nll");
    cli_json_number(&json, nll, 8);
    cli_json_key(&json, "n_scored");
    cli_json_uint(&json, s->n_scored);
    cli_json_key(&json, "n_windows");
    cli_json_uint(&json, s->done_windows);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    rl_model *model = NULL;
    rl_session *session = NULL;
    uint32_t *ids = NULL;
    size_t n = 0;
    rl_model_info info;
    if (!o->prompt.file) return cli_usage_error(call->command, "give the text as -f FILE");
    score s = { .n_ctx = call->globals.n_ctx ? call->globals.n_ctx : 512 };
    if (s.n_ctx < 4) return cli_usage_error(call->command, "windows of -c 4 tokens are the least");
    int rc = cli_open_model(call, false, &model);
    if (rc < 0) rc = cli_prompt_tokens(&o->prompt, model, false, &ids, &n);
    s.n_windows = n / s.n_ctx;
    if (rc < 0 && !s.n_windows)
        rc = cli_error("%s: has %zu tokens, which do not fill one window of %zu (-c)",
                       o->prompt.file, n, s.n_ctx);
    if (rc < 0) rc = cli_create_session(call, model, (uint32_t)s.n_ctx, &session);
    if (rc < 0) {
        rl_model_get_info(model, &info);
        s.n_vocab = info.n_vocab;
        rc = score_windows(session, ids, &s);
    }
    if (rc < 0) {
        report(call, &s);
        rc = CLI_DONE;
    }
    free(ids);
    rl_session_destroy(session);
    rl_model_close(model);
    return rc;
}

const cli_command cli_perplexity = {
    .name = "perplexity",
    .summary = "how well the model foresees a text",
    .usage = "-f FILE [-c 512] [options]",
    .details = "The text is read in windows of -c tokens (512), each from an empty session; the\n"
               "second half of every window is scored, an incomplete last one is dropped.\n"
               "Control tokens spelled in the text stay text.\n",
    .options = table,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_MODEL | CLI_SHOW_BACKEND | CLI_SHOW_SESSION | CLI_SHOW_JSON,
    .run = run,
};
