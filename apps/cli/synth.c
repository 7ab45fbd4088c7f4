/* synth.c - `redlite synth`: a model file of any geometry of the family with random weights.
 *
 * For measuring, and for tests: the numbers mean nothing, their sizes are like those of a trained
 * model. This command looks inside the library, where the writer is. */
#include "cli.h"
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "model/synth.h"

typedef struct options {
    const char *preset, *out, *mix, *vocab;
    bool tied, list;
    /* 0: as the preset has it */
    uint32_t n_layer, interval, n_embd, n_vocab, n_head, n_head_kv, head_dim, n_rot, conv_taps;
    uint32_t n_key_head, n_value_head, delta_dim, n_expert, n_expert_used, n_ff_expert, n_ff_shared;
} options;

#define NUMBER(name, member, most, text)                                                           \
    {                                                                                              \
        name, "N", CLI_UINT, offsetof(options, member), 1, most, NULL, text                        \
    }

static const cli_option table[] = {
    { "-o, --out", "FILE", CLI_TEXT, offsetof(options, out), 0, 0, NULL, "the file to write" },
    { "--preset", "NAME", CLI_TEXT, offsetof(options, preset), 0, 0, NULL,
      "where to start from: qwen3-next-80b-iq2_xxs, tiny (default)" },
    { "--mix", "NAME", CLI_TEXT, offsetof(options, mix), 0, 0, NULL,
      "mixture of types, or one type for all; default: as the preset" },
    { "--vocab", "FILE", CLI_TEXT, offsetof(options, vocab), 0, 0, NULL,
      "copy all tokenizer keys of this GGUF file" },
    { "--list", NULL, CLI_FLAG, offsetof(options, list), 0, 0, NULL,
      "write nothing, print the tensors: name, type, dims, bytes, data offset" },
    NUMBER("--layers", n_layer, 512, "number of layers"),
    NUMBER("--attention-interval", interval, 512, "every N-th layer is attention"),
    NUMBER("--hidden", n_embd, 1 << 20, "embedding length"),
    NUMBER("--vocab-size", n_vocab, 1 << 24, "tokens, at least 259"),
    NUMBER("--heads", n_head, 4096, "query heads"),
    NUMBER("--kv-heads", n_head_kv, 4096, "key/value heads"),
    NUMBER("--head-dim", head_dim, 4096, "values per attention head"),
    NUMBER("--rotary", n_rot, 4096, "rotated values per attention head"),
    NUMBER("--conv", conv_taps, 64, "taps of the convolution"),
    NUMBER("--key-heads", n_key_head, 4096, "key heads of the delta net"),
    NUMBER("--value-heads", n_value_head, 4096, "value heads of the delta net"),
    NUMBER("--state", delta_dim, 4096, "values per delta net head"),
    NUMBER("--experts", n_expert, 1024, "routed experts per layer"),
    NUMBER("--experts-used", n_expert_used, 32, "experts per token"),
    NUMBER("--expert-width", n_ff_expert, 1 << 20, "width of a routed expert"),
    NUMBER("--shared-width", n_ff_shared, 1 << 20, "width of the shared expert"),
    { "--tied", NULL, CLI_FLAG, offsetof(options, tied), 0, 0, NULL,
      "the embedding is also the head" },
    { 0 }
};

static void choose(uint32_t *target, uint32_t value)
{
    if (value) *target = value;
}

/* What was asked for over what the preset says. Two of its figures follow others that were made
 * smaller. */
