/* quant.c - the table of tensor types: look-up, sizes, refusals, and the way into the decoders. */
#include "quant/quant.h"

#include <stdio.h>
#include <strings.h>

#include "base/assert.h"
#include "quant/decode.h"

enum {
#define X(name, lower, id, weights, bytes) ROW_##name,
    RL_QUANT_LIST(X)
#undef X
        N_TYPES
};

static const rl_quant_info types[N_TYPES] = {
#define X(name, lower, id, weights, bytes) [ROW_##name] = { #name, (id), (weights), (bytes) },
    RL_QUANT_LIST(X)
#undef X
};

static void (*const decoders[N_TYPES])(const void *, size_t, float *) = {
#define X(name, lower, id, weights, bytes) [ROW_##name] = rl_decode_##lower,
    RL_QUANT_LIST(X)
#undef X
};

/* Ids that exist but hold no weights, or no longer do. */
static const struct {
    uint32_t type;
    const char *name;
    bool retired;
} refused[] = {
    { 4, "Q4_2", true },        { 5, "Q4_3", true },        { 9, "Q8_1", false },
    { 24, "I8", false },        { 25, "I16", false },       { 26, "I32", false },
    { 27, "I64", false },       { 28, "F64", false },       { 31, "Q4_0_4_4", true },
    { 32, "Q4_0_4_8", true },   { 33, "Q4_0_8_8", true },   { 36, "IQ4_NL_4_4", true },
    { 37, "IQ4_NL_4_8", true }, { 38, "IQ4_NL_8_8", true },
};

const rl_quant_info *rl_quant_find(uint32_t type)
{
    switch (type) {
#define X(name, lower, id, weights, bytes)                                                         \
    case (id): return &types[ROW_##name];
        RL_QUANT_LIST(X)
#undef X
    default: return NULL;
    }
}

const rl_quant_info *rl_quant_find_name(const char *name)
{
    for (uint32_t i = 0; i < N_TYPES; i++)
        if (!strcasecmp(types[i].name, name)) return &types[i];
    return NULL;
}

uint32_t rl_quant_count(void)
{
    return N_TYPES;
}

const rl_quant_info *rl_quant_at(uint32_t index)
{
    RL_ASSERT(index < N_TYPES);
    return &types[index];
}

void rl_quant_refusal(uint32_t type, char *out, size_t bytes)
{
    for (size_t i = 0; i < RL_COUNT_OF(refused); i++) {
        if (refused[i].type != type) continue;
        snprintf(out, bytes,
                 refused[i].retired ? "retired type %u (%s)" : "unsupported type %u (%s)", type,
                 refused[i].name);
        return;
    }
    if (type >= 97 && type <= 399)
        snprintf(out, bytes, "type %u (the file seems to come from a fork with its own types)",
                 type);
    else
        snprintf(out, bytes, "unknown type %u", type);
}

bool rl_quant_bytes(const rl_quant_info *info, uint64_t n_values, uint64_t *bytes)
{
    if (n_values % info->block) return false;
    return rl_mul_u64(n_values / info->block, info->block_bytes, bytes);
}

void rl_quant_decode(const rl_quant_info *info, const void *blocks, size_t n_values, float *out)
{
    RL_ASSERT(n_values % info->block == 0);
    decoders[info - types](blocks, n_values / info->block, out);
}

rl_status rl_dequantize(uint32_t ggml_type, const void *blocks, size_t n_values, float *out)
{
    const rl_quant_info *info = rl_quant_find(ggml_type);
    if (!info) return RL_UNSUPPORTED;
    if (n_values % info->block) return RL_INVALID;
    if (n_values && (!blocks || !out)) return RL_INVALID;
    rl_quant_decode(info, blocks, n_values, out);
    return RL_OK;
}
