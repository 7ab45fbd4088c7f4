/* vk_cmd.c - backend/vulkan/vk_cmd.h.
 *
 * One global memory barrier separates dependent work: everything is reached by address, so there is
 * nothing finer to name, and drivers make the same of it. */
#include "backend/vulkan/vk_cmd.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

#define WAIT_SLICE_NS 2000000000ull /* look for a lost device between slices */
#define WAIT_TRIES    8             /* of a wait that has no memory */

/* ---- streams ------------------------------------------------------------------------------------- */

rl_status rl_vk_stream_create(rl_vk_stream **out, rl_vk_device *device, const rl_vk_queue *queue,
                              rl_error *err)
{
    *out = NULL;
    rl_vk_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return rl_fail(err, RL_NOMEM, "no memory for a device queue");
    stream->device = device;
    stream->queue = queue;
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    VkResult r = device->api.CreateSemaphore(device->handle, &info, NULL, &stream->timeline);
    if (r != VK_SUCCESS) {
        free(stream);
        return rl_vk_check(device, r, "vkCreateSemaphore", err);
    }
    *out = stream;
    return RL_OK;
}

void rl_vk_stream_destroy(rl_vk_stream *stream)
{
    if (!stream) return;
    rl_vk_device *device = stream->device;
    if (stream->submitted && !atomic_load(&device->lost))
        (void)!rl_vk_stream_wait(stream, stream->submitted, 0, NULL);
    device->api.DestroySemaphore(device->handle, stream->timeline, NULL);
    free(stream);
}

rl_status rl_vk_stream_submit(rl_vk_stream *stream, const VkCommandBuffer *buffers,
                              uint32_t n_buffers, const rl_vk_point *waits, uint32_t n_waits,
                              uint64_t *value, rl_error *err)
{
    enum { MAX_WAITS = 4 };
    RL_ASSERT(n_waits <= MAX_WAITS);
    rl_vk_device *device = stream->device;
    if (atomic_load(&device->lost)) return rl_vk_refuse_lost(device, err);
    VkSemaphore semaphores[MAX_WAITS];
    uint64_t values[MAX_WAITS];
    VkPipelineStageFlags stages[MAX_WAITS];
    for (uint32_t i = 0; i < n_waits; i++) {
        semaphores[i] = waits[i].semaphore;
        values[i] = waits[i].value;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    pthread_mutex_lock(stream->queue->lock);
    uint64_t signal = stream->submitted + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = n_waits,
        .pWaitSemaphoreValues = values,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &signal,
    };
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .waitSemaphoreCount = n_waits,
        .pWaitSemaphores = semaphores,
        .pWaitDstStageMask = stages,
        .commandBufferCount = n_buffers,
        .pCommandBuffers = buffers,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &stream->timeline,
    };
    VkResult r = device->api.QueueSubmit(stream->queue->handle, 1, &submit, VK_NULL_HANDLE);
    if (r == VK_SUCCESS) stream->submitted = signal;
    stream->counters.submissions++;
    pthread_mutex_unlock(stream->queue->lock);
    if (value) *value = signal;
    return rl_vk_check(device, r, "vkQueueSubmit", err);
}

