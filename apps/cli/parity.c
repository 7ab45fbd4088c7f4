/* parity.c - `redlite parity`: a backend held against the oracle, pass by pass.
 *
 * One line per check: "ok NAME BACKEND figures" or "FAILED NAME BACKEND figures", "skipped NAME
 * reason" for what this backend does not have; a closing line counts them. What each check means
 * stands beside its function; the gates are those of docs/numerics.md. */
#include "cli.h"
#include "parity_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    cli_prompt prompt;
    uint32_t repeat, n;
} options;

static const options defaults = { .repeat = 2, .n = 24 };

static const cli_option table[] = {
    { "-p", "TEXT", CLI_TEXT, offsetof(options, prompt.text), 0, 0, NULL,
      "the prompt; default: a short story's beginning" },
    { "--tokens", "1,2,3", CLI_LIST, offsetof(options, prompt.tokens), 0, 4294967295.0, NULL,
      "the prompt as token ids" },
    { "-n", "N", CLI_UINT, offsetof(options, n), 1, 4096, NULL,
      "greedy tokens behind the prompt (24)" },
    { "--repeat", "N", CLI_UINT, offsetof(options, repeat), 1, 100, NULL,
      "passes; from the second on the expert cache is warm (2)" },
    { 0 }
};

typedef struct parity {
    const cli_call *call;
    const rl_backend_ops *ops;
    parity_script script;
    rl_engine *engine;
    rl_session *session;
    float *played, *reference; /* [n - n_prompt][n_vocab] */
    uint64_t minimum_bytes, full_bytes;
    uint32_t passed, failed, skipped;
} parity;

/* ---- reporting ------------------------------------------------------------------------------- */

