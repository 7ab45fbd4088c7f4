/* test_chat.c - conversations: what is checked, what is repaired for which template, and how a message
 * is continued. That the text is Python's is the business of golden.chat. */
#include "support/test.h"

#include "text/chat.h"

static char *read_template(const char *name)
{
    size_t bytes;
    char *whole = rl_test_read(rl_test_fixture("chat/templates/%s.jinja", name), &bytes);
    char *text = realloc(whole, bytes + 1);
    assert_non_null(text);
    text[bytes] = '\0';
    return text;
}

static rl_status render(const char *template, const char *json, const rl_chat_params *params,
                        char **text, rl_error *err)
{
    rl_jinja *jinja;
    size_t bytes;
    *text = NULL;
    rl_status status = rl_jinja_parse(&jinja, template, strlen(template), "chat template", err);
    if (status) fail_msg("%s", err->text);
    status = rl_chat_render(jinja, json, strlen(json), params, text, &bytes, err);
    assert_true(status || strlen(*text) == bytes);
    assert_true(!status || !*text);
    rl_jinja_destroy(jinja);
    return status;
}

/* The text that a template makes of a conversation. */
static void expect(const char *template, const char *json, const char *expected)
{
    rl_error err = { { 0 } };
    char *text;
    rl_status status = render(template, json, NULL, &text, &err);
    if (status) fail_msg("%s: refused: %s", json, err.text);
    assert_string_equal(text, expected);
    free(text);
}

/* The same for a template of the fixtures: the expected piece is somewhere in the text. */
static void expect_piece(const char *name, const char *json, const char *piece)
{
    rl_error err = { { 0 } };
    char *template = read_template(name), *text;
    rl_status status = render(template, json, NULL, &text, &err);
    if (status) fail_msg("%s: %s refused: %s", name, json, err.text);
    if (!strstr(text, piece)) fail_msg("%s: \"%s\" is not in\n%s", name, piece, text);
    free(text);
    free(template);
}

static void expect_refusal(const char *template, const char *json, rl_status status,
                           const char *says)
{
    rl_error err = { { 0 } };
    char *text;
    rl_status got = render(template, json, NULL, &text, &err);
    if (got != status)
        fail_msg("%s: %s, expected %s", json, rl_status_name(got), rl_status_name(status));
    if (!strstr(err.text, says)) fail_msg("%s: \"%s\" does not say \"%s\"", json, err.text, says);
}

/* A conversation that makes no sense is refused with the place and the reason.
 * Stands against: templates that render half of it without a word. */
static void chat_refuses_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        rl_status status;
        const char *says;
    } cases[] = {
        { "[]", RL_INVALID, "conversation: it is an array, it must be an object" },
        { "{}", RL_INVALID, "messages is missing" },
        { "{\"messages\":\"hi\"}", RL_INVALID, "messages is a string, it must be an array" },
        { "{\"messages\":[]}", RL_INVALID, "messages is empty" },
        { "{\"messages\":[\"hi\"]}", RL_INVALID, "messages[0] is a string, it must be an object" },
        { "{\"messages\":[{\"content\":\"x\"}]}", RL_INVALID, "messages[0] has no role" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":1}]}", RL_INVALID,
          "messages[1].role is a number" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", RL_INVALID,
          "messages[0].content is a number, it must be a string, null or an array" },
        { "{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", RL_INVALID,
          "messages[0].content[0] is a number, it must be an object" },
        { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":{}}]}", RL_INVALID,
          "messages[0].tool_calls is an object, it must be an array" },
        { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[null]}]}", RL_INVALID,
          "messages[0].tool_calls[0] is null" },
        { "{\"messages\":[{\"role\":\"user\"}],\"tools\":{}}", RL_INVALID, "tools is an object" },
        { "{\"messages\":[{\"role\":\"user\"}],\"tools\":[1]}", RL_INVALID,
          "tools[0] is a number" },
        { "{\"messages\":[{\"role\":\"user\"}],\"add_generation_prompt\":1}", RL_INVALID,
          "add_generation_prompt is a number, it must be true or false" },
        { "{\"messages\":[{\"role\":\"user\"}],\"continue_final_message\":\"yes\"}", RL_INVALID,
          "continue_final_message is a string" },
        { "{\"messages\":[{\"role\":\"user\"}],\"chat_template_kwargs\":[]}", RL_INVALID,
          "chat_template_kwargs is an array" },
        { "{\"messages\":[{\"role\":\"user\"}],\"continue_final_message\":true}", RL_INVALID,
          "the last message has no content to continue" },
        { "{\"messages\":[{]}", RL_FORMAT, "conversation: not valid JSON at line 1, column 15" },
        { "", RL_FORMAT, "conversation: not valid JSON" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal("{% for m in messages %}{{ m.role }}{% endfor %}", cases[i].json,
                       cases[i].status, cases[i].says);
    expect_refusal("{{ raise_exception('only two roles') }}",
                   "{\"messages\":[{\"role\":\"user\"}]}", RL_INVALID,
                   "chat template, line 1: only two roles");
    expect_refusal("{{ messages|urlize }}", "{\"messages\":[{\"role\":\"user\"}]}", RL_UNSUPPORTED,
                   "filter 'urlize' is not supported");
}

