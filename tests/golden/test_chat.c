/* test_chat.c - conversations against what Python's apply_chat_template makes of them:
 * tests/fixtures/chat, the templates as they are and with changes. */
#include "support/test.h"
#include "support/unpack.h"

#include "text/chat.h"
#include "text/json.h"

static const char *const files[] = { "qwen3-next-instruct.json",
                                     "qwen3-next-thinking.json",
                                     "qwen3-hybrid.json",
                                     "qwen3-coder.json",
                                     "qwen3.5.json",
                                     "qwen3.6.json" };
enum { FILES = sizeof files / sizeof files[0] };

/* One of the files, with its template. */
typedef struct fixture {
    rl_arena arena;
    char *json, *template;
    size_t template_bytes;
    const rl_list *cases;
} fixture;

static rl_value member(rl_value dict, const char *name)
{
    rl_value *found = rl_dict_find_text(dict.dict, name);
    return found ? *found : (rl_value){ 0 };
}

static fixture open_fixture(const char *file)
{
    fixture f = { 0 };
    rl_error err = { { 0 } };
    rl_value data;
    size_t bytes;
    rl_arena_init(&f.arena, 0);
    f.json = rl_test_read(rl_test_fixture("chat/%s", file), &bytes);
    assert_ok(rl_json_read(&f.arena, f.json, bytes, file, 0, &data, &err));
    f.template = rl_test_read(rl_test_fixture("chat/%s", member(data, "template").string->at),
                              &f.template_bytes);
    f.cases = member(data, "cases").list;
    return f;
}

static void close_fixture(fixture *f)
{
    free(f->json);
    free(f->template);
    rl_arena_fini(&f->arena);
}

/* A case's input; continue_last becomes the member that the program reads. */
static rl_value input_of(fixture *f, rl_value one)
{
    rl_value input = member(one, "input"), last = member(one, "continue_last");
    if (last.kind != RL_VALUE_MISSING) {
        const rl_string *key = rl_string_create(&f->arena, "continue_final_message", 22);
        assert_true(rl_dict_set(&f->arena, input.dict, rl_value_string(key), last));
    }
    return input;
}

static rl_status render(const char *template, size_t template_bytes, rl_value input, bool as_given,
                        char **text, size_t *bytes, rl_error *err)
{
    rl_jinja *jinja;
    rl_arena arena;
    const rl_chat_params params = { .as_given = as_given };
    *text = NULL;
    rl_status status = rl_jinja_parse(&jinja, template, template_bytes, "chat template", err);
    if (status) return status;
    rl_arena_init(&arena, (size_t)64 << 20);
    status = rl_chat_render_value(jinja, &arena, input, &params, text, bytes, err);
    rl_arena_fini(&arena);
    rl_jinja_destroy(jinja);
    return status;
}

static void expect_text(const char *name, rl_status status, const char *text, size_t bytes,
                        const rl_string *expected, const rl_error *err)
{
    if (status) fail_msg("%s: refused: %s", name, err->text);
    if (bytes != expected->bytes || memcmp(text, expected->at, bytes) != 0)
        fail_msg("%s: expected\n%s\ngot\n%s", name, expected->at, text);
}

/* With as_given everything is as in Python, refusals included.
 * Stands against: any byte of difference. */
static void chat_fixtures_as_given(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    size_t n = 0, refused = 0;
    for (size_t i = 0; i < FILES; i++) {
        fixture f = open_fixture(files[i]);
        for (size_t k = 0; k < f.cases->count; k++, n++) {
            char name[128], *text;
            size_t bytes;
            rl_value one = f.cases->items[k], expected = member(one, "expected");
            snprintf(name, sizeof name, "%s %s", files[i], member(one, "name").string->at);
            rl_status status =
                render(f.template, f.template_bytes, input_of(&f, one), true, &text, &bytes, &err);
            if (expected.kind == RL_VALUE_STRING) {
                expect_text(name, status, text, bytes, expected.string, &err);
            } else {
                refused++;
                if (status != RL_INVALID) fail_msg("%s: must be refused", name);
                if (!strstr(err.text, ", line ")) fail_msg("%s: no line in: %s", name, err.text);
            }
            free(text);
        }
        close_fixture(&f);
    }
    print_message("%zu cases, %zu of them refused\n", n, refused);
    assert_true(n >= 102 && refused >= 4);
}

/* The text of a case with a given name, in the same file. */
static const rl_string *expected_of(const fixture *f, const char *name)
{
    for (size_t k = 0; k < f->cases->count; k++)
        if (rl_string_is(member(f->cases->items[k], "name").string, name))
            return member(f->cases->items[k], "expected").string;
    fail_msg("no case %s", name);
    return NULL;
}

