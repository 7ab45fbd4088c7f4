/* vk_api.h - every Vulkan function this backend calls, in one table of pointers.
 *
 * No Vulkan function is called in any other way, so a test that replaces entries can count
 * submissions, waits and recordings, let the n-th call fail, or play a whole device that is not
 * there. The loader library is opened at run time (volk): a program built here starts on machines
 * without any Vulkan driver.
 *
 * Threads: the table is written while a device is opened and only read afterwards. */
#ifndef RL_BACKEND_VULKAN_VK_API_H
#define RL_BACKEND_VULKAN_VK_API_H

#include <stdbool.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "base/status.h"

#define RL_VK_GLOBAL_LIST(X)                                                                       \
    X(CreateInstance)                                                                              \
    X(EnumerateInstanceVersion)                                                                    \
    X(EnumerateInstanceLayerProperties)                                                            \
    X(EnumerateInstanceExtensionProperties)

#define RL_VK_INSTANCE_LIST(X)                                                                     \
    X(DestroyInstance)                                                                             \
    X(EnumeratePhysicalDevices)                                                                    \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceMemoryProperties2)                                                          \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(CreateDevice)                                                                                \
    X(GetDeviceProcAddr)

/* Present only with VK_EXT_debug_utils; NULL otherwise. */
#define RL_VK_INSTANCE_OPTIONAL_LIST(X)                                                            \
    X(CreateDebugUtilsMessengerEXT)                                                                \
    X(DestroyDebugUtilsMessengerEXT)                                                               \
    X(SetDebugUtilsObjectNameEXT)

#define RL_VK_DEVICE_LIST(X)                                                                       \
    X(DestroyDevice)                                                                               \
    X(GetDeviceQueue)                                                                              \
    X(DeviceWaitIdle)                                                                              \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(MapMemory)                                                                                   \
    X(CreateBuffer)                                                                                \
    X(DestroyBuffer)                                                                               \
    X(GetBufferMemoryRequirements)                                                                 \
    X(BindBufferMemory)                                                                            \
    X(GetBufferDeviceAddress)                                                                      \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreatePipelineLayout)                                                                        \
    X(DestroyPipelineLayout)                                                                       \
    X(CreatePipelineCache)                                                                         \
    X(DestroyPipelineCache)                                                                        \
    X(GetPipelineCacheData)                                                                        \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)                                                                             \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(AllocateCommandBuffers)                                                                      \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(CmdBindPipeline)                                                                             \
    X(CmdPushConstants)                                                                            \
    X(CmdDispatch)                                                                                 \
    X(CmdPipelineBarrier)                                                                          \
    X(CmdCopyBuffer)                                                                               \
    X(CmdFillBuffer)                                                                               \
    X(CmdResetQueryPool)                                                                           \
    X(CmdWriteTimestamp)                                                                           \
    X(CreateQueryPool)                                                                             \
    X(DestroyQueryPool)                                                                            \
    X(GetQueryPoolResults)                                                                         \
    X(CreateSemaphore)                                                                             \
    X(DestroySemaphore)                                                                            \
    X(WaitSemaphores)                                                                              \
    X(SignalSemaphore)                                                                             \
    X(GetSemaphoreCounterValue)                                                                    \
    X(QueueSubmit)

typedef struct rl_vk_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    RL_VK_GLOBAL_LIST(X)
    RL_VK_INSTANCE_LIST(X)
    RL_VK_INSTANCE_OPTIONAL_LIST(X)
    RL_VK_DEVICE_LIST(X)
#undef X
    bool hooked; /* by a test, which counts calls and what stays behind */
} rl_vk_api;

typedef enum rl_vk_api_stage {
    RL_VK_API_GLOBAL,   /* functions that need no instance are filled in      */
    RL_VK_API_INSTANCE, /* those of the instance as well                      */
    RL_VK_API_DEVICE    /* the table is complete                              */
} rl_vk_api_stage;

/* A test's hand on the table: called after each stage and may replace any entry. With a hook the
 * table may stay empty before RL_VK_API_GLOBAL is announced (no driver on this machine). */
typedef struct rl_vk_hook {
    void (*wrap)(rl_vk_api *api, rl_vk_api_stage stage, void *arg);
    void *arg;
} rl_vk_hook;

/* Each fills its part of the table, then calls the hook (may be NULL). RL_DEVICE when there is no
 * Vulkan loader on this machine, or when a function that Vulkan 1.2 promises is missing. */
RL_MUST_CHECK rl_status rl_vk_api_load(rl_vk_api *api, const rl_vk_hook *hook, rl_error *err);
RL_MUST_CHECK rl_status rl_vk_api_load_instance(rl_vk_api *api, VkInstance instance,
                                                const rl_vk_hook *hook, rl_error *err);
RL_MUST_CHECK rl_status rl_vk_api_load_device(rl_vk_api *api, VkDevice device,
                                              const rl_vk_hook *hook, rl_error *err);

/* "VK_ERROR_DEVICE_LOST" and so on; never NULL. */
const char *rl_vk_result_name(VkResult result);

/* RL_NOMEM for the out-of-memory results, RL_DEVICE for all other failures, with a sentence that
 * names the call and the result. device: NULL before one is chosen. RL_OK for VK_SUCCESS. */
rl_status rl_vk_fail(rl_error *err, VkResult result, const char *call, const char *device);

#endif
