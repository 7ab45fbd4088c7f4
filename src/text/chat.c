/* chat.c - chat.h: checks a conversation, hands it to the template, and watches what becomes of the
 * values that some templates cannot take.
 *
 * Those values carry marks (jinja.h). After a pass the marks tell whether the template could use
 * the value; if not, the values of that kind are changed and the template runs again. Each kind
 * changes at most once, so there are at most four passes, five for a continued message. */
#include "text/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "text/jinja_text.h"
#include "text/json.h"

enum { MARK_ARGUMENTS = 1, MARK_NULL = 2, MARK_PARTS = 3 };

/* Stands behind the content of a message that is to be continued. Noncharacters: no text has them,
 * and no template can be interested. The blank shows whether the template strips the content. */
#define END_OF_CONTENT "\xef\xb7\x90rl\xef\xb7\x91"

typedef struct chat {
    const rl_jinja *jinja;
    rl_arena *arena;
    const rl_chat_params *params;
    const rl_dict *conversation;
    const rl_list *given; /* messages as they came */
    rl_list **parts;      /* [messages] the list of parts that the last pass saw, or NULL */
    bool *join;           /* [messages] its parts become one text */
    bool parse_arguments, fill_null;
    bool add_generation_prompt, continue_final, strip_final;
    rl_error *err;
} chat;

/* ---- errors --------------------------------------------------------------------------------- */

static rl_status refuse(chat *c, const char *format, ...) RL_PRINTF(2, 3);
static rl_status refuse(chat *c, const char *format, ...)
{
    char reason[384];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return rl_fail(c->err, RL_INVALID, "conversation: %s", reason);
}

static rl_status no_memory(chat *c)
{
    if (c->arena->over_limit)
        return refuse(c, "rendering it takes more than %zu bytes of memory", c->arena->limit_bytes);
    return rl_fail(c->err, RL_NOMEM, "no memory to render a conversation");
}

/* ---- checking ------------------------------------------------------------------------------- */

static rl_value member(const rl_dict *dict, const char *name)
{
    const rl_value *found = rl_dict_find_text(dict, name);
    return found ? *found : (rl_value){ 0 };
}

static rl_status read_flag(chat *c, const char *name, bool *out)
{
    rl_value value = member(c->conversation, name);
    *out = value.kind == RL_VALUE_BOOL && value.boolean;
    if (value.kind == RL_VALUE_MISSING || value.kind == RL_VALUE_NONE ||
        value.kind == RL_VALUE_BOOL)
        return RL_OK;
    return refuse(c, "%s is %s, it must be true or false", name, rl_value_kind_name(value.kind));
}

/* An array of objects; where it may be null or missing, `optional`. */
static rl_status check_objects(chat *c, rl_value list, const char *name, bool optional)
{
    if (optional && (list.kind == RL_VALUE_MISSING || list.kind == RL_VALUE_NONE)) return RL_OK;
    if (list.kind == RL_VALUE_MISSING) return refuse(c, "%s is missing", name);
    if (list.kind != RL_VALUE_LIST)
        return refuse(c, "%s is %s, it must be an array", name, rl_value_kind_name(list.kind));
    for (size_t i = 0; i < list.list->count; i++)
        if (list.list->items[i].kind != RL_VALUE_DICT)
            return refuse(c, "%s[%zu] is %s, it must be an object", name, i,
                          rl_value_kind_name(list.list->items[i].kind));
    return RL_OK;
}

static rl_status check_message(chat *c, size_t index, const rl_dict *message)
{
    char name[64];
    rl_value role = member(message, "role"), content = member(message, "content");
    if (role.kind == RL_VALUE_MISSING) return refuse(c, "messages[%zu] has no role", index);
    if (role.kind != RL_VALUE_STRING)
        return refuse(c, "messages[%zu].role is %s, it must be a string", index,
                      rl_value_kind_name(role.kind));
    if (content.kind == RL_VALUE_LIST) {
        snprintf(name, sizeof name, "messages[%zu].content", index);
        rl_status status = check_objects(c, content, name, false);
        if (status) return status;
    } else if (content.kind != RL_VALUE_MISSING && content.kind != RL_VALUE_NONE &&
               content.kind != RL_VALUE_STRING) {
        return refuse(c,
                      "messages[%zu].content is %s, it must be a string, null or an array of "
                      "parts",
                      index, rl_value_kind_name(content.kind));
    }
    snprintf(name, sizeof name, "messages[%zu].tool_calls", index);
    return check_objects(c, member(message, "tool_calls"), name, true);
}

