/* test_jinja.c - errors, bounds and hostile templates. That the language means what it means in Python
 * is the business of golden.jinja. */
#include "support/test.h"

#include "base/clock.h"
#include "text/jinja.h"
#include "text/json.h"

static const char variables_json[] =
    "{\"s\":\"text\",\"n\":5,\"l\":[1,2,3],\"d\":{\"a\":1},\"none_\":null}";

/* Renders with the variables above; *text must be freed. */
static rl_status render(const char *template, const rl_jinja_params *params, size_t memory,
                        char **text, rl_error *err)
{
    rl_arena arena;
    rl_value variables;
    rl_jinja *jinja;
    size_t bytes;
    *text = NULL;
    rl_status status = rl_jinja_parse(&jinja, template, strlen(template), "test", err);
    if (status) {
        assert_null(jinja);
        return status;
    }
    rl_arena_init(&arena, memory);
    status = rl_json_read(&arena, variables_json, sizeof variables_json - 1, "variables", 0,
                          &variables, err);
    if (!status) status = rl_jinja_render(jinja, &arena, variables.dict, params, text, &bytes, err);
    if (memory) assert_true(arena.taken_bytes <= memory);
    if (!status) assert_int_equal(strlen(*text), bytes);
    rl_arena_fini(&arena);
    rl_jinja_destroy(jinja);
    return status;
}

