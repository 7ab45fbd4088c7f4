/* test_cpu_memory.c - memory of the cpu backend that is backed ahead of its use. */
#include "support/test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu_backend.h"

enum { MIB = 1 << 20 };

static bool can_populate(void)
{
#ifdef __linux__
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    const bool can = !madvise(page, 4096, 23 /* MADV_POPULATE_WRITE */);
    munmap(page, 4096);
    return can;
#else
    return false;
#endif
}

static size_t pages_backed(const rl_cpu_memory *memory, size_t page)
{
    unsigned char *resident = calloc(memory->size / page, 1);
    size_t n = 0;
    assert_non_null(resident);
    assert_int_equal(mincore(memory->bytes, memory->size, resident), 0);
    for (size_t i = 0; i < memory->size / page; i++)
        n += resident[i] & 1;
    free(resident);
    return n;
}

/* Stands against: pages that are cleared although somebody has written there, and memory that is
 * backed only when it is read into. */
static void cpu_memory_is_backed_ahead_of_its_use(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_cpu_memory areas[2];
    if (!can_populate()) rl_test_skip("this system has no MADV_POPULATE_WRITE");
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_ok(rl_cpu_map(&areas[0], 80 * (uint64_t)MIB, "a test", &err));
    assert_ok(rl_cpu_map(&areas[1], 33 * (uint64_t)MIB, "a test", &err));
    rl_cpu_populate *populate = rl_cpu_populate_start(areas, 2);
    assert_non_null(populate);
    rl_cpu_populate_reach(populate, 0, areas[0].size);
    for (size_t at = 0; at < areas[1].size; at += page) /* beside the thread */
        areas[1].bytes[at] = (uint8_t)(1 + at / page % 255);
    for (uint32_t i = 0; i < 2; i++)
        for (int tries = 0; pages_backed(&areas[i], page) < areas[i].size / page; tries++) {
            assert_true(tries < 20000);
            usleep(1000);
        }
    rl_cpu_populate_stop(populate);
    for (size_t at = 0; at < areas[1].size; at += page)
        assert_int_equal(areas[1].bytes[at], 1 + at / page % 255);
    for (size_t at = 0; at < areas[0].size; at += page)
        assert_int_equal(areas[0].bytes[at], 0);
    rl_cpu_unmap(&areas[0]);
    rl_cpu_unmap(&areas[1]);
}

/* Stands against: a pool that takes all of its memory for a few experts. */
static void cpu_memory_is_not_backed_without_need(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_cpu_memory area;
    if (!can_populate()) rl_test_skip("this system has no MADV_POPULATE_WRITE");
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), ahead = 256 * (size_t)MIB;
    assert_ok(rl_cpu_map(&area, 640 * (uint64_t)MIB, "a test", &err));
    rl_cpu_populate *populate = rl_cpu_populate_start(&area, 1);
    for (size_t used = 0; used <= 64 * (size_t)MIB; used += 32 * (size_t)MIB) {
        rl_cpu_populate_reach(populate, 0, used);
        for (int tries = 0; pages_backed(&area, page) < (used + ahead) / page; tries++) {
            assert_true(tries < 20000);
            usleep(1000);
        }
        usleep(50000);
        /* a huge page may reach over the end */
        assert_true(pages_backed(&area, page) <= (used + ahead + 4 * (size_t)MIB) / page);
    }
    rl_cpu_populate_stop(populate);
    rl_cpu_unmap(&area);
}

/* Stands against: a thread that outlives its memory. */
static void cpu_memory_backing_can_be_stopped(void **state)
{
    (void)state;
    rl_error err = { "" };
    for (int i = 0; i < 20; i++) {
        rl_cpu_memory area;
        assert_ok(rl_cpu_map(&area, 200 * (uint64_t)MIB, "a test", &err));
        rl_cpu_populate *populate = rl_cpu_populate_start(&area, 1);
        usleep(100 * (unsigned)i);
        rl_cpu_populate_stop(populate);
        rl_cpu_unmap(&area);
    }
}

RL_TEST_MAIN(RL_TEST(cpu_memory, is_backed_ahead_of_its_use),
             RL_TEST(cpu_memory, is_not_backed_without_need),
             RL_TEST(cpu_memory, backing_can_be_stopped))
