/* parity_run.h - the oracle's account of a text, and a backend held against it.
 *
 * The oracle reads a prompt and goes on greedily; what it saw is recorded: router logits and choices
 * of every (token, layer), logits behind every token. A backend then replays the same tokens. Where
 * its choice of experts differs at a near-tie, the oracle's choice is forced into it, so that what
 * follows can still be compared; a difference that is no near-tie is counted as wrong.
 * Near-tie: the oracle's logits of rank k and k+1 differ by less than 1e-4 of the standard deviation
 * of that token's router logits (docs/numerics.md). */
#ifndef RL_CLI_PARITY_RUN_H
#define RL_CLI_PARITY_RUN_H

#include "engine/decode.h"
#include "engine/experts.h"
#include "engine/session.h"

typedef struct parity_script {
    uint32_t *tokens; /* [n] prompt and greedy continuation */
    uint32_t n_prompt, n;
    uint32_t n_layer, n_expert, k, n_vocab;
    float *logits;  /* [n][n_vocab] behind every token */
    uint32_t *ids;  /* [n][n_layer][k] */
    bool *near_tie; /* [n][n_layer] */
} parity_script;

/* What a replay showed. */
typedef struct parity_figures {
    double worst_l2, worst_abs, mean_kl, max_kl;
    uint64_t pairs, near_ties, differing,
        wrong; /* (token, layer) pairs; differing includes wrong */
    uint32_t other_top1, positions;
} parity_figures;

/* Records the script: `prompt` [n_prompt], then up to n_more greedy tokens. */
rl_status parity_record(parity_script *out, rl_session *oracle, const uint32_t *prompt,
                        uint32_t n_prompt, uint32_t n_more, rl_error *err);
void parity_script_fini(parity_script *script);

/* Replays stage by stage from an empty session: prompt as a batch, the rest token by token. */
rl_status parity_replay(const parity_script *script, rl_session *session, parity_figures *out,
                        rl_error *err);

/* Replays as a user's session would, without looking inside: logits of the tokens behind the prompt
 * to `logits` [n - n_prompt][n_vocab]. */
rl_status parity_play(const parity_script *script, rl_session *session, float *logits,
                      rl_error *err);

/* Differences of played logits from the oracle's. */
void parity_compare(const parity_script *script, const float *logits, parity_figures *out);

/* Continues the prompt greedily and returns how many tokens equal the script's before the first
 * place where the oracle's best two logits are closer than `gap`; *expected gets how many there are
 * up to that place. */
rl_status parity_greedy(const parity_script *script, rl_session *session, double gap,
                        uint32_t *equal, uint32_t *expected, rl_error *err);

#endif
