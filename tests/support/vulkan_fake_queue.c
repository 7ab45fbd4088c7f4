/* vulkan_fake_queue.c - the pretended driver: command buffers, queues, semaphores (vulkan_fake.h). */
#ifdef RL_HAVE_VULKAN
#include "support/vulkan_fake_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- recording ------------------------------------------------------------------------------------------ */

FAKE(VkResult, CreateCommandPool, VkDevice device, const VkCommandPoolCreateInfo *info,
     const VkAllocationCallbacks *allocator, VkCommandPool *out)
{
    UNUSED(device);
    UNUSED(info);
    UNUSED(allocator);
    pool *made = calloc(1, sizeof *made);
    *out = (VkCommandPool)(uintptr_t)made;
    return made ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

FAKE(void, DestroyCommandPool, VkDevice device, VkCommandPool handle,
     const VkAllocationCallbacks *allocator)
{
    UNUSED(device);
    UNUSED(allocator);
    pool *p = FROM(pool, handle);
    while (p && p->first) {
        commands *c = p->first;
        if (c->pending) rl_guard_complain("a command buffer goes while it is under way");
        p->first = c->next;
        free(c->list);
        free(c);
    }
    free(p);
}

FAKE(VkResult, AllocateCommandBuffers, VkDevice device, const VkCommandBufferAllocateInfo *info,
     VkCommandBuffer *out)
{
    UNUSED(device);
    pool *p = FROM(pool, info->commandPool);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        commands *c = calloc(1, sizeof *c);
        if (!c) return VK_ERROR_OUT_OF_HOST_MEMORY;
        c->next = p->first;
        p->first = c;
        out[i] = (VkCommandBuffer)(void *)c;
    }
    return VK_SUCCESS;
}

FAKE(VkResult, BeginCommandBuffer, VkCommandBuffer handle, const VkCommandBufferBeginInfo *info)
{
    UNUSED(info);
    commands *c = FROM(commands, handle);
    if (c->state == RECORDING)
        rl_guard_complain("a command buffer is begun that is being recorded");
    if (c->pending) rl_guard_complain("a command buffer is begun that is under way");
    c->state = RECORDING;
    c->n = 0;
    c->kernels = c->failed = false;
    c->bound = NULL;
    return VK_SUCCESS;
}

FAKE(VkResult, EndCommandBuffer, VkCommandBuffer handle)
{
    commands *c = FROM(commands, handle);
    if (c->state != RECORDING) rl_guard_complain("a command buffer is ended that was not begun");
    c->state = c->failed ? INITIAL : EXECUTABLE;
    return c->failed ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_SUCCESS;
}

static commands *recording(VkCommandBuffer handle, const char *what)
{
    commands *c = FROM(commands, handle);
    if (c->state != RECORDING) rl_guard_complain("%s outside of a recording", what);
    return c;
}

static void keep(VkCommandBuffer handle, const command *what)
{
    commands *c = recording(handle, "a command");
    if (c->n == c->room) {
        uint32_t room = c->room ? 2 * c->room : 16;
        command *list = realloc(c->list, room * sizeof *list);
        c->failed = c->failed || !list;
        if (!list) return;
        c->list = list;
        c->room = room;
    }
    c->list[c->n++] = *what;
}

FAKE(void, CmdBindPipeline, VkCommandBuffer handle, VkPipelineBindPoint point, VkPipeline what)
{
    UNUSED(point);
    recording(handle, "a pipeline")->bound = FROM(pipeline, what);
}

FAKE(void, CmdPushConstants, VkCommandBuffer handle, VkPipelineLayout layout,
     VkShaderStageFlags stages, uint32_t offset, uint32_t n, const void *bytes)
{
    UNUSED(layout);
    UNUSED(stages);
    if (offset + n > PUSH_BYTES)
        rl_guard_complain("%u bytes of push constants", offset + n);
    else
        memcpy(recording(handle, "push constants")->push + offset, bytes, n);
}

