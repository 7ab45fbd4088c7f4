/* vk_link.c - backend/vulkan/vk_link.h. */
#include "backend/vulkan/vk_link.h"

#include "backend/vulkan/shaders/shader_types.h"
#include "base/assert.h"

void rl_vk_links_start(rl_vk_links *links, bool on)
{
    *links = (rl_vk_links){ .on = on };
}

void rl_vk_links_begin(rl_vk_links *links, bool link)
{
    links->first = links->arrives && links->waits;
    links->waits = links->arrives;
    links->arrives = link && links->on;
    links->groups_first = links->groups_before;
    links->groups_before = links->groups;
    links->groups = 0;
}

/* A stage of more workgroups than a link can name ends with a barrier, although they arrive. */
bool rl_vk_links_end(rl_vk_links *links)
{
    if (links->waits || links->arrives) links->stage++;
    if (links->groups > RL_LINK_GROUPS) links->arrives = false;
    return !links->arrives;
}

uint32_t rl_vk_links_dispatch(rl_vk_links *links, uint64_t groups, uint32_t *link, uint32_t *first)
{
    uint32_t room = UINT32_MAX - links->groups;
    links->groups += groups < room ? (uint32_t)groups : room;
    *link = links->stage << RL_LINK_STAGE | (links->waits ? links->groups_before : 0);
    RL_ASSERT(links->stage >> (32 - RL_LINK_STAGE) == 0);
    bool waits_first = first && links->first;
    if (first) *first = waits_first ? links->groups_first : 0;
    return (links->waits ? RL_LINK_WAITS : 0) | (links->arrives ? RL_LINK_ARRIVES : 0) |
           (waits_first ? RL_LINK_WAITS_FIRST : 0);
}
