/* vk_memory.c - backend/vulkan/vk_memory.h.
 *
 * Invariants
 *   - an arena's slabs are only ever appended; spans point into them until the arena goes
 *   - every slab keeps RL_VK_PADDING bytes free behind the last span
 *   - a piece of the ring is free, held by a caller, or in flight until its timeline value */
#include "backend/vulkan/vk_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_cmd.h"
#include "base/assert.h"
#include "base/bytes.h"

#define MIB(bytes) ((double)(bytes) / 1048576.0)

/* ---- slabs and arenas ---------------------------------------------------------------------------- */

typedef struct slab {
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t bytes, used;
    uint64_t address;
    uint8_t *host;
} slab;

struct rl_vk_arena {
    rl_vk_device *device;
    rl_vk_place place;
    uint64_t slab_bytes;
    slab *slabs;
    uint32_t n_slabs, n_room;
    char name[48];
};

rl_status rl_vk_arena_create(rl_vk_arena **out, rl_vk_device *device, rl_vk_place place,
                             uint64_t slab_bytes, const char *name, rl_error *err)
{
    RL_ASSERT(out && device && slab_bytes);
    *out = NULL;
    rl_vk_arena *arena = calloc(1, sizeof *arena);
    if (!arena) return rl_fail(err, RL_NOMEM, "no memory to manage %s on the device", name);
    arena->device = device;
    arena->place = place;
    arena->slab_bytes = slab_bytes;
    if (arena->slab_bytes > device->info.allocation_bytes)
        arena->slab_bytes = device->info.allocation_bytes;
    snprintf(arena->name, sizeof arena->name, "%s", name);
    *out = arena;
    return RL_OK;
}

static void slab_free(rl_vk_device *device, slab *s)
{
    if (s->buffer) device->api.DestroyBuffer(device->handle, s->buffer, NULL);
    if (s->memory) device->api.FreeMemory(device->handle, s->memory, NULL); /* unmaps */
    memset(s, 0, sizeof *s);
}

void rl_vk_arena_destroy(rl_vk_arena *arena)
{
    if (!arena) return;
    for (uint32_t i = 0; i < arena->n_slabs; i++) {
        if (arena->place == RL_VK_PLACE_DEVICE)
            atomic_fetch_sub(&arena->device->allocated, arena->slabs[i].bytes);
        slab_free(arena->device, &arena->slabs[i]);
    }
    free(arena->slabs);
    free(arena);
}

uint64_t rl_vk_arena_bytes(const rl_vk_arena *arena)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < arena->n_slabs; i++)
        sum += arena->slabs[i].bytes;
    return sum;
}

static bool place_is_mapped(const rl_vk_device *device, rl_vk_place place)
{
    return place != RL_VK_PLACE_DEVICE || device->types.device_is_mapped;
}

static uint32_t place_type(const rl_vk_device *device, rl_vk_place place)
{
    switch (place) {
    case RL_VK_PLACE_DEVICE: return device->types.device;
    case RL_VK_PLACE_UPLOAD: return device->types.upload;
    case RL_VK_PLACE_READBACK: return device->types.readback;
    case RL_VK_PLACE_STAGING: break;
    }
    return device->types.staging;
}

/* A memory type that this buffer may live in: the planned one, or else any with the same use. */
static uint32_t allowed_type(const rl_vk_device *device, uint32_t planned, uint32_t allowed)
{
    if (allowed & (1u << planned)) return planned;
    if (allowed & (1u << device->types.staging)) return device->types.staging;
    return planned;
}