FAKE(void, CmdDispatch, VkCommandBuffer handle, uint32_t x, uint32_t y, uint32_t z)
{
    commands *c = recording(handle, "a dispatch");
    UNUSED(y);
    UNUSED(z);
    rl_fake.n_dispatches++;
    c->kernels = true;
    if (!c->bound)
        rl_guard_complain("a dispatch without a pipeline");
    else if (c->bound->op == RL_VK_ROUTE) {
        command route = { .what = ROUTE, .word = x };
        memcpy(&route.push, c->push, sizeof route.push);
        keep(handle, &route);
    } else if (c->bound->op == RL_VK_ROUTER) {
        rl_router_push push;
        memcpy(&push, c->push, sizeof push);
        keep(handle,
             &(command){ .what = ROUTE, .word = 1, .push = push.route, .arrivals = push.arrivals });
    }
}

FAKE(void, CmdPipelineBarrier, VkCommandBuffer handle, VkPipelineStageFlags from,
     VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier *barriers,
     uint32_t n_buffers, const VkBufferMemoryBarrier *buffers, uint32_t n_images,
     const VkImageMemoryBarrier *images)
{
    UNUSED(from);
    UNUSED(to);
    UNUSED(flags);
    UNUSED(n);
    UNUSED(barriers);
    UNUSED(n_buffers);
    UNUSED(buffers);
    UNUSED(n_images);
    UNUSED(images);
    recording(handle, "a barrier");
}

FAKE(void, CmdCopyBuffer, VkCommandBuffer handle, VkBuffer source, VkBuffer target, uint32_t n,
     const VkBufferCopy *regions)
{
    for (uint32_t i = 0; i < n; i++)
        keep(handle, &(command){ .what = COPY,
                                 .source = FROM(buffer, source),
                                 .target = FROM(buffer, target),
                                 .region = regions[i] });
}

FAKE(void, CmdFillBuffer, VkCommandBuffer handle, VkBuffer target, VkDeviceSize offset,
     VkDeviceSize n, uint32_t word)
{
    keep(handle, &(command){ .what = FILL,
                             .target = FROM(buffer, target),
                             .region = { .dstOffset = offset, .size = n },
                             .word = word });
}

FAKE(void, CmdResetQueryPool, VkCommandBuffer handle, VkQueryPool queries, uint32_t first,
     uint32_t n)
{
    UNUSED(queries);
    UNUSED(first);
    UNUSED(n);
    recording(handle, "a reset of queries");
}

FAKE(void, CmdWriteTimestamp, VkCommandBuffer handle, VkPipelineStageFlagBits stage,
     VkQueryPool queries, uint32_t index)
{
    UNUSED(stage);
    UNUSED(queries);
    UNUSED(index);
    recording(handle, "a timestamp");
}

/* ---- what is submitted ------------------------------------------------------------------------------ */

static void batch_free(batch *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        b->list[i]->pending--;
    free(b->list);
    free(b);
}

void rl_fake_forget_work(void)
{
    pthread_mutex_lock(&rl_fake.lock);
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        while (rl_fake.queues[i].first) {
            batch *b = rl_fake.queues[i].first;
            rl_fake.queues[i].first = b->next;
            if (!b->next) rl_fake.queues[i].last = &rl_fake.queues[i].first;
            batch_free(b);
        }
    pthread_mutex_unlock(&rl_fake.lock);
}

static bool batch_uses(const batch *b, const void *object, bool by_kernels)
{
    if (b->wait == object || b->signal == object) return true;
    for (uint32_t k = 0; k < b->n; k++) {
        const commands *c = b->list[k];
        if (c->kernels && by_kernels) return true;
        for (uint32_t j = 0; j < c->n; j++) {
            const buffer *from = c->list[j].source, *to = c->list[j].target;
            if (from == object || to == object) return true;
            if ((from && from->in == object) || (to && to->in == object)) return true;
        }
    }
    return false;
}