static rl_status check(chat *c)
{
    rl_value messages = member(c->conversation, "messages");
    rl_value kwargs = member(c->conversation, "chat_template_kwargs");
    rl_status status = check_objects(c, messages, "messages", false);
    if (status) return status;
    if (!messages.list->count) return refuse(c, "messages is empty");
    c->given = messages.list;
    for (size_t i = 0; i < c->given->count; i++) {
        status = check_message(c, i, c->given->items[i].dict);
        if (status) return status;
    }
    status = check_objects(c, member(c->conversation, "tools"), "tools", true);
    if (!status) status = read_flag(c, "add_generation_prompt", &c->add_generation_prompt);
    if (!status) status = read_flag(c, "continue_final_message", &c->continue_final);
    if (status) return status;
    if (kwargs.kind != RL_VALUE_MISSING && kwargs.kind != RL_VALUE_NONE &&
        kwargs.kind != RL_VALUE_DICT)
        return refuse(c, "chat_template_kwargs is %s, it must be an object",
                      rl_value_kind_name(kwargs.kind));
    return RL_OK;
}

/* ---- copies that may be changed ------------------------------------------------------------- */

static rl_dict *copy_dict(chat *c, const rl_dict *from)
{
    rl_dict *copy = rl_dict_create(c->arena, from->count);
    for (size_t i = 0; copy && i < from->count; i++)
        if (!rl_dict_set(c->arena, copy, from->pairs[i].key, from->pairs[i].value)) return NULL;
    return copy;
}

static rl_list *copy_list(chat *c, const rl_list *from)
{
    rl_list *copy = rl_list_create(c->arena, from->count);
    for (size_t i = 0; copy && i < from->count; i++)
        if (!rl_list_add(c->arena, copy, from->items[i])) return NULL;
    return copy;
}

static rl_status set(chat *c, rl_dict *dict, const char *name, rl_value value)
{
    rl_value *present = rl_dict_find_text(dict, name);
    if (present) {
        *present = value;
        return RL_OK;
    }
    const rl_string *key = rl_string_create(c->arena, name, strlen(name));
    if (!key || !rl_dict_set(c->arena, dict, rl_value_string(key), value)) return no_memory(c);
    return RL_OK;
}

static rl_status make_string(chat *c, const char *text, size_t bytes, rl_value *out)
{
    const rl_string *string = rl_string_create(c->arena, text, bytes);
    if (!string) return no_memory(c);
    *out = rl_value_string(string);
    return RL_OK;
}

/* ---- tool calls ----------------------------------------------------------------------------- */

static rl_status parse_arguments(chat *c, size_t message, size_t call, rl_value *arguments)
{
    char what[96];
    rl_error inner = { { 0 } };
    const rl_string *text = arguments->string;
    snprintf(what, sizeof what, "messages[%zu].tool_calls[%zu].function.arguments", message, call);
    rl_status status = rl_json_read(c->arena, text->at, text->bytes, what, 0, arguments, &inner);
    if (status == RL_NOMEM) return no_memory(c);
    if (status) return refuse(c, "the template needs an object; %s", inner.text);
    if (arguments->kind != RL_VALUE_DICT)
        return refuse(c, "the template needs an object; %s is JSON for %s", what,
                      rl_value_kind_name(arguments->kind));
    return RL_OK;
}

/* Marks or parses the arguments of one call, in a copy of it. The call may have them itself or in
 * its member `function`. */
