/* stream_reader.c - exact ranges of files, many in flight.
 *
 * Direct I/O needs offset, length and address in whole blocks. A range is widened to the blocks
 * around it; it may go straight to the caller's memory when that lies as the file does (address and
 * offset equal modulo the block) and has slack for the wider ends, otherwise to a bounce buffer.
 * Whatever direct I/O leaves short (the end of a file that is no whole block) or refuses is finished
 * through the ordinary descriptor, byte exact.
 *
 * Invariants
 *   - n_flight operations are with the driver; free operations stand in the free list
 *   - an operation's memory belongs to the driver until its result has come */
#include "cache/stream_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cache/stream_driver.h"

#define BUFFER_ALIGN 4096
#define MAX_RETRIES  64         /* interrupted or starved this often in a row: it is an error */
#define MAX_CALL     (1u << 30) /* bytes of one system call */
#define SAMPLES      64 /* places at which a file is asked whether it is in the page cache */

typedef struct source {
    const rl_file *file;
    int direct; /* second descriptor, -1 when there is none */
    uint64_t size;
    struct timespec modified;
    struct timespec seen; /* by the last check */
} source;

typedef struct operation {
    rl_reader_read read;
    uint8_t *base;  /* where the byte at file offset `start` lands                  */
    uint64_t start; /* read.offset, or the block it lies in                         */
    size_t total;   /* bytes that the driver is asked for, from `start`             */
    size_t need;    /* bytes from `start` to the end of the range                   */
    size_t done;    /* bytes from `start` that are there                            */
    uint32_t asked; /* bytes of the present system call                             */
    uint32_t next;  /* free list                                                    */
    uint32_t retries;
    bool direct;
} operation;

struct rl_reader {
    source *sources; /* [n_sources] */
    uint32_t n_sources;
    uint32_t depth;
    uint32_t align; /* 1 when buffered */
    const rl_stream_driver *driver;
    void *state; /* the driver's */
    uint8_t *buffers;
    uint32_t n_buffers;
    size_t buffer_bytes;
    operation *operations; /* [depth] */
    uint32_t free;
    uint32_t n_flight;
    bool unflushed;
    rl_read_fault fault;
    void *fault_context;
    uint64_t busy_since;
    rl_reader_figures figures;
    char note[256];
};

/* ---- opening ----------------------------------------------------------------------------------- */

/* A second descriptor of the same open file; -1 with errno when direct I/O is not to be had. */
static int open_direct(const rl_file *file)
{
#ifdef O_DIRECT
    char link[64];
    struct stat ours, theirs;
    snprintf(link, sizeof link, "/proc/self/fd/%d", rl_file_descriptor(file));
    int descriptor = open(link, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor < 0 && errno == ENOENT) /* no /proc: by its name, if it still is the same file */
        descriptor = open(rl_file_path(file), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &ours) || fstat(rl_file_descriptor(file), &theirs) ||
        ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino) {
        close(descriptor);
        errno = ESTALE;
        return -1;
    }
    return descriptor;
#else
    (void)file;
    errno = EOPNOTSUPP;
    return -1;
#endif
}

/* The smallest block that direct reads of this descriptor accept, found by trying; 0: none. */
static uint32_t probe_align(int descriptor, uint8_t *scratch)
{
    for (uint32_t align = 512; align <= BUFFER_ALIGN; align *= 8)
        if (pread(descriptor, scratch + align, align, 0) >= 0) return align;
    return 0;
}

static void close_direct(rl_reader *reader)
{
    for (uint32_t i = 0; i < reader->n_sources; i++) {
        if (reader->sources[i].direct >= 0) close(reader->sources[i].direct);
        reader->sources[i].direct = -1;
    }
    reader->align = 1;
}

/* All files or none: mixed modes would make every figure meaningless. */
static rl_status try_direct(rl_reader *reader, bool forced, rl_error *err)
{
    uint8_t *scratch = NULL;
    if (posix_memalign((void **)&scratch, BUFFER_ALIGN, 2 * BUFFER_ALIGN))
        return rl_fail(err, RL_NOMEM, "no memory to prepare reading");
    rl_status status = RL_OK;
    for (uint32_t i = 0; i < reader->n_sources && !status; i++) {
        source *s = &reader->sources[i];
        s->direct = open_direct(s->file);
        int why = errno;
        uint32_t align = s->direct < 0 ? 0 : probe_align(s->direct, scratch);
        if (s->direct >= 0 && !align) why = errno;
        if (align > reader->align) reader->align = align;
        if (align) continue;
        close_direct(reader);
        if (forced)
            status = rl_fail(err, RL_UNSUPPORTED, "%s: direct I/O is not possible here: %s",
                             rl_file_path(s->file), strerror(why));
        else
            snprintf(reader->note, sizeof reader->note,
                     "direct I/O is refused (%s): reading through the page cache", strerror(why));
        break;
    }
    free(scratch);
    return status;
}

