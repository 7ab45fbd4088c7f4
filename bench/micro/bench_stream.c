/* bench_stream.c - how fast experts come from the disk through cache/expert_stream.c.
 *
 *     bench_stream FILE [--part BYTES] [--parts N] [--io auto|direct|buffered]
 *                  [--driver auto|uring|threads] [--depth N] [--batch N] [--seconds S]
 *                  [--sink fill|into|straight] [--preload] [--chunk MIB]
 *
 * FILE is any large file. Experts of `parts` ranges of `part` bytes (defaults: 3 x 229,376, the IQ1_M
 * layers of the 80B model) are picked at random, each part in its own third of the file at a multiple
 * of 32, as in a model. --batch N: N experts are asked for together and awaited, as the misses of one
 * layer are; 0: the queue is kept full. One line: GB/s of payload and of whole blocks, experts per
 * second, median and 99th percentile of the time from asking to answer, share of time asleep in wait.
 * --preload: everything in file order instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "cache/preload.h"

enum { MAX_BATCH = 1024 };

typedef struct options {
    const char *path;
    size_t part;
    uint32_t n_parts, depth, batch;
    rl_io_mode io;
    rl_io_driver driver;
    double seconds;
    int sink; /* 0 fill, 1 into, 2 straight */
    bool preload;
    size_t chunk;
} options;

typedef struct bench {
    options o;
    rl_file *file;
    uint8_t *slots; /* [MAX_BATCH] of slot_bytes */
    size_t slot_bytes;
    uint64_t random;
    uint64_t asked_ns[MAX_BATCH];
    float *latency_us;
    uint32_t n_latency, capacity;
} bench;

