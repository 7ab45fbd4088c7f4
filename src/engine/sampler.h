/* sampler.h - from logits to one token; rl_sampler_* of redlite.h, and what its tests look at.
 *
 * The same logits, parameters, seed and history give the same token on every machine. So nothing
 * here depends on a mathematics library: exp is our own, sums run in a stated order, and the file
 * is compiled without fused multiply-add.
 *
 * Order of the steps: bias, penalties, temperature, top-k, top-p, min-p, one draw.
 *   - candidates stand by logit, descending, equal logits by lower id ("the order")
 *   - logits that are NaN or -infinity are never chosen; +infinity beats every finite one
 *   - if no logit is left, token 0 is returned
 *   - top-p counts probabilities among what top-k left, in the order, and keeps the candidate that
 *     reaches p; at least one always stays
 *   - the draw is u in [0, 1) times the sum of the weights left, and walks them in the order; when
 *     neither top-k nor top-p can cut anything it walks them by ascending id, which needs no sorting
 * Tests: unit.sampler.* */
#ifndef RL_ENGINE_SAMPLER_H
#define RL_ENGINE_SAMPLER_H

#include "backend/backend.h"

/* e^x for x <= 0 in double, relative error below 1e-13; 0 for x < -700, NaN for NaN. The same bits
 * everywhere. */
double rl_sampler_exp(double x);

/* Number `draw` (from 0) of the stream of random numbers that belongs to `seed`: splitmix64 as a
 * counter, its start mixed once so that neighbouring seeds share nothing. */
uint64_t rl_sampler_random(uint64_t seed, uint64_t draw);

/* Whether the token is simply the largest logit of those handed in: no bias, no penalty, no
 * temperature. Then a backend may choose it itself. */
bool rl_sampler_is_plain_greedy(const rl_sampler *sampler);

/* How many of the largest logits rl_sampler_sample_top() needs at least; UINT32_MAX: nothing less than
 * all will do (something raises logits, or top-p alone sums over all of them). Whether so many are
 * enough depends on the logits: each that bias and penalties push down may cost one more. */
uint32_t rl_sampler_needs(const rl_sampler *sampler);

/* rl_sampler_sample() by the largest logits alone: the same token, draw and history as from all of
 * them. false, and nothing has happened, when a logit that is not among them could matter:
 *   - temperature 0    unless the first after bias and penalties stands before all that are not here
 *   - top-k            unless the k first do
 *   - min-p alone      unless even the last one here falls short of it
 *   - anything else    unless list->all */
bool rl_sampler_sample_top(rl_sampler *sampler, const rl_top_logits *list, uint32_t *token);

#endif
