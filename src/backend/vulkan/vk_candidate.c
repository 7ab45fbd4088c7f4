/* vk_candidate.c - backend/vulkan/vk_candidate.h. */
#include "backend/vulkan/vk_candidate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

bool rl_vk_env_is_on(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0");
}

bool rl_vk_has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].extensionName, name)) return true;
    return false;
}

static void refuse(rl_vk_device_info *info, const char *format, ...) RL_PRINTF(2, 3);

/* The first reason stands. */
static void refuse(rl_vk_device_info *info, const char *format, ...)
{
    if (info->why_not[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(info->why_not, sizeof info->why_not, format, args);
    va_end(args);
}

/* The lowest index of a type with all of `want` and none of `avoid`, in `heap` unless that is
 * UINT32_MAX; UINT32_MAX when there is none. */
static uint32_t find_type(const VkPhysicalDeviceMemoryProperties *memory,
                          VkMemoryPropertyFlags want, VkMemoryPropertyFlags avoid, uint32_t heap)
{
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        if ((flags & want) != want || (flags & avoid)) continue;
        if (heap != UINT32_MAX && memory->memoryTypes[i].heapIndex != heap) continue;
        return i;
    }
    return UINT32_MAX;
}

static void judge_memory(rl_vk_candidate *c, const VkPhysicalDeviceMemoryProperties *memory,
                         const VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags host =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags odd = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
                                      VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                      VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    uint32_t heap = UINT32_MAX;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if ((memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            (heap == UINT32_MAX || memory->memoryHeaps[i].size > memory->memoryHeaps[heap].size))
            heap = i;
    if (heap == UINT32_MAX) {
        refuse(&c->info, "it has no memory of its own");
        return;
    }
    c->info.memory_bytes = memory->memoryHeaps[heap].size;
    if (c->info.memory_budget) {
        uint64_t total = budget->heapBudget[heap], used = budget->heapUsage[heap];
        c->info.budget_bytes = total > used ? total - used : 1;
    }
    rl_vk_memory_types *t = &c->types;
    bool staging = rl_vk_env_is_on("RL_VULKAN_STAGING");
    uint32_t direct = find_type(memory, local | host, odd, heap);
    uint32_t plain = find_type(memory, local, odd | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, heap);
    if (plain == UINT32_MAX) plain = find_type(memory, local, odd, heap);
    t->device_is_mapped = direct != UINT32_MAX && !staging;
    t->device = t->device_is_mapped ? direct : plain;
    t->upload = find_type(memory, local | host, odd, UINT32_MAX);
    t->staging = find_type(memory, host, odd | local, UINT32_MAX);
    if (t->staging == UINT32_MAX) t->staging = find_type(memory, host, odd, UINT32_MAX);
    if (t->upload == UINT32_MAX) t->upload = t->staging;
    t->readback =
        find_type(memory, host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, odd | local, UINT32_MAX);
    if (t->readback == UINT32_MAX)
        t->readback = find_type(memory, host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, odd, UINT32_MAX);
    if (t->readback == UINT32_MAX) t->readback = t->staging;
    if (t->device == UINT32_MAX || t->staging == UINT32_MAX)
        refuse(&c->info, "it has no memory type that the host can write");
    c->info.direct_writes = t->device_is_mapped;
}

static void judge_queues(rl_vk_candidate *c, const rl_vk_api *api)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = RL_COUNT_OF(families);
    api->GetPhysicalDeviceQueueFamilyProperties(c->physical, &n, families);
    c->compute_family = UINT32_MAX;
    for (uint32_t i = 0; i < n && c->compute_family == UINT32_MAX; i++)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && families[i].queueCount)
            c->compute_family = i;
    if (c->compute_family == UINT32_MAX) {
        refuse(&c->info, "it has no compute queue");
        return;
    }
    if (families[c->compute_family].timestampValidBits < 36) c->info.timestamp_ns = 0;

    /* Copies go to a family made for them, else to a second queue, else share the one. */
    c->transfer_family = c->compute_family;
    c->transfer_index = families[c->compute_family].queueCount > 1 ? 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        if (i == c->compute_family || !families[i].queueCount) continue;
        if (!(flags & VK_QUEUE_TRANSFER_BIT)) continue;
        if (flags & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT)) continue;
        c->transfer_family = i;
        c->transfer_index = 0;
        break;
    }
    c->info.second_queue = c->transfer_family != c->compute_family || c->transfer_index;
}

