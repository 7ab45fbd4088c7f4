/* synth.c - model/synth.h: the plan of the file, its keys, and the loop that writes it.
 *
 * Tensors are cut in tiles of a fixed number of weights. A tile's bytes follow from the seed, the
 * tensor's name and the tile's number, so tiles can be made by any thread in any order. */
#include "model/synth_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/thread.h"
#include "gguf/gguf_write.h"

#define TILE_WEIGHTS (1u << 20)
#define BATCH_BYTES  (32u << 20)
#define MIN_VOCAB    259 /* bytes and specials */

/* ---- presets -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    rl_synth_params params;
} presets[] = {
    { "qwen3-next-80b-iq2_xxs",
      { .n_layer = 48,
        .attention_interval = 4,
        .n_embd = 2048,
        .n_vocab = 151936,
        .n_ctx_train = 262144,
        .n_head = 16,
        .n_head_kv = 2,
        .head_dim = 256,
        .n_rot = 64,
        .conv_taps = 4,
        .n_key_head = 16,
        .n_value_head = 32,
        .delta_dim = 128,
        .n_expert = 512,
        .n_expert_used = 10,
        .n_ff_expert = 512,
        .n_ff_shared = 512,
        .rope_base = 1e7f,
        .rms_eps = 1e-6f,
        .mix = "target" } },
    { "tiny",
      { .n_layer = 4,
        .attention_interval = 4,
        .n_embd = 256,
        .n_vocab = 512,
        .n_ctx_train = 4096,
        .n_head = 4,
        .n_head_kv = 2,
        .head_dim = 64,
        .n_rot = 16,
        .conv_taps = 4,
        .n_key_head = 2,
        .n_value_head = 4,
        .delta_dim = 64,
        .n_expert = 16,
        .n_expert_used = 4,
        .n_ff_expert = 256,
        .n_ff_shared = 256,
        .rope_base = 1e7f,
        .rms_eps = 1e-6f,
        .mix = "target" } },
};

bool rl_synth_preset(const char *name, rl_synth_params *out)
{
    for (size_t i = 0; i < RL_COUNT_OF(presets); i++) {
        if (strcmp(name, presets[i].name)) continue;
        *out = presets[i].params;
        return true;
    }
    return false;
}

const char *rl_synth_preset_names(void)
{
    return "qwen3-next-80b-iq2_xxs, tiny";
}

/* ---- parameters ----------------------------------------------------------------------------- */

