/* vk_api.c - fills the table of Vulkan functions through volk. */
#include "backend/vulkan/vk_api.h"

#include <string.h>

#define VOLK_IMPLEMENTATION
#include <volk.h>

rl_status rl_vk_api_load(rl_vk_api *api, const rl_vk_hook *hook, rl_error *err)
{
    memset(api, 0, sizeof *api);
    api->hooked = hook != NULL;
    if (volkInitialize() == VK_SUCCESS) api->GetInstanceProcAddr = vkGetInstanceProcAddr;
    if (api->GetInstanceProcAddr) {
#define X(name)                                                                                    \
    api->name = (PFN_vk##name)(void *)api->GetInstanceProcAddr(VK_NULL_HANDLE, "vk" #name);
        RL_VK_GLOBAL_LIST(X)
#undef X
    }
    if (hook) hook->wrap(api, RL_VK_API_GLOBAL, hook->arg);
    if (!api->GetInstanceProcAddr)
        return rl_fail(err, RL_DEVICE, "no Vulkan loader (libvulkan) is installed");
        /* EnumerateInstanceVersion is absent from a 1.0 loader, which is too old for us anyway. */
#define X(name)                                                                                    \
    if (!api->name)                                                                                \
        return rl_fail(err, RL_DEVICE, "the Vulkan loader is too old: vk" #name " is missing");
    RL_VK_GLOBAL_LIST(X)
#undef X
    return RL_OK;
}

rl_status rl_vk_api_load_instance(rl_vk_api *api, VkInstance instance, const rl_vk_hook *hook,
                                  rl_error *err)
{
#define X(name) api->name = (PFN_vk##name)(void *)api->GetInstanceProcAddr(instance, "vk" #name);
    RL_VK_INSTANCE_LIST(X)
    RL_VK_INSTANCE_OPTIONAL_LIST(X)
#undef X
    if (hook) hook->wrap(api, RL_VK_API_INSTANCE, hook->arg);
#define X(name)                                                                                    \
    if (!api->name)                                                                                \
        return rl_fail(err, RL_DEVICE, "the Vulkan loader is too old: vk" #name " is missing");
    RL_VK_INSTANCE_LIST(X)
#undef X
    return RL_OK;
}

rl_status rl_vk_api_load_device(rl_vk_api *api, VkDevice device, const rl_vk_hook *hook,
                                rl_error *err)
{
#define X(name) api->name = (PFN_vk##name)(void *)api->GetDeviceProcAddr(device, "vk" #name);
    RL_VK_DEVICE_LIST(X)
#undef X
    if (hook) hook->wrap(api, RL_VK_API_DEVICE, hook->arg);
#define X(name)                                                                                    \
    if (!api->name) return rl_fail(err, RL_DEVICE, "the Vulkan driver does not know vk" #name);
    RL_VK_DEVICE_LIST(X)
#undef X
    return RL_OK;
}

const char *rl_vk_result_name(VkResult result)
{
    switch (result) {
#define X(name)                                                                                    \
    case name: return #name;
        X(VK_SUCCESS)
        X(VK_NOT_READY)
        X(VK_TIMEOUT)
        X(VK_INCOMPLETE)
        X(VK_ERROR_OUT_OF_HOST_MEMORY)
        X(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        X(VK_ERROR_INITIALIZATION_FAILED)
        X(VK_ERROR_DEVICE_LOST)
        X(VK_ERROR_MEMORY_MAP_FAILED)
        X(VK_ERROR_LAYER_NOT_PRESENT)
        X(VK_ERROR_EXTENSION_NOT_PRESENT)
        X(VK_ERROR_FEATURE_NOT_PRESENT)
        X(VK_ERROR_INCOMPATIBLE_DRIVER)
        X(VK_ERROR_TOO_MANY_OBJECTS)
        X(VK_ERROR_FRAGMENTED_POOL)
        X(VK_ERROR_OUT_OF_POOL_MEMORY)
        X(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        X(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
        X(VK_ERROR_INVALID_SHADER_NV)
#undef X
    default: return "an unknown VkResult";
    }
}

rl_status rl_vk_fail(rl_error *err, VkResult result, const char *call, const char *device)
{
    if (result == VK_SUCCESS) return RL_OK;
    rl_status status = RL_DEVICE;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
        status = RL_NOMEM;
    if (!device)
        return rl_fail(err, status, "Vulkan: %s reports %s", call, rl_vk_result_name(result));
    if (result == VK_ERROR_DEVICE_LOST)
        return rl_fail(err, RL_DEVICE, "device %s was lost (%s reports VK_ERROR_DEVICE_LOST)",
                       device, call);
    return rl_fail(err, status, "device %s: %s reports %s", device, call,
                   rl_vk_result_name(result));
}
