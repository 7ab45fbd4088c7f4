/* generation.c - see generation.h. */
#include "generation.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t cli_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *cli_stop_name(cli_stop stop)
{
    static const char *const names[] = { "eos", "length", "interrupt" };
    return names[stop];
}

int cli_create_sampler(const cli_call *call, const cli_sampling *sampling, const rl_model *model,
                       rl_sampler **out)
{
    rl_error err = { "" };
    rl_model_info info;
    rl_model_get_info(model, &info);
    rl_sampler_params params = {
        .temperature = sampling->temperature,
        .top_k = sampling->top_k,
        .top_p = sampling->top_p,
        .min_p = sampling->min_p,
        .repeat_penalty = sampling->repeat_penalty,
        .presence_penalty = sampling->presence_penalty,
        .seed = call->globals.seed,
    };
    rl_logit_bias *bias = NULL;
    if (sampling->ignore_eos) {
        bias = calloc(info.n_vocab, sizeof *bias);
        if (!bias) return cli_error("no memory for a sampler");
        for (uint32_t token = 0; token < info.n_vocab; token++)
            if (rl_token_is_end(model, token))
                bias[params.n_bias++] = (rl_logit_bias){ token, -__builtin_inff() };
        params.bias = bias;
    }
    rl_status status = rl_sampler_create(out, &params, info.n_vocab, &err);
    free(bias);
    return status ? cli_error_of(status, &err) : -1;
}

bool cli_show_text(const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, stdout);
    return cli_flush();
}

/* Adds text to the answer and shows it. Returns -1 or the exit code. */
static int add_text(cli_generation *g, size_t *capacity, const char *text, size_t bytes)
{
    if (g->text_bytes + bytes + 1 > *capacity) {
        size_t wanted = (g->text_bytes + bytes + 1) * 2;
        char *bigger = realloc(g->text, wanted);
        if (!bigger) return cli_error("no memory for the answer");
        g->text = bigger;
        *capacity = wanted;
    }
    memcpy(g->text + g->text_bytes, text, bytes);
    g->text_bytes += bytes;
    g->text[g->text_bytes] = 0;
    if (bytes && g->show && !g->show(text, bytes)) return CLI_FAILED;
    return -1;
}

/* The loop: sample, show, feed. Returns -1 or the exit code. */
static int generate(cli_generation *g, rl_text_stream *stream, size_t *text_capacity)
{
    rl_error err = { "" };
    size_t capacity = 0;
    g->stop = CLI_STOP_LENGTH;
    while (g->n_tokens < g->most) {
        if (cli_interrupts()) {
            g->stop = CLI_STOP_INTERRUPT;
            return -1;
        }
        if (g->n_tokens == capacity) {
            capacity = capacity ? capacity * 2 : 256;
            uint32_t *bigger = realloc(g->tokens, capacity * sizeof *bigger);
            if (!bigger) return cli_error("no memory for the answer");
            g->tokens = bigger;
        }
        uint32_t token;
        rl_status sampled = rl_session_sample(g->session, g->sampler, &token, &err);
        if (sampled) return cli_error_of(sampled, &err);
        g->tokens[g->n_tokens++] = token;
        bool end = rl_token_is_end(g->model, token);
        if (!end) {
            size_t bytes;
            const char *text = rl_text_stream_push(stream, token, &bytes);
            int rc = add_text(g, text_capacity, text, bytes);
            if (rc >= 0) return rc;
        }
        bool full = rl_session_position(g->session) == rl_session_n_ctx(g->session);
        bool wanted = end ? g->feed_end : g->feed_end || g->n_tokens < g->most;
        if (wanted && !full) {
            rl_status status = rl_session_feed(g->session, &token, 1, &err);
            if (status == RL_INTERRUPTED) {
                g->stop = CLI_STOP_INTERRUPT;
                return -1;
            }
            if (status) return cli_error_of(status, &err);
        }
        if (end) {
            g->stop = CLI_STOP_EOS;
            return -1;
        }
        if (wanted && full) {
            g->context_full = true;
            return -1;
        }
    }
    return -1;
}

