/* vk_ops.c - backend/vulkan/vk_ops.h. */
#include "backend/vulkan/vk_ops.h"

#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_tables.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "quant/quant.h"

enum { ATTN_TILE = 32 }; /* attn.comp: positions */

/* Lanes that keep a device busy, weights from which on products of bytes pay, and positions before
 * which attention has few keys: as measured on an H200 (docs/gpu-routing.md). */
enum { BUSY_LANES = 131072, BYTE_WEIGHTS = 8 << 20, SHALLOW = 4096 };

/* The environment's word on something that can be had or not: `usual` without one. */
static rl_status find_switch(const char *name, bool usual, bool *out, bool *said, rl_error *err)
{
    const char *text = getenv(name);
    *said = text && *text;
    *out = usual;
    if (!*said) return RL_OK;
    if (strcmp(text, "0") && strcmp(text, "1"))
        return rl_fail(err, RL_INVALID, "%s is \"%s\", not 0 or 1", name, text);
    *out = *text == '1';
    return RL_OK;
}

/* Products of bytes have to prepare their input more, so small matrices go without. Their kernels find
 * the largest of eight neighbours, hence the subgroups, and can be linked, hence handing over.
 * RL_VULKAN_BYTES: 0 never, 1 always. */
static rl_status find_byte_weights(const rl_vk_device_info *info, uint64_t *out, rl_error *err)
{
    bool wanted, said;
    rl_status status = find_switch("RL_VULKAN_BYTES", info->fast_bytes, &wanted, &said, err);
    *out = said ? 1 : BYTE_WEIGHTS;
    if (!wanted || !info->byte_products || !info->hands_over || info->subgroup_min < 8) *out = 0;
    return status;
}

/* RL_VULKAN_LINKS: 0 never, 1 wherever workgroups can hand over. */
static rl_status find_links(const rl_vk_device_info *info, bool *out, rl_error *err)
{
    bool said;
    rl_status status = find_switch("RL_VULKAN_LINKS", info->in_order, out, &said, err);
    *out = *out && info->hands_over;
    return status;
}