rl_status rl_vk_stream_submit_batches(rl_vk_stream *stream, const rl_vk_batch *batches, uint32_t n,
                                      uint64_t *last_value, rl_error *err)
{
    rl_vk_device *device = stream->device;
    if (atomic_load(&device->lost)) return rl_vk_refuse_lost(device, err);
    struct batch_info {
        VkTimelineSemaphoreSubmitInfo timeline;
        VkPipelineStageFlags stage;
        uint64_t signal;
    } *infos = calloc(n, sizeof *infos);
    VkSubmitInfo *submits = calloc(n, sizeof *submits);
    if (!infos || !submits) {
        free(infos);
        free(submits);
        return rl_fail(err, RL_NOMEM, "no memory to submit %u batches", n);
    }
    pthread_mutex_lock(stream->queue->lock);
    uint64_t first = stream->submitted + 1;
    for (uint32_t i = 0; i < n; i++) {
        bool waits = batches[i].wait.semaphore != VK_NULL_HANDLE;
        infos[i].stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
        infos[i].signal = first + i;
        infos[i].timeline = (VkTimelineSemaphoreSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
            .waitSemaphoreValueCount = waits,
            .pWaitSemaphoreValues = &batches[i].wait.value,
            .signalSemaphoreValueCount = 1,
            .pSignalSemaphoreValues = &infos[i].signal,
        };
        submits[i] = (VkSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .pNext = &infos[i].timeline,
            .waitSemaphoreCount = waits,
            .pWaitSemaphores = &batches[i].wait.semaphore,
            .pWaitDstStageMask = &infos[i].stage,
            .commandBufferCount = 1,
            .pCommandBuffers = &batches[i].buffer,
            .signalSemaphoreCount = 1,
            .pSignalSemaphores = &stream->timeline,
        };
    }
    VkResult r = device->api.QueueSubmit(stream->queue->handle, n, submits, VK_NULL_HANDLE);
    if (r == VK_SUCCESS) stream->submitted = first + n - 1;
    stream->counters.submissions++;
    pthread_mutex_unlock(stream->queue->lock);
    free(infos);
    free(submits);
    if (last_value) *last_value = first + n - 1;
    return rl_vk_check(device, r, "vkQueueSubmit", err);
}

uint64_t rl_vk_stream_submitted(rl_vk_stream *stream)
{
    pthread_mutex_lock(stream->queue->lock);
    uint64_t value = stream->submitted;
    pthread_mutex_unlock(stream->queue->lock);
    return value;
}

rl_status rl_vk_stream_poll(rl_vk_stream *stream, uint64_t value, bool *done, rl_error *err)
{
    rl_vk_device *device = stream->device;
    uint64_t now = 0;
    *done = false;
    VkResult r = device->api.GetSemaphoreCounterValue(device->handle, stream->timeline, &now);
    *done = r == VK_SUCCESS && now >= value;
    return rl_vk_check(device, r, "vkGetSemaphoreCounterValue", err);
}

/* A wait that had no memory has not waited, and the work goes on meanwhile. */
static bool is_no_memory(VkResult r)
{
    return r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

rl_status rl_vk_stream_wait(rl_vk_stream *stream, uint64_t value, uint32_t spin_us, rl_error *err)
{
    stream->counters.waits++;
    return rl_vk_stream_await(stream, value, spin_us, err);
}

rl_status rl_vk_stream_await(rl_vk_stream *stream, uint64_t value, uint32_t spin_us, rl_error *err)
{
    rl_vk_device *device = stream->device;
    if (atomic_load(&device->lost)) return rl_vk_refuse_lost(device, err);
    if (spin_us) {
        uint64_t until = rl_clock_ns() + 1000ull * spin_us;
        do {
            bool done;
            if (rl_vk_stream_poll(stream, value, &done, NULL)) break; /* the wait says why */
            if (done) return RL_OK;
            relax();
        } while (rl_clock_ns() < until);
    }
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &stream->timeline,
        .pValues = &value,
    };
    VkResult r;
    uint32_t tries = 0;
    do {
        r = device->api.WaitSemaphores(device->handle, &info, WAIT_SLICE_NS);
        if (r == VK_TIMEOUT && atomic_load(&device->lost)) return rl_vk_refuse_lost(device, err);
        if (is_no_memory(r)) sched_yield();
    } while (r == VK_TIMEOUT || (is_no_memory(r) && ++tries < WAIT_TRIES));
    /* Work that cannot be waited for must not be touched either: the device is given up. */
    if (r != VK_SUCCESS) rl_vk_give_up(device, "vkWaitSemaphores");
    return rl_vk_check(device, r, "vkWaitSemaphores", err);
}

/* ---- command buffers ------------------------------------------------------------------------------ */

