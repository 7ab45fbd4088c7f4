/* experts.h - the routed experts of a model: the pool, the cache over it, and who reads what when.
 *
 * Connects the parts that do not know each other: the cache (which expert has which slot), the
 * backend (where slots are, how experts compute), the stream (how bytes arrive) and the file (where
 * they come from). The cache's listener keeps the backend's residency table.
 *
 * For one layer of one batch, rl_experts_run() groups the tokens by expert, so that every expert is
 * read and walked once, asks the cache for all of them, starts reading the missing ones, computes
 * the shared expert and those in memory meanwhile, and the rest as they arrive. Results are kept
 * apart per (token, rank) by the backend: the order of arrival cannot change a bit.
 *
 * Threads: as the engine, under its lock. */
#ifndef RL_ENGINE_EXPERTS_H
#define RL_ENGINE_EXPERTS_H

#include "engine/engine.h"

/* Makes the plan (how many slots of which size fit the budget), the pool of the backend, the cache
 * and the stream; reads every expert when all of them fit and params allow it. Needs
 * engine->net.layers[].expert filled (rl_memory_expert_layout) and the backend attached. */
RL_MUST_CHECK rl_status rl_experts_create(rl_experts **out, rl_engine *engine,
                                          const rl_engine_params *params, rl_error *err);
void rl_experts_destroy(rl_experts *experts); /* NULL is fine */

/* Around every batch. */
void rl_experts_begin(rl_experts *experts, uint32_t n_tokens);
void rl_experts_end(rl_experts *experts);

/* Computes the shared and routed experts of a layer for ids [n][K] (moe_shared and moe_experts of
 * the backend). A read that fails is RL_IO: the expert is absent as before, nothing is pinned. */
RL_MUST_CHECK rl_status rl_experts_run(rl_experts *experts, uint32_t layer, const uint32_t *ids,
                                       uint32_t n_tokens, rl_error *err);

/* For a routed token: makes the choice ids [K] of one layer resident and holds it until unload, one
 * layer at a time. `ahead`: what is guessed for the next layer is read behind it, as
 * rl_experts_run() does; but when there is nothing to wait for, only by rl_experts_read_ahead(), so
 * that the device can go on before. On failure nothing is held. */
RL_MUST_CHECK rl_status rl_experts_load(rl_experts *experts, uint32_t layer, const uint32_t *ids,
                                        bool ahead, rl_error *err);
/* Behind rl_experts_load() with `ahead`: starts the reads that it has left. */
RL_MUST_CHECK rl_status rl_experts_read_ahead(rl_experts *experts, rl_error *err);
void rl_experts_unload(rl_experts *experts); /* fine when nothing is held */

/* For a routed token: these experts [K] were used without asking, and count as used now. */
void rl_experts_touch(rl_experts *experts, uint32_t layer, const uint32_t *ids);
/* The same for the layers from `from` on, choices [n_layer][K] (copied), but by the next
 * rl_experts_settle(): looking up some hundred entries takes longer than submitting a token, so that
 * is done while the device computes the next one. Nobody sees the difference, since whatever reads
 * or changes the cache settles first. */
void rl_experts_touch_later(rl_experts *experts, uint32_t from, const uint32_t *choices);
void rl_experts_settle(rl_experts *experts);

/* Reading since create. `decode_` counts batches of one token only. */
typedef struct rl_experts_figures {
    uint64_t bytes, wait_ns;
    uint64_t decode_bytes, decode_wait_ns;
    uint64_t decode_reading_ns; /* something was being read */
    uint64_t matrices, placed;  /* read one by one; of these, straight into their slots */
} rl_experts_figures;

rl_experts_figures rl_experts_get_figures(const rl_experts *experts);

/* Layers of the last batch for which something had to be read, ahead or when it was wanted. */
uint32_t rl_experts_layers_read(const rl_experts *experts);

/* Whether every entry of the backend's residency table is what the cache says: looks at all of them. */
bool rl_experts_consistent(const rl_experts *experts);

rl_reader_info rl_experts_io(const rl_experts *experts);
const rl_cache_plan *rl_experts_plan(const rl_experts *experts);
rl_cache *rl_experts_cache(rl_experts *experts); /* settled; ask anew after every token */
rl_residency *rl_experts_residency(rl_experts *experts);

#endif
