/* cases.c - tests/support/cases.h. */
#include "support/cases.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "support/test.h"

rl_test_case *rl_test_cases(size_t *n)
{
    size_t bytes;
    char *text = rl_test_read(rl_test_fixture("bad-gguf/expected.json"), &bytes);
    cJSON *list = cJSON_Parse(text);
    free(text);
    assert_true(cJSON_IsArray(list));
    *n = (size_t)cJSON_GetArraySize(list);
    rl_test_case *cases = calloc(*n, sizeof *cases);
    assert_non_null(cases);
    size_t i = 0;
    const cJSON *item, *word;
    cJSON_ArrayForEach(item, list)
    {
        rl_test_case *one = &cases[i++];
        const char *file = cJSON_GetStringValue(cJSON_GetObjectItem(item, "file"));
        assert_true(file && strlen(file) < sizeof one->file);
        strcpy(one->file, file);
        one->loads = cJSON_IsTrue(cJSON_GetObjectItem(item, "loads"));
        size_t words = 0;
        cJSON_ArrayForEach(word, cJSON_GetObjectItem(item, "mention_any"))
        {
            const char *w = cJSON_GetStringValue(word);
            assert_true(words < RL_TEST_CASE_WORDS && strlen(w) < sizeof one->words[0]);
            strcpy(one->words[words++], w);
        }
        assert_true(one->loads == (words == 0));
    }
    cJSON_Delete(list);
    return cases;
}

bool rl_test_mentions(const rl_test_case *one, const char *sentence)
{
    for (size_t i = 0; i < RL_TEST_CASE_WORDS && one->words[i][0]; i++)
        if (strcasestr(sentence, one->words[i])) return true;
    return false;
}
