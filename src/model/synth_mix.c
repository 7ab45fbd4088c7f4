/* synth_mix.c - mixtures of types: which tensor of a synthetic model is stored how.
 *
 * The named mixtures follow published files. A row of their tables says the type of one role, and
 * possibly another one in a set of layers. Norms, router, convolution and the other small tensors
 * are F32 everywhere. */
#include "model/synth_internal.h"

#include <strings.h>

#include "base/bytes.h"

enum { KIND_TARGET, KIND_IQ3_XXS, KIND_IQ2_XXS, KIND_Q2_K, KIND_Q4_K_M, KIND_ONLY };

/* Sets of layers, by the rules of the tools that made the files. With n layers, i from 0: */
typedef enum layer_set {
    NOWHERE,
    ENDS,      /* i < n/8 or i > 7n/8; at least layer 0                     */
    MORE_BITS, /* i < n/8 or i >= 7n/8, and every third in between          */
    FIRST_FEW, /* i < n/16                                                  */
} layer_set;

typedef struct mix_row {
    uint8_t type;
    uint8_t set;
    uint8_t type_in_set;
} mix_row;

typedef struct mix_table {
    const char *name;
    uint32_t file_type;
    mix_row rest; /* roles without a row */
    mix_row embedding, head;
    mix_row roles[RL_ROLE_COUNT]; /* .set and both types 0: `rest` */
} mix_table;

#define ALWAYS(t)                                                                                  \
    {                                                                                              \
        RL_QUANT_##t, NOWHERE, RL_QUANT_##t                                                        \
    }
#define WHERE(s, in, t)                                                                            \
    {                                                                                              \
        RL_QUANT_##t, s, RL_QUANT_##in                                                             \
    }

/* clang-format off */
static const mix_table tables[] = {
    [KIND_TARGET] = {
        /* The published 80B file called IQ2_XXS. */
        .name = "target", .file_type = 19, .rest = ALWAYS(IQ2_XXS),
        .embedding = ALWAYS(Q2_K), .head = ALWAYS(Q5_K),
        .roles = {
            [RL_ROLE_k] = ALWAYS(Q4_K), [RL_ROLE_v] = ALWAYS(Q4_K),
            [RL_ROLE_attn_out] = ALWAYS(Q4_K), [RL_ROLE_delta_out] = ALWAYS(Q4_K),
            [RL_ROLE_ba] = ALWAYS(Q8_0),
            [RL_ROLE_gate_exps] = WHERE(ENDS, IQ2_XS, IQ1_M),
            [RL_ROLE_up_exps] = WHERE(ENDS, IQ2_XS, IQ1_M),
            [RL_ROLE_down_exps] = WHERE(ENDS, IQ2_XS, IQ1_M),
            [RL_ROLE_shared_gate] = WHERE(MORE_BITS, Q6_K, IQ2_XXS),
            [RL_ROLE_shared_up] = WHERE(MORE_BITS, Q6_K, IQ2_XXS),
            [RL_ROLE_shared_down] = WHERE(MORE_BITS, Q6_K, IQ2_XXS),
        },
    },
    [KIND_IQ3_XXS] = {
        /* Its larger sibling. */
        .name = "target-iq3_xxs", .file_type = 23, .rest = ALWAYS(IQ3_XXS),
        .embedding = ALWAYS(IQ3_S), .head = ALWAYS(Q5_K),
        .roles = {
            [RL_ROLE_q] = ALWAYS(IQ2_S), [RL_ROLE_k] = ALWAYS(Q8_0), [RL_ROLE_v] = ALWAYS(Q8_0),
            [RL_ROLE_attn_out] = ALWAYS(Q6_K), [RL_ROLE_delta_out] = ALWAYS(Q8_0),
            [RL_ROLE_ba] = ALWAYS(Q8_0),
            [RL_ROLE_down_exps] = WHERE(MORE_BITS, IQ3_S, IQ3_XXS),
            [RL_ROLE_shared_gate] = WHERE(MORE_BITS, Q8_0, IQ4_XS),
            [RL_ROLE_shared_up] = WHERE(MORE_BITS, Q8_0, IQ4_XS),
            [RL_ROLE_shared_down] = WHERE(MORE_BITS, Q8_0, IQ4_XS),
        },
    },
    [KIND_IQ2_XXS] = {
        /* What the stock tool makes without directions. */
        .name = "stock-iq2_xxs", .file_type = 19, .rest = ALWAYS(IQ2_XXS),
        .embedding = ALWAYS(Q2_K), .head = ALWAYS(Q5_K),
        .roles = {
            [RL_ROLE_qkv] = ALWAYS(Q4_K), [RL_ROLE_v] = ALWAYS(Q4_K),
            [RL_ROLE_down_exps] = WHERE(FIRST_FEW, Q2_K, IQ2_XXS),
            [RL_ROLE_shared_down] = WHERE(FIRST_FEW, Q2_K, IQ2_XXS),
        },
    },
    [KIND_Q2_K] = {
        .name = "stock-q2_k", .file_type = 10, .rest = ALWAYS(Q2_K),
        .embedding = ALWAYS(Q2_K), .head = ALWAYS(Q6_K),
        .roles = {
            [RL_ROLE_qkv] = ALWAYS(Q4_K), [RL_ROLE_v] = ALWAYS(Q4_K),
            [RL_ROLE_attn_out] = ALWAYS(Q3_K),
            [RL_ROLE_down_exps] = ALWAYS(Q3_K), [RL_ROLE_shared_down] = ALWAYS(Q3_K),
        },
    },
    [KIND_Q4_K_M] = {
        .name = "q4_k_m", .file_type = 15, .rest = ALWAYS(Q4_K),
        .embedding = ALWAYS(Q4_K), .head = ALWAYS(Q6_K),
        .roles = {
            [RL_ROLE_qkv] = WHERE(MORE_BITS, Q6_K, Q4_K), [RL_ROLE_v] = WHERE(MORE_BITS, Q6_K, Q4_K),
            [RL_ROLE_down_exps] = WHERE(MORE_BITS, Q6_K, Q4_K),
            [RL_ROLE_shared_down] = WHERE(MORE_BITS, Q6_K, Q4_K),
        },
    },
};
/* clang-format on */