static void judge_limits(rl_vk_candidate *c, const VkPhysicalDeviceProperties *properties,
                         const VkPhysicalDeviceSubgroupProperties *subgroup)
{
    const VkPhysicalDeviceLimits *limits = &properties->limits;
    rl_vk_device_info *info = &c->info;
    const VkSubgroupFeatureFlags need = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                        VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                        VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if (properties->apiVersion < VK_API_VERSION_1_2)
        refuse(info, "its driver offers Vulkan %u.%u, and 1.2 is needed",
               VK_API_VERSION_MAJOR(properties->apiVersion),
               VK_API_VERSION_MINOR(properties->apiVersion));
    if (limits->maxComputeSharedMemorySize < 32768)
        refuse(info, "it has %u bytes of shared memory, and 32768 are needed",
               limits->maxComputeSharedMemorySize);
    if (limits->maxComputeWorkGroupInvocations < 256)
        refuse(info, "its workgroups hold %u invocations, and 256 are needed",
               limits->maxComputeWorkGroupInvocations);
    if (limits->maxPushConstantsSize < 128)
        refuse(info, "it has %u bytes of push constants, and 128 are needed",
               limits->maxPushConstantsSize);
    if ((subgroup->supportedOperations & need) != need ||
        !(subgroup->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
        refuse(info, "its compute shaders lack subgroup arithmetic or shuffles");
    if (info->subgroup_min < 4 || info->subgroup_max > 128)
        refuse(info, "its subgroups have %u to %u lanes; 4 to 128 are supported",
               info->subgroup_min, info->subgroup_max);
}

/* bytes: whether it has the extension for dot products of bytes. */
static void judge_features(rl_vk_candidate *c, const rl_vk_api *api, bool bytes)
{
    VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
    };
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = bytes ? &dots : NULL,
    };
    VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &v12,
    };
    api->GetPhysicalDeviceFeatures2(c->physical, &features);
    if (!v12.bufferDeviceAddress) refuse(&c->info, "it lacks buffer device addresses");
    if (!v12.timelineSemaphore) refuse(&c->info, "it lacks timeline semaphores");
    if (!features.features.shaderInt64) refuse(&c->info, "its shaders lack 64-bit integers");
    c->info.float16 = v12.shaderFloat16;
    c->info.byte_products = dots.shaderIntegerDotProduct != VK_FALSE;
}