void rl_fake_expect_unused(const void *object, const char *what)
{
    bool by_kernels = strcmp(what, "Semaphore") != 0;
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        for (const batch *b = rl_fake.queues[i].first; b; b = b->next)
            if (!object || batch_uses(b, object, by_kernels))
                rl_guard_complain("a %s goes while work is under way", what);
}

/* ---- running -------------------------------------------------------------------------------------------- */

/* n bytes at a device address, or NULL where no memory is. Under the lock. */
static void *at(uint64_t address, uint64_t n)
{
    for (const memory *m = rl_fake.memories; m; m = m->next) {
        uint64_t start = (uint64_t)(uintptr_t)m->bytes;
        if (address >= start && address + n <= start + m->n) return m->bytes + (address - start);
    }
    rl_guard_complain("a kernel reads or writes %llu bytes where no memory is",
                      (unsigned long long)n);
    return NULL;
}

static void run_route(const command *c)
{
    const rl_route_push *p = &c->push;
    uint64_t n = 4ull * c->word * p->k;
    rl_vk_token *token = at(p->token, sizeof *token);
    uint32_t *ids = at(p->ids, n), *publish = at(p->publish, n);
    float *weights = at(p->weights, n);
    const uint32_t *forced = p->forced ? at(p->forced, n) : NULL;
    const uint64_t *residency = p->residency ? at(p->residency, 8ull * p->n_expert) : NULL;
    const uint32_t *arrivals = c->arrivals ? at(c->arrivals, 4) : NULL;
    if (arrivals && *arrivals) rl_guard_complain("nobody has set a counter of workgroups to 0");
    if (!token || !ids || !publish || !weights || (residency && token->halt)) return;
    bool absent = false;
    for (uint32_t t = 0; t < c->word; t++)
        for (uint32_t i = 0; i < p->k; i++) {
            uint32_t where = 7 * (token->position + t) + 3 * p->layer + i, j = t * p->k + i;
            ids[j] = publish[j] = forced ? forced[j] : where % p->n_expert;
            weights[j] = 1.0f / (float)p->k;
            absent = absent || (residency && !residency[ids[j]]);
        }
    if (absent && token->check) token->halt = p->layer + 1;
}

static void run_command(const command *c)
{
    const VkBufferCopy *r = &c->region;
    if (c->what == ROUTE) {
        run_route(c);
        return;
    }
    if (r->dstOffset + r->size > c->target->n ||
        (c->what == COPY && r->srcOffset + r->size > c->source->n)) {
        rl_guard_complain("a copy or fill reaches beyond its buffer");
        return;
    }
    uint8_t *to = c->target->in->bytes + r->dstOffset;
    if (c->what == COPY)
        memmove(to, c->source->in->bytes + r->srcOffset, r->size);
    else
        for (uint64_t i = 0; i + 4 <= r->size; i += 4)
            memcpy(to + i, &c->word, 4);
}

/* Runs the next batch of any queue that may start. Under the lock. */
static bool run_one(void)
{
    for (uint32_t i = 0; i < MAX_QUEUES; i++) {
        queue *q = &rl_fake.queues[i];
        batch *b = q->first;
        if (!b || (b->wait && b->wait->value < b->wait_value)) continue;
        for (uint32_t k = 0; k < b->n; k++)
            for (uint32_t j = 0; j < b->list[k]->n; j++)
                run_command(&b->list[k]->list[j]);
        b->signal->value = b->signal_value;
        q->first = b->next;
        if (!q->first) q->last = &q->first;
        batch_free(b);
        return true;
    }
    return false;
}