static void expect(const char *template, rl_status status, const char *says)
{
    rl_error err = { { 0 } };
    char *text;
    rl_status got = render(template, NULL, (size_t)64 << 20, &text, &err);
    if (got != status)
        fail_msg("%s: %s (%s), expected %s", template, rl_status_name(got), got ? err.text : text,
                 rl_status_name(status));
    if (status && !strstr(err.text, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", template, err.text, says);
    if (!status) assert_string_equal(text, says);
    free(text);
}

/* An error names what it is about and its line.
 * Stands against: a user who has to search 200 lines of template. */
static void jinja_errors_name_the_line(void **state)
{
    (void)state;
    expect("a\n\n{{ nope.x }}", RL_INVALID, "test, line 3: 'nope' is undefined");
    expect("{{ d.b.c }}", RL_INVALID, "line 1: 'dict object' has no attribute 'b'");
    expect("\n{{ none_.b.c }}", RL_INVALID, "line 2: 'None' has no attribute 'b'");
    expect("{{ l[7].x }}", RL_INVALID, "list object has no element 7");
    expect("{{ s + n }}", RL_INVALID, "can only concatenate str (not \"int\") to str");
    expect("{{ n + s }}", RL_INVALID, "unsupported operand type(s) for +: 'int' and 'str'");
    expect("{{ n < s }}", RL_INVALID, "'<' not supported between instances of 'int' and 'str'");
    expect("{{ 'x' in n }}", RL_INVALID, "argument of type 'int' is not iterable");
    expect("{% for x in n %}{% endfor %}", RL_INVALID, "'int' object is not iterable");
    expect("{{ n() }}", RL_INVALID, "'int' object is not callable");
    expect("{{ nope() }}", RL_INVALID, "'nope' is undefined");
    expect("\n\n{{ raise_exception('no ' ~ s) }}", RL_INVALID, "line 3: no text");
    expect("{% macro m(a) %}{{ a.b }}{% endmacro %}\n{{ m() }}", RL_INVALID, "line 1: 'a' is");
    expect("{% set d.x = 1 %}", RL_INVALID, "non-namespace object");
    expect("{{ l.append(4) }}", RL_INVALID, "'append' of 'list object' is unsafe");
    expect("{{ s|replace('a') }}", RL_INVALID, "filter 'replace' misses argument number 2");
    expect("{{ s|upper(1) }}", RL_INVALID, "filter 'upper' takes at most 0 arguments (1 given)");
    expect("{{ s|default(x=1) }}", RL_INVALID, "takes no keyword argument 'x'");
    expect("{{ s.split(a=1) }}", RL_INVALID, "method 'split' takes no keyword argument 'a'");

    expect("{% if n %}", RL_FORMAT, "unexpected end of template, 'endif' is missing");
    expect("\n{% endfor %}", RL_FORMAT, "line 2: unexpected 'endfor'");
    expect("{% for x in l %}{% endif %}", RL_FORMAT, "unexpected 'endif'");
    expect("{{ s", RL_FORMAT, "expected '}}', got the end of the template");
    expect("{{ s s }}", RL_FORMAT, "expected '}}', got 's'");
    expect("{{ (s] }}", RL_FORMAT, "unexpected ']', expected ')'");
    expect("{{ 'abc }}", RL_FORMAT, "a string begins here and does not end");
    expect("a {# b", RL_FORMAT, "missing end of comment");
    expect("{% raw %} b", RL_FORMAT, "missing end of raw");
    expect("{{ s ! }}", RL_FORMAT, "unexpected character '!'");
    expect("{% set 1 = 2 %}", RL_FORMAT, "only names");
    expect("{% break %}", RL_FORMAT, "'break' outside of a loop");
}

/* What exists in Python and not here says so, with name and line: it is never taken for undefined or
 * left out. */
static void jinja_names_what_is_not_supported(void **state)
{
    (void)state;
    expect("\n{% include 'a' %}", RL_UNSUPPORTED, "line 2: unknown tag 'include'");
    expect("{% nosuch %}", RL_UNSUPPORTED, "unknown tag 'nosuch'");
    expect("\n\n{{ s|nosuch }}", RL_UNSUPPORTED, "line 3: filter 'nosuch' is not supported");
    expect("{{ s|urlize }}", RL_UNSUPPORTED, "filter 'urlize' is not supported");
    expect("{{ s is nosuch }}", RL_UNSUPPORTED, "test 'nosuch' is not supported");
    expect("{{ l|map('nosuch')|list }}", RL_UNSUPPORTED, "filter 'nosuch' is not supported");
    expect("{{ s.encode() }}", RL_UNSUPPORTED, "attribute 'encode' of a str is not supported");
    expect("{{ n.real }}", RL_UNSUPPORTED, "attribute 'real' of a int");
    expect("{{ s.__class__ }}", RL_UNSUPPORTED, "'__class__' is unsafe");
    expect("{{ cycler('a') }}", RL_UNSUPPORTED, "function 'cycler' is not supported");
    expect("{% for x in l recursive %}{% endfor %}", RL_UNSUPPORTED, "recursive loops");
    expect("{{ 9223372036854775807 + 1 }}", RL_UNSUPPORTED, "integers beyond 64 bits");
    expect("{{ 99999999999999999999 * 2 }}", RL_UNSUPPORTED, "integers beyond 64 bits");
    expect("{{ range(3) }}", RL_UNSUPPORTED, "printing a range");
    expect("{{ l|map('string') }}", RL_UNSUPPORTED, "printing a generator");
    expect("{{ d|tojson(2) }}", RL_UNSUPPORTED, "arguments of tojson must be given by name");
    expect("{{ strftime_now('%999999999d') }}", RL_UNSUPPORTED, "conversion '%9'");
    expect("{{ l[1, 2] }}", RL_UNSUPPORTED, "indexing with several values");
    expect("{{ é }}", RL_FORMAT, "unexpected character 'é'");
    /* Not reached, not an error: templates guard such things with conditions. */
    expect("{% if false %}{{ s|nosuch }}{% endif %}ok", RL_OK, "ok");
}

/* Every loop ends. Stands against: a template that hangs the server. */
static void jinja_bounds_steps(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set r = range(100000)|list %}{% for a in r %}{% if -1 in r %}{% endif %}{% endfor %}",
        "{% set t = 'ab' * 1000000 %}{% for a in range(100000) %}{% if 'ba' * 9 in t %}{% endif %}"
        "{% endfor %}",
        "{% set t = 'a' * 1000000 %}{{ t.rfind('a' * 500000 ~ 'b' ~ 'a' * 3) }}",
        "{% set t = 'a' * 1000000 %}{{ t.rsplit('a' * 500000 ~ 'b') }}",
        "{% set t = 'a' * 1000000 %}{% for a in range(100000) %}{{ t.strip('xyz' * 100000) }}"
        "{% endfor %}",
        "{% set x = range(100000)|list %}{% for a in range(100000) %}{% set y = x|sort %}{% endfor "
        "%}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x == ns.x[:] }}{{ [ns.x, 1] == [ns.x[:], 2] }}{% set ns.y = [1] %}"
        "{% for i in range(60) %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% macro m(k) %}{% for i in range(10) %}{{ m(k - 1) if k }}{% endfor %}{% endmacro %}"
        "{{ m(50) }}",
        "{{ ('%s' * 100000) % (('a' * 1000,) * 100000) }}",
        "{% for a in range(100000) %}{{ 'x'.center(100000)|trim }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        rl_error err = { { 0 } };
        char *text;
        uint64_t begin = rl_clock_ns();
        const rl_jinja_params less = { .limits = { .max_steps = 1000000 } };
        rl_status status = render(templates[i], i ? &less : NULL, (size_t)256 << 20, &text, &err);
        double seconds = (double)(rl_clock_ns() - begin) * 1e-9;
        if (status != RL_INVALID) fail_msg("%s is not stopped: %s", templates[i], err.text);
        if (!strstr(err.text, "more than") && !strstr(err.text, "longer than"))
            fail_msg("%s: %s", templates[i], err.text);
        if (seconds > 20) fail_msg("%s took %.1f s", templates[i], seconds);
        free(text);
    }
    rl_error err = { { 0 } };
    char *text;
    const rl_jinja_params few = { .limits = { .max_steps = 100 } };
    assert_int_equal(render("{% for x in range(50) %}{{ x }}{% endfor %}", &few, 0, &text, &err),
                     RL_INVALID);
    assert_string_equal(err.text, "test, line 1: the template takes more than 100 steps");
}

