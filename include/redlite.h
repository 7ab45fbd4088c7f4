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
