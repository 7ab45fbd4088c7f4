/* decode_policy.h - which way the next token should take, from what the last ones cost.
 *
 * For a pool that does not hold every expert; knows nothing of engines or devices. One way is in use;
 * now and then another one is visited for a few tokens and held against it. What is compared are
 * neighbours in time, because what a token costs changes as the pool fills and as the text changes.
 * Ways that lose much at a miss are not visited at all while layers miss: a resumed token pays one
 * more submission and wait for every layer that read, a restarted one pays twice.
 *
 * Threads: the decoder's. No allocation. Tests: unit.decode_policy.* */
#ifndef RL_ENGINE_DECODE_POLICY_H
#define RL_ENGINE_DECODE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* The ways. RESTART and RESUME start as ROUTED tokens and differ in what a miss does. */
typedef enum rl_decode_path {
    RL_PATH_SYNC,    /* layer by layer, the host between router and experts      */
    RL_PATH_RESTART, /* on a miss: forget the token, decode it synchronously     */
    RL_PATH_RESUME,  /* on a miss: load that layer's experts, go on from there   */
    RL_PATH_GATED,   /* all layers ahead, each behind its gate                   */
    RL_N_PATHS
} rl_decode_path;

/* A way that is not in use, held against the one that is. */
typedef struct rl_decode_rival {
    double ratio; /* its cost over that of the way in use, mean of the visits; below 1: cheaper */
    uint32_t
        n_visits; /* behind that mean, later ones counting more                                 */
    uint64_t due; /* the token from which on it may be visited again                            */
} rl_decode_rival;

typedef struct rl_decode_policy {
    bool available[RL_N_PATHS];
    uint32_t n_layer;
    uint64_t n_tokens; /* learnt from */

    rl_decode_path in_use;
    rl_decode_rival rivals[RL_N_PATHS];

    /* The way in use before a visit, the visited one, and the way in use again behind it. */
    enum { RL_POLICY_BEFORE, RL_POLICY_VISIT, RL_POLICY_BEHIND } phase;
    rl_decode_path visited;     /* or was last */
    uint32_t n_phase;           /* tokens of this phase so far                             */
    double before_ns;           /* the way in use lately, the newest tokens counting most  */
    double visit_ns, behind_ns; /* sums over all tokens of the phase but the first     */
    uint32_t n_visit;           /* tokens in visit_ns */

    double layers_read; /* per token lately                      */
    double clean_share; /* tokens lately for which no layer read */
} rl_decode_policy;

/* SYNC is always available. */
void rl_decode_policy_init(rl_decode_policy *policy, const bool available[RL_N_PATHS],
                           uint32_t n_layer);

rl_decode_path rl_decode_policy_choose(const rl_decode_policy *policy);

/* A token has been decoded by `path`, which was what choose said, in ns; for layers_read of its
 * layers something had to be read. Failed tokens are not told. */
void rl_decode_policy_learn(rl_decode_policy *policy, rl_decode_path path, uint64_t ns,
                            uint32_t layers_read);

#endif
