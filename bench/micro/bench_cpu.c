/* bench_cpu.c - the cpu kernels one at a time: time per weight and bytes per second.
 *
 *     bench_cpu [-t THREADS] [-k TABLE] [-q TYPE] [-c COLS] [-n TOKENS] [-m MIB] [-i]
 *
 * Prints CSV. Without -k: every table that this machine can run; without -q: every type; without
 * -n: 1 and 64 tokens. Each row is measured on a matrix of MIB (default 1024, larger than last-level
 * caches) and, for one token, also on one of 256 KiB, which stays in the core's own cache and so
 * shows the arithmetic alone. The first rows are the machine's stream bandwidth: reading the same
 * number of bytes with nothing but additions. -i counts instead of measuring: instructions per 256
 * weights of one token, by single steps through a child process (x86-64 and arm64 Linux), so the
 * figures are exact and the same on a busy machine.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/clock.h"
#include "base/thread.h"

#define ROWS_PER_TASK 64u
#define MIN_NS        200000000u /* per measurement; the best of at least three passes counts */

typedef struct job {
    const rl_cpu_kernels *k;
    rl_cpu_matrix w;
    rl_cpu_act act;
    uint32_t n;
    float *y;
} job;

static void job_task(void *arg, uint32_t index, uint32_t thread)
{
    (void)thread;
    job *j = arg;
    uint32_t first = index * ROWS_PER_TASK;
    uint32_t end = first + ROWS_PER_TASK < j->w.rows ? first + ROWS_PER_TASK : j->w.rows;
    rl_cpu_matmul(j->k, &j->w, &j->act, NULL, j->n, first, end, j->y, j->w.rows);
}

static uint64_t state = 1;

static uint64_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fill(uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t bits = random_bits();
        memcpy(data + i, &bits, 8);
    }
}

/* Any codes, but scales that are ordinary numbers: subnormal products would take extra time. A byte
 * of 0x30 to 0x3f on top makes an f16 or f32 below 2 that is not subnormal. */
static void tame(const rl_quant_info *info, uint8_t *data, size_t bytes)
{
    uint32_t first = 1, second = 1; /* offsets of the top bytes of d and of its companion */
    switch (info->type) {
    case RL_QUANT_F32: first = second = 3; break;
    case RL_QUANT_Q4_1:
    case RL_QUANT_Q5_1:
    case RL_QUANT_Q4_K:
    case RL_QUANT_Q5_K: second = 3; break;
    case RL_QUANT_Q2_K: first = 81, second = 83; break;
    case RL_QUANT_Q8_K: first = second = 3; break;
    case RL_QUANT_Q3_K:
    case RL_QUANT_Q6_K:
    case RL_QUANT_IQ1_M: /* the top nibble of the last scale word is that of d */
    case RL_QUANT_TQ1_0:
    case RL_QUANT_TQ2_0: first = second = info->block_bytes - 1; break;
    case RL_QUANT_MXFP4:
    case RL_QUANT_NVFP4: first = second = 0; break;
    default: break;
    }
    for (size_t at = 0; at + info->block_bytes <= bytes; at += info->block_bytes) {
        data[at + first] = 0x30 | (data[at + first] & 0x0f);
        data[at + second] = 0x30 | (data[at + second] & 0x0f);
        if (info->type == RL_QUANT_MXFP4) data[at] += 0x40;
    }
}

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (size_t)rl_align_up(bytes, 64));
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

