/* redlite.h - the whole public interface of libredlite.
 *
 * The library runs sparse mixture-of-experts language models of the Qwen3-Next family from GGUF
 * files. A caller opens a model, creates sessions on it (one session is one timeline of tokens),
 * feeds tokens and reads logits. Types are opaque, there are no globals, errors are values.
 *
 * Errors   Every function that can fail returns an rl_status; RL_OK is 0. With a non-NULL rl_error
 *          the reason stands there in one sentence that names the file, tensor, key or device.
 * Threads  One model may have many sessions, and different threads may use different sessions of
 *          one model at the same time: the work is serialised inside. One session, tokenizer call
 *          output or sampler belongs to one thread at a time.
 * Memory   Everything large is taken when a model is opened or a session is created. */
#ifndef REDLITE_H
#define REDLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RL_MUST_CHECK __attribute__((warn_unused_result))
#define RL_API        __attribute__((visibility("default")))
#else
#define RL_MUST_CHECK
#define RL_API
#endif

#define RL_VERSION_MAJOR 0
#define RL_VERSION_MINOR 1
#define RL_VERSION_PATCH 0

/* ---- status and error text ------------------------------------------------------------------ */

typedef enum rl_status {
    RL_OK = 0,
    RL_INVALID,     /* an argument is out of range or makes no sense               */
    RL_IO,          /* a file could not be opened, read or written                 */
    RL_FORMAT,      /* a file, template or text is malformed                       */
    RL_UNSUPPORTED, /* well formed, but this build or backend cannot do it         */
    RL_NOMEM,       /* no memory                                                   */
    RL_DEVICE,      /* a compute device failed or is not there                     */
    RL_FULL,        /* the session's context is full                               */
    RL_INTERRUPTED  /* the caller's progress function asked to stop                */
} rl_status;

/* The caller's storage for one sentence. Always terminated; longer text is cut. */
typedef struct rl_error {
    char text[512];
} rl_error;

/* A short English name of a status, never NULL. */
RL_API const char *rl_status_name(rl_status status);

/* The library's version, "0.1.0". */
RL_API const char *rl_version(void);

/* Frees what the library handed out as "free with rl_free". NULL is fine. */
RL_API void rl_free(void *memory);

/* ---- devices -------------------------------------------------------------------------------- */

typedef struct rl_device_info {
    char backend[16];      /* "cpu", "vulkan": for --backend                                   */
    char name[160];        /* "NVIDIA H200"; for --device, as is its index in the list          */
    char kind[16];         /* "cpu", "discrete", "integrated", "virtual", "software"            */
    char driver[160];      /* driver and API version, empty for the CPU                         */
    char features[256];    /* instruction sets or device features that are used                 */
    uint64_t memory_bytes; /* total                                                             */
    uint64_t free_bytes;   /* what may be used now; 0 where unknown                             */
    bool usable;
    char reason[256]; /* why not, one sentence                                             */
} rl_device_info;

/* Lists compute devices: *n_found may exceed `capacity`, then only the first are written. */
RL_API RL_MUST_CHECK rl_status rl_devices(rl_device_info *out, size_t capacity, size_t *n_found,
                                          rl_error *err);

/* ---- models --------------------------------------------------------------------------------- */

typedef struct rl_model rl_model;

typedef enum rl_io_mode { RL_IO_AUTO, RL_IO_DIRECT, RL_IO_BUFFERED } rl_io_mode;

