/* bpe.c - text/bpe.h.
 *
 * Most pieces are words of a few bytes: for them a scan over an array on the stack is the fastest
 * way to the lowest rank. A piece can also be a run of a million letters, and a scan per merge
 * would then take minutes; long pieces use a linked list of symbols and a tournament tree over
 * their positions, whose root is the next merge. Ties go to the left in both. */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { SHORT_PIECE = 64 };

#define NO_RANK UINT32_MAX
#define NONE    UINT32_MAX

static size_t place_of(const rl_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    return (size_t)((key ^ key >> 29) * 0x9e3779b97f4a7c15u >> (64 - bpe->table_bits));
}

rl_status rl_bpe_init(rl_bpe *bpe, size_t n_merges, rl_error *err)
{
    *bpe = (rl_bpe){ .table_bits = 4 };
    while (((size_t)3 << bpe->table_bits) / 4 < n_merges)
        bpe->table_bits++;
    size_t bytes = sizeof *bpe->table << bpe->table_bits;
    bpe->table = malloc(bytes);
    if (!bpe->table) return rl_fail(err, RL_NOMEM, "no memory for %zu merges", n_merges);
    memset(bpe->table, 0xff, bytes); /* every left is RL_BPE_NO_TOKEN */
    return RL_OK;
}

void rl_bpe_fini(rl_bpe *bpe)
{
    free(bpe->table);
    bpe->table = NULL;
}

/* The place of a pair, or the empty one where it would go. */
static rl_bpe_merge *find(const rl_bpe *bpe, uint32_t left, uint32_t right)
{
    size_t mask = ((size_t)1 << bpe->table_bits) - 1;
    size_t at = place_of(bpe, left, right);
    while (bpe->table[at].left != RL_BPE_NO_TOKEN &&
           (bpe->table[at].left != left || bpe->table[at].right != right))
        at = (at + 1) & mask;
    return &bpe->table[at];
}

void rl_bpe_add(rl_bpe *bpe, const rl_bpe_merge *merge)
{
    RL_ASSERT(merge->left != RL_BPE_NO_TOKEN && merge->rank != NO_RANK);
    rl_bpe_merge *place = find(bpe, merge->left, merge->right);
    if (place->left == RL_BPE_NO_TOKEN) *place = *merge;
}

/* ---- short pieces --------------------------------------------------------------------------- */

/* What joining a symbol with the one behind it would give. */
typedef struct short_symbol {
    uint32_t id;
    uint32_t rank; /* NO_RANK: no such merge */
    uint32_t merged;
} short_symbol;

static void look_up(const rl_bpe *bpe, short_symbol *at)
{
    const rl_bpe_merge *merge = find(bpe, at[0].id, at[1].id);
    at->rank = merge->rank; /* an empty place is all ones: NO_RANK */
    at->merged = merge->merged;
}

static size_t encode_short(const rl_bpe *bpe, const uint8_t *piece, size_t n, uint32_t *out)
{
    short_symbol s[SHORT_PIECE];
    for (size_t i = 0; i < n; i++)
        s[i].id = bpe->byte_token[piece[i]];
    for (size_t i = 0; i + 1 < n; i++)
        look_up(bpe, &s[i]);
    s[n - 1].rank = NO_RANK;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            if (s[i].rank < s[best].rank) best = i;
        if (s[best].rank == NO_RANK) break;
        s[best].id = s[best].merged;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof s[0]);
        if (best + 1 < n)
            look_up(bpe, &s[best]);
        else
            s[best].rank = NO_RANK;
        if (best > 0) look_up(bpe, &s[best - 1]);
    }
    for (size_t i = 0; i < n; i++)
        out[i] = s[i].id;
    return n;
}

/* ---- long pieces ---------------------------------------------------------------------------- */

/* Symbols are known by the position of their first byte. */
typedef struct long_piece {
    const rl_bpe *bpe;
    uint32_t n;
    uint32_t *id;
    uint32_t *before; /* position of the symbol to the left, NONE            */
    uint32_t *behind; /* position of the symbol to the right, NONE           */
    uint32_t *rank;   /* of the merge with the symbol behind, NO_RANK        */
    uint32_t *winner; /* tree: node k has children 2k, 2k+1; leaves implicit */
    uint32_t leaves;  /* a power of two >= n                                 */
} long_piece;

