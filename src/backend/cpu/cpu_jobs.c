/* cpu_jobs.c - matrix products of a stage as one flat list of row blocks, and what prepares their
 * inputs.
 *
 * The matrices of a stage, or all experts of a layer, are cut into blocks of rows, and the blocks
 * are the tasks of a single loop over the pool: ten small experts keep all cores as busy as one
 * large matrix, and a stage costs one barrier. A block takes all tokens of the batch while its rows
 * are in the cache, so a matrix is walked once per batch. */
#include "backend/cpu/cpu_backend.h"

#include "base/assert.h"

/* With fewer values than this a loop over the pool costs more than it saves. */
enum { SERIAL_VALUES = 16384 };

rl_cpu_matrix rl_cpu_matrix_of(const rl_weight *weight)
{
    return (rl_cpu_matrix){
        .type = weight->type,
        .rows = weight->rows,
        .cols = weight->cols,
        .row_bytes = weight->rows ? (size_t)(weight->bytes / weight->rows) : 0,
        .data = weight->host,
    };
}

rl_cpu_act rl_cpu_act_from(const rl_cpu_act *act, uint32_t first)
{
    rl_cpu_act view = *act;
    RL_DCHECK(first < act->n_tokens);
    view.n_tokens -= first;
    if (view.f32) view.f32 += first * view.f32_bytes;
    if (view.run8) view.run8 += first * view.run8_bytes;
    if (view.row8) view.row8 += first * view.row8_bytes;
    return view;
}

/* Rows per task: some microseconds of work, and the same for any number of threads. */
static uint32_t block_rows(const rl_cpu_job *job)
{
    const uint32_t weights = job->n == 1 ? 16384 : 65536;
    uint32_t rows = weights / (job->a.cols ? job->a.cols : 1) / 16 * 16;
    if (rows < 16) rows = 16;
    if (rows > RL_CPU_BLOCK_ROWS) rows = RL_CPU_BLOCK_ROWS;
    return rows;
}

typedef struct jobs_loop {
    rl_cpu *cpu;
    rl_cpu_job *jobs;
    uint32_t n_jobs;
} jobs_loop;

static const rl_cpu_job *job_of(const jobs_loop *loop, uint32_t task)
{
    uint32_t low = 0, high = loop->n_jobs;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (loop->jobs[middle].first_task <= task)
            low = middle;
        else
            high = middle;
    }
    return &loop->jobs[low];
}

static void run_block(void *arg, uint32_t task, uint32_t thread)
{
    const jobs_loop *loop = arg;
    const rl_cpu_kernels *k = loop->cpu->kernels;
    const rl_cpu_job *job = job_of(loop, task);
    const uint32_t first = (task - job->first_task) * job->block_rows;
    const uint32_t left = job->a.rows - first;
    const uint32_t rows = left < job->block_rows ? left : job->block_rows;
    rl_cpu_matmul(k, &job->a, &job->act, job->tokens, job->n, first, first + rows, job->y,
                  job->y_stride);
    switch (job->result) {
    case RL_CPU_STORE: break;
    case RL_CPU_ADD:
        for (uint32_t t = 0; t < job->n; t++) {
            const size_t at = t * job->y_stride + first;
            k->add(job->target + at, job->y + at, rows);
        }
        break;
    case RL_CPU_SCALE:
        for (uint32_t t = 0; t < job->n; t++)
            k->scale(job->y + t * job->y_stride + first, job->scale[t], rows);
        break;
    case RL_CPU_SWIGLU: {
        /* The same rows of b, as a matrix of their own so that they go into this thread's tile. */
        float *tile = loop->cpu->scratch[thread].tile;
        rl_cpu_matrix b = job->b;
        b.data += first * b.row_bytes;
        b.rows = rows;
        rl_cpu_matmul(k, &b, &job->act, job->tokens, job->n, 0, rows, tile, rows);
        for (uint32_t t = 0; t < job->n; t++) {
            float *y = job->y + t * job->y_stride + first;
            k->silu_mul(y, y, tile + (size_t)t * rows, rows);
        }
        break;
    }
    }
}

void rl_cpu_jobs_run(rl_cpu *cpu, rl_cpu_job *jobs, uint32_t n_jobs)
{
    uint32_t n_tasks = 0;
    for (uint32_t i = 0; i < n_jobs; i++) {
        jobs[i].block_rows = block_rows(&jobs[i]);
        jobs[i].first_task = n_tasks;
        n_tasks += (jobs[i].a.rows + jobs[i].block_rows - 1) / jobs[i].block_rows;
    }
    jobs_loop loop = { .cpu = cpu, .jobs = jobs, .n_jobs = n_jobs };
    rl_pool_run(cpu->pool, run_block, &loop, n_tasks);
}

/* ---- inputs ----------------------------------------------------------------------------------- */

typedef struct prepare_loop {
    rl_cpu *cpu;
    const rl_cpu_act *act;
    const float *x;
    size_t x_stride;
} prepare_loop;

static void prepare_row(void *arg, uint32_t row, uint32_t thread)
{
    (void)thread;
    const prepare_loop *loop = arg;
    rl_cpu_prepare(loop->cpu->kernels, loop->act, row, 1, loop->x + row * loop->x_stride,
                   loop->x_stride);
}

void rl_cpu_prepare_rows(rl_cpu *cpu, const rl_cpu_act *act, const float *x, size_t x_stride,
                         uint32_t n)
{
    if ((uint64_t)n * act->cols < SERIAL_VALUES) {
        rl_cpu_prepare(cpu->kernels, act, 0, n, x, x_stride);
        return;
    }
    prepare_loop loop = { .cpu = cpu, .act = act, .x = x, .x_stride = x_stride };
    rl_pool_run(cpu->pool, prepare_row, &loop, n);
}

typedef struct norm_loop {
    rl_cpu *cpu;
    const rl_cpu_norm *norm;
} norm_loop;

static void norm_row(void *arg, uint32_t t, uint32_t thread)
{
    const norm_loop *loop = arg;
    const rl_cpu_norm *norm = loop->norm;
    const rl_cpu *cpu = loop->cpu;
    const rl_cpu_kernels *k = cpu->kernels;
    const uint32_t n_embd = cpu->shape.n_embd;
    float *row = norm->out ? norm->out + t * cpu->x_stride : cpu->scratch[thread].row;
    k->rms_norm(row, norm->x + t * cpu->x_stride, norm->weight->host, n_embd, cpu->shape.rms_eps);
    rl_cpu_prepare(k, norm->act, t, 1, row, cpu->x_stride);
    if (norm->scale_weight) {
        norm->scale[t] = 1.0f;
        const float logit = k->dot(row, norm->scale_weight->host, n_embd);
        k->sigmoid_mul(&norm->scale[t], &logit, &norm->scale[t], 1);
    }
}

void rl_cpu_norm_rows(rl_cpu *cpu, const rl_cpu_norm *norm)
{
    norm_loop loop = { .cpu = cpu, .norm = norm };
    if ((uint64_t)norm->n * cpu->shape.n_embd < SERIAL_VALUES) {
        for (uint32_t t = 0; t < norm->n; t++)
            norm_row(&loop, t, 0);
        return;
    }
    rl_pool_run(cpu->pool, norm_row, &loop, norm->n);
}
