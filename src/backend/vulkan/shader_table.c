/* shader_table.c - backend/vulkan/shader_table.h. */
#include "backend/vulkan/shader_table.h"

#include "backend/vulkan/shaders/shader_types.h"

const rl_vk_op_info rl_vk_op_infos[RL_VK_N_OPS] = {
#define RL_SHADER(OP, file, push)                       { #file, sizeof(push), 0 },
#define RL_SHADER_PER_TYPE(OP, file, push)              { #file, sizeof(push), 1 },
#define RL_SHADER_PER_BYTE_TYPE(OP, file, push)         { #file, sizeof(push), 1 },
#define RL_SHADER_OF_TYPE(OP, op, file, push, NAME, id) { #op, sizeof(push), 1 },
#define RL_SHADER_LINKED(OP, file, push)                { #file, sizeof(push), 0 },
#define RL_SHADER_PER_LINKED_TYPE(OP, file, push)       { #file, sizeof(push), 1 },
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
};

/* Vulkan promises 128 bytes of push constants. */
#define RL_SHADER(OP, file, push)                       _Static_assert(sizeof(push) <= 128, #push);
#define RL_SHADER_PER_TYPE(OP, file, push)              _Static_assert(sizeof(push) <= 128, #push);
#define RL_SHADER_PER_BYTE_TYPE(OP, file, push)         _Static_assert(sizeof(push) <= 128, #push);
#define RL_SHADER_OF_TYPE(OP, op, file, push, NAME, id) _Static_assert(sizeof(push) <= 128, #push);
#define RL_SHADER_LINKED(OP, file, push)                _Static_assert(sizeof(push) <= 128, #push);
#define RL_SHADER_PER_LINKED_TYPE(OP, file, push)       _Static_assert(sizeof(push) <= 128, #push);
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

const rl_vk_blob *rl_vk_blob_find(rl_vk_op op, uint32_t type)
{
    for (uint32_t i = 0; i < rl_vk_n_blobs; i++)
        if (rl_vk_blobs[i].op == op && rl_vk_blobs[i].type == type) return &rl_vk_blobs[i];
    return NULL;
}
