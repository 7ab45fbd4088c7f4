/* vk_backend.c - opening a device as a backend: weights, the expert pool, activations, the table.
 *
 * Everything large is taken at open: weights and slots as the engine asks for them, activations at
 * attach, a session's memory when it is created. Batches allocate nothing. */
#include "backend/vulkan/vk_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "quant/quant.h"

enum {
    SLAB_BYTES = 256 << 20,       /* of weights */
    POOL_SLAB_BYTES = 1024 << 20, /* of slots   */
    STAGING_PIECES = 8,
    STAGING_BYTES = 4 << 20,
    SPIN_US = 20000,
    MAX_EXPERTS = 1024,
    MAX_HEAD = 256
};

void rl_vk_note(const rl_vk_backend *vk, const char *text)
{
    if (vk->params.note) vk->params.note(vk->params.note_ctx, text);
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static void vk_close(rl_backend *be);

static const rl_backend_ops ops_without_gates;

static rl_status create_gates(rl_vk_backend *vk, rl_error *err)
{
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    VkResult r = vk->device->api.CreateSemaphore(vk->device->handle, &info, NULL, &vk->gates);
    if (r != VK_SUCCESS) vk->gates = VK_NULL_HANDLE;
    return rl_vk_check(vk->device, r, "vkCreateSemaphore", err);
}

static rl_status vk_open(rl_backend **out, const rl_backend_params *params, rl_error *err)
{
    char cache_file[1024];
    *out = NULL;
    rl_vk_backend *vk = calloc(1, sizeof *vk);
    if (!vk) return rl_fail(err, RL_NOMEM, "no memory for the Vulkan backend");
    vk->base.ops = &rl_backend_vulkan;
    vk->params = *params;
    rl_vk_open_params open = { .device = params->device, .allow_software = true };
    rl_status status = rl_vk_device_open(&vk->device, &open, err);
    if (status) goto done;
    bool software = vk->device->info.kind == RL_VK_SOFTWARE;
    vk->spin_us = software ? 0 : SPIN_US;
    rl_vk_pipelines_default_file(vk->device, cache_file, sizeof cache_file);
    status = rl_vk_uploader_create(&vk->uploader, vk->device, STAGING_PIECES, STAGING_BYTES, err);
    if (!status) status = rl_vk_stream_create(&vk->stream, vk->device, &vk->device->compute, err);
    if (!status) status = rl_vk_ops_init(&vk->ops, vk->device, vk->uploader, cache_file, err);
    if (!status)
        status = rl_vk_arena_create(&vk->weight_arena, vk->device, RL_VK_PLACE_DEVICE,
                                    software ? SLAB_BYTES / 8 : SLAB_BYTES, "weights", err);
    if (!status) status = rl_vk_cmd_init(&vk->cmd, vk->stream, "stages", err);
    if (!status) status = rl_vk_cmd_init(&vk->copy, vk->stream, "copy to host", err);
    if (!status) status = create_gates(vk, err);
    if (status) goto done;
    if (software) rl_vk_note(vk, "the Vulkan device is a software one: expect little speed");
    *out = &vk->base;
    vk = NULL;
done:
    if (vk) vk_close(&vk->base);
    return status;
}

static void vk_close(rl_backend *be)
{
    if (!be) return;
    rl_vk_backend *vk = rl_vk_of(be);
    rl_vk_stream_destroy(vk->stream); /* waits */
    rl_vk_uploader_destroy(vk->uploader);
    rl_vk_cmd_fini(&vk->cmd);
    rl_vk_cmd_fini(&vk->copy);
    if (vk->gates) vk->device->api.DestroySemaphore(vk->device->handle, vk->gates, NULL);
    rl_vk_arena_destroy(vk->weight_arena);
    rl_vk_arena_destroy(vk->pool_arena);
    rl_vk_arena_destroy(vk->buffer_arena);
    rl_vk_arena_destroy(vk->upload_arena);
    rl_vk_arena_destroy(vk->readback_arena);
    rl_vk_ops_fini(&vk->ops);
    rl_vk_device_close(vk->device);
    for (uint32_t c = 0; vk->slots && c < vk->n_classes; c++)
        free(vk->slots[c]);
    free(vk->slots);
    free(vk->slot_counts);
    free(vk->weights);
    free(vk->handles);
    free(vk->batches);
    free(vk);
}

static const char *kind_name(rl_vk_kind kind)
{
    static const char *const names[] = { "discrete", "integrated", "virtual", "software" };
    return names[kind];
}

static void vk_get_caps(const rl_backend *be, rl_backend_caps *out)
{
    const rl_vk_backend *vk = rl_vk_of((rl_backend *)be);
    const rl_vk_device_info *info = &vk->device->info;
    memset(out, 0, sizeof *out);
    snprintf(out->description, sizeof out->description, "vulkan %.100s, %s, %u lanes", info->name,
             kind_name(info->kind), info->subgroup_size);
    out->device_memory = true;
    out->slots_host_writable = info->direct_writes;
    out->memory_bytes = rl_vk_device_budget(vk->device);
}

static void vk_get_counters(const rl_backend *be, rl_backend_counters *out)
{
    const rl_vk_backend *vk = rl_vk_of((rl_backend *)be);
    *out = vk->counters;
    out->submissions = vk->stream->counters.submissions;
    out->waits = vk->stream->counters.waits;
    out->recordings = vk->stream->counters.recordings;
}

static rl_status vk_list_devices(rl_device_info *out, size_t capacity, size_t *n_found,
                                 rl_error *err)
{
    rl_vk_device_info *list = NULL;
    uint32_t n = 0;
    *n_found = 0;
    rl_status status = rl_vk_device_list(&list, &n, NULL, err);
    if (status) return status;
    *n_found = n;
    for (uint32_t i = 0; i < n && i < capacity; i++) {
        const rl_vk_device_info *d = &list[i];
        memset(&out[i], 0, sizeof out[i]);
        snprintf(out[i].backend, sizeof out[i].backend, "vulkan");
        snprintf(out[i].name, sizeof out[i].name, "%.150s", d->name);
        snprintf(out[i].kind, sizeof out[i].kind, "%s", kind_name(d->kind));
        snprintf(out[i].driver, sizeof out[i].driver, "Vulkan %u.%u.%u, %.120s",
                 VK_API_VERSION_MAJOR(d->vulkan_version), VK_API_VERSION_MINOR(d->vulkan_version),
                 VK_API_VERSION_PATCH(d->vulkan_version), d->driver);
        char units[40] = "";
        if (d->compute_units) snprintf(units, sizeof units, "%u compute units, ", d->compute_units);
        snprintf(out[i].features, sizeof out[i].features,
                 "%ssubgroups of %u (%u to %u), %u KiB shared memory, allocations up to %.0f "
                 "MiB%s%s%s%s%s",
                 units, d->subgroup_size, d->subgroup_min, d->subgroup_max, d->shared_bytes / 1024,
                 (double)d->allocation_bytes / (1 << 20),
                 d->direct_writes ? ", direct writes" : ", staged writes",
                 d->second_queue ? ", copy queue" : "", d->float16 ? ", float16" : "",
                 d->fast_bytes ? ", byte products" : "",
                 d->matrix_units ? ", matrix units (not used)" : "");
        snprintf(out[i].reason, sizeof out[i].reason, "%s", d->why_not);
        out[i].memory_bytes = d->memory_bytes;
        out[i].free_bytes = d->budget_bytes;
        out[i].usable = d->usable;
    }
    free(list);
    return RL_OK;
}

static bool vk_supports(const rl_backend *be, uint32_t type, bool expert)
{
    (void)be;
    (void)expert;
    return rl_vk_type_is_known(type);
}

/* ---- weights and slots ----------------------------------------------------------------------------------- */

static rl_status vk_weight_alloc(rl_backend *be, rl_weight *weight, const char *name, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    const rl_quant_info *info = rl_quant_find(weight->type);
    uint64_t n;
    (void)name;
    if (!info || !rl_mul_u64(weight->rows, weight->cols, &n) ||
        !rl_quant_bytes(info, n, &weight->bytes))
        return rl_fail(err, RL_UNSUPPORTED, "tensor %s has a size that cannot be computed with",
                       name);
    if (vk->n_weights == vk->weights_room) {
        uint32_t room = vk->weights_room ? 2 * vk->weights_room : 256;
        rl_vk_span *spans = realloc(vk->weights, room * sizeof *spans);
        if (!spans) return rl_fail(err, RL_NOMEM, "no memory to manage tensor %s", name);
        vk->weights = spans;
        vk->weights_room = room;
    }
    rl_vk_span *span = &vk->weights[vk->n_weights];
    rl_status status = rl_vk_arena_take(vk->weight_arena, weight->bytes, 256, span, err);
    if (status) return status;
    vk->n_weights++;
    weight->host = NULL;
    weight->address = span->address;
    return RL_OK;
}

static rl_status vk_weight_write(rl_backend *be, const rl_weight *weight, uint64_t offset,
                                 const void *bytes, uint64_t n, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    for (uint32_t i = vk->n_weights; i > 0; i--) /* usually the newest */
        if (vk->weights[i - 1].address == weight->address)
            return rl_vk_upload(vk->uploader, &vk->weights[i - 1], offset, bytes, n, err);
    return rl_fail(err, RL_INVALID, "a weight of another backend");
}

static rl_status vk_pool_create(rl_backend *be, uint32_t n_classes, const uint64_t *bytes,
                                const uint32_t *count, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint64_t total = RL_VK_PADDING + 4096;
    RL_ASSERT(!vk->slots && vk->net);
    vk->slots = calloc(n_classes, sizeof *vk->slots);
    vk->slot_counts = calloc(n_classes, sizeof *vk->slot_counts);
    if (!vk->slots || !vk->slot_counts)
        return rl_fail(err, RL_NOMEM, "no memory to manage the expert pool");
    vk->n_classes = n_classes;
    for (uint32_t c = 0; c < n_classes; c++)
        total += rl_align_up(bytes[c], 256) * count[c];
    uint64_t slab = total < POOL_SLAB_BYTES ? total : POOL_SLAB_BYTES;
    rl_status status = rl_vk_arena_create(&vk->pool_arena, vk->device, RL_VK_PLACE_DEVICE, slab,
                                          "the expert pool", err);
    for (uint32_t c = 0; c < n_classes && !status; c++) {
        vk->slots[c] = calloc(count[c] ? count[c] : 1, sizeof **vk->slots);
        if (!vk->slots[c])
            return rl_fail(err, RL_NOMEM, "no memory to manage %u expert slots", count[c]);
        for (uint32_t i = 0; i < count[c] && !status; i++)
            status = rl_vk_arena_take(vk->pool_arena, bytes[c], 256, &vk->slots[c][i], err);
        vk->slot_counts[c] = count[c];
    }
    /* Copies that wait behind gated work on the same queue would never start. Only now is it known
     * whether there are any: not all memory that the host may write can also be mapped. */
    if (!status && !vk->device->info.direct_writes && !vk->device->info.second_queue)
        vk->base.ops = &ops_without_gates;
    return status;
}

static const rl_vk_span *slot(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    const rl_vk_backend *vk = rl_vk_of((rl_backend *)be);
    RL_ASSERT(slot_class < vk->n_classes && index < vk->slot_counts[slot_class]);
    return &vk->slots[slot_class][index];
}

static uint64_t vk_slot_address(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    return slot(be, slot_class, index)->address;
}

static void *vk_slot_host(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    return slot(be, slot_class, index)->host;
}

static rl_status vk_slot_write(rl_backend *be, uint32_t slot_class, uint32_t index, uint64_t offset,
                               const void *bytes, uint64_t n, rl_error *err)
{
    return rl_vk_upload(rl_vk_of(be)->uploader, slot(be, slot_class, index), offset, bytes, n, err);
}

static void vk_residency_set(rl_backend *be, uint32_t layer, uint32_t expert, uint64_t address)
{
    rl_vk_backend *vk = rl_vk_of(be);
    size_t at = 8 * ((size_t)layer * vk->net->shape.n_expert + expert);
    /* One aligned store: a kernel sees the old address or the new one. */
    *(volatile uint64_t *)(void *)(vk->residency.host + at) = address;
}

static uint64_t vk_residency_get(const rl_backend *be, uint32_t layer, uint32_t expert)
{
    const rl_vk_backend *vk = (const rl_vk_backend *)be;
    size_t at = 8 * ((size_t)layer * vk->net->shape.n_expert + expert);
    return *(const volatile uint64_t *)(const void *)(vk->residency.host + at);
}

/* ---- activations --------------------------------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

rl_vk_widths rl_vk_widths_of(const rl_shape *s)
{
    uint64_t values = (uint64_t)s->n_value_head * s->delta_dim;
    uint64_t heads = (uint64_t)s->n_head * s->head_dim, row = (uint64_t)s->n_head_kv * s->head_dim;
    uint64_t sums = s->delta_dim / rl_vk_delta_cols(s->delta_dim); /* of a head */
    return (rl_vk_widths){ .x = s->n_embd,
                           .u = larger(rl_shape_conv_channels(s), 2 * heads),
                           .z = values,
                           .ba = 2ull * s->n_value_head,
                           .k = row,
                           .v = row,
                           .y = larger(values, heads),
                           .sums = sums * s->n_value_head,
                           .part = s->n_head * (s->head_dim + 2ull),
                           .router = s->n_expert,
                           .shared = s->n_ff_shared };
}

