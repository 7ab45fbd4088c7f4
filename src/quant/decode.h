/* decode.h - one plain-C decoder per tensor type, private to src/quant.
 *
 * rl_decode_NAME(blocks, n_blocks, out) writes n_blocks x (weights per block) floats. All products
 * are exact in binary32 and each weight has at most one rounding addition, so these loops are
 * allowed to be as simple as the format's description (docs/formats.md "Exactness"). */
#ifndef RL_QUANT_DECODE_H
#define RL_QUANT_DECODE_H

#include "quant/quant_list.h"

#define X(name, lower, id, weights, bytes)                                                         \
    void rl_decode_##lower(const void *blocks, size_t n_blocks, float *out);
RL_QUANT_LIST(X)
#undef X

#endif
