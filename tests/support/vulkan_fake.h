/* vulkan_fake.h - a Vulkan driver that is not there, played on the host.
 *
 * Everything around the kernels is real: memory, copies, fills, command buffers with their states,
 * queues, timeline semaphores. Kernels compute nothing, with one exception: the choice of experts,
 * which steers the host. It takes k experts that follow from the token's position and the layer, looks
 * them up in the residency table and halts the token when one is absent, as rl_route.comp does. So
 * prefill and every way of decoding run through; logits are zeros.
 *
 * Work is done as late as Vulkan allows: when somebody waits for it, or a batch per question whether
 * it is done. What is destroyed or recorded anew too early is caught by that. Wrong use becomes a
 * complaint of vulkan_guard.h; so does a wait for work that can never start.
 *
 * Addresses are those of the host, so a kernel's pointer into freed memory is AddressSanitizer's.
 *
 * Threads: calls from any; settings by one, before a device is opened. */
#ifndef RL_TESTS_SUPPORT_VULKAN_FAKE_H
#define RL_TESTS_SUPPORT_VULKAN_FAKE_H

#include "backend/vulkan/vk_api.h"

/* One physical device. A zero field takes nothing away: the device then is a good one. */
typedef struct rl_fake_gpu {
    const char *name;
    VkPhysicalDeviceType type;
    uint32_t version;  /* 0: Vulkan 1.2 */
    VkDriverId driver; /* 0: none that Vulkan knows */
    bool no_addresses, no_timelines, no_int64, no_compute, no_shuffles;
    uint32_t shared_bytes, push_bytes; /* limits; 0: enough */
    uint64_t memory_bytes;             /* 0: 1 GiB          */
    bool budget;         /* VK_EXT_memory_budget, half of the memory in use by others */
    bool one_queue;      /* for compute and copies together */
    bool private_memory; /* the host cannot write the device's memory */
} rl_fake_gpu;

typedef struct rl_fake_machine {
    bool no_loader;
    uint32_t loader_version; /* 0: Vulkan 1.2 */
    const char *missing;     /* a function that the driver does not know, "vkCmdDispatch" */
    const rl_fake_gpu *gpus;
    uint32_t n_gpus;
} rl_fake_machine;

/* The driver of this machine, for rl_guard_install(); borrowed until the next call. */
const rl_vk_hook *rl_fake_vulkan(const rl_fake_machine *machine);

/* Kernels run since the program started. */
uint64_t rl_fake_dispatches(void);

#endif