static void die(const char *text)
{
    fprintf(stderr, "bench_stream: %s\n", text);
    exit(1);
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static rl_status fill(void *context, rl_expert_key key, rl_slot slot, uint32_t part,
                      const void *bytes, size_t n_bytes, rl_error *err)
{
    bench *b = context;
    (void)key;
    (void)err;
    memcpy(b->slots + slot.index * b->slot_bytes + part * (b->o.part + 8192), bytes, n_bytes);
    return RL_OK;
}

/* Where the tensor of part `p` begins: at a multiple of 32 that is none of 64. */
static uint64_t place(const bench *b, uint32_t p)
{
    return (rl_file_size(b->file) / b->o.n_parts * p & ~UINT64_C(4095)) + 32 * (2 * p + 5);
}

static rl_stream_request make_request(bench *b, uint32_t slot)
{
    rl_stream_request request = { .key = { 0, slot },
                                  .slot = { 0, slot },
                                  .n_parts = b->o.n_parts };
    uint64_t third = rl_file_size(b->file) / b->o.n_parts;
    uint64_t n = (third - b->o.part - 8192) / b->o.part, which = next_random(&b->random) % n;
    for (uint32_t p = 0; p < b->o.n_parts; p++) {
        rl_stream_range *range = &request.parts[p];
        uint8_t *at = b->slots + slot * b->slot_bytes + p * (b->o.part + 8192) + 4096;
        range->offset = place(b, p) + which * b->o.part;
        range->bytes = b->o.part;
        if (b->o.sink == 1) range->into = at + 32;
        if (b->o.sink == 2) {
            range->into = at + range->offset % 4096;
            range->slack = 4096;
        }
    }
    return request;
}

static void note_answer(bench *b, const rl_stream_done *done, const rl_error *err)
{
    if (done->status) die(err->text);
    if (b->n_latency < b->capacity)
        b->latency_us[b->n_latency++] =
            (float)(rl_clock_ns() - b->asked_ns[done->slot.index]) * 1e-3f;
}

static int by_value(const void *x, const void *y)
{
    float a = *(const float *)x, c = *(const float *)y;
    return (a > c) - (a < c);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void ask(bench *b, rl_stream *stream, uint32_t first, uint32_t n)
{
    static rl_stream_request requests[MAX_BATCH];
    for (uint32_t i = 0; i < n; i++) {
        requests[i] = make_request(b, first + i);
        b->asked_ns[first + i] = rl_clock_ns();
    }
    if (rl_stream_submit(stream, requests, n) != n) die("the stream is full");
}

static void run_stream(bench *b)
{
    rl_error err = { "" };
    rl_stream *stream = NULL;
    const rl_file *files[1] = { b->file };
    if (rl_stream_create(&stream,
                         &(rl_stream_params){ .files = files,
                                              .n_files = 1,
                                              .range_bytes = b->o.part,
                                              .io = b->o.io,
                                              .driver = b->o.driver,
                                              .depth = b->o.depth,
                                              .n_requests = MAX_BATCH,
                                              .fill = fill,
                                              .context = b },
                         &err))
        die(err.text);
    rl_reader_info info = rl_stream_get_info(stream);
    rl_stream_done done;
    uint64_t start = rl_clock_ns(), end = start + (uint64_t)(b->o.seconds * 1e9);
    double cpu = cpu_seconds();
    if (b->o.batch) {
        while (rl_clock_ns() < end) {
            ask(b, stream, 0, b->o.batch);
            while (rl_stream_wait(stream, &done, &err))
                note_answer(b, &done, &err);
        }
    } else {
        ask(b, stream, 0, 64);
        while (rl_stream_wait(stream, &done, &err)) {
            note_answer(b, &done, &err);
            if (rl_clock_ns() < end) ask(b, stream, done.slot.index, 1);
        }
    }
    double seconds = (double)(rl_clock_ns() - start) * 1e-9;
    rl_reader_figures f = rl_stream_get_figures(stream);
    qsort(b->latency_us, b->n_latency, sizeof *b->latency_us, by_value);
    printf("%-13s %-8s align %-4u depth %-3u batch %-3u %6.3f GB/s (%6.3f with whole blocks) "
           "%6.0f experts/s  median %7.0f us  p99 %7.0f us  asleep %3.0f %%  cpu %3.0f %%%s%s\n",
           info.driver, info.direct ? "direct" : "buffered", info.align,
           b->o.depth ? b->o.depth : RL_STREAM_DEPTH, b->o.batch, (double)f.bytes / seconds * 1e-9,
           (double)f.fetched / seconds * 1e-9, (double)f.reads / b->o.n_parts / seconds,
           b->n_latency ? b->latency_us[b->n_latency / 2] : 0,
           b->n_latency ? b->latency_us[(size_t)b->n_latency * 99 / 100] : 0,
           (double)f.wait_ns * 1e-7 / seconds, (cpu_seconds() - cpu) * 100 / seconds,
           info.registered ? " registered" : "", *info.note ? " (note)" : "");
    rl_stream_destroy(stream);
}

static bool show(void *context, const rl_preload_progress *p)
{
    bench *b = context;
    fprintf(stderr, "\r%5.1f %%  %.2f GB/s  %.0f s left ",
            100.0 * (double)p->done_bytes / (double)(p->total_bytes ? p->total_bytes : 1),
            p->bytes_per_s * 1e-9, p->remaining_s);
    if (p->done_bytes == p->total_bytes) fprintf(stderr, "\n");
    return (double)p->elapsed_ns * 1e-9 < b->o.seconds * 10;
}

static void run_preload(bench *b)
{
    rl_error err = { "" };
    const rl_file *files[1] = { b->file };
    uint64_t third = rl_file_size(b->file) / b->o.n_parts;
    uint32_t n = (uint32_t)((third - b->o.part - 8192) / b->o.part);
    rl_stream_request *requests = calloc(n, sizeof *requests);
    if (!requests) die("no memory");
    for (uint32_t i = 0; i < n; i++) {
        requests[i] = (rl_stream_request){ .key = { 0, i },
                                           .slot = { 0, i % MAX_BATCH },
                                           .n_parts = b->o.n_parts };
        for (uint32_t p = 0; p < b->o.n_parts; p++) {
            requests[i].parts[p].offset = place(b, p) + (uint64_t)i * b->o.part;
            requests[i].parts[p].bytes = b->o.part;
        }
    }
    uint64_t start = rl_clock_ns();
    double cpu = cpu_seconds();
    rl_status status = rl_preload(&(rl_preload_params){ .files = files,
                                                        .n_files = 1,
                                                        .io = b->o.io,
                                                        .driver = b->o.driver,
                                                        .chunk_bytes = b->o.chunk,
                                                        .depth = b->o.depth,
                                                        .requests = requests,
                                                        .n_requests = n,
                                                        .fill = fill,
                                                        .progress = show,
                                                        .context = b },
                                  &err);
    if (status) die(err.text);
    double seconds = (double)(rl_clock_ns() - start) * 1e-9;
    double bytes = (double)n * b->o.n_parts * (double)b->o.part;
    printf("preload chunk %zu depth %u: %.2f GB in %.2f s, %.3f GB/s, cpu %.0f %%\n", b->o.chunk,
           b->o.depth, bytes * 1e-9, seconds, bytes * 1e-9 / seconds,
           (cpu_seconds() - cpu) * 100 / seconds);
    free(requests);
}

static int choice(const char *text, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(text, names[i])) return i;
    die("unknown word for an option");
    return 0;
}

int main(int argc, char **argv)
{
    static bench b = { .o = { .part = 229376, .n_parts = 3, .batch = 10, .seconds = 4 } };
    options *o = &b.o;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (name[0] != '-') {
            o->path = name;
            continue;
        }
        if (!strcmp(name, "--preload")) {
            o->preload = true;
            continue;
        }
        if (++i == argc) die("an option without its value");
        const char *value = argv[i];
        if (!strcmp(name, "--part"))
            o->part = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--parts"))
            o->n_parts = (uint32_t)atoi(value);
        else if (!strcmp(name, "--depth"))
            o->depth = (uint32_t)atoi(value);
        else if (!strcmp(name, "--batch"))
            o->batch = (uint32_t)atoi(value);
        else if (!strcmp(name, "--seconds"))
            o->seconds = atof(value);
        else if (!strcmp(name, "--chunk"))
            o->chunk = strtoull(value, NULL, 10) << 20;
        else if (!strcmp(name, "--io"))
            o->io =
                (rl_io_mode)choice(value, (const char *[]){ "auto", "direct", "buffered", NULL });
        else if (!strcmp(name, "--driver"))
            o->driver =
                (rl_io_driver)choice(value, (const char *[]){ "auto", "uring", "threads", NULL });
        else if (!strcmp(name, "--sink"))
            o->sink = choice(value, (const char *[]){ "fill", "into", "straight", NULL });
        else
            die("unknown option");
    }
    if (!o->path || !o->part || o->n_parts < 1 || o->n_parts > RL_STREAM_PARTS ||
        o->batch > MAX_BATCH)
        die("usage: bench_stream FILE [options], see the head of bench_stream.c");
    rl_error err = { "" };
    if (rl_file_open(&b.file, o->path, &err)) die(err.text);
    if (rl_file_size(b.file) < 64 * (uint64_t)o->part * o->n_parts) die("the file is too small");
    b.random = rl_clock_ns();
    b.slot_bytes = (o->n_parts * (o->part + 8192) + 8191) & ~(size_t)4095;
    b.slots = aligned_alloc(4096, MAX_BATCH * b.slot_bytes);
    b.capacity = 1 << 20;
    b.latency_us = calloc(b.capacity, sizeof *b.latency_us);
    if (!b.slots || !b.latency_us) die("no memory");
    /* touch only what a run uses, outside of the clock */
    memset(b.slots, 1, (o->preload ? MAX_BATCH : o->batch > 64 ? o->batch : 64) * b.slot_bytes);
    if (o->preload)
        run_preload(&b);
    else
        run_stream(&b);
    rl_file_close(b.file);
    free(b.slots);
    free(b.latency_us);
    return 0;
}
