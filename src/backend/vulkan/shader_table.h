/* shader_table.h - shaders.list as C: the operations, their push structs, and the SPIR-V.
 *
 * The modules themselves are generated into the build folder (shader_blobs.c) by
 * backend/vulkan/CMakeLists.txt. */
#ifndef RL_BACKEND_VULKAN_SHADER_TABLE_H
#define RL_BACKEND_VULKAN_SHADER_TABLE_H

#include <stddef.h>
#include <stdint.h>

typedef enum rl_vk_op {
#define RL_SHADER(OP, file, push)                       RL_VK_##OP,
#define RL_SHADER_PER_TYPE(OP, file, push)              RL_VK_##OP,
#define RL_SHADER_PER_BYTE_TYPE(OP, file, push)         RL_VK_##OP,
#define RL_SHADER_OF_TYPE(OP, op, file, push, NAME, id) RL_VK_##OP,
#define RL_SHADER_LINKED(OP, file, push)                RL_VK_##OP,
#define RL_SHADER_PER_LINKED_TYPE(OP, file, push)       RL_VK_##OP,
#define RL_SHADER_TYPE(NAME, name, id)
#define RL_SHADER_BYTE_TYPE(NAME, name, id)
#include "backend/vulkan/shaders.list"
#undef RL_SHADER
#undef RL_SHADER_PER_TYPE
#undef RL_SHADER_PER_BYTE_TYPE
#undef RL_SHADER_OF_TYPE
#undef RL_SHADER_LINKED
#undef RL_SHADER_PER_LINKED_TYPE
#undef RL_SHADER_TYPE
#undef RL_SHADER_BYTE_TYPE
    RL_VK_N_OPS
} rl_vk_op;

#define RL_VK_NO_TYPE UINT32_MAX

/* One compiled module. */
typedef struct rl_vk_blob {
    rl_vk_op op;
    uint32_t type; /* ggml tensor type or RL_VK_NO_TYPE */
    const char *name;
    const uint32_t *words;
    size_t bytes;
} rl_vk_blob;

extern const rl_vk_blob rl_vk_blobs[];
extern const uint32_t rl_vk_n_blobs;

typedef struct rl_vk_op_info {
    const char *name;
    uint32_t push_bytes;
    int per_type;
} rl_vk_op_info;

extern const rl_vk_op_info rl_vk_op_infos[RL_VK_N_OPS];

/* The module of an operation; NULL when there is none for this type. */
const rl_vk_blob *rl_vk_blob_find(rl_vk_op op, uint32_t type);

#endif
