/* experts_internal.h - what experts.c (pool and plan) and experts_run.c (one layer) share. */
#ifndef RL_ENGINE_EXPERTS_INTERNAL_H
#define RL_ENGINE_EXPERTS_INTERNAL_H

#include "cache/expert_stream.h"
#include "engine/experts.h"

/* Where one expert of the layer under way stands. */
typedef enum rl_expert_state {
    RL_EXPERT_UNHELD,  /* no slot yet, or given back */
    RL_EXPERT_LOADING, /* pinned; its bytes are on their way */
    RL_EXPERT_RESIDENT /* pinned; may be computed */
} rl_expert_state;

/* A pool reads ahead for classes with slots for this many tokens' experts of a layer: those of two
 * layers, and twice as many read ahead, of which some may be wrong guesses of an earlier layer. */
enum { RL_GUESS_ROOM = 4 };

/* One expert read ahead of its layer's router: pinned until that layer has reserved what it wants. */
typedef struct rl_expert_ahead {
    rl_expert_key key;
    rl_slot slot;
    bool loading;
} rl_expert_ahead;

struct rl_experts {
    rl_engine *engine;
    rl_cache_plan plan;
    rl_cache *cache;
    rl_residency *residency;
    rl_stream *stream;
    bool no_overlap; /* everything of a layer is read before anything of it is computed */
    bool settle_ahead;

    /* The layer under way: n_wanted experts, ascending, which is file order. */
    uint32_t layer, n_wanted;
    uint32_t *ids;             /* [n_expert] */
    rl_expert_group *groups;   /* [n_expert] the tokens of each */
    rl_reservation *answers;   /* [n_expert] the cache's answer for each */
    rl_expert_state *states;   /* [n_expert] */
    bool *computed;            /* [n_expert] */
    rl_stream_request *misses; /* [n_expert] */
    rl_expert_group *ready;    /* [n_expert] the groups of one moe_experts call */
    uint32_t *assign;          /* [n_batch K] storage behind all groups */
    uint32_t *starts;          /* [n_expert + 1] */

    rl_slot held[RL_MAX_EXPERTS_USED]; /* by rl_experts_load() */
    uint32_t n_held;
    rl_expert_ahead ahead[RL_MAX_EXPERTS_USED];
    uint32_t n_ahead;
    /* What the next layer's router said it would choose, and how often each rank of such guesses has
     * been right lately, 0..1. */
    rl_expert_key guesses[RL_MAX_EXPERTS_USED];
    uint32_t n_guesses;
    bool asked; /* for guesses, since the layer under way began */
    float trust[RL_MAX_EXPERTS_USED];
    /* Experts of the token under way that were not in memory when wanted, and for how many tokens
     * there have been none. */
    uint32_t n_absent, quiet;
    uint32_t n_layers_read; /* of the batch under way */

    uint32_t *late; /* [n_layer][K]: to be touched, from layer late_from on */
    uint32_t late_from;

    bool decoding;
    uint64_t busy_at_begin_ns;
    rl_experts_figures figures;
};

/* Where the parts of one expert lie and go. */
void rl_experts_request(rl_experts *x, rl_expert_key key, rl_slot slot, rl_stream_request *out);

/* Asked when bytes have arrived, before they are believed: RL_IO when somebody has rewritten the
 * file since it was opened. Only new times on the same contents (a copy that was put back, touch)
 * are accepted; contents are compared by the samples of the fingerprint. */
RL_MUST_CHECK rl_status rl_experts_check_files(rl_experts *x, rl_error *err);

#endif