/* Whether nine tenths of the files lie in the page cache already, by sampling. */
static bool files_are_cached(const rl_reader *reader, uint64_t total)
{
#ifdef RWF_NOWAIT
    uint32_t n_cached = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t at = total / SAMPLES * i;
        uint32_t f = 0;
        while (f + 1 < reader->n_sources && at >= reader->sources[f].size)
            at -= reader->sources[f++].size;
        uint8_t byte;
        struct iovec vector = { &byte, 1 };
        int descriptor = rl_file_descriptor(reader->sources[f].file);
        n_cached += preadv2(descriptor, &vector, 1, (off_t)at, RWF_NOWAIT) == 1;
    }
    return n_cached * 10 >= SAMPLES * 9;
#else
    (void)reader;
    (void)total;
    return false;
#endif
}

static rl_status open_sources(rl_reader *reader, const rl_reader_params *params, rl_error *err)
{
    uint64_t total = 0;
    reader->sources = calloc(params->n_files, sizeof *reader->sources);
    if (!reader->sources) return rl_fail(err, RL_NOMEM, "no memory to prepare reading");
    for (uint32_t i = 0; i < params->n_files; i++) {
        struct stat info;
        source *s = &reader->sources[reader->n_sources++];
        *s = (source){ .file = params->files[i], .direct = -1 };
        s->size = rl_file_size(s->file);
        if (!fstat(rl_file_descriptor(s->file), &info)) s->modified = s->seen = info.st_mtim;
        total += s->size;
    }
    reader->align = 1;
    if (params->io == RL_IO_BUFFERED) return RL_OK;
    if (params->io == RL_IO_AUTO &&
        (params->page_cache_bytes >= total || files_are_cached(reader, total)))
        return RL_OK;
    return try_direct(reader, params->io == RL_IO_DIRECT, err);
}

static rl_status open_driver(rl_reader *reader, const rl_reader_params *params, rl_error *err)
{
    rl_driver_params driver = { .depth = params->depth,
                                .buffers = reader->buffers,
                                .n_buffers = reader->n_buffers,
                                .buffer_bytes = reader->buffer_bytes };
#ifdef RL_HAVE_URING
    /* Through the page cache threads are faster: they copy beside each other and beside the owner,
     * where io_uring would copy on the owner's time (docs/decisions, streaming). */
    bool threads = params->driver == RL_IO_DRIVER_THREADS ||
                   (params->driver == RL_IO_DRIVER_AUTO && reader->align == 1);
    if (!threads) {
        rl_error why = { "" };
        reader->driver = &rl_stream_uring;
        rl_status status = reader->driver->open(&reader->state, &driver, &why);
        if (!status) return RL_OK;
        if (status != RL_UNSUPPORTED || params->driver == RL_IO_DRIVER_URING)
            return rl_fail(err, status, "%s", why.text);
        size_t used = strlen(reader->note);
        snprintf(reader->note + used, sizeof reader->note - used, "%s%.160s: threads read instead",
                 used ? "; " : "", why.text);
    }
#else
    if (params->driver == RL_IO_DRIVER_URING)
        return rl_fail(err, RL_UNSUPPORTED, "io_uring is not in this build");
#endif
    reader->driver = &rl_stream_threads;
    return reader->driver->open(&reader->state, &driver, err);
}

rl_status rl_reader_create(rl_reader **out, const rl_reader_params *params, rl_error *err)
{
    RL_ASSERT(out && params && params->files && params->n_files);
    RL_ASSERT(params->depth >= 1 && params->depth <= 1024);
    RL_ASSERT(!params->n_buffers || params->range_bytes);
    *out = NULL;
    rl_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return rl_fail(err, RL_NOMEM, "no memory to prepare reading");
    rl_status status = open_sources(reader, params, err);
    if (status) goto done;

    reader->depth = params->depth;
    reader->fault = params->fault;
    reader->fault_context = params->fault_context;
    reader->operations = calloc(params->depth, sizeof *reader->operations);
    if (!reader->operations) goto no_memory;
    for (uint32_t i = 0; i < params->depth; i++)
        reader->operations[i].next = i + 1;
    if (params->n_buffers) {
        uint64_t bytes = 0, all = 0;
        if (!rl_add_u64(params->range_bytes, 3 * BUFFER_ALIGN, &bytes)) goto no_memory;
        bytes &= ~(uint64_t)(BUFFER_ALIGN - 1);
        if (!rl_mul_u64(bytes, params->n_buffers, &all) || all > SIZE_MAX) goto no_memory;
        if (posix_memalign((void **)&reader->buffers, BUFFER_ALIGN, (size_t)all)) {
            reader->buffers = NULL;
            goto no_memory;
        }
        reader->n_buffers = params->n_buffers;
        reader->buffer_bytes = (size_t)bytes;
    }
    status = open_driver(reader, params, err);
    if (status) goto done;
    *out = reader;
    reader = NULL;
    goto done;

no_memory:
    status = rl_fail(err, RL_NOMEM, "no memory for %u read buffers of %zu bytes", params->n_buffers,
                     params->range_bytes);
done:
    rl_reader_destroy(reader);
    return status;
}

