/* cases.h - the list of malformed files, tests/fixtures/bad-gguf/expected.json. */
#ifndef RL_TESTS_SUPPORT_CASES_H
#define RL_TESTS_SUPPORT_CASES_H

#include <stdbool.h>
#include <stddef.h>

#define RL_TEST_CASE_WORDS 8

typedef struct rl_test_case {
    char file[96]; /* below fixtures/bad-gguf */
    bool loads;
    char words[RL_TEST_CASE_WORDS][32]; /* one of them must be in the sentence; "" ends the list */
} rl_test_case;

/* All cases; the caller frees. Fails the test when the list cannot be read. */
rl_test_case *rl_test_cases(size_t *n);

/* True when the sentence contains one of the words, in any case. */
bool rl_test_mentions(const rl_test_case *one, const char *sentence);

#endif