static rl_status check_params(const rl_synth_params *p, rl_error *err)
{
    const struct {
        const char *name;
        uint32_t value, low, high;
    } ranges[] = {
        { "layers", p->n_layer, 1, RL_MAX_LAYERS },
        { "attention interval", p->attention_interval, 1, UINT32_MAX },
        { "embedding length", p->n_embd, 1, RL_MAX_WIDTH },
        { "vocabulary", p->n_vocab, MIN_VOCAB, RL_MAX_VOCAB },
        { "context length", p->n_ctx_train, 1, UINT32_MAX },
        { "query heads", p->n_head, 1, 4096 },
        { "key/value heads", p->n_head_kv, 1, 4096 },
        { "head size", p->head_dim, 1, 4096 },
        { "rotated values", p->n_rot, 2, p->head_dim },
        { "convolution taps", p->conv_taps, 1, 64 },
        { "delta net key heads", p->n_key_head, 1, 4096 },
        { "delta net value heads", p->n_value_head, 1, 4096 },
        { "delta net head size", p->delta_dim, 1, 4096 },
        { "experts", p->n_expert, 1, RL_MAX_EXPERTS },
        { "experts per token", p->n_expert_used, 1,
          p->n_expert < RL_MAX_EXPERTS_PER_TOKEN ? p->n_expert : RL_MAX_EXPERTS_PER_TOKEN },
        { "expert width", p->n_ff_expert, 1, RL_MAX_WIDTH },
        { "shared expert width", p->n_ff_shared, 1, RL_MAX_WIDTH },
    };
    for (size_t i = 0; i < RL_COUNT_OF(ranges); i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return rl_fail(err, RL_INVALID, "%s: %u, allowed are %u to %u", ranges[i].name,
                           ranges[i].value, ranges[i].low, ranges[i].high);
    if (p->n_head % p->n_head_kv)
        return rl_fail(err, RL_INVALID, "query heads %u: no multiple of key/value heads %u",
                       p->n_head, p->n_head_kv);
    if (p->n_value_head % p->n_key_head)
        return rl_fail(err, RL_INVALID, "delta net value heads %u: no multiple of its key heads %u",
                       p->n_value_head, p->n_key_head);
    if (p->n_rot % 2) return rl_fail(err, RL_INVALID, "rotated values %u: must be even", p->n_rot);
    if (2 * (uint64_t)p->n_head * p->head_dim > RL_MAX_WIDTH ||
        4 * (uint64_t)p->n_value_head * p->delta_dim > RL_MAX_WIDTH)
        return rl_fail(err, RL_INVALID, "heads x head size is beyond %d", RL_MAX_WIDTH / 4);
    if (!(isfinite(p->rope_base) && p->rope_base > 0 && isfinite(p->rms_eps) && p->rms_eps > 0))
        return rl_fail(err, RL_INVALID, "rope base and norm epsilon must be positive");
    return RL_OK;
}

static void fill_config(const rl_synth_params *p, rl_config *c)
{
    *c = (rl_config){ .n_layer = p->n_layer,
                      .n_ctx_train = p->n_ctx_train,
                      .n_embd = p->n_embd,
                      .n_vocab = p->n_vocab,
                      .rms_eps = p->rms_eps,
                      .n_head = p->n_head,
                      .n_head_kv = p->n_head_kv,
                      .head_dim = p->head_dim,
                      .n_rot = p->n_rot,
                      .rope_base = p->rope_base,
                      .conv_taps = p->conv_taps,
                      .n_key_head = p->n_key_head,
                      .n_value_head = p->n_value_head,
                      .delta_dim = p->delta_dim,
                      .n_expert = p->n_expert,
                      .n_expert_used = p->n_expert_used,
                      .n_ff_expert = p->n_ff_expert,
                      .n_ff_shared = p->n_ff_shared };
    for (uint32_t i = 0; i < p->n_layer; i++)
        c->recurrent[i] = (i + 1) % p->attention_interval != 0;
}

/* ---- spreads -------------------------------------------------------------------------------- */

/* A matrix with rows of n weights gets weights of root mean square a / sqrt(n), so that an input of
 * unit size gives outputs of size a. Every output projection adds about a third of the embedding's
 * size to the residual stream, so 96 of them let it grow to about 3.5. Router logits have a
 * standard deviation of 1.5, output logits of 2.5. */
typedef struct spread {
    uint8_t shape; /* synth_shape */
    float a, b;
} spread;

static const spread spreads[RL_ROLE_COUNT] = {
    [RL_ROLE_mix_norm] = { SYNTH_RANGE, 0.5f, 1.5f },
    [RL_ROLE_moe_norm] = { SYNTH_RANGE, 0.5f, 1.5f },
    [RL_ROLE_qkv] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_gate] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_ssm_in] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_ba] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_conv] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_dt] = { SYNTH_RANGE, -1.5f, 0.5f },
    [RL_ROLE_a] = { SYNTH_DECAY, 0, 0 },
    [RL_ROLE_delta_norm] = { SYNTH_RANGE, 0.75f, 1.25f },
    [RL_ROLE_delta_out] = { SYNTH_SPREAD, 0.6f, 0 }, /* input: norm 1 x silu 0.6 */
    [RL_ROLE_q] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_k] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_v] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_q_norm] = { SYNTH_RANGE, 1.5f, 2.5f }, /* scores of about 2: attention that selects */
    [RL_ROLE_k_norm] = { SYNTH_RANGE, 0.75f, 1.25f },
    [RL_ROLE_attn_out] = { SYNTH_SPREAD, 1.5f, 0 }, /* input: an average, halved by its gate */
    [RL_ROLE_router] = { SYNTH_SPREAD, 1.5f, 0 },
    [RL_ROLE_shared_scale] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_shared_gate] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_shared_up] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_shared_down] = { SYNTH_SPREAD, 0.8f,
                              0 }, /* input: silu x up 0.6, halved by its gate */
    [RL_ROLE_gate_exps] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_up_exps] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_gate_up_exps] = { SYNTH_SPREAD, 1, 0 },
    [RL_ROLE_down_exps] = { SYNTH_SPREAD, 1.2f, 0 }, /* input 0.6; a weighted mean of K outputs */
};