/* One thread is measured in its own processor time, so that a busy machine does not count. */
static uint64_t now_ns(const rl_pool *pool)
{
    struct timespec now;
    if (rl_pool_threads(pool) > 1) return rl_clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of the fastest pass over the whole matrix. */
static double best_ns(rl_pool *pool, job *j)
{
    uint64_t best = UINT64_MAX, spent = 0;
    for (int pass = 0; pass < 3 || spent < MIN_NS; pass++) {
        uint64_t start = now_ns(pool);
        rl_pool_run(pool, job_task, j, (j->w.rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
        uint64_t ns = now_ns(pool) - start;
        if (pass && ns < best) best = ns; /* the first pass warms up */
        spent += ns;
    }
    return (double)best;
}

typedef struct setting {
    const char *table, *type;
    uint32_t threads, cols, tokens;
    size_t bytes;
    bool counts;
} setting;

static void measure(rl_pool *pool, const setting *s, const rl_cpu_kernels *k,
                    const rl_quant_info *info, uint8_t *data, size_t bytes, uint32_t n,
                    const char *where)
{
    tame(info, data, bytes);
    size_t row_bytes = (size_t)s->cols / info->block * info->block_bytes;
    job j = { .k = k, .n = n };
    j.w = (rl_cpu_matrix){ .type = info->type,
                           .cols = s->cols,
                           .row_bytes = row_bytes,
                           .rows = (uint32_t)(bytes / row_bytes),
                           .data = data };
    uint32_t formats = rl_cpu_act_format(k, info->type);
    void *storage = take(rl_cpu_act_bytes(formats, s->cols, n));
    float *x = take(s->cols * sizeof *x);
    for (uint32_t i = 0; i < s->cols; i++)
        x[i] = (float)(int64_t)random_bits() * 0x1p-63f;
    rl_cpu_act_init(&j.act, formats, s->cols, n, storage);
    for (uint32_t t = 0; t < n; t++)
        rl_cpu_prepare(k, &j.act, t, 1, x, 0);
    j.y = take((size_t)n * j.w.rows * sizeof *j.y);
    double ns = best_ns(pool, &j);
    double weights = (double)j.w.rows * s->cols;
    printf("%s,%s,%u,%u,%s,%.1f,%.2f,%.2f\n", k->name, info->name, n, rl_pool_threads(pool), where,
           ns / weights * 1000, (double)row_bytes * j.w.rows / ns, weights * n / ns);
    fflush(stdout);
    free(j.y);
    free(x);
    free(storage);
}

/* Instructions of one product of `rows` rows; -1: this process may not trace another. */
static long instructions(const job *j, uint32_t rows)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        rl_cpu_matmul(j->k, &j->w, &j->act, NULL, j->n, 0, rows, j->y, j->w.rows);
        raise(SIGUSR1);
        _exit(0);
    }
    int status = 0;
    long n = 0;
    if (child < 0) return -1;
    waitpid(child, &status, 0);
    while (n >= 0 && WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1) {
        n = ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) ? -1 : n + 1;
        if (n >= 0) waitpid(child, &status, 0);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return n;
}

/* What 8 more rows take, so that entry and exit do not count. */
static void count(const setting *s, const rl_cpu_kernels *k, const rl_quant_info *info,
                  uint8_t *data)
{
    uint32_t formats = rl_cpu_act_format(k, info->type);
    tame(info, data, 64 << 10);
    job j = { .k = k, .n = 1 };
    j.w = (rl_cpu_matrix){ .type = info->type,
                           .rows = 16,
                           .cols = s->cols,
                           .data = data,
                           .row_bytes = (size_t)s->cols / info->block * info->block_bytes };
    void *storage = take(rl_cpu_act_bytes(formats, s->cols, 1));
    float *x = take(s->cols * sizeof *x), y[16];
    for (uint32_t i = 0; i < s->cols; i++)
        x[i] = 1;
    rl_cpu_act_init(&j.act, formats, s->cols, 1, storage);
    rl_cpu_prepare(k, &j.act, 0, 1, x, s->cols);
    j.y = y;
    long some = instructions(&j, 8), more = instructions(&j, 16);
    if (some < 0 || more < 0) {
        fprintf(stderr, "bench_cpu: this process may not trace a child\n");
        exit(1);
    }
    printf("%s,%s,%.1f\n", k->name, info->name, (double)(more - some) * 256 / (8.0 * s->cols));
    fflush(stdout);
    free(x);
    free(storage);
}

int main(int argc, char **argv)
{
    setting s = { .threads = rl_cpu_count(), .cols = 2048, .bytes = 1024u << 20 };
    for (int c; (c = getopt(argc, argv, "t:k:q:c:n:m:i")) != -1;) {
        switch (c) {
        case 't': s.threads = (uint32_t)atoi(optarg); break;
        case 'k': s.table = optarg; break;
        case 'q': s.type = optarg; break;
        case 'c': s.cols = (uint32_t)atoi(optarg); break;
        case 'n': s.tokens = (uint32_t)atoi(optarg); break;
        case 'm': s.bytes = (size_t)atoi(optarg) << 20; break;
        case 'i': s.counts = true; break;
        default: return 2;
        }
    }
    if (s.counts) s.bytes = 2u << 20;
    rl_error err;
    rl_pool *pool = NULL, *alone = NULL;
    if (rl_pool_create(&pool, s.threads, &err) || rl_pool_create(&alone, 1, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uint8_t *data = aligned_alloc(2u << 20, (size_t)rl_align_up(s.bytes, 2u << 20));
    if (!data) return 1;
#ifdef MADV_HUGEPAGE
    madvise(data, s.bytes, MADV_HUGEPAGE); /* as the backend does */
#endif
    fill(data, s.bytes);
    puts(s.counts ? "table,type,instructions_per_256_weights"
                  : "table,type,tokens,threads,where,ns_per_1k_weights,gb_s,gmac_s");
    const rl_quant_info *f32 = rl_quant_find(RL_QUANT_F32);
    for (uint32_t i = rl_cpu_kernels_count();
         i--;) { /* F32 rows of the best table are the stream */
        const rl_cpu_kernels *k = rl_cpu_kernels_at(i);
        if (!k || s.counts) continue;
        measure(alone, &s, k, f32, data, s.bytes, 1, "stream");
        if (s.threads > 1) measure(pool, &s, k, f32, data, s.bytes, 1, "stream");
        break;
    }
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        const rl_cpu_kernels *k = rl_cpu_kernels_at(i);
        if (!k || (s.table ? strcmp(s.table, k->name) : !strcmp(k->name, "exact"))) continue;
        for (uint32_t t = 0; t < rl_quant_count(); t++) {
            const rl_quant_info *info = rl_quant_at(t);
            if ((s.type && info != rl_quant_find_name(s.type)) || s.cols % info->block) continue;
            if (s.counts) {
                count(&s, k, info, data);
                continue;
            }
            if (!s.tokens || s.tokens == 1) {
                measure(alone, &s, k, info, data, 256 << 10, 1, "cache");
                measure(pool, &s, k, info, data, s.bytes, 1, "memory");
            }
            if (s.tokens != 1)
                measure(alone, &s, k, info, data, 256 << 10, s.tokens ? s.tokens : 64, "cache");
        }
    }
    free(data);
    rl_pool_destroy(pool);
    rl_pool_destroy(alone);
    return 0;
}
