/* stages_net.h - a small net of any shape with random weights, in a backend and as plain floats. */
#ifndef RL_SUPPORT_STAGES_NET_H
#define RL_SUPPORT_STAGES_NET_H

#include "backend/backend.h"

enum { RL_TEST_NET_LAYERS = 6 };

typedef struct rl_test_net {
    rl_net net;
    rl_layer layers[RL_TEST_NET_LAYERS];
    rl_backend *be;
    const rl_backend_ops *ops;
    uint64_t seed;
    float *plain[256]; /* decoded weights, in the order of allocation */
    rl_weight *weight[256];
    uint32_t n_plain;
    float *experts[RL_TEST_NET_LAYERS][3]; /* [E][F][H], [E][F][H], [E][H][F] decoded */
} rl_test_net;

typedef struct rl_test_net_params {
    rl_shape shape;
    const char *recurrent; /* per layer 'G' or 'A' */
    uint32_t dense_type, expert_type, down_type;
    uint32_t threads, max_batch;
    const char *isa;
} rl_test_net_params;

/* On the cpu backend; asserts that everything goes well. Types: F32, F16 or Q8_0. */
rl_test_net *rl_test_net_create(const rl_test_net_params *params);
void rl_test_net_destroy(rl_test_net *net);

/* The weight's values, decoded. */
const float *rl_test_net_plain(const rl_test_net *net, const rl_weight *weight);

#endif
