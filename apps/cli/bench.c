/* bench.c - `redlite bench`: prefill and decode speed, each at one context depth.
 *
 * A row is prefill (ppN: N tokens read in batches) or decode (tgN: N tokens one by one, each the
 * likeliest one after the last), never a blend. The session is first filled to the depth, then the
 * work is done once outside the clock (so that caches are warm and first-use costs are paid), then
 * -r times inside it, every time from a checkpoint at that depth. Every decode run begins with
 * another token, and so goes another way: one that was gone before would find its experts in memory.
 * Tokens are random, from the seed; with -f they are those of a text, and decode runs read on in it
 * instead of generating. Cache figures are of the timed decode runs of the row. */
#include "generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    cli_list prefill, decode, depth;
    uint32_t repeat;
    const char *file;
    bool stages;
} options;

enum { MOST = 1 << 20 };

static const options defaults = { .repeat = 5 };

static const cli_option table[] = { { "-p, --n-prompt", "N,N", CLI_LIST, offsetof(options, prefill),
                                      0, MOST, NULL, "tokens per prefill test (512); 0: none" },
                                    { "-n, --n-gen", "N,N", CLI_LIST, offsetof(options, decode), 0,
                                      MOST, NULL, "tokens per decode test (128); 0: none" },
                                    { "-d, --depth", "N,N", CLI_LIST, offsetof(options, depth), 0,
                                      MOST, NULL, "tokens in the session before the test (0)" },
                                    { "-r, --repeat", "N", CLI_UINT, offsetof(options, repeat), 1,
                                      1000, NULL, "timed runs per test (5)" },
                                    { "-f, --file", "FILE", CLI_TEXT, offsetof(options, file), 0, 0,
                                      NULL, "tokens of this text instead of random ones" },
                                    { "--stages", NULL, CLI_FLAG, offsetof(options, stages), 0, 0,
                                      NULL, "also where the time of the timed runs goes" },
                                    { 0 } };

typedef struct bench {
    const cli_call *call;
    rl_model *model;
    rl_session *session;
    rl_sampler *sampler; /* greedy */
    uint32_t *tokens;    /* [n_tokens] random, or of the text; used in a circle */
    size_t n_tokens;
    bool is_text, stages;
    uint32_t *batch;    /* room for the longest feed */
    size_t done, total; /* runs, for progress */
} bench;

typedef struct row {
    bool decode;
    uint32_t n, depth;
    double median, least, most; /* tokens per second */
    rl_session_stats before, after;
    uint64_t submissions; /* of the timed runs alone, without the rewinds between them */
} row;

/* Copies tokens from number `at` on, in a circle. */
static void copy_tokens(const bench *b, size_t at, uint32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = b->tokens[(at + i) % b->n_tokens];
}

/* The n tokens of a test, once. Run number `run` has a stretch of the tokens for itself. */
static rl_status run_once(bench *b, const row *r, uint32_t run, uint64_t *ns, rl_error *err)
{
    rl_status status = RL_OK;
    size_t stretch = r->depth + (b->is_text ? (size_t)run * r->n : run);
    if (!r->decode) {
        copy_tokens(b, stretch, b->batch, r->n);
        uint64_t began = cli_clock_ns();
        status = rl_session_feed(b->session, b->batch, r->n, err);
        *ns = cli_clock_ns() - began;
        return status;
    }
    uint64_t began = cli_clock_ns();
    for (uint32_t i = 0; !status && i < r->n; i++) {
        uint32_t token = b->tokens[(stretch + i) % b->n_tokens];
        if (cli_interrupts()) return RL_INTERRUPTED;
        if (!b->is_text && i) status = rl_session_sample(b->session, b->sampler, &token, err);
        if (!status) status = rl_session_feed(b->session, &token, 1, err);
    }
    *ns = cli_clock_ns() - began;
    return status;
}

