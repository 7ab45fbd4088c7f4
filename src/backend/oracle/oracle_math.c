/* oracle_math.c - decode, multiply in double, sum in double. */
#include "backend/oracle/oracle.h"

#include <math.h>

#include "quant/quant.h"

enum { ROW_BLOCK = 16 };

double oracle_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double oracle_silu(double x)
{
    return x * oracle_sigmoid(x);
}

void oracle_decode_row(const rl_weight *w, uint32_t row, float *out)
{
    const rl_quant_info *info = rl_quant_find(w->type);
    uint64_t row_bytes = (uint64_t)w->cols / info->block * info->block_bytes;
    rl_quant_decode(info, (const uint8_t *)w->host + row * row_bytes, w->cols, out);
}

static double dot(const float *w, const double *x, uint32_t n)
{
    double sum[8] = { 0 }; /* eight chains, so that the compiler may use vectors */
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (uint32_t j = 0; j < 8; j++)
            sum[j] += (double)w[i + j] * x[i + j];
    for (; i < n; i++)
        sum[0] += (double)w[i] * x[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

typedef struct matmul_job {
    oracle *o;
    const rl_weight *w;
    const double *x;
    double *y;
    uint32_t n;
} matmul_job;

static void matmul_task(void *arg, uint32_t index, uint32_t thread)
{
    matmul_job *job = arg;
    const rl_weight *w = job->w;
    float *row = job->o->row_scratch + (size_t)thread * job->o->longest_row;
    uint32_t end = (index + 1) * ROW_BLOCK < w->rows ? (index + 1) * ROW_BLOCK : w->rows;
    for (uint32_t r = index * ROW_BLOCK; r < end; r++) {
        oracle_decode_row(w, r, row);
        for (uint32_t t = 0; t < job->n; t++)
            job->y[(size_t)t * w->rows + r] = dot(row, job->x + (size_t)t * w->cols, w->cols);
    }
}

void oracle_matmul(oracle *o, const rl_weight *w, const double *x, uint32_t n, double *y)
{
    matmul_job job = { .o = o, .w = w, .x = x, .y = y, .n = n };
    rl_pool_run(o->pool, matmul_task, &job, (w->rows + ROW_BLOCK - 1) / ROW_BLOCK);
}

void oracle_rms_norm(const double *x, const rl_weight *norm, float eps, uint32_t n, double *h)
{
    for (uint32_t t = 0; t < n; t++) {
        const double *from = x + (size_t)t * norm->cols;
        double *to = h + (size_t)t * norm->cols, sum = 0;
        for (uint32_t i = 0; i < norm->cols; i++)
            sum += from[i] * from[i];
        double scale = 1 / sqrt(sum / norm->cols + eps);
        for (uint32_t i = 0; i < norm->cols; i++)
            to[i] = from[i] * scale * oracle_f32(norm, i);
    }
}