#define CALL(arguments)                                                                            \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":"    \
    "\"\","                                                                                        \
    "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments \
    "}}]},{\"role\":\"tool\",\"content\":\"r\"}]}"

/* Arguments given as a string of JSON: unchanged for templates that insert strings, an object for
 * those that need one, with the order of keys and all digits.
 * Stands against: tool calls that come back to the model in another form than it wrote them. */
static void chat_takes_arguments_as_a_string(void **state)
{
    (void)state;
    static const char call[] =
        CALL("\"{\\\"z\\\":  9007199254740993, \\\"a\\\":[1.50,true],\\\"t\\\":\\\"x\\\"}\"");
    static const char xml[] = "<parameter=z>\n9007199254740993\n</parameter>\n<parameter=a>\n[1.5, "
                              "true]\n</parameter>\n<parameter=t>\nx\n</parameter>";
    static const char json[] = "\"arguments\": {\"z\":  9007199254740993, \"a\":[1.50,true],\"t\":"
                               "\"x\"}}";
    expect_piece("qwen3-coder", call, xml);
    expect_piece("qwen3.5", call, xml);
    expect_piece("qwen3.6", call, xml);
    expect_piece("qwen3-next-instruct", call, json);
    expect_piece("qwen3-next-thinking", call, json);
    expect_piece("qwen3-hybrid", call, json);

    static const char always[] = "{% for m in messages %}{% for c in m.tool_calls or [] %}"
                                 "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}";
    expect(always, CALL("\"{\\\"b\\\":1,\\\"a\\\":12345678901234567890123}\""),
           "{\"b\": 1, \"a\": 12345678901234567890123}");
    expect(always, CALL("{\"b\":1}"), "{\"b\": 1}");
    static const char plain[] = "{% for m in messages %}{% for c in m.tool_calls or [] %}"
                                "{{ 'a' + c.function.arguments }}{% endfor %}{% endfor %}";
    expect(plain, CALL("\"{ }\""), "a{ }");
    static const char loops[] =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
        "{% for k in a %}{{ k }}={{ a[k] }};{% endfor %}{% endfor %}{% endfor %}";
    expect(loops, CALL("\"{\\\"b\\\":1,\\\"a\\\":[]}\""), "b=1;a=[];");
    static const char sorts[] =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in "
        "c.function.arguments|dictsort %}{{ k }}{{ v }}{% endfor %}{% endfor %}{% endfor %}";
    expect(sorts, CALL("\"{\\\"b\\\":1,\\\"a\\\":2}\""), "a2b1");
    static const char method[] =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in "
        "c.function.arguments.items() %}{{ k }}{{ v }}{% endfor %}{% endfor %}{% endfor %}";
    expect(method, CALL("\"{\\\"b\\\":1}\""), "b1");
    /* A template that asks for the type has its reasons. */
    static const char asks[] =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.function.arguments is "
        "string %}{{ c.function.arguments|tojson }}{% endif %}{% endfor %}{% endfor %}";
    expect(asks, CALL("\"{}\""), "\"{}\"");
}

/* What is no JSON object is refused when the template needs one. */
static void chat_refuses_arguments_that_are_no_object(void **state)
{
    (void)state;
    char *template = read_template("qwen3-coder");
    expect_refusal(template, CALL("\"{\\\"a\\\":\""), RL_INVALID,
                   "conversation: the template needs an object; messages[1].tool_calls[0].function."
                   "arguments: not valid JSON at line 1, column 6: a value is missing");
    expect_refusal(template, CALL("\"[1]\""), RL_INVALID, "arguments is JSON for an array");
    expect_refusal(template, CALL("\"\""), RL_INVALID, "a value is missing");
    expect_refusal(template, CALL("[1]"), RL_INVALID, "can only get item pairs from a mapping");
    free(template);
}

/* Null content becomes "" only where the template cannot take null. */
static void chat_takes_null_content(void **state)
{
    (void)state;
    static const char json[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
                               "\"assistant\",\"content\":null}]}";
    expect("{% for m in messages %}[{{ m.role + ': ' + m.content }}]{% endfor %}", json,
           "[user: q][assistant: ]");
    expect("{% for m in messages %}[{{ m.content is none }}]{% endfor %}", json, "[False][True]");
    expect(
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}-{% endif %}"
        "{% endfor %}",
        json, "q-");
    expect("{% for m in messages %}{% if m.content is not string %}{{ raise_exception('no') }}"
           "{% endif %}{{ m.content }}.{% endfor %}",
           json, "q..");
    expect_piece("qwen3-hybrid", json,
                 "<|im_start|>assistant\n<think>\n\n</think>\n\n<|im_end|>\n");
    rl_error err = { { 0 } };
    char *text;
    assert_int_equal(render("{{ 'a' + messages[1].content }}", json,
                            &(rl_chat_params){ .as_given = true }, &text, &err),
                     RL_INVALID);
}

/* Parts of text are joined for templates that do not look into them, and left to those that do. */
static void chat_takes_content_in_parts(void **state)
{
    (void)state;
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a<\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":\"c\"}]}";
    static const char image[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}";
    static const char user[] = "<|im_start|>user\na<b<|im_end|>\n";
    expect_piece("qwen3-next-instruct", json, user);
    expect_piece("qwen3-next-thinking", json, user);
    expect_piece("qwen3-hybrid", json, user);
    expect_piece("qwen3-coder", json, user);
    expect_piece("qwen3.5", json, user);
    expect(
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in "
        "m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}",
        json, "[a<][b]c");
    expect("{{ messages[0].content[0].text }}", json, "a<");
    expect("{% for m in messages %}{{ m.content }}{% endfor %}", json, "a<bc");
    expect_piece("qwen3.5", image, "a<|vision_start|><|image_pad|><|vision_end|><|im_end|>");
    char *template = read_template("qwen3-next-instruct");
    expect_refusal(template, image, RL_INVALID, "messages[0].content[1] is no text");
    free(template);
    expect_refusal("{{ messages[0].content }}",
                   "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
                   RL_INVALID, "messages[0].content[0].text is nothing, it must be a string");
}

/* All three at once, in one conversation. */
static void chat_repairs_several_things(void **state)
{
    (void)state;
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"a\\\":1}\"}}]}]}";
    expect("{% for m in messages %}{{ '[' + m.content + ']' }}{% for c in m.tool_calls or [] %}"
           "{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}{% endfor %}"
           "{% endfor %}",
           json, "[q][]a=1");
}

#define LAST(content)                                                                              \
    "{\"continue_final_message\":true,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"        \
    "{\"role\":\"assistant\",\"content\":" content "}]}"

/* The text ends where the content of the last message ends; what the template strips is stripped. */
static void chat_continues_the_last_message(void **state)
{
    (void)state;
    static const char keeps[] = "{% for m in messages %}<{{ m.content }}>\n{% endfor %}"
                                "{% if add_generation_prompt %}NEVER{% endif %}";
    static const char strips[] = "{% for m in messages %}<{{ m.content|trim }}>\n{% endfor %}";
    expect(keeps, LAST("\"Sure: \""), "<q>\n<Sure: ");
    expect(strips, LAST("\"Sure: \\n\""), "<q>\n<Sure:");
    expect(keeps, LAST("\" Sure\""), "<q>\n< Sure");
    expect(strips, LAST("\" Sure\""), "<q>\n<Sure");
    expect(keeps, LAST("\"\""), "<q>\n<");
    expect(strips, LAST("\" \""), "<q>\n<");
    expect(keeps, LAST("null"), "<q>\n<");
    expect(keeps, LAST("\"q\""), "<q>\n<q");
    expect(keeps, LAST("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]"),
           "<q>\n<ab");
    expect("{% for m in messages %}<{% for p in m.content %}{{ p.text }}{% endfor %}>{% endfor %}",
           LAST("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b \"}]"),
           "<><ab ");
    expect_refusal("{{ messages[0].content }}", LAST("\"x\""), RL_INVALID,
                   "does not show the content of the last message");
    expect_refusal(keeps, LAST("[]"), RL_INVALID, "has no text to continue");
    expect_piece("qwen3-next-instruct", LAST("\"Paris is\""),
                 "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nParis is");

    rl_error err = { { 0 } };
    char *template = read_template("qwen3.5"), *text;
    assert_ok(render(template, LAST("\"Paris is \""), NULL, &text, &err));
    assert_string_equal(text, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
                              "</think>\n\nParis is");
    free(text);
    free(template);
}

/* Everything else in the conversation is a variable of the template; nothing else is. */
static void chat_passes_variables(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    char *text;
    static const char template[] =
        "{{ tools is none }}{{ add_generation_prompt }}{{ enable_thinking is defined }}"
        "{{ custom }}{{ date }}{{ bos_token }}{{ eos_token is defined }}"
        "{{ chat_template_kwargs is defined }}{{ strftime_now('%Y') }}";
    setenv("TZ", "UTC", 1);
    assert_ok(render(template,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"custom\":[1],"
                     "\"chat_template_kwargs\":{\"date\":\"today\",\"messages\":1}}",
                     &(rl_chat_params){ .bos_token = "<s>", .now = 86400 }, &text, &err));
    assert_string_equal(text, "TrueFalseFalse[1]today<s>FalseFalse1970");
    free(text);
    expect("{{ tools|length }}{{ add_generation_prompt }}{{ enable_thinking }}",
           "{\"messages\":[{\"role\":\"user\"}],\"tools\":[],\"add_generation_prompt\":true,"
           "\"enable_thinking\":false}",
           "0TrueFalse");
}

/* A bound on memory holds for the conversation and its rendering together. */
static void chat_bounds_memory(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    char *text, *json = malloc(1 << 20);
    assert_non_null(json);
    char *at = stpcpy(json, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    memset(at, 'x', 900000);
    strcpy(at + 900000, "\"}]}");
    const rl_chat_params small = { .max_memory_bytes = 1 << 19 };
    const rl_chat_params enough = { .max_memory_bytes = 2 << 20 };
    assert_int_equal(render("{{ messages[0].content }}", json, &small, &text, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "more than 524288 bytes of memory"));
    assert_ok(render("{{ messages[0].content }}", json, &enough, &text, &err));
    free(text);
    assert_int_equal(
        render("{{ messages[0].content|upper|lower|upper|lower }}", json, &enough, &text, &err),
        RL_INVALID);
    free(json);
}

RL_TEST_MAIN(RL_TEST(chat, refuses_with_a_reason), RL_TEST(chat, takes_arguments_as_a_string),
             RL_TEST(chat, refuses_arguments_that_are_no_object), RL_TEST(chat, takes_null_content),
             RL_TEST(chat, takes_content_in_parts), RL_TEST(chat, repairs_several_things),
             RL_TEST(chat, continues_the_last_message), RL_TEST(chat, passes_variables),
             RL_TEST(chat, bounds_memory))
