/* fake_routed.h - the oracle with a routed step, so that the engine's decoder can be tested without
 * a device. It runs the oracle's stages on the host, halts, gates and guesses as docs/gpu-routing.md
 * says, and counts submissions and waits in the oracle's counters. One engine at a time may use it. */
#ifndef RL_TESTS_SUPPORT_FAKE_ROUTED_H
#define RL_TESTS_SUPPORT_FAKE_ROUTED_H

#include "backend/backend.h"

const rl_backend_ops *fake_routed_ops(void);

#endif
