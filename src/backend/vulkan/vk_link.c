/* vk_link.c - backend/vulkan/vk_link.h. */
#include "backend/vulkan/vk_link.h"

#include "backend/vulkan/shaders/shader_types.h"
#include "base/assert.h"

void rl_vk_links_start(rl_vk_links *links, bool on)
{
    *links = (rl_vk_links){ .on = on };
}

void rl_vk_links_begin(rl_vk_links *links, uint32_t layer, rl_vk_stage_end end)
{
    RL_ASSERT(layer + 1 < 1u << RL_NUMBER_LAYER);
    links->layer = layer;
    links->takes = links->end != RL_VK_END_BARRIER;
    links->end = links->on ? end : RL_VK_END_BARRIER;
    RL_ASSERT(!links->waits || links->end != RL_VK_END_COUNTED);
    links->groups_before = links->groups;
    links->groups = 0;
}

/* A stage of more workgroups than a link can name ends with a barrier, although they arrive. */
bool rl_vk_links_end(rl_vk_links *links)
{
    bool counted = links->end == RL_VK_END_COUNTED;
    links->waits = counted && links->groups <= RL_LINK_GROUPS;
    return links->end == RL_VK_END_BARRIER || (counted && !links->waits);
}

uint32_t rl_vk_links_dispatch(rl_vk_links *links, uint64_t groups, uint32_t *link)
{
    uint32_t room = UINT32_MAX - links->groups;
    links->groups += groups < room ? (uint32_t)groups : room;
    *link = links->layer << RL_LINK_LAYER | (links->waits ? links->groups_before : 0);
    return (links->takes ? RL_LINK_TAKES : 0) | (links->waits ? RL_LINK_WAITS : 0) |
           (links->end == RL_VK_END_NUMBERED ? RL_LINK_GIVES : 0) |
           (links->end == RL_VK_END_COUNTED ? RL_LINK_ARRIVES : 0);
}
