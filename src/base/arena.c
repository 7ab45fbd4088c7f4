/* arena.c - chunks in a list, the newest one is cut from.
 *
 * A request that is large against the chunk size gets a chunk of its own, so that the rest of the
 * current chunk is not lost. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rl_arena_chunk {
    rl_arena_chunk *older;
    max_align_t first[];
};

enum { SMALLEST_CHUNK = 8 << 10, LARGEST_CHUNK = 1 << 20 };

void rl_arena_init(rl_arena *arena, size_t limit_bytes)
{
    *arena = (rl_arena){ .limit_bytes = limit_bytes };
}

void rl_arena_fini(rl_arena *arena)
{
    for (rl_arena_chunk *chunk = arena->newest; chunk;) {
        rl_arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    rl_arena_init(arena, arena->limit_bytes);
}

/* A chunk with at least `bytes` of room, linked into the list; its room, or NULL. */
static char *take_chunk(rl_arena *arena, size_t bytes)
{
    size_t all = bytes + sizeof(rl_arena_chunk);
    arena->over_limit = arena->limit_bytes &&
                        (all > arena->limit_bytes || arena->taken_bytes > arena->limit_bytes - all);
    if (arena->over_limit) return NULL;
    rl_arena_chunk *chunk = malloc(all);
    if (!chunk) return NULL;
    arena->taken_bytes += all;
    chunk->older = arena->newest;
    arena->newest = chunk;
    return (char *)chunk->first;
}

static void *cut(rl_arena *arena, size_t bytes, size_t align)
{
    size_t skip = -(uintptr_t)arena->free_at & (align - 1);
    if (arena->free_at && skip <= arena->free_bytes && bytes <= arena->free_bytes - skip) {
        char *at = arena->free_at + skip;
        arena->free_at += skip + bytes;
        arena->free_bytes -= skip + bytes;
        return at;
    }
    if (bytes > SIZE_MAX / 2) {
        arena->over_limit = true;
        return NULL;
    }
    size_t room = arena->taken_bytes; /* doubling */
    if (room < SMALLEST_CHUNK) room = SMALLEST_CHUNK;
    if (room > LARGEST_CHUNK) room = LARGEST_CHUNK;
    size_t left = SIZE_MAX;
    if (arena->limit_bytes) left = arena->limit_bytes - arena->taken_bytes;
    if (left > sizeof(rl_arena_chunk) && room > left - sizeof(rl_arena_chunk))
        room = left - sizeof(rl_arena_chunk); /* the last chunk may be smaller */
    if (bytes > room / 4) return take_chunk(arena, bytes);
    char *at = take_chunk(arena, room);
    if (!at) return NULL;
    arena->free_at = at + bytes;
    arena->free_bytes = room - bytes;
    return at;
}

void *rl_arena_alloc(rl_arena *arena, size_t bytes)
{
    return cut(arena, bytes, _Alignof(max_align_t));
}

char *rl_arena_copy_text(rl_arena *arena, const char *text, size_t bytes)
{
    char *copy = cut(arena, bytes + 1, 1);
    if (!copy) return NULL;
    if (bytes) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}
