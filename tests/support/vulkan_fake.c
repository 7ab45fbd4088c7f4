/* vulkan_fake.c - the pretended driver: instance, devices, memory, objects (vulkan_fake.h). */
#ifdef RL_HAVE_VULKAN
#include "support/vulkan_fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rl_fake_driver rl_fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const VkExtensionProperties no_extension;

uint64_t rl_fake_dispatches(void)
{
    return rl_fake.n_dispatches;
}

/* ---- instance and physical devices ---------------------------------------------------------------- */

/* The struct of that type in the chain, or NULL. */
void *rl_fake_chained(void *chain, VkStructureType type)
{
    VkBaseOutStructure *s = chain;
    while (s && s->sType != type)
        s = s->pNext;
    return s;
}

FAKE(VkResult, EnumerateInstanceVersion, uint32_t *version)
{
    *version =
        rl_fake.machine->loader_version ? rl_fake.machine->loader_version : VK_API_VERSION_1_2;
    return VK_SUCCESS;
}

FAKE(VkResult, EnumerateInstanceLayerProperties, uint32_t *n, VkLayerProperties *out)
{
    UNUSED(out);
    *n = 0;
    return VK_SUCCESS;
}

FAKE(VkResult, EnumerateInstanceExtensionProperties, const char *layer, uint32_t *n,
     VkExtensionProperties *out)
{
    UNUSED(layer);
    UNUSED(out);
    *n = 0;
    return VK_SUCCESS;
}

