/* cpu_moe.c - the mixture of experts: router, shared expert, routed experts, their sum.
 *
 * moe_in multiplies the router and the gate and up of the shared expert in one loop, since they
 * share their input. The shared expert's down then rides along with the first loop of moe_experts
 * (or runs in moe_out, should there be none). moe_experts takes two loops whatever the number of
 * experts: all gates and ups, then all downs.
 *
 * Results of (token, rank) lie in the order they were computed, expert_row says where; the sum goes
 * by rank, so the order in which experts arrive cannot change a bit. */
#include "backend/cpu/cpu_backend.h"

#include <string.h>

#include "base/assert.h"

/* With fewer tokens than this a loop over tokens stays on the calling thread. */
enum { SERIAL_TOKENS = 4 };

rl_status rl_cpu_moe_in(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_layer *l = &cpu->net->layers[layer];
    rl_cpu_norm_rows(cpu, &(rl_cpu_norm){ .x = cpu->x,
                                          .n = cpu->n,
                                          .weight = &l->moe_norm,
                                          .act = &cpu->h,
                                          .scale_weight = &l->shared_scale,
                                          .scale = cpu->shared_scale });
    rl_cpu_job jobs[2] = {
        { .a = rl_cpu_matrix_of(&l->router),
          .act = cpu->h,
          .n = cpu->n,
          .y = cpu->logits,
          .y_stride = cpu->shape.n_expert },
        { .a = rl_cpu_matrix_of(&l->shared_gate),
          .b = rl_cpu_matrix_of(&l->shared_up),
          .result = RL_CPU_SWIGLU,
          .act = cpu->h,
          .n = cpu->n,
          .y = cpu->shared_mid,
          .y_stride = cpu->shape.n_ff_shared },
    };
    rl_cpu_jobs_run(cpu, jobs, 2);
    cpu->counters.dense_passes += 4; /* with the shared expert's gate, in the norm's pass */
    cpu->counters.stages++;
    cpu->n_expert_rows = 0;
    return RL_OK;
}

/* ---- choosing --------------------------------------------------------------------------------- */

typedef struct route_loop {
    rl_cpu *cpu;
    const uint32_t *forced;
} route_loop;

static void route_token(void *arg, uint32_t token, uint32_t thread)
{
    (void)thread;
    const route_loop *loop = arg;
    rl_cpu *cpu = loop->cpu;
    const uint32_t k = cpu->shape.n_expert_used, n_expert = cpu->shape.n_expert;
    const float *logits = cpu->logits + (size_t)token * n_expert;
    uint32_t *ids = cpu->ids + (size_t)token * k;
    float *weights = cpu->route_weights + (size_t)token * k;
    if (!loop->forced) {
        rl_router_topk(logits, n_expert, k, ids, weights);
        return;
    }
    memcpy(ids, loop->forced + (size_t)token * k, k * sizeof *ids);
    for (uint32_t i = 0; i < k; i++)
        RL_ASSERT(ids[i] < n_expert);
    rl_router_weights(logits, ids, k, weights);
}

rl_status rl_cpu_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                       rl_error *err)
{
    (void)layer;
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    route_loop loop = { .cpu = cpu, .forced = forced };
    if (cpu->n < SERIAL_TOKENS)
        for (uint32_t t = 0; t < cpu->n; t++)
            route_token(&loop, t, 0);
    else
        rl_pool_run(cpu->pool, route_token, &loop, cpu->n);
    memcpy(ids, cpu->ids, (size_t)cpu->n * cpu->shape.n_expert_used * sizeof *ids);
    cpu->counters.stages++;
    return RL_OK;
}

rl_status rl_cpu_route_ahead(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_layer *l = &cpu->net->layers[layer];
    RL_ASSERT(cpu->n == 1);
    rl_cpu_norm_rows(
        cpu, &(rl_cpu_norm){ .x = cpu->x, .n = 1, .weight = &l->moe_norm, .act = &cpu->ahead_act });
    rl_cpu_job job = { .a = rl_cpu_matrix_of(&l->router),
                       .act = cpu->ahead_act,
                       .n = 1,
                       .y = cpu->ahead_logits,
                       .y_stride = cpu->shape.n_expert };
    rl_cpu_jobs_run(cpu, &job, 1);
    float weights[RL_MAX_EXPERTS_USED];
    rl_router_topk(cpu->ahead_logits, cpu->shape.n_expert, cpu->shape.n_expert_used, ids, weights);
    cpu->counters.dense_passes++;
    cpu->counters.stages++;
    return RL_OK;
}

/* ---- experts ---------------------------------------------------------------------------------- */

rl_status rl_cpu_moe_shared(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)layer;
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    rl_cpu_prepare_rows(cpu, &cpu->shared_act, cpu->shared_mid, cpu->shape.n_ff_shared, cpu->n);
    cpu->shared_pending = true;
    cpu->counters.stages++;
    return RL_OK;
}

