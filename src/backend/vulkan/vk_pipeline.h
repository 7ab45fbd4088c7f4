/* vk_pipeline.h - kernels: SPIR-V that was embedded at build time, made into pipelines on demand.
 *
 * A kernel is an operation of shaders.list, for operations on weights also a tensor type, and the
 * values of its specialisation constants; constant 0 is the workgroup size everywhere. There are no
 * descriptor sets: kernels take addresses in up to 128 bytes of push constants.
 *
 * Compiled pipelines are kept in a file between runs (the driver's pipeline cache, with a header of
 * ours that names device and driver and holds a checksum).
 *
 * Threads: one owner. */
#ifndef RL_BACKEND_VULKAN_VK_PIPELINE_H
#define RL_BACKEND_VULKAN_VK_PIPELINE_H

#include "backend/vulkan/shader_table.h"
#include "backend/vulkan/vk_device.h"

#define RL_VK_MAX_CONSTANTS 12 /* numbered from 0; common.glsl has two more of its own */

typedef struct rl_vk_pipeline {
    VkPipeline handle;
    VkPipelineLayout layout;
    rl_vk_op op;
    uint32_t type; /* ggml tensor type, RL_VK_NO_TYPE for operations without weights */
    uint32_t n_constants;
    uint32_t constants[RL_VK_MAX_CONSTANTS];
} rl_vk_pipeline;

typedef struct rl_vk_pipelines rl_vk_pipelines;

/* cache_file: where compiled pipelines are kept; NULL: nowhere. A missing, damaged or foreign file
 * only means that everything is compiled again. */
RL_MUST_CHECK rl_status rl_vk_pipelines_create(rl_vk_pipelines **out, rl_vk_device *device,
                                               const char *cache_file, rl_error *err);
/* Writes the cache file when something new was compiled (failures are silent: it is a cache). */
void rl_vk_pipelines_destroy(rl_vk_pipelines *pipelines);

/* The file to use by default: below XDG_CACHE_HOME or ~/.cache, one per device and driver. Writes ""
 * when neither is known. */
void rl_vk_pipelines_default_file(const rl_vk_device *device, char *out, size_t bytes);

/* Finds or compiles; *out lives as long as `pipelines`. RL_UNSUPPORTED names the tensor type when
 * the operation has no kernel for it. */
RL_MUST_CHECK rl_status rl_vk_pipelines_get(rl_vk_pipelines *pipelines, rl_vk_op op, uint32_t type,
                                            const uint32_t *constants, uint32_t n_constants,
                                            const rl_vk_pipeline **out, rl_error *err);

/* How many pipelines were compiled here so far. */
uint32_t rl_vk_pipelines_count(const rl_vk_pipelines *pipelines);

#endif
