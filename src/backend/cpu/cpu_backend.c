/* cpu_backend.c - the cpu backend's table: opening, batches, and the stages that are no layer's.
 *
 * Executes every stage at once. Where the arithmetic happens: cpu_kernels.h (products, one table per
 * instruction set) and cpu_stages.h (the rest). How work is spread over threads: cpu_backend.h. */
#include "backend/cpu/cpu_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

/* ---- opening ---------------------------------------------------------------------------------- */

const rl_cpu_stages *rl_cpu_stages_for(const char *kernels)
{
#if defined(__x86_64__)
    const bool any = !strcmp(kernels, "exact"); /* f32 arithmetic, whatever the registers */
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("bmi2") &&
                        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512 && (any || !strncmp(kernels, "avx512", 6))) return &rl_cpu_stages_avx512;
    if (avx2 && (any || !strncmp(kernels, "avx", 3))) return &rl_cpu_stages_avx2;
#else
    (void)kernels;
#endif
    return &rl_cpu_stages_any;
}

static void cpu_close(rl_backend *be)
{
    if (!be) return;
    rl_cpu *cpu = rl_cpu_of(be);
    rl_cpu_populate_stop(cpu->populate);
    rl_pool_destroy(cpu->pool);
    rl_cpu_unmap(&cpu->arena);
    for (size_t i = 0; i < cpu->n_weights; i++)
        rl_cpu_unmap(&cpu->weights[i]);
    for (uint32_t c = 0; c < cpu->n_classes; c++)
        rl_cpu_unmap(&cpu->slots[c].memory);
    free(cpu->weights);
    free(cpu->slots);
    free(cpu->residency);
    free(cpu->layers);
    free(cpu->scratch);
    free(cpu->jobs);
    free(cpu);
}

static rl_status cpu_open(rl_backend **out, const rl_backend_params *params, rl_error *err)
{
    *out = NULL;
    rl_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return rl_fail(err, RL_NOMEM, "no memory for the cpu backend");
    cpu->base.ops = &rl_backend_cpu;
    cpu->n_threads = params->n_threads ? params->n_threads : rl_cpu_count();
    if (cpu->n_threads > 256) cpu->n_threads = 256;
    rl_status status = rl_cpu_select(&cpu->kernels, params->isa, err);
    if (!status) status = rl_pool_create(&cpu->pool, cpu->n_threads, err);
    if (status) {
        cpu_close(&cpu->base);
        return status;
    }
    cpu->stages = rl_cpu_stages_for(cpu->kernels->name);
    snprintf(cpu->description, sizeof cpu->description, "cpu %s, %u thread%s", cpu->kernels->name,
             cpu->n_threads, cpu->n_threads == 1 ? "" : "s");
    *out = &cpu->base;
    return RL_OK;
}

static void cpu_get_caps(const rl_backend *be, rl_backend_caps *out)
{
    const rl_cpu *cpu = rl_cpu_of_const(be);
    *out = (rl_backend_caps){ .slots_host_writable = true,
                              .rounds_activations = strcmp(cpu->kernels->name, "exact") != 0 };
    memcpy(out->description, cpu->description, sizeof out->description);
}

static void cpu_get_counters(const rl_backend *be, rl_backend_counters *out)
{
    *out = rl_cpu_of_const(be)->counters;
    out->loops = rl_pool_loops(rl_cpu_of_const(be)->pool);
}

/* The processor's own name, where the system tells it. */
static void processor_name(char *out, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10)) continue;
        snprintf(out, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file) fclose(file);
}

static rl_status cpu_list_devices(rl_device_info *out, size_t capacity, size_t *n_found,
                                  rl_error *err)
{
    (void)err;
    *n_found = 1;
    if (!capacity) return RL_OK;
    *out = (rl_device_info){ .backend = "cpu", .name = "host processor", .kind = "cpu" };
    processor_name(out->name, sizeof out->name);
    size_t used =
        (size_t)snprintf(out->features, sizeof out->features, "%u cores;", rl_cpu_count());
    const char *last = ""; /* a name can have a row per instruction set */
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        const char *name = rl_cpu_kernels_name(i);
        if (!rl_cpu_kernels_at(i) || !strcmp(name, last) || used >= sizeof out->features) continue;
        used += (size_t)snprintf(out->features + used, sizeof out->features - used, " %s", name);
        last = name;
    }
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) out->memory_bytes = (uint64_t)pages * (uint64_t)page;
    out->usable = true;
    return RL_OK;
}

static bool cpu_supports(const rl_backend *be, uint32_t type, bool expert)
{
    (void)be;
    (void)expert;
    return rl_quant_find(type) != NULL;
}

/* ---- one batch -------------------------------------------------------------------------------- */

static rl_status cpu_begin(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    RL_ASSERT(cpu->net && batch->n >= 1 && batch->n <= cpu->max_batch);
    RL_ASSERT(batch->n <= batch->state->params.n_ctx &&
              batch->position <= batch->state->params.n_ctx - batch->n);
    cpu->state = batch->state;
    cpu->tokens = batch->tokens;
    cpu->n = batch->n;
    cpu->position = batch->position;
    cpu->final_rows = 0;
    cpu->rope_ready = false;
    cpu->shared_pending = false;
    cpu->state->written = 0;
    cpu->counters.tokens += batch->n;
    return RL_OK;
}

static void embed_token(void *arg, uint32_t token, uint32_t thread)
{
    (void)thread;
    rl_cpu *cpu = arg;
    const rl_weight *w = &cpu->net->embedding;
    RL_ASSERT(cpu->tokens[token] < w->rows);
    rl_quant_decode(rl_quant_find(w->type),
                    (const uint8_t *)w->host + cpu->tokens[token] * (size_t)(w->bytes / w->rows),
                    w->cols, cpu->x + token * cpu->x_stride);
}

