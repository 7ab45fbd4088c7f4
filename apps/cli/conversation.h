/* conversation.h - the messages of a chat, as text, and their way to and from files. */
#ifndef RL_CLI_CONVERSATION_H
#define RL_CLI_CONVERSATION_H

#include "cli.h"

typedef struct cli_message {
    char *role, *content; /* content is UTF-8 and may hold NUL bytes */
    size_t content_bytes;
} cli_message;

typedef struct cli_conversation {
    char *system; /* NULL: none */
    cli_message *messages;
    size_t n, capacity;
} cli_conversation;

void cli_conversation_fini(cli_conversation *c);  /* forgets all; a zeroed one is fine */
void cli_conversation_clear(cli_conversation *c); /* forgets the messages, keeps `system` */
/* false: no memory. */
bool cli_conversation_add(cli_conversation *c, const char *role, const char *content, size_t bytes);
void cli_conversation_drop_last(cli_conversation *c);
bool cli_conversation_set_system(cli_conversation *c, const char *text); /* NULL or "": none */

/* {"messages":[...],"add_generation_prompt":true}: what rl_render_chat() reads. malloc'ed, NULL when
 * there is no memory. */
char *cli_conversation_json(const cli_conversation *c, size_t *bytes);

/* Both return -1, or an exit code after saying what is wrong; then nothing has changed. */
int cli_conversation_save(const cli_conversation *c, const char *path);
int cli_conversation_load(cli_conversation *c, const char *path);

#endif