CLI_PRINTF(4, 5)
static void report(parity *p, bool ok, const char *name, const char *format, ...)
{
    va_list args;
    if (cli_interrupts()) return; /* what was stopped proves nothing */
    printf("%s engine.parity.%s %s ", ok ? "ok" : "FAILED", name, p->ops->name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    if (ok)
        p->passed++;
    else
        p->failed++;
}

static void report_error(parity *p, const char *name, const rl_error *err)
{
    report(p, false, name, "%s", err->text);
}

static void report_skip(parity *p, const char *name, const char *why)
{
    printf("skipped engine.parity.%s %s %s\n", name, p->ops->name, why);
    p->skipped++;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_engine(parity *p)
{
    rl_session_destroy(p->session);
    rl_engine_close(p->engine);
    p->session = NULL;
    p->engine = NULL;
}

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    (void)context;
    cli_progress(what, done, total, NULL);
    return cli_interrupts() == 0;
}

static rl_status open_engine(parity *p, const rl_backend_ops *ops, uint64_t cache_bytes,
                             const char *speculative, rl_error *err)
{
    const cli_globals *g = &p->call->globals;
    rl_engine_params params = {
        .ops = ops,
        .device = g->device,
        .isa = getenv("RL_CPU"),
        .n_threads = g->n_threads,
        .cache_bytes = cache_bytes,
        .io = (rl_io_mode)g->io,
        .no_prefetch = g->prefetch == 1,
        .speculative = speculative,
        .progress = on_progress,
    };
    close_engine(p);
    rl_status status = rl_engine_open(&p->engine, g->model, &params, err);
    cli_progress_clear();
    if (status) return status;
    /* The KV cache is f32: parity is about the kernels, not about what f16 costs. */
    rl_session_params session = { .n_ctx = g->n_ctx, .key_f32 = true, .value_f32 = true };
    return rl_session_open(&p->session, p->engine, &session, err);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Float gate: relative L2 of every position under forced choice, and no choice that is off without
 * being a near-tie. 8-bit gate: divergence of the distributions; choices are reported only. */
static bool within_gate(const parity *p, const parity_figures *f)
{
    if (p->engine->caps.rounds_activations) return f->mean_kl <= 2e-3 && f->max_kl <= 0.15;
    return f->worst_l2 < 1e-3 && f->wrong == 0 && f->differing * 500 <= f->pairs;
}

/* Stage by stage: every router decision and every position's logits. The first pass finds an empty
 * cache, later ones a warm one. */
static void check_pass(parity *p, uint32_t pass)
{
    rl_error err = { "" };
    parity_figures f;
    const char *name = pass == 0 ? "cold" : "warm";
    rl_backend_counters c;
    rl_status status = parity_replay(&p->script, p->session, &f, &err);
    if (status) {
        report_error(p, name, &err);
        return;
    }
    p->ops->get_counters(p->engine->be, &c);
    report(
        p, within_gate(p, &f) && !c.host_fallbacks, name,
        "pass %u: relative L2 %.2e, max abs %.2e, KL mean %.2e max %.2e, top-1 %u of %u, choices "
        "%llu, near-ties %llu, differing %llu, wrong %llu, stages on the host %llu",
        pass + 1, f.worst_l2, f.worst_abs, f.mean_kl, f.max_kl, f.positions - f.other_top1,
        f.positions, (unsigned long long)f.pairs, (unsigned long long)f.near_ties,
        (unsigned long long)f.differing, (unsigned long long)f.wrong,
        (unsigned long long)c.host_fallbacks);
}

/* Greedy text as the oracle's, up to the first place where the oracle itself hardly prefers. */
static void check_greedy(parity *p)
{
    rl_error err = { "" };
    uint32_t equal, expected;
    double gap = p->engine->caps.rounds_activations ? 0.2 : 1e-3;
    rl_status status = parity_greedy(&p->script, p->session, gap, &equal, &expected, &err);
    if (status)
        report_error(p, "greedy", &err);
    else
        report(p, equal == expected, "greedy", "%u of %u tokens up to the first gap below %g",
               equal, expected, gap);
}

static size_t played_bytes(const parity *p)
{
    return (size_t)(p->script.n - p->script.n_prompt) * p->script.n_vocab * sizeof(float);
}

/* Going back to a checkpoint and reading on gives the same bits. */
static void check_rollback(parity *p)
{
    rl_error err = { "" };
    const parity_script *s = &p->script;
    uint32_t half = s->n_prompt + (s->n - s->n_prompt) / 2;
    rl_status status = rl_session_reset(p->session, &err);
    if (!status) status = rl_session_feed(p->session, s->tokens, s->n_prompt, &err);
    if (!status) status = rl_session_checkpoint(p->session, &err);
    uint32_t differing = 0;
    for (uint32_t round = 0; !status && round < 2; round++) {
        for (uint32_t i = s->n_prompt; !status && i < half; i++) {
            status = rl_session_feed(p->session, &s->tokens[i], 1, &err);
            float *to = p->played + (size_t)(i - s->n_prompt) * s->n_vocab;
            if (status) break;
            if (round == 0)
                memcpy(to, rl_session_logits(p->session), s->n_vocab * sizeof *to);
            else
                differing +=
                    memcmp(to, rl_session_logits(p->session), s->n_vocab * sizeof *to) != 0;
        }
        if (!status && round == 0) status = rl_session_rewind(p->session, s->n_prompt, &err);
    }
    if (status)
        report_error(p, "rollback", &err);
    else
        report(p, !differing, "rollback", "%u tokens taken back and read again, %u differ",
               half - s->n_prompt, differing);
}

/* The synchronous step with everything resident: what every other way has to equal bit by bit. */
static bool make_reference(parity *p)
{
    rl_error err = { "" };
    parity_figures f;
    rl_status status = open_engine(p, p->ops, 0, "0", &err);
    if (!status) status = parity_play(&p->script, p->session, p->reference, &err);
    if (status) {
        report_error(p, "synchronous", &err);
        return false;
    }
    parity_compare(&p->script, p->reference, &f);
    report(p, f.worst_l2 < INFINITY, "synchronous",
           "free choice: relative L2 %.2e, KL mean %.2e max %.2e, top-1 %u of %u", f.worst_l2,
           f.mean_kl, f.max_kl, f.positions - f.other_top1, f.positions);
    return true;
}

/* One way at one pool size: the same bits as the reference, twice (the second on a warm cache). Only
 * where the pool has been made is it known whether a device can gate. */
static void check_way(parity *p, const char *name, const char *way, const char *pool,
                      uint64_t cache_bytes)
{
    rl_error err = { "" };
    if (cli_interrupts()) return;
    rl_status status = open_engine(p, p->ops, cache_bytes, way, &err);
    if (status == RL_UNSUPPORTED && !strcmp(way, "gated")) {
        report_skip(p, name, err.text);
        return;
    }
    uint32_t differing = 0;
    for (uint32_t round = 0; !status && round < 2; round++) {
        status = parity_play(&p->script, p->session, p->played, &err);
        size_t one = p->script.n_vocab;
        for (uint32_t i = 0; !status && i < p->script.n - p->script.n_prompt; i++)
            differing += memcmp(p->played + i * one, p->reference + i * one, one * 4) != 0;
    }
    if (status) {
        report_error(p, name, &err);
        return;
    }
    rl_decode_counts c = rl_decoder_counts(p->engine->decoder);
    report(p, !differing, name,
           "%s pool (%u of %u experts): %u tokens differ; routed %llu, resumed %llu, restarted "
           "%llu, gated %llu, synchronous %llu",
           pool, rl_experts_plan(p->engine->experts)->n_slots,
           rl_experts_plan(p->engine->experts)->n_expert, differing, (unsigned long long)c.routed,
           (unsigned long long)c.resumed, (unsigned long long)c.restarted,
           (unsigned long long)c.gated, (unsigned long long)c.sync);
}

static void check_ways(parity *p)
{
    static const struct {
        const char *name, *way;
    } ways[] = {
        { "resume", "resume" }, { "restart", "restart" }, { "gated", "gated" }, { "auto", "auto" }
    };
    static const char *const pools[] = { "full", "half", "minimum" };
    const uint64_t bytes[] = { 0, p->full_bytes / 2, p->minimum_bytes };
    bool routed = p->ops->routed != NULL;
    for (size_t b = 1; b < 3; b++)
        check_way(p, "bounded", "0", pools[b],
                  bytes[b] > p->minimum_bytes ? bytes[b] : p->minimum_bytes);
    if (!routed) {
        report_skip(p, "gpu_routed", "the backend has no routed step");
        return;
    }
    check_way(p, "gpu_routed", "auto", "full", 0);
    for (size_t w = 0; w < CLI_LENGTH(ways); w++)
        for (size_t b = 0; b < 3; b++)
            check_way(p, ways[w].name, ways[w].way, pools[b],
                      b && bytes[b] < p->minimum_bytes ? p->minimum_bytes : bytes[b]);
}

/* ---- the command ----------------------------------------------------------------------------- */

static rl_status record(parity *p, const uint32_t *prompt, size_t n_prompt, rl_error *err)
{
    const options *o = p->call->options;
    rl_status status = open_engine(p, &rl_backend_oracle, 0, "0", err);
    if (!status && n_prompt + o->n > rl_session_n_ctx(p->session))
        status = rl_fail(err, RL_FULL, "%zu tokens and %u more exceed the context of %u", n_prompt,
                         o->n, rl_session_n_ctx(p->session));
    if (!status)
        status = parity_record(&p->script, p->session, prompt, (uint32_t)n_prompt, o->n, err);
    if (status) return status;
    p->minimum_bytes = rl_experts_plan(p->engine->experts)->minimum_bytes;
    p->full_bytes = rl_experts_plan(p->engine->experts)->full_bytes;
    p->played = malloc(played_bytes(p));
    p->reference = malloc(played_bytes(p));
    if (!p->played || !p->reference)
        return rl_fail(err, RL_NOMEM, "no memory for the logits of %u tokens", p->script.n);
    return RL_OK;
}

static int all_checks(parity *p, const uint32_t *prompt, size_t n_prompt)
{
    const options *o = p->call->options;
    rl_error err = { "" };
    rl_status status = record(p, prompt, n_prompt, &err);
    if (!status) status = open_engine(p, p->ops, 0, NULL, &err);
    if (status) return cli_error_of(status, &err);
    for (uint32_t pass = 0; pass < o->repeat && !cli_interrupts(); pass++)
        check_pass(p, pass);
    check_greedy(p);
    check_rollback(p);
    if (make_reference(p)) check_ways(p);
    if (cli_interrupts()) return CLI_INTERRUPTED;
    if (p->skipped) printf("%u skipped\n", p->skipped);
    printf("%u passed, %u failed\n", p->passed, p->failed);
    return p->failed ? CLI_FAILED : CLI_DONE;
}

static int run(const cli_call *call)
{
    const char *name = cli_backend_name(&call->globals);
    parity p = { .call = call };
    rl_model *vocabulary = NULL;
    uint32_t *prompt = NULL;
    size_t n_prompt = 0;
    cli_prompt asked = ((const options *)call->options)->prompt;
    if (!asked.text && !asked.tokens.items)
        asked.text = "Once upon a time there was a little bear who lived in the woods. One day";
    rl_error err = { "" };
    if (call->globals.device) {
        rl_status status = rl_backend_find_device(&p.ops, name, call->globals.device, &err);
        if (status) return cli_error_of(status, &err);
    } else {
        p.ops = !strcmp(name, "auto") ? rl_backend_at(0) : rl_backend_find(name);
        if (!p.ops) return cli_error("this build has no backend named \"%s\"", name);
    }
    int rc = cli_prompt_check(call->command, &asked);
    if (rc < 0) rc = cli_open_model(call, true, &vocabulary);
    if (rc < 0) rc = cli_prompt_tokens(&asked, vocabulary, true, &prompt, &n_prompt);
    if (rc < 0 && !n_prompt) rc = cli_error("the prompt is empty");
    if (rc < 0) rc = all_checks(&p, prompt, n_prompt);
    close_engine(&p);
    parity_script_fini(&p.script);
    free(p.played);
    free(p.reference);
    free(prompt);
    rl_model_close(vocabulary);
    return rc;
}

const cli_command cli_parity = {
    .name = "parity",
    .summary = "holds a backend against the oracle, pass by pass",
    .usage = "[-p TEXT | --tokens LIST] [--repeat N] [-n N] [options]",
    .details = "Prints one line per check and a closing count; any failure gives exit code 1.\n"
               "The oracle computes in plain C with double precision, so large models take long.\n",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof(options),
    .show = CLI_SHOW_MODEL | CLI_SHOW_BACKEND | CLI_SHOW_SESSION,
    .run = run,
};