/* Brings the session to the depth. */
static rl_status fill(bench *b, uint32_t n, rl_error *err)
{
    rl_status status = rl_session_reset(b->session, err);
    if (status || !n) return status;
    copy_tokens(b, 0, b->batch, n);
    status = rl_session_feed(b->session, b->batch, n, err);
    return status ? status : rl_session_checkpoint(b->session, err);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static rl_status run_row(bench *b, row *r, double *rates, uint32_t repeat, rl_error *err)
{
    uint64_t ns;
    char what[32];
    snprintf(what, sizeof what, "%s%u", r->decode ? "tg" : "pp", r->n);
    rl_status status = fill(b, r->depth, err);
    for (uint32_t i = 0; !status && i <= repeat; i++) {
        cli_progress("bench", b->done++, b->total, what);
        if (i == 1) {
            rl_session_get_stats(b->session, &r->before);
            if (b->stages) rl_model_time_stages(b->model, true);
        }
        status = rl_session_rewind(b->session, r->depth, err);
        rl_session_stats began, ended;
        rl_session_get_stats(b->session, &began);
        if (!status) status = run_once(b, r, i, &ns, err);
        rl_session_get_stats(b->session, &ended);
        if (!status && i > 0) rates[i - 1] = (double)r->n * 1e9 / (double)(ns ? ns : 1);
        if (i > 0) r->submissions += ended.submissions - began.submissions;
        if (!status && cli_interrupts()) status = RL_INTERRUPTED;
    }
    if (status) return status;
    rl_session_get_stats(b->session, &r->after);
    qsort(rates, repeat, sizeof *rates, compare);
    r->least = rates[0];
    r->most = rates[repeat - 1];
    r->median = repeat % 2 ? rates[repeat / 2] : (rates[repeat / 2 - 1] + rates[repeat / 2]) / 2;
    return RL_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* "paths": how the timed tokens were decoded. */
static void print_paths(cli_json *json, const row *r)
{
    const struct {
        const char *key;
        uint64_t value;
    } paths[] = {
        { "sync", r->after.tokens_sync - r->before.tokens_sync },
        { "routed", r->after.tokens_routed - r->before.tokens_routed },
        { "resumed", r->after.tokens_resumed - r->before.tokens_resumed },
        { "restarted", r->after.tokens_restarted - r->before.tokens_restarted },
        { "gated", r->after.tokens_gated - r->before.tokens_gated },
    };
    cli_json_key(json, "paths");
    cli_json_open(json, '{');
    for (size_t i = 0; i < CLI_LENGTH(paths); i++) {
        cli_json_key(json, paths[i].key);
        cli_json_uint(json, paths[i].value);
    }
    cli_json_close(json, '}');
}

/* What the timed runs added. Slots and distinct experts are no sums: they stay as they are. */
static rl_session_stats difference(const rl_session_stats *after, const rl_session_stats *before)
{
    rl_session_stats d = *after;
    d.hits -= before->hits;
    d.misses -= before->misses;
    d.arriving -= before->arriving;
    d.evictions -= before->evictions;
    d.bytes_read -= before->bytes_read;
    d.wait_ns -= before->wait_ns;
    d.reading_ns -= before->reading_ns;
    d.generated_ns -= before->generated_ns;
    d.prefetched -= before->prefetched;
    d.prefetch_used -= before->prefetch_used;
    d.prefetch_wasted -= before->prefetch_wasted;
    return d;
}

/* "stages_ms": milliseconds per token, in the order of a token; of those that this backend tells apart. */
static void print_stages_json(cli_json *json, const bench *b)
{
    const char *name;
    uint64_t ns, n_tokens = rl_model_timed_tokens(b->model);
    cli_json_key(json, "stages_tokens");
    cli_json_uint(json, n_tokens);
    cli_json_key(json, "stages_ms");
    cli_json_open(json, '{');
    for (size_t i = 0; n_tokens && rl_model_get_stage(b->model, i, &name, &ns); i++) {
        if (!ns) continue;
        cli_json_key(json, name);
        cli_json_number(json, (double)ns / 1e6 / (double)n_tokens, 6);
    }
    cli_json_close(json, '}');
}

/* "gpu_ms" per token; null where no device computed, or nobody looked at its clock. */
static void print_gpu_json(cli_json *json, const bench *b, const row *r)
{
    const char *name;
    uint64_t ns, all = 0, n_tokens = rl_model_timed_tokens(b->model);
    bool timed = b->stages && n_tokens && r->submissions;
    for (size_t i = 0; timed && rl_model_get_stage(b->model, i, &name, &ns); i++)
        all += ns;
    cli_json_key(json, "gpu_ms");
    cli_json_number(json, timed ? (double)all / 1e6 / (double)n_tokens : NAN, 6);
}

static void print_stages(const bench *b)
{
    const char *name;
    uint64_t ns, all = 0, n_tokens = rl_model_timed_tokens(b->model);
    if (!n_tokens)
        printf("  no token was timed: only those that start routed and miss nothing are\n");
    for (size_t i = 0; rl_model_get_stage(b->model, i, &name, &ns); i++)
        all += ns;
    for (size_t i = 0; rl_model_get_stage(b->model, i, &name, &ns); i++)
        if (ns)
            printf("  %-16s %12.4f ms/token %8.1f %%\n", name, (double)ns / 1e6 / (double)n_tokens,
                   100.0 * (double)ns / (double)all);
}

static void print_json(const bench *b, const row *r, uint32_t repeat)
{
    rl_model_info info;
    rl_model_get_info(b->model, &info);
    char test[32];
    snprintf(test, sizeof test, "%s%u", r->decode ? "tg" : "pp", r->n);
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "test");
    cli_json_text(&json, test);
    cli_json_key(&json, "depth");
    cli_json_uint(&json, r->depth);
    const struct {
        const char *key;
        double value;
    } rates[] = { { "tok_s_median", r->median },
                  { "tok_s_min", r->least },
                  { "tok_s_max", r->most } };
    for (size_t i = 0; i < CLI_LENGTH(rates); i++) {
        cli_json_key(&json, rates[i].key);
        cli_json_number(&json, rates[i].value, 3);
    }
    cli_json_key(&json, "repeat");
    cli_json_uint(&json, repeat);
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        { "n_slots", info.n_slots },
        { "n_experts", info.n_experts_all },
        { "cache_bytes", info.cache_bytes },
        { "file_bytes", info.file_bytes },
    };
    for (size_t i = 0; i < CLI_LENGTH(counts); i++) {
        cli_json_key(&json, counts[i].key);
        cli_json_uint(&json, counts[i].value);
    }
    rl_session_stats timed = difference(&r->after, &r->before);
    cli_json_cache_figures(&json, &timed, r->decode ? (size_t)r->n * repeat : 0);
    print_gpu_json(&json, b, r);
    cli_json_key(&json, "submits_per_token");
    cli_json_number(&json, (double)r->submissions / ((double)r->n * repeat), 4);
    print_paths(&json, r);
    if (b->stages) print_stages_json(&json, b);
    cli_json_key(&json, "io");
    cli_json_text(&json, info.io);
    cli_json_key(&json, "backend");
    cli_json_text(&json, info.backend);
    cli_json_key(&json, "model");
    cli_json_text(&json, info.name);
    cli_json_key(&json, "version");
    cli_json_text(&json, rl_version());
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

static void print_head(const bench *b)
{
    rl_model_info info;
    rl_model_get_info(b->model, &info);
    printf("%s on %s\n%-10s %8s %12s %12s %12s %9s %14s %12s\n", info.name, info.backend, "test",
           "depth", "median tok/s", "min", "max", "hit rate", "wait ms/token", "distinct");
}

static void print_row(const row *r, uint32_t repeat)
{
    rl_session_stats timed = difference(&r->after, &r->before);
    uint64_t asked = timed.hits + timed.misses + timed.arriving;
    char rate[16] = "-", wait[16] = "-", distinct[32] = "-", test[32];
    if (r->decode && asked) {
        snprintf(rate, sizeof rate, "%.1f %%", 100.0 * (double)timed.hits / (double)asked);
        snprintf(wait, sizeof wait, "%.2f", (double)timed.wait_ns / 1e6 / ((double)r->n * repeat));
        snprintf(distinct, sizeof distinct, "%u..%u", timed.distinct_experts_min,
                 timed.distinct_experts_max);
    }
    snprintf(test, sizeof test, "%s%u", r->decode ? "tg" : "pp", r->n);
    printf("%-10s %8u %12.2f %12.2f %12.2f %9s %14s %12s\n", test, r->depth, r->median, r->least,
           r->most, rate, wait, distinct);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static uint32_t largest(const cli_list *list)
{
    uint32_t most = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i] > most) most = list->items[i];
    return most;
}

