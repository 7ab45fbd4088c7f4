/* vk_device.c - backend/vulkan/vk_device.h.
 *
 * One VkInstance per open device; only the first one that is done with stays (keep_instance). Devices are
 * judged in vk_candidate.c. */
#include "backend/vulkan/vk_device.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_candidate.h"
#include "base/assert.h"
#include "base/bytes.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"

/* ---- instance --------------------------------------------------------------------------------- */

static VKAPI_ATTR VkBool32 VKAPI_CALL on_validation_message(
    VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
    const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity;
    (void)types;
    rl_vk_device *device = user;
    atomic_fetch_add(&device->n_validation_messages, 1);
    fprintf(stderr, "vulkan validation: %s\n", data->pMessage ? data->pMessage : "?");
    return VK_FALSE;
}

static rl_status find_validation_layer(const rl_vk_api *api, rl_error *err)
{
    VkLayerProperties layers[64];
    uint32_t n = RL_COUNT_OF(layers);
    VkResult r = api->EnumerateInstanceLayerProperties(&n, layers);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE)
        return rl_vk_fail(err, r, "vkEnumerateInstanceLayerProperties", NULL);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(layers[i].layerName, VALIDATION_LAYER)) return RL_OK;
    return rl_fail(err, RL_DEVICE,
                   "RL_VULKAN_VALIDATE is set, but the layer " VALIDATION_LAYER
                   " is not installed");
}

static rl_status list_instance_extensions(const rl_vk_api *api, const char *layer,
                                          VkExtensionProperties *list, uint32_t *n, rl_error *err)
{
    *n = RL_VK_MAX_EXTENSIONS;
    VkResult r = api->EnumerateInstanceExtensionProperties(layer, n, list);
    if (r == VK_INCOMPLETE) r = VK_SUCCESS;
    return rl_vk_fail(err, r, "vkEnumerateInstanceExtensionProperties", NULL);
}

/* Loads the library and makes an instance; `device` gets the table and the handle. */
static rl_status create_instance(rl_vk_device *device, const rl_vk_hook *hook, rl_error *err)
{
    rl_vk_api *api = &device->api;
    rl_status status = rl_vk_api_load(api, hook, err);
    if (status) return status;

    uint32_t version = 0;
    VkResult r = api->EnumerateInstanceVersion(&version);
    if (r != VK_SUCCESS) return rl_vk_fail(err, r, "vkEnumerateInstanceVersion", NULL);
    if (version < VK_API_VERSION_1_2)
        return rl_fail(err, RL_DEVICE, "the Vulkan loader is version %u.%u; 1.2 is needed",
                       VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));

    VkExtensionProperties *have = malloc(RL_VK_MAX_EXTENSIONS * sizeof *have);
    if (!have) return rl_fail(err, RL_NOMEM, "no memory to list Vulkan extensions");
    uint32_t n_have;
    status = list_instance_extensions(api, NULL, have, &n_have, err);
    if (status) {
        free(have);
        return status;
    }
    const char *extensions[4], *layers[1];
    uint32_t n_extensions = 0, n_layers = 0;
    VkInstanceCreateFlags flags = 0;
    bool debug = rl_vk_has_extension(have, n_have, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (rl_vk_has_extension(have, n_have, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
    bool validate = rl_vk_env_is_on("RL_VULKAN_VALIDATE");
    if (validate) {
        layers[n_layers++] = VALIDATION_LAYER;
        status = find_validation_layer(api, err);
        if (!status && !debug)
            status = list_instance_extensions(api, VALIDATION_LAYER, have, &n_have, err);
        debug = !status &&
                (debug || rl_vk_has_extension(have, n_have, VK_EXT_DEBUG_UTILS_EXTENSION_NAME));
    }
    free(have);
    if (status) return status;
    if (debug) extensions[n_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;

    VkDebugUtilsMessengerCreateInfoEXT messages = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_validation_message,
        .pUserData = device,
    };
    VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "redlite",
        .pEngineName = "redlite",
        .apiVersion = VK_API_VERSION_1_2,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validate && debug ? &messages : NULL,
        .flags = flags,
        .pApplicationInfo = &app,
        .enabledLayerCount = n_layers,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    r = api->CreateInstance(&info, NULL, &device->instance);
    if (r != VK_SUCCESS) {
        device->instance = VK_NULL_HANDLE;
        if (r == VK_ERROR_INCOMPATIBLE_DRIVER)
            return rl_fail(err, RL_DEVICE, "no Vulkan driver is installed");
        return rl_vk_fail(err, r, "vkCreateInstance", NULL);
    }
    status = rl_vk_api_load_instance(api, device->instance, hook, err);
    if (status) return status;
    if (!debug) api->SetDebugUtilsObjectNameEXT = NULL;
    if (validate && debug && api->CreateDebugUtilsMessengerEXT) {
        r = api->CreateDebugUtilsMessengerEXT(device->instance, &messages, NULL,
                                              &device->messenger);
        if (r != VK_SUCCESS) {
            device->messenger = VK_NULL_HANDLE;
            return rl_vk_fail(err, r, "vkCreateDebugUtilsMessengerEXT", NULL);
        }
    }
    return RL_OK;
}

rl_status rl_vk_device_list(rl_vk_device_info **out, uint32_t *count, const rl_vk_hook *hook,
                            rl_error *err)
{
    RL_ASSERT(out && count);
    *out = NULL;
    *count = 0;
    rl_vk_candidate *list = NULL;
    uint32_t n = 0;
    rl_vk_device *device = calloc(1, sizeof *device);
    if (!device) return rl_fail(err, RL_NOMEM, "no memory to list Vulkan devices");
    rl_status status = create_instance(device, hook, err);
    if (!status) status = rl_vk_candidates_list(&device->api, device->instance, &list, &n, err);
    if (!status) {
        *out = calloc(n ? n : 1, sizeof **out);
        if (*out) {
            for (uint32_t i = 0; i < n; i++)
                (*out)[i] = list[i].info;
            *count = n;
        } else {
            status = rl_fail(err, RL_NOMEM, "no memory to list %u Vulkan devices", n);
        }
    }
    free(list);
    rl_vk_device_close(device);
    return status;
}

/* ---- the choice -------------------------------------------------------------------------------- */

static bool contains_any_case(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == n) return true;
    }
    return false;
}