int cli_generate_run(cli_generation *g)
{
    rl_error err = { "" };
    rl_text_stream *stream = NULL;
    size_t text_capacity = 0, bytes;
    g->tokens = NULL;
    g->text = NULL;
    g->n_tokens = g->text_bytes = 0;
    g->context_full = false;
    rl_status status = rl_text_stream_create(&stream, g->model, &err);
    if (status) return cli_error_of(status, &err);
    uint64_t began = cli_clock_ns();
    int rc = add_text(g, &text_capacity, "", 0);
    if (rc < 0) rc = generate(g, stream, &text_capacity);
    g->ns = cli_clock_ns() - began;
    if (rc < 0) {
        const char *text = rl_text_stream_flush(stream, &bytes);
        rc = add_text(g, &text_capacity, text, bytes);
    }
    rl_text_stream_destroy(stream);
    return rc;
}

void cli_generation_fini(cli_generation *g)
{
    free(g->tokens);
    free(g->text);
    g->tokens = NULL;
    g->text = NULL;
}

static double rate(size_t n, uint64_t ns)
{
    return ns ? (double)n * 1e9 / (double)ns : 0;
}

void cli_json_timings(cli_json *json, const cli_timings *t)
{
    const struct {
        const char *key;
        double value;
        int decimals;
    } rows[] = {
        { "load_ms", (double)t->load_ns / 1e6, 3 },
        { "prompt_n", (double)t->n_prompt, 0 },
        { "prompt_ms", (double)t->prompt_ns / 1e6, 3 },
        { "prompt_tok_s", rate(t->n_prompt, t->prompt_ns), 2 },
        { "decode_n", (double)t->n_decoded, 0 },
        { "decode_ms", (double)t->decode_ns / 1e6, 3 },
        { "decode_tok_s", rate(t->n_decoded, t->decode_ns), 2 },
    };
    cli_json_key(json, "timings");
    cli_json_open(json, '{');
    for (size_t i = 0; i < CLI_LENGTH(rows); i++) {
        cli_json_key(json, rows[i].key);
        cli_json_number(json, rows[i].value, rows[i].decimals);
    }
    cli_json_close(json, '}');
}

void cli_json_cache_figures(cli_json *json, const rl_session_stats *s, size_t n_tokens)
{
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        { "hits", s->hits },
        { "misses", s->misses },
        { "arriving", s->arriving },
        { "evictions", s->evictions },
        { "bytes_read", s->bytes_read },
        { "prefetched", s->prefetched },
        { "prefetch_used", s->prefetch_used },
        { "prefetch_wasted", s->prefetch_wasted },
        { "slots_used", s->slots_used },
        { "slots", s->slots_all },
        { "distinct_experts_min", s->distinct_experts_min },
        { "distinct_experts_max", s->distinct_experts_max },
    };
    for (size_t i = 0; i < CLI_LENGTH(rows); i++) {
        cli_json_key(json, rows[i].key);
        cli_json_uint(json, rows[i].value);
    }
    double tokens = n_tokens ? (double)n_tokens : 1, wait_ms = (double)s->wait_ns / 1e6;
    cli_json_key(json, "wait_ms");
    cli_json_number(json, wait_ms, 3);
    cli_json_key(json, "wait_ms_per_token");
    cli_json_number(json, wait_ms / tokens, 3);
    cli_json_key(json, "wait_share");
    if (s->generated_ns)
        cli_json_number(json, (double)s->wait_ns / (double)s->generated_ns, 4);
    else
        cli_json_null(json);
    cli_json_key(json, "reading_ms");
    cli_json_number(json, (double)s->reading_ns / 1e6, 3);
    cli_json_key(json, "misses_per_token");
    cli_json_number(json, (double)s->misses / tokens, 2);
    cli_json_key(json, "bytes_per_token");
    cli_json_number(json, (double)s->bytes_read / tokens, 0);
    cli_json_key(json, "hit_rate");
    uint64_t asked = s->hits + s->misses + s->arriving;
    if (asked)
        cli_json_number(json, (double)s->hits / (double)asked, 4);
    else
        cli_json_null(json);
}

void cli_json_cache(cli_json *json, const rl_session *session)
{
    rl_session_stats stats;
    rl_session_get_stats(session, &stats);
    cli_json_key(json, "cache");
    cli_json_open(json, '{');
    cli_json_cache_figures(json, &stats, stats.generated_tokens);
    cli_json_close(json, '}');
}