static rl_status prepare_call(chat *c, size_t message, size_t index, rl_value *call)
{
    rl_dict *copy = copy_dict(c, call->dict), *holder = copy;
    if (!copy) return no_memory(c);
    *call = rl_value_dict(copy);
    rl_value *function = rl_dict_find_text(copy, "function");
    if (function && function->kind == RL_VALUE_DICT) {
        holder = copy_dict(c, function->dict);
        if (!holder) return no_memory(c);
        *function = rl_value_dict(holder);
    }
    rl_value *arguments = rl_dict_find_text(holder, "arguments");
    if (!arguments || arguments->kind != RL_VALUE_STRING) return RL_OK;
    if (c->parse_arguments) return parse_arguments(c, message, index, arguments);
    arguments->mark = MARK_ARGUMENTS;
    return RL_OK;
}

static rl_status prepare_calls(chat *c, size_t message, rl_dict *copy)
{
    rl_value *calls = rl_dict_find_text(copy, "tool_calls");
    if (c->params->as_given || !calls || calls->kind != RL_VALUE_LIST) return RL_OK;
    rl_list *list = copy_list(c, calls->list);
    if (!list) return no_memory(c);
    *calls = rl_value_list(list);
    for (size_t i = 0; i < list->count; i++) {
        rl_status status = prepare_call(c, message, i, &list->items[i]);
        if (status) return status;
    }
    return RL_OK;
}

/* ---- content -------------------------------------------------------------------------------- */

static rl_status join_parts(chat *c, size_t message, const rl_list *parts, rl_value *out)
{
    const rl_string *sum = rl_string_create(c->arena, "", 0);
    for (size_t i = 0; sum && i < parts->count; i++) {
        rl_value type = member(parts->items[i].dict, "type");
        rl_value text = member(parts->items[i].dict, "text");
        bool is_text = type.kind == RL_VALUE_MISSING ||
                       (type.kind == RL_VALUE_STRING && rl_string_is(type.string, "text"));
        if (!is_text)
            return refuse(c,
                          "messages[%zu].content[%zu] is no text, and the template takes nothing "
                          "else",
                          message, i);
        if (text.kind != RL_VALUE_STRING)
            return refuse(c, "messages[%zu].content[%zu].text is %s, it must be a string", message,
                          i, rl_value_kind_name(text.kind));
        sum = rl_string_join(c->arena, sum, text.string);
    }
    if (!sum) return no_memory(c);
    *out = rl_value_string(sum);
    return RL_OK;
}

/* Puts END_OF_CONTENT behind a text. */
static rl_status mark_end(chat *c, rl_value *text)
{
    const rl_string *content = text->string;
    size_t kept = content->bytes;
    rl_value end = { 0 };
    if (c->strip_final) kept -= rl_text_trailing_space(content->at, kept);
    rl_status status = make_string(c, content->at, kept, text);
    const char *tag = c->strip_final ? END_OF_CONTENT : END_OF_CONTENT " ";
    if (!status) status = make_string(c, tag, strlen(tag), &end);
    if (status) return status;
    const rl_string *sum = rl_string_join(c->arena, text->string, end.string);
    if (!sum) return no_memory(c);
    *text = rl_value_string(sum);
    return RL_OK;
}

/* The same for the last text among parts; the list is a copy already. */
static rl_status mark_end_of_parts(chat *c, rl_list *parts)
{
    for (size_t i = parts->count; i > 0; i--) {
        rl_value *text = rl_dict_find_text(parts->items[i - 1].dict, "text");
        if (!text || text->kind != RL_VALUE_STRING) continue;
        rl_dict *part = copy_dict(c, parts->items[i - 1].dict);
        if (!part) return no_memory(c);
        parts->items[i - 1] = rl_value_dict(part);
        return mark_end(c, rl_dict_find_text(part, "text"));
    }
    return refuse(c, "the last message has no text to continue");
}