#define EMBEDDING_SIZE 1.0f
#define LOGIT_SIZE     2.5f

/* ---- the plan ------------------------------------------------------------------------------- */

typedef struct planned {
    synth_fill fill;
    uint64_t seed;
    uint64_t blocks;
    uint32_t block, block_bytes;
    uint32_t n_dims;
    uint64_t dims[3];
    char name[64];
} planned;

typedef struct plan {
    const rl_synth_params *params;
    rl_config config;
    synth_mix mix;
    rl_gguf_writer *writer;
    planned *tensors;
    uint64_t n, capacity;
} plan;

static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static void add(plan *p, const char *name, uint32_t type, const uint64_t dims[3], spread how)
{
    const rl_quant_info *info = rl_quant_find(type);
    planned *t = &p->tensors[p->n];
    RL_ASSERT(p->n < p->capacity);
    *t = (planned){ .seed = rl_synth_seed(p->params->seed, hash_name(name)),
                    .block = info->block,
                    .block_bytes = info->block_bytes,
                    .blocks = dims[0] * dims[1] * dims[2] / info->block,
                    .n_dims = dims[2] > 1   ? 3
                              : dims[1] > 1 ? 2
                                            : 1,
                    .dims = { dims[0], dims[1], dims[2] } };
    snprintf(t->name, sizeof t->name, "%s", name);
    t->fill = (synth_fill){ .type = type, .shape = how.shape, .a = how.a, .b = how.b };
    if (how.shape == SYNTH_SPREAD) t->fill.a /= sqrt((double)dims[0]);
    /* Measured once per type. */
    for (uint64_t i = 0; i < p->n && t->fill.unit == 0; i++)
        if (p->tensors[i].fill.type == type) t->fill.unit = p->tensors[i].fill.unit;
    if (t->fill.unit == 0) rl_synth_fill_init(&t->fill);
    p->n++;
}

static void add_layer(plan *p, const uint64_t widths[RL_WIDTH_COUNT], uint32_t layer)
{
    bool recurrent = p->config.recurrent[layer];
    for (int i = 0; i < RL_ROLE_COUNT; i++) {
        const rl_role *role = &rl_roles[i];
        char name[64];
        uint64_t dims[3] = { widths[role->dims[0]], widths[role->dims[1]], widths[role->dims[2]] };
        if (role->layout == RL_LAYOUT_FUSED_IN || role->layout == RL_LAYOUT_FUSED_GU) continue;
        if (role->layers == (recurrent ? RL_ROLE_ATTENTION : RL_ROLE_RECURRENT)) continue;
        snprintf(name, sizeof name, "blk.%u.%s", layer, role->name);
        add(p, name, rl_synth_mix_type(&p->mix, (rl_role_id)i, layer, dims[0]), dims, spreads[i]);
    }
}