void rl_reader_destroy(rl_reader *reader)
{
    if (!reader) return;
    if (reader->state) {
        rl_reader_result results[16];
        while (reader->n_flight)
            rl_reader_reap(reader, results, 16, true);
        reader->driver->close(reader->state);
    }
    close_direct(reader);
    free(reader->sources);
    free(reader->buffers);
    free(reader->operations);
    free(reader);
}

/* ---- reading ----------------------------------------------------------------------------------- */

bool rl_reader_needs_buffer(const rl_reader *reader, const rl_reader_read *read)
{
    if (!read->into) return true;
    if (reader->align == 1) return false;
    uint64_t mask = reader->align - 1;
    uint64_t head = read->offset & mask;
    uint64_t tail = (0 - (read->offset + read->bytes)) & mask;
    return (((uintptr_t)read->into - head) & mask) || head > read->slack || tail > read->slack;
}

/* Hands the rest of an operation to the driver. */
static void carry_on(rl_reader *reader, uint32_t number)
{
    operation *op = &reader->operations[number];
    const source *s = &reader->sources[op->read.file];
    size_t left = (op->direct ? op->total : op->need) - op->done;
    op->asked = left < MAX_CALL ? (uint32_t)left : MAX_CALL;
    bool buffered_memory = op->read.buffer != RL_NO_BUFFER;
    reader->driver->start(
        reader->state,
        &(rl_driver_read){ .descriptor = op->direct ? s->direct : rl_file_descriptor(s->file),
                           .tag = number,
                           .to = op->base + op->done,
                           .buffer = buffered_memory ? (int32_t)op->read.buffer : -1,
                           .bytes = op->asked,
                           .offset = op->start + op->done });
    reader->unflushed = true;
}

void rl_reader_start(rl_reader *reader, const rl_reader_read *read)
{
    RL_ASSERT(reader->n_flight < reader->depth && read->bytes);
    RL_ASSERT(read->file < reader->n_sources);
    uint32_t number = reader->free;
    operation *op = &reader->operations[number];
    reader->free = op->next;
    bool bounce = rl_reader_needs_buffer(reader, read);
    uint64_t mask = reader->align - 1, head = read->offset & mask;
    *op = (operation){ .read = *read, .start = read->offset - head };
    op->direct = reader->align > 1;
    op->need = (size_t)head + read->bytes;
    op->total = (op->need + mask) & ~(size_t)mask;
    if (bounce) {
        RL_ASSERT(read->buffer < reader->n_buffers && op->total <= reader->buffer_bytes);
        op->base = reader->buffers + read->buffer * reader->buffer_bytes;
    } else {
        op->read.buffer = RL_NO_BUFFER;
        op->base = (uint8_t *)read->into - head;
    }
    if (!reader->n_flight++) reader->busy_since = rl_clock_ns();
    carry_on(reader, number);
}

void rl_reader_flush(rl_reader *reader)
{
    if (reader->unflushed) reader->driver->flush(reader->state);
    reader->unflushed = false;
}

/* Believes one result of the driver. True when the operation has ended; then *out says how. */
static bool take_result(rl_reader *reader, uint32_t number, int32_t result, rl_reader_result *out)
{
    operation *op = &reader->operations[number];
    if (reader->fault)
        result = reader->fault(reader->fault_context, op->read.file, op->start + op->done,
                               op->asked, result);
    *out = (rl_reader_result){ .tag = op->read.tag, .at = op->start + op->done };
    if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
        /* cancelled: the thread that had submitted it has ended, the read has not */
        if (++op->retries > MAX_RETRIES) {
            out->error = -result;
            return true;
        }
    } else if (result < 0) {
        bool refused = result == -EINVAL || result == -EOPNOTSUPP || result == -EFAULT;
        if (!op->direct || !refused) {
            out->error = -result;
            return true;
        }
        op->direct = false; /* this memory or this offset does not suit direct I/O after all */
    } else {
        op->done += (size_t)result;
        op->retries = 0;
        reader->figures.fetched += (uint64_t)result;
        if (op->done >= op->need) {
            out->data = op->base + (op->read.offset - op->start);
            return true;
        }
        out->at += (uint64_t)result;
        if (result == 0 && !op->direct) return true; /* the end of the file */
        op->direct = false;                          /* short: what is left may begin anywhere */
    }
    reader->figures.retries++;
    carry_on(reader, number);
    return false;
}

