/* experts.c - tests/support/experts.h. */
#include "support/experts.h"

#include <unistd.h>

#include "support/test.h"

static const uint32_t part_bytes[TEST_LAYERS][RL_STREAM_PARTS] = {
    { 4096, 70000, 333 }, { 8192, 8192, 8192 }, { 4096, 70000, 333 }, { 90000, 1, 64 }
};

/* The eight bytes at position 8 * number of a file. */
static uint64_t word_at(const test_experts *t, uint32_t file, uint64_t number)
{
    uint64_t state = t->seed + file * 77777 + number;
    return rl_test_random(&state);
}

void test_experts_write(const test_experts *t, uint32_t i)
{
    uint64_t end = 0;
    for (uint32_t l = 0; l < TEST_LAYERS; l++)
        for (uint32_t e = 0; e < TEST_EXPERTS; e++)
            for (uint32_t p = 0; p < RL_STREAM_PARTS; p++) {
                const rl_stream_range *part = &t->parts[l][e][p];
                if (part->file == i && part->offset + part->bytes > end)
                    end = part->offset + part->bytes;
            }
    uint8_t *bytes = malloc(end + 8);
    assert_non_null(bytes);
    for (uint64_t at = 0; at < end; at += 8) {
        uint64_t word = word_at(t, i, at / 8);
        memcpy(bytes + at, &word, 8);
    }
    FILE *out = fopen(t->paths[i], "wb");
    if (!out) fail_msg("%s: cannot write", t->paths[i]);
    assert_int_equal(fwrite(bytes, 1, end, out), end);
    assert_int_equal(fclose(out), 0);
    free(bytes);
}

/* Tensors follow each other as in a model file: layer by layer, part by part, expert by expert; the
 * second half of the layers lies in the second file. The last expert ends with its file. */
static void lay_out(test_experts *t)
{
    uint64_t at[TEST_FILES] = { 12384, 96 };
    for (uint32_t l = 0; l < TEST_LAYERS; l++) {
        uint32_t file = l * TEST_FILES / TEST_LAYERS;
        for (uint32_t p = 0; p < RL_STREAM_PARTS; p++) {
            for (uint32_t e = 0; e < TEST_EXPERTS; e++) {
                t->parts[l][e][p] = (rl_stream_range){ .file = file,
                                                       .offset = at[file],
                                                       .bytes = part_bytes[l][p] };
                at[file] += part_bytes[l][p];
            }
            at[file] = (at[file] + 31) & ~31ull;
            t->layer_bytes[l] += part_bytes[l][p] + 3ull * TEST_SLACK;
        }
    }
}

static uint8_t *slot_memory(test_experts *t, rl_slot slot)
{
    return t->memory + t->class_first[slot.class] + slot.index * t->class_stride[slot.class];
}

/* Where part `p` of the expert goes in its slot. Every part has room of TEST_SLACK around it. */
static uint8_t *part_memory(test_experts *t, rl_expert_key key, rl_slot slot, uint32_t p)
{
    uint8_t *at = slot_memory(t, slot);
    for (uint32_t i = 0; i < p; i++)
        at += part_bytes[key.layer][i] + 3 * TEST_SLACK;
    at += TEST_SLACK;
    if (t->sink != TEST_SINK_STRAIGHT) return at + 1;
    uint64_t wanted = t->parts[key.layer][key.expert][p].offset % TEST_SLACK;
    uint64_t is = (uintptr_t)at % TEST_SLACK;
    return at + (wanted + TEST_SLACK - is) % TEST_SLACK;
}

static uint64_t slot_address(void *context, rl_slot slot)
{
    return (uintptr_t)slot_memory(context, slot);
}

void test_experts_init(test_experts *t, const char *name, test_sink sink, double share,
                       uint32_t used)
{
    rl_error err = { "" };
    *t = (test_experts){ .seed = 1234, .sink = sink };
    lay_out(t);
    for (uint32_t i = 0; i < TEST_FILES; i++) {
        snprintf(t->paths[i], sizeof t->paths[i], "%s",
                 rl_test_scratch("experts_%s_%d_%u.bin", name, (int)getpid(), i));
        test_experts_write(t, i);
        assert_ok(rl_file_open(&t->files[i], t->paths[i], &err));
    }
    uint64_t all = 0;
    for (uint32_t l = 0; l < TEST_LAYERS; l++)
        all += (t->layer_bytes[l] + 63) / 64 * 64 * TEST_EXPERTS;
    rl_cache_plan_params plan = { .n_layer = TEST_LAYERS,
                                  .n_expert = TEST_EXPERTS,
                                  .n_expert_used = used,
                                  .layer_bytes = t->layer_bytes,
                                  .budget_bytes = (uint64_t)((double)all * share),
                                  .name = t->paths[0] };
    if (rl_cache_plan_init(&t->plan, &plan, &err)) { /* below the minimum, then */
        plan.budget_bytes = 0;
        for (uint32_t l = 0; l < TEST_LAYERS; l++)
            plan.budget_bytes += (t->layer_bytes[l] + 63) / 64 * 64 * used;
        assert_ok(rl_cache_plan_init(&t->plan, &plan, &err));
    }
    assert_true(t->plan.n_class <= TEST_CLASSES);
    size_t bytes = 0;
    for (uint32_t c = 0; c < t->plan.n_class; c++) {
        t->class_first[c] = bytes;
        t->class_stride[c] = (size_t)t->plan.classes[c].slot_bytes;
        bytes += t->class_stride[c] * t->plan.class_slots[c];
    }
    t->memory = calloc(1, bytes);
    assert_non_null(t->memory);
    assert_ok(
        rl_residency_create(&t->residency, TEST_LAYERS, TEST_EXPERTS, NULL, slot_address, t, &err));
    assert_ok(rl_cache_create(&t->cache,
                              &(rl_cache_params){ .n_layer = TEST_LAYERS,
                                                  .n_expert = TEST_EXPERTS,
                                                  .n_class = t->plan.n_class,
                                                  .layer_class = t->plan.layer_class,
                                                  .class_slots = t->plan.class_slots,
                                                  .listener = rl_residency_listen,
                                                  .context = t->residency },
                              &err));
}

