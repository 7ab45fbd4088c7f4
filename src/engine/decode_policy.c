/* decode_policy.c - engine/decode_policy.h.
 *
 * A visit lasts VISIT tokens and is judged after BEHIND more of the way in use, against the mean of
 * what that way cost on both sides: costs fall while a pool fills, and whoever comes later would seem
 * cheaper. The first token after every change pays for it (recording, guesses that were not made) and
 * is not counted.
 *
 * How long until the next visit follows from what one costs: so long that all visits to this rival
 * together stay below COST_SHARE of the time. A rival that loses by 5 % is visited every 80 tokens
 * then, one that loses by 300 % after thousands. */
#include "engine/decode_policy.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

enum {
    SETTLE = 4,   /* tokens of the way in use before a visit                 */
    VISIT = 8,    /* tokens of a visit                                       */
    BEHIND = 5,   /* tokens of the way in use until it is judged             */
    SOONEST = 32, /* tokens between two visits to one rival, at least ...    */
    DOUBLINGS = 8 /* ... and at most twice as many for every visit, so often */
};
#define COST_SHARE   0.005
#define HOPELESS     1.5   /* times the usual cost: the visit ends at once        */
#define CLEARLY_LESS 0.98  /* of the cost: worth changing                         */
#define USUAL_WEIGHT 0.25  /* of the newest token                                 */
#define VISIT_WEIGHT 0.4   /* of the newest visit                                 */
#define READ_WEIGHT  0.1   /* of the newest token, for what was read              */
#define RESUME_SHARE 0.125 /* of the layers may read, so that resuming has a chance */
#define CLEAN_LEAST  0.5   /* of the tokens must need no layer, for restarting    */

void rl_decode_policy_init(rl_decode_policy *p, const bool available[RL_N_PATHS], uint32_t n_layer)
{
    RL_ASSERT(available[RL_PATH_SYNC] && n_layer);
    *p = (rl_decode_policy){ .n_layer = n_layer, .layers_read = n_layer };
    memcpy(p->available, available, sizeof p->available);
    p->in_use = p->visited = RL_PATH_SYNC;
    p->phase = RL_POLICY_BEFORE;
    for (rl_decode_path way = 0; way < RL_N_PATHS; way++)
        p->rivals[way] = (rl_decode_rival){ .ratio = 1, .due = SETTLE };
}

/* Whether what was read lately leaves the way a chance. */
static bool has_a_chance(const rl_decode_policy *p, rl_decode_path way)
{
    if (!p->available[way]) return false;
    if (way == RL_PATH_RESUME) return p->layers_read <= RESUME_SHARE * p->n_layer;
    if (way == RL_PATH_RESTART) return p->clean_share >= CLEAN_LEAST;
    return true;
}

rl_decode_path rl_decode_policy_choose(const rl_decode_policy *p)
{
    return p->phase == RL_POLICY_VISIT ? p->visited : p->in_use;
}

/* The rival that has been due for the longest; in_use when none is. */
static rl_decode_path next_visit(const rl_decode_policy *p)
{
    rl_decode_path best = p->in_use;
    for (rl_decode_path way = 0; way < RL_N_PATHS; way++) {
        if (way == p->in_use || !has_a_chance(p, way) || p->rivals[way].due > p->n_tokens) continue;
        if (best == p->in_use || p->rivals[way].due < p->rivals[best].due) best = way;
    }
    return best;
}

/* The visited way becomes the one in use; everybody's ratio is to the new one from now on. */
static void change(rl_decode_policy *p)
{
    const rl_decode_path before = p->in_use;
    const double ratio = p->rivals[p->visited].ratio;
    p->in_use = p->visited;
    for (rl_decode_path way = 0; way < RL_N_PATHS; way++)
        p->rivals[way].ratio /= ratio;
    p->rivals[before] = (rl_decode_rival){ 1 / ratio, 1, p->n_tokens + SOONEST };
}

static void judge(rl_decode_policy *p)
{
    rl_decode_rival *rival = &p->rivals[p->visited];
    const double usual = (p->before_ns + p->behind_ns / (BEHIND - 1)) / 2;
    const double ratio = p->visit_ns / p->n_visit / usual;
    const double least = 1.0 / ++rival->n_visits;
    rival->ratio += (least > VISIT_WEIGHT ? least : VISIT_WEIGHT) * (ratio - rival->ratio);
    if (rival->ratio < CLEARLY_LESS) {
        change(p);
        return;
    }
    const double loss = rival->ratio > 1 ? rival->ratio - 1 : 0;
    const uint32_t doublings = rival->n_visits < DOUBLINGS ? rival->n_visits : DOUBLINGS;
    const double most = (double)(SOONEST << doublings); /* one visit proves little */
    const double pause = p->n_visit * loss / COST_SHARE;
    rival->due = p->n_tokens + (uint64_t)(pause < SOONEST ? SOONEST : pause > most ? most : pause);
}

static void enter(rl_decode_policy *p, int phase)
{
    p->phase = phase;
    p->n_phase = 0;
}

void rl_decode_policy_learn(rl_decode_policy *p, rl_decode_path path, uint64_t ns,
                            uint32_t layers_read)
{
    RL_ASSERT(path == rl_decode_policy_choose(p));
    const double cost = (double)(ns ? ns : 1);
    p->n_tokens++;
    p->n_phase++;
    p->layers_read += READ_WEIGHT * (layers_read - p->layers_read);
    p->clean_share += READ_WEIGHT * ((layers_read ? 0 : 1) - p->clean_share);
    switch (p->phase) {
    case RL_POLICY_BEFORE:
        p->before_ns = p->n_phase <= 2 ? cost : p->before_ns + USUAL_WEIGHT * (cost - p->before_ns);
        if (p->n_phase < SETTLE) break;
        p->visited = next_visit(p);
        if (p->visited == p->in_use) break;
        p->visit_ns = p->behind_ns = 0;
        p->n_visit = 0;
        enter(p, RL_POLICY_VISIT);
        break;
    case RL_POLICY_VISIT:
        if (p->n_phase == 1) break;
        p->visit_ns += cost;
        p->n_visit++;
        if (p->n_phase == VISIT || p->visit_ns > HOPELESS * p->before_ns * p->n_visit)
            enter(p, RL_POLICY_BEHIND);
        break;
    case RL_POLICY_BEHIND:
        if (p->n_phase > 1) p->behind_ns += cost;
        if (p->n_phase < BEHIND) break;
        judge(p);
        enter(p, RL_POLICY_BEFORE);
        break;
    }
}