/* The position that wins below a node: nodes from `leaves` on are the positions themselves. */
static uint32_t winner_of(const long_piece *p, uint32_t node)
{
    if (node < p->leaves) return p->winner[node];
    return node - p->leaves < p->n ? node - p->leaves : NONE;
}

static void play(const long_piece *p, uint32_t node)
{
    uint32_t left = winner_of(p, 2 * node), right = winner_of(p, 2 * node + 1);
    bool right_wins = right != NONE && p->rank[right] < p->rank[left];
    p->winner[node] = right_wins ? right : left;
}

/* Looks up what `position` can join with now, and plays its way up the tree, as far as that
 * changes anything. */
static void set_rank(const long_piece *p, uint32_t position)
{
    uint32_t behind = p->behind[position];
    uint32_t rank = NO_RANK;
    if (behind != NONE) rank = find(p->bpe, p->id[position], p->id[behind])->rank;
    if (rank == p->rank[position]) return;
    p->rank[position] = rank;
    for (uint32_t node = (p->leaves + position) / 2; node; node /= 2) {
        uint32_t before = p->winner[node];
        play(p, node);
        if (p->winner[node] == before && before != position) break;
    }
}

static void join(const long_piece *p, uint32_t left)
{
    uint32_t right = p->behind[left];
    p->id[left] = find(p->bpe, p->id[left], p->id[right])->merged;
    p->behind[left] = p->behind[right];
    if (p->behind[right] != NONE) p->before[p->behind[right]] = left;
    p->behind[right] = NONE;
    set_rank(p, right);
    set_rank(p, left);
    if (p->before[left] != NONE) set_rank(p, p->before[left]);
}

static rl_status reserve(rl_bpe_scratch *scratch, size_t words, rl_error *err)
{
    if (words <= scratch->capacity) return RL_OK;
    free(scratch->words);
    scratch->words = malloc(words * sizeof *scratch->words);
    scratch->capacity = scratch->words ? words : 0;
    if (!scratch->words)
        return rl_fail(err, RL_NOMEM, "no memory for a piece of %zu bytes of text",
                       words * sizeof(uint32_t));
    return RL_OK;
}

static rl_status encode_long(const rl_bpe *bpe, rl_bpe_scratch *scratch, const uint8_t *piece,
                             uint32_t n, rl_tokens *out, rl_error *err)
{
    uint32_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    rl_status status = reserve(scratch, (size_t)4 * n + leaves, err);
    if (status) return status;
    uint32_t *words = scratch->words;
    const long_piece p = { .bpe = bpe,
                           .n = n,
                           .leaves = leaves,
                           .id = words,
                           .before = words + n,
                           .behind = words + (size_t)2 * n,
                           .rank = words + (size_t)3 * n,
                           .winner = words + (size_t)4 * n };
    for (uint32_t i = 0; i < n; i++) {
        p.id[i] = bpe->byte_token[piece[i]];
        p.before[i] = i ? i - 1 : NONE;
        p.behind[i] = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        p.rank[i] = find(bpe, p.id[i], p.id[i + 1])->rank;
    p.rank[n - 1] = NO_RANK;
    for (uint32_t node = leaves - 1; node; node--)
        play(&p, node);
    uint32_t n_left = n;
    for (; p.rank[p.winner[1]] != NO_RANK; n_left--)
        join(&p, p.winner[1]);
    status = rl_tokens_reserve(out, n_left, err);
    if (status) return status;
    for (uint32_t i = 0; i != NONE; i = p.behind[i])
        out->ids[out->n++] = p.id[i];
    return RL_OK;
}

rl_status rl_bpe_encode(const rl_bpe *bpe, rl_bpe_scratch *scratch, const char *piece, size_t bytes,
                        rl_tokens *out, rl_error *err)
{
    RL_ASSERT(bytes < UINT32_MAX / 2);
    if (!bytes) return RL_OK;
    if (bytes > SHORT_PIECE)
        return encode_long(bpe, scratch, (const uint8_t *)piece, (uint32_t)bytes, out, err);
    rl_status status = rl_tokens_reserve(out, bytes, err);
    if (status) return status;
    out->n += encode_short(bpe, (const uint8_t *)piece, bytes, out->ids + out->n);
    return RL_OK;
}

void rl_bpe_scratch_fini(rl_bpe_scratch *scratch)
{
    free(scratch->words);
    *scratch = (rl_bpe_scratch){ 0 };
}
