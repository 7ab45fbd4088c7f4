/* vk_ops.h - one function per kernel: it picks the variant and the grid, and records the dispatch.
 *
 * Nothing here waits or knows a model. Every function records into `cmd` and places no barrier: the
 * caller knows what depends on what. Addresses are device addresses; see shader_types.h for the
 * meaning of each field.
 *
 * Errors: only from making a pipeline the first time. Threads: one owner. */
#ifndef RL_BACKEND_VULKAN_VK_OPS_H
#define RL_BACKEND_VULKAN_VK_OPS_H

#include "backend/vulkan/shaders/shader_types.h"
#include "backend/vulkan/vk_cmd.h"

typedef struct rl_vk_ops {
    rl_vk_device *device;
    rl_vk_pipelines *pipelines;
    rl_vk_arena *arena;
    rl_vk_span tables;
    uint32_t subgroup; /* lanes, as the device reports */
    uint32_t lanes;    /* how many the device needs busy at a time: row teams get smaller below */
} rl_vk_ops;

/* Uploads the codebooks. cache_file as for rl_vk_pipelines_create. On failure nothing is owned. */
RL_MUST_CHECK rl_status rl_vk_ops_init(rl_vk_ops *ops, rl_vk_device *device, rl_vk_uploader *up,
                                       const char *cache_file, rl_error *err);
void rl_vk_ops_fini(rl_vk_ops *ops);

/* y = W x: matvec.comp. `push.tables` and `push.row_bytes` are filled in here. */
typedef struct rl_vk_matvec {
    uint32_t type;     /* of W                                                 */
    uint32_t input;    /* RL_INPUT_...                                         */
    uint32_t matrix;   /* RL_MATRIX_...                                        */
    bool add;          /* y += push.add                                        */
    bool check_halt;   /* return at once when push.halt says so                */
    uint32_t n_ranks;  /* grid y: 1 when not routed                            */
    uint32_t n_tokens; /* grid z                                               */
    rl_matvec_push push;
} rl_vk_matvec;
RL_MUST_CHECK rl_status rl_vk_op_matvec(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matvec *m,
                                        rl_error *err);

#endif