rl_status rl_vk_cmd_init(rl_vk_cmd *cmd, rl_vk_stream *stream, const char *name, rl_error *err)
{
    rl_vk_device *device = stream->device;
    memset(cmd, 0, sizeof *cmd);
    cmd->device = device;
    cmd->stream = stream;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = stream->queue->family,
    };
    VkResult r = device->api.CreateCommandPool(device->handle, &pool, NULL, &cmd->pool);
    if (r != VK_SUCCESS) {
        cmd->pool = VK_NULL_HANDLE;
        return rl_vk_check(device, r, "vkCreateCommandPool", err);
    }
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = cmd->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    r = device->api.AllocateCommandBuffers(device->handle, &info, &cmd->handle);
    if (r != VK_SUCCESS) {
        cmd->handle = VK_NULL_HANDLE;
        rl_vk_cmd_fini(cmd);
        return rl_vk_check(device, r, "vkAllocateCommandBuffers", err);
    }
    rl_vk_name(device, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)cmd->handle, "%s", name);
    return RL_OK;
}

void rl_vk_cmd_fini(rl_vk_cmd *cmd)
{
    if (cmd->pool) cmd->device->api.DestroyCommandPool(cmd->device->handle, cmd->pool, NULL);
    memset(cmd, 0, sizeof *cmd);
}

rl_status rl_vk_cmd_begin(rl_vk_cmd *cmd, bool once, rl_error *err)
{
    rl_vk_device *device = cmd->device;
    if (atomic_load(&device->lost)) return rl_vk_refuse_lost(device, err);
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = once ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT : 0,
    };
    VkResult r = device->api.BeginCommandBuffer(cmd->handle, &info);
    cmd->stream->counters.recordings++;
    cmd->bound = NULL;
    cmd->links = (rl_vk_links){ 0 };
    cmd->is_recording = r == VK_SUCCESS;
    return rl_vk_check(device, r, "vkBeginCommandBuffer", err);
}

rl_status rl_vk_cmd_end(rl_vk_cmd *cmd, rl_error *err)
{
    RL_ASSERT(cmd->is_recording);
    cmd->is_recording = false;
    return rl_vk_check(cmd->device, cmd->device->api.EndCommandBuffer(cmd->handle),
                       "vkEndCommandBuffer", err);
}

void rl_vk_cmd_dispatch(rl_vk_cmd *cmd, const rl_vk_pipeline *pipeline, const void *push,
                        uint32_t push_bytes, uint32_t x, uint32_t y, uint32_t z)
{
    const rl_vk_api *api = &cmd->device->api;
    RL_ASSERT(cmd->is_recording && push_bytes <= 128 && push_bytes % 4 == 0);
    if (!x || !y || !z) return;
    RL_ASSERT(x <= 65535 && y <= 65535 && z <= 65535);
    if (cmd->bound != pipeline) {
        api->CmdBindPipeline(cmd->handle, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->handle);
        cmd->bound = pipeline;
    }
    if (push_bytes)
        api->CmdPushConstants(cmd->handle, pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                              push_bytes, push);
    api->CmdDispatch(cmd->handle, x, y, z);
    cmd->stream->counters.dispatches++;
}