/* Random tokens that are no control tokens: those could end or restart the text. */
static int make_tokens(bench *b, size_t n)
{
    rl_model_info info;
    rl_model_get_info(b->model, &info);
    b->tokens = malloc(n * sizeof *b->tokens);
    if (!b->tokens) return cli_error("no memory for %zu tokens", n);
    b->n_tokens = n;
    uint64_t state = b->call->globals.seed;
    for (size_t i = 0; i < n; i++) {
        uint32_t token = 0;
        for (int attempt = 0; attempt < 100; attempt++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            token = (uint32_t)((state >> 33) % info.n_vocab);
            if (!rl_token_is_control(b->model, token)) break;
        }
        b->tokens[i] = token;
    }
    return -1;
}

static int read_tokens(bench *b, const char *path)
{
    cli_prompt prompt = { .file = path };
    int rc = cli_prompt_tokens(&prompt, b->model, false, &b->tokens, &b->n_tokens);
    if (rc >= 0) return rc;
    b->is_text = true;
    return b->n_tokens ? -1 : cli_error("%s: there is no text", path);
}

static int run_rows(bench *b, const cli_list *lists[2], const cli_list *depths, uint32_t repeat)
{
    rl_error err = { "" };
    double *rates = calloc(repeat, sizeof *rates);
    if (!rates) return cli_error("no memory for %u runs", repeat);
    bool json = b->call->globals.json;
    int rc = -1;
    b->total = (lists[0]->n + lists[1]->n) * depths->n * (repeat + 1);
    cli_show_notes();
    cli_progress_take();
    if (!json) print_head(b);
    for (size_t d = 0; rc < 0 && d < depths->n; d++) {
        for (size_t k = 0; k < 2; k++) {
            for (size_t i = 0; rc < 0 && i < lists[k]->n; i++) {
                if (!lists[k]->items[i]) continue;
                row r = { .decode = k == 1, .n = lists[k]->items[i], .depth = depths->items[d] };
                rl_status status = run_row(b, &r, rates, repeat, &err);
                cli_progress_clear();
                if (status)
                    rc = cli_error_of(status, &err);
                else if (json)
                    print_json(b, &r, repeat);
                else
                    print_row(&r, repeat);
                if (rc < 0 && b->stages && !json) print_stages(b);
                if (rc < 0 && !cli_flush()) rc = CLI_FAILED;
            }
        }
    }
    free(rates);
    return rc;
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    uint32_t default_prefill = 512, default_decode = 128, default_depth = 0;
    bool given = o->prefill.items || o->decode.items;
    cli_list prefill = o->prefill.items ? o->prefill : (cli_list){ &default_prefill, !given };
    cli_list decode = o->decode.items ? o->decode : (cli_list){ &default_decode, !given };
    cli_list depth = o->depth.items ? o->depth : (cli_list){ &default_depth, 1 };
    uint32_t need = largest(&prefill) > largest(&decode) ? largest(&prefill) : largest(&decode);
    need += largest(&depth);
    if (!largest(&prefill) && !largest(&decode))
        return cli_usage_error(call->command, "there is nothing to measure: give -p or -n");
    if (call->globals.n_ctx && call->globals.n_ctx < need)
        return cli_usage_error(call->command, "these tests need a context of %u tokens, -c is %u",
                               need, call->globals.n_ctx);
    rl_error err = { "" };
    bench b = { .call = call, .stages = o->stages };
    rl_model_info info;
    int rc = cli_open_model(call, false, &b.model);
    if (rc < 0) rc = cli_create_session(call, b.model, need, &b.session);
    if (rc < 0) rc = o->file ? read_tokens(&b, o->file) : make_tokens(&b, (size_t)need + o->repeat);
    if (rc < 0 && !(b.batch = malloc(need * sizeof *b.batch)))
        rc = cli_error("no memory for %u tokens", need);
    if (rc < 0) {
        rl_model_get_info(b.model, &info);
        rl_sampler_params greedy = { 0 };
        rl_status status = rl_sampler_create(&b.sampler, &greedy, info.n_vocab, &err);
        if (status) rc = cli_error_of(status, &err);
    }
    if (rc < 0) rc = run_rows(&b, (const cli_list *[]){ &prefill, &decode }, &depth, o->repeat);
    free(b.tokens);
    free(b.batch);
    rl_sampler_destroy(b.sampler);
    rl_session_destroy(b.session);
    rl_model_close(b.model);
    return rc < 0 ? CLI_DONE : rc;
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measures reading and writing speed",
    .usage = "[-p N,N] [-n N,N] [-d N,N] [-r N] [--stages] [options]",
    .details = "Each row is prefill (pp) or decode (tg) at one depth; one run outside the clock,\n"
               "then -r timed ones. Without -p and -n: pp512 and tg128. With --json one object\n"
               "per row and line.\n",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_ALL,
    .checkpoints = 1,
    .run = run,
};
