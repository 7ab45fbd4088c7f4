/* test_chat.c - reading JSON, parsing a template and rendering, when the n-th allocation fails. */
#include "support/fault.h"
#include "support/test.h"

#include "text/chat.h"
#include "text/json.h"

/* Parses and renders; everything is freed again but *text. */
static rl_status run(const char *template, size_t template_bytes, const char *json, char **text,
                     size_t *bytes, rl_error *err)
{
    rl_jinja *jinja;
    *text = NULL;
    rl_status status = rl_jinja_parse(&jinja, template, template_bytes, "chat template", err);
    if (!status) status = rl_chat_render(jinja, json, strlen(json), NULL, text, bytes, err);
    rl_jinja_destroy(jinja);
    return status;
}

/* Fails every allocation in turn: a clean RL_NOMEM each time, and nothing lost. */
static void fail_each(const char *template, size_t template_bytes, const char *json)
{
    uint64_t n = 0;
    bool fired;
    do {
        rl_error err = { { 0 } };
        char *text;
        size_t bytes;
        int64_t live = rl_fault_live();
        rl_fault_arm(n++);
        rl_status status = run(template, template_bytes, json, &text, &bytes, &err);
        fired = rl_fault_disarm();
        if (fired) {
            if (status != RL_NOMEM)
                fail_msg("allocation %llu: %s (%s)", (unsigned long long)n - 1,
                         rl_status_name(status), err.text);
            assert_null(text);
            assert_non_null(strstr(err.text, "no memory"));
        } else {
            assert_ok(status);
        }
        free(text);
        if (rl_fault_live() != live)
            fail_msg("allocation %llu: %lld blocks lost", (unsigned long long)n - 1,
                     (long long)(rl_fault_live() - live));
    } while (fired);
    print_message("%llu allocations\n", (unsigned long long)n - 1);
    assert_true(n > 5);
}

static void fault_chat_template_of_a_model(void **state)
{
    (void)state;
    size_t bytes;
    char *template = rl_test_read(rl_test_fixture("chat/templates/qwen3.5.jinja"), &bytes);
    fail_each(
        template, bytes,
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
        "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"a\\\":[1,2.5,\\\"x\\\"],\\\"b\\\":{}}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"r\"}],\"tools\":[{\"type\":\"function\"}],"
        "\"add_generation_prompt\":true}");
    free(template);
}

/* A template that takes much memory, in every way there is: many chunks, long texts, sorted keys. */
static void fault_chat_large_values(void **state)
{
    (void)state;
    static const char template[] =
        "{% set ns = namespace(t='', l=[]) %}{% for i in range(300) %}{% set ns.t = ns.t ~ 'x' * "
        "100 %}"
        "{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.t|upper|replace('X', 'yy') }}"
        "{{ ns.l|tojson(indent=2) }}{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}"
        "{{ ns.l|map('string')|sort|join(',')|title }}{{ messages[0].content.split('c') }}";
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"abcabcabc\"}],\"a\":1,\"b\":2,\"c\":3,"
        "\"d\":4,"
        "\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,\"continue_final_message\":false}";
    fail_each(template, sizeof template - 1, json);
    static const char keeps[] = "{% for m in messages %}{{ m.content|trim }}{% endfor %}";
    fail_each(
        keeps, sizeof keeps - 1,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a \"}],\"continue_final_message\":true}");
}

/* A template with mistakes, so that errors are made while memory runs out. */
static void fault_chat_errors(void **state)
{
    (void)state;
    static const char *const templates[] = { "{% if x %}", "{{ 'a' + 1 }}", "{{ nope.x }}" };
    for (size_t i = 0; i < 3; i++) {
        uint64_t n = 0;
        bool fired;
        do {
            rl_error err = { { 0 } };
            char *text;
            size_t bytes;
            int64_t live = rl_fault_live();
            rl_fault_arm(n++);
            rl_status status = run(templates[i], strlen(templates[i]),
                                   "{\"messages\":[{\"role\":\"user\"}]}", &text, &bytes, &err);
            fired = rl_fault_disarm();
            assert_true(status == RL_NOMEM ||
                        (!fired && (status == RL_FORMAT || status == RL_INVALID)));
            assert_true(err.text[0] && !text);
            assert_int_equal(rl_fault_live(), live);
        } while (fired);
    }
}

RL_TEST_MAIN(RL_TEST(fault, chat_template_of_a_model), RL_TEST(fault, chat_large_values),
             RL_TEST(fault, chat_errors))
