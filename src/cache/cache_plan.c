/* cache_plan.c - how many slots of which size a number of bytes buys.
 *
 * The split is one number: `share` of the experts of the largest class, the same share of the
 * others, rounded down, never below the minimum. The largest share that fits is found by
 * bisection (the bytes grow with it); what remains buys single slots, largest class first.
 *
 * Invariants: n_minimum <= n_slots <= n_expert for every class; bytes <= budget. */
#include "cache/cache_plan.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "cache/expert_cache.h"

#define MIB (1024.0 * 1024.0)

/* Finds the classes and fills in what does not depend on the budget. */
static rl_status find_classes(rl_cache_plan *plan, const rl_cache_plan_params *params,
                              rl_error *err)
{
    uint64_t align = params->align ? params->align : 64;
    for (uint32_t l = 0; l < params->n_layer; l++) {
        uint64_t bytes = params->layer_bytes[l], padded;
        plan->layer_class[l] = RL_CACHE_NONE;
        if (!bytes) continue;
        if (!rl_add_u64(bytes, align - 1, &padded))
            return rl_fail(err, RL_FORMAT, "%s: the experts of layer %u are too large",
                           params->name, l);
        padded &= ~(align - 1);
        uint32_t c = 0; /* insertion into a list ordered by size */
        while (c < plan->n_class && plan->classes[c].slot_bytes > padded)
            c++;
        if (c == plan->n_class || plan->classes[c].slot_bytes != padded) {
            for (uint32_t i = plan->n_class++; i > c; i--)
                plan->classes[i] = plan->classes[i - 1];
            plan->classes[c] = (rl_cache_plan_class){ .slot_bytes = padded };
        }
        plan->classes[c].n_layer++;
    }
    if (!plan->n_class)
        return rl_fail(err, RL_FORMAT, "%s: no layer has routed experts", params->name);
    for (uint32_t l = 0; l < params->n_layer; l++) {
        if (!params->layer_bytes[l]) continue;
        uint64_t padded = (params->layer_bytes[l] + align - 1) & ~(align - 1);
        uint32_t c = 0;
        while (plan->classes[c].slot_bytes != padded)
            c++;
        plan->layer_class[l] = c;
    }
    uint64_t n_expert = 0;
    for (uint32_t c = 0; c < plan->n_class; c++) {
        rl_cache_plan_class *class = &plan->classes[c];
        uint64_t n = (uint64_t) class->n_layer * params->n_expert, bytes;
        n_expert += n;
        if (n_expert >= RL_CACHE_NONE)
            return rl_fail(err, RL_FORMAT, "%s: more than 2^32 experts", params->name);
        class->n_expert = (uint32_t)n;
        class->n_minimum = params->n_expert_used;
        if (!rl_mul_u64(class->slot_bytes, n, &bytes) ||
            !rl_add_u64(plan->full_bytes, bytes, &plan->full_bytes))
            return rl_fail(err, RL_FORMAT, "%s: the experts do not fit 64 bits", params->name);
        plan->minimum_bytes += class->slot_bytes * class->n_minimum; /* <= full_bytes */
    }
    plan->n_expert = (uint32_t)n_expert;
    return RL_OK;
}

/* Gives every class `share` / `whole` of its experts; returns the bytes of all slots. */
static uint64_t give_share(rl_cache_plan *plan, uint32_t share, uint32_t whole)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < plan->n_class; c++) {
        rl_cache_plan_class *class = &plan->classes[c];
        class->n_slots = (uint32_t)((uint64_t) class->n_expert * share / whole);
        if (class->n_slots < class->n_minimum) class->n_slots = class->n_minimum;
        bytes += class->slot_bytes * class->n_slots;
    }
    return bytes;
}

static void split(rl_cache_plan *plan, uint64_t budget)
{
    uint32_t whole = 1;
    for (uint32_t c = 0; c < plan->n_class; c++)
        if (plan->classes[c].n_expert > whole) whole = plan->classes[c].n_expert;
    uint32_t fits = 0, too_much = whole;
    if (plan->full_bytes <= budget) fits = whole;
    while (fits + 1 < too_much) {
        uint32_t middle = fits + (too_much - fits) / 2;
        if (give_share(plan, middle, whole) <= budget)
            fits = middle;
        else
            too_much = middle;
    }
    plan->bytes = give_share(plan, fits, whole);
    for (bool gave = true; gave;) {
        gave = false;
        for (uint32_t c = 0; c < plan->n_class; c++) {
            rl_cache_plan_class *class = &plan->classes[c];
            if (class->n_slots == class->n_expert) continue;
            if (class->slot_bytes > budget - plan->bytes) continue;
            class->n_slots++;
            plan->bytes += class->slot_bytes;
            gave = true;
        }
    }
}

rl_status rl_cache_plan_init(rl_cache_plan *plan, const rl_cache_plan_params *params, rl_error *err)
{
    RL_ASSERT(plan && params && params->layer_bytes && params->name);
    RL_ASSERT(params->n_layer && params->n_expert_used);
    RL_ASSERT(params->n_expert_used <= params->n_expert);
    RL_ASSERT((params->align & (params->align - 1)) == 0);
    *plan = (rl_cache_plan){ .n_class = 0 };
    plan->classes = calloc(params->n_layer, sizeof *plan->classes);
    plan->layer_class = calloc(params->n_layer, sizeof *plan->layer_class);
    plan->class_slots = calloc(params->n_layer, sizeof *plan->class_slots);
    rl_status status = RL_OK;
    if (!plan->classes || !plan->layer_class || !plan->class_slots)
        status = rl_fail(err, RL_NOMEM, "%s: no memory to plan the expert pool", params->name);
    if (!status) status = find_classes(plan, params, err);
    if (!status && params->budget_bytes < plan->minimum_bytes)
        status = rl_fail(err, RL_INVALID,
                         "%s: an expert pool of %.1f MiB is too small, the minimum is %.0f MiB",
                         params->name, (double)params->budget_bytes / MIB,
                         (double)((plan->minimum_bytes + (1 << 20) - 1) >> 20));
    if (status) {
        rl_cache_plan_fini(plan);
        return status;
    }
    split(plan, params->budget_bytes);
    for (uint32_t c = 0; c < plan->n_class; c++) {
        plan->class_slots[c] = plan->classes[c].n_slots;
        plan->n_slots += plan->classes[c].n_slots;
    }
    plan->full = plan->n_slots == plan->n_expert;
    return RL_OK;
}

void rl_cache_plan_fini(rl_cache_plan *plan)
{
    free(plan->classes);
    free(plan->layer_class);
    free(plan->class_slots);
    *plan = (rl_cache_plan){ .n_class = 0 };
}
