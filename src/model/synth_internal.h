/* synth_internal.h - between the files of the synthesiser. */
#ifndef RL_MODEL_SYNTH_INTERNAL_H
#define RL_MODEL_SYNTH_INTERNAL_H

#include "model/roles.h"
#include "model/synth.h"
#include "quant/quant.h"

/* ---- synth_mix.c: which type a tensor gets --------------------------------------------------- */

/* A mixture of types, ready to ask. */
typedef struct synth_mix {
    uint32_t kind;      /* private */
    uint32_t only;      /* private: single types */
    uint32_t file_type; /* general.file_type */
    uint32_t n_layer;
    bool tied;
} synth_mix;

RL_MUST_CHECK rl_status rl_synth_mix_find(synth_mix *out, const rl_synth_params *params,
                                          rl_error *err);
/* The type for rows of `row` weights. Types whose blocks do not divide the row give way to Q8_0,
 * and that to F16. */
uint32_t rl_synth_mix_type(const synth_mix *mix, rl_role_id role, uint32_t layer, uint64_t row);
uint32_t rl_synth_mix_embedding_type(const synth_mix *mix, uint64_t row);
uint32_t rl_synth_mix_head_type(const synth_mix *mix, uint64_t row);

/* ---- synth_fill.c: random weights ------------------------------------------------------------ */

typedef enum synth_shape {
    SYNTH_SPREAD, /* around zero, root mean square `a`                                     */
    SYNTH_RANGE,  /* F32: even in [a, b]                                                   */
    SYNTH_SIGNED, /* F32: even in [a, b], then a random sign                               */
    SYNTH_DECAY   /* F32: -2^-k (1 + u) for random k in 0..6: time constants of all lengths */
} synth_shape;

typedef struct synth_fill {
    uint32_t type;
    synth_shape shape;
    double a, b;
    double unit; /* root mean square that blocks of scale 1 have; set by rl_synth_fill_init */
} synth_fill;

/* Measures what the type decodes to. F32 for all shapes but SYNTH_SPREAD (asserted). */
void rl_synth_fill_init(synth_fill *fill);

/* Writes n_blocks blocks. Equal seeds give equal bytes. Any thread. */
void rl_synth_fill_run(const synth_fill *fill, uint64_t seed, void *blocks, uint64_t n_blocks);

/* Mixes two numbers to a seed. */
uint64_t rl_synth_seed(uint64_t a, uint64_t b);

#endif