static rl_status prepare_content(chat *c, size_t message, rl_dict *copy)
{
    rl_status status = RL_OK;
    bool is_final = c->continue_final && message + 1 == c->given->count;
    rl_value *content = rl_dict_find_text(copy, "content");
    c->parts[message] = NULL;
    if (!content) {
        return is_final ? refuse(c, "the last message has no content to continue") : RL_OK;
    }
    if (content->kind == RL_VALUE_NONE && (c->fill_null || is_final))
        status = make_string(c, "", 0, content);
    else if (content->kind == RL_VALUE_LIST && c->join[message])
        status = join_parts(c, message, content->list, content);
    if (status) return status;
    if (content->kind == RL_VALUE_STRING) return is_final ? mark_end(c, content) : RL_OK;
    if (content->kind == RL_VALUE_NONE) {
        content->mark = c->params->as_given ? 0 : MARK_NULL;
        return RL_OK;
    }
    rl_list *parts = copy_list(c, content->list);
    if (!parts) return no_memory(c);
    *content = rl_value_list(parts);
    if (!c->params->as_given) {
        content->mark = MARK_PARTS;
        c->parts[message] = parts;
    }
    return is_final ? mark_end_of_parts(c, parts) : RL_OK;
}

/* ---- variables ------------------------------------------------------------------------------ */

static rl_status prepare_messages(chat *c, rl_value *out)
{
    rl_list *messages = rl_list_create(c->arena, c->given->count);
    if (!messages) return no_memory(c);
    for (size_t i = 0; i < c->given->count; i++) {
        rl_dict *message = copy_dict(c, c->given->items[i].dict);
        if (!message || !rl_list_add(c->arena, messages, rl_value_dict(message)))
            return no_memory(c);
        rl_status status = prepare_content(c, i, message);
        if (!status) status = prepare_calls(c, i, message);
        if (status) return status;
    }
    *out = rl_value_list(messages);
    return RL_OK;
}

static rl_status add_members(chat *c, rl_dict *variables, const rl_dict *from)
{
    static const char *const own[] = { "messages", "continue_final_message",
                                       "chat_template_kwargs" };
    for (size_t i = 0; i < from->count; i++) {
        bool skip = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
            skip |= rl_string_is(from->pairs[i].key.string, own[k]);
        if (!skip && !rl_dict_set(c->arena, variables, from->pairs[i].key, from->pairs[i].value))
            return no_memory(c);
    }
    return RL_OK;
}

static rl_status add_token(chat *c, rl_dict *variables, const char *name, const char *token)
{
    rl_value text;
    if (!token) return RL_OK;
    rl_status status = make_string(c, token, strlen(token), &text);
    return status ? status : set(c, variables, name, text);
}

