/* cache_plan.h - how many slots of which size a number of bytes buys.
 *
 * Layers whose experts have the same size share a size class. A budget that cannot hold every
 * expert is split so that each class holds the same share of its experts: a byte of slot then
 * saves about the same number of bytes of reading in every class. No class gets fewer slots than
 * one layer of one token needs.
 *
 * Threads: pure functions. */
#ifndef RL_CACHE_CACHE_PLAN_H
#define RL_CACHE_CACHE_PLAN_H

#include "base/status.h"

typedef struct rl_cache_plan_params {
    uint32_t n_layer;
    uint32_t n_expert;
    uint32_t n_expert_used;      /* of one layer for one token; 1..n_expert                    */
    const uint64_t *layer_bytes; /* [n_layer] bytes of one expert; 0: no routed experts         */
    uint64_t align;              /* slots are multiples of this, a power of two; 0: 64          */
    uint64_t budget_bytes;       /* UINT64_MAX: everything                                      */
    const char *name;            /* of the model, for error sentences                           */
} rl_cache_plan_params;

typedef struct rl_cache_plan_class {
    uint64_t slot_bytes;
    uint32_t n_layer;   /* layers that use it                           */
    uint32_t n_expert;  /* experts of all these layers                  */
    uint32_t n_minimum; /* slots that one layer of one token needs      */
    uint32_t n_slots;
} rl_cache_plan_class;

typedef struct rl_cache_plan {
    uint32_t n_class;
    rl_cache_plan_class *classes; /* [n_class] owned, largest slots first                       */
    uint32_t *layer_class;        /* [n_layer] owned; RL_CACHE_NONE for a layer without experts */
    uint32_t *class_slots;        /* [n_class] owned, as rl_cache_create wants it               */
    uint32_t n_expert;            /* experts of all layers                                      */
    uint32_t n_slots;             /* of all classes                                             */
    uint64_t bytes;               /* of all slots; <= budget                                    */
    uint64_t minimum_bytes;       /* the smallest budget that works                             */
    uint64_t full_bytes;          /* the budget that holds every expert                         */
    bool full;                    /* every expert has a slot                                    */
} rl_cache_plan;

/* Sizes come from a file and are checked: RL_FORMAT when their sum does not fit 64 bits, when no
 * layer has experts, or when there are 2^32 of them. A budget below the minimum is RL_INVALID, and
 * the sentence names the minimum in MiB (rounded up, so that it works as --cache-mib).
 * The plan owns its arrays: rl_cache_plan_fini(), also fine after a failure. */
RL_MUST_CHECK rl_status rl_cache_plan_init(rl_cache_plan *plan, const rl_cache_plan_params *params,
                                           rl_error *err);
void rl_cache_plan_fini(rl_cache_plan *plan);

#endif
