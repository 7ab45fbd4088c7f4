/* chat.h - conversations to prompt text, by the template that the model file carries.
 *
 * A conversation is a JSON object as OpenAI-style requests have it:
 *   messages                 array of {"role", "content", ...}; content is a string, null, or an array
 *                            of parts ({"type": "text", "text": ...})
 *   tools                    array or null
 *   add_generation_prompt    the text ends where an answer begins; default false
 *   continue_final_message   the last message is the beginning of an answer: everything after the
 *                            end of its content is cut off, and nothing is added
 *   anything else            becomes a variable of the template (enable_thinking ...), and so do the
 *                            members of chat_template_kwargs
 *
 * The text is what Python's apply_chat_template makes of the same input, byte for byte. Three inputs
 * are changed for templates that cannot take them as they are, and only for those; no template is
 * recognised, what happens to the values while rendering decides (docs/decisions/0011):
 *   - arguments of a tool call given as a string of JSON become the object: when rendering fails at
 *     them, goes over the characters, or encodes the string as JSON once more. They must be an
 *     object then.
 *   - content null becomes "": when rendering fails at it.
 *   - content parts become their joined text: when rendering fails at them or never looks into them.
 * Threads: no state, any thread. */
#ifndef RL_TEXT_CHAT_H
#define RL_TEXT_CHAT_H

#include "text/jinja.h"

/* A field left zero means the default. */
typedef struct rl_chat_params {
    rl_jinja_limits limits;
    size_t max_memory_bytes;           /* of one call, default 256 MiB                            */
    int64_t now;                       /* for strftime_now: Unix time; default: the clock         */
    const char *bos_token, *eos_token; /* variables of these names; NULL: undefined               */
    bool as_given;                     /* none of the three changes above: exactly Python         */
} rl_chat_params;

/* Renders a conversation. jinja: the template, from rl_jinja_parse. params may be NULL. *text is
 * malloc'ed with a NUL behind it. Errors: RL_FORMAT: not JSON; RL_INVALID: what the sentence says
 * about the conversation, or the template refused it; RL_UNSUPPORTED: the template needs something
 * that is not supported; RL_NOMEM. */
RL_MUST_CHECK rl_status rl_chat_render(const rl_jinja *jinja, const char *json, size_t json_bytes,
                                       const rl_chat_params *params, char **text, size_t *bytes,
                                       rl_error *err);

/* The same for a value that was read already; it is not changed. Work memory from the arena. */
RL_MUST_CHECK rl_status rl_chat_render_value(const rl_jinja *jinja, rl_arena *arena,
                                             rl_value conversation, const rl_chat_params *params,
                                             char **text, size_t *bytes, rl_error *err);

#endif
