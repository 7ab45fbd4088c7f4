/* arena.h - many small objects with one lifetime, freed together.
 *
 * Memory is taken from malloc in chunks that grow; nothing is freed or moved before fini, so
 * pointers into an arena stay valid until then. A limit bounds what hostile input can take.
 * Threads: one owner at a time. */
#ifndef RL_BASE_ARENA_H
#define RL_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rl_arena_chunk rl_arena_chunk;

typedef struct rl_arena {
    rl_arena_chunk *newest;
    char *free_at; /* rest of the newest chunk */
    size_t free_bytes;
    size_t taken_bytes; /* malloc'ed so far, chunk headers included */
    size_t limit_bytes;
    bool over_limit; /* the last failure was the limit, not malloc */
} rl_arena;

/* Takes nothing yet. limit_bytes bounds what the arena will take from malloc; 0: no bound. */
void rl_arena_init(rl_arena *arena, size_t limit_bytes);

/* Frees everything. The arena can be used again as after init. */
void rl_arena_fini(rl_arena *arena);

/* `bytes` of memory aligned for any object, not cleared. NULL when the limit is reached
 * (over_limit is then true) or malloc fails. bytes == 0 gives a valid pointer. */
void *rl_arena_alloc(rl_arena *arena, size_t bytes);

/* The same for text: no alignment, and a NUL behind the copy. */
char *rl_arena_copy_text(rl_arena *arena, const char *text, size_t bytes);

#endif
