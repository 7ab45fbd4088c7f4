/* synth.h - writes model files of the family with random weights: any geometry, any mixture of types.
 *
 * They are for measuring and for tests. The numbers mean nothing but are sane: every block code and
 * scale occurs, hidden states stay of moderate size through all layers, tokens spread over the
 * experts, logits have a spread like those of a trained model. How: synth_fill.c, and the table of
 * spreads in synth.c.
 *
 * The bytes depend on the parameters and the seed alone: not on the number of threads, nor on the
 * machine. Tensor data is never held as a whole; memory stays below 100 MiB plus the vocabulary. */
#ifndef RL_MODEL_SYNTH_H
#define RL_MODEL_SYNTH_H

#include "model/config.h"

typedef struct rl_synth_params {
    /* Geometry, as in rl_config; nothing is optional. Use rl_synth_preset() and change fields. */
    uint32_t n_layer, attention_interval; /* layer i is attention when (i + 1) % interval == 0 */
    uint32_t n_embd, n_vocab, n_ctx_train;
    uint32_t n_head, n_head_kv, head_dim, n_rot;
    uint32_t conv_taps, n_key_head, n_value_head, delta_dim;
    uint32_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    float rope_base, rms_eps;
    bool tied; /* no output.weight */

    const char *mix;    /* rl_synth_mix_names(), or the name of a type: "Q8_0"               */
    uint64_t seed;      /*                                                                   */
    const char *vocab;  /* all tokenizer.* keys come from this GGUF, and n_vocab must be its
                          number of tokens or 0; NULL: the default vocabulary               */
    uint32_t n_threads; /* 0: rl_cpu_count() */
    /* Called now and then; false stops (RL_INTERRUPTED). May be NULL. */
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
} rl_synth_params;

/* "qwen3-next-80b-iq2_xxs": tensor names, order, types, shapes and data offsets of the published
 * file. "tiny": the same kinds of layers and types in about 3 MB. False: no such preset. */
bool rl_synth_preset(const char *name, rl_synth_params *out);

/* Names for help texts, separated by commas. */
const char *rl_synth_preset_names(void);
const char *rl_synth_mix_names(void);

/* Names each tensor that rl_synth_write() would write, in order. Its `offset` counts from the start
 * of the data section. params->vocab is not looked at: n_vocab must be set. */
RL_MUST_CHECK rl_status rl_synth_list(const rl_synth_params *params,
                                      void (*visit)(void *context, const rl_gguf_tensor *tensor),
                                      void *context, rl_error *err);

/* Writes the file. RL_INVALID names the parameter that is out of range; the file appears only when
 * it is complete. */
RL_MUST_CHECK rl_status rl_synth_write(const rl_synth_params *params, const char *path,
                                       rl_error *err);

#endif