FAKE(VkResult, CreateInstance, const VkInstanceCreateInfo *info,
     const VkAllocationCallbacks *allocator, VkInstance *out)
{
    UNUSED(info);
    UNUSED(allocator);
    void *instance = malloc(1);
    *out = (VkInstance)instance;
    return instance ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

FAKE(void, DestroyInstance, VkInstance instance, const VkAllocationCallbacks *allocator)
{
    UNUSED(allocator);
    free(instance);
}

FAKE(VkResult, EnumeratePhysicalDevices, VkInstance instance, uint32_t *n, VkPhysicalDevice *out)
{
    UNUSED(instance);
    for (uint32_t i = 0; i < rl_fake.machine->n_gpus && i < *n; i++)
        out[i] = (VkPhysicalDevice)(uintptr_t)&rl_fake.machine->gpus[i];
    *n = rl_fake.machine->n_gpus;
    return VK_SUCCESS;
}

static const rl_fake_gpu *gpu_of(VkPhysicalDevice physical)
{
    return (const rl_fake_gpu *)(const void *)physical;
}

FAKE(void, GetPhysicalDeviceProperties2, VkPhysicalDevice physical,
     VkPhysicalDeviceProperties2 *out)
{
    const rl_fake_gpu *gpu = gpu_of(physical);
    VkPhysicalDeviceProperties *p = &out->properties;
    memset(p, 0, sizeof *p);
    p->apiVersion = gpu->version ? gpu->version : VK_API_VERSION_1_2;
    p->vendorID = 0xfa4e;
    p->deviceType = gpu->type;
    snprintf(p->deviceName, sizeof p->deviceName, "%s", gpu->name);
    p->limits.maxComputeSharedMemorySize = gpu->shared_bytes ? gpu->shared_bytes : 49152;
    p->limits.maxComputeWorkGroupInvocations = 1024;
    p->limits.maxPushConstantsSize = gpu->push_bytes ? gpu->push_bytes : 256;
    p->limits.timestampPeriod = 1;
    if (out->pNext && p->apiVersion < VK_API_VERSION_1_2)
        rl_guard_complain("a device of Vulkan 1.1 is shown structures of 1.2");
    VkPhysicalDeviceMaintenance3Properties *most =
        rl_fake_chained(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    /* Less than a device may offer: weights come in slabs of up to 256 MiB, and what a sanitizer has to
     * do for one of these would be most of a life. */
    if (most) most->maxMemoryAllocationSize = 8u << 20;
    VkPhysicalDeviceDriverProperties *driver =
        rl_fake_chained(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (driver) driver->driverID = gpu->driver;
    VkPhysicalDeviceSubgroupProperties *subgroup =
        rl_fake_chained(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (!subgroup) return;
    subgroup->subgroupSize = 32;
    subgroup->supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
    subgroup->supportedOperations =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
        (gpu->no_shuffles ? 0u : (VkSubgroupFeatureFlags)VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
}

FAKE(void, GetPhysicalDeviceFeatures2, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out)
{
    const rl_fake_gpu *gpu = gpu_of(physical);
    VkPhysicalDeviceVulkan12Features *v12 =
        rl_fake_chained(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    out->features.shaderInt64 = !gpu->no_int64;
    if (!v12) return;
    v12->bufferDeviceAddress = !gpu->no_addresses;
    v12->timelineSemaphore = !gpu->no_timelines;
}

static uint64_t heap_bytes(const rl_fake_gpu *gpu, uint32_t heap)
{
    return heap == 0 && gpu->memory_bytes ? gpu->memory_bytes : 1ull << 30;
}

/* Heap 0 is the device's, heap 1 the host's. */
FAKE(void, GetPhysicalDeviceMemoryProperties2, VkPhysicalDevice physical,
     VkPhysicalDeviceMemoryProperties2 *out)
{
    const rl_fake_gpu *gpu = gpu_of(physical);
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                       VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    VkPhysicalDeviceMemoryProperties *m = &out->memoryProperties;
    memset(m, 0, sizeof *m);
    m->memoryHeapCount = m->memoryTypeCount = 2;
    for (uint32_t i = 0; i < 2; i++) {
        m->memoryHeaps[i].size = heap_bytes(gpu, i);
        m->memoryTypes[i].heapIndex = i;
    }
    m->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
    m->memoryTypes[0].propertyFlags =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (gpu->private_memory ? 0 : host);
    m->memoryTypes[1].propertyFlags = host;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget =
        rl_fake_chained(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    for (uint32_t i = 0; budget && i < 2; i++) {
        budget->heapBudget[i] = heap_bytes(gpu, i);
        budget->heapUsage[i] = heap_bytes(gpu, i) / 2 + rl_fake.used[i];
    }
}

FAKE(void, GetPhysicalDeviceQueueFamilyProperties, VkPhysicalDevice physical, uint32_t *n,
     VkQueueFamilyProperties *out)
{
    const rl_fake_gpu *gpu = gpu_of(physical);
    *n = 1;
    out[0] = (VkQueueFamilyProperties){
        .queueFlags =
            gpu->no_compute ? VK_QUEUE_TRANSFER_BIT : VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
        .queueCount = gpu->one_queue ? 1 : MAX_QUEUES,
        .timestampValidBits = 64,
    };
}

FAKE(VkResult, EnumerateDeviceExtensionProperties, VkPhysicalDevice physical, const char *layer,
     uint32_t *n, VkExtensionProperties *out)
{
    UNUSED(layer);
    *n = gpu_of(physical)->budget;
    out[0] = no_extension;
    if (*n)
        snprintf(out[0].extensionName, sizeof out[0].extensionName,
                 VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    return VK_SUCCESS;
}

/* ---- a device and what lives on it ------------------------------------------------------------------ */

FAKE(VkResult, CreateDevice, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
     const VkAllocationCallbacks *allocator, VkDevice *out)
{
    UNUSED(info);
    UNUSED(allocator);
    void *device = malloc(1);
    if (!device) return VK_ERROR_OUT_OF_HOST_MEMORY;
    rl_fake.gpu = gpu_of(physical);
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        rl_fake.queues[i] = (queue){ .last = &rl_fake.queues[i].first };
    *out = (VkDevice)device;
    return VK_SUCCESS;
}

FAKE(void, DestroyDevice, VkDevice device, const VkAllocationCallbacks *allocator)
{
    UNUSED(allocator);
    free(device);
    rl_fake.gpu = NULL;
}

FAKE(void, GetDeviceQueue, VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
    UNUSED(device);
    if (family || index >= MAX_QUEUES || (index && rl_fake.gpu->one_queue))
        rl_guard_complain("there is no queue %u of family %u", index, family);
    *out = (VkQueue)(void *)&rl_fake.queues[index % MAX_QUEUES];
}

FAKE(VkResult, AllocateMemory, VkDevice device, const VkMemoryAllocateInfo *info,
     const VkAllocationCallbacks *allocator, VkDeviceMemory *out)
{
    UNUSED(device);
    UNUSED(allocator);
    uint32_t heap = info->memoryTypeIndex;
    if (rl_fake.used[heap] + info->allocationSize > heap_bytes(rl_fake.gpu, heap))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    memory *m = calloc(1, sizeof *m);
    if (m) m->bytes = calloc(1, info->allocationSize);
    if (!m || !m->bytes) {
        free(m);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    m->n = info->allocationSize;
    m->heap = heap;
    memset(m->bytes, 0xcd, m->n < 4096 ? m->n : 4096); /* nobody has promised zeros */
    pthread_mutex_lock(&rl_fake.lock);
    rl_fake.used[heap] += m->n;
    m->next = rl_fake.memories;
    rl_fake.memories = m;
    pthread_mutex_unlock(&rl_fake.lock);
    *out = (VkDeviceMemory)(uintptr_t)m;
    return VK_SUCCESS;
}

FAKE(void, FreeMemory, VkDevice device, VkDeviceMemory handle,
     const VkAllocationCallbacks *allocator)
{
    UNUSED(device);
    UNUSED(allocator);
    memory *m = FROM(memory, handle);
    if (!m) return;
    pthread_mutex_lock(&rl_fake.lock);
    rl_fake_expect_unused(m, "piece of memory");
    rl_fake.used[m->heap] -= m->n;
    for (memory **at = &rl_fake.memories; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&rl_fake.lock);
    free(m->bytes);
    free(m);
}

FAKE(VkResult, MapMemory, VkDevice device, VkDeviceMemory handle, VkDeviceSize offset,
     VkDeviceSize bytes, VkMemoryMapFlags flags, void **out)
{
    UNUSED(device);
    UNUSED(bytes);
    UNUSED(flags);
    memory *m = FROM(memory, handle);
    if (m->heap == 0 && rl_fake.gpu->private_memory)
        rl_guard_complain("memory is mapped that the host cannot write");
    *out = m->bytes + offset;
    return VK_SUCCESS;
}

FAKE(void, GetBufferMemoryRequirements, VkDevice device, VkBuffer handle, VkMemoryRequirements *out)
{
    UNUSED(device);
    *out = (VkMemoryRequirements){ .size = FROM(buffer, handle)->n,
                                   .alignment = 16,
                                   .memoryTypeBits = 3 };
}

FAKE(VkResult, BindBufferMemory, VkDevice device, VkBuffer handle, VkDeviceMemory in,
     VkDeviceSize offset)
{
    UNUSED(device);
    if (offset) rl_guard_complain("a buffer is not at the beginning of its memory");
    FROM(buffer, handle)->in = FROM(memory, in);
    return VK_SUCCESS;
}

FAKE(VkDeviceAddress, GetBufferDeviceAddress, VkDevice device,
     const VkBufferDeviceAddressInfo *info)
{
    UNUSED(device);
    return (VkDeviceAddress)(uintptr_t)FROM(buffer, info->buffer)->in->bytes;
}

/* Objects of which only some fields matter: calloc, then `set`. `used`: by work that is submitted. */
#define OBJECT(what, type, set, used)                                                              \
    FAKE(VkResult, Create##what, VkDevice device, const Vk##what##CreateInfo *info,                \
         const VkAllocationCallbacks *allocator, Vk##what *out)                                    \
    {                                                                                              \
        UNUSED(device);                                                                            \
        UNUSED(info);                                                                              \
        UNUSED(allocator);                                                                         \
        type *made = calloc(1, sizeof *made);                                                      \
        if (!made) return VK_ERROR_OUT_OF_HOST_MEMORY;                                             \
        set;                                                                                       \
        *out = (Vk##what)(uintptr_t)made;                                                          \
        return VK_SUCCESS;                                                                         \
    }                                                                                              \
    FAKE(void, Destroy##what, VkDevice device, Vk##what handle,                                    \
         const VkAllocationCallbacks *allocator)                                                   \
    {                                                                                              \
        UNUSED(device);                                                                            \
        UNUSED(allocator);                                                                         \
        if (used) rl_fake_expect_unused((void *)(uintptr_t)handle, #what);                         \
        free((void *)(uintptr_t)handle);                                                           \
    }

OBJECT(Buffer, buffer, made->n = info->size, true)
OBJECT(ShaderModule, const uint32_t *, *made = info->pCode, false)
OBJECT(PipelineLayout, char, (void)0, false)
OBJECT(PipelineCache, char, (void)0, false)
OBJECT(QueryPool, char, (void)0, true)
OBJECT(Semaphore, semaphore, (void)0, true)

FAKE(VkResult, GetPipelineCacheData, VkDevice device, VkPipelineCache cache, size_t *n, void *out)
{
    UNUSED(device);
    UNUSED(cache);
    *n = 32;
    if (out) memset(out, 7, *n);
    return VK_SUCCESS;
}

FAKE(VkResult, CreateComputePipelines, VkDevice device, VkPipelineCache cache, uint32_t n,
     const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *allocator,
     VkPipeline *out)
{
    UNUSED(device);
    UNUSED(cache);
    UNUSED(allocator);
    if (n != 1) rl_guard_complain("%u pipelines at a time", n);
    pipeline *made = calloc(1, sizeof *made);
    if (!made) return VK_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t *words = *FROM(const uint32_t *, infos->stage.module);
    made->op = RL_VK_N_OPS;
    for (uint32_t i = 0; i < rl_vk_n_blobs; i++)
        if (rl_vk_blobs[i].words == words) made->op = rl_vk_blobs[i].op;
    if (made->op == RL_VK_N_OPS) rl_guard_complain("a pipeline of an unknown shader");
    *out = (VkPipeline)(uintptr_t)made;
    return VK_SUCCESS;
}

FAKE(void, DestroyPipeline, VkDevice device, VkPipeline handle,
     const VkAllocationCallbacks *allocator)
{
    UNUSED(device);
    UNUSED(allocator);
    rl_fake_expect_unused(FROM(pipeline, handle), "pipeline");
    free(FROM(pipeline, handle));
}

FAKE(VkResult, GetQueryPoolResults, VkDevice device, VkQueryPool queries, uint32_t first,
     uint32_t n, size_t bytes, void *out, VkDeviceSize stride, VkQueryResultFlags flags)
{
    UNUSED(device);
    UNUSED(queries);
    UNUSED(flags);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ticks = 1000ull * (first + i);
        if (i * stride + sizeof ticks <= bytes)
            memcpy((uint8_t *)out + i * stride, &ticks, sizeof ticks);
    }
    return VK_SUCCESS;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static PFN_vkVoidFunction find(const char *name);

static FAKE(PFN_vkVoidFunction, GetInstanceProcAddr, VkInstance instance, const char *name)
{
    UNUSED(instance);
    return find(name);
}

FAKE(PFN_vkVoidFunction, GetDeviceProcAddr, VkDevice device, const char *name)
{
    UNUSED(device);
    return find(name);
}

static PFN_vkVoidFunction find(const char *name)
{
    if (rl_fake.machine->missing && !strcmp(name, rl_fake.machine->missing)) return NULL;
#define X(function)                                                                                \
    if (!strcmp(name, "vk" #function)) return (PFN_vkVoidFunction)fake_##function;
    RL_VK_GLOBAL_LIST(X)
    RL_VK_INSTANCE_LIST(X)
    RL_VK_DEVICE_LIST(X)
#undef X
    return NULL;
}

/* Only the first stage: later ones ask our GetInstanceProcAddr and GetDeviceProcAddr. */
static void put_fakes(rl_vk_api *api, rl_vk_api_stage stage, void *arg)
{
    UNUSED(arg);
    if (stage != RL_VK_API_GLOBAL) return;
    bool none = rl_fake.machine->no_loader;
    api->GetInstanceProcAddr = none ? NULL : fake_GetInstanceProcAddr;
#define X(name) api->name = none ? NULL : (PFN_vk##name)(void *)find("vk" #name);
    RL_VK_GLOBAL_LIST(X)
#undef X
}

const rl_vk_hook *rl_fake_vulkan(const rl_fake_machine *machine)
{
    rl_fake.machine = machine;
    rl_fake.hook = (rl_vk_hook){ .wrap = put_fakes };
    rl_guard_when_lost(rl_fake_forget_work);
    return &rl_fake.hook;
}
#else
typedef int rl_test_no_fake;
#endif
