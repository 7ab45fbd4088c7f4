/* config.c - model/config.h: every key read, ranged and compared with the tensors. */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define ARCHITECTURE "qwen3next"

typedef struct reader {
    rl_config *config;
    const rl_gguf *gguf;
    uint32_t block_count; /* MTP blocks included */
    rl_error *err;
} reader;

/* "qwen3next." in front of the name. */
typedef struct full_key {
    char text[96];
} full_key;

static full_key key_of(const char *name)
{
    full_key key;
    snprintf(key.text, sizeof key.text, ARCHITECTURE ".%s", name);
    return key;
}

static rl_status refuse(const reader *r, const char *key, const char *why)
{
    return rl_fail(r->err, RL_FORMAT, "%s: key %s: %s", rl_gguf_path(r->gguf), key, why);
}

/* ---- plain keys ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t field;
    uint32_t low, high;
} integer_keys[] = {
#define FIELD(f) offsetof(rl_config, f)
    { "context_length", FIELD(n_ctx_train), 1, UINT32_MAX },
    { "embedding_length", FIELD(n_embd), 1, RL_MAX_WIDTH },
    { "rope.dimension_count", FIELD(n_rot), 2, RL_MAX_WIDTH },
    { "expert_count", FIELD(n_expert), 1, RL_MAX_EXPERTS },
    { "expert_used_count", FIELD(n_expert_used), 1, RL_MAX_EXPERTS_PER_TOKEN },
    { "ssm.conv_kernel", FIELD(conv_taps), 1, 64 },
    { "ssm.state_size", FIELD(delta_dim), 1, RL_MAX_WIDTH },
    { "ssm.group_count", FIELD(n_key_head), 1, RL_MAX_WIDTH },
    { "ssm.time_step_rank", FIELD(n_value_head), 1, RL_MAX_WIDTH },
};

static rl_status check_range(const reader *r, const char *key, uint32_t value, uint32_t low,
                             uint32_t high)
{
    if (value >= low && value <= high) return RL_OK;
    return rl_fail(r->err, RL_FORMAT, "%s: key %s is %u, allowed are %u to %u",
                   rl_gguf_path(r->gguf), key, value, low, high);
}

static rl_status read_integers(reader *r)
{
    for (size_t i = 0; i < RL_COUNT_OF(integer_keys); i++) {
        full_key key = key_of(integer_keys[i].name);
        uint32_t *out = (uint32_t *)((char *)r->config + integer_keys[i].field);
        rl_status status = rl_gguf_get_u32(r->gguf, key.text, out, NULL, r->err);
        if (!status)
            status = check_range(r, key.text, *out, integer_keys[i].low, integer_keys[i].high);
        if (status) return status;
    }
    return RL_OK;
}

static rl_status read_positive_float(const reader *r, const char *name, float *out)
{
    full_key key = key_of(name);
    rl_status status = rl_gguf_get_f32(r->gguf, key.text, out, NULL, r->err);
    if (status) return status;
    if (isfinite(*out) && *out > 0) return RL_OK;
    return rl_fail(r->err, RL_FORMAT, "%s: key %s is %g, a positive number is needed",
                   rl_gguf_path(r->gguf), key.text, (double)*out);
}

/* An optional width; without the key it is dims[0] of a tensor of layer 0. */
static rl_status read_width(const reader *r, const char *name, const char *tensor_name,
                            uint32_t *out)
{
    full_key key = key_of(name);
    bool found;
    rl_status status = rl_gguf_get_u32(r->gguf, key.text, out, &found, r->err);
    if (status) return status;
    if (!found) {
        const rl_gguf_tensor *tensor = rl_gguf_find_tensor(r->gguf, tensor_name);
        if (!tensor)
            return rl_fail(r->err, RL_FORMAT, "%s: key %s is missing, and so is the tensor %s",
                           rl_gguf_path(r->gguf), key.text, tensor_name);
        *out = tensor->dims[0] > RL_MAX_WIDTH ? UINT32_MAX : (uint32_t)tensor->dims[0];
    }
    return check_range(r, key.text, *out, 1, RL_MAX_WIDTH);
}