/* By default, what Python can render comes out the same, and the cases that it refuses (arguments as
 * a string, content null) come out as if the conversation had been written as the template wants
 * it: both conversations are also in the file, under another name.
 * Stands against: repairs that change what needs none. */
static void chat_fixtures_as_requests(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    size_t repaired = 0;
    for (size_t i = 0; i < FILES; i++) {
        fixture f = open_fixture(files[i]);
        for (size_t k = 0; k < f.cases->count; k++) {
            char *text;
            size_t bytes;
            rl_value one = f.cases->items[k];
            const char *name = member(one, "name").string->at;
            rl_status status =
                render(f.template, f.template_bytes, input_of(&f, one), false, &text, &bytes, &err);
            const rl_string *expected = member(one, "expected").string;
            if (member(one, "expected").kind != RL_VALUE_STRING) {
                bool null = !strcmp(name, "content_null_with_tool_call");
                if (!null) assert_string_equal(name, "args_as_string");
                expected = expected_of(&f, null ? "args_as_string" : "content_null_with_tool_call");
                repaired++;
            }
            expect_text(name, status, text, bytes, expected, &err);
            free(text);
        }
        close_fixture(&f);
    }
    assert_int_equal(repaired, 4);
}

/* Applies the edits [offset, removed bytes, new text], which come from the end to the beginning. */
static char *edited(const fixture *f, const rl_list *edits, size_t *bytes)
{
    size_t room = f->template_bytes + 1;
    for (size_t i = 0; i < edits->count; i++)
        room += edits->items[i].list->items[2].string->bytes;
    char *text = malloc(room);
    assert_non_null(text);
    memcpy(text, f->template, f->template_bytes);
    *bytes = f->template_bytes;
    for (size_t i = 0; i < edits->count; i++) {
        const rl_value *edit = edits->items[i].list->items;
        size_t at = (size_t)edit[0].integer, removed = (size_t)edit[1].integer;
        const rl_string *new = edit[2].string;
        assert_true(at + removed <= *bytes);
        memmove(text + at + new->bytes, text + at + removed, *bytes - at - removed);
        memcpy(text + at, new->at, new->bytes);
        *bytes += new->bytes - removed;
    }
    return text;
}

/* The same templates with other literals, exchanged branches, negated conditions, other slices, other
 * names: Python's text still comes out, by default as well as as_given.
 * Stands against: templates that are known by heart. */
static void chat_changed_templates(void **state)
{
    (void)state;
    rl_error err = { { 0 } };
    rl_arena arena;
    rl_value list;
    size_t bytes, n_texts = 0;
    fixture fixtures[FILES];
    char *json = rl_test_unpack(rl_test_fixture("chat/changed.json.gz"), &bytes);
    rl_arena_init(&arena, 0);
    assert_ok(rl_json_read(&arena, json, bytes, "changed.json", 0, &list, &err));
    for (size_t i = 0; i < FILES; i++)
        fixtures[i] = open_fixture(files[i]);
    for (size_t c = 0; c < list.list->count; c++) {
        rl_value one = list.list->items[c], expected = member(one, "expected");
        char name[160], *text;
        snprintf(name, sizeof name, "change %zu of %s, %s", c, member(one, "file").string->at,
                 member(one, "case").string->at);
        size_t i = 0;
        while (!rl_string_is(member(one, "file").string, files[i]))
            i++;
        fixture *f = &fixtures[i];
        size_t k = 0;
        while (
            !rl_string_equal(member(f->cases->items[k], "name").string, member(one, "case").string))
            k++;
        char *template = edited(f, member(one, "edits").list, &bytes);
        for (int as_given = 0; as_given < 2; as_given++) {
            size_t text_bytes;
            rl_status status = render(template, bytes, member(f->cases->items[k], "input"),
                                      as_given, &text, &text_bytes, &err);
            if (expected.kind == RL_VALUE_STRING) {
                expect_text(name, status, text, text_bytes, expected.string, &err);
                n_texts++;
            } else if (as_given && !status) {
                fail_msg("%s: Python refuses, here it gives\n%s", name, text);
            }
            free(text);
        }
        free(template);
    }
    print_message("%zu changes, %zu texts\n", list.list->count, n_texts);
    assert_true(n_texts > 1500);
    for (size_t i = 0; i < FILES; i++)
        close_fixture(&fixtures[i]);
    rl_arena_fini(&arena);
    free(json);
}

RL_TEST_MAIN(RL_TEST(chat, fixtures_as_given), RL_TEST(chat, fixtures_as_requests),
             RL_TEST(chat, changed_templates))
