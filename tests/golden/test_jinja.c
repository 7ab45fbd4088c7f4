/* test_jinja.c - the template language against Python's jinja2: tests/fixtures/jinja/cases.json, made
 * by tools/templates/make_language_cases.py. */
#include "support/test.h"

#include <time.h>

#include "text/jinja.h"
#include "text/json.h"

/* Every template gives Python's text, or is refused where Python refuses it. What is not supported
 * must say so and stay rare.
 * Stands against: text that looks right and is slightly wrong. */
static void jinja_agrees_with_python(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_arena arena;
    rl_value file;
    size_t bytes, unsupported = 0, texts = 0;
    char *json = rl_test_read(rl_test_fixture("jinja/cases.json"), &bytes);
    setenv("TZ", "UTC", 1);
    tzset();
    rl_arena_init(&arena, 0);
    assert_ok(rl_json_read(&arena, json, bytes, "cases.json", 0, &file, &err));
    const rl_dict *variables = rl_dict_find_text(file.dict, "variables")->dict;
    const rl_list *cases = rl_dict_find_text(file.dict, "cases")->list;
    for (size_t i = 0; i < cases->count; i++) {
        const rl_string *template = cases->items[i].list->items[0].string;
        rl_value expected = cases->items[i].list->items[1];
        const rl_jinja_params params = { .now = 1700000000 };
        rl_arena work;
        rl_jinja *jinja;
        char *text = NULL;
        size_t text_bytes = 0;
        rl_arena_init(&work, (size_t)64 << 20);
        rl_status status = rl_jinja_parse(&jinja, template->at, template->bytes, "case", &err);
        if (!status)
            status = rl_jinja_render(jinja, &work, variables, &params, &text, &text_bytes, &err);
        rl_jinja_destroy(jinja);
        rl_arena_fini(&work);
        if (status == RL_UNSUPPORTED) {
            unsupported++;
        } else if (expected.kind == RL_VALUE_NONE) {
            if (!status)
                fail_msg("case %zu: Python refuses %s\nhere it gives %s", i, template->at, text);
        } else {
            if (status) fail_msg("case %zu: %s\nrefused: %s", i, template->at, err.text);
            if (text_bytes != expected.string->bytes ||
                memcmp(text, expected.string->at, text_bytes) != 0)
                fail_msg("case %zu: %s\nexpected %s\ngot      %s", i, template->at,
                         expected.string->at, text);
            texts++;
        }
        free(text);
    }
    print_message("%zu cases, %zu texts, %zu not supported\n", cases->count, texts, unsupported);
    assert_true(cases->count > 1000 && texts > 1000);
    assert_true(unsupported * 20 < cases->count);
    rl_arena_fini(&arena);
    free(json);
}

RL_TEST_MAIN(RL_TEST(jinja, agrees_with_python))