/* The job that finishes the shared expert; its result is scaled by the token's gate. */
static rl_cpu_job shared_down(rl_cpu *cpu, uint32_t layer)
{
    cpu->shared_pending = false;
    cpu->counters.dense_passes++;
    return (rl_cpu_job){ .a = rl_cpu_matrix_of(&cpu->net->layers[layer].shared_down),
                         .result = RL_CPU_SCALE,
                         .act = cpu->shared_act,
                         .n = cpu->n,
                         .y = cpu->shared_out,
                         .y_stride = cpu->x_stride,
                         .scale = cpu->shared_scale };
}

static rl_cpu_matrix expert_matrix(uint32_t type, uint32_t rows, uint32_t cols, uint64_t address,
                                   uint64_t offset)
{
    const rl_quant_info *info = rl_quant_find(type);
    return (rl_cpu_matrix){ .type = type,
                            .rows = rows,
                            .cols = cols,
                            .row_bytes = (size_t)(cols / info->block) * info->block_bytes,
                            .data = (const uint8_t *)(uintptr_t)(address + offset) };
}

rl_status rl_cpu_moe_experts(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                             uint32_t n_groups, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &cpu->shape;
    const rl_expert_layout *e = &cpu->net->layers[layer].expert;
    const uint64_t *residency = cpu->residency + (size_t)layer * s->n_expert;
    const uint32_t first_row = cpu->n_expert_rows, k = s->n_expert_used, n_ff = s->n_ff_expert;
    RL_ASSERT(n_groups <= s->n_expert);

    uint32_t row = first_row;
    for (uint32_t g = 0; g < n_groups; g++) {
        const rl_expert_group *group = &groups[g];
        RL_ASSERT(group->expert < s->n_expert && row + group->n <= cpu->n * k);
        const uint64_t address = residency[group->expert];
        RL_ASSERT(address); /* the engine promised residency */
        for (uint32_t i = 0; i < group->n; i++) {
            RL_ASSERT(group->assign[i] < cpu->n * k);
            cpu->expert_token[row + i] = group->assign[i] / k;
            cpu->expert_row[group->assign[i]] = row + i;
        }
        cpu->jobs[g] = (rl_cpu_job){
            .a = expert_matrix(e->gate_type, n_ff, s->n_embd, address, e->gate_offset),
            .b = expert_matrix(e->up_type, n_ff, s->n_embd, address, e->up_offset),
            .result = RL_CPU_SWIGLU,
            .act = cpu->h,
            .tokens = cpu->expert_token + row,
            .n = group->n,
            .y = cpu->expert_mid + (size_t)row * n_ff,
            .y_stride = n_ff,
        };
        row += group->n;
    }
    uint32_t n_jobs = n_groups;
    if (cpu->shared_pending) cpu->jobs[n_jobs++] = shared_down(cpu, layer);
    rl_cpu_jobs_run(cpu, cpu->jobs, n_jobs);

    if (row > first_row) {
        const rl_cpu_act mid = rl_cpu_act_from(&cpu->expert_act, first_row);
        rl_cpu_prepare_rows(cpu, &mid, cpu->expert_mid + (size_t)first_row * n_ff, n_ff,
                            row - first_row);
    }
    row = first_row;
    for (uint32_t g = 0; g < n_groups; g++) {
        const rl_expert_group *group = &groups[g];
        if (group->n)
            cpu->jobs[g] = (rl_cpu_job){
                .a = expert_matrix(e->down_type, s->n_embd, n_ff, residency[group->expert],
                                   e->down_offset),
                .act = rl_cpu_act_from(&cpu->expert_act, row),
                .n = group->n,
                .y = cpu->expert_out + (size_t)row * cpu->x_stride,
                .y_stride = cpu->x_stride,
            };
        else
            cpu->jobs[g] = (rl_cpu_job){ .n = 0 };
        row += group->n;
    }
    rl_cpu_jobs_run(cpu, cpu->jobs, n_groups);
    cpu->n_expert_rows = row;
    cpu->counters.expert_passes += n_groups;
    cpu->counters.stages++;
    return RL_OK;
}

/* ---- the sum ---------------------------------------------------------------------------------- */

static void sum_token(void *arg, uint32_t token, uint32_t thread)
{
    (void)thread;
    rl_cpu *cpu = arg;
    const uint32_t k = cpu->shape.n_expert_used;
    cpu->stages->weighted_sum(cpu->x + token * cpu->x_stride, cpu->expert_out, cpu->x_stride,
                              cpu->expert_row + (size_t)token * k,
                              cpu->route_weights + (size_t)token * k, k,
                              cpu->shared_out + token * cpu->x_stride, cpu->shape.n_embd);
}

rl_status rl_cpu_moe_out(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    RL_ASSERT(cpu->n_expert_rows == cpu->n * cpu->shape.n_expert_used);
    if (cpu->shared_pending) {
        rl_cpu_job job = shared_down(cpu, layer);
        rl_cpu_jobs_run(cpu, &job, 1);
    }
    if (cpu->n < SERIAL_TOKENS)
        for (uint32_t t = 0; t < cpu->n; t++)
            sum_token(cpu, t, 0);
    else
        rl_pool_run(cpu->pool, sum_token, cpu, cpu->n);
    cpu->counters.stages++;
    return RL_OK;
}