static rl_status slab_allocate(rl_vk_arena *arena, slab *s, uint64_t bytes, rl_error *err)
{
    rl_vk_device *device = arena->device;
    const rl_vk_api *api = &device->api;
    uint32_t families[2] = { device->compute.family, device->transfer.family };
    bool shared = families[0] != families[1];
    VkBufferCreateInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
        .sharingMode = shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = shared ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    VkResult r = api->CreateBuffer(device->handle, &buffer, NULL, &s->buffer);
    if (r != VK_SUCCESS) {
        s->buffer = VK_NULL_HANDLE;
        return rl_vk_check(device, r, "vkCreateBuffer", err);
    }
    VkMemoryRequirements need;
    api->GetBufferMemoryRequirements(device->handle, s->buffer, &need);
    VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    VkMemoryAllocateInfo memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = need.size,
        .memoryTypeIndex =
            allowed_type(device, place_type(device, arena->place), need.memoryTypeBits),
    };
    r = api->AllocateMemory(device->handle, &memory, NULL, &s->memory);
    if (r != VK_SUCCESS) {
        s->memory = VK_NULL_HANDLE;
        return rl_vk_check(device, r, "vkAllocateMemory", err);
    }
    r = api->BindBufferMemory(device->handle, s->buffer, s->memory, 0);
    if (r != VK_SUCCESS) return rl_vk_check(device, r, "vkBindBufferMemory", err);
    if (place_is_mapped(device, arena->place)) {
        void *host = NULL;
        r = api->MapMemory(device->handle, s->memory, 0, VK_WHOLE_SIZE, 0, &host);
        if (r != VK_SUCCESS) {
            /* A mapping window smaller than the memory: go on through the staging ring. */
            if (arena->place != RL_VK_PLACE_DEVICE || r == VK_ERROR_DEVICE_LOST)
                return rl_vk_check(device, r, "vkMapMemory", err);
            device->types.device_is_mapped = false;
            device->info.direct_writes = false;
            host = NULL;
        }
        s->host = host;
    }
    VkBufferDeviceAddressInfo where = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
        .buffer = s->buffer,
    };
    s->address = api->GetBufferDeviceAddress(device->handle, &where);
    if (!s->address)
        return rl_fail(err, RL_DEVICE, "device %s gave no address for %s", device->info.name,
                       arena->name);
    s->bytes = bytes;
    s->used = 0;
    if (arena->place == RL_VK_PLACE_DEVICE) atomic_fetch_add(&device->allocated, bytes);
    rl_vk_name(device, VK_OBJECT_TYPE_BUFFER, (uint64_t)s->buffer, "%s %u", arena->name,
               arena->n_slabs);
    return RL_OK;
}

static rl_status arena_grow(rl_vk_arena *arena, uint64_t bytes, rl_error *err)
{
    rl_vk_device *device = arena->device;
    if (arena->n_slabs == arena->n_room) {
        uint32_t room = arena->n_room ? 2 * arena->n_room : 8;
        slab *slabs = realloc(arena->slabs, room * sizeof *slabs);
        if (!slabs) return rl_fail(err, RL_NOMEM, "no memory to manage %s", arena->name);
        arena->slabs = slabs;
        arena->n_room = room;
    }
    if (bytes > device->info.allocation_bytes)
        return rl_fail(err, RL_NOMEM,
                       "device %s: %s needs %.1f MiB in one piece, and the device allows %.1f MiB",
                       device->info.name, arena->name, MIB(bytes),
                       MIB(device->info.allocation_bytes));
    uint64_t left = rl_vk_device_budget(device);
    if (arena->place == RL_VK_PLACE_DEVICE && bytes > left)
        return rl_fail(err, RL_NOMEM,
                       "device %s: %.1f MiB more are needed for %s, %.1f MiB are left",
                       device->info.name, MIB(bytes), arena->name, MIB(left));
    slab *s = &arena->slabs[arena->n_slabs];
    memset(s, 0, sizeof *s);
    rl_status status = slab_allocate(arena, s, bytes, err);
    if (status) {
        slab_free(device, s);
        if (status == RL_NOMEM)
            return rl_fail(err, RL_NOMEM, "device %s: no %.1f MiB for %s (%.1f MiB taken before)",
                           device->info.name, MIB(bytes), arena->name,
                           MIB(rl_vk_arena_bytes(arena)));
        return status;
    }
    arena->n_slabs++;
    return RL_OK;
}

static bool slab_cut(slab *s, uint64_t bytes, uint64_t align, rl_vk_span *out)
{
    uint64_t start = rl_align_up(s->used, align);
    if (start + bytes + RL_VK_PADDING > s->bytes) return false;
    s->used = start + bytes;
    *out = (rl_vk_span){
        .address = s->address + start,
        .bytes = bytes,
        .offset = start,
        .buffer = s->buffer,
        .host = s->host ? s->host + start : NULL,
    };
    return true;
}