/* Memory and output end where they were told to. */
static void jinja_bounds_memory_and_output(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{% set ns = namespace(t='x') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}"
        "{% endfor %}{{ ns.t|length }}",
        "{{ ('x' * 4611686018427387904)|length }}",
        "{{ ([1] * 4611686018427387904)|length }}",
        "{{ 'x'.zfill(9223372036854775807) }}",
        "{{ 'a\\nb'|indent(9223372036854775807) }}",
        "{{ l|batch(9223372036854775807, 1)|list }}",
        "{{ l|slice(9223372036854775807)|list }}",
        "{% for i in range(100000) %}{% set x = range(100000) %}{% endfor %}",
        "{{ ('x' * 1000000).replace('', 'y' * 1000) }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x|tojson }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{{ '%1000s' * 100000 % ((1,) * 100000) }}",
        "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        rl_error err = { { 0 } };
        char *text;
        const rl_jinja_params params = { .limits = { .max_output_bytes = (size_t)1 << 20 } };
        rl_status status = render(templates[i], &params, (size_t)16 << 20, &text, &err);
        if (status != RL_INVALID)
            fail_msg("%s is not stopped: %s", templates[i], status ? err.text : "it succeeds");
        if (!strstr(err.text, "more than") && !strstr(err.text, "longer than"))
            fail_msg("%s: %s", templates[i], err.text);
        free(text);
    }
}

/* A template made of n copies of `open`, a middle, n copies of `close`. */
static char *nested(const char *open, const char *middle, const char *close, size_t n)
{
    char *text = malloc(n * (strlen(open) + strlen(close)) + strlen(middle) + 1);
    assert_non_null(text);
    char *at = text;
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, close);
    return text;
}