/* Every activation buffer with its number of 32-bit words. */
static void list_buffers(const rl_shape *s, uint64_t n, uint32_t splits, rl_vk_buffers *buf,
                         void (*each)(void *ctx, rl_vk_span *span, uint64_t words), void *ctx)
{
    const rl_vk_widths w = rl_vk_widths_of(s);
    const uint64_t k = s->n_expert_used;
    each(ctx, &buf->x, n * w.x);
    each(ctx, &buf->h, larger(n, RL_HEAD_ROWS) * s->n_embd);
    each(ctx, &buf->u, n * w.u);
    each(ctx, &buf->z, n * w.z);
    each(ctx, &buf->ba, n * w.ba);
    each(ctx, &buf->k, n * w.k);
    each(ctx, &buf->v, n * w.v);
    each(ctx, &buf->y, n * w.y);
    each(ctx, &buf->sums, n * w.sums);
    each(ctx, &buf->parts, larger(n, splits) * w.part);
    each(ctx, &buf->router, n * w.router);
    each(ctx, &buf->scale, n);
    each(ctx, &buf->shared_gate, n * w.shared);
    each(ctx, &buf->shared_up, n * w.shared);
    each(ctx, &buf->shared_out, n * s->n_embd);
    each(ctx, &buf->expert_gate, n * k * s->n_ff_expert);
    each(ctx, &buf->expert_up, n * k * s->n_ff_expert);
    each(ctx, &buf->expert_out, n * k * s->n_embd);
    each(ctx, &buf->ids, n * k);
    each(ctx, &buf->weights, n * k);
    each(ctx, &buf->logits, (uint64_t)RL_HEAD_ROWS * s->n_vocab);
    each(ctx, &buf->argmax, 2 * RL_VK_ARGMAX_GROUPS);
    each(ctx, &buf->top, RL_VK_TOP_LIST_WORDS);
    each(ctx, &buf->ahead_router, s->n_expert);
    each(ctx, &buf->ahead_ids, k);
    each(ctx, &buf->ahead_weights, k);
    each(ctx, &buf->choices, s->n_layer * k);
}

