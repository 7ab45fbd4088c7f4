/* vk_memory.h - GPU memory: arenas that hand out spans, and the way bytes get into them.
 *
 * An arena takes slabs from the driver (each one VkDeviceMemory with one VkBuffer over it, never
 * larger than the device allows for one allocation) and cuts spans from them. Spans are never given
 * back one by one: what is freed together lives in one arena. Kernels reach a span by its 64-bit
 * address, so a span of any size works on devices whose bindings are limited to 128 MiB.
 *
 * Threads: an arena has one owner; an uploader may be used by several threads. */
#ifndef RL_BACKEND_VULKAN_VK_MEMORY_H
#define RL_BACKEND_VULKAN_VK_MEMORY_H

#include "backend/vulkan/vk_device.h"

/* Kernels read whole 32-bit words and may touch up to this many bytes behind a span. */
#define RL_VK_PADDING 64

typedef enum rl_vk_place {
    RL_VK_PLACE_DEVICE,   /* the GPU's own memory; mapped too where the host can write it all  */
    RL_VK_PLACE_UPLOAD,   /* the host writes, the GPU reads: parameters                        */
    RL_VK_PLACE_READBACK, /* the GPU writes, the host reads: logits, choices                   */
    RL_VK_PLACE_STAGING   /* source of copies                                                  */
} rl_vk_place;

typedef struct rl_vk_span {
    uint64_t address; /* for shaders                        */
    uint64_t bytes;
    uint64_t offset; /* in buffer                          */
    VkBuffer buffer;
    uint8_t *host; /* mapped and coherent; NULL: not mapped */
} rl_vk_span;

typedef struct rl_vk_arena rl_vk_arena;

/* slab_bytes: how much to take from the driver at a time (cut to the device's limit; a span larger
 * than a slab gets one of its own). Takes nothing yet. `name` is for captures and error sentences. */
RL_MUST_CHECK rl_status rl_vk_arena_create(rl_vk_arena **out, rl_vk_device *device,
                                           rl_vk_place place, uint64_t slab_bytes, const char *name,
                                           rl_error *err);
void rl_vk_arena_destroy(rl_vk_arena *arena); /* nothing submitted may still use it; NULL is fine */

/* Cuts `bytes` (> 0) at a multiple of `align` (a power of two <= 4096). Contents are undefined.
 * RL_NOMEM names the device, the need and what is left. */
RL_MUST_CHECK rl_status rl_vk_arena_take(rl_vk_arena *arena, uint64_t bytes, uint64_t align,
                                         rl_vk_span *out, rl_error *err);

/* Bytes taken from the driver so far. */
uint64_t rl_vk_arena_bytes(const rl_vk_arena *arena);

/* ---- writing device memory ---------------------------------------------------------------------- */

typedef struct rl_vk_uploader rl_vk_uploader;

/* Staging memory the caller fills, before rl_vk_upload_commit sends it on its way. */
typedef struct rl_vk_piece {
    uint8_t *host;
    uint64_t bytes;
    uint32_t index;
} rl_vk_piece;

/* A ring of n_pieces (1..64) of piece_bytes each, used when a span is not mapped. Takes its memory
 * at the first use, so that devices with mapped memory spend nothing. */
RL_MUST_CHECK rl_status rl_vk_uploader_create(rl_vk_uploader **out, rl_vk_device *device,
                                              uint32_t n_pieces, uint64_t piece_bytes,
                                              rl_error *err);
/* Waits for its copies first. NULL is fine. */
void rl_vk_uploader_destroy(rl_vk_uploader *uploader);

/* Writes bytes into dst at `offset`: directly where dst is mapped, else through the ring. `source`
 * may be reused on return; the GPU sees the bytes in submissions that wait for
 * rl_vk_uploader_value(), or after rl_vk_uploader_finish(). */
RL_MUST_CHECK rl_status rl_vk_upload(rl_vk_uploader *uploader, const rl_vk_span *dst,
                                     uint64_t offset, const void *source, uint64_t bytes,
                                     rl_error *err);

/* The same in two steps for readers that fill the staging memory themselves; several pieces may be
 * held at a time, and any thread may reserve or commit. reserve waits for a free piece. */
RL_MUST_CHECK rl_status rl_vk_upload_reserve(rl_vk_uploader *uploader, rl_vk_piece *out,
                                             rl_error *err);
/* Submits the copies of n parts of the piece, then the piece returns to the ring by itself.
 * *value (may be NULL) is what rl_vk_uploader_semaphore() reaches when they are done. */
typedef struct rl_vk_part {
    const rl_vk_span *dst;
    uint64_t dst_offset, piece_offset, bytes;
} rl_vk_part;
RL_MUST_CHECK rl_status rl_vk_upload_commit(rl_vk_uploader *uploader, const rl_vk_piece *piece,
                                            const rl_vk_part *parts, uint32_t n, uint64_t *value,
                                            rl_error *err);

/* Timeline of the ring's copies, and the value that covers all copies submitted so far (0: none). */
VkSemaphore rl_vk_uploader_semaphore(const rl_vk_uploader *uploader);
uint64_t rl_vk_uploader_value(rl_vk_uploader *uploader);

/* Waits until all copies submitted so far are done. */
RL_MUST_CHECK rl_status rl_vk_uploader_finish(rl_vk_uploader *uploader, rl_error *err);

#endif
