/* stages_reference.h - every stage of a net computed directly in double, token by token.
 *
 * docs/qwen3next.md written down once more, slowly; nothing is shared with a backend but the weights. Every
 * intermediate value that a backend can show is kept. */
#ifndef RL_SUPPORT_STAGES_REFERENCE_H
#define RL_SUPPORT_STAGES_REFERENCE_H

#include "support/stages_net.h"

typedef struct rl_test_trace_layer {
    double *mix, *out;     /* [T][H] residual stream after the mixer and after the layer */
    double *router;        /* [T][E] */
    uint32_t *ids;         /* [T][K] */
    double *weights;       /* [T][K] */
    double *conv, *s;      /* [C-1][channels], [Hv][D][D] at the end */
    double *keys, *values; /* [T][n_head_kv d] */
} rl_test_trace_layer;

typedef struct rl_test_trace {
    uint32_t n; /* tokens */
    uint32_t *tokens;
    double *embed, *final, *logits; /* [T][..] */
    rl_test_trace_layer layer[RL_TEST_NET_LAYERS];
} rl_test_trace;

/* A random text of n_tokens through the net; rl_test_trace_free(). */
rl_test_trace *rl_test_reference(const rl_test_net *net, uint32_t n_tokens);
void rl_test_trace_free(rl_test_trace *trace);

/* Turns the first n_rot values of a head [head_dim] in place, pairs (i, i + n_rot/2). */
void rl_test_rotate(const rl_shape *shape, uint32_t position, double *head);
double *rl_test_doubles(size_t n); /* zeros; the caller frees */

#endif
