/* continue.c - the smallest program against redlite.h: reads a prompt and continues it.
 *
 *   cc continue.c $(pkg-config --cflags --libs redlite) -o continue
 *   ./continue MODEL.gguf "Once upon a time"
 */
#include <redlite.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rl_error err;

static void check(rl_status status)
{
    if (!status) return;
    fprintf(stderr, "continue: %s\n", err.text);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: continue MODEL.gguf TEXT\n");
        return 2;
    }
    rl_model *model;
    rl_session *session;
    rl_sampler *sampler;
    rl_text_stream *stream;
    rl_model_info info;
    uint32_t *prompt;
    size_t n_prompt, bytes;

    check(rl_model_open(&model, argv[1], NULL, &err));
    check(rl_session_create(&session, model, NULL, &err));
    rl_model_get_info(model, &info);
    rl_sampler_params how = { .temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .seed = 1 };
    check(rl_sampler_create(&sampler, &how, info.n_vocab, &err));
    check(rl_text_stream_create(&stream, model, &err));

    check(rl_tokenize(model, argv[2], strlen(argv[2]), true, &prompt, &n_prompt, &err));
    check(rl_session_feed(session, prompt, n_prompt, &err));
    fputs(argv[2], stdout);
    for (int i = 0; i < 100; i++) {
        uint32_t token;
        check(rl_session_sample(session, sampler, &token, &err));
        if (rl_token_is_end(model, token)) break;
        fputs(rl_text_stream_push(stream, token, &bytes), stdout);
        fflush(stdout);
        check(rl_session_feed(session, &token, 1, &err));
    }
    puts(rl_text_stream_flush(stream, &bytes));

    rl_free(prompt);
    rl_text_stream_destroy(stream);
    rl_sampler_destroy(sampler);
    rl_session_destroy(session);
    rl_model_close(model);
    return 0;
}
