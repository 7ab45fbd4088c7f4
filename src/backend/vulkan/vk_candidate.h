/* vk_candidate.h - what a physical device offers, and whether that is enough.
 *
 * One function judges a device, for the list and for the choice of vk_device.c; what is enabled when a
 * device is created is exactly what was judged. What is needed of one: vk_device.h. */
#ifndef RL_BACKEND_VULKAN_VK_CANDIDATE_H
#define RL_BACKEND_VULKAN_VK_CANDIDATE_H

#include "backend/vulkan/vk_device.h"

#define RL_VK_MAX_EXTENSIONS 512 /* that are looked at, of an instance or a device */

/* One physical device, judged. */
typedef struct rl_vk_candidate {
    VkPhysicalDevice physical;
    rl_vk_device_info info;
    rl_vk_memory_types types;
    uint32_t compute_family, transfer_family, transfer_index;
    bool portability_subset, size_control;
} rl_vk_candidate;

/* All devices of the instance in the loader's order; info.usable and info.why_not are the judgement.
 * *out: free(). None is RL_OK with *count 0. */
RL_MUST_CHECK rl_status rl_vk_candidates_list(const rl_vk_api *api, VkInstance instance,
                                              rl_vk_candidate **out, uint32_t *count,
                                              rl_error *err);

bool rl_vk_has_extension(const VkExtensionProperties *list, uint32_t n, const char *name);

/* Whether the environment variable is there, not empty and not "0". */
bool rl_vk_env_is_on(const char *name);

#endif