static void count_words(void *ctx, rl_vk_span *span, uint64_t words)
{
    (void)span;
    *(uint64_t *)ctx += rl_align_up(4 * words, 256);
}

static uint64_t vk_batch_bytes(const rl_shape *shape, uint32_t max_batch)
{
    rl_vk_buffers none;
    uint64_t bytes = 0;
    list_buffers(shape, max_batch, RL_VK_MOST_SPLITS, &none, count_words, &bytes);
    return bytes;
}

typedef struct taker {
    rl_vk_arena *arena;
    rl_status status;
    rl_error *err;
} taker;

static void take_words(void *ctx, rl_vk_span *span, uint64_t words)
{
    taker *t = ctx;
    if (!t->status) t->status = rl_vk_arena_take(t->arena, larger(4 * words, 4), 256, span, t->err);
}

static rl_status take_buffers(rl_vk_backend *vk, rl_error *err)
{
    const rl_shape *s = &vk->net->shape;
    uint64_t n = vk->max_batch, k = s->n_expert_used, layers = s->n_layer;
    uint64_t bytes = vk_batch_bytes(s, vk->max_batch) + 65536;
    uint64_t logits = 4ull * RL_HEAD_ROWS * s->n_vocab;
    uint64_t lists = n * k * (4 + sizeof(rl_vk_tile)) + 4 * n * k + 65536;
    uint64_t upload = lists + 8 * layers * s->n_expert + n * 4 * (1 + s->n_rot) + 65536;
    rl_status status = rl_vk_arena_create(&vk->buffer_arena, vk->device, RL_VK_PLACE_DEVICE, bytes,
                                          "activations", err);
    if (status) return status;
    vk->decode_splits = rl_vk_op_attn_splits(&vk->ops, s->head_dim, s->n_head, s->n_head_kv);
    taker t = { vk->buffer_arena, RL_OK, err };
    list_buffers(s, n, vk->decode_splits, &vk->buf, take_words, &t);
    status = t.status;
    if (!status)
        status = rl_vk_arena_create(&vk->upload_arena, vk->device, RL_VK_PLACE_UPLOAD, upload,
                                    "parameters", err);
    if (!status)
        status =
            rl_vk_arena_take(vk->upload_arena, 8 * layers * s->n_expert, 256, &vk->residency, err);
    if (!status) status = rl_vk_arena_take(vk->upload_arena, lists, 256, &vk->lists, err);
    if (!status)
        status = rl_vk_block_init(&vk->block, vk->upload_arena, vk->max_batch, s->n_rot, err);
    if (!status)
        status = rl_vk_arena_create(&vk->readback_arena, vk->device, RL_VK_PLACE_READBACK,
                                    logits + 4 * (n + 2 * layers) * k + 65536, "results", err);
    if (!status) status = rl_vk_arena_take(vk->readback_arena, 4 * n * k, 256, &vk->out.ids, err);
    if (!status)
        status = rl_vk_arena_take(vk->readback_arena, 4 * layers * k, 256, &vk->out.choices, err);
    if (!status)
        status = rl_vk_arena_take(vk->readback_arena, 4 * layers * k, 256, &vk->out.ahead, err);
    if (!status) status = rl_vk_arena_take(vk->readback_arena, 8, 256, &vk->out.best, err);
    if (!status)
        status = rl_vk_arena_take(vk->readback_arena, 4 * RL_VK_TOP_RESULT_WORDS, 256, &vk->out.top,
                                  err);
    if (!status) status = rl_vk_arena_take(vk->readback_arena, logits, 256, &vk->out.logits, err);
    if (status) return status;
    memset(vk->residency.host, 0, vk->residency.bytes);
    memset(vk->out.choices.host, 0, vk->out.choices.bytes);
    memset(vk->out.ahead.host, 0, vk->out.ahead.bytes);
    memset(vk->out.top.host, 0, vk->out.top.bytes);
    return RL_OK;
}