static const rl_vk_candidate *choose_named(const rl_vk_candidate *list, uint32_t n,
                                           const char *wanted, rl_status *status, rl_error *err)
{
    const rl_vk_candidate *found = NULL;
    char *end;
    unsigned long index = strtoul(wanted, &end, 10);
    if (isdigit((unsigned char)wanted[0]) && !*end) {
        if (index >= n) {
            *status = rl_fail(err, RL_DEVICE, "there is no device %s (Vulkan lists %u)", wanted, n);
            return NULL;
        }
        found = &list[index];
    } else {
        for (uint32_t i = 0; i < n; i++) {
            if (!contains_any_case(list[i].info.name, wanted)) continue;
            if (!found || (!found->info.usable && list[i].info.usable)) found = &list[i];
        }
        if (!found) {
            *status = rl_fail(err, RL_DEVICE, "no Vulkan device is named like \"%s\"", wanted);
            return NULL;
        }
    }
    if (!found->info.usable) {
        *status = rl_fail(err, RL_DEVICE, "device %s cannot be used: %s", found->info.name,
                          found->info.why_not);
        return NULL;
    }
    return found;
}

static const rl_vk_candidate *choose(const rl_vk_candidate *list, uint32_t n,
                                     const rl_vk_open_params *params, rl_status *status,
                                     rl_error *err)
{
    *status = RL_OK;
    if (params->device) return choose_named(list, n, params->device, status, err);
    const rl_vk_candidate *best = NULL, *software = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const rl_vk_device_info *info = &list[i].info;
        if (!info->usable) continue;
        if (info->kind == RL_VK_SOFTWARE && !params->allow_software) {
            software = &list[i];
            continue;
        }
        if (!best || info->kind < best->info.kind ||
            (info->kind == best->info.kind && info->memory_bytes > best->info.memory_bytes))
            best = &list[i];
    }
    if (best) return best;
    if (!n)
        *status = rl_fail(err, RL_DEVICE, "there is no Vulkan device");
    else if (!software)
        *status = rl_fail(err, RL_DEVICE, "no Vulkan device can be used; %s: %s", list[0].info.name,
                          list[0].info.why_not);
    else
        *status =
            rl_fail(err, RL_DEVICE,
                    "the only usable Vulkan device is a software one (%s); ask for it by name",
                    software->info.name);
    return NULL;
}

static rl_status create_device(rl_vk_device *device, const rl_vk_candidate *c,
                               const rl_vk_hook *hook, rl_error *err)
{
    const float priorities[2] = { 1.0f, 1.0f };
    VkDeviceQueueCreateInfo queues[2] = {
        { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
          .queueFamilyIndex = c->compute_family,
          .queueCount = c->transfer_family == c->compute_family ? c->transfer_index + 1 : 1,
          .pQueuePriorities = priorities },
        { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
          .queueFamilyIndex = c->transfer_family,
          .queueCount = 1,
          .pQueuePriorities = priorities },
    };
    const char *extensions[3];
    uint32_t n_extensions = 0;
    if (c->info.byte_products)
        extensions[n_extensions++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (c->portability_subset) extensions[n_extensions++] = "VK_KHR_portability_subset";
    if (c->info.memory_budget) extensions[n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = c->info.byte_products ? &dots : NULL,
        .bufferDeviceAddress = VK_TRUE,
        .timelineSemaphore = VK_TRUE,
        .shaderFloat16 = c->info.float16,
    };
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &v12,
        .queueCreateInfoCount = c->transfer_family == c->compute_family ? 1 : 2,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
        .pEnabledFeatures = &(VkPhysicalDeviceFeatures){ .shaderInt64 = VK_TRUE },
    };
    VkResult r = device->api.CreateDevice(c->physical, &info, NULL, &device->handle);
    if (r != VK_SUCCESS) {
        device->handle = VK_NULL_HANDLE;
        return rl_vk_fail(err, r, "vkCreateDevice", c->info.name);
    }
    rl_status status = rl_vk_api_load_device(&device->api, device->handle, hook, err);
    if (status) return status;
    device->compute.family = c->compute_family;
    device->transfer.family = c->transfer_family;
    device->compute.lock = &device->locks[0];
    device->transfer.lock = c->info.second_queue ? &device->locks[1] : &device->locks[0];
    device->api.GetDeviceQueue(device->handle, c->compute_family, 0, &device->compute.handle);
    device->api.GetDeviceQueue(device->handle, c->transfer_family, c->transfer_index,
                               &device->transfer.handle);
    return RL_OK;
}

