/* vk_link.h - stages of a command buffer that follow each other without barriers (shaders/link.glsl).
 *
 * A stage is what is recorded between rl_vk_links_begin and rl_vk_links_end: dispatches that may run
 * beside each other. Its end is either a barrier or a link: then every workgroup of it arrives at a
 * counter, and the workgroups of the next stage wait for them by themselves. Here are the numbers that
 * both need: of stages, and of workgroups.
 *
 * Threads: one owner. */
#ifndef RL_BACKEND_VULKAN_VK_LINK_H
#define RL_BACKEND_VULKAN_VK_LINK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rl_vk_links {
    bool on;                    /* whether stages are linked at all */
    bool waits, first, arrives; /* the stage under way: RL_LINK_WAITS, _WAITS_FIRST, _ARRIVES */
    uint32_t stage;             /* its number; the counters of all numbers below are in use   */
    uint32_t groups;            /* its workgroups so far                                      */
    uint32_t groups_before, groups_first; /* of the stage before, and of that before that   */
} rl_vk_links;

/* No stage is linked until now; on: from now on they may be. A zeroed one is off. */
void rl_vk_links_start(rl_vk_links *links, bool on);

/* Begins a stage, behind the end of another. link: the next one waits for it, if links are on. */
void rl_vk_links_begin(rl_vk_links *links, bool link);

/* Ends it. True: a barrier has to follow. */
bool rl_vk_links_end(rl_vk_links *links);

/* Counts a dispatch of the stage. Returns its constant LINK, and its push.link and push.first. first may be
 * NULL: the kernel waits for the stage before only. */
uint32_t rl_vk_links_dispatch(rl_vk_links *links, uint64_t groups, uint32_t *link, uint32_t *first);

#endif