static void vk_time_stages(rl_backend *be, rl_stage_times *times)
{
    rl_vk_backend *vk = rl_vk_of(be);
    if (vk->device->info.timestamp_ns > 0) vk->stage_times = times;
}

/* Shapes that the kernels cannot do are refused here, by name. */
static rl_status check_shape(const rl_shape *s, rl_error *err)
{
    const struct {
        const char *name;
        uint64_t value, multiple, limit;
    } rules[] = {
        { "embedding length", s->n_embd, 32, 1u << 20 },
        { "expert width", s->n_ff_expert, 32, 1u << 20 },
        { "shared expert width", s->n_ff_shared, 32, 1u << 20 },
        { "delta net width", (uint64_t)s->n_value_head * s->delta_dim, 32, 1u << 20 },
        { "attention width", (uint64_t)s->n_head * s->head_dim, 32, 1u << 20 },
        { "delta net head size", s->delta_dim, 8, MAX_HEAD },
        { "attention head size", s->head_dim, 16, MAX_HEAD },
        { "rotated values", s->n_rot, 2, MAX_HEAD },
        { "number of experts", s->n_expert, 1, MAX_EXPERTS },
        { "convolution taps", s->conv_taps, 1, 16 },
        { "number of delta net heads", s->n_value_head, 1, RL_VK_MAX_HEADS },
    };
    for (size_t i = 0; i < RL_COUNT_OF(rules); i++)
        if (rules[i].value % rules[i].multiple || rules[i].value > rules[i].limit)
            return rl_fail(err, RL_UNSUPPORTED,
                           "the Vulkan backend cannot compute a model whose %s is %llu (multiples "
                           "of %llu up to %llu)",
                           rules[i].name, (unsigned long long)rules[i].value,
                           (unsigned long long)rules[i].multiple,
                           (unsigned long long)rules[i].limit);
    return RL_OK;
}