rl_status rl_vk_arena_take(rl_vk_arena *arena, uint64_t bytes, uint64_t align, rl_vk_span *out,
                           rl_error *err)
{
    RL_ASSERT(bytes && align && align <= 4096 && !(align & (align - 1)));
    /* The newest slab has the most room; the one before may still have some. */
    for (uint32_t i = arena->n_slabs; i > 0 && i + 2 > arena->n_slabs; i--)
        if (slab_cut(&arena->slabs[i - 1], bytes, align, out)) return RL_OK;
    uint64_t need = rl_align_up(bytes + RL_VK_PADDING, 256);
    uint64_t slab_bytes = need > arena->slab_bytes ? need : arena->slab_bytes;
    rl_status status = arena_grow(arena, slab_bytes, err);
    /* Not a whole slab any more? What is asked for may still fit. */
    if (status == RL_NOMEM && need < slab_bytes) status = arena_grow(arena, need, err);
    if (status) return status;
    bool cut = slab_cut(&arena->slabs[arena->n_slabs - 1], bytes, align, out);
    RL_ASSERT(cut);
    return RL_OK;
}

/* ---- the uploader -------------------------------------------------------------------------------- */

enum { PIECE_FREE, PIECE_HELD, PIECE_IN_FLIGHT };

typedef struct ring_piece {
    rl_vk_span span;
    rl_vk_cmd cmd;
    uint64_t value; /* in flight until the stream's clock reaches it */
    int state;
} ring_piece;

struct rl_vk_uploader {
    rl_vk_device *device;
    rl_vk_stream *stream;
    rl_vk_arena *arena;
    ring_piece *pieces;
    uint32_t n_pieces, next;
    uint64_t piece_bytes;
    bool ready;
    pthread_mutex_t lock; /* everything above */
    pthread_cond_t freed;
};

rl_status rl_vk_uploader_create(rl_vk_uploader **out, rl_vk_device *device, uint32_t n_pieces,
                                uint64_t piece_bytes, rl_error *err)
{
    RL_ASSERT(out && n_pieces >= 1 && n_pieces <= 64 && piece_bytes);
    *out = NULL;
    rl_vk_uploader *up = calloc(1, sizeof *up);
    ring_piece *pieces = calloc(n_pieces, sizeof *pieces);
    if (!up || !pieces) {
        free(up);
        free(pieces);
        return rl_fail(err, RL_NOMEM, "no memory for the staging ring");
    }
    up->device = device;
    up->pieces = pieces;
    up->n_pieces = n_pieces;
    up->piece_bytes = rl_align_up(piece_bytes, 4096);
    pthread_mutex_init(&up->lock, NULL);
    pthread_cond_init(&up->freed, NULL);
    rl_status status = rl_vk_stream_create(&up->stream, device, &device->transfer, err);
    if (status) {
        rl_vk_uploader_destroy(up);
        return status;
    }
    *out = up;
    return RL_OK;
}

void rl_vk_uploader_destroy(rl_vk_uploader *up)
{
    if (!up) return;
    rl_vk_stream_destroy(up->stream); /* waits */
    for (uint32_t i = 0; i < up->n_pieces; i++)
        rl_vk_cmd_fini(&up->pieces[i].cmd);
    rl_vk_arena_destroy(up->arena);
    pthread_cond_destroy(&up->freed);
    pthread_mutex_destroy(&up->lock);
    free(up->pieces);
    free(up);
}

/* Takes the ring's memory; under the lock. */
static rl_status ring_prepare(rl_vk_uploader *up, rl_error *err)
{
    if (up->ready) return RL_OK;
    rl_status status = RL_OK;
    if (!up->arena)
        status = rl_vk_arena_create(&up->arena, up->device, RL_VK_PLACE_STAGING,
                                    up->n_pieces * up->piece_bytes + 4096, "staging ring", err);
    for (uint32_t i = 0; i < up->n_pieces && !status; i++) {
        ring_piece *p = &up->pieces[i];
        if (!p->span.bytes)
            status = rl_vk_arena_take(up->arena, up->piece_bytes, 4096, &p->span, err);
        if (!status && !p->cmd.handle)
            status = rl_vk_cmd_init(&p->cmd, up->stream, "staging copy", err);
    }
    up->ready = !status;
    return status;
}

