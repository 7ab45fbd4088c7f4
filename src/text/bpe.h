/* bpe.h - byte pair encoding: the bytes of one piece become token ids by a list of merges.
 *
 * The rule: start from the tokens of single bytes; of all neighbours that are a pair of the list,
 * join the one that stands first in it (the leftmost, where that occurs more than once); repeat
 * until no neighbours are a pair. There is no other way into the vocabulary.
 * Rule: docs/text.md. Threads: an rl_bpe is immutable once filled; an rl_bpe_scratch belongs to one
 * thread. */
#ifndef RL_TEXT_BPE_H
#define RL_TEXT_BPE_H

#include "text/tokens.h"

#define RL_BPE_NO_TOKEN UINT32_MAX

/* One merge: the tokens `left` and `right` become `merged`; lower ranks go first. */
typedef struct rl_bpe_merge {
    uint32_t left; /* RL_BPE_NO_TOKEN: an empty place of the table */
    uint32_t right;
    uint32_t rank;
    uint32_t merged;
} rl_bpe_merge;

typedef struct rl_bpe {
    uint32_t byte_token[256]; /* the token of each single byte            */
    rl_bpe_merge *table;      /* open addressing, linear probing          */
    uint32_t table_bits;      /* 1 << table_bits places, at most 3/4 full */
} rl_bpe;

/* Storage for long pieces; zeroed is ready. */
typedef struct rl_bpe_scratch {
    uint32_t *words;
    size_t capacity;
} rl_bpe_scratch;

/* An empty table for up to n_merges. byte_token[] is the caller's to fill. */
RL_MUST_CHECK rl_status rl_bpe_init(rl_bpe *bpe, size_t n_merges, rl_error *err);
void rl_bpe_fini(rl_bpe *bpe);

/* Adds a merge. Of two merges of the same pair the one added first stays. */
void rl_bpe_add(rl_bpe *bpe, const rl_bpe_merge *merge);

/* Appends the ids of the `bytes` < 2^32 bytes of one piece. Time O(bytes log bytes); for pieces
 * above 64 bytes the scratch grows to at most 24 times their size. */
RL_MUST_CHECK rl_status rl_bpe_encode(const rl_bpe *bpe, rl_bpe_scratch *scratch, const char *piece,
                                      size_t bytes, rl_tokens *out, rl_error *err);
void rl_bpe_scratch_fini(rl_bpe_scratch *scratch);

#endif
