/* experts.h - files full of made-up experts, and memory to stream them into.
 *
 * The bytes of a file are a function of seed, file and position, so any range can be checked without
 * keeping a copy. Offsets are odd multiples of 32, part sizes arbitrary, as in real model files. */
#ifndef RL_TESTS_SUPPORT_EXPERTS_H
#define RL_TESTS_SUPPORT_EXPERTS_H

#include "cache/cache_plan.h"
#include "cache/expert_cache.h"
#include "cache/expert_stream.h"
#include "cache/residency.h"

enum {
    TEST_LAYERS = 4,
    TEST_EXPERTS = 12,
    TEST_FILES = 2,
    TEST_CLASSES = 4,
    TEST_SLACK = 4096,
    TEST_MAX_PART = 90000
};

/* How the parts of a slot are filled. */
typedef enum test_sink {
    TEST_SINK_FILL,     /* by the fill function                                             */
    TEST_SINK_INTO,     /* straight, at an address that direct I/O cannot use               */
    TEST_SINK_STRAIGHT, /* straight, where direct I/O can write without a bounce buffer     */
    TEST_SINKS
} test_sink;

typedef struct test_experts {
    uint64_t seed;
    char paths[TEST_FILES][1024];
    rl_file *files[TEST_FILES];
    rl_stream_range parts[TEST_LAYERS][TEST_EXPERTS][RL_STREAM_PARTS];
    uint64_t layer_bytes[TEST_LAYERS];
    test_sink sink;
    rl_cache_plan plan;
    rl_cache *cache;
    rl_residency *residency;
    uint8_t *memory; /* of all slots */
    size_t class_stride[TEST_CLASSES], class_first[TEST_CLASSES];
    uint64_t n_fills;
    uint64_t fail_fill_at; /* the fill call with this number fails; 0: none */
} test_experts;

/* Writes the files below the scratch folder (`name` makes them this test's own), opens them, and
 * makes cache, residency and slots for a budget of `share` (0..1) of all bytes, never below the
 * minimum of `used` experts per layer. */
void test_experts_init(test_experts *t, const char *name, test_sink sink, double share,
                       uint32_t used);
void test_experts_fini(test_experts *t);

/* Writes file `i` again, whole; for tests that have cut it. */
void test_experts_write(const test_experts *t, uint32_t i);

/* The stream over these files, fill and slots included. */
rl_stream_params test_experts_stream(test_experts *t, rl_io_mode io, rl_io_driver driver);

/* The request that fills `slot` with `key`. */
rl_stream_request test_experts_request(test_experts *t, rl_expert_key key, rl_slot slot);

/* The rl_stream_fill of it; context is the test_experts. */
rl_status test_experts_fill(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                            const void *bytes, size_t n_bytes, rl_error *err);

/* Fails the test unless the slot holds every byte of the expert. */
void test_experts_check(test_experts *t, rl_expert_key key, rl_slot slot);

/* Cache, residency and pins are as they must be when no work is under way. */
void test_experts_check_idle(test_experts *t);

/* One layer of one token, as the engine does it: reserve, submit, check the hits, then commit or
 * abort as the answers come. Returns the first failure, whose sentence is in *err. */
rl_status test_experts_token(test_experts *t, rl_stream *stream, uint32_t layer,
                             const uint32_t *ids, uint32_t n, rl_error *err);

#endif
