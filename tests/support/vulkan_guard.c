/* vulkan_guard.c - tests/support/vulkan_guard.h. */
#ifdef RL_HAVE_VULKAN
#include "support/vulkan_guard.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* ---- what may fail, and how ---------------------------------------------------------------------- */

enum { HOST = 1, DEVICE = 2, LOST = 4, INIT = 8, MAP = 16, WAITS = 32 };

/* SetDebugUtilsObjectNameEXT is left out: a name for people, whose result interests nobody. */
#define FALLIBLE_LIST(X)                                                                           \
    X(CreateInstance, HOST | DEVICE | INIT)                                                        \
    X(EnumerateInstanceVersion, HOST)                                                              \
    X(EnumerateInstanceLayerProperties, HOST | DEVICE)                                             \
    X(EnumerateInstanceExtensionProperties, HOST | DEVICE)                                         \
    X(EnumeratePhysicalDevices, HOST | DEVICE | INIT)                                              \
    X(EnumerateDeviceExtensionProperties, HOST | DEVICE)                                           \
    X(CreateDebugUtilsMessengerEXT, HOST)                                                          \
    X(CreateDevice, HOST | DEVICE | INIT | LOST)                                                   \
    X(DeviceWaitIdle, HOST | DEVICE | LOST | WAITS)                                                \
    X(AllocateMemory, HOST | DEVICE)                                                               \
    X(MapMemory, HOST | DEVICE | MAP)                                                              \
    X(CreateBuffer, HOST | DEVICE)                                                                 \
    X(BindBufferMemory, HOST | DEVICE)                                                             \
    X(CreateShaderModule, HOST | DEVICE)                                                           \
    X(CreatePipelineLayout, HOST | DEVICE)                                                         \
    X(CreatePipelineCache, HOST | DEVICE)                                                          \
    X(GetPipelineCacheData, HOST | DEVICE)                                                         \
    X(CreateComputePipelines, HOST | DEVICE)                                                       \
    X(CreateCommandPool, HOST | DEVICE)                                                            \
    X(AllocateCommandBuffers, HOST | DEVICE)                                                       \
    X(BeginCommandBuffer, HOST | DEVICE)                                                           \
    X(EndCommandBuffer, HOST | DEVICE)                                                             \
    X(CreateQueryPool, HOST | DEVICE)                                                              \
    X(GetQueryPoolResults, HOST | DEVICE | LOST | WAITS)                                           \
    X(CreateSemaphore, HOST | DEVICE)                                                              \
    X(WaitSemaphores, HOST | DEVICE | LOST | WAITS)                                                \
    X(SignalSemaphore, HOST | DEVICE | WAITS)                                                      \
    X(GetSemaphoreCounterValue, HOST | DEVICE | LOST | WAITS)                                      \
    X(QueueSubmit, HOST | DEVICE | LOST)

typedef enum call {
#define X(name, may) CALL_##name,
    FALLIBLE_LIST(X)
#undef X
} call;

static const struct {
    const char *name;
    uint32_t may;
} calls[] = {
#define X(name, may) { "vk" #name, may },
    FALLIBLE_LIST(X)
#undef X
};

/* ---- state ------------------------------------------------------------------------------------------ */

typedef enum kind {
    INSTANCE,
    MESSENGER,
    DEVICE_HANDLE, /* what is created on a device comes after it */
    MEMORY,
    BUFFER,
    MODULE,
    LAYOUT,
    CACHE,
    PIPELINE,
    POOL,
    COMMANDS,
    QUERIES,
    SEMAPHORE
} kind;

static const char *const kind_names[] = { "instance",     "messenger",      "device",
                                          "memory",       "buffer",         "shader module",
                                          "layout",       "pipeline cache", "pipeline",
                                          "command pool", "command buffer", "query pool",
                                          "semaphore" };

typedef struct object {
    kind kind;
    uint64_t handle, parent; /* parent: a command buffer's pool */
    /* A semaphore: queues signal it; else the value that work waits for. */
    bool by_queue;
    uint64_t waited;
} object;

static struct {
    pthread_mutex_t lock;
    rl_vk_hook hook;
    const rl_vk_hook *below;
    bool installed;
    rl_vk_api real; /* what the guarded functions call */
    object objects[4096];
    uint32_t n_objects;
    bool armed, sticky, fired, lost;
    uint64_t n_calls, target;
    VkResult result;
    const char *struck;
    void (*tell_lost)(void);
    VkDevice device;
    PFN_vkDebugUtilsMessengerCallbackEXT listener; /* the backend's own */
    char complaint[256];
} guard = { .lock = PTHREAD_MUTEX_INITIALIZER, .struck = "" };

