/* router.c - the choice of experts, the same rule for every backend that chooses on the host.
 *
 * Softmax is monotone, so the order of probabilities is the order of logits, and dividing the chosen
 * probabilities by their sum is a softmax over the chosen logits. */
#include "backend/backend.h"

#include <math.h>

#include "base/assert.h"

void rl_router_topk(const float *logits, uint32_t n_expert, uint32_t k, uint32_t *ids,
                    float *weights)
{
    RL_ASSERT(k >= 1 && k <= n_expert);
    /* Insertion into a sorted list of k: a later index only passes a strictly smaller logit. */
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_expert; e++) {
        if (n == k && !(logits[e] > logits[ids[k - 1]])) continue;
        uint32_t at = n < k ? n : k - 1;
        while (at > 0 && logits[e] > logits[ids[at - 1]]) {
            ids[at] = ids[at - 1];
            at--;
        }
        ids[at] = e;
        if (n < k) n++;
    }
    rl_router_weights(logits, ids, k, weights);
}

void rl_router_weights(const float *logits, const uint32_t *ids, uint32_t k, float *weights)
{
    float largest = logits[ids[0]];
    for (uint32_t i = 1; i < k; i++)
        if (logits[ids[i]] > largest) largest = logits[ids[i]];
    float sum = 0;
    for (uint32_t i = 0; i < k; i++)
        sum += weights[i] = expf(logits[ids[i]] - largest);
    for (uint32_t i = 0; i < k; i++)
        weights[i] /= sum;
}