uint32_t rl_reader_reap(rl_reader *reader, rl_reader_result *results, uint32_t max, bool wait)
{
    rl_driver_result raw[32];
    uint32_t n = 0;
    rl_reader_flush(reader);
    while (reader->n_flight && n < max) {
        bool sleep = wait && !n;
        uint32_t room = max - n < RL_COUNT_OF(raw) ? max - n : (uint32_t)RL_COUNT_OF(raw);
        uint64_t before = sleep ? rl_clock_ns() : 0;
        uint32_t n_raw = reader->driver->reap(reader->state, raw, room, sleep);
        if (sleep) reader->figures.wait_ns += rl_clock_ns() - before;
        for (uint32_t i = 0; i < n_raw; i++) {
            operation *op = &reader->operations[raw[i].tag];
            if (!take_result(reader, raw[i].tag, raw[i].result, &results[n])) continue;
            n++;
            reader->figures.reads++;
            reader->figures.placed += op->read.buffer == RL_NO_BUFFER;
            reader->figures.bytes += op->read.bytes;
            op->next = reader->free;
            reader->free = raw[i].tag;
            if (!--reader->n_flight) reader->figures.busy_ns += rl_clock_ns() - reader->busy_since;
        }
        rl_reader_flush(reader);
        if (!n_raw) break;
    }
    return n;
}

/* ---- what there is to say ---------------------------------------------------------------------- */

rl_status rl_reader_fail(const rl_reader *reader, uint32_t file, const rl_reader_result *result,
                         rl_expert_key key, rl_error *err)
{
    const rl_file *origin = reader->sources[file].file;
    const char *path = rl_file_path(origin);
    struct stat info;
    uint64_t end = result->at;
    if (result->error)
        return rl_fail(err, RL_IO, "%s: reading expert %u of layer %u failed at byte %llu: %s",
                       path, key.expert, key.layer, (unsigned long long)result->at,
                       strerror(result->error));
    if (!fstat(rl_file_descriptor(origin), &info) && (uint64_t)info.st_size < end)
        end = (uint64_t)info.st_size;
    return rl_fail(err, RL_IO,
                   "%s: the file ends at byte %llu, before the end of expert %u of layer %u", path,
                   (unsigned long long)end, key.expert, key.layer);
}

rl_status rl_reader_check_files(rl_reader *reader, rl_error *err)
{
    for (uint32_t i = 0; i < reader->n_sources; i++) {
        source *s = &reader->sources[i];
        struct stat info;
        if (fstat(rl_file_descriptor(s->file), &info))
            return rl_fail(err, RL_IO, "%s: cannot look at it any more: %s", rl_file_path(s->file),
                           strerror(errno));
        s->seen = info.st_mtim;
        if ((uint64_t)info.st_size != s->size || info.st_mtim.tv_sec != s->modified.tv_sec ||
            info.st_mtim.tv_nsec != s->modified.tv_nsec)
            return rl_fail(err, RL_IO, "%s: the file was changed while it was in use",
                           rl_file_path(s->file));
    }
    return RL_OK;
}

void rl_reader_accept_files(rl_reader *reader)
{
    for (uint32_t i = 0; i < reader->n_sources; i++)
        reader->sources[i].modified = reader->sources[i].seen;
}

rl_reader_info rl_reader_get_info(const rl_reader *reader)
{
    return (rl_reader_info){ .driver = reader->driver->name,
                             .direct = reader->align > 1,
                             .registered = reader->driver->registered(reader->state),
                             .align = reader->align,
                             .n_buffers = reader->n_buffers,
                             .buffer_bytes = (uint64_t)reader->n_buffers * reader->buffer_bytes,
                             .note = reader->note };
}

uint32_t rl_reader_in_flight(const rl_reader *reader)
{
    return reader->n_flight;
}

rl_reader_figures rl_reader_get_figures(const rl_reader *reader)
{
    rl_reader_figures figures = reader->figures;
    if (reader->n_flight) figures.busy_ns += rl_clock_ns() - reader->busy_since;
    return figures;
}
