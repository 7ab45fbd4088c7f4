/* info.c - `redlite info`: what is in a model file, what a token reads of it, what fits where.
 *
 * Also the command that only checks a file: the whole container, the hyper-parameters, every tensor
 * and the tokenizer are looked at, nothing is loaded. A file without tensors holds a vocabulary.
 * This command looks inside the library, where the checks are. */
#include "cli.h"
#include "json.h"

#include "engine/memory_plan.h"
#include "model/config.h"
#include "model/summary.h"
#include "model/weights.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

typedef struct file_info {
    rl_gguf *gguf;
    rl_tokenizer *tokenizer;
    bool vocab_only;
    rl_config *config; /* NULL when vocab_only, and so are the following */
    rl_weights weights;
    rl_summary *summary;
    rl_cache_plan pool;
    rl_memory_plan memory;
} file_info;

static void close_file(file_info *f)
{
    rl_cache_plan_fini(&f->pool);
    rl_weights_close(&f->weights);
    rl_tokenizer_close(f->tokenizer);
    rl_gguf_close(f->gguf);
    free(f->config);
    free(f->summary);
}

/* What it takes to run the model with these options. No device is opened here, so "auto" means the
 * host's memory. */
static rl_status plan_memory(file_info *f, const cli_globals *g, rl_error *err)
{
    const char *name = cli_backend_name(g);
    const rl_backend_ops *ops = rl_backend_find(strcmp(name, "auto") ? name : "cpu");
    if (!ops) return rl_fail(err, RL_INVALID, "there is no backend named \"%s\"", name);
    rl_status status = rl_memory_plan_pool(
        &f->pool, &f->weights,
        g->cache_mib > 0 ? (uint64_t)((double)g->cache_mib * MIB) : UINT64_MAX, err);
    if (status) return status;
    bool f32 = !strcmp(name, "oracle");
    rl_memory_plan_make(&f->memory, &(rl_memory_request){
                                        .weights = &f->weights,
                                        .ops = ops,
                                        .pool = &f->pool,
                                        .n_ctx = g->n_ctx,
                                        .key_f32 = g->key_type < 0 ? f32 : g->key_type == 0,
                                        .value_f32 = g->value_type < 0 ? f32 : g->value_type == 0,
                                    });
    return RL_OK;
}

