/* redlite_text.c - include/redlite.h on top of text/: tokens, text streams, chat. */
#include "redlite_model.h"

#include <stdlib.h>
#include <string.h>

#include "text/chat.h"
#include "text/utf8_stream.h"

rl_status rl_tokenize(const rl_model *model, const char *text, size_t bytes, bool parse_special,
                      uint32_t **ids, size_t *n_ids, rl_error *err)
{
    rl_tokens tokens = { 0 };
    uint32_t flags = RL_ENCODE_SEQUENCE | (parse_special ? RL_ENCODE_SPECIAL : 0);
    *ids = NULL;
    *n_ids = 0;
    rl_status status = rl_tokenizer_encode(model->tokenizer, text, bytes, flags, &tokens, err);
    if (status) {
        rl_tokens_fini(&tokens);
        return status;
    }
    *ids = tokens.ids;
    *n_ids = tokens.n;
    return RL_OK;
}

rl_status rl_detokenize(const rl_model *model, const uint32_t *ids, size_t n_ids, char **text,
                        size_t *bytes, rl_error *err)
{
    rl_text_buffer out = { 0 };
    *text = NULL;
    *bytes = 0;
    rl_status status =
        rl_tokenizer_decode(model->tokenizer, ids, n_ids, RL_DECODE_CONTROL, &out, err);
    if (!status) status = rl_text_buffer_append(&out, "", 1, err); /* the terminator */
    if (status) {
        rl_text_buffer_fini(&out);
        return status;
    }
    *text = out.data;
    *bytes = out.bytes - 1;
    return RL_OK;
}

bool rl_token_is_end(const rl_model *model, uint32_t token)
{
    return token < rl_tokenizer_n_tokens(model->tokenizer) &&
           rl_tokenizer_is_stop(model->tokenizer, token);
}

bool rl_token_is_control(const rl_model *model, uint32_t token)
{
    return token < rl_tokenizer_n_tokens(model->tokenizer) &&
           rl_tokenizer_type(model->tokenizer, token) == RL_TOKEN_CONTROL;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct rl_text_stream {
    const rl_model *model;
    rl_utf8_stream utf8;
    char *out; /* room for the longest token */
};

rl_status rl_text_stream_create(rl_text_stream **out, const rl_model *model, rl_error *err)
{
    *out = NULL;
    size_t longest = 1;
    for (uint32_t id = 0; id < rl_tokenizer_n_tokens(model->tokenizer); id++) {
        size_t bytes;
        rl_tokenizer_bytes(model->tokenizer, id, &bytes);
        if (bytes > longest) longest = bytes;
    }
    rl_text_stream *s = calloc(1, sizeof *s);
    char *room = malloc(RL_UTF8_STREAM_ROOM(longest) + 1);
    if (!s || !room) {
        free(s);
        free(room);
        return rl_fail(err, RL_NOMEM, "no memory for a text stream");
    }
    s->model = model;
    s->out = room;
    *out = s;
    return RL_OK;
}

void rl_text_stream_destroy(rl_text_stream *s)
{
    if (!s) return;
    free(s->out);
    free(s);
}

const char *rl_text_stream_push(rl_text_stream *s, uint32_t token, size_t *bytes)
{
    size_t n = 0;
    *bytes = 0;
    if (token < rl_tokenizer_n_tokens(s->model->tokenizer) &&
        !rl_token_is_control(s->model, token)) {
        const char *data = rl_tokenizer_bytes(s->model->tokenizer, token, &n);
        *bytes = rl_utf8_stream_push(&s->utf8, data, n, s->out);
    }
    s->out[*bytes] = 0;
    return s->out;
}

const char *rl_text_stream_flush(rl_text_stream *s, size_t *bytes)
{
    *bytes = rl_utf8_stream_flush(&s->utf8, s->out);
    s->out[*bytes] = 0;
    return s->out;
}

/* ---- chat ------------------------------------------------------------------------------------ */

/* The text of a token as a terminated copy; NULL when the file names no such token. */
static char *special_text(const rl_model *model, rl_special_name name)
{
    uint32_t id;
    size_t bytes;
    if (!model || !rl_tokenizer_special(model->tokenizer, name, &id)) return NULL;
    const char *data = rl_tokenizer_bytes(model->tokenizer, id, &bytes);
    return strndup(data, bytes);
}

rl_status rl_render_chat(const rl_model *model, const char *template_text, const char *json,
                         size_t json_bytes, char **text, size_t *bytes, rl_error *err)
{
    *text = NULL;
    *bytes = 0;
    const char *source = template_text;
    size_t source_bytes = template_text ? strlen(template_text) : 0;
    if (!source && model) {
        source = model->chat_template;
        source_bytes = model->chat_template_bytes;
    }
    if (!source)
        return rl_fail(err, RL_FORMAT, "%s carries no chat template",
                       model ? rl_gguf_path(rl_model_file(model)) : "the model");
    char *bos = special_text(model, RL_SPECIAL_BOS), *eos = special_text(model, RL_SPECIAL_EOS);
    rl_chat_params params = { .bos_token = bos, .eos_token = eos };
    rl_jinja *jinja = NULL;
    rl_status status = rl_jinja_parse(&jinja, source, source_bytes, "chat template", err);
    if (!status) status = rl_chat_render(jinja, json, json_bytes, &params, text, bytes, err);
    rl_jinja_destroy(jinja);
    free(bos);
    free(eos);
    return status;
}