/* A zero field means its default. Strings are only read during the call. */
typedef struct rl_model_params {
    const char *backend;  /* "auto", "cpu", "oracle", "vulkan"; auto: see rl_model_open           */
    const char *device;   /* index or name in the list of rl_devices                             */
    uint32_t n_threads;   /* default: the physical cores that the process may use                */
    uint32_t cache_mib;   /* expert pool; default: as much as fits                               */
    uint64_t cache_bytes; /* the same in bytes, for pools that are no whole MiB                  */
    uint32_t n_batch;     /* tokens per prefill batch, default 512                               */
    /* The session that memory is left for when cache_mib is not given: as rl_session_params. */
    uint32_t plan_ctx;
    bool plan_key_f32, plan_value_f32;
    uint32_t plan_checkpoints; /* that it will keep: rl_session_checkpoint(); 0: none           */
    rl_io_mode io;
    bool no_prefetch; /* do not read experts ahead of the router                             */
    bool no_preload;  /* do not read all experts at open even when they fit                  */
    bool vocab_only;  /* no weights, no sessions: text functions and metadata                */
    /* Called during long work with a short name of what is going on; false stops the work, and
     * the call under way returns RL_INTERRUPTED. */
    bool (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
    void (*note)(void *context, const char *text); /* one-line remarks worth showing            */
    void *context;
} rl_model_params;

/* Opens a GGUF file (the first part of a split one) and loads what sessions need. params may be
 * NULL. Environment variables RL_CPU, RL_ENGINE_PRELOAD, RL_VULKAN_* are read here.
 * Backend "auto" takes a GPU that opens, holds the planned session and computes a first token, and the
 * CPU otherwise; `note` then says why. What a GPU fails at later is the error of the call that fails.
 * On success *out owns everything: rl_model_close(), after all its sessions are destroyed. */
RL_API RL_MUST_CHECK rl_status rl_model_open(rl_model **out, const char *path,
                                             const rl_model_params *params, rl_error *err);
RL_API void rl_model_close(rl_model *model); /* NULL is fine */

typedef struct rl_model_info {
    char name[128]; /* general.name, or the file name                                   */
    char architecture[32];
    char backend[176]; /* the backend with its device, empty when vocab_only               */
    uint32_t n_vocab, n_layer, n_embd, n_expert, n_expert_used, n_ctx_train;
    uint64_t file_bytes;
    uint64_t dense_bytes;   /* weights outside the routed experts, as loaded                    */
    uint64_t expert_bytes;  /* all routed experts                                               */
    uint64_t cache_bytes;   /* the expert pool                                                  */
    char io[48];            /* how experts are read: "direct, io_uring"                         */
    uint32_t n_slots;       /* experts that fit the pool ...                                    */
    uint32_t n_experts_all; /* ... of this many                                                 */
} rl_model_info;

RL_API void rl_model_get_info(const rl_model *model, rl_model_info *out);

/* ---- text ----------------------------------------------------------------------------------- */

/* Text to tokens. With parse_special, text that spells a control token becomes that token; without
 * it stays text. Invalid UTF-8 is RL_FORMAT and the sentence names the byte. *ids: free with
 * rl_free. Any thread. */
RL_API RL_MUST_CHECK rl_status rl_tokenize(const rl_model *model, const char *text, size_t bytes,
                                           bool parse_special, uint32_t **ids, size_t *n_ids,
                                           rl_error *err);

/* Tokens to exactly their bytes, which may not be UTF-8. *bytes is terminated: free with rl_free.
 * Control tokens give their text. RL_INVALID for an id outside the vocabulary. */
RL_API RL_MUST_CHECK rl_status rl_detokenize(const rl_model *model, const uint32_t *ids,
                                             size_t n_ids, char **text, size_t *bytes,
                                             rl_error *err);

/* Whether generation ends with this token. */
RL_API bool rl_token_is_end(const rl_model *model, uint32_t token);
/* Whether the token is a control token, which is not part of an answer's text. */
RL_API bool rl_token_is_control(const rl_model *model, uint32_t token);

/* Streams tokens out as text that is valid UTF-8 at every moment: an incomplete character is held
 * back, bytes that cannot become one turn into U+FFFD. */
typedef struct rl_text_stream rl_text_stream;
RL_API RL_MUST_CHECK rl_status rl_text_stream_create(rl_text_stream **out, const rl_model *model,
                                                     rl_error *err);
RL_API void rl_text_stream_destroy(rl_text_stream *stream);
/* The text that may be shown now, terminated, borrowed until the next call; control tokens give
 * nothing. */
RL_API const char *rl_text_stream_push(rl_text_stream *stream, uint32_t token, size_t *bytes);
RL_API const char *rl_text_stream_flush(rl_text_stream *stream, size_t *bytes);

/* Renders a conversation by the model's chat template, or by `template_text` when it is not NULL.
 * `json`: {"messages":[..],"tools":[..],"add_generation_prompt":bool,"continue_final_message":bool,
 * "enable_thinking":bool}. *text: terminated, free with rl_free. A conversation that the template
 * refuses is RL_INVALID, a broken template RL_FORMAT. model may be NULL with template_text. */
RL_API RL_MUST_CHECK rl_status rl_render_chat(const rl_model *model, const char *template_text,
                                              const char *json, size_t json_bytes, char **text,
                                              size_t *bytes, rl_error *err);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct rl_session rl_session;

typedef struct rl_session_params {
    uint32_t n_ctx;          /* default min(context of the model, 4096)                   */
    bool key_f32, value_f32; /* KV cache in f32 instead of f16                            */
} rl_session_params;

/* params may be NULL. The model must outlive the session. */
RL_API RL_MUST_CHECK rl_status rl_session_create(rl_session **out, rl_model *model,
                                                 const rl_session_params *params, rl_error *err);
RL_API void rl_session_destroy(rl_session *session); /* NULL is fine */

RL_API uint32_t rl_session_position(const rl_session *session); /* tokens fed so far */
RL_API uint32_t rl_session_n_ctx(const rl_session *session);
RL_API RL_MUST_CHECK rl_status rl_session_reset(rl_session *session, rl_error *err);

/* Reads n >= 1 tokens. On failure the session stands where the last whole batch left it (for one
 * token: as if the call had not been made), and can be used again. RL_FULL: they would not fit,
 * nothing was read. */
RL_API RL_MUST_CHECK rl_status rl_session_feed(rl_session *session, const uint32_t *tokens,
                                               size_t n, rl_error *err);

/* The same, and calls each(context, i, logits) for every token in order; logits [n_vocab] of what
 * follows tokens[i], borrowed during the call. Returning false stops with RL_INTERRUPTED. */
typedef bool (*rl_logits_function)(void *context, size_t index, const float *logits);
RL_API RL_MUST_CHECK rl_status rl_session_feed_each(rl_session *session, const uint32_t *tokens,
                                                    size_t n, rl_logits_function each,
                                                    void *context, rl_error *err);

/* Logits [n_vocab] after the last token fed; borrowed until the next call. NULL before the first
 * token, and when a device that still had them has failed. */
RL_API const float *rl_session_logits(const rl_session *session);

/* Remembers the present position, to come back to. A few are kept, the oldest leave first. */
RL_API RL_MUST_CHECK rl_status rl_session_checkpoint(rl_session *session, rl_error *err);
/* Goes back to the newest checkpoint at or before `position` (or to the empty session) and forgets
 * the later ones. rl_session_position() tells where that is; logits are those of that moment. A
 * device that fails on the way leaves the session empty. */
RL_API RL_MUST_CHECK rl_status rl_session_rewind(rl_session *session, uint32_t position,
                                                 rl_error *err);

/* The tokens fed so far; borrowed until the next call. */
RL_API const uint32_t *rl_session_tokens(const rl_session *session);

/* Writes the session to a file, or reads it back into a session of the same model: a file of
 * another model, a damaged one, or one that does not fit n_ctx is refused and nothing changes; when
 * reading fails after that, or a device does, the session is empty. */
RL_API RL_MUST_CHECK rl_status rl_session_save(rl_session *session, const char *path,
                                               rl_error *err);
RL_API RL_MUST_CHECK rl_status rl_session_load(rl_session *session, const char *path,
                                               rl_error *err);

typedef struct rl_session_stats {
    uint64_t prompt_tokens, prompt_ns;       /* read in batches of more than one                */
    uint64_t generated_tokens, generated_ns; /* read one at a time                              */
    /* Expert cache, generated tokens only, of the whole model. */
    uint64_t hits, misses, evictions, bytes_read, wait_ns;
    uint64_t reading_ns; /* something was being read, whether or not anybody waited */
    uint64_t arriving;   /* asked for while already on their way: neither hit nor miss */
    uint64_t prefetched, prefetch_used, prefetch_wasted; /* read ahead; asked for; thrown out   */
    uint32_t distinct_experts_max, distinct_experts_min; /* per layer, over the run             */
    uint32_t slots_used, slots_all;
    /* How generated tokens were decoded, of the whole model: docs/gpu-routing.md. */
    uint64_t tokens_sync, tokens_routed, tokens_resumed, tokens_restarted, tokens_gated;
    /* Work handed to device queues, of the whole model, prompts too; 0 where there is none. */
    uint64_t submissions, waits;
} rl_session_stats;

RL_API void rl_session_get_stats(const rl_session *session, rl_session_stats *out);

/* Where the time goes: time per stage of a batch, summed up since it was last switched on. Of a device
 * that decodes a token in one submission it is the device's time, of such tokens alone. */
RL_API void rl_model_time_stages(rl_model *model, bool on);
/* Tokens in these times: those of a prompt too where stages compute at once. */
RL_API uint64_t rl_model_timed_tokens(const rl_model *model);
/* The index-th stage in the order of a token, or false behind the last. name is a constant; *ns is 0 for a
 * stage whose time is part of another's. */
RL_API bool rl_model_get_stage(const rl_model *model, size_t index, const char **name,
                               uint64_t *ns);

/* ---- sampling ------------------------------------------------------------------------------- */

typedef struct rl_sampler rl_sampler;

typedef struct rl_logit_bias {
    uint32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
} rl_logit_bias;

/* Applied in this order: bias, penalties over the last `penalty_window` tokens, temperature,
 * top-k, top-p, min-p, then one draw. A zero field switches its step off; temperature 0 takes the
 * largest logit (after bias and penalties; ties to the lower id). */
typedef struct rl_sampler_params {
    float temperature;
    uint32_t top_k;
    float top_p;             /* smallest set of probability >= top_p; 0 or 1: off                */
    float min_p;             /* at least min_p times the largest probability                     */
    float repeat_penalty;    /* > 0: positive logits are divided, negative multiplied; 0, 1: off */
    float presence_penalty;  /* subtracted once from every token seen                            */
    uint32_t penalty_window; /* default 64                                                      */
    uint64_t seed;
    const rl_logit_bias *bias; /* copied */
    size_t n_bias;
} rl_sampler_params;

RL_API RL_MUST_CHECK rl_status rl_sampler_create(rl_sampler **out, const rl_sampler_params *params,
                                                 uint32_t n_vocab, rl_error *err);
RL_API void rl_sampler_destroy(rl_sampler *sampler); /* NULL is fine */
/* Tells the sampler a token of the text, for the penalties; sampled ones are told by it itself. */
RL_API void rl_sampler_accept(rl_sampler *sampler, uint32_t token);
/* One token. Same logits, seed and history: same token, on every machine. */
RL_API uint32_t rl_sampler_sample(rl_sampler *sampler, const float *logits);
/* The same from the logits of the session. A device that has found the largest of them already keeps
 * the rest to itself where these decide (docs/decisions/0016), which is faster than reading them:
 * top-k up to about 60, penalties and biases that lower. The token is the same.
 * RL_INVALID: no token was fed yet. */
RL_API RL_MUST_CHECK rl_status rl_session_sample(rl_session *session, rl_sampler *sampler,
                                                 uint32_t *token, rl_error *err);

/* ---- quantised blocks ----------------------------------------------------------------------- */

/* Decodes n_values weights of one GGUF tensor type to f32, bit-identical to the format's
 * definition (docs/formats.md). `blocks` needs no alignment. Errors: RL_UNSUPPORTED for an unknown
 * type, RL_INVALID when n_values is not a whole number of blocks. Any thread. */
RL_API RL_MUST_CHECK rl_status rl_dequantize(uint32_t ggml_type, const void *blocks,
                                             size_t n_values, float *out);

#ifdef __cplusplus
}
#endif
#endif