/* Under the lock: a piece that can be held now, or NULL; *oldest is the value to wait for. */
static ring_piece *ring_find(rl_vk_uploader *up, uint64_t *oldest, rl_status *status, rl_error *err)
{
    *oldest = UINT64_MAX;
    for (uint32_t i = 0; i < up->n_pieces; i++) {
        ring_piece *p = &up->pieces[(up->next + i) % up->n_pieces];
        if (p->state == PIECE_IN_FLIGHT) {
            bool done;
            *status = rl_vk_stream_poll(up->stream, p->value, &done, err);
            if (*status) return NULL;
            if (done)
                p->state = PIECE_FREE;
            else if (p->value < *oldest)
                *oldest = p->value;
        }
        if (p->state == PIECE_FREE) {
            up->next = (uint32_t)(p - up->pieces + 1) % up->n_pieces;
            return p;
        }
    }
    return NULL;
}

rl_status rl_vk_upload_reserve(rl_vk_uploader *up, rl_vk_piece *out, rl_error *err)
{
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&up->lock);
    rl_status status = ring_prepare(up, err);
    while (!status) {
        uint64_t oldest;
        ring_piece *p = ring_find(up, &oldest, &status, err);
        if (status) break;
        if (p) {
            p->state = PIECE_HELD;
            *out = (rl_vk_piece){ .host = p->span.host,
                                  .bytes = p->span.bytes,
                                  .index = (uint32_t)(p - up->pieces) };
            break;
        }
        if (oldest == UINT64_MAX) { /* all are held by other threads */
            pthread_cond_wait(&up->freed, &up->lock);
            continue;
        }
        pthread_mutex_unlock(&up->lock);
        status = rl_vk_stream_wait(up->stream, oldest, 20, err);
        pthread_mutex_lock(&up->lock);
    }
    pthread_mutex_unlock(&up->lock);
    return status;
}

rl_status rl_vk_upload_commit(rl_vk_uploader *up, const rl_vk_piece *piece, const rl_vk_part *parts,
                              uint32_t n, uint64_t *value, rl_error *err)
{
    ring_piece *p = &up->pieces[piece->index];
    RL_ASSERT(p->state == PIECE_HELD && n);
    uint64_t at = 0;
    rl_status status = rl_vk_cmd_begin(&p->cmd, true, err);
    if (!status) {
        /* Another piece may have gone to the same place: a guess that was given up, its slot reused. */
        rl_vk_cmd_barrier_copy_to_copy(&p->cmd);
        for (uint32_t i = 0; i < n; i++)
            rl_vk_cmd_copy(&p->cmd, &p->span, parts[i].piece_offset, parts[i].dst,
                           parts[i].dst_offset, parts[i].bytes);
        status = rl_vk_cmd_end(&p->cmd, err);
    }
    if (!status) status = rl_vk_stream_submit(up->stream, &p->cmd.handle, 1, NULL, 0, &at, err);
    pthread_mutex_lock(&up->lock);
    p->value = at;
    p->state = status ? PIECE_FREE : PIECE_IN_FLIGHT;
    pthread_cond_signal(&up->freed);
    pthread_mutex_unlock(&up->lock);
    if (value) *value = at;
    return status;
}

rl_status rl_vk_upload(rl_vk_uploader *up, const rl_vk_span *dst, uint64_t offset,
                       const void *source, uint64_t bytes, rl_error *err)
{
    RL_ASSERT(offset <= dst->bytes && bytes <= dst->bytes - offset);
    const uint8_t *from = source;
    if (dst->host) {
        memcpy(dst->host + offset, from, bytes);
        return RL_OK;
    }
    while (bytes) {
        rl_vk_piece piece;
        rl_status status = rl_vk_upload_reserve(up, &piece, err);
        if (status) return status;
        uint64_t n = bytes < piece.bytes ? bytes : piece.bytes;
        memcpy(piece.host, from, n);
        status = rl_vk_upload_commit(up, &piece,
                                     &(rl_vk_part){ .dst = dst, .dst_offset = offset, .bytes = n },
                                     1, NULL, err);
        if (status) return status;
        from += n;
        offset += n;
        bytes -= n;
    }
    return RL_OK;
}

VkSemaphore rl_vk_uploader_semaphore(const rl_vk_uploader *up)
{
    return up->stream->timeline;
}

uint64_t rl_vk_uploader_value(rl_vk_uploader *up)
{
    return rl_vk_stream_submitted(up->stream);
}

rl_status rl_vk_uploader_finish(rl_vk_uploader *up, rl_error *err)
{
    uint64_t value = rl_vk_stream_submitted(up->stream);
    return value ? rl_vk_stream_wait(up->stream, value, 20, err) : RL_OK;
}