#define HANDLE(h) ((uint64_t)(uintptr_t)(h))

void rl_guard_complain(const char *format, ...)
{
    if (guard.complaint[0]) return; /* the first says most */
    va_list args;
    va_start(args, format);
    vsnprintf(guard.complaint, sizeof guard.complaint, format, args);
    va_end(args);
}

const char *rl_guard_complaint(void)
{
    return guard.complaint[0] ? guard.complaint : NULL;
}

static void add(kind k, uint64_t handle, uint64_t parent)
{
    pthread_mutex_lock(&guard.lock);
    if (guard.n_objects < RL_COUNT_OF(guard.objects))
        guard.objects[guard.n_objects++] =
            (object){ .kind = k, .handle = handle, .parent = parent };
    else
        rl_guard_complain("more than %u objects exist", guard.n_objects);
    pthread_mutex_unlock(&guard.lock);
}

static bool exists(kind k, uint64_t handle)
{
    bool found = false;
    pthread_mutex_lock(&guard.lock);
    for (uint32_t i = guard.n_objects; i > 0 && !found; i--)
        found = guard.objects[i - 1].kind == k && guard.objects[i - 1].handle == handle;
    pthread_mutex_unlock(&guard.lock);
    return found;
}

static void expect(kind k, uint64_t handle, const char *by)
{
    if (!exists(k, handle)) rl_guard_complain("%s uses a %s that is not there", by, kind_names[k]);
}

/* Forgets the object; false when there is none, which is a complaint. */
static bool drop(kind k, uint64_t handle)
{
    bool found = false;
    pthread_mutex_lock(&guard.lock);
    for (uint32_t i = guard.n_objects; i > 0 && !found; i--)
        if (guard.objects[i - 1].kind == k && guard.objects[i - 1].handle == handle) {
            guard.objects[i - 1] = guard.objects[--guard.n_objects];
            found = true;
        }
    pthread_mutex_unlock(&guard.lock);
    if (!found) rl_guard_complain("a %s is destroyed that is not there", kind_names[k]);
    return found;
}

uint32_t rl_guard_live(void)
{
    return guard.n_objects;
}

/* ---- the n-th call ------------------------------------------------------------------------------------ */

static void arm(uint64_t nth, VkResult result, bool sticky)
{
    guard.n_calls = 0;
    guard.target = nth;
    guard.result = result;
    guard.sticky = sticky;
    guard.fired = false;
    guard.struck = "";
    guard.armed = true;
}

void rl_guard_arm(uint64_t nth, VkResult result)
{
    arm(nth, result, false);
}

void rl_guard_arm_from(uint64_t nth, VkResult result)
{
    arm(nth, result, true);
}

bool rl_guard_disarm(void)
{
    guard.armed = false;
    return guard.fired;
}

uint64_t rl_guard_calls(void)
{
    return guard.n_calls;
}

void rl_guard_when_lost(void (*tell)(void))
{
    guard.tell_lost = tell;
}

const char *rl_guard_struck(void)
{
    return guard.struck;
}

/* What a call that may report `may` says where `wanted` is asked for; VK_SUCCESS: nothing. */
static VkResult nearest(VkResult wanted, uint32_t may)
{
    static const struct {
        VkResult result;
        uint32_t bit;
    } bits[] = { { VK_ERROR_OUT_OF_HOST_MEMORY, HOST },
                 { VK_ERROR_OUT_OF_DEVICE_MEMORY, DEVICE },
                 { VK_ERROR_DEVICE_LOST, LOST },
                 { VK_ERROR_INITIALIZATION_FAILED, INIT },
                 { VK_ERROR_MEMORY_MAP_FAILED, MAP } };
    for (size_t i = 0; i < RL_COUNT_OF(bits); i++)
        if (bits[i].result == wanted && (bits[i].bit & may)) return wanted;
    return wanted == VK_ERROR_OUT_OF_DEVICE_MEMORY ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_SUCCESS;
}