/* Nesting, in the text or while running, ends long before the stack does. */
static void jinja_bounds_depth(void **state)
{
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } cases[] = {
        { "{{ (", "1", ") }}" },
        { "(", "", "" },
        { "{{ ((((((((((", "1", ")" },
        { "{% if 1 %}", "", "{% endif %}" },
        { "{% for x in l %}", "", "{% endfor %}" },
        { "{% macro m() %}", "", "{% endmacro %}" },
        { "{% set x %}", "", "{% endset %}" },
        { "{{ [", "", "] }}" },
        { "{{ {1: ", "1", "} }}" },
        { "{{ -", "1 }}", "" },
        { "{{ not ", "1 }}", "" },
        { "{{ 1 if 1 else ", "1 }}", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_error err = { { 0 } };
        char *text, *template = nested(cases[i].open, cases[i].middle, cases[i].close, 100000);
        rl_status status = render(template, NULL, (size_t)64 << 20, &text, &err);
        if (i != 1 && status == RL_OK) fail_msg("%.20s is not stopped", template);
        free(text);
        free(template);
    }
    /* One level of nesting, repeated inside one expression. */
    static const char *const chains[][3] = {
        { "{{ ", "1 }}", "" }, { "1 + ", "", "" },
        { "x.a", "", "" },     { "x|upper", "", "" },
        { "1 and ", "", "" },  { "x()", "", "" },
        { "1 ~ ", "", "" },    { "1 == ", "", "" },
        { "1 if 1 ", "", "" }, { "x is defined is ", "", "" },
    };
    for (size_t i = 1; i < sizeof chains / sizeof chains[0]; i++) {
        rl_error err = { { 0 } };
        char *text, *middle = nested(chains[i][0], "", "", 100000);
        char *template = malloc(strlen(middle) + 16);
        assert_non_null(template);
        sprintf(template, "{{ %s1 }}", middle);
        rl_status status = render(template, NULL, (size_t)64 << 20, &text, &err);
        if (status == RL_OK && i != 6) fail_msg("%.20s is not stopped", template);
        free(text);
        free(template);
        free(middle);
    }
    expect("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", RL_INVALID,
           "nested deeper than 1000 levels");
    expect(
        "{% set ns = namespace(x=1) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}"
        "{{ ns.x }}",
        RL_INVALID, "nested deeper");
    expect(
        "{% set ns = namespace(x=1) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}"
        "{{ ns.x|tojson }}",
        RL_INVALID, "nested deeper");
    expect("{% set ns = namespace(x=1, y=1) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}"
           "{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
           RL_INVALID, "nested deeper");
    expect("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", RL_INVALID, "nested deeper");
    expect("{% macro m(k) %}{{ k }}{{ m(k - 1) if k }}{% endmacro %}{{ m(40) }}", RL_OK,
           "403938373635343332313029282726252423222120191817161514131211109876543210");
}

/* Templates that are cut anywhere give an error or a text, nothing else. */
static void jinja_survives_cut_templates(void **state)
{
    (void)state;
    size_t bytes;
    char *template = rl_test_read(rl_test_fixture("chat/templates/qwen3.5.jinja"), &bytes);
    size_t step = getenv("RL_TEST_LONG") ? 1 : 7, refused = 0;
    for (size_t cut = 0; cut < bytes; cut += step) {
        rl_error err = { { 0 } };
        rl_jinja *jinja;
        char *piece = malloc(cut + 1);
        assert_non_null(piece);
        memcpy(piece, template, cut);
        rl_status status = rl_jinja_parse(&jinja, piece, cut, "cut", &err);
        refused += status != RL_OK;
        assert_true(status == RL_OK || (jinja == NULL && err.text[0]));
        rl_jinja_destroy(jinja);
        free(piece);
    }
    assert_true(refused > bytes / step / 2);
    free(template);
}

/* Text that is no UTF-8, and text that is too long, are refused before anything else. */
static void jinja_refuses_bad_text(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_jinja *jinja;
    assert_int_equal(rl_jinja_parse(&jinja, "a\xff", 2, "test", &err), RL_FORMAT);
    assert_string_equal(err.text, "test: not valid UTF-8 at byte 1");
    size_t bytes = ((size_t)4 << 20) + 1;
    char *text = calloc(1, bytes);
    assert_non_null(text);
    assert_int_equal(rl_jinja_parse(&jinja, text, bytes, "test", &err), RL_INVALID);
    assert_ok(rl_jinja_parse(&jinja, text, bytes - 1, "test", &err));
    rl_jinja_destroy(jinja);
    free(text);
}

