/* fault.c - tests/support/fault.h: the wrapped calls (ld --wrap=NAME sends NAME to __wrap_NAME). */
#include "support/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

static atomic_bool armed;
static atomic_bool sticky;
static atomic_bool fired;
static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t target;
static atomic_int_fast64_t live;

static void arm(uint64_t nth, bool stays)
{
    atomic_store(&calls, 0);
    atomic_store(&target, nth);
    atomic_store(&sticky, stays);
    atomic_store(&fired, false);
    atomic_store(&armed, true);
}

void rl_fault_arm(uint64_t nth)
{
    arm(nth, false);
}

void rl_fault_arm_from(uint64_t nth)
{
    arm(nth, true);
}

bool rl_fault_disarm(void)
{
    atomic_store(&armed, false);
    return atomic_load(&fired);
}

uint64_t rl_fault_calls(void)
{
    return atomic_load(&calls);
}

int64_t rl_fault_live(void)
{
    return atomic_load(&live);
}

/* True when the call at hand has to fail. */
static bool strikes(void)
{
    if (!atomic_load(&armed)) return false;
    uint64_t number = atomic_fetch_add(&calls, 1);
    uint64_t at = atomic_load(&target);
    if (atomic_load(&sticky) ? number < at : number != at) return false;
    atomic_store(&fired, true);
    return true;
}

static void *counted(void *block)
{
    if (block) atomic_fetch_add(&live, 1);
    return block;
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t bytes)
{
    return strikes() ? no_memory() : counted(__real_malloc(bytes));
}

WRAP(void *, calloc, size_t n, size_t bytes)
{
    return strikes() ? no_memory() : counted(__real_calloc(n, bytes));
}

WRAP(void *, realloc, void *block, size_t bytes)
{
    if (strikes()) return no_memory();
    void *moved = __real_realloc(block, bytes);
    if (moved && !block) atomic_fetch_add(&live, 1);
    return moved;
}

WRAP(void *, aligned_alloc, size_t align, size_t bytes)
{
    return strikes() ? no_memory() : counted(__real_aligned_alloc(align, bytes));
}

WRAP(int, posix_memalign, void **out, size_t align, size_t bytes)
{
    if (strikes()) return ENOMEM;
    int failed = __real_posix_memalign(out, align, bytes);
    if (!failed) atomic_fetch_add(&live, 1);
    return failed;
}

WRAP(char *, strdup, const char *text)
{
    return strikes() ? no_memory() : counted(__real_strdup(text));
}

WRAP(char *, strndup, const char *text, size_t bytes)
{
    return strikes() ? no_memory() : counted(__real_strndup(text, bytes));
}

WRAP(void, free, void *block)
{
    if (block) atomic_fetch_sub(&live, 1);
    __real_free(block);
}

static ssize_t no_bytes(void)
{
    errno = EIO;
    return -1;
}

WRAP(ssize_t, pread, int file, void *out, size_t bytes, off_t offset)
{
    return strikes() ? no_bytes() : __real_pread(file, out, bytes, offset);
}

WRAP(ssize_t, pread64, int file, void *out, size_t bytes, off_t offset)
{
    return strikes() ? no_bytes() : __real_pread64(file, out, bytes, offset);
}

/* What a fortified build calls instead of pread. */
ssize_t __wrap___pread_chk(int file, void *out, size_t bytes, off_t offset, size_t room);
ssize_t __wrap___pread_chk(int file, void *out, size_t bytes, off_t offset, size_t room)
{
    if (bytes > room) __builtin_trap();
    return strikes() ? no_bytes() : __real_pread(file, out, bytes, offset);
}