/* Remembers which semaphores the host has to signal before queued work can go on. */
static void note_semaphores(const VkSubmitInfo *batch)
{
    const VkBaseInStructure *s = batch->pNext;
    while (s && s->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
        s = s->pNext;
    const VkTimelineSemaphoreSubmitInfo *values = (const void *)s;
    pthread_mutex_lock(&guard.lock);
    for (uint32_t i = 0; i < guard.n_objects && values; i++) {
        object *o = &guard.objects[i];
        if (o->kind != SEMAPHORE) continue;
        for (uint32_t w = 0; w < batch->waitSemaphoreCount; w++)
            if (HANDLE(batch->pWaitSemaphores[w]) == o->handle)
                o->waited = values->pWaitSemaphoreValues[w];
        for (uint32_t w = 0; w < batch->signalSemaphoreCount; w++)
            if (HANDLE(batch->pSignalSemaphores[w]) == o->handle) o->by_queue = true;
    }
    pthread_mutex_unlock(&guard.lock);
}

/* A real device that is only said to be lost goes on working. What was lost does not: it is helped to
 * its end here, so that nothing is in use any more when its objects are destroyed. */
static void settle_real_device(void)
{
    for (uint32_t i = 0; i < guard.n_objects; i++) {
        const object *o = &guard.objects[i];
        uint64_t now = 0;
        if (o->kind != SEMAPHORE || o->by_queue || !o->waited) continue;
        VkSemaphoreSignalInfo info = {
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
            .semaphore = (VkSemaphore)(uintptr_t)o->handle,
            .value = o->waited,
        };
        if (!guard.real.GetSemaphoreCounterValue(guard.device, info.semaphore, &now) &&
            now < o->waited)
            (void)guard.real.SignalSemaphore(guard.device, &info);
    }
    (void)guard.real.DeviceWaitIdle(guard.device);
}

/* Counts the call; other than VK_SUCCESS when it has to fail. */
static VkResult strike(call c)
{
    VkResult result = VK_SUCCESS;
    bool has_device = c > CALL_CreateDevice, lost_now = false;
    pthread_mutex_lock(&guard.lock);
    if (guard.armed) {
        uint64_t number = guard.n_calls++;
        bool now = guard.sticky ? number >= guard.target && !(calls[c].may & WAITS)
                                : number == guard.target;
        if (now) {
            result = nearest(guard.result, calls[c].may);
            lost_now = guard.result == VK_ERROR_DEVICE_LOST && has_device && !guard.lost;
            if (lost_now) guard.lost = true;
            if (result != VK_SUCCESS || guard.lost) guard.fired = true;
            if (guard.fired && !guard.struck[0]) guard.struck = calls[c].name;
        }
    }
    if (guard.lost && has_device && (calls[c].may & LOST)) result = VK_ERROR_DEVICE_LOST;
    pthread_mutex_unlock(&guard.lock);
    if (lost_now && !guard.below)
        settle_real_device();
    else if (lost_now && guard.tell_lost)
        guard.tell_lost();
    return result;
}

/* ---- functions that return a result and make nothing ------------------------------------------------ */

#define GUARDED(name, params, args)                                                                \
    static VKAPI_ATTR VkResult VKAPI_CALL guard_##name params                                      \
    {                                                                                              \
        VkResult result = strike(CALL_##name);                                                     \
        return result == VK_SUCCESS ? guard.real.name args : result;                               \
    }

GUARDED(EnumerateInstanceVersion, (uint32_t * version), (version))
GUARDED(EnumerateInstanceLayerProperties, (uint32_t * n, VkLayerProperties *out), (n, out))
GUARDED(EnumerateInstanceExtensionProperties,
        (const char *layer, uint32_t *n, VkExtensionProperties *out), (layer, n, out))
GUARDED(EnumeratePhysicalDevices, (VkInstance instance, uint32_t *n, VkPhysicalDevice *out),
        (instance, n, out))
GUARDED(EnumerateDeviceExtensionProperties,
        (VkPhysicalDevice physical, const char *layer, uint32_t *n, VkExtensionProperties *out),
        (physical, layer, n, out))
GUARDED(DeviceWaitIdle, (VkDevice device), (device))
GUARDED(GetPipelineCacheData, (VkDevice device, VkPipelineCache cache, size_t *n, void *out),
        (device, cache, n, out))
GUARDED(BeginCommandBuffer, (VkCommandBuffer commands, const VkCommandBufferBeginInfo *info),
        (commands, info))
GUARDED(GetQueryPoolResults,
        (VkDevice device, VkQueryPool pool, uint32_t first, uint32_t n, size_t bytes, void *out,
         VkDeviceSize stride, VkQueryResultFlags flags),
        (device, pool, first, n, bytes, out, stride, flags))
GUARDED(GetSemaphoreCounterValue, (VkDevice device, VkSemaphore semaphore, uint64_t *value),
        (device, semaphore, value))

static VKAPI_ATTR VkResult VKAPI_CALL guard_SignalSemaphore(VkDevice device,
                                                            const VkSemaphoreSignalInfo *info)
{
    VkResult result = strike(CALL_SignalSemaphore);
    expect(SEMAPHORE, HANDLE(info->semaphore), "vkSignalSemaphore");
    if (result != VK_SUCCESS || (guard.lost && !guard.below)) return result;
    return guard.real.SignalSemaphore(device, info);
}

/* Recording has ended whatever it reports. */
static VKAPI_ATTR VkResult VKAPI_CALL guard_EndCommandBuffer(VkCommandBuffer commands)
{
    VkResult result = strike(CALL_EndCommandBuffer), real = guard.real.EndCommandBuffer(commands);
    return result == VK_SUCCESS ? real : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_MapMemory(VkDevice device, VkDeviceMemory memory,
                                                      VkDeviceSize offset, VkDeviceSize bytes,
                                                      VkMemoryMapFlags flags, void **out)
{
    VkResult result = strike(CALL_MapMemory);
    expect(MEMORY, HANDLE(memory), "vkMapMemory");
    if (result == VK_SUCCESS)
        result = guard.real.MapMemory(device, memory, offset, bytes, flags, out);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_BindBufferMemory(VkDevice device, VkBuffer buffer,
                                                             VkDeviceMemory memory,
                                                             VkDeviceSize offset)
{
    VkResult result = strike(CALL_BindBufferMemory);
    expect(BUFFER, HANDLE(buffer), "vkBindBufferMemory");
    expect(MEMORY, HANDLE(memory), "vkBindBufferMemory");
    return result == VK_SUCCESS ? guard.real.BindBufferMemory(device, buffer, memory, offset)
                                : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_WaitSemaphores(VkDevice device,
                                                           const VkSemaphoreWaitInfo *info,
                                                           uint64_t timeout_ns)
{
    VkResult result = strike(CALL_WaitSemaphores);
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
        expect(SEMAPHORE, HANDLE(info->pSemaphores[i]), "vkWaitSemaphores");
    return result == VK_SUCCESS ? guard.real.WaitSemaphores(device, info, timeout_ns) : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_QueueSubmit(VkQueue queue, uint32_t n,
                                                        const VkSubmitInfo *batches, VkFence fence)
{
    VkResult result = strike(CALL_QueueSubmit);
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t i = 0; i < batches[b].commandBufferCount; i++)
            expect(COMMANDS, HANDLE(batches[b].pCommandBuffers[i]), "vkQueueSubmit");
        for (uint32_t i = 0; i < batches[b].waitSemaphoreCount; i++)
            expect(SEMAPHORE, HANDLE(batches[b].pWaitSemaphores[i]), "vkQueueSubmit");
        for (uint32_t i = 0; i < batches[b].signalSemaphoreCount; i++)
            expect(SEMAPHORE, HANDLE(batches[b].pSignalSemaphores[i]), "vkQueueSubmit");
        if (result == VK_SUCCESS) note_semaphores(&batches[b]);
    }
    return result == VK_SUCCESS ? guard.real.QueueSubmit(queue, n, batches, fence) : result;
}

/* ---- functions that make and destroy ------------------------------------------------------------------ */

/* What a failed creation leaves in its result is nobody's to use. */
#define POISON ((uintptr_t)0xdeadbeef)

#define MAKES(kind, name, type, parent_kind, parent_type, info_type)                               \
    static VKAPI_ATTR VkResult VKAPI_CALL guard_##name(parent_type parent, const info_type *info,  \
                                                       const VkAllocationCallbacks *allocator,     \
                                                       type *out)                                  \
    {                                                                                              \
        VkResult result = strike(CALL_##name);                                                     \
        expect(parent_kind, HANDLE(parent), "vk" #name);                                           \
        *out = (type)POISON;                                                                       \
        if (result == VK_SUCCESS) result = guard.real.name(parent, info, allocator, out);          \
        if (result == VK_SUCCESS) add(kind, HANDLE(*out), HANDLE(parent));                         \
        return result;                                                                             \
    }
#define DESTROYS(kind, name, type, parent_type)                                                    \
    static VKAPI_ATTR void VKAPI_CALL guard_##name(parent_type parent, type what,                  \
                                                   const VkAllocationCallbacks *allocator)         \
    {                                                                                              \
        if (!what || drop(kind, HANDLE(what))) guard.real.name(parent, what, allocator);           \
    }
#define ON_DEVICE(kind, what)                                                                      \
    MAKES(kind, Create##what, Vk##what, DEVICE_HANDLE, VkDevice, Vk##what##CreateInfo)             \
    DESTROYS(kind, Destroy##what, Vk##what, VkDevice)

ON_DEVICE(BUFFER, Buffer)
ON_DEVICE(MODULE, ShaderModule)
ON_DEVICE(LAYOUT, PipelineLayout)
ON_DEVICE(CACHE, PipelineCache)
ON_DEVICE(QUERIES, QueryPool)
ON_DEVICE(SEMAPHORE, Semaphore)
MAKES(POOL, CreateCommandPool, VkCommandPool, DEVICE_HANDLE, VkDevice, VkCommandPoolCreateInfo)
MAKES(MEMORY, AllocateMemory, VkDeviceMemory, DEVICE_HANDLE, VkDevice, VkMemoryAllocateInfo)
DESTROYS(MEMORY, FreeMemory, VkDeviceMemory, VkDevice)
DESTROYS(PIPELINE, DestroyPipeline, VkPipeline, VkDevice)
DESTROYS(MESSENGER, DestroyDebugUtilsMessengerEXT, VkDebugUtilsMessengerEXT, VkInstance)

/* What the validation layer says is a complaint. */
static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *user)
{
    rl_guard_complain("%s", data->pMessage ? data->pMessage : "a validation message");
    return guard.listener(severity, types, data, user);
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_CreateDebugUtilsMessengerEXT(
    VkInstance instance, const VkDebugUtilsMessengerCreateInfoEXT *info,
    const VkAllocationCallbacks *allocator, VkDebugUtilsMessengerEXT *out)
{
    VkResult result = strike(CALL_CreateDebugUtilsMessengerEXT);
    VkDebugUtilsMessengerCreateInfoEXT ours = *info;
    guard.listener = info->pfnUserCallback;
    ours.pfnUserCallback = on_message;
    *out = (VkDebugUtilsMessengerEXT)POISON;
    if (result == VK_SUCCESS)
        result = guard.real.CreateDebugUtilsMessengerEXT(instance, &ours, allocator, out);
    if (result == VK_SUCCESS) add(MESSENGER, HANDLE(*out), 0);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_CreateComputePipelines(
    VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *out)
{
    VkResult result = strike(CALL_CreateComputePipelines);
    for (uint32_t i = 0; i < n; i++) {
        expect(MODULE, HANDLE(infos[i].stage.module), "vkCreateComputePipelines");
        expect(LAYOUT, HANDLE(infos[i].layout), "vkCreateComputePipelines");
        out[i] = (VkPipeline)POISON;
    }
    if (result == VK_SUCCESS)
        result = guard.real.CreateComputePipelines(device, cache, n, infos, allocator, out);
    for (uint32_t i = 0; i < n && result == VK_SUCCESS; i++)
        add(PIPELINE, HANDLE(out[i]), HANDLE(device));
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_AllocateCommandBuffers(
    VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    VkResult result = strike(CALL_AllocateCommandBuffers);
    expect(POOL, HANDLE(info->commandPool), "vkAllocateCommandBuffers");
    if (result == VK_SUCCESS) result = guard.real.AllocateCommandBuffers(device, info, out);
    for (uint32_t i = 0; i < info->commandBufferCount; i++)
        if (result == VK_SUCCESS)
            add(COMMANDS, HANDLE(out[i]), HANDLE(info->commandPool));
        else
            out[i] = (VkCommandBuffer)POISON;
    return result;
}

/* Its command buffers go with it. */
static VKAPI_ATTR void VKAPI_CALL guard_DestroyCommandPool(VkDevice device, VkCommandPool pool,
                                                           const VkAllocationCallbacks *allocator)
{
    if (pool && !drop(POOL, HANDLE(pool))) return;
    pthread_mutex_lock(&guard.lock);
    for (uint32_t i = guard.n_objects; i > 0; i--)
        if (guard.objects[i - 1].kind == COMMANDS && guard.objects[i - 1].parent == HANDLE(pool))
            guard.objects[i - 1] = guard.objects[--guard.n_objects];
    pthread_mutex_unlock(&guard.lock);
    guard.real.DestroyCommandPool(device, pool, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator,
                                                           VkInstance *out)
{
    VkResult result = strike(CALL_CreateInstance);
    *out = (VkInstance)POISON;
    if (result == VK_SUCCESS) result = guard.real.CreateInstance(info, allocator, out);
    if (result == VK_SUCCESS) add(INSTANCE, HANDLE(*out), 0);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL guard_CreateDevice(VkPhysicalDevice physical,
                                                         const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator,
                                                         VkDevice *out)
{
    VkResult result = strike(CALL_CreateDevice);
    *out = (VkDevice)POISON;
    if (result == VK_SUCCESS) result = guard.real.CreateDevice(physical, info, allocator, out);
    if (result == VK_SUCCESS) add(DEVICE_HANDLE, HANDLE(*out), 0);
    if (result == VK_SUCCESS) guard.device = *out;
    return result;
}

/* Complains of what should have gone before. */
static void expect_none(kind first, kind last, const char *by)
{
    for (uint32_t i = 0; i < guard.n_objects; i++)
        if (guard.objects[i].kind >= first && guard.objects[i].kind <= last)
            rl_guard_complain("%s while a %s is still there", by,
                              kind_names[guard.objects[i].kind]);
}

static VKAPI_ATTR void VKAPI_CALL guard_DestroyDevice(VkDevice device,
                                                      const VkAllocationCallbacks *allocator)
{
    expect_none(MEMORY, SEMAPHORE, "vkDestroyDevice");
    guard.lost = false;
    if (drop(DEVICE_HANDLE, HANDLE(device))) guard.real.DestroyDevice(device, allocator);
}

static VKAPI_ATTR void VKAPI_CALL guard_DestroyInstance(VkInstance instance,
                                                        const VkAllocationCallbacks *allocator)
{
    expect_none(MESSENGER, SEMAPHORE, "vkDestroyInstance");
    if (drop(INSTANCE, HANDLE(instance))) guard.real.DestroyInstance(instance, allocator);
}

/* ---- the table ------------------------------------------------------------------------------------------ */

#define INFALLIBLE_LIST(X)                                                                         \
    X(DestroyInstance)                                                                             \
    X(DestroyDebugUtilsMessengerEXT)                                                               \
    X(DestroyDevice)                                                                               \
    X(FreeMemory)                                                                                  \
    X(DestroyBuffer)                                                                               \
    X(DestroyShaderModule)                                                                         \
    X(DestroyPipelineLayout)                                                                       \
    X(DestroyPipelineCache)                                                                        \
    X(DestroyPipeline)                                                                             \
    X(DestroyCommandPool)                                                                          \
    X(DestroyQueryPool)                                                                            \
    X(DestroySemaphore)

/* After each stage: what is new in the table is the driver's and changes places with ours. */
static void put_guards(rl_vk_api *api, rl_vk_api_stage stage, void *arg)
{
    (void)arg;
    if (guard.below) guard.below->wrap(api, stage, guard.below->arg);
    if (stage == RL_VK_API_GLOBAL) memset(&guard.real, 0, sizeof guard.real);
#define X(name)                                                                                    \
    if (api->name && api->name != guard_##name) {                                                  \
        guard.real.name = api->name;                                                               \
        api->name = guard_##name;                                                                  \
    }
#define Y(name, may) X(name)
    FALLIBLE_LIST(Y)
    INFALLIBLE_LIST(X)
#undef Y
#undef X
}

void rl_guard_install(const rl_vk_hook *below)
{
    guard.below = below;
    guard.hook = (rl_vk_hook){ .wrap = put_guards };
    guard.installed = true;
}

#define WRAPPED(name, params, args)                                                                \
    rl_status __real_##name params;                                                                \
    rl_status __wrap_##name params;                                                                \
    rl_status __wrap_##name params                                                                 \
    {                                                                                              \
        if (guard.installed) hook = &guard.hook;                                                   \
        return __real_##name args;                                                                 \
    }

WRAPPED(rl_vk_api_load, (rl_vk_api * api, const rl_vk_hook *hook, rl_error *err), (api, hook, err))
WRAPPED(rl_vk_api_load_instance,
        (rl_vk_api * api, VkInstance instance, const rl_vk_hook *hook, rl_error *err),
        (api, instance, hook, err))
WRAPPED(rl_vk_api_load_device,
        (rl_vk_api * api, VkDevice device, const rl_vk_hook *hook, rl_error *err),
        (api, device, hook, err))
#else
typedef int rl_test_no_guard;
#endif
