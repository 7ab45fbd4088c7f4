/* vk_device.h - Vulkan devices: which there are, which one is taken, and what it can do.
 *
 * Needed of a device: Vulkan 1.2, a compute queue, buffer device addresses, timeline semaphores,
 * 64-bit integers in shaders, subgroup arithmetic and shuffles of any size from 4 to 128, 32 KiB of
 * shared memory, 128 bytes of push constants. Everything else is looked for and never assumed.
 *
 * Environment: RL_VULKAN_VALIDATE=1 turns the validation layer on (its warnings and errors are
 * printed and counted); RL_VULKAN_STAGING=1 acts as if device memory were never host visible.
 *
 * Threads: an open device may be used by several threads; queues are locked inside vk_cmd.c. */
#ifndef RL_BACKEND_VULKAN_VK_DEVICE_H
#define RL_BACKEND_VULKAN_VK_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/vulkan/vk_api.h"

typedef enum rl_vk_kind {
    RL_VK_DISCRETE, /* in order of preference */
    RL_VK_INTEGRATED,
    RL_VK_VIRTUAL,
    RL_VK_SOFTWARE
} rl_vk_kind;

typedef struct rl_vk_device_info {
    char name[256];
    char driver[256]; /* name and version as the driver tells them; may be empty             */
    rl_vk_kind kind;
    uint32_t vulkan_version; /* VK_MAKE_API_VERSION                                           */
    uint32_t vendor, device;
    uint8_t driver_uuid[16];
    uint64_t memory_bytes;     /* of the largest device-local heap                            */
    uint64_t budget_bytes;     /* what the driver grants us of it now; 0: it does not say     */
    uint64_t allocation_bytes; /* largest single allocation                                   */
    uint32_t shared_bytes;     /* per workgroup                                               */
    uint32_t workgroup_size;   /* largest number of invocations                               */
    uint32_t subgroup_size;    /* as reported by default                                      */
    uint32_t subgroup_min, subgroup_max; /* range where the driver may vary it                */
    uint32_t compute_units; /* that run workgroups (NVIDIA: multiprocessors); 0: not told     */
    float timestamp_ns;     /* nanoseconds per tick; 0: no timestamps                         */
    bool direct_writes;     /* the host writes device memory directly (unified or full BAR)    */
    bool second_queue;      /* copies run beside compute work                                  */
    bool memory_budget;     /* VK_EXT_memory_budget                                            */
    bool float16;           /* half arithmetic in shaders                                      */
    bool
        byte_products; /* dot products of bytes in shaders (VK_KHR_shader_integer_dot_product)    */
    bool fast_bytes;   /* ... in hardware                                                         */
    bool matrix_units; /* VK_KHR_cooperative_matrix (not used yet)                        */
    bool hands_over;   /* a workgroup may read what others that still run have written            */
    bool in_order;     /* known for what linked stages need (link.glsl)                         */
    bool usable;
    char why_not[200]; /* one clause, when not usable                                         */
} rl_vk_device_info;

/* Every device the loader knows, usable or not, in the loader's order; `--device N` counts in it.
 * *out is one allocation: free(). Zero devices is RL_OK with *count 0. RL_DEVICE when there is no
 * loader. hook may be NULL. */
RL_MUST_CHECK rl_status rl_vk_device_list(rl_vk_device_info **out, uint32_t *count,
                                          const rl_vk_hook *hook, rl_error *err);

/* One hardware queue and the lock that Vulkan asks the caller for. */
typedef struct rl_vk_queue {
    VkQueue handle;
    uint32_t family;
    pthread_mutex_t *lock; /* shared when two rl_vk_queue are the same VkQueue */
} rl_vk_queue;

/* Memory types by use; index into VkPhysicalDeviceMemoryProperties. */
typedef struct rl_vk_memory_types {
    uint32_t device;       /* the GPU's own                                                */
    uint32_t upload;       /* small things the host writes and the GPU reads               */
    uint32_t readback;     /* small things the GPU writes and the host reads               */
    uint32_t staging;      /* source of copies                                             */
    bool device_is_mapped; /* `device` is host visible and coherent                        */
} rl_vk_memory_types;

typedef struct rl_vk_device {
    rl_vk_api api;
    rl_vk_device_info info;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice handle;
    rl_vk_queue compute, transfer;
    rl_vk_memory_types types;
    VkDebugUtilsMessengerEXT messenger;
    pthread_mutex_t locks[2];
    atomic_uint n_validation_messages;
    atomic_bool lost;            /* once set, nothing is submitted any more */
    const char *_Atomic lost_by; /* the call that reported it */
    _Atomic uint64_t allocated;  /* bytes taken from the heap of device memory */
} rl_vk_device;

typedef struct rl_vk_open_params {
    const char *device;     /* NULL: the best usable one; "2": by index; else: part of the name,
                               any case                                                       */
    bool allow_software;    /* with no device asked for: take a software device when no other
                               can be used; false makes that an error                         */
    const rl_vk_hook *hook; /* for tests; NULL in the product                                  */
} rl_vk_open_params;

/* Takes a device. On success *out owns it: rl_vk_device_close(). On failure *out is NULL and the
 * sentence names the device, or says why none of those present can be used. */
RL_MUST_CHECK rl_status rl_vk_device_open(rl_vk_device **out, const rl_vk_open_params *params,
                                          rl_error *err);

/* Waits for nothing: the owner of submitted work has waited. NULL is fine. */
void rl_vk_device_close(rl_vk_device *device);

/* Warnings and errors of the validation layer so far. */
uint32_t rl_vk_device_messages(const rl_vk_device *device);

/* Bytes that may still be allocated from device memory now, less a margin for the driver's own needs:
 * by the driver's word where VK_EXT_memory_budget exists, else by the heap's size and our own
 * allocations. */
uint64_t rl_vk_device_budget(const rl_vk_device *device);

/* Turns a VkResult into a status, and remembers a lost device. */
rl_status rl_vk_check(rl_vk_device *device, VkResult result, const char *call, rl_error *err);

/* From now on the device counts as lost; `call`, a constant, is what showed it. */
void rl_vk_give_up(rl_vk_device *device, const char *call);

/* RL_DEVICE with a sentence once the device is lost: for calls that would not ask it anything. */
rl_status rl_vk_refuse_lost(const rl_vk_device *device, rl_error *err);

/* Names an object for captures and validation messages; does nothing without debug utils. */
void rl_vk_name(rl_vk_device *device, VkObjectType type, uint64_t object, const char *format, ...)
    RL_PRINTF(4, 5);

#endif
