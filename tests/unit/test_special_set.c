/* test_special_set.c - leftmost-longest search. */
#include "support/test.h"

#include "base/bytes.h"
#include "text/special_set.h"

static const rl_special *search_by_the_book(const rl_special *items, uint32_t n, const char *text,
                                            size_t bytes, size_t at, size_t *found)
{
    for (; at < bytes; at++) {
        const rl_special *best = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (items[i].bytes <= bytes - at && !memcmp(items[i].text, text + at, items[i].bytes) &&
                (!best || items[i].bytes > best->bytes))
                best = &items[i];
        if (best) {
            *found = at;
            return best;
        }
    }
    return NULL;
}

/* Random sets over two letters, where texts are prefixes of each other.
 * Stands against: the longest match lost behind a shorter one, and a match past the end. */
static void special_set_search_is_leftmost_longest(void **state)
{
    (void)state;
    rl_error err = { "" };
    uint64_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        char texts[12][8];
        rl_special items[12];
        uint32_t n = 0, wanted = (uint32_t)(rl_test_random(&seed) % 13);
        for (uint32_t i = 0; i < wanted; i++) {
            uint32_t bytes = 1 + (uint32_t)(rl_test_random(&seed) % 6);
            for (uint32_t k = 0; k < bytes; k++)
                texts[n][k] = rl_test_random(&seed) % 3 ? 'a' : '\xff';
            bool twice = false;
            for (uint32_t k = 0; k < n; k++)
                twice |= items[k].bytes == bytes && !memcmp(items[k].text, texts[n], bytes);
            if (twice) continue;
            items[n] = (rl_special){ .text = texts[n], .bytes = bytes, .id = 100 + n };
            n++;
        }
        rl_special_set set;
        assert_ok(rl_special_set_init(&set, items, n, &err));
        for (int k = 0; k < 10; k++) {
            size_t bytes = rl_test_random(&seed) % 12, at = rl_test_random(&seed) % (bytes + 1);
            char *text = malloc(bytes + 1); /* to the byte, for the sanitizer */
            char *exact = bytes ? text : NULL;
            for (size_t i = 0; i < bytes; i++)
                text[i] = "aa\xff"
                          "b"[rl_test_random(&seed) % 4];
            size_t found = 99, expected = 99;
            const rl_special *item = rl_special_set_search(&set, exact, bytes, at, &found);
            const rl_special *other = search_by_the_book(items, n, text, bytes, at, &expected);
            assert_int_equal(item ? item->id : 0, other ? other->id : 0);
            assert_int_equal(found, expected);
            const rl_special *named = rl_special_set_find(&set, exact, bytes);
            other = bytes ? search_by_the_book(items, n, text, bytes, 0, &expected) : NULL;
            bool whole = other && expected == 0 && other->bytes == bytes;
            assert_int_equal(named ? named->id : 0, whole ? other->id : 0);
            free(text);
        }
        rl_special_set_fini(&set);
    }
}

RL_TEST_MAIN(RL_TEST(special_set, search_is_leftmost_longest))