/* Marked values tell what was done with them, through variables and macro arguments. */
static void jinja_notes_uses_of_marked_values(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        unsigned seen;
    } cases[] = {
        { "x", 0 },
        { "{% if m %}{% endif %}{{ m is defined }}{{ m is none }}", 0 },
        { "{% set q = m %}{{ q }}", RL_JINJA_USED },
        { "{% macro f(a) %}{{ a is string }}{% endmacro %}{{ f(m) }}", RL_JINJA_TESTED },
        { "{{ m|tojson }}", RL_JINJA_AS_JSON },
        { "{{ m is mapping and m|tojson }}", RL_JINJA_TESTED },
        { "{{ 'a' + m }}", RL_JINJA_USED },
        { "{{ m.x }}", RL_JINJA_USED },
        { "{{ m|items }}", RL_JINJA_USED },
        { "{% for a in [m] %}{{ a|upper }}{% endfor %}", RL_JINJA_USED },
        { "{{ (m ~ '')|tojson }}", RL_JINJA_USED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_error err = { { 0 } };
        rl_arena arena;
        rl_jinja *jinja;
        rl_jinja_uses uses;
        char *text;
        size_t bytes;
        rl_arena_init(&arena, 0);
        rl_dict *variables = rl_dict_create(&arena, 1);
        rl_value value = rl_value_string(rl_string_create(&arena, "v", 1));
        value.mark = 2;
        assert_true(rl_dict_set(&arena, variables,
                                rl_value_string(rl_string_create(&arena, "m", 1)), value));
        assert_ok(rl_jinja_parse(&jinja, cases[i].template, strlen(cases[i].template), "t", &err));
        rl_status status = rl_jinja_render(
            jinja, &arena, variables, &(rl_jinja_params){ .uses = &uses }, &text, &bytes, &err);
        (void)status; /* some of them fail: what counts is what was noted */
        if (uses.seen[2] != cases[i].seen || uses.last != (cases[i].seen ? 2u : 0u))
            fail_msg("%s: noted %u, last %u", cases[i].template, uses.seen[2], uses.last);
        free(text);
        rl_jinja_destroy(jinja);
        rl_arena_fini(&arena);
    }
}

/* A parsed template is not changed by rendering it. */
static void jinja_renders_again_and_again(void **state)
{
    (void)state;
    static const char template[] =
        "{% set ns = namespace(a=0) %}{% macro m(x) %}[{{ x ~ 'é' ~ 'ü' }}]{% endmacro %}"
        "{% for i in range(3) %}{% set ns.a = ns.a + i %}{{ m(i) }}{{ 'a' 'b' ~ i }}{% endfor %}"
        "{{ ns.a }}{{ v is defined }}{% set v = 1 %}";
    rl_error err = { { 0 } };
    rl_jinja *jinja;
    assert_ok(rl_jinja_parse(&jinja, template, sizeof template - 1, "t", &err));
    for (int i = 0; i < 3; i++) {
        rl_arena arena;
        char *text;
        size_t bytes;
        rl_arena_init(&arena, 0);
        const rl_dict *variables = rl_dict_create(&arena, 0);
        assert_non_null(variables);
        assert_ok(rl_jinja_render(jinja, &arena, variables, NULL, &text, &bytes, &err));
        assert_string_equal(text, "[0éü]ab0[1éü]ab1[2éü]ab23False");
        free(text);
        rl_arena_fini(&arena);
    }
    rl_jinja_destroy(jinja);
}

RL_TEST_MAIN(RL_TEST(jinja, errors_name_the_line), RL_TEST(jinja, names_what_is_not_supported),
             RL_TEST(jinja, bounds_steps), RL_TEST(jinja, bounds_memory_and_output),
             RL_TEST(jinja, bounds_depth), RL_TEST(jinja, survives_cut_templates),
             RL_TEST(jinja, refuses_bad_text), RL_TEST(jinja, notes_uses_of_marked_values),
             RL_TEST(jinja, renders_again_and_again))
