/* preload.c - every expert, in file order, in large pieces.
 *
 * The ranges of all requests are sorted by their place in the files and gathered into chunks of
 * neighbours; a chunk is one read into one buffer, from which its ranges are handed out. A range
 * never spans two chunks, so that fill functions always see it whole. */
#include "cache/preload.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"

#define MAX_GAP           (64 * 1024) /* reading over so many bytes is cheaper than a new read */
#define PROGRESS_EVERY_NS 100000000u

/* One part of one expert, by its place. */
typedef struct piece {
    uint64_t offset;
    uint32_t file;
    uint32_t request;
    uint32_t part;
} piece;

/* What is in flight in one buffer: pieces[first .. end). The reader's tag is the index. */
typedef struct chunk {
    uint32_t first, end;
    bool busy;
} chunk;

typedef struct preload {
    const rl_preload_params *params;
    rl_reader *reader;
    piece *pieces;
    uint32_t n_pieces, next_piece;
    uint8_t *n_open; /* [n_requests] parts that have not come */
    chunk *chunks;   /* [depth] */
    uint32_t depth;
    size_t chunk_bytes;
    rl_preload_progress progress;
    uint64_t start_ns, told_ns, window_ns, window_bytes;
    double rate; /* of the last full window; 0 before */
} preload;

