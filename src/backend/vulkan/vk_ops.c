/* vk_ops.c - backend/vulkan/vk_ops.h. */
#include "backend/vulkan/vk_ops.h"

#include <string.h>

#include "backend/vulkan/vk_tables.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "quant/quant.h"

rl_status rl_vk_ops_init(rl_vk_ops *ops, rl_vk_device *device, rl_vk_uploader *up,
                         const char *cache_file, rl_error *err)
{
    uint32_t words[RL_TABLE_WORDS];
    memset(ops, 0, sizeof *ops);
    ops->device = device;
    ops->subgroup = device->info.subgroup_size;
    /* A software device gains nothing from long kernels, and compiles them slowly. */
    ops->lanes = device->info.kind == RL_VK_SOFTWARE ? 1u << 30 : 65536;
    rl_status status = rl_vk_pipelines_create(&ops->pipelines, device, cache_file, err);
    if (!status)
        status = rl_vk_arena_create(&ops->arena, device, RL_VK_PLACE_DEVICE, sizeof words + 4096,
                                    "codebooks", err);
    if (!status) status = rl_vk_arena_take(ops->arena, sizeof words, 256, &ops->tables, err);
    if (!status) {
        rl_vk_tables_fill(words);
        status = rl_vk_upload(up, &ops->tables, 0, words, sizeof words, err);
    }
    if (!status) status = rl_vk_uploader_finish(up, err);
    if (status) rl_vk_ops_fini(ops);
    return status;
}

void rl_vk_ops_fini(rl_vk_ops *ops)
{
    rl_vk_pipelines_destroy(ops->pipelines);
    rl_vk_arena_destroy(ops->arena);
    memset(ops, 0, sizeof *ops);
}

/* The largest power of two <= n. */
static uint32_t power_below(uint32_t n)
{
    uint32_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Bytes of a row of `cols` weights; the type is known to have kernels. */
static uint32_t row_bytes(uint32_t type, uint32_t cols)
{
    const rl_quant_info *info = rl_quant_find(type);
    return cols / info->block * info->block_bytes;
}

rl_status rl_vk_op_matvec(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matvec *m, rl_error *err)
{
    RL_ASSERT(m->push.cols % 32 == 0 && m->push.rows && m->n_ranks && m->n_tokens);
    bool pair = m->matrix == RL_MATRIX_PAIR || m->matrix == RL_MATRIX_ROUTED_PAIR;
    uint32_t local = ops->subgroup > 128 ? ops->subgroup : 128;
    uint32_t team = min_u32(ops->subgroup, power_below(m->push.cols / 32));
    /* More rows per team means fewer loads of x, as long as every lane of the device has work. */
    uint64_t work = (uint64_t)m->push.rows * m->n_ranks * m->n_tokens * team * (pair ? 2 : 1);
    uint32_t rows = work >= 4ull * ops->lanes ? 4 : work >= 2ull * ops->lanes || pair ? 2 : 1;
    uint32_t outputs = pair ? rows / 2 : rows;
    const uint32_t constants[] = { local, rows, team, m->input, m->matrix, m->add };
    const rl_vk_pipeline *pipeline;
    rl_status status = rl_vk_pipelines_get(ops->pipelines, RL_VK_MATVEC, m->type, constants,
                                           RL_COUNT_OF(constants), &pipeline, err);
    if (status) return status;
    rl_matvec_push push = m->push;
    push.tables = ops->tables.address;
    push.row_bytes = row_bytes(m->type, push.cols);
    uint32_t groups = divide_up(push.rows, (uint64_t)outputs * (local / team));
    rl_vk_cmd_dispatch(cmd, pipeline, &push, sizeof push, min_u32(groups, 65535), m->n_ranks,
                       m->n_tokens);
    return RL_OK;
}