static void memory_barrier(rl_vk_cmd *cmd, VkPipelineStageFlags from, VkPipelineStageFlags to,
                           VkAccessFlags source, VkAccessFlags destination)
{
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = source,
        .dstAccessMask = destination,
    };
    cmd->device->api.CmdPipelineBarrier(cmd->handle, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void rl_vk_cmd_barrier(rl_vk_cmd *cmd)
{
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    memory_barrier(cmd, work, work, VK_ACCESS_SHADER_WRITE_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    cmd->stream->counters.barriers++;
}

void rl_vk_cmd_begin_stage(rl_vk_cmd *cmd, uint32_t layer, rl_vk_stage_end end)
{
    rl_vk_links_begin(&cmd->links, layer, end);
}

void rl_vk_cmd_end_stage(rl_vk_cmd *cmd)
{
    if (rl_vk_links_end(&cmd->links)) rl_vk_cmd_barrier(cmd);
}

void rl_vk_cmd_barrier_copies(rl_vk_cmd *cmd)
{
    const VkPipelineStageFlags work =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    memory_barrier(cmd, work, work, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                       VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    cmd->stream->counters.barriers++;
}

void rl_vk_cmd_barrier_copy_to_copy(rl_vk_cmd *cmd)
{
    memory_barrier(cmd, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
}

void rl_vk_cmd_barrier_to_host(rl_vk_cmd *cmd)
{
    memory_barrier(cmd, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_ACCESS_HOST_READ_BIT);
}

void rl_vk_cmd_copy(rl_vk_cmd *cmd, const rl_vk_span *src, uint64_t src_offset,
                    const rl_vk_span *dst, uint64_t dst_offset, uint64_t bytes)
{
    RL_ASSERT(cmd->is_recording && src_offset + bytes <= src->bytes &&
              dst_offset + bytes <= dst->bytes);
    if (!bytes) return;
    VkBufferCopy region = {
        .srcOffset = src->offset + src_offset,
        .dstOffset = dst->offset + dst_offset,
        .size = bytes,
    };
    cmd->device->api.CmdCopyBuffer(cmd->handle, src->buffer, dst->buffer, 1, &region);
}

void rl_vk_cmd_fill(rl_vk_cmd *cmd, const rl_vk_span *dst, uint64_t offset, uint64_t bytes,
                    uint32_t word)
{
    RL_ASSERT(cmd->is_recording && offset % 4 == 0 && bytes % 4 == 0 &&
              offset + bytes <= dst->bytes);
    if (!bytes) return;
    cmd->device->api.CmdFillBuffer(cmd->handle, dst->buffer, dst->offset + offset, bytes, word);
}

/* ---- timers ---------------------------------------------------------------------------------------- */

rl_status rl_vk_timer_init(rl_vk_timer *timer, rl_vk_device *device, uint32_t n, rl_error *err)
{
    *timer = (rl_vk_timer){ .device = device, .n = n };
    if (device->info.timestamp_ns <= 0) return RL_OK;
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = n,
    };
    VkResult r = device->api.CreateQueryPool(device->handle, &info, NULL, &timer->pool);
    if (r != VK_SUCCESS) timer->pool = VK_NULL_HANDLE;
    return rl_vk_check(device, r, "vkCreateQueryPool", err);
}

void rl_vk_timer_fini(rl_vk_timer *timer)
{
    if (timer->pool) timer->device->api.DestroyQueryPool(timer->device->handle, timer->pool, NULL);
    memset(timer, 0, sizeof *timer);
}

void rl_vk_timer_reset(rl_vk_timer *timer, rl_vk_cmd *cmd)
{
    if (timer->pool) timer->device->api.CmdResetQueryPool(cmd->handle, timer->pool, 0, timer->n);
}

void rl_vk_timer_mark(rl_vk_timer *timer, rl_vk_cmd *cmd, uint32_t index)
{
    RL_ASSERT(index < timer->n);
    if (timer->pool)
        timer->device->api.CmdWriteTimestamp(cmd->handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                             timer->pool, index);
}

rl_status rl_vk_timer_read(rl_vk_timer *timer, uint32_t n, double *ns, rl_error *err)
{
    RL_ASSERT(n <= timer->n);
    memset(ns, 0, n * sizeof *ns);
    if (!timer->pool || !n) return RL_OK;
    uint64_t *ticks = calloc(n, sizeof *ticks);
    if (!ticks) return rl_fail(err, RL_NOMEM, "no memory for %u timestamps", n);
    VkResult r = timer->device->api.GetQueryPoolResults(
        timer->device->handle, timer->pool, 0, n, n * sizeof *ticks, ticks, sizeof *ticks,
        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    for (uint32_t i = 0; i < n && r == VK_SUCCESS; i++)
        ns[i] = (double)(ticks[i] - ticks[0]) * (double)timer->device->info.timestamp_ns;
    free(ticks);
    return rl_vk_check(timer->device, r, "vkGetQueryPoolResults", err);
}
