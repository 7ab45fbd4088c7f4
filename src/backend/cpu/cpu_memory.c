/* cpu_memory.c - weights and expert slots in host memory, and the residency table.
 *
 * Every weight, every class of slots and the activations are a mapping of their own: page aligned,
 * zero at first, backed by memory only where it is touched, with huge pages advised where they help.
 * A little room behind each lets kernels load whole vectors at the end of the last row. */
#include "backend/cpu/cpu_backend.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bytes.h"

#define PAGE      4096u
#define HUGE_PAGE (2u << 20)
#define BEHIND    128u /* bytes that may be read, never used, after the last */

rl_status rl_cpu_map(rl_cpu_memory *out, uint64_t size, const char *what, rl_error *err)
{
    *out = (rl_cpu_memory){ 0 };
    uint64_t whole;
    if (!rl_add_u64(size, BEHIND + PAGE, &whole) || whole > SIZE_MAX)
        return rl_fail(err, RL_NOMEM, "no memory for %s (%llu bytes)", what,
                       (unsigned long long)size);
    whole &= ~(uint64_t)(PAGE - 1);
    void *bytes =
        mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return rl_fail(err, RL_NOMEM, "no memory for %s (%llu bytes)", what,
                       (unsigned long long)size);
#ifdef MADV_HUGEPAGE
    if (whole >= HUGE_PAGE) madvise(bytes, (size_t)whole, MADV_HUGEPAGE); /* advice only */
#endif
    *out = (rl_cpu_memory){ .bytes = bytes, .size = (size_t)whole };
    return RL_OK;
}

void rl_cpu_unmap(rl_cpu_memory *memory)
{
    if (memory->bytes) munmap(memory->bytes, memory->size);
    *memory = (rl_cpu_memory){ 0 };
}

rl_status rl_cpu_weight_alloc(rl_backend *be, rl_weight *weight, const char *name, rl_error *err)
{
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_quant_info *info = rl_quant_find(weight->type);
    if (!info)
        return rl_fail(err, RL_UNSUPPORTED, "%s: type %u cannot be computed with", name,
                       weight->type);
    uint64_t row = 0, bytes = 0;
    if (!rl_quant_bytes(info, weight->cols, &row) || !rl_mul_u64(row, weight->rows, &bytes))
        return rl_fail(err, RL_INVALID, "%s: %u x %u values of %s are no whole blocks", name,
                       weight->cols, weight->rows, info->name);
    if (cpu->n_weights == cpu->weights_room) {
        const size_t room = cpu->weights_room ? cpu->weights_room * 2 : 256;
        rl_cpu_memory *grown = realloc(cpu->weights, room * sizeof *grown);
        if (!grown) return rl_fail(err, RL_NOMEM, "no memory for the list of weights");
        cpu->weights = grown;
        cpu->weights_room = room;
    }
    rl_cpu_memory *memory = &cpu->weights[cpu->n_weights];
    rl_status status = rl_cpu_map(memory, bytes, name, err);
    if (status) return status;
    cpu->n_weights++;
    weight->bytes = bytes;
    weight->host = memory->bytes;
    weight->address = 0;
    return RL_OK;
}

rl_status rl_cpu_weight_write(rl_backend *be, const rl_weight *weight, uint64_t offset,
                              const void *bytes, uint64_t n, rl_error *err)
{
    (void)be;
    (void)err;
    RL_ASSERT(offset <= weight->bytes && n <= weight->bytes - offset);
    memcpy((uint8_t *)weight->host + offset, bytes, (size_t)n);
    return RL_OK;
}

rl_status rl_cpu_pool_create(rl_backend *be, uint32_t n_classes, const uint64_t *bytes,
                             const uint32_t *count, rl_error *err)
{
    rl_cpu *cpu = rl_cpu_of(be);
    RL_ASSERT(!cpu->slots && n_classes);
    cpu->slots = calloc(n_classes, sizeof *cpu->slots);
    rl_cpu_memory *areas = calloc(n_classes, sizeof *areas);
    rl_status status = RL_OK;
    if (!cpu->slots || !areas)
        status = rl_fail(err, RL_NOMEM, "no memory for %u slot classes", n_classes);
    for (uint32_t c = 0; !status && c < n_classes; c++) {
        rl_cpu_slots *slots = &cpu->slots[c];
        slots->bytes = bytes[c];
        slots->stride = rl_align_up(bytes[c], 64);
        slots->count = count[c];
        uint64_t whole;
        status = rl_mul_u64(slots->stride, count[c], &whole)
                     ? rl_cpu_map(&slots->memory, whole, "the expert pool", err)
                     : rl_fail(err, RL_NOMEM, "the expert pool is too large");
        areas[c] = slots->memory;
        cpu->n_classes++; /* close frees what is there */
    }
    if (!status) cpu->populate = rl_cpu_populate_start(areas, n_classes);
    free(areas);
    return status;
}

void *rl_cpu_slot_host(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    const rl_cpu *cpu = rl_cpu_of_const(be);
    RL_ASSERT(slot_class < cpu->n_classes && index < cpu->slots[slot_class].count);
    const rl_cpu_slots *slots = &cpu->slots[slot_class];
    const size_t at = (size_t)index * slots->stride;
    rl_cpu_populate_reach(cpu->populate, slot_class, at + slots->stride);
    return slots->memory.bytes + at;
}

uint64_t rl_cpu_slot_address(const rl_backend *be, uint32_t slot_class, uint32_t index)
{
    return (uint64_t)(uintptr_t)rl_cpu_slot_host(be, slot_class, index);
}

rl_status rl_cpu_slot_write(rl_backend *be, uint32_t slot_class, uint32_t index, uint64_t offset,
                            const void *bytes, uint64_t n, rl_error *err)
{
    (void)err;
    uint8_t *slot = rl_cpu_slot_host(be, slot_class, index);
    const uint64_t size = rl_cpu_of(be)->slots[slot_class].bytes;
    RL_ASSERT(offset <= size && n <= size - offset);
    memcpy(slot + offset, bytes, (size_t)n);
    return RL_OK;
}

void rl_cpu_residency_set(rl_backend *be, uint32_t layer, uint32_t expert, uint64_t address)
{
    rl_cpu *cpu = rl_cpu_of(be);
    RL_ASSERT(cpu->net && layer < cpu->shape.n_layer && expert < cpu->shape.n_expert);
    cpu->residency[(size_t)layer * cpu->shape.n_expert + expert] = address;
}

uint64_t rl_cpu_residency_get(const rl_backend *be, uint32_t layer, uint32_t expert)
{
    const rl_cpu *cpu = (const rl_cpu *)be;
    return cpu->residency[(size_t)layer * cpu->shape.n_expert + expert];
}