static void batch_fill(batch *b, const VkSubmitInfo *info)
{
    const VkTimelineSemaphoreSubmitInfo *values = rl_fake_chained(
        (void *)(uintptr_t)info->pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    if (!values || info->waitSemaphoreCount > 1 || info->signalSemaphoreCount != 1)
        abort(); /* more than this driver can */
    if (info->waitSemaphoreCount) {
        b->wait = FROM(semaphore, info->pWaitSemaphores[0]);
        b->wait_value = values->pWaitSemaphoreValues[0];
    }
    b->signal = FROM(semaphore, info->pSignalSemaphores[0]);
    b->signal_value = values->pSignalSemaphoreValues[0];
    if (b->signal_value <= b->signal->value)
        rl_guard_complain("a semaphore is to go from %llu to %llu",
                          (unsigned long long)b->signal->value,
                          (unsigned long long)b->signal_value);
    for (; b->n < info->commandBufferCount; b->n++) {
        commands *c = FROM(commands, info->pCommandBuffers[b->n]);
        if (c->state != EXECUTABLE)
            rl_guard_complain("a command buffer is submitted that is not complete");
        if (c->pending) rl_guard_complain("a command buffer is submitted twice at a time");
        c->pending++;
        b->list[b->n] = c;
    }
}

/* All batches or none. */
static batch *batches_make(uint32_t n, const VkSubmitInfo *infos)
{
    batch *first = NULL;
    for (uint32_t i = n; i > 0; i--) {
        batch *b = calloc(1, sizeof *b);
        if (b) b->list = calloc(infos[i - 1].commandBufferCount + 1, sizeof *b->list);
        if (b) b->next = first;
        if (b) first = b;
        if (b && b->list) continue;
        while (first) {
            b = first;
            first = b->next;
            batch_free(b);
        }
        return NULL;
    }
    return first;
}

FAKE(VkResult, QueueSubmit, VkQueue handle, uint32_t n, const VkSubmitInfo *infos, VkFence fence)
{
    UNUSED(fence);
    queue *q = FROM(queue, handle);
    batch *first = batches_make(n, infos);
    if (!first) return VK_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&rl_fake.lock);
    *q->last = first;
    for (batch *b = first; b; b = b->next) {
        batch_fill(b, infos++);
        q->last = &b->next;
    }
    pthread_mutex_unlock(&rl_fake.lock);
    return VK_SUCCESS;
}

FAKE(VkResult, WaitSemaphores, VkDevice device, const VkSemaphoreWaitInfo *info,
     uint64_t timeout_ns)
{
    UNUSED(device);
    UNUSED(timeout_ns);
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&rl_fake.lock);
    while (FROM(semaphore, info->pSemaphores[0])->value < info->pValues[0] && !result)
        if (!run_one()) result = VK_ERROR_DEVICE_LOST;
    pthread_mutex_unlock(&rl_fake.lock);
    if (result) rl_guard_complain("a wait for what can never come");
    return result;
}

FAKE(VkResult, GetSemaphoreCounterValue, VkDevice device, VkSemaphore handle, uint64_t *value)
{
    UNUSED(device);
    pthread_mutex_lock(&rl_fake.lock);
    (void)run_one();
    *value = FROM(semaphore, handle)->value;
    pthread_mutex_unlock(&rl_fake.lock);
    return VK_SUCCESS;
}

FAKE(VkResult, SignalSemaphore, VkDevice device, const VkSemaphoreSignalInfo *info)
{
    UNUSED(device);
    pthread_mutex_lock(&rl_fake.lock);
    semaphore *s = FROM(semaphore, info->semaphore);
    if (info->value <= s->value)
        rl_guard_complain("a semaphore is signalled from %llu to %llu",
                          (unsigned long long)s->value, (unsigned long long)info->value);
    s->value = info->value;
    pthread_mutex_unlock(&rl_fake.lock);
    return VK_SUCCESS;
}

FAKE(VkResult, DeviceWaitIdle, VkDevice device)
{
    UNUSED(device);
    pthread_mutex_lock(&rl_fake.lock);
    while (run_one())
        ;
    rl_fake_expect_unused(NULL, "wait for all work"); /* closed gates: it would wait for ever */
    pthread_mutex_unlock(&rl_fake.lock);
    return VK_SUCCESS;
}

#else
typedef int rl_test_no_fake_queue;
#endif
