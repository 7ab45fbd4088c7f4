/* quant.h - the tensor types of GGUF: names, block sizes, plain-C decoding.
 *
 * One list (quant_list.h) binds every type to its block struct and size. Decoding here is the
 * definition that every kernel is tested against; it is exact, see docs/formats.md "Exactness".
 * Threads: pure functions. */
#ifndef RL_QUANT_QUANT_H
#define RL_QUANT_QUANT_H

#include "base/status.h"
#include "quant/quant_list.h"

typedef struct rl_quant_info {
    const char *name;     /* "IQ2_XXS"                     */
    uint32_t type;        /* ggml id as stored in files    */
    uint32_t block;       /* weights per block             */
    uint32_t block_bytes; /* bytes per block               */
} rl_quant_info;

/* NULL for ids that are unknown or retired; rl_quant_refusal() says which. */
const rl_quant_info *rl_quant_find(uint32_t type);

/* The type by its name, any case; NULL when there is none. */
const rl_quant_info *rl_quant_find_name(const char *name);

/* Number of types, and the i-th of them in the order of the list. */
uint32_t rl_quant_count(void);
const rl_quant_info *rl_quant_at(uint32_t index);

/* Why `type` is refused, for error sentences: "retired type 4 (Q4_2)", "type 144 (the file seems to
 * come from a fork with its own types)", "unknown type 77". Writes at most `bytes`. */
void rl_quant_refusal(uint32_t type, char *out, size_t bytes);

/* Bytes of n_values weights; false when that is no whole number of blocks, or does not fit. */
bool rl_quant_bytes(const rl_quant_info *info, uint64_t n_values, uint64_t *bytes);

/* Decodes n_values (a multiple of the block, asserted) weights to f32. `blocks`: any alignment. */
void rl_quant_decode(const rl_quant_info *info, const void *blocks, size_t n_values, float *out);

#endif