rl_status rl_vk_device_open(rl_vk_device **out, const rl_vk_open_params *params, rl_error *err)
{
    RL_ASSERT(out && params);
    *out = NULL;
    rl_vk_candidate *list = NULL;
    uint32_t n = 0;
    rl_vk_device *device = calloc(1, sizeof *device);
    if (!device) return rl_fail(err, RL_NOMEM, "no memory for a Vulkan device");
    pthread_mutex_init(&device->locks[0], NULL);
    pthread_mutex_init(&device->locks[1], NULL);
    rl_status status = create_instance(device, params->hook, err);
    if (status) goto done;
    status = rl_vk_candidates_list(&device->api, device->instance, &list, &n, err);
    if (status) goto done;
    const rl_vk_candidate *chosen = choose(list, n, params, &status, err);
    if (status) goto done;
    device->physical = chosen->physical;
    device->info = chosen->info;
    device->types = chosen->types;
    status = create_device(device, chosen, params->hook, err);
    if (status) goto done;
    *out = device;
    device = NULL;
done:
    free(list);
    rl_vk_device_close(device);
    return status;
}

/* Not every driver can be loaded any number of times: NVIDIA's 580 is not found any more after some
 * twenty instances that came and went in one process. So the first instance that is done with stays,
 * and with it the driver. */
static bool keep_instance(VkInstance instance)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    static VkInstance kept; /* where leak checkers find it */
    if (atomic_flag_test_and_set(&taken)) return false;
    kept = instance;
    return kept != VK_NULL_HANDLE;
}

void rl_vk_device_close(rl_vk_device *device)
{
    if (!device) return;
    const rl_vk_api *api = &device->api;
    /* A table that was not filled to the end lacks the function that would undo the creation. */
    if (device->handle && api->DestroyDevice) api->DestroyDevice(device->handle, NULL);
    if (device->messenger && api->DestroyDebugUtilsMessengerEXT)
        api->DestroyDebugUtilsMessengerEXT(device->instance, device->messenger, NULL);
    if (device->instance && api->DestroyInstance &&
        (api->hooked || !keep_instance(device->instance)))
        api->DestroyInstance(device->instance, NULL);
    pthread_mutex_destroy(&device->locks[0]);
    pthread_mutex_destroy(&device->locks[1]);
    free(device);
}

/* ---- small things ------------------------------------------------------------------------------ */

uint32_t rl_vk_device_messages(const rl_vk_device *device)
{
    return atomic_load(&((rl_vk_device *)device)->n_validation_messages);
}

uint64_t rl_vk_device_budget(const rl_vk_device *device)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT,
    };
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = device->info.memory_budget ? &budget : NULL,
    };
    uint64_t margin = device->info.memory_bytes / 32, left;
    if (!device->info.memory_budget) {
        uint64_t used = atomic_load(&((rl_vk_device *)device)->allocated) + margin;
        return device->info.memory_bytes > used ? device->info.memory_bytes - used : 0;
    }
    device->api.GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    uint32_t heap = memory.memoryProperties.memoryTypes[device->types.device].heapIndex;
    left = budget.heapBudget[heap] > budget.heapUsage[heap]
               ? budget.heapBudget[heap] - budget.heapUsage[heap]
               : 0;
    return left > margin ? left - margin : 0;
}

rl_status rl_vk_check(rl_vk_device *device, VkResult result, const char *call, rl_error *err)
{
    if (result == VK_SUCCESS) return RL_OK;
    if (result == VK_ERROR_DEVICE_LOST) rl_vk_give_up(device, call);
    return rl_vk_fail(err, result, call, device->info.name);
}

void rl_vk_give_up(rl_vk_device *device, const char *call)
{
    if (!atomic_load(&device->lost)) atomic_store(&device->lost_by, call);
    atomic_store(&device->lost, true);
}

rl_status rl_vk_refuse_lost(const rl_vk_device *device, rl_error *err)
{
    if (!atomic_load(&((rl_vk_device *)device)->lost)) return RL_OK;
    return rl_fail(err, RL_DEVICE, "device %s was lost before (%s reported it)", device->info.name,
                   atomic_load(&((rl_vk_device *)device)->lost_by));
}

void rl_vk_name(rl_vk_device *device, VkObjectType type, uint64_t object, const char *format, ...)
{
    if (!device->api.SetDebugUtilsObjectNameEXT || !object) return;
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = object,
        .pObjectName = name,
    };
    device->api.SetDebugUtilsObjectNameEXT(device->handle, &info);
}
