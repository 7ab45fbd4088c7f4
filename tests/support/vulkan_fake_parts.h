/* vulkan_fake_parts.h - what the two files of the pretended driver share (vulkan_fake.h).
 *
 *   vulkan_fake.c        the instance, devices, memory, objects, the table
 *   vulkan_fake_queue.c  command buffers, queues, semaphores, and the one kernel that does something
 *
 * Handles are pointers to the structs below. Which of them exist is the guard's business; here stands
 * what they do. */
#ifndef RL_TESTS_SUPPORT_VULKAN_FAKE_PARTS_H
#define RL_TESTS_SUPPORT_VULKAN_FAKE_PARTS_H

#include <pthread.h>

#include "backend/vulkan/shader_table.h"
#include "backend/vulkan/shaders/shader_types.h"
#include "support/vulkan_fake.h"
#include "support/vulkan_guard.h"

enum { MAX_QUEUES = 2, PUSH_BYTES = 128 };

typedef struct memory {
    uint8_t *bytes;
    uint64_t n;
    uint32_t heap;
    struct memory *next; /* of all that exist */
} memory;

typedef struct buffer {
    uint64_t n;
    memory *in;
} buffer;

typedef struct semaphore {
    uint64_t value;
} semaphore;

typedef struct pipeline {
    rl_vk_op op;
} pipeline;

/* A recorded command that has an effect. */
typedef struct command {
    enum { COPY, FILL, ROUTE } what;
    buffer *source, *target;
    VkBufferCopy region; /* of a fill: dstOffset and size */
    uint32_t word;       /* of a fill; of a choice: workgroups */
    rl_route_push push;
    uint64_t arrivals; /* of a choice at the end of its router's product */
} command;

typedef struct commands {
    enum { INITIAL, RECORDING, EXECUTABLE } state;
    uint32_t pending; /* submitted and not done */
    command *list;
    uint32_t n, room;
    bool kernels; /* there are some: they may reach any memory */
    bool failed;  /* no memory for a command: told at the end */
    const pipeline *bound;
    uint8_t push[PUSH_BYTES];
    struct commands *next; /* of its pool */
} commands;

typedef struct pool {
    commands *first;
} pool;

/* One batch of a submission. */
typedef struct batch {
    semaphore *wait, *signal;
    uint64_t wait_value, signal_value;
    uint32_t n;
    commands **list;
    struct batch *next;
} batch;

typedef struct queue {
    batch *first, **last;
} queue;

typedef struct rl_fake_driver {
    pthread_mutex_t lock;
    rl_vk_hook hook;
    const rl_fake_machine *machine;
    const rl_fake_gpu *gpu; /* of the open device */
    queue queues[MAX_QUEUES];
    memory *memories;
    uint64_t used[2]; /* of each heap */
    uint64_t n_dispatches;
} rl_fake_driver;

extern rl_fake_driver rl_fake;

/* Every function of the driver, as Vulkan declares it. */
#define X(name) __typeof__(*(PFN_vk##name)NULL) fake_##name;
RL_VK_GLOBAL_LIST(X)
RL_VK_INSTANCE_LIST(X)
RL_VK_DEVICE_LIST(X)
#undef X

#define FAKE(type, name, ...) VKAPI_ATTR type VKAPI_CALL fake_##name(__VA_ARGS__)
#define UNUSED(x)             ((void)(x))
#define FROM(type, handle)    ((type *)(uintptr_t)(handle))

/* The struct of that type in the chain, or NULL. */
void *rl_fake_chained(void *chain, VkStructureType type);

/* Nothing may go while work is submitted that could use it. NULL: no work at all. */
void rl_fake_expect_unused(const void *object, const char *what);

/* Drops all work: a lost device does no more, and nobody has to wait for it. */
void rl_fake_forget_work(void);

#endif
