/* remake.h - GGUF files that tests make out of others, with the project's own writer. */
#ifndef RL_TESTS_SUPPORT_REMAKE_H
#define RL_TESTS_SUPPORT_REMAKE_H

#include "gguf/gguf.h"

/* The path of a model by its name without ".gguf". Most lie in fixtures/models; three are made on
 * the first call (again by every process, under a name of its own):
 *     tiny-s-split-F16    three parts of tiny-s-F16, the path names the first
 *     tiny-s-legacy-Q8_0  tiny-s-Q8_0 with fused ssm_in instead of attn_qkv and attn_gate
 *     tiny-s-mtp-Q8_0     tiny-s-Q8_0 with one more block, for multi token prediction, random
 * Their numbers equal those of their sources; rl_test_model_source() says which that is. The path
 * is in static storage of 8 rotating buffers. Fails the test when something goes wrong. */
const char *rl_test_model(const char *name);
const char *rl_test_model_source(const char *name);

/* ---- single changes -------------------------------------------------------------------------- */

typedef enum rl_test_change_kind {
    RL_TEST_SET_U32,       /* key = number                                                  */
    RL_TEST_SET_I32,       /* key = (int32_t)number                                         */
    RL_TEST_SET_U64,       /* key = number                                                  */
    RL_TEST_SET_F32,       /* key = real                                                    */
    RL_TEST_SET_TEXT,      /* key = text                                                    */
    RL_TEST_SET_I32S,      /* key = array of `count` i32, all number except [at] = other    */
    RL_TEST_SET_BOOLS,     /* the same with bools                                           */
    RL_TEST_DROP_KEY,      /*                                                               */
    RL_TEST_DROP_TENSOR,   /*                                                               */
    RL_TEST_RENAME_TENSOR, /* name becomes text                                             */
    RL_TEST_RESHAPE,       /* name gets type `number` and dims, its bytes become zeros      */
    RL_TEST_ADD_TENSOR     /* name, type `number`, dims; zeros                              */
} rl_test_change_kind;

typedef struct rl_test_change {
    rl_test_change_kind kind;
    const char *name; /* of the key or tensor; a key gains "qwen3next." in front if it starts with
                         a dot */
    uint64_t number;
    double real;
    const char *text;
    uint64_t dims[4]; /* 0: not there */
    uint32_t count, at;
    int32_t other;
} rl_test_change;

/* Writes `out` as `source` with the changes. Fails the test when that does not work. */
void rl_test_edit(const char *source, const char *out, const rl_test_change *changes, size_t n);

#endif