void test_experts_fini(test_experts *t)
{
    rl_cache_destroy(t->cache);
    rl_residency_destroy(t->residency);
    rl_cache_plan_fini(&t->plan);
    free(t->memory);
    for (uint32_t i = 0; i < TEST_FILES; i++) {
        rl_file_close(t->files[i]);
        remove(t->paths[i]);
    }
}

rl_status test_experts_fill(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                            const void *bytes, size_t n_bytes, rl_error *err)
{
    test_experts *t = context;
    if (++t->n_fills == t->fail_fill_at)
        return rl_fail(err, RL_DEVICE, "the device went away at expert %u", key.expert);
    assert_int_equal(n_bytes, part_bytes[key.layer][part]);
    memcpy(part_memory(t, key, slot, part), bytes, n_bytes);
    return RL_OK;
}

rl_stream_params test_experts_stream(test_experts *t, rl_io_mode io, rl_io_driver driver)
{
    return (rl_stream_params){ .files = (const rl_file *const *)t->files,
                               .n_files = TEST_FILES,
                               .range_bytes = TEST_MAX_PART,
                               .io = io,
                               .driver = driver,
                               .fill = test_experts_fill,
                               .context = t };
}

rl_stream_request test_experts_request(test_experts *t, rl_expert_key key, rl_slot slot)
{
    rl_stream_request request = { .key = key, .slot = slot, .n_parts = RL_STREAM_PARTS };
    for (uint32_t p = 0; p < RL_STREAM_PARTS; p++) {
        request.parts[p] = t->parts[key.layer][key.expert][p];
        uint8_t *at = part_memory(t, key, slot, p);
        memset(at, 0xee, part_bytes[key.layer][p]); /* what was there before must not help */
        if (t->sink == TEST_SINK_FILL) continue;
        request.parts[p].into = at;
        if (t->sink == TEST_SINK_STRAIGHT) request.parts[p].slack = TEST_SLACK;
    }
    return request;
}

void test_experts_check(test_experts *t, rl_expert_key key, rl_slot slot)
{
    for (uint32_t p = 0; p < RL_STREAM_PARTS; p++) {
        const rl_stream_range *part = &t->parts[key.layer][key.expert][p];
        const uint8_t *at = part_memory(t, key, slot, p);
        uint64_t i = 0;
        while (i < part->bytes) { /* word by word of the file */
            uint64_t position = part->offset + i, skip = position % 8;
            uint64_t word = word_at(t, part->file, position / 8) >> skip * 8;
            uint64_t n = 8 - skip < part->bytes - i ? 8 - skip : part->bytes - i;
            if (memcmp(at + i, &word, n))
                fail_msg("expert %u of layer %u, part %u: bytes %llu.. are wrong", key.expert,
                         key.layer, p, (unsigned long long)i);
            i += n;
        }
    }
}

void test_experts_check_idle(test_experts *t)
{
    rl_cache_census census = rl_cache_count(t->cache, RL_CACHE_NONE);
    rl_cache_check(t->cache);
    rl_residency_check(t->residency, t->cache);
    assert_int_equal(census.loading, 0);
    assert_int_equal(census.pinned, 0);
}

rl_status test_experts_token(test_experts *t, rl_stream *stream, uint32_t layer,
                             const uint32_t *ids, uint32_t n, rl_error *err)
{
    rl_reservation r[TEST_EXPERTS];
    rl_stream_request requests[TEST_EXPERTS];
    rl_stream_done done;
    rl_error why = { "" };
    rl_status status = RL_OK;
    uint32_t n_misses = 0;
    assert_int_equal(rl_cache_reserve_layer(t->cache, layer, ids, n, r), 0);
    for (uint32_t i = 0; i < n; i++)
        if (r[i].outcome == RL_RESERVE_MISS)
            requests[n_misses++] = test_experts_request(t, r[i].key, r[i].slot);
    assert_int_equal(rl_stream_submit(stream, requests, n_misses), n_misses);
    for (uint32_t i = 0; i < n; i++)
        if (r[i].outcome == RL_RESERVE_HIT) test_experts_check(t, r[i].key, r[i].slot);
    while (rl_stream_wait(stream, &done, &why)) {
        assert_int_equal(done.key.layer, layer);
        if (done.status) {
            if (!status && err) *err = why;
            if (!status) status = done.status;
            rl_cache_abort(t->cache, done.slot);
            for (uint32_t i = 0; i < n; i++)
                if (r[i].key.expert == done.key.expert) r[i].slot = RL_SLOT_NONE;
        } else {
            rl_cache_commit(t->cache, done.slot);
            test_experts_check(t, done.key, done.slot);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (!rl_slot_is_none(r[i].slot)) rl_cache_release(t->cache, r[i].slot, RL_RELEASE_USED);
    test_experts_check_idle(t);
    return status;
}
