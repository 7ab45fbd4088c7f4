/* vk_cmd.h - command buffers, submissions, waiting, and GPU clocks.
 *
 * A stream is a queue with one timeline semaphore as its clock: the n-th submission sets it to n.
 * A command buffer is recorded either for one submission or once for many; what changes from token
 * to token lies in memory that the kernels read, so replaying needs no recording.
 *
 * Counters (submissions, waits, recordings) belong to the stream and prove what a token costs.
 *
 * Threads: a command buffer has one owner. Submitting is safe from several threads. */
#ifndef RL_BACKEND_VULKAN_VK_CMD_H
#define RL_BACKEND_VULKAN_VK_CMD_H

#include "backend/vulkan/vk_link.h"
#include "backend/vulkan/vk_memory.h"
#include "backend/vulkan/vk_pipeline.h"

typedef struct rl_vk_counters {
    uint64_t submissions; /* calls of vkQueueSubmit         */
    uint64_t waits;       /* times the host waited          */
    uint64_t recordings;  /* command buffers begun          */
    uint64_t dispatches;  /* recorded, not executed         */
    uint64_t barriers;    /* recorded                       */
} rl_vk_counters;

typedef struct rl_vk_stream {
    rl_vk_device *device;
    const rl_vk_queue *queue;
    VkSemaphore timeline;
    uint64_t submitted; /* value that the last submission sets */
    rl_vk_counters counters;
} rl_vk_stream;

RL_MUST_CHECK rl_status rl_vk_stream_create(rl_vk_stream **out, rl_vk_device *device,
                                            const rl_vk_queue *queue, rl_error *err);
/* Waits for what was submitted (unless the device is lost). NULL is fine. */
void rl_vk_stream_destroy(rl_vk_stream *stream);

typedef struct rl_vk_cmd {
    rl_vk_device *device;
    rl_vk_stream *stream; /* may be gone before rl_vk_cmd_fini */
    VkCommandPool pool;
    VkCommandBuffer handle;
    const rl_vk_pipeline *bound;
    rl_vk_links links; /* of the stages that are recorded */
    bool is_recording;
} rl_vk_cmd;

RL_MUST_CHECK rl_status rl_vk_cmd_init(rl_vk_cmd *cmd, rl_vk_stream *stream, const char *name,
                                       rl_error *err);
void rl_vk_cmd_fini(rl_vk_cmd *cmd); /* a zeroed one is fine */

/* Starts recording; what it held before is gone. once: submitted one time only. */
RL_MUST_CHECK rl_status rl_vk_cmd_begin(rl_vk_cmd *cmd, bool once, rl_error *err);
RL_MUST_CHECK rl_status rl_vk_cmd_end(rl_vk_cmd *cmd, rl_error *err);

/* Records one dispatch of x * y * z workgroups; push may be NULL when push_bytes is 0. */
void rl_vk_cmd_dispatch(rl_vk_cmd *cmd, const rl_vk_pipeline *pipeline, const void *push,
                        uint32_t push_bytes, uint32_t x, uint32_t y, uint32_t z);
/* Kernels recorded after this see what kernels before it wrote. */
void rl_vk_cmd_barrier(rl_vk_cmd *cmd);
/* Stages of kernels, between these two. Where stages are linked (vk_link.h) and `end` is no barrier, kernels
 * of the next stage, which has to begin behind it, wait by themselves. */
void rl_vk_cmd_begin_stage(rl_vk_cmd *cmd, uint32_t layer, rl_vk_stage_end end);
void rl_vk_cmd_end_stage(rl_vk_cmd *cmd);
/* The same for copies as well, on both sides: costs more. */
void rl_vk_cmd_barrier_copies(rl_vk_cmd *cmd);
/* Copies after this overwrite what copies before it wrote; for queues that only copy, too. */
void rl_vk_cmd_barrier_copy_to_copy(rl_vk_cmd *cmd);
/* The host sees, after its wait, what was written before this. */
void rl_vk_cmd_barrier_to_host(rl_vk_cmd *cmd);
void rl_vk_cmd_copy(rl_vk_cmd *cmd, const rl_vk_span *src, uint64_t src_offset,
                    const rl_vk_span *dst, uint64_t dst_offset, uint64_t bytes);
/* bytes and offset: multiples of 4. */
void rl_vk_cmd_fill(rl_vk_cmd *cmd, const rl_vk_span *dst, uint64_t offset, uint64_t bytes,
                    uint32_t word);

/* A timeline value on some semaphore: waited for, or signalled. */
typedef struct rl_vk_point {
    VkSemaphore semaphore;
    uint64_t value;
} rl_vk_point;

/* Submits the buffers in order as one batch, behind what was submitted before. *value (may be NULL)
 * is the stream's clock when they are done. waits: the batch starts after these points. */
RL_MUST_CHECK rl_status rl_vk_stream_submit(rl_vk_stream *stream, const VkCommandBuffer *buffers,
                                            uint32_t n_buffers, const rl_vk_point *waits,
                                            uint32_t n_waits, uint64_t *value, rl_error *err);

/* The value that the last submission sets; any thread. */
uint64_t rl_vk_stream_submitted(rl_vk_stream *stream);

/* Several batches in one call, each with its own wait; the clock advances by one per batch. */
typedef struct rl_vk_batch {
    VkCommandBuffer buffer;
    rl_vk_point wait; /* semaphore VK_NULL_HANDLE: none */
} rl_vk_batch;
RL_MUST_CHECK rl_status rl_vk_stream_submit_batches(rl_vk_stream *stream,
                                                    const rl_vk_batch *batches, uint32_t n,
                                                    uint64_t *last_value, rl_error *err);

/* Waits until the clock reaches value: spinning for up to spin_us, then asleep. */
RL_MUST_CHECK rl_status rl_vk_stream_wait(rl_vk_stream *stream, uint64_t value, uint32_t spin_us,
                                          rl_error *err);
/* The same for a point inside work whose end is waited for elsewhere: not counted as a wait. */
RL_MUST_CHECK rl_status rl_vk_stream_await(rl_vk_stream *stream, uint64_t value, uint32_t spin_us,
                                           rl_error *err);
/* Whether the clock has reached value; *done is false on errors. Does not count as a wait. */
RL_MUST_CHECK rl_status rl_vk_stream_poll(rl_vk_stream *stream, uint64_t value, bool *done,
                                          rl_error *err);

/* ---- GPU clocks ---------------------------------------------------------------------------------- */

typedef struct rl_vk_timer {
    rl_vk_device *device;
    VkQueryPool pool;
    uint32_t n;
} rl_vk_timer;

/* n marks. A device without timestamps makes a timer that reports zeros. */
RL_MUST_CHECK rl_status rl_vk_timer_init(rl_vk_timer *timer, rl_vk_device *device, uint32_t n,
                                         rl_error *err);
void rl_vk_timer_fini(rl_vk_timer *timer);
void rl_vk_timer_reset(rl_vk_timer *timer, rl_vk_cmd *cmd); /* recorded before the first mark */
/* The moment when all work recorded before it is done. */
void rl_vk_timer_mark(rl_vk_timer *timer, rl_vk_cmd *cmd, uint32_t index);
/* Nanoseconds of marks 0..n-1, after the submission is done. */
RL_MUST_CHECK rl_status rl_vk_timer_read(rl_vk_timer *timer, uint32_t n, double *ns, rl_error *err);

#endif