/* ---- general -------------------------------------------------------------------------------- */

static void copy_printable(char *out, size_t out_bytes, rl_gguf_string text)
{
    size_t n = text.bytes < out_bytes - 1 ? text.bytes : out_bytes - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = text.data[i] >= 0x20 && text.data[i] < 0x7f ? text.data[i] : '?';
    out[n] = 0;
}

rl_status rl_config_check_architecture(const rl_gguf *gguf, rl_error *err)
{
    rl_gguf_string name;
    rl_status status = rl_gguf_get_string(gguf, "general.architecture", &name, NULL, err);
    if (status) return status;
    if (name.bytes == strlen(ARCHITECTURE) && !memcmp(name.data, ARCHITECTURE, name.bytes))
        return RL_OK;
    char shown[64];
    copy_printable(shown, sizeof shown, name);
    return rl_fail(err, RL_UNSUPPORTED,
                   "%s: general.architecture is '%s'; this program runs " ARCHITECTURE " models",
                   rl_gguf_path(gguf), shown);
}

/* general.file_type as quantisation tools name it. */
static const char *file_type_name(uint32_t id)
{
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",       [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",      [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M",    [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS",    [21] = "Q2_K_S", [22] = "IQ3_XS",
        [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL",    [26] = "IQ3_S",  [27] = "IQ3_M",
        [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS",    [31] = "IQ1_M",  [32] = "BF16",
        [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4_MOE",
    };
    return id < RL_COUNT_OF(names) && names[id] ? names[id] : "";
}

static rl_status read_general(reader *r)
{
    rl_gguf_string name;
    uint32_t number;
    bool found;
    rl_status status = rl_config_check_architecture(r->gguf, r->err);
    if (status) return status;
    strcpy(r->config->architecture, ARCHITECTURE);
    status = rl_gguf_get_u32(r->gguf, "general.quantization_version", &number, &found, r->err);
    if (status) return status;
    if (found && number > 2)
        return rl_fail(r->err, RL_UNSUPPORTED,
                       "%s: general.quantization_version is %u; versions up to 2 can be read",
                       rl_gguf_path(r->gguf), number);
    status = rl_gguf_get_string(r->gguf, "general.name", &name, &found, r->err);
    if (status) return status;
    if (found) copy_printable(r->config->name, sizeof r->config->name, name);
    status = rl_gguf_get_u32(r->gguf, "general.file_type", &number, &found, r->err);
    if (!status && found) strcpy(r->config->file_type, file_type_name(number));
    return status;
}

/* Stretched rotary positions change every attention score; nothing here computes them. */
static rl_status refuse_rope_scaling(const reader *r)
{
    static const char prefix[] = ARCHITECTURE ".rope.scal";
    rl_gguf_value value;
    if (rl_gguf_find(r->gguf, ARCHITECTURE ".rope.scaling.type", &value) &&
        value.type == RL_GGUF_STRING) {
        rl_gguf_string type = rl_gguf_value_string(&value);
        if (type.bytes == 4 && !memcmp(type.data, "none", 4)) return RL_OK;
    }
    for (uint64_t i = 0; i < rl_gguf_n_keys(r->gguf); i++) {
        const char *key = rl_gguf_key_at(r->gguf, i, NULL);
        if (!strncmp(key, prefix, sizeof prefix - 1))
            return rl_fail(r->err, RL_UNSUPPORTED,
                           "%s: key %s: rotary position scaling (YaRN and the like) is not "
                           "supported, and ignoring it would give wrong results",
                           rl_gguf_path(r->gguf), key);
    }
    return RL_OK;
}

/* ---- layers --------------------------------------------------------------------------------- */

static rl_status read_layer_counts(reader *r)
{
    full_key key = key_of("block_count");
    bool found;
    rl_status status = rl_gguf_get_u32(r->gguf, key.text, &r->block_count, NULL, r->err);
    if (!status) status = check_range(r, key.text, r->block_count, 1, RL_MAX_LAYERS);
    if (status) return status;
    key = key_of("nextn_predict_layers");
    status = rl_gguf_get_u32(r->gguf, key.text, &r->config->n_mtp, &found, r->err);
    if (status) return status;
    if (r->config->n_mtp >= r->block_count)
        return rl_fail(r->err, RL_FORMAT, "%s: key %s is %u, but block_count is only %u",
                       rl_gguf_path(r->gguf), key.text, r->config->n_mtp, r->block_count);
    r->config->n_layer = r->block_count - r->config->n_mtp;
    return RL_OK;
}

/* An array with one integer or bool per block. */
static rl_status check_layer_array(const reader *r, const char *key, const rl_gguf_value *value)
{
    if (value->type != RL_GGUF_ARRAY || value->element == RL_GGUF_STRING ||
        value->element == RL_GGUF_F32 || value->element == RL_GGUF_F64)
        return refuse(r, key, "an array of integers or bools is needed");
    if (value->count < r->block_count)
        return rl_fail(r->err, RL_FORMAT, "%s: key %s has %llu entries, but block_count is %u",
                       rl_gguf_path(r->gguf), key, (unsigned long long)value->count,
                       r->block_count);
    return RL_OK;
}

/* What the keys say about each layer, and which key says it (NULL: only the default). */
static rl_status read_layer_rule(reader *r, const char **said_by)
{
    static const char array_key[] = ARCHITECTURE ".attention.recurrent_layers";
    static const char interval_key[] = ARCHITECTURE ".full_attention_interval";
    rl_gguf_value value;
    uint32_t interval = 4;
    bool found;
    rl_status status;
    *said_by = NULL;
    if (rl_gguf_find(r->gguf, array_key, &value)) {
        status = check_layer_array(r, array_key, &value);
        if (status) return status;
        for (uint32_t i = 0; i < r->config->n_layer; i++)
            r->config->recurrent[i] = rl_gguf_array_int(&value, i) != 0;
        *said_by = array_key;
        return RL_OK;
    }
    status = rl_gguf_get_u32(r->gguf, interval_key, &interval, &found, r->err);
    if (!status) status = check_range(r, interval_key, interval, 1, UINT32_MAX);
    if (status) return status;
    if (found) *said_by = interval_key;
    for (uint32_t i = 0; i < r->config->n_layer; i++)
        r->config->recurrent[i] = (i + 1) % interval != 0;
    return RL_OK;
}

/* The tensors are authoritative; keys that contradict them are an error, a mere default is not. */
static rl_status settle_layers(reader *r)
{
    const char *said_by;
    rl_status status = read_layer_rule(r, &said_by);
    if (status) return status;
    for (uint32_t i = 0; i < r->config->n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.ssm_out.weight", i);
        bool recurrent = rl_gguf_find_tensor(r->gguf, name) != NULL;
        snprintf(name, sizeof name, "blk.%u.attn_output.weight", i);
        bool attention = rl_gguf_find_tensor(r->gguf, name) != NULL;
        if (recurrent && attention)
            return rl_fail(r->err, RL_FORMAT,
                           "%s: layer %u has both %s and blk.%u.ssm_out.weight: it cannot be "
                           "attention and recurrent",
                           rl_gguf_path(r->gguf), i, name, i);
        if (!recurrent && !attention) continue; /* weights.c names what is missing */
        if (said_by && recurrent != r->config->recurrent[i])
            return rl_fail(r->err, RL_FORMAT,
                           "%s: key %s says that layer %u is %s, its tensors are those of a %s "
                           "layer",
                           rl_gguf_path(r->gguf), said_by, i,
                           r->config->recurrent[i] ? "recurrent" : "attention",
                           recurrent ? "recurrent" : "attention");
        r->config->recurrent[i] = recurrent;
    }
    return RL_OK;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* A number of heads: one integer, or one per block of which those of attention layers count. */
static rl_status read_heads(const reader *r, const char *name, uint32_t *out)
{
    full_key key = key_of(name);
    rl_gguf_value value;
    rl_status status;
    if (!rl_gguf_find(r->gguf, key.text, &value) || value.type != RL_GGUF_ARRAY) {
        status = rl_gguf_get_u32(r->gguf, key.text, out, NULL, r->err);
        if (!status) status = check_range(r, key.text, *out, 1, RL_MAX_WIDTH);
        return status;
    }
    status = check_layer_array(r, key.text, &value);
    if (status) return status;
    *out = 0;
    for (uint32_t i = 0; i < r->config->n_layer; i++) {
        if (r->config->recurrent[i]) continue;
        int64_t heads = rl_gguf_array_int(&value, i);
        if (heads < 1 || heads > RL_MAX_WIDTH)
            return rl_fail(r->err, RL_FORMAT,
                           "%s: key %s is %lld for layer %u, allowed are 1 to %d",
                           rl_gguf_path(r->gguf), key.text, (long long)heads, i, RL_MAX_WIDTH);
        if (*out && *out != heads)
            return rl_fail(r->err, RL_UNSUPPORTED,
                           "%s: key %s differs between attention layers (%u, then %lld in layer "
                           "%u), which is not supported",
                           rl_gguf_path(r->gguf), key.text, *out, (long long)heads, i);
        *out = (uint32_t)heads;
    }
    if (!*out) *out = 1; /* no attention layer at all */
    return RL_OK;
}

static rl_status read_head_dim(const reader *r, const char *name, uint32_t *out)
{
    full_key key = key_of(name);
    bool found;
    rl_status status = rl_gguf_get_u32(r->gguf, key.text, out, &found, r->err);
    if (status) return status;
    if (!found) {
        if (r->config->n_embd % r->config->n_head)
            return refuse(r, key.text, "missing, and embedding_length / head_count is no integer");
        *out = r->config->n_embd / r->config->n_head;
    }
    return check_range(r, key.text, *out, 1, RL_MAX_WIDTH);
}

static rl_status read_attention(reader *r)
{
    rl_config *c = r->config;
    uint32_t value_dim;
    const char *path = rl_gguf_path(r->gguf);
    rl_status status = read_heads(r, "attention.head_count", &c->n_head);
    if (!status) status = read_heads(r, "attention.head_count_kv", &c->n_head_kv);
    if (status) return status;
    if (c->n_head % c->n_head_kv)
        return rl_fail(r->err, RL_FORMAT,
                       "%s: attention.head_count %u is no multiple of attention.head_count_kv %u",
                       path, c->n_head, c->n_head_kv);
    status = read_head_dim(r, "attention.key_length", &c->head_dim);
    if (!status) status = read_head_dim(r, "attention.value_length", &value_dim);
    if (status) return status;
    if (value_dim != c->head_dim)
        return rl_fail(r->err, RL_UNSUPPORTED,
                       "%s: attention.value_length %u differs from attention.key_length %u, which "
                       "is not supported",
                       path, value_dim, c->head_dim);
    if (c->n_rot % 2 || c->n_rot > c->head_dim)
        return rl_fail(r->err, RL_FORMAT,
                       "%s: rope.dimension_count %u must be even and at most "
                       "attention.key_length %u",
                       path, c->n_rot, c->head_dim);
    return refuse_rope_scaling(r);
}

/* ---- relations ------------------------------------------------------------------------------ */

static rl_status check_width(const reader *r, const char *what, uint64_t a, uint64_t b)
{
    if (a * b <= RL_MAX_WIDTH) return RL_OK; /* both are at most 2^21 */
    return rl_fail(r->err, RL_FORMAT, "%s: %s is %llu x %llu, more than %d", rl_gguf_path(r->gguf),
                   what, (unsigned long long)a, (unsigned long long)b, RL_MAX_WIDTH);
}

static rl_status check_relations(const reader *r)
{
    const rl_config *c = r->config;
    const char *path = rl_gguf_path(r->gguf);
    uint32_t inner;
    full_key key = key_of("ssm.inner_size");
    if (c->n_expert_used > c->n_expert)
        return rl_fail(r->err, RL_FORMAT, "%s: expert_used_count %u is more than expert_count %u",
                       path, c->n_expert_used, c->n_expert);
    if (c->n_value_head % c->n_key_head)
        return rl_fail(r->err, RL_FORMAT,
                       "%s: ssm.time_step_rank %u is no multiple of ssm.group_count %u", path,
                       c->n_value_head, c->n_key_head);
    rl_status status = rl_gguf_get_u32(r->gguf, key.text, &inner, NULL, r->err);
    if (status) return status;
    if (inner != (uint64_t)c->n_value_head * c->delta_dim)
        return rl_fail(r->err, RL_FORMAT,
                       "%s: ssm.inner_size %u is not ssm.time_step_rank %u x ssm.state_size %u",
                       path, inner, c->n_value_head, c->delta_dim);
    status = check_width(r, "2 x head_count x key_length", 2 * (uint64_t)c->n_head, c->head_dim);
    if (!status)
        status = check_width(r, "the width of the delta net (4 x inner_size)",
                             4 * (uint64_t)c->n_value_head, c->delta_dim);
    return status;
}

/* ---- vocabulary ----------------------------------------------------------------------------- */

static rl_status read_vocab(reader *r)
{
    static const char tokens_key[] = "tokenizer.ggml.tokens";
    const char *path = rl_gguf_path(r->gguf);
    full_key key = key_of("vocab_size");
    rl_gguf_value tokens;
    uint32_t size = 0;
    bool sized;
    rl_status status = rl_gguf_get_u32(r->gguf, key.text, &size, &sized, r->err);
    if (status) return status;
    const rl_gguf_tensor *embedding = rl_gguf_find_tensor(r->gguf, "token_embd.weight");
    uint64_t n = sized ? size : embedding ? embedding->dims[1] : 0;
    if (rl_gguf_find(r->gguf, tokens_key, &tokens)) {
        if (tokens.type != RL_GGUF_ARRAY)
            return refuse(r, tokens_key, "an array of strings is needed");
        if (sized && size != tokens.count)
            return rl_fail(r->err, RL_FORMAT, "%s: key %s is %u, but %s has %llu entries", path,
                           key.text, size, tokens_key, (unsigned long long)tokens.count);
        n = tokens.count;
    }
    if (n > RL_MAX_VOCAB)
        return rl_fail(r->err, RL_FORMAT, "%s: a vocabulary of %llu tokens, allowed are %d", path,
                       (unsigned long long)n, RL_MAX_VOCAB);
    r->config->n_vocab = (uint32_t)n;
    return RL_OK;
}

rl_status rl_config_read(rl_config *out, const rl_gguf *gguf, rl_error *err)
{
    *out = (rl_config){ 0 };
    reader r = { .config = out, .gguf = gguf, .err = err };
    rl_status status = read_general(&r);
    if (!status) status = read_layer_counts(&r);
    if (!status) status = read_integers(&r);
    if (!status) status = settle_layers(&r);
    if (!status) status = read_attention(&r);
    if (!status)
        status = read_positive_float(&r, "attention.layer_norm_rms_epsilon", &out->rms_eps);
    if (!status) status = read_positive_float(&r, "rope.freq_base", &out->rope_base);
    if (!status)
        status = read_width(&r, "expert_feed_forward_length", "blk.0.ffn_down_exps.weight",
                            &out->n_ff_expert);
    if (!status)
        status = read_width(&r, "expert_shared_feed_forward_length", "blk.0.ffn_down_shexp.weight",
                            &out->n_ff_shared);
    if (!status) status = check_relations(&r);
    if (!status) status = read_vocab(&r);
    return status;
}