static rl_status cpu_embed(rl_backend *be, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    if (cpu->n == 1)
        embed_token(cpu, 0, 0);
    else
        rl_pool_run(cpu->pool, embed_token, cpu, cpu->n);
    cpu->counters.stages++;
    return RL_OK;
}

static rl_status cpu_mix_out(rl_backend *be, uint32_t layer, rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    const rl_layer *l = &cpu->net->layers[layer];
    const rl_weight *out = l->recurrent ? &l->delta.out : &l->attn.out;
    /* The two kinds of layers may differ in width; the buffers hold the wider one. */
    rl_cpu_act y = cpu->y_act;
    y.cols = out->cols;
    rl_cpu_prepare_rows(cpu, &y, cpu->y, out->cols, cpu->n);
    rl_cpu_job job = { .a = rl_cpu_matrix_of(out),
                       .result = RL_CPU_ADD,
                       .act = y,
                       .n = cpu->n,
                       .y = cpu->shared_out, /* not in use yet */
                       .y_stride = cpu->x_stride,
                       .target = cpu->x };
    rl_cpu_jobs_run(cpu, &job, 1);
    cpu->counters.dense_passes++;
    cpu->counters.stages++;
    return RL_OK;
}

static rl_status cpu_head(rl_backend *be, uint32_t first, uint32_t rows, float *logits,
                          rl_error *err)
{
    (void)err;
    rl_cpu *cpu = rl_cpu_of(be);
    RL_ASSERT(rows >= 1 && rows <= RL_HEAD_ROWS && first < cpu->n && rows <= cpu->n - first);
    rl_cpu_norm_rows(cpu, &(rl_cpu_norm){ .x = cpu->x + first * cpu->x_stride,
                                          .n = rows,
                                          .weight = &cpu->net->output_norm,
                                          .act = &cpu->final_act,
                                          .out = cpu->final });
    rl_cpu_job job = { .a = rl_cpu_matrix_of(&cpu->net->head),
                       .act = cpu->final_act,
                       .n = rows,
                       .y = logits,
                       .y_stride = cpu->net->head.rows };
    rl_cpu_jobs_run(cpu, &job, 1);
    cpu->final_rows = rows;
    cpu->counters.dense_passes++;
    cpu->counters.stages++;
    return RL_OK;
}

static rl_status cpu_end(rl_backend *be, rl_error *err)
{
    (void)err;
    rl_cpu_of(be)->state->written = rl_cpu_of(be)->n;
    return RL_OK;
}

static void copy_rows(float *out, const float *rows, size_t stride, uint32_t n, uint32_t width)
{
    for (uint32_t t = 0; t < n; t++)
        memcpy(out + (size_t)t * width, rows + t * stride, width * sizeof(float));
}

static rl_status cpu_read_tap(rl_backend *be, rl_tap tap, float *out, rl_error *err)
{
    const rl_cpu *cpu = rl_cpu_of(be);
    const rl_shape *s = &cpu->shape;
    switch (tap) {
    case RL_TAP_HIDDEN: copy_rows(out, cpu->x, cpu->x_stride, cpu->n, s->n_embd); return RL_OK;
    case RL_TAP_ROUTER: copy_rows(out, cpu->logits, s->n_expert, cpu->n, s->n_expert); return RL_OK;
    case RL_TAP_ROUTE_WEIGHTS:
        copy_rows(out, cpu->route_weights, s->n_expert_used, cpu->n, s->n_expert_used);
        return RL_OK;
    case RL_TAP_FINAL_NORM:
        copy_rows(out, cpu->final, cpu->x_stride, cpu->final_rows, s->n_embd);
        return RL_OK;
    }
    return rl_fail(err, RL_INVALID, "there is no intermediate value %d", (int)tap);
}

const rl_backend_ops rl_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .get_caps = cpu_get_caps,
    .get_counters = cpu_get_counters,
    .list_devices = cpu_list_devices,
    .supports = cpu_supports,
    .weight_alloc = rl_cpu_weight_alloc,
    .weight_write = rl_cpu_weight_write,
    .pool_create = rl_cpu_pool_create,
    .slot_address = rl_cpu_slot_address,
    .slot_host = rl_cpu_slot_host,
    .slot_write = rl_cpu_slot_write,
    .residency_set = rl_cpu_residency_set,
    .residency_get = rl_cpu_residency_get,
    .attach = rl_cpu_attach,
    .batch_bytes = rl_cpu_batch_bytes,
    .state_create = rl_cpu_state_create,
    .state_destroy = rl_cpu_state_destroy,
    .state_reset = rl_cpu_state_reset,
    .state_commit = rl_cpu_state_commit,
    .state_read = rl_cpu_state_read,
    .state_write = rl_cpu_state_write,
    .begin = cpu_begin,
    .embed = cpu_embed,
    .delta_in = rl_cpu_delta_in,
    .delta_step = rl_cpu_delta_step,
    .attn_in = rl_cpu_attn_in,
    .attn_step = rl_cpu_attn_step,
    .mix_out = cpu_mix_out,
    .moe_in = rl_cpu_moe_in,
    .route = rl_cpu_route,
    .route_ahead = rl_cpu_route_ahead,
    .moe_shared = rl_cpu_moe_shared,
    .moe_experts = rl_cpu_moe_experts,
    .moe_out = rl_cpu_moe_out,
    .head = cpu_head,
    .end = cpu_end,
    .read_tap = cpu_read_tap,
};