static rl_status judge(rl_vk_candidate *c, const rl_vk_api *api, rl_error *err)
{
    rl_vk_device_info *info = &c->info;
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
    };
    /* A 1.0 or 1.1 device must not see structures it does not know: ask for the version first. */
    api->GetPhysicalDeviceProperties2(c->physical, &properties);
    VkPhysicalDeviceProperties *base = &properties.properties;
    snprintf(info->name, sizeof info->name, "%s", base->deviceName);
    info->vulkan_version = base->apiVersion;
    info->vendor = base->vendorID;
    info->device = base->deviceID;
    switch (base->deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: info->kind = RL_VK_DISCRETE; break;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: info->kind = RL_VK_INTEGRATED; break;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: info->kind = RL_VK_SOFTWARE; break;
    default: info->kind = RL_VK_VIRTUAL; break;
    }
    info->shared_bytes = base->limits.maxComputeSharedMemorySize;
    info->workgroup_size = base->limits.maxComputeWorkGroupInvocations;
    if (info->workgroup_size > base->limits.maxComputeWorkGroupSize[0])
        info->workgroup_size = base->limits.maxComputeWorkGroupSize[0];
    if (base->apiVersion < VK_API_VERSION_1_2) {
        refuse(info, "its driver offers Vulkan %u.%u, and 1.2 is needed",
               VK_API_VERSION_MAJOR(base->apiVersion), VK_API_VERSION_MINOR(base->apiVersion));
        return RL_OK;
    }

    VkExtensionProperties *have = malloc(RL_VK_MAX_EXTENSIONS * sizeof *have);
    if (!have) return rl_fail(err, RL_NOMEM, "no memory to list the extensions of %s", info->name);
    uint32_t n_have = RL_VK_MAX_EXTENSIONS;
    VkResult r = api->EnumerateDeviceExtensionProperties(c->physical, NULL, &n_have, have);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE) {
        free(have);
        return rl_vk_fail(err, r, "vkEnumerateDeviceExtensionProperties", info->name);
    }
    info->memory_budget = rl_vk_has_extension(have, n_have, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    info->matrix_units = rl_vk_has_extension(have, n_have, "VK_KHR_cooperative_matrix");
    bool bytes =
        rl_vk_has_extension(have, n_have, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    c->portability_subset = rl_vk_has_extension(have, n_have, "VK_KHR_portability_subset");
    c->size_control =
        rl_vk_has_extension(have, n_have, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    bool nvidia_units = rl_vk_has_extension(have, n_have, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
    bool amd_units =
        rl_vk_has_extension(have, n_have, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME);
    free(have);

    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT,
    };
    VkPhysicalDeviceShaderIntegerDotProductProperties dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
        .pNext = c->size_control ? &sizes : NULL,
    };
    VkPhysicalDeviceMaintenance3Properties allocation = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
        .pNext = bytes ? &dots : dots.pNext,
    };
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
        .pNext = &allocation,
    };
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
        .pNext = &subgroup,
    };
    VkPhysicalDeviceShaderCorePropertiesAMD cores = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD,
        .pNext = &subgroup,
    };
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
        .pNext = nvidia_units ? (void *)&multiprocessors
                 : amd_units  ? (void *)&cores
                              : &subgroup,
    };
    VkPhysicalDeviceIDProperties ids = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
        .pNext = &driver,
    };
    properties.pNext = &ids;
    api->GetPhysicalDeviceProperties2(c->physical, &properties);
    snprintf(info->driver, sizeof info->driver, "%.120s %.120s", driver.driverName,
             driver.driverInfo);
    memcpy(info->driver_uuid, ids.driverUUID, sizeof info->driver_uuid);
    info->allocation_bytes = allocation.maxMemoryAllocationSize;
    info->subgroup_size = info->subgroup_min = info->subgroup_max = subgroup.subgroupSize;
    if (c->size_control && sizes.minSubgroupSize) {
        info->subgroup_min = sizes.minSubgroupSize;
        info->subgroup_max = sizes.maxSubgroupSize;
    }
    info->compute_units = multiprocessors.shaderSMCount + cores.shaderEngineCount *
                                                              cores.shaderArraysPerEngineCount *
                                                              cores.computeUnitsPerShaderArray;
    info->timestamp_ns = base->limits.timestampPeriod;

    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT,
    };
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = info->memory_budget ? &budget : NULL,
    };
    api->GetPhysicalDeviceMemoryProperties2(c->physical, &memory);
    judge_limits(c, base, &subgroup);
    judge_features(c, api, bytes);
    /* Metal orders memory within a workgroup only, and its translator drops `coherent`. */
    info->hands_over = driver.driverID != VK_DRIVER_ID_MOLTENVK;
    /* Seen on an H200, and that eight aligned bytes are loaded and stored at once (docs/decisions/0018);
     * others may do both too, but nobody has looked. */
    info->in_order = info->hands_over && driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    info->fast_bytes =
        info->byte_products && dots.integerDotProduct4x8BitPackedSignedAccelerated != VK_FALSE;
    judge_queues(c, api);
    judge_memory(c, &memory.memoryProperties, &budget);
    info->usable = !info->why_not[0];
    return RL_OK;
}

rl_status rl_vk_candidates_list(const rl_vk_api *api, VkInstance instance, rl_vk_candidate **out,
                                uint32_t *count, rl_error *err)
{
    VkPhysicalDevice handles[64];
    uint32_t n = RL_COUNT_OF(handles);
    *out = NULL;
    *count = 0;
    VkResult r = api->EnumeratePhysicalDevices(instance, &n, handles);
    /* The loader says "initialization failed" when it has drivers but none finds its hardware. */
    if (r == VK_ERROR_INITIALIZATION_FAILED) return RL_OK;
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        return rl_vk_fail(err, r, "vkEnumeratePhysicalDevices", NULL);
    rl_vk_candidate *list = calloc(n ? n : 1, sizeof *list);
    if (!list) return rl_fail(err, RL_NOMEM, "no memory to list %u Vulkan devices", n);
    for (uint32_t i = 0; i < n; i++) {
        list[i].physical = handles[i];
        rl_status status = judge(&list[i], api, err);
        if (status) {
            free(list);
            return status;
        }
    }
    *out = list;
    *count = n;
    return RL_OK;
}