static int by_place(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static const rl_stream_range *range_of(const preload *p, uint32_t i)
{
    return &p->params->requests[p->pieces[i].request].parts[p->pieces[i].part];
}

static rl_status prepare(preload *p, rl_error *err)
{
    const rl_preload_params *params = p->params;
    uint64_t n = 0;
    for (uint32_t i = 0; i < params->n_requests; i++)
        n += params->requests[i].n_parts;
    p->depth = params->depth ? params->depth : RL_PRELOAD_DEPTH;
    p->chunk_bytes = params->chunk_bytes ? params->chunk_bytes : RL_PRELOAD_CHUNK_BYTES;
    p->pieces = calloc(n ? n : 1, sizeof *p->pieces);
    p->n_open = calloc(params->n_requests + 1u, sizeof *p->n_open);
    p->chunks = calloc(p->depth, sizeof *p->chunks);
    if (!p->pieces || !p->n_open || !p->chunks)
        return rl_fail(err, RL_NOMEM, "no memory to load %u experts", params->n_requests);
    for (uint32_t i = 0; i < params->n_requests; i++) {
        const rl_stream_request *request = &params->requests[i];
        RL_ASSERT(request->n_parts >= 1 && request->n_parts <= RL_STREAM_PARTS);
        p->n_open[i] = (uint8_t)request->n_parts;
        for (uint32_t part = 0; part < request->n_parts; part++) {
            const rl_stream_range *range = &request->parts[part];
            RL_ASSERT(range->file < params->n_files && range->bytes);
            RL_ASSERT(range->into || params->fill);
            p->pieces[p->n_pieces++] = (piece){ range->offset, range->file, i, part };
            p->progress.total_bytes += range->bytes;
            if (range->bytes > p->chunk_bytes) p->chunk_bytes = range->bytes;
        }
    }
    qsort(p->pieces, p->n_pieces, sizeof *p->pieces, by_place);
    p->progress.n_requests = params->n_requests;
    return rl_reader_create(&p->reader,
                            &(rl_reader_params){ .files = params->files,
                                                 .n_files = params->n_files,
                                                 .io = params->io,
                                                 .driver = params->driver,
                                                 .depth = p->depth,
                                                 .n_buffers = p->depth,
                                                 .range_bytes = p->chunk_bytes,
                                                 .fault = params->fault,
                                                 .fault_context = params->fault_context },
                            err);
}

/* Starts the read of the next neighbours into buffer `b`. */
static void start_chunk(preload *p, uint32_t b)
{
    uint32_t first = p->next_piece, end = first;
    const piece *head = &p->pieces[first];
    uint64_t reach = head->offset;
    for (; end < p->n_pieces; end++) {
        const piece *next = &p->pieces[end];
        uint64_t next_end = next->offset + range_of(p, end)->bytes;
        if (next->file != head->file || next->offset > reach + MAX_GAP) break;
        if (next_end - head->offset > p->chunk_bytes) break;
        if (next_end > reach) reach = next_end;
    }
    p->chunks[b] = (chunk){ .first = first, .end = end, .busy = true };
    p->next_piece = end;
    rl_reader_start(p->reader, &(rl_reader_read){ .tag = b,
                                                  .file = head->file,
                                                  .offset = head->offset,
                                                  .bytes = (size_t)(reach - head->offset),
                                                  .buffer = b });
}

/* Hands out what lies in a chunk. */
static rl_status hand_out(preload *p, const chunk *c, const uint8_t *data, rl_error *err)
{
    const rl_preload_params *params = p->params;
    for (uint32_t i = c->first; i < c->end; i++) {
        const piece *here = &p->pieces[i];
        const rl_stream_request *request = &params->requests[here->request];
        const rl_stream_range *range = range_of(p, i);
        const uint8_t *bytes = data + (here->offset - p->pieces[c->first].offset);
        if (range->into) {
            memcpy(range->into, bytes, range->bytes);
        } else {
            rl_status status = params->fill(params->context, request->key, request->slot,
                                            here->part, bytes, range->bytes, err);
            if (status) return status;
        }
        p->progress.done_bytes += range->bytes;
        if (--p->n_open[here->request]) continue;
        p->progress.n_loaded++;
        if (params->loaded) params->loaded(params->context, request->key, request->slot);
    }
    return RL_OK;
}

static rl_status tell(preload *p, bool last, rl_error *err)
{
    uint64_t now = rl_clock_ns();
    if (!p->params->progress || (!last && now - p->told_ns < PROGRESS_EVERY_NS)) return RL_OK;
    p->told_ns = now;
    p->progress.elapsed_ns = now - p->start_ns;
    if (now - p->window_ns >= 1000000000u) {
        p->rate =
            (double)(p->progress.done_bytes - p->window_bytes) * 1e9 / (double)(now - p->window_ns);
        p->window_ns = now;
        p->window_bytes = p->progress.done_bytes;
    }
    double overall = (double)p->progress.done_bytes * 1e9 / (double)(now - p->start_ns + 1);
    double rate = p->rate > 0 && !last ? p->rate : overall;
    uint64_t left = p->progress.total_bytes - p->progress.done_bytes;
    p->progress.bytes_per_s = rate;
    p->progress.remaining_s = rate > 0 ? (double)left / rate : 0;
    if (p->params->progress(p->params->context, &p->progress) || last) return RL_OK;
    return rl_fail(err, RL_INTERRUPTED, "loading was interrupted after %u of %u experts",
                   p->progress.n_loaded, p->progress.n_requests);
}

static rl_status read_everything(preload *p, rl_error *err)
{
    rl_status status = RL_OK;
    p->start_ns = p->told_ns = p->window_ns = rl_clock_ns();
    while (!status && (p->next_piece < p->n_pieces || rl_reader_in_flight(p->reader))) {
        for (uint32_t b = 0; b < p->depth && p->next_piece < p->n_pieces; b++)
            if (!p->chunks[b].busy) start_chunk(p, b);
        rl_reader_result result;
        if (!rl_reader_reap(p->reader, &result, 1, true)) break;
        chunk *c = &p->chunks[result.tag];
        c->busy = false;
        if (result.data) {
            status = hand_out(p, c, result.data, err);
        } else { /* named after the expert in which it happened */
            uint32_t i = c->first;
            while (i + 1 < c->end && p->pieces[i + 1].offset <= result.at)
                i++;
            status = rl_reader_fail(p->reader, p->pieces[i].file, &result,
                                    p->params->requests[p->pieces[i].request].key, err);
        }
        if (!status) status = tell(p, false, err);
    }
    if (!status) status = tell(p, true, err);
    return status;
}

rl_status rl_preload(const rl_preload_params *params, rl_error *err)
{
    RL_ASSERT(params && params->files && (params->requests || !params->n_requests));
    preload p = { .params = params };
    rl_status status = prepare(&p, err);
    if (!status) status = read_everything(&p, err);
    rl_reader_destroy(p.reader);
    free(p.pieces);
    free(p.n_open);
    free(p.chunks);
    return status;
}