rl_status rl_vk_ops_init(rl_vk_ops *ops, rl_vk_device *device, rl_vk_uploader *up,
                         const char *cache_file, rl_error *err)
{
    uint32_t words[RL_TABLE_WORDS];
    memset(ops, 0, sizeof *ops);
    ops->device = device;
    ops->subgroup = device->info.subgroup_size;
    ops->software = device->info.kind == RL_VK_SOFTWARE;
    ops->lanes = ops->software ? 64 : BUSY_LANES;
    ops->shallow = ops->software ? 0 : SHALLOW;
    ops->workgroup = ops->software ? 64 : 256;
    ops->groups = ops->software ? 1 : 128;
    ops->tile_tokens = ops->software ? 8 : 16;
    rl_status status = find_byte_weights(&device->info, &ops->byte_weights, err);
    if (!status) status = find_links(&device->info, &ops->links, err);
    if (!status) status = rl_vk_pipelines_create(&ops->pipelines, device, cache_file, err);
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

bool rl_vk_type_is_known(uint32_t type)
{
    return rl_vk_blob_find(RL_VK_MATVEC, type) != NULL;
}

/* Finds the pipeline and records one dispatch. constants: the workgroup size first. */
static rl_status record(rl_vk_ops *ops, rl_vk_cmd *cmd, rl_vk_op op, uint32_t type,
                        const uint32_t *constants, uint32_t n_constants, const void *push,
                        const uint32_t grid[3], rl_error *err)
{
    const rl_vk_pipeline *pipeline;
    rl_status status =
        rl_vk_pipelines_get(ops->pipelines, op, type, constants, n_constants, &pipeline, err);
    if (status) return status;
    rl_vk_cmd_dispatch(cmd, pipeline, push, rl_vk_op_infos[op].push_bytes, grid[0], grid[1],
                       grid[2]);
    return RL_OK;
}
#define RECORD_COUNTED(op, type, push, x, y, z, ...)                                               \
    record(ops, cmd, op, type, (const uint32_t[]){ __VA_ARGS__ },                                  \
           RL_COUNT_OF(((const uint32_t[]){ __VA_ARGS__ })), push, (const uint32_t[]){ x, y, z },  \
           err)

/* Operations that only know barriers: not in stages that are linked. */
#define RECORD(op, type, push, x, y, z, ...)                                                       \
    (check_alone(cmd), RECORD_COUNTED(op, type, push, x, y, z, __VA_ARGS__))

static void check_alone(const rl_vk_cmd *cmd)
{
    RL_ASSERT(!cmd->links.takes && cmd->links.end == RL_VK_END_BARRIER);
}

/* Operations that may be linked. how: the constant LINK, their last, from links(), which counts the
 * dispatch; linked: their modules for that. */
#define RECORD_LINKED(op, linked, how, type, push, x, y, z, ...)                                   \
    RECORD_COUNTED((how) ? linked : op, type, push, x, y, z, __VA_ARGS__, how)

/* The constant LINK of a dispatch, which is counted, and its push.link. */
static uint32_t links(rl_vk_cmd *cmd, uint32_t x, uint32_t y, uint32_t z, uint32_t *word)
{
    return rl_vk_links_dispatch(&cmd->links, (uint64_t)x * y * z, word);
}

rl_status rl_vk_op_embed(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t type, uint32_t n,
                         const rl_embed_push *push, rl_error *err)
{
    rl_embed_push p = *push;
    p.tables = ops->tables.address;
    p.row_bytes = row_bytes(type, p.cols);
    return RECORD(RL_VK_EMBED, type, &p, divide_up(p.cols / 32, 64), n, 1, 64);
}

rl_status rl_vk_op_norm(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, const rl_norm_push *push,
                        rl_error *err)
{
    return RECORD(RL_VK_NORM, RL_VK_NO_TYPE, push, n, 1, 1, 256);
}

/* Lanes that share a row of `cols` weights: no more than there are chunks. */
static uint32_t team_lanes(const rl_vk_ops *ops, uint32_t cols)
{
    return min_u32(ops->subgroup, power_below(cols / 32));
}

enum {
    MATVEC_TILE = 128,
    MATVEC_BLOCKS = 8,
    MOST_SUBGROUPS = 64, /* of a workgroup: squares_of in product.glsl */
    MOST_GROUPS = 65535  /* of a dispatch, as Vulkan promises         */
};

/* How a product is cut: lanes of a workgroup, rows that a team of lanes takes at a time, whose words
 * are all on their way together, and how many times it does so, since the input is prepared once. */
typedef struct matvec_cut {
    uint32_t local, rows, blocks;
} matvec_cut;

/* The cost of a cut, in rows: what the busiest compute unit has to do. A workgroup costs its rows, as
 * much as about two rows to prepare the input, and a row per 64 lanes to wait for all of its own.
 * UINT64_MAX for one that leaves units waiting for memory: with less than 480 lanes at work, or with
 * one block after the other and nobody to take turns with. */
static uint64_t cut_cost(const rl_vk_matvec *m, uint32_t team, bool pair, uint64_t units,
                         const matvec_cut *cut)
{
    enum { BUSY = 480, PREPARE = 2 };
    uint32_t taken = cut->local / team * cut->rows * cut->blocks,
             outputs = pair ? taken / 2 : taken;
    uint64_t all = ((uint64_t)m->push.rows * m->n_ranks + m->beside) * m->n_tokens;
    if (all / outputs * cut->local < units * BUSY) return UINT64_MAX;
    uint64_t groups = (uint64_t)divide_up(m->push.rows, outputs) * m->n_ranks * m->n_tokens +
                      divide_up((uint64_t)m->beside * m->n_tokens, outputs);
    if (cut->blocks > 2 && groups < 3 * units) return UINT64_MAX;
    if (divide_up(m->push.rows, outputs) > MOST_GROUPS) return UINT64_MAX;
    return divide_up(groups, units) * (taken + PREPARE + cut->local / 64);
}

/* A token waits for the last compute unit of every dispatch, so work is cut into as many workgroups as
 * there are units, or a multiple. Of the cuts within a thirtieth of the best the one with the smallest
 * workgroups is taken, since one of them prepares its input while another computes. Two rows at a time
 * where there are enough: they share the reading of the input. False where the product is too small
 * for that, or the units are not known. Figures as measured on an H200 (docs/decisions/0013-gpu-kernels.md). */
static bool balance(const rl_vk_ops *ops, const rl_vk_matvec *m, uint32_t team, bool pair,
                    matvec_cut *out)
{
    enum { LEAST = 256, STEP = 64, MOST = 640 };
    uint64_t units = ops->device->info.compute_units, best = UINT64_MAX;
    uint32_t most = min_u32(MOST, ops->device->info.workgroup_size);
    if (!units || ops->software || m->team_rows) return false;
    if (team < 2 || m->push.cols / 32 > MATVEC_TILE) return false;
    for (matvec_cut cut = { .rows = min_u32(2, team) }; cut.rows && best == UINT64_MAX;
         cut.rows = pair ? 0 : cut.rows / 2)
        for (cut.local = LEAST; cut.local <= most; cut.local += STEP)
            for (cut.blocks = 1; cut.blocks <= MATVEC_BLOCKS; cut.blocks++) {
                bool whole =
                    cut.local % ops->subgroup == 0 && cut.local / ops->subgroup <= MOST_SUBGROUPS;
                uint64_t cost = whole ? cut_cost(m, team, pair, units, &cut) : UINT64_MAX;
                bool larger = best != UINT64_MAX && cut.local > out->local;
                if (cost == UINT64_MAX || cost + (larger ? best / 30 : 0) >= best) continue;
                best = cost;
                *out = cut;
            }
    return best != UINT64_MAX;
}

/* Where units are not known, or there is little to do: teams of fewer rows until every lane of the
 * device has work, and workgroups of fewer lanes, which spread few rows wider. */
static void spread(const rl_vk_ops *ops, const rl_vk_matvec *m, uint32_t team, bool pair,
                   matvec_cut *cut)
{
    uint64_t all = (uint64_t)m->push.rows * m->n_ranks * m->n_tokens * (pair ? 2 : 1);
    uint64_t lanes = (all + m->beside) * team;
    uint32_t rows = ops->software ? 8 : 2;
    while (rows > 1 && lanes / rows < ops->lanes && !(pair && rows == 2))
        rows /= 2;
    if (m->team_rows) rows = pair && m->team_rows < 2 ? 2 : m->team_rows;
    rows = min_u32(rows, pair ? 2 * team : team);
    uint32_t blocks = min_u32(divide_up(lanes, (uint64_t)ops->lanes * rows), MATVEC_BLOCKS);
    if (ops->software || m->push.cols / 32 > MATVEC_TILE) blocks = 1;
    uint32_t local = ops->workgroup, outputs = (pair ? rows / 2 : rows) * blocks;
    while (local > 64 && local > ops->subgroup &&
           divide_up(m->push.rows, (uint64_t)outputs * (local / team)) * m->n_ranks * m->n_tokens <
               ops->groups)
        local /= 2;
    *cut = (matvec_cut){ local, rows, blocks };
}

bool rl_vk_op_can_choose(const rl_vk_ops *ops, uint32_t type)
{
    return ops->device->info.hands_over && rl_vk_blob_find(RL_VK_ROUTER, type);
}

static void assert_choice(const rl_route_push *p) /* limits of choose.glsl */
{
    RL_ASSERT(p->k >= 1 && p->k <= 32 && p->k <= p->n_expert && p->n_expert <= 1024);
}

static rl_router_push router_push(const rl_vk_matvec *m, const rl_matvec_push *push)
{
    rl_router_push r = { .w = push->w,
                         .x = push->x,
                         .aux = push->aux,
                         .arrivals = m->arrivals,
                         .route = *m->choice,
                         .cols = push->cols,
                         .row_bytes = push->row_bytes,
                         .despite = push->despite,
                         .eps = push->eps };
    RL_ASSERT(m->input == RL_INPUT_NORM && m->matrix == RL_MATRIX_PLAIN && !m->add);
    assert_choice(m->choice);
    RL_ASSERT(m->n_ranks == 1 && m->n_tokens == 1 && m->arrivals && push->token == r.route.token);
    r.route.logits = push->y;
    r.route.n_expert = push->rows;
    return r;
}

rl_status rl_vk_op_matvec(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matvec *m, rl_error *err)
{
    RL_ASSERT(m->push.cols % 32 == 0 && m->push.rows && m->n_ranks && m->n_tokens);
    RL_ASSERT(m->input != RL_INPUT_HEADS || m->push.cols / m->push.head <= RL_VK_MAX_HEADS);
    bool pair = m->matrix == RL_MATRIX_PAIR || m->matrix == RL_MATRIX_ROUTED_PAIR;
    bool routed = m->matrix == RL_MATRIX_ROUTED || m->matrix == RL_MATRIX_ROUTED_PAIR;
    RL_ASSERT(!routed || m->input != RL_INPUT_NORM || m->push.rows % 32 == 0); /* rl_across */
    uint32_t chunks = m->push.cols / 32, team = team_lanes(ops, m->push.cols);
    matvec_cut cut;
    if (!balance(ops, m, team, pair, &cut)) spread(ops, m, team, pair, &cut);
    rl_matvec_push push = m->push;
    push.tables = ops->tables.address;
    push.row_bytes = row_bytes(m->type, push.cols);
    uint32_t outputs = (pair ? cut.rows / 2 : cut.rows) * cut.blocks;
    uint32_t groups = divide_up(push.rows, (uint64_t)outputs * (cut.local / team));
    RL_ASSERT(cut.local / ops->subgroup <= MOST_SUBGROUPS);
    if (groups > MOST_GROUPS)
        return rl_fail(err, RL_UNSUPPORTED, "a matrix of %u rows is too large for one dispatch",
                       push.rows);
    uint64_t weights = (uint64_t)push.rows * push.cols * m->n_ranks * (pair ? 2 : 1);
    bool bytes = !m->floats && ops->byte_weights && weights >= ops->byte_weights &&
                 rl_vk_blob_find(RL_VK_MATVEC_BYTES, m->type);
    if (m->choice) { /* the same product to the bit, so of the same shape */
        rl_router_push router = router_push(m, &push);
        RL_ASSERT(cut.local >= 64); /* choose.glsl */
        uint32_t all = groups + 1, how = links(cmd, all, 1, 1, &router.link);
        /* A software device's workgroups look once for what they take: here it has to be there. */
        if (how && ops->software) {
            rl_vk_matvec product = *m;
            product.choice = NULL;
            product.floats = true; /* as the router */
            rl_status status = rl_vk_op_matvec(ops, cmd, &product, err);
            if (status) return status;
            all = 1;
        }
        return RECORD_COUNTED(RL_VK_ROUTER, m->type, &router, all, 1, 1, cut.local, cut.rows, team,
                              m->input, m->matrix, m->add, chunks, min_u32(chunks, MATVEC_TILE), 1,
                              cut.blocks, how);
    }
    uint32_t how = links(cmd, groups, m->n_ranks, m->n_tokens, &push.link);
    return RECORD_LINKED(bytes ? RL_VK_MATVEC_BYTES : RL_VK_MATVEC,
                         bytes ? RL_VK_MATVEC_BYTES : RL_VK_MATVEC_LINKED, how, m->type, &push,
                         groups, m->n_ranks, m->n_tokens, cut.local, cut.rows, team, m->input,
                         m->matrix, m->add, chunks, min_u32(chunks, MATVEC_TILE),
                         m->input == RL_INPUT_HEADS ? m->parts : 1, cut.blocks);
}

rl_status rl_vk_op_matmul(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_vk_matmul *m, rl_error *err)
{
    RL_ASSERT(m->push.cols % 32 == 0 && m->input != RL_INPUT_NORM);
    rl_matmul_push push = m->push;
    push.tables = ops->tables.address;
    push.row_bytes = row_bytes(m->type, push.cols);
    bool routed = m->n_tiles > 0;
    /* Tiles of rows x tokens, and the part of one that an invocation keeps. */
    bool few = routed || push.n <= 2 * ops->tile_tokens;
    uint32_t bm = ops->software ? 64 : 128, bn = ops->software ? 32 : 64;
    uint32_t tm = few ? 4 : 8, tn = few ? 2 : 4;
    if (few) bn = ops->tile_tokens;
    uint32_t local = bm / tm * (bn / tn), y = routed ? m->n_tiles : divide_up(push.n, bn);
    return RECORD(RL_VK_MATMUL, m->type, &push, divide_up(push.rows, bm), y, 1, local, bm, bn, tm,
                  tn, m->input, routed, m->add, push.cols / 32);
}

/* The largest divisor of n that is <= limit. */
static uint32_t divisor_below(uint32_t n, uint32_t limit)
{
    uint32_t d = min_u32(n, limit);
    while (n % d)
        d--;
    return d;
}

uint32_t rl_vk_delta_cols(uint32_t delta_dim)
{
    return divisor_below(delta_dim, 16);
}

rl_status rl_vk_op_delta_step(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t delta_dim,
                              const rl_delta_push *push, rl_error *err)
{
    uint32_t cols = rl_vk_delta_cols(delta_dim), parts = divisor_below(delta_dim, 8);
    rl_delta_push p = *push;
    uint32_t how = links(cmd, delta_dim / cols, p.n_value_head, 1, &p.link);
    return RECORD_LINKED(RL_VK_DELTA_STEP, RL_VK_DELTA_STEP_LINKED, how, RL_VK_NO_TYPE, &p,
                         delta_dim / cols, p.n_value_head, 1, cols * parts, delta_dim, cols, parts,
                         p.taps);
}

rl_status rl_vk_op_attn_prep(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n,
                             const rl_vk_cache_types *types, const rl_attn_prep_push *push,
                             rl_error *err)
{
    return RECORD(RL_VK_ATTN_PREP, RL_VK_NO_TYPE, push, push->n_head + push->n_head_kv, n, 1, 128,
                  types->head_dim, types->key_f16, types->value_f16);
}

/* Heads that share a key head and a workgroup, and so what it reads: a power of two. */
static uint32_t attn_heads(uint32_t shared, uint32_t limit)
{
    uint32_t heads = 1;
    while (2 * heads <= limit && shared % (2 * heads) == 0)
        heads *= 2;
    return heads;
}

/* Lanes of a team of attn.comp, and how many can be one workgroup: their sums are in shared memory. */
static uint32_t attn_team(const rl_vk_ops *ops, uint32_t head_dim, uint32_t most, uint32_t *local)
{
    uint32_t team = 4;
    RL_ASSERT(head_dim % 16 == 0);
    while (2 * team <= ops->subgroup && head_dim % (8 * team) == 0)
        team *= 2;
    *local = min_u32(most, 16 * team);
    if (*local < ops->subgroup) *local = ops->subgroup;
    return team;
}

static uint32_t attn_few(const rl_vk_ops *ops, uint32_t n_head, uint32_t n_head_kv, uint32_t team)
{
    return attn_heads(n_head / n_head_kv, min_u32(ops->software ? 1 : 2, team));
}

static uint32_t attn_many(const rl_vk_ops *ops, uint32_t n_head, uint32_t n_head_kv, uint32_t team)
{
    return attn_heads(n_head / n_head_kv, min_u32(ops->software ? 2 : 8, team));
}

uint32_t rl_vk_op_attn_splits(const rl_vk_ops *ops, uint32_t head_dim, uint32_t n_head,
                              uint32_t n_head_kv)
{
    enum { SOFTWARE = 4, LEAST = 32, USUAL_UNITS = 128 };
    uint32_t local, team = attn_team(ops, head_dim, 256, &local);
    uint32_t groups = n_head / attn_many(ops, n_head, n_head_kv, team);
    uint32_t units =
        ops->device->info.compute_units ? ops->device->info.compute_units : USUAL_UNITS;
    uint32_t splits = units / groups > LEAST ? units / groups : LEAST;
    return ops->software ? SOFTWARE : min_u32(splits, RL_VK_MOST_SPLITS);
}

rl_status rl_vk_op_attn(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, bool fused,
                        const rl_vk_cache_types *types, const rl_attn_push *push, rl_error *err)
{
    /* Heads that share a workgroup share the keys that it reads, which counts where keys are many. Few
     * heads are less code, and more workgroups, which counts where they are few. One of two kernels
     * does nothing: which one is known when the token runs. */
    uint32_t local, team = attn_team(ops, types->head_dim, 128, &local);
    uint32_t few = attn_few(ops, push->n_head, push->n_head_kv, team),
             many = attn_many(ops, push->n_head, push->n_head_kv, team);
    uint32_t border = fused && few < many ? ops->shallow : 0;
    rl_attn_push p = *push;
    rl_status status = RL_OK;
    if (border) {
        p.until = border;
        /* with as many pieces as the border has tiles, or fewer */
        uint32_t pieces = min_u32(p.splits, divide_up(border, ATTN_TILE));
        uint32_t how = links(cmd, pieces, p.n_head / few, n, &p.link);
        status = RECORD_LINKED(RL_VK_ATTN, RL_VK_ATTN_LINKED, how, RL_VK_NO_TYPE, &p, pieces,
                               p.n_head / few, n, local, types->head_dim, types->key_f16,
                               types->value_f16, few, fused, team);
    }
    p.from = border;
    p.until = UINT32_MAX;
    if (status) return status;
    if (!ops->software) attn_team(ops, types->head_dim, 256, &local);
    uint32_t how = links(cmd, p.splits, p.n_head / many, n, &p.link);
    return RECORD_LINKED(RL_VK_ATTN, RL_VK_ATTN_LINKED, how, RL_VK_NO_TYPE, &p, p.splits,
                         p.n_head / many, n, local, types->head_dim, types->key_f16,
                         types->value_f16, many, fused, team);
}

rl_status rl_vk_op_attn_out(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, uint32_t head_dim,
                            const rl_attn_out_push *push, rl_error *err)
{
    rl_attn_out_push p = *push;
    uint32_t how = links(cmd, divide_up(head_dim, 64), p.n_head, n, &p.link);
    return RECORD_LINKED(RL_VK_ATTN_OUT, RL_VK_ATTN_OUT_LINKED, how, RL_VK_NO_TYPE, &p,
                         divide_up(head_dim, 64), p.n_head, n, 256, head_dim);
}

rl_status rl_vk_op_route(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, bool forced,
                         const rl_route_push *push, rl_error *err)
{
    assert_choice(push);
    return RECORD(RL_VK_ROUTE, RL_VK_NO_TYPE, push, n, 1, 1, 64, forced);
}

rl_status rl_vk_op_experts_down(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t type, uint32_t input,
                                const rl_experts_down_push *push, rl_error *err)
{
    RL_ASSERT(input == RL_INPUT_PLAIN || input == RL_INPUT_SWIGLU);
    RL_ASSERT(push->cols % 32 == 0 && push->k >= 1 && push->k <= 32);
    rl_experts_down_push p = *push;
    p.tables = ops->tables.address;
    p.row_bytes = row_bytes(type, p.cols);
    uint32_t team = team_lanes(ops, p.cols);
    uint32_t rows = ops->software ? 8 : 4;
    /* A team per rank, in whole subgroups, and an invocation per row, which writes it. */
    uint32_t lanes = p.k * team > rows ? p.k * team : rows;
    uint32_t local = divide_up(lanes, ops->subgroup) * ops->subgroup;
    local = min_u32(local, 256 / ops->subgroup * ops->subgroup);
    uint32_t groups = divide_up(p.rows, rows);
    uint32_t how = links(cmd, groups, 1, 1, &p.link);
    return RECORD_LINKED(RL_VK_EXPERTS_DOWN, RL_VK_EXPERTS_DOWN_LINKED, how, type, &p, groups, 1, 1,
                         local, rows, team, input, p.cols / 32);
}

rl_status rl_vk_op_moe_sum(rl_vk_ops *ops, rl_vk_cmd *cmd, uint32_t n, const rl_moe_sum_push *push,
                           rl_error *err)
{
    return RECORD(RL_VK_MOE_SUM, RL_VK_NO_TYPE, push, divide_up(push->rows, 64), n, 1, 64);
}

rl_status rl_vk_op_argmax(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_argmax_push *push,
                          uint64_t scratch, rl_error *err)
{
    rl_argmax_push first = *push, second = *push;
    first.best = scratch;
    first.per_group = divide_up(push->n, RL_VK_ARGMAX_GROUPS);
    uint32_t groups = divide_up(push->n, first.per_group);
    second.x = scratch;
    second.n = second.per_group = groups;
    rl_status status = RECORD(RL_VK_ARGMAX, RL_VK_NO_TYPE, &first, groups, 1, 1, 256, 0);
    if (status) return status;
    rl_vk_cmd_barrier(cmd);
    return RECORD(RL_VK_ARGMAX, RL_VK_NO_TYPE, &second, 1, 1, 1, 256, 1);
}

rl_status rl_vk_op_top(rl_vk_ops *ops, rl_vk_cmd *cmd, const rl_top_push *push, rl_error *err)
{
    enum { LANES = 256, BLOCK = 16, FEW = 1024 };
    RL_ASSERT(push->n && push->n <= RL_VK_TOP_MOST);
    rl_top_push p = *push;
    p.groups = min_u32(divide_up(p.n, FEW), RL_VK_TOP_GROUPS);
    uint32_t blocks = divide_up(divide_up(p.n, BLOCK), p.groups);
    uint32_t share = divide_up((uint64_t)blocks * BLOCK, LANES);
    rl_status status = RECORD(RL_VK_TOP_PIECES, RL_VK_NO_TYPE, &p, p.groups, 1, 1, LANES, share);
    if (status) return status;
    rl_vk_cmd_barrier(cmd);
    return RECORD(RL_VK_TOP_MERGE, RL_VK_NO_TYPE, &p, 1, 1, 1, LANES);
}
