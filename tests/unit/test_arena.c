/* test_arena.c - the arena: alignment, growth, and a limit that holds. */
#include "support/test.h"

#include "base/arena.h"

/* Pieces of any size are aligned, apart from each other, and stay where they are. */
static void arena_gives_separate_pieces(void **state)
{
    (void)state;
    enum { N = 3000 };
    static unsigned char *piece[N];
    static size_t bytes[N];
    uint64_t seed = 7;
    rl_arena arena;
    rl_arena_init(&arena, 0);
    for (int i = 0; i < N; i++) {
        bytes[i] = rl_test_random(&seed) % (i % 100 == 0 ? 300000 : 200);
        piece[i] = rl_arena_alloc(&arena, bytes[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
        memset(piece[i], i % 251, bytes[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < bytes[i]; k++)
            if (piece[i][k] != i % 251) fail_msg("piece %d was overwritten", i);
    const char *text = rl_arena_copy_text(&arena, "abc\0d", 5);
    assert_memory_equal(text, "abc\0d", 6);
    rl_arena_fini(&arena);
    rl_arena_fini(&arena);
}

/* Never more than the limit is taken, nearly all of it can be used, and the arena says why it gives
 * nothing. Stands against: hostile input that takes all memory. */
static void arena_keeps_its_limit(void **state)
{
    (void)state;
    for (size_t limit = 100; limit < 3000000; limit = limit * 3 / 2) {
        rl_arena arena;
        size_t used = 0;
        rl_arena_init(&arena, limit);
        while (rl_arena_alloc(&arena, 64))
            used += 64;
        assert_true(arena.over_limit);
        assert_true(arena.taken_bytes <= limit);
        assert_true(used + limit / 4 + 200 > limit);
        assert_null(rl_arena_alloc(&arena, SIZE_MAX));
        assert_null(rl_arena_alloc(&arena, limit));
        rl_arena_fini(&arena);
        assert_int_equal(arena.taken_bytes, 0);
        assert_int_equal(arena.limit_bytes, limit);
    }
}

RL_TEST_MAIN(RL_TEST(arena, gives_separate_pieces), RL_TEST(arena, keeps_its_limit))