static rl_status vk_attach(rl_backend *be, const rl_net *net, uint32_t max_batch, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    RL_ASSERT(!vk->net && max_batch >= 1 && net->shape.n_expert_used <= RL_MAX_EXPERTS_USED);
    rl_status status = check_shape(&net->shape, err);
    if (status) return status;
    vk->net = net;
    vk->max_batch = max_batch;
    vk->handles = calloc(net->shape.n_layer + 2, sizeof *vk->handles);
    vk->batches = calloc(net->shape.n_layer + 2, sizeof *vk->batches);
    if (!vk->handles || !vk->batches)
        return rl_fail(err, RL_NOMEM, "no memory for a token's command buffers");
    return take_buffers(vk, err);
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

#define OPS(routed_ops)                                                                            \
    {                                                                                              \
        .name = "vulkan", .open = vk_open, .close = vk_close, .get_caps = vk_get_caps,             \
        .get_counters = vk_get_counters, .list_devices = vk_list_devices, .supports = vk_supports, \
        .weight_alloc = vk_weight_alloc, .weight_write = vk_weight_write,                          \
        .pool_create = vk_pool_create, .slot_address = vk_slot_address, .slot_host = vk_slot_host, \
        .slot_write = vk_slot_write, .residency_set = vk_residency_set,                            \
        .residency_get = vk_residency_get, .attach = vk_attach, .batch_bytes = vk_batch_bytes,     \
        .state_create = rl_vk_state_create, .state_destroy = rl_vk_state_destroy,                  \
        .state_reset = rl_vk_state_reset, .state_commit = rl_vk_state_commit,                      \
        .state_read = rl_vk_state_read, .state_write = rl_vk_state_write, .begin = rl_vk_begin,    \
        .embed = rl_vk_embed, .delta_in = rl_vk_delta_in, .delta_step = rl_vk_delta_step,          \
        .attn_in = rl_vk_attn_in, .attn_step = rl_vk_attn_step, .mix_out = rl_vk_mix_out,          \
        .moe_in = rl_vk_moe_in, .route = rl_vk_route, .route_ahead = rl_vk_route_ahead,            \
        .moe_shared = rl_vk_moe_shared, .moe_experts = rl_vk_moe_experts, .drain = rl_vk_drain,    \
        .moe_out = rl_vk_moe_out, .head = rl_vk_head, .end = rl_vk_end,                            \
        .read_tap = rl_vk_read_tap, .time_stages = vk_time_stages, .routed = routed_ops,           \
    }

const rl_backend_ops rl_backend_vulkan = OPS(&rl_vk_routed_ops);
static const rl_backend_ops ops_without_gates = OPS(&rl_vk_routed_ops_plain);