const char *rl_synth_mix_names(void)
{
    return "target, target-iq3_xxs, stock-iq2_xxs, stock-q2_k, q4_k_m, or any tensor type";
}

rl_status rl_synth_mix_find(synth_mix *out, const rl_synth_params *params, rl_error *err)
{
    static const struct {
        uint8_t type, file_type;
    } single[] = {
        { RL_QUANT_F32, 0 },      { RL_QUANT_F16, 1 },     { RL_QUANT_Q4_0, 2 },
        { RL_QUANT_Q4_1, 3 },     { RL_QUANT_Q8_0, 7 },    { RL_QUANT_Q5_0, 8 },
        { RL_QUANT_Q5_1, 9 },     { RL_QUANT_Q2_K, 10 },   { RL_QUANT_Q3_K, 12 },
        { RL_QUANT_Q4_K, 15 },    { RL_QUANT_Q5_K, 17 },   { RL_QUANT_Q6_K, 18 },
        { RL_QUANT_IQ2_XXS, 19 }, { RL_QUANT_IQ2_XS, 20 }, { RL_QUANT_IQ3_XXS, 23 },
        { RL_QUANT_IQ1_S, 24 },   { RL_QUANT_IQ4_NL, 25 }, { RL_QUANT_IQ3_S, 26 },
        { RL_QUANT_IQ2_S, 28 },   { RL_QUANT_IQ4_XS, 30 }, { RL_QUANT_IQ1_M, 31 },
        { RL_QUANT_BF16, 32 },    { RL_QUANT_TQ1_0, 36 },  { RL_QUANT_TQ2_0, 37 },
        { RL_QUANT_MXFP4, 38 },
    };
    const char *name = params->mix ? params->mix : "target";
    *out = (synth_mix){ .n_layer = params->n_layer, .tied = params->tied };
    for (uint32_t i = 0; i < KIND_ONLY; i++) {
        if (strcasecmp(name, tables[i].name)) continue;
        out->kind = i;
        out->file_type = tables[i].file_type;
        return RL_OK;
    }
    const rl_quant_info *info = rl_quant_find_name(name);
    if (!info || info->type == RL_QUANT_Q8_K)
        return rl_fail(err, RL_INVALID, "no mixture of types is called '%s'; there are %s", name,
                       rl_synth_mix_names());
    out->kind = KIND_ONLY;
    out->only = info->type;
    out->file_type = 0;
    for (size_t i = 0; i < RL_COUNT_OF(single); i++)
        if (single[i].type == info->type) out->file_type = single[i].file_type;
    return RL_OK;
}

static bool in_set(uint32_t set, uint32_t layer, uint32_t n)
{
    uint32_t eighth = n / 8, seven = 7 * n / 8;
    switch (set) {
    case ENDS: return layer == 0 || layer < eighth || layer > seven;
    case MORE_BITS: return layer < eighth || layer >= seven || (layer - eighth) % 3 == 2;
    case FIRST_FEW: return layer < n / 16;
    default: return false;
    }
}

/* The type itself where its blocks divide the row. */
static uint32_t fit(uint32_t type, uint64_t row)
{
    if (row % rl_quant_find(type)->block == 0) return type;
    return row % 32 ? RL_QUANT_F16 : RL_QUANT_Q8_0;
}

uint32_t rl_synth_mix_type(const synth_mix *mix, rl_role_id role, uint32_t layer, uint64_t row)
{
    const rl_role *r = &rl_roles[role];
    if (r->dims[1] == RL_WIDTH_ONE || r->part == RL_PART_ROUTER || role == RL_ROLE_conv)
        return RL_QUANT_F32;
    if (mix->kind == KIND_ONLY) return fit(mix->only, row);
    const mix_table *table = &tables[mix->kind];
    const mix_row *rule = &table->roles[role];
    if (!rule->type && !rule->type_in_set) rule = &table->rest;
    return fit(in_set(rule->set, layer, mix->n_layer) ? rule->type_in_set : rule->type, row);
}

uint32_t rl_synth_mix_embedding_type(const synth_mix *mix, uint64_t row)
{
    if (mix->kind == KIND_ONLY) return fit(mix->only, row);
    const mix_table *table = &tables[mix->kind];
    return fit(mix->tied ? table->head.type : table->embedding.type, row);
}

uint32_t rl_synth_mix_head_type(const synth_mix *mix, uint64_t row)
{
    return fit(mix->kind == KIND_ONLY ? mix->only : tables[mix->kind].head.type, row);
}
