/* vk_tables.h - the codebooks of the grid types in the form that the kernels read. */
#ifndef RL_BACKEND_VULKAN_VK_TABLES_H
#define RL_BACKEND_VULKAN_VK_TABLES_H

#include "backend/vulkan/shaders/shader_types.h"

/* Fills RL_TABLE_WORDS words, laid out as shader_types.h says. */
void rl_vk_tables_fill(uint32_t words[RL_TABLE_WORDS]);

#endif
