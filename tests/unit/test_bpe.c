/* test_bpe.c - byte pair encoding against the rule as it is written down. */
#include "support/test.h"

#include <time.h>

#include "text/bpe.h"

/* Random merges over an alphabet of `letters` bytes; token ids run on from 256. */
static void random_merges(rl_bpe *bpe, uint64_t *seed, uint32_t letters, uint32_t n)
{
    rl_error err = { "" };
    assert_ok(rl_bpe_init(bpe, n, &err));
    for (uint32_t b = 0; b < 256; b++)
        bpe->byte_token[b] = 255 - b;
    uint32_t n_tokens = letters;
    for (uint32_t rank = 0; rank < n; rank++, n_tokens++) {
        uint32_t pick[2];
        for (int k = 0; k < 2; k++) {
            uint32_t t = (uint32_t)(rl_test_random(seed) % n_tokens);
            pick[k] = t < letters ? bpe->byte_token['a' + t] : 256 + t - letters;
        }
        const rl_bpe_merge merge = {
            .left = pick[0], .right = pick[1], .rank = rank, .merged = 256 + rank
        };
        rl_bpe_add(bpe, &merge);
    }
}

/* The table entry of a pair, found by walking over the whole table. */
static const rl_bpe_merge *merge_of(const rl_bpe *bpe, uint32_t left, uint32_t right)
{
    for (size_t i = 0; i < (size_t)1 << bpe->table_bits; i++)
        if (bpe->table[i].left == left && bpe->table[i].right == right) return &bpe->table[i];
    return NULL;
}

static size_t encode_by_the_book(const rl_bpe *bpe, const char *piece, size_t n, uint32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = bpe->byte_token[(uint8_t)piece[i]];
    for (;;) {
        const rl_bpe_merge *best = NULL;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const rl_bpe_merge *merge = merge_of(bpe, ids[i], ids[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                where = i;
            }
        }
        if (!best) return n;
        ids[where] = best->merged;
        n--;
        memmove(ids + where + 1, ids + where + 2, (n - where - 1) * sizeof *ids);
    }
}

/* Pieces of every length around the border of the two ways, few letters, so that pairs overlap.
 * Stands against: a tie that goes to the right, a stale neighbour, a merge missed at an end. */
static void bpe_follows_the_rule(void **state)
{
    (void)state;
    rl_error err = { "" };
    uint64_t seed = 5;
    rl_tokens out = { 0 };
    rl_bpe_scratch scratch = { 0 };
    for (int round = 0; round < 150; round++) {
        rl_bpe bpe;
        uint32_t letters = 1 + (uint32_t)(rl_test_random(&seed) % 3);
        random_merges(&bpe, &seed, letters, (uint32_t)(rl_test_random(&seed) % 24));
        for (int k = 0; k < 12; k++) {
            char piece[300];
            uint32_t ids[300];
            size_t n = k < 8 ? rl_test_random(&seed) % 70 : rl_test_random(&seed) % sizeof piece;
            for (size_t i = 0; i < n; i++)
                piece[i] = (char)('a' + rl_test_random(&seed) % letters);
            size_t expected = encode_by_the_book(&bpe, piece, n, ids);
            out.n = 0;
            assert_ok(rl_bpe_encode(&bpe, &scratch, piece, n, &out, &err));
            assert_int_equal(out.n, expected);
            if (expected) assert_memory_equal(out.ids, ids, expected * sizeof *ids);
        }
        rl_bpe_fini(&bpe);
    }
    rl_tokens_fini(&out);
    rl_bpe_scratch_fini(&scratch);
}

/* Stands against: a second listing of a pair that takes the first one's place. */
static void bpe_keeps_the_first_of_equal_pairs(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_bpe bpe;
    assert_ok(rl_bpe_init(&bpe, 3, &err));
    for (uint32_t b = 0; b < 256; b++)
        bpe.byte_token[b] = b;
    rl_bpe_add(&bpe, &(rl_bpe_merge){ .left = 'a', .right = 'b', .rank = 0, .merged = 256 });
    rl_bpe_add(&bpe, &(rl_bpe_merge){ .left = 'b', .right = 'c', .rank = 1, .merged = 257 });
    rl_bpe_add(&bpe, &(rl_bpe_merge){ .left = 'a', .right = 'b', .rank = 2, .merged = 258 });
    rl_tokens out = { 0 };
    rl_bpe_scratch scratch = { 0 };
    assert_ok(rl_bpe_encode(&bpe, &scratch, "abc", 3, &out, &err));
    assert_int_equal(out.n, 2);
    assert_int_equal(out.ids[0], 256);
    assert_int_equal(out.ids[1], 'c');
    rl_tokens_fini(&out);
    rl_bpe_fini(&bpe);
}

/* One piece of four million letters.
 * Stands against: quadratic time, which would be hours, and memory beyond what the header says. */
static void bpe_takes_long_pieces(void **state)
{
    (void)state;
    enum { N = 4000000 };
    rl_error err = { "" };
    uint64_t seed = 9;
    rl_bpe bpe;
    random_merges(&bpe, &seed, 2, 40);
    char *piece = malloc(N);
    assert_non_null(piece);
    for (int i = 0; i < N; i++)
        piece[i] = (char)('a' + rl_test_random(&seed) % 2);
    rl_tokens out = { 0 };
    rl_bpe_scratch scratch = { 0 };
    clock_t start = clock();
    assert_ok(rl_bpe_encode(&bpe, &scratch, piece, N, &out, &err));
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
    assert_true(out.n > 0 && out.n < N);
    assert_true(scratch.capacity * sizeof *scratch.words <= (size_t)24 * N);
    rl_tokens_fini(&out);
    rl_bpe_scratch_fini(&scratch);
    rl_bpe_fini(&bpe);
    free(piece);
}

RL_TEST_MAIN(RL_TEST(bpe, follows_the_rule), RL_TEST(bpe, keeps_the_first_of_equal_pairs),
             RL_TEST(bpe, takes_long_pieces))