static rl_status make_plan(plan *p, rl_error *err)
{
    const rl_synth_params *params = p->params;
    uint64_t widths[RL_WIDTH_COUNT], row = params->n_embd;
    uint64_t matrix[3] = { row, params->n_vocab, 1 }, vector[3] = { row, 1, 1 };
    rl_widths(&p->config, widths);
    p->capacity = 3 + (uint64_t)params->n_layer * RL_ROLE_COUNT;
    p->tensors = calloc(p->capacity, sizeof *p->tensors);
    if (!p->tensors) return rl_fail(err, RL_NOMEM, "no memory for the list of tensors");
    spread head = { SYNTH_SPREAD, LOGIT_SIZE, 0 };
    spread norm = { SYNTH_RANGE, 0.5f, 1.5f };
    if (params->tied) /* the embedding is large for a head, and would prefer its own token */
        norm = (spread){ SYNTH_SIGNED, (float)(0.5 * LOGIT_SIZE / sqrt((double)row)),
                         (float)(1.5 * LOGIT_SIZE / sqrt((double)row)) };
    else
        add(p, "output.weight", rl_synth_mix_head_type(&p->mix, row), matrix, head);
    add(p, "output_norm.weight", RL_QUANT_F32, vector, norm);
    spread embedding = { SYNTH_SPREAD, (float)(EMBEDDING_SIZE * sqrt((double)row)), 0 };
    add(p, "token_embd.weight", rl_synth_mix_embedding_type(&p->mix, row), matrix, embedding);
    for (uint32_t i = 0; i < params->n_layer; i++)
        add_layer(p, widths, i);
    return RL_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void put_keys(const plan *p)
{
    const rl_synth_params *s = p->params;
    rl_gguf_writer *w = p->writer;
    char name[64];
    snprintf(name, sizeof name, "Synthetic %ux%u %s", s->n_layer, s->n_expert,
             s->mix ? s->mix : "target");
    rl_gguf_writer_text(w, "general.architecture", "qwen3next");
    rl_gguf_writer_text(w, "general.type", "model");
    rl_gguf_writer_text(w, "general.name", name);
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        { "block_count", s->n_layer },
        { "context_length", s->n_ctx_train },
        { "embedding_length", s->n_embd },
        { "attention.head_count", s->n_head },
        { "attention.head_count_kv", s->n_head_kv },
        { "attention.key_length", s->head_dim },
        { "attention.value_length", s->head_dim },
        { "rope.dimension_count", s->n_rot },
        { "expert_count", s->n_expert },
        { "expert_used_count", s->n_expert_used },
        { "expert_feed_forward_length", s->n_ff_expert },
        { "expert_shared_feed_forward_length", s->n_ff_shared },
        { "ssm.conv_kernel", s->conv_taps },
        { "ssm.state_size", s->delta_dim },
        { "ssm.group_count", s->n_key_head },
        { "ssm.time_step_rank", s->n_value_head },
        { "ssm.inner_size", s->n_value_head * s->delta_dim },
        { "full_attention_interval", s->attention_interval },
    };
    char key[96];
    for (size_t i = 0; i < RL_COUNT_OF(numbers); i++) {
        snprintf(key, sizeof key, "qwen3next.%s", numbers[i].key);
        rl_gguf_writer_u32(w, key, numbers[i].value);
    }
    rl_gguf_writer_f32(w, "qwen3next.attention.layer_norm_rms_epsilon", s->rms_eps);
    rl_gguf_writer_f32(w, "qwen3next.rope.freq_base", s->rope_base);
    rl_gguf_writer_u32(w, "general.quantization_version", 2);
    rl_gguf_writer_u32(w, "general.file_type", p->mix.file_type);
}

/* ---- vocabulary ----------------------------------------------------------------------------- */

/* The character of the byte alphabet that stands for a byte; returns its length. */
static size_t byte_character(uint32_t byte, char out[2])
{
    uint32_t point = 256, b = 0;
    bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    for (; !printable && b < byte; b++)
        point += !((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad));
    if (printable) point = byte;
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    out[0] = (char)(0xc0 | point >> 6);
    out[1] = (char)(0x80 | (point & 0x3f));
    return 2;
}

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };

/* 256 bytes, three control tokens, and [PADn] up to the wanted number. */
static rl_status put_default_vocab(const plan *p, rl_error *err)
{
    static const char *const specials[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
    enum { ROOM = 24 };
    uint32_t n = p->params->n_vocab;
    rl_gguf_string *tokens = calloc(n, sizeof *tokens);
    int32_t *types = calloc(n, sizeof *types);
    char *text = malloc((size_t)n * ROOM);
    rl_status status = RL_OK;
    if (!tokens || !types || !text) {
        status = rl_fail(err, RL_NOMEM, "no memory for a vocabulary of %u tokens", n);
        goto done;
    }
    for (uint32_t i = 0; i < n; i++) {
        char *at = text + (size_t)i * ROOM;
        size_t bytes;
        if (i < 256) {
            bytes = byte_character(i, at);
            types[i] = TOKEN_NORMAL;
        } else if (i < 256 + RL_COUNT_OF(specials)) {
            bytes = (size_t)snprintf(at, ROOM, "%s", specials[i - 256]);
            types[i] = TOKEN_CONTROL;
        } else {
            bytes = (size_t)snprintf(at, ROOM, "[PAD%u]", i);
            types[i] = TOKEN_UNUSED;
        }
        tokens[i] = (rl_gguf_string){ .data = at, .bytes = bytes };
    }
    rl_gguf_writer_text(p->writer, "tokenizer.ggml.model", "gpt2");
    rl_gguf_writer_text(p->writer, "tokenizer.ggml.pre", "qwen2");
    rl_gguf_writer_strings(p->writer, "tokenizer.ggml.tokens", tokens, n);
    rl_gguf_writer_array(p->writer, "tokenizer.ggml.token_type", RL_GGUF_I32, types, n);
    rl_gguf_writer_strings(p->writer, "tokenizer.ggml.merges", NULL, 0);
    rl_gguf_writer_u32(p->writer, "tokenizer.ggml.eos_token_id", 258);
    rl_gguf_writer_u32(p->writer, "tokenizer.ggml.padding_token_id", 256);
    rl_gguf_writer_u32(p->writer, "tokenizer.ggml.bos_token_id", 256);
    rl_gguf_writer_bool(p->writer, "tokenizer.ggml.add_bos_token", false);
done:
    free(tokens);
    free(types);
    free(text);
    return status;
}

static void copy_vocab(const plan *p, const rl_gguf *source)
{
    for (uint64_t i = 0; i < rl_gguf_n_keys(source); i++) {
        rl_gguf_value value;
        const char *key = rl_gguf_key_at(source, i, &value);
        if (!strncmp(key, "tokenizer.", 10)) rl_gguf_writer_copy(p->writer, key, source, &value);
    }
}

/* The number of tokens in the source; n_vocab must agree if it was given. */
static rl_status count_vocab(const rl_gguf *source, uint32_t *n_vocab, rl_error *err)
{
    rl_gguf_value tokens;
    const char *path = rl_gguf_path(source);
    if (!rl_gguf_find(source, "tokenizer.ggml.tokens", &tokens) || tokens.type != RL_GGUF_ARRAY ||
        tokens.element != RL_GGUF_STRING)
        return rl_fail(err, RL_FORMAT, "%s: no tokens in it (tokenizer.ggml.tokens)", path);
    if (*n_vocab && *n_vocab != tokens.count)
        return rl_fail(err, RL_INVALID, "vocabulary: %u tokens were asked for, %s has %llu",
                       *n_vocab, path, (unsigned long long)tokens.count);
    *n_vocab = tokens.count > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens.count;
    return RL_OK;
}

/* ---- data ----------------------------------------------------------------------------------- */

typedef struct batch {
    const planned *tensor;
    uint64_t first_tile, tile_blocks;
    uint8_t *bytes;
} batch;

static void make_tile(void *arg, uint32_t index, uint32_t thread)
{
    const batch *b = arg;
    const planned *t = b->tensor;
    uint64_t tile = b->first_tile + index, first = tile * b->tile_blocks;
    uint64_t n = t->blocks - first < b->tile_blocks ? t->blocks - first : b->tile_blocks;
    (void)thread;
    rl_synth_fill_run(&t->fill, rl_synth_seed(t->seed, tile),
                      b->bytes + index * b->tile_blocks * t->block_bytes, n);
}

static rl_status write_tensor(const plan *p, const planned *t, rl_pool *pool, uint8_t *buffer,
                              uint64_t *done_bytes, rl_error *err)
{
    batch b = { .tensor = t, .tile_blocks = TILE_WEIGHTS / t->block, .bytes = buffer };
    uint64_t tile_bytes = b.tile_blocks * t->block_bytes, blocks = 0;
    uint32_t most = (uint32_t)(BATCH_BYTES / tile_bytes);
    while (blocks < t->blocks) {
        uint64_t left = (t->blocks - blocks + b.tile_blocks - 1) / b.tile_blocks;
        uint32_t n = left < most ? (uint32_t)left : most;
        uint64_t next = blocks + n * b.tile_blocks;
        if (next > t->blocks) next = t->blocks;
        rl_pool_run(pool, make_tile, &b, n);
        uint64_t bytes = (next - blocks) * t->block_bytes;
        rl_status status = rl_gguf_writer_append(p->writer, buffer, (size_t)bytes, err);
        if (status) return status;
        blocks = next;
        b.first_tile += n;
        *done_bytes += bytes;
        if (p->params->progress && !p->params->progress(p->params->context, *done_bytes,
                                                        rl_gguf_writer_total_bytes(p->writer)))
            return rl_fail(err, RL_INTERRUPTED, "interrupted");
    }
    return RL_OK;
}

static rl_status write_data(const plan *p, rl_error *err)
{
    rl_pool *pool = NULL;
    uint64_t done_bytes = 0;
    uint32_t threads = p->params->n_threads ? p->params->n_threads : rl_cpu_count();
    rl_status status = rl_pool_create(&pool, threads < 256 ? threads : 256, err);
    if (status) return status;
    uint8_t *buffer = malloc(BATCH_BYTES);
    if (!buffer) status = rl_fail(err, RL_NOMEM, "no memory for a buffer of 32 MiB");
    for (uint64_t i = 0; i < p->n && !status; i++)
        status = write_tensor(p, &p->tensors[i], pool, buffer, &done_bytes, err);
    free(buffer);
    rl_pool_destroy(pool);
    return status;
}

/* ---- whole files ---------------------------------------------------------------------------- */

static rl_status start(plan *p, const rl_synth_params *params, rl_error *err)
{
    *p = (plan){ .params = params };
    rl_status status = check_params(params, err);
    if (!status) status = rl_synth_mix_find(&p->mix, params, err);
    if (status) return status;
    fill_config(params, &p->config);
    return make_plan(p, err);
}

rl_status rl_synth_list(const rl_synth_params *params,
                        void (*visit)(void *context, const rl_gguf_tensor *tensor), void *context,
                        rl_error *err)
{
    plan p;
    uint64_t offset = 0;
    rl_status status = start(&p, params, err);
    for (uint64_t i = 0; i < p.n && !status; i++) {
        const planned *t = &p.tensors[i];
        rl_gguf_tensor tensor = { .name = t->name,
                                  .type = t->fill.type,
                                  .n_dims = t->n_dims,
                                  .dims = { t->dims[0], t->dims[1], t->dims[2], 1 },
                                  .bytes = t->blocks * t->block_bytes,
                                  .offset = offset };
        visit(context, &tensor);
        offset = rl_align_up(offset + tensor.bytes, 32);
    }
    free(p.tensors);
    return status;
}

rl_status rl_synth_write(const rl_synth_params *params, const char *path, rl_error *err)
{
    rl_synth_params own = *params;
    plan p = { 0 };
    rl_gguf *vocab = NULL;
    rl_status status = RL_OK;
    if (own.vocab) {
        status = rl_gguf_open(&vocab, own.vocab, err);
        if (!status) status = count_vocab(vocab, &own.n_vocab, err);
    }
    if (!status) status = start(&p, &own, err);
    if (!status) status = rl_gguf_writer_create(&p.writer, path, NULL, err);
    if (status) goto done;
    for (uint64_t i = 0; i < p.n; i++)
        rl_gguf_writer_tensor(p.writer, p.tensors[i].name, p.tensors[i].fill.type,
                              p.tensors[i].n_dims, p.tensors[i].dims);
    put_keys(&p);
    if (vocab)
        copy_vocab(&p, vocab);
    else
        status = put_default_vocab(&p, err);
    if (!status) status = rl_gguf_writer_begin(p.writer, err);
    if (!status) status = write_data(&p, err);
    if (!status) status = rl_gguf_writer_finish(p.writer, err);
done:
    rl_gguf_writer_destroy(p.writer);
    rl_gguf_close(vocab);
    free(p.tensors);
    return status;
}
