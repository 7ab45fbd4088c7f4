/* vk_link.h - stages of a command buffer that follow each other without barriers (shaders/link.glsl).
 *
 * A stage is what is recorded between rl_vk_links_begin and rl_vk_links_end: dispatches that may run
 * beside each other. Its end is a barrier, or the next stages take what it hands on by themselves: values
 * by their numbers, or all of it when it has been counted. Here is what both need to know.
 *
 * Threads: one owner. */
#ifndef RL_BACKEND_VULKAN_VK_LINK_H
#define RL_BACKEND_VULKAN_VK_LINK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum rl_vk_stage_end {
    RL_VK_END_BARRIER,
    RL_VK_END_NUMBERED, /* every value that is handed on is numbered                    */
    RL_VK_END_COUNTED   /* plain values; workgroups arrive at the layer's only counter  */
} rl_vk_stage_end;

typedef struct rl_vk_links {
    bool on;                /* whether stages are linked at all                */
    bool takes, waits;      /* the stage under way: RL_LINK_TAKES, _WAITS      */
    rl_vk_stage_end end;    /* how it ends                                     */
    uint32_t layer;         /* what it takes and hands on belongs to that      */
    uint32_t groups;        /* its workgroups so far                           */
    uint32_t groups_before; /* those of the counted stage before               */
} rl_vk_links;

/* No stage is linked until now; on: from now on they may be. A zeroed one is off. */
void rl_vk_links_start(rl_vk_links *links, bool on);

/* Begins a stage, behind the end of another. Without links every end is a barrier. */
void rl_vk_links_begin(rl_vk_links *links, uint32_t layer, rl_vk_stage_end end);

/* Ends it. True: a barrier has to follow. */
bool rl_vk_links_end(rl_vk_links *links);

/* Counts a dispatch of the stage. Returns its constant LINK, and its push.link. */
uint32_t rl_vk_links_dispatch(rl_vk_links *links, uint64_t groups, uint32_t *link);

#endif
