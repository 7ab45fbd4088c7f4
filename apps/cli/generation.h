/* generation.h - one answer: what generate, chat and bench have in common.
 *
 * The sampling options stand here once, as rows for the tables of the commands that sample. */
#ifndef RL_CLI_GENERATION_H
#define RL_CLI_GENERATION_H

#include "cli.h"
#include "json.h"

typedef struct cli_sampling {
    float temperature, top_p, min_p, repeat_penalty, presence_penalty;
    uint32_t top_k;
    bool ignore_eos;
} cli_sampling;

#define CLI_SAMPLING_DEFAULTS                                                                      \
    {                                                                                              \
        .temperature = 0.7f, .top_k = 20, .top_p = 0.8f                                            \
    }

/* Rows of an options table; `type` has a member `sampling`. */
#define CLI_SAMPLING_OPTIONS(type)                                                                 \
    { "--temp", "T",  CLI_NUMBER, offsetof(type, sampling.temperature),                            \
      0,        1000, NULL,       "temperature (0.7); 0 always takes the likeliest token" },       \
        { "--top-k", "K",     CLI_UINT, offsetof(type, sampling.top_k),                            \
          0,         1 << 30, NULL,     "only the K likeliest tokens (20); 0: all" },              \
        { "--top-p", "P", CLI_NUMBER, offsetof(type, sampling.top_p),                              \
          0,         1,   NULL,       "only the likeliest tokens that reach P together (0.8)" },   \
        { "--min-p", "P", CLI_NUMBER, offsetof(type, sampling.min_p),                              \
          0,         1,   NULL,       "only tokens with P times the largest probability (0)" },    \
        { "--repeat-penalty",                                                                      \
          "R",                                                                                     \
          CLI_NUMBER,                                                                              \
          offsetof(type, sampling.repeat_penalty),                                                 \
          0,                                                                                       \
          1000,                                                                                    \
          NULL,                                                                                    \
          "divides the logits of the last 64 tokens (1: off)" },                                   \
        { "--presence-penalty",                                                                    \
          "P",                                                                                     \
          CLI_NUMBER,                                                                              \
          offsetof(type, sampling.presence_penalty),                                               \
          -1000,                                                                                   \
          1000,                                                                                    \
          NULL,                                                                                    \
          "is subtracted from the logits of the last 64 tokens (0)" },                             \
    {                                                                                              \
        "--ignore-eos", NULL, CLI_FLAG, offsetof(type, sampling.ignore_eos), 0, 0, NULL,           \
            "end tokens are never chosen"                                                          \
    }

/* Returns -1 or the exit code. */
int cli_create_sampler(const cli_call *call, const cli_sampling *sampling, const rl_model *model,
                       rl_sampler **out);

typedef enum cli_stop { CLI_STOP_EOS, CLI_STOP_LENGTH, CLI_STOP_INTERRUPT } cli_stop;
const char *cli_stop_name(cli_stop stop); /* "eos", "length", "interrupt" */

typedef struct cli_generation {
    /* in */
    const rl_model *model;
    rl_session *session; /* its last logits say how to begin */
    rl_sampler *sampler;
    uint32_t most;                                /* tokens */
    bool feed_end;                                /* the end token is fed to the session, too */
    bool (*show)(const char *text, size_t bytes); /* as it comes; false: stop. May be NULL    */
    /* out */
    uint32_t *tokens; /* with the end token */
    size_t n_tokens;
    char *text; /* without it; terminated, valid UTF-8 */
    size_t text_bytes;
    cli_stop stop;
    bool context_full; /* stopped before `most` because the session holds no more */
    uint64_t ns;
} cli_generation;

/* Returns -1, or the exit code of a failure, which has been said; what was generated until then is
 * there in both cases. An interrupt is not a failure. cli_generation_fini() frees. */
int cli_generate_run(cli_generation *g);
void cli_generation_fini(cli_generation *g);

/* Prints to stdout at once; for `show`. */
bool cli_show_text(const char *text, size_t bytes);

/* Key "timings" of a JSON object that is open. Reading took prompt_ns. */
typedef struct cli_timings {
    uint64_t load_ns, prompt_ns, decode_ns;
    size_t n_prompt, n_decoded;
} cli_timings;
void cli_json_timings(cli_json *json, const cli_timings *timings);
/* Key "cache": the figures of all tokens that were generated since the model was opened. */
void cli_json_cache(cli_json *json, const rl_session *session);
/* The same figures as keys of the object that is open; n_tokens generated tokens made them. */
void cli_json_cache_figures(cli_json *json, const rl_session_stats *stats, size_t n_tokens);

uint64_t cli_clock_ns(void);

#endif
