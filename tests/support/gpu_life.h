/* gpu_life.h - everything a program does with a model on a Vulkan device, step by step, so that a test
 * can let any call of any step fail and say what has to follow.
 *
 * The steps: open, a session, a prompt, a checkpoint, tokens (greedy, then sampled), save, go back,
 * reset, load, tokens that are timed. Used with the pretended device and with the machine's own. */
#ifndef RL_TESTS_SUPPORT_GPU_LIFE_H
#define RL_TESTS_SUPPORT_GPU_LIFE_H

#include "engine/decode.h"
#include "engine/session.h"
#include "support/test.h"

typedef struct rl_gpu_setup {
    const char *way;    /* RL_ENGINE_SPECULATIVE */
    bool bounded;       /* a pool for fewer experts than there are */
    bool preload;       /* otherwise experts come as tokens want them */
    const char *device; /* its name, as errors have to say it */
    char saved[512];    /* where the session is saved */
} rl_gpu_setup;

typedef struct rl_gpu_life {
    const rl_gpu_setup *setup;
    rl_engine *engine;
    rl_session *session;
    rl_sampler *sampler;
    uint32_t step; /* the next */
    uint32_t n_tokens, tokens[64];
    rl_stage_times times;
    float logits[512];   /* at the end */
    uint64_t read_ahead; /* experts, in a life that rl_gpu_live() has led */
} rl_gpu_life;

void rl_gpu_begin(rl_gpu_life *life, const rl_gpu_setup *setup);

/* Plays the next step; it stays the next one when it fails. */
rl_status rl_gpu_step(rl_gpu_life *life, rl_error *err);
bool rl_gpu_is_over(const rl_gpu_life *life);
/* "feed the prompt" */
const char *rl_gpu_step_name(const rl_gpu_life *life);
/* Whether the next step, as things stand, cannot be done without the device. */
bool rl_gpu_step_needs_device(const rl_gpu_life *life);

/* What has to be true between two steps, whatever they reported: nothing locked, nothing pinned, the
 * table of experts as the cache has it. */
void rl_gpu_check(const rl_gpu_life *life);

void rl_gpu_end(rl_gpu_life *life);

/* ---- whole lives --------------------------------------------------------------------------------- */

/* How a call fails, and what the caller of the engine sees then. */
typedef struct rl_gpu_fault {
    const char *name;
    int result; /* VkResult */
    rl_status status;
    bool stays; /* not this call alone: every one after it */
} rl_gpu_fault;

enum { RL_GPU_LOST, RL_GPU_DEVICE_MEMORY, RL_GPU_HOST_MEMORY, RL_GPU_NO_MEMORY, RL_GPU_FAULTS };
extern const rl_gpu_fault rl_gpu_faults[RL_GPU_FAULTS];

/* Undisturbed, but counted (rl_guard_calls); fails the test when anything fails. Returns how tokens
 * were decoded. */
rl_decode_counts rl_gpu_live(rl_gpu_life *life, const rl_gpu_setup *setup);

/* With the n-th call failing. It is reported once, by the step that it belongs to, in one sentence
 * that names device and call. After memory ran out that step is played again and all goes on, to the
 * same tokens and logits as in `want`. On a lost device, whatever needs it says so from then on. True
 * when a call was made to fail. */
bool rl_gpu_live_through(const rl_gpu_setup *setup, const rl_gpu_fault *fault, uint64_t n,
                         const rl_gpu_life *want);

/* No object is left, and nobody complained. */
void rl_gpu_check_nothing_left(const rl_gpu_fault *fault, uint64_t n);

#endif
