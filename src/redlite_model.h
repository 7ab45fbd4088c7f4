/* redlite_model.h - what is behind the public rl_model. */
#ifndef RL_REDLITE_MODEL_H
#define RL_REDLITE_MODEL_H

#include "engine/session.h"
#include "text/tokenizer.h"

struct rl_model {
    rl_engine *engine;   /* NULL when opened for text only ... */
    rl_gguf *vocab_file; /* ... then this is the file */
    rl_config vocab_config;
    rl_tokenizer *tokenizer;
    char *chat_template; /* NULL when the file has none; terminated */
    size_t chat_template_bytes;
};

const rl_gguf *rl_model_file(const rl_model *model);

#endif