static void apply(const cli_call *call, rl_synth_params *p)
{
    const options *o = call->options;
    const cli_globals *g = &call->globals;
    choose(&p->n_layer, o->n_layer);
    choose(&p->attention_interval, o->interval);
    choose(&p->n_embd, o->n_embd);
    choose(&p->n_ctx_train, g->n_ctx);
    choose(&p->n_head, o->n_head);
    choose(&p->n_head_kv, o->n_head_kv);
    choose(&p->head_dim, o->head_dim);
    choose(&p->n_rot, o->n_rot);
    choose(&p->conv_taps, o->conv_taps);
    choose(&p->n_key_head, o->n_key_head);
    choose(&p->n_value_head, o->n_value_head);
    choose(&p->delta_dim, o->delta_dim);
    choose(&p->n_expert, o->n_expert);
    choose(&p->n_expert_used, o->n_expert_used);
    choose(&p->n_ff_expert, o->n_ff_expert);
    choose(&p->n_ff_shared, o->n_ff_shared);
    if (!o->n_expert_used && p->n_expert_used > p->n_expert) p->n_expert_used = p->n_expert;
    if (!o->n_rot && p->n_rot > p->head_dim) p->n_rot = p->head_dim & ~1u;
    if (o->vocab && !o->list) p->n_vocab = 0; /* as many as that file has */
    choose(&p->n_vocab, o->n_vocab);
    if (o->mix) p->mix = o->mix;
    p->vocab = o->vocab;
    p->tied = o->tied;
    p->seed = g->seed;
    p->n_threads = g->n_threads;
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct listing {
    bool json;
    uint64_t n, bytes;
} listing;

static void print_tensor(void *context, const rl_gguf_tensor *t)
{
    listing *l = context;
    l->n++;
    l->bytes += t->bytes;
    if (!l->json) {
        printf("%-40s %-8s", t->name, rl_gguf_tensor_type_name(t));
        for (uint32_t i = 0; i < t->n_dims; i++)
            printf("%s%" PRIu64, i ? " x " : " ", t->dims[i]);
        printf(", %" PRIu64 " bytes at %" PRIu64 "\n", t->bytes, t->offset);
        return;
    }
    cli_json json = { .out = stdout };
    cli_json_open(&json, '{');
    cli_json_key(&json, "name");
    cli_json_text(&json, t->name);
    cli_json_key(&json, "type");
    cli_json_text(&json, rl_gguf_tensor_type_name(t));
    cli_json_key(&json, "dims");
    cli_json_open(&json, '[');
    for (uint32_t i = 0; i < t->n_dims; i++)
        cli_json_uint(&json, t->dims[i]);
    cli_json_close(&json, ']');
    cli_json_key(&json, "bytes");
    cli_json_uint(&json, t->bytes);
    cli_json_key(&json, "offset");
    cli_json_uint(&json, t->offset);
    cli_json_close(&json, '}');
    cli_json_end_line(&json);
}

static int list_tensors(const cli_call *call, const rl_synth_params *params)
{
    listing l = { .json = call->globals.json };
    rl_error err = { "" };
    rl_status status = rl_synth_list(params, print_tensor, &l, &err);
    if (status) return cli_error_of(status, &err);
    if (!l.json) printf("%" PRIu64 " tensors, %" PRIu64 " bytes\n", l.n, l.bytes);
    return CLI_DONE;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool on_progress(void *context, uint64_t done, uint64_t total)
{
    cli_progress(context, done, total, NULL);
    return cli_interrupts() == 0;
}

static int run(const cli_call *call)
{
    const options *o = call->options;
    const char *preset = o->preset ? o->preset : "tiny", *out = o->out;
    rl_synth_params params;
    rl_error err = { "" };
    if (call->n_arguments > 1) return cli_usage_error(call->command, "one file at a time");
    if (call->n_arguments == 1) {
        if (out) return cli_usage_error(call->command, "give the file once, not by -o as well");
        out = call->arguments[0];
    }
    if (!rl_synth_preset(preset, &params))
        return cli_usage_error(call->command, "there is no preset '%s'; there are %s", preset,
                               rl_synth_preset_names());
    apply(call, &params);
    if (o->list) return list_tensors(call, &params);
    if (!out) return cli_usage_error(call->command, "say where to write to: -o FILE");
    params.progress = on_progress;
    params.context = "writing";
    rl_status status = rl_synth_write(&params, out, &err);
    cli_progress_clear();
    if (status) return cli_error_of(status, &err);
    cli_note("%s: written with seed %" PRIu64, out, params.seed);
    return CLI_DONE;
}

const cli_command cli_synth = {
    .name = "synth",
    .summary = "write a model file of any size with random weights",
    .usage = "-o FILE [--preset NAME] [--mix NAME] [-s SEED] [options]",
    .details = "Mixtures: target (the types of the published 80B file called IQ2_XXS),\n"
               "target-iq3_xxs (its sibling), stock-iq2_xxs, stock-q2_k, q4_k_m (what the usual\n"
               "tool makes), or the name of one tensor type for all matrices. A type whose\n"
               "blocks do not fit a row gives way to Q8_0, or to F16.\n"
               "-c is the context length that the file claims. The same options and seed give\n"
               "the same bytes everywhere. Without --vocab there are 256 byte tokens, three\n"
               "control tokens and fillers.\n",
    .options = table,
    .defaults = NULL,
    .options_bytes = sizeof(options),
    .takes_arguments = true,
    .show = CLI_SHOW_SEED | CLI_SHOW_JSON,
    .run = run,
};