static rl_status prepare(chat *c, rl_dict **out)
{
    rl_value messages, kwargs = member(c->conversation, "chat_template_kwargs");
    bool prompt = c->add_generation_prompt && !c->continue_final;
    rl_dict *variables = rl_dict_create(c->arena, c->conversation->count + 4);
    if (!variables) return no_memory(c);
    rl_status status = add_token(c, variables, "bos_token", c->params->bos_token);
    if (!status) status = add_token(c, variables, "eos_token", c->params->eos_token);
    if (!status) status = set(c, variables, "tools", rl_value_none());
    if (!status) status = add_members(c, variables, c->conversation);
    if (!status && kwargs.kind == RL_VALUE_DICT) status = add_members(c, variables, kwargs.dict);
    if (!status) status = set(c, variables, "add_generation_prompt", rl_value_bool(prompt));
    if (!status) status = prepare_messages(c, &messages);
    if (!status) status = set(c, variables, "messages", messages);
    *out = variables;
    return status;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Lets all parts that the template has not looked into be joined; false when there are none. */
static bool join_unused_parts(chat *c)
{
    bool any = false;
    for (size_t i = 0; i < c->given->count; i++) {
        if (!c->parts[i] || c->parts[i]->iterated || c->join[i]) continue;
        c->join[i] = any = true;
    }
    return any;
}

static bool turn_on(bool *flag)
{
    bool changed = !*flag;
    *flag = true;
    return changed;
}

/* Decides after a pass whether something has to be changed and another pass made. */
static bool change_something(chat *c, const rl_jinja_uses *uses, rl_status status)
{
    if (status == RL_OK) {
        unsigned seen = uses->seen[MARK_ARGUMENTS];
        bool twice = seen & RL_JINJA_AS_JSON && !(seen & RL_JINJA_TESTED);
        bool changed = (twice || seen & RL_JINJA_SPELLED) && turn_on(&c->parse_arguments);
        return join_unused_parts(c) || changed;
    }
    if (status != RL_INVALID && status != RL_UNSUPPORTED) return false;
    switch (uses->last) { /* what it failed at */
    case MARK_ARGUMENTS: return turn_on(&c->parse_arguments);
    case MARK_NULL: return turn_on(&c->fill_null);
    case MARK_PARTS: return join_unused_parts(c);
    default: return false;
    }
}

static rl_status render_once(chat *c, rl_jinja_uses *uses, char **text, size_t *bytes)
{
    rl_dict *variables = NULL;
    rl_jinja_params params = { .limits = c->params->limits, .now = c->params->now, .uses = uses };
    *uses = (rl_jinja_uses){ 0 };
    rl_status status = prepare(c, &variables);
    if (status) return status;
    return rl_jinja_render(c->jinja, c->arena, variables, &params, text, bytes, c->err);
}

static rl_status render(chat *c, char **text, size_t *bytes)
{
    rl_jinja_uses uses;
    for (;;) {
        rl_status status = render_once(c, &uses, text, bytes);
        if (!change_something(c, &uses, status)) return status;
        free(*text);
        *text = NULL;
    }
}

/* Cuts the text where the content of the last message ends. */
static rl_status cut_at_end(chat *c, char **text, size_t *bytes)
{
    size_t tag_bytes = strlen(END_OF_CONTENT);
    size_t at = rl_text_find_last(*text, *bytes, END_OF_CONTENT, tag_bytes);
    if (at != SIZE_MAX && !c->strip_final && (*text)[at + tag_bytes] != ' ') {
        /* The template strips contents: do so before the mark is set, and look again. */
        rl_jinja_uses uses;
        free(*text);
        *text = NULL;
        c->strip_final = true;
        rl_status status = render_once(c, &uses, text, bytes);
        if (status) return status;
        at = rl_text_find_last(*text, *bytes, END_OF_CONTENT, tag_bytes);
    }
    if (at == SIZE_MAX)
        return refuse(c, "the template does not show the content of the last message, so it cannot "
                         "be continued");
    (*text)[at] = '\0';
    *bytes = at;
    return RL_OK;
}

rl_status rl_chat_render_value(const rl_jinja *jinja, rl_arena *arena, rl_value conversation,
                               const rl_chat_params *params, char **text, size_t *bytes,
                               rl_error *err)
{
    static const rl_chat_params defaults = { 0 };
    RL_ASSERT(jinja && arena && text && bytes);
    chat c = { .jinja = jinja, .arena = arena, .params = params ? params : &defaults, .err = err };
    *text = NULL;
    *bytes = 0;
    if (conversation.kind != RL_VALUE_DICT)
        return refuse(&c, "it is %s, it must be an object", rl_value_kind_name(conversation.kind));
    c.conversation = conversation.dict;
    rl_status status = check(&c);
    if (status) return status;
    c.parts = rl_arena_alloc(arena, c.given->count * sizeof *c.parts);
    c.join = rl_arena_alloc(arena, c.given->count * sizeof *c.join);
    if (!c.parts || !c.join) return no_memory(&c);
    memset(c.join, 0, c.given->count * sizeof *c.join);
    status = render(&c, text, bytes);
    if (!status && c.continue_final) status = cut_at_end(&c, text, bytes);
    if (status) {
        free(*text);
        *text = NULL;
        *bytes = 0;
    }
    return status;
}

rl_status rl_chat_render(const rl_jinja *jinja, const char *json, size_t json_bytes,
                         const rl_chat_params *params, char **text, size_t *bytes, rl_error *err)
{
    rl_arena arena;
    rl_value conversation;
    size_t limit =
        params && params->max_memory_bytes ? params->max_memory_bytes : (size_t)256 << 20;
    RL_ASSERT(json && text && bytes);
    *text = NULL;
    *bytes = 0;
    rl_arena_init(&arena, limit);
    rl_status status =
        rl_json_read(&arena, json, json_bytes, "conversation", 0, &conversation, err);
    if (!status)
        status = rl_chat_render_value(jinja, &arena, conversation, params, text, bytes, err);
    rl_arena_fini(&arena);
    return status;
}