static rl_status check_file(file_info *f, const cli_globals *g, rl_error *err)
{
    rl_status status = rl_gguf_open(&f->gguf, g->model, err);
    if (status) return status;
    f->vocab_only = rl_config_vocab_only(f->gguf);
    if (!f->vocab_only) {
        f->config = calloc(1, sizeof *f->config);
        f->summary = calloc(1, sizeof *f->summary);
        if (!f->config || !f->summary)
            return rl_fail(err, RL_NOMEM, "no memory to look at %s", g->model);
        status = rl_config_read(f->config, f->gguf, err);
        if (!status) status = rl_weights_open(&f->weights, f->gguf, f->config, err);
    }
    if (!status) status = rl_tokenizer_open(&f->tokenizer, f->gguf, err);
    if (status || f->vocab_only) return status;
    uint32_t n_tokens = rl_tokenizer_n_tokens(f->tokenizer);
    if (n_tokens != f->config->n_vocab)
        return rl_fail(err, RL_FORMAT,
                       "%s: the vocabulary has %u tokens, token_embd.weight %u rows", g->model,
                       n_tokens, f->config->n_vocab);
    rl_summary_make(f->summary, &f->weights);
    return plan_memory(f, g, err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct figure {
    const char *key, *text;
    uint64_t value;
} figure;

static void put(cli_json *json, const char *key, uint64_t value)
{
    cli_json_key(json, key);
    cli_json_uint(json, value);
}

static void print_model_json(cli_json *json, const file_info *f)
{
    const rl_config *c = f->config;
    const rl_summary *s = f->summary;
    const figure figures[] = {
        { "n_layer", NULL, c->n_layer },
        { "n_mtp", NULL, c->n_mtp },
        { "n_ctx_train", NULL, c->n_ctx_train },
        { "n_embd", NULL, c->n_embd },
        { "n_head", NULL, c->n_head },
        { "n_head_kv", NULL, c->n_head_kv },
        { "head_dim", NULL, c->head_dim },
        { "n_rot", NULL, c->n_rot },
        { "conv_taps", NULL, c->conv_taps },
        { "n_key_head", NULL, c->n_key_head },
        { "n_value_head", NULL, c->n_value_head },
        { "delta_dim", NULL, c->delta_dim },
        { "n_expert", NULL, c->n_expert },
        { "n_expert_used", NULL, c->n_expert_used },
        { "n_ff_expert", NULL, c->n_ff_expert },
        { "n_ff_shared", NULL, c->n_ff_shared },
        { "tensor_bytes", NULL, s->tensor_bytes },
        { "expert_bytes", NULL, s->expert_bytes },
        { "embedding_bytes", NULL, s->embedding_bytes },
        { "dense_bytes", NULL, s->dense_bytes },
        { "other_bytes", NULL, s->other_bytes },
        { "recurrent_bytes", NULL, s->recurrent_bytes },
        { "attention_bytes", NULL, s->attention_bytes },
        { "head_bytes", NULL, s->head_bytes },
        { "router_bytes", NULL, s->router_bytes },
        { "shared_bytes", NULL, s->shared_bytes },
        { "norm_bytes", NULL, s->norm_bytes },
        { "routed_token_bytes", NULL, s->routed_token_bytes },
        { "weight_token_bytes", NULL, s->weight_token_bytes },
        { "delta_state_bytes", NULL, s->delta_state_bytes },
        { "conv_state_bytes", NULL, s->conv_state_bytes },
        { "token_bytes", NULL, s->token_bytes },
        { "kv_position_bytes", NULL, s->kv_position_bytes },
        { "largest_expert_bytes", NULL, s->largest_expert_bytes },
        { "n_experts", NULL, s->n_experts },
    };
    for (size_t i = 0; i < CLI_LENGTH(figures); i++)
        put(json, figures[i].key, figures[i].value);
    cli_json_key(json, "types");
    cli_json_open(json, '[');
    for (uint32_t i = 0; i < s->n_types; i++) {
        cli_json_open(json, '{');
        cli_json_key(json, "type");
        cli_json_text(json, s->types[i].name);
        put(json, "n_tensors", s->types[i].n_tensors);
        put(json, "bytes", s->types[i].bytes);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
    cli_json_key(json, "slot_classes");
    cli_json_open(json, '[');
    for (uint32_t i = 0; i < s->n_classes; i++) {
        cli_json_open(json, '{');
        put(json, "bytes", s->classes[i].slot_bytes);
        put(json, "layers", s->classes[i].n_layers);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');

    cli_json_key(json, "memory");
    cli_json_open(json, '{');
    for (int i = 0; i < RL_MEMORY_N_PARTS; i++)
        put(json, rl_memory_part_key((rl_memory_part)i), f->memory.bytes[i]);
    put(json, "total", f->memory.total);
    put(json, "checkpoints", f->memory.checkpoints);
    put(json, "n_ctx", f->memory.n_ctx);
    put(json, "n_batch", f->memory.n_batch);
    put(json, "pool_minimum", f->pool.minimum_bytes);
    put(json, "pool_full", f->pool.full_bytes);
    put(json, "n_slots", f->pool.n_slots);
    cli_json_close(json, '}');
}

static void print_json(const file_info *f)
{
    cli_json json = { .out = stdout };
    rl_gguf_string name = { "", 0 };
    bool found = false;
    if (rl_gguf_get_string(f->gguf, "general.name", &name, &found, NULL)) found = false;
    cli_json_open(&json, '{');
    cli_json_key(&json, "file");
    cli_json_text(&json, rl_gguf_path(f->gguf));
    cli_json_key(&json, "name");
    if (found)
        cli_json_string(&json, name.data, name.bytes);
    else
        cli_json_null(&json);
    put(&json, "file_bytes", rl_gguf_total_bytes(f->gguf));
    put(&json, "gguf_version", rl_gguf_version(f->gguf));
    put(&json, "n_parts", rl_gguf_n_parts(f->gguf));
    put(&json, "n_keys", rl_gguf_n_keys(f->gguf));
    put(&json, "n_tensors", rl_gguf_n_tensors(f->gguf));
    put(&json, "n_vocab", rl_tokenizer_n_tokens(f->tokenizer));
    cli_json_key(&json, "vocab_only");
    cli_json_bool(&json, f->vocab_only);
    if (!f->vocab_only) {
        cli_json_key(&json, "architecture");
        cli_json_text(&json, f->config->architecture);
        cli_json_key(&json, "file_type");
        cli_json_text(&json, f->config->file_type);
        print_model_json(&json, f);
    }
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* 19298972128 as "19,298,972,128". */
static const char *grouped(uint64_t value, char out[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value), k = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

static void print_bytes(const char *text, uint64_t bytes)
{
    char number[32];
    printf("  %-32s %18s  %10.1f MiB\n", text, grouped(bytes, number), (double)bytes / MIB);
}

static void print_shape(const rl_config *c)
{
    uint32_t n_recurrent = 0;
    for (uint32_t i = 0; i < c->n_layer; i++)
        n_recurrent += c->recurrent[i];
    printf("\nShape\n");
    printf("  layers         %u: %u gated delta net, %u attention", c->n_layer, n_recurrent,
           c->n_layer - n_recurrent);
    if (c->n_mtp) printf("; %u MTP blocks are ignored", c->n_mtp);
    printf("\n  width          %u, trained context %u, norm epsilon %g\n", c->n_embd,
           c->n_ctx_train, (double)c->rms_eps);
    printf("  experts        %u per layer, %u used, width %u; shared expert %u\n", c->n_expert,
           c->n_expert_used, c->n_ff_expert, c->n_ff_shared);
    printf("  delta net      %u key heads, %u value heads of %u, convolution %u\n", c->n_key_head,
           c->n_value_head, c->delta_dim, c->conv_taps);
    printf("  attention      %u query heads, %u key/value heads of %u, rotary %u, base %g\n",
           c->n_head, c->n_head_kv, c->head_dim, c->n_rot, (double)c->rope_base);
}

static void print_tensors(const rl_summary *s)
{
    char number[32];
    printf("\nTensors\n");
    for (uint32_t i = 0; i < s->n_types; i++)
        printf("  %-10s %8llu tensors %31s  %10.1f MiB\n", s->types[i].name,
               (unsigned long long)s->types[i].n_tensors, grouped(s->types[i].bytes, number),
               (double)s->types[i].bytes / MIB);
    print_bytes("all", s->tensor_bytes);
    print_bytes("routed experts", s->expert_bytes);
    print_bytes("token embedding", s->embedding_bytes);
    print_bytes("dense weights", s->dense_bytes);
    if (s->other_bytes) print_bytes("not used", s->other_bytes);
}

static void print_token(const rl_summary *s)
{
    printf("\nBytes per generated token at depth 0\n");
    print_bytes("recurrent layers", s->recurrent_bytes);
    print_bytes("head", s->head_bytes);
    print_bytes("routers", s->router_bytes);
    print_bytes("attention layers", s->attention_bytes);
    print_bytes("shared experts", s->shared_bytes);
    print_bytes("norms", s->norm_bytes);
    print_bytes("routed experts", s->routed_token_bytes);
    print_bytes("all weights", s->weight_token_bytes);
    print_bytes("recurrent state", s->delta_state_bytes);
    print_bytes("convolution state", s->conv_state_bytes);
    print_bytes("total", s->token_bytes);
    print_bytes("and per position of context", s->kv_position_bytes);
}

static void print_experts(const file_info *f, double cache_mib)
{
    const rl_summary *s = f->summary;
    char number[32];
    printf("\nExpert slots\n");
    for (uint32_t i = 0; i < s->n_classes; i++)
        printf("  %u layers of %s bytes (%.4f MiB) per expert\n", s->classes[i].n_layers,
               grouped(s->classes[i].slot_bytes, number), (double)s->classes[i].slot_bytes / MIB);
    if (cache_mib > 0)
        printf("  with --cache-mib %g: %u of %u experts fit\n", cache_mib, f->pool.n_slots,
               f->pool.n_expert);
    /* Rounded up, so that they work as --cache-mib. */
    printf("  all %u experts take %llu MiB, the least that works is %llu MiB\n", f->pool.n_expert,
           (unsigned long long)((f->pool.full_bytes + (1 << 20) - 1) >> 20),
           (unsigned long long)((f->pool.minimum_bytes + (1 << 20) - 1) >> 20));
}

static void print_memory(const file_info *f)
{
    printf("\nMemory to run it with a context of %u tokens\n", f->memory.n_ctx);
    for (int i = 0; i < RL_MEMORY_N_PARTS; i++)
        print_bytes(rl_memory_part_name((rl_memory_part)i), f->memory.bytes[i]);
    print_bytes("total", f->memory.total);
    print_bytes("and for going back in a chat", f->memory.checkpoints);
}

static void print_text(const file_info *f, const cli_globals *g)
{
    char number[32];
    printf("%s\n", rl_gguf_path(f->gguf));
    if (f->config) {
        printf("  name           %s\n", f->config->name[0] ? f->config->name : "(none)");
        printf("  architecture   %s%s%s\n", f->config->architecture,
               f->config->file_type[0] ? ", " : "", f->config->file_type);
    }
    printf("  file           %s bytes, GGUF version %u",
           grouped(rl_gguf_total_bytes(f->gguf), number), rl_gguf_version(f->gguf));
    if (rl_gguf_n_parts(f->gguf) > 1) printf(", %u parts", rl_gguf_n_parts(f->gguf));
    printf("\n  contents       %llu keys, %llu tensors, %u tokens\n",
           (unsigned long long)rl_gguf_n_keys(f->gguf),
           (unsigned long long)rl_gguf_n_tensors(f->gguf), rl_tokenizer_n_tokens(f->tokenizer));
    if (f->vocab_only) {
        printf("\nThere are no tensors: this file serves text commands only.\n");
        return;
    }
    print_shape(f->config);
    print_tensors(f->summary);
    print_token(f->summary);
    print_experts(f, g->cache_mib);
    print_memory(f);
}

static int run(const cli_call *call)
{
    rl_error err = { "" };
    file_info f = { 0 };
    rl_status status = check_file(&f, &call->globals, &err);
    int rc = status ? cli_error_of(status, &err) : CLI_DONE;
    if (!status && call->globals.json)
        print_json(&f);
    else if (!status)
        print_text(&f, &call->globals);
    close_file(&f);
    return rc;
}

const cli_command cli_info = {
    .name = "info",
    .summary = "what is in a model file, and what it takes to run it",
    .usage = "[-m FILE] [--cache-mib N] [-c N] [options]",
    .details = "Nothing is loaded, but everything is checked: a malformed file is refused with a\n"
               "sentence that names the key or tensor at fault.\n",
    .show = CLI_SHOW_MODEL | CLI_SHOW_BACKEND | CLI_SHOW_SESSION | CLI_SHOW_JSON,
    .run = run,
};
