/* expert_stream.c - fills reserved slots from the files.
 *
 * Requests wait in two queues (needed now, prefetch); their ranges are started in order, as far as
 * the depth and the bounce buffers reach. A range that has arrived is handed on at once, its buffer
 * is free again after that; a request is answered when its last range has ended, well or not.
 *
 * Invariants
 *   - a request is in exactly one place: free, a queue (ranges left to start), in flight (all
 *     started), or answered (waiting for poll)
 *   - n_open counts ranges that are started and have not ended; open_needed and open_ahead are the
 *     sums over all requests of either kind
 *   - a buffer belongs to one range in flight or stands in the free stack */
#include "cache/expert_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define NONE  UINT32_MAX
#define BLOCK 4096 /* of direct I/O, at most */

/* Ranges that may have landed and not been handed on yet: their reads' places in the queue are
 * given to the next ones before the copying begins, so that the disk is not idle meanwhile. */
#define LANDED 16

typedef struct request {
    rl_stream_request what;
    uint32_t next;      /* in its list                             */
    uint32_t n_started; /* parts started, from the front           */
    uint32_t n_open;
    bool queued; /* in one of the two queues                */
    rl_status status;
    rl_error error;
} request;

typedef struct list {
    uint32_t first, last;
} list;

/* What a range in flight needs when it lands; the reader's tag is the index. */
typedef struct range {
    uint32_t request;
    uint32_t part;
    uint32_t buffer; /* NONE: straight into the slot */
    uint32_t next;   /* free list */
} range;

struct rl_stream {
    rl_reader *reader;
    rl_stream_fill fill;
    void *context;
    size_t range_bytes;
    uint32_t depth;
    request *requests; /* [n_requests] */
    uint32_t n_requests, n_pending;
    uint32_t open_needed; /* ranges in flight, of requests needed now ... */
    uint32_t open_ahead;  /* ... and of prefetches                        */
    range *ranges;        /* [depth + LANDED] */
    uint32_t free_range;
    uint32_t *buffers; /* [n_buffers] the free ones, a stack */
    uint32_t n_free_buffers;
    list free, needed, prefetch, answered;
};

/* ---- lists of requests ------------------------------------------------------------------------- */

static void append(rl_stream *stream, list *to, uint32_t i)
{
    stream->requests[i].next = NONE;
    if (to->first == NONE)
        to->first = i;
    else
        stream->requests[to->last].next = i;
    to->last = i;
}

static uint32_t take_first(rl_stream *stream, list *from)
{
    uint32_t i = from->first;
    if (i != NONE) from->first = stream->requests[i].next;
    return i;
}

static void take_out(rl_stream *stream, list *from, uint32_t i)
{
    uint32_t before = NONE;
    for (uint32_t j = from->first; j != i; j = stream->requests[j].next)
        before = j;
    if (before == NONE)
        from->first = stream->requests[i].next;
    else
        stream->requests[before].next = stream->requests[i].next;
    if (from->last == i) from->last = before;
}

static uint32_t *open_of(rl_stream *stream, const request *r)
{
    return r->what.prefetch ? &stream->open_ahead : &stream->open_needed;
}

static list *queue_of(rl_stream *stream, uint32_t i)
{
    return stream->requests[i].what.prefetch ? &stream->prefetch : &stream->needed;
}

/* ---- create and destroy ------------------------------------------------------------------------ */

static size_t count_buffers(size_t range_bytes, size_t ring_bytes, uint32_t depth)
{
    size_t n = ring_bytes / (range_bytes + 3 * BLOCK);
    if (n < RL_STREAM_MIN_BUFFERS) n = RL_STREAM_MIN_BUFFERS;
    return n < depth + LANDED ? n : depth + LANDED;
}

uint64_t rl_stream_buffer_bytes(size_t range_bytes)
{
    return (uint64_t)count_buffers(range_bytes, RL_STREAM_RING_BYTES, RL_STREAM_DEPTH) *
           (range_bytes + 3 * BLOCK);
}

rl_status rl_stream_create(rl_stream **out, const rl_stream_params *params, rl_error *err)
{
    RL_ASSERT(out && params && params->range_bytes);
    *out = NULL;
    uint32_t depth = params->depth ? params->depth : RL_STREAM_DEPTH;
    size_t ring = params->ring_bytes ? params->ring_bytes : RL_STREAM_RING_BYTES;
    size_t n_buffers = count_buffers(params->range_bytes, ring, depth);
    rl_stream *stream = calloc(1, sizeof *stream);
    rl_status status = RL_OK;
    if (!stream) goto no_memory;
    stream->fill = params->fill;
    stream->context = params->context;
    stream->range_bytes = params->range_bytes;
    stream->depth = depth;
    stream->n_requests = params->n_requests ? params->n_requests : RL_STREAM_REQUESTS;
    stream->free = stream->needed = stream->prefetch = stream->answered = (list){ NONE, NONE };
    stream->requests = calloc(stream->n_requests, sizeof *stream->requests);
    stream->ranges = calloc(depth + LANDED, sizeof *stream->ranges);
    stream->buffers = calloc(n_buffers, sizeof *stream->buffers);
    if (!stream->requests || !stream->ranges || !stream->buffers) goto no_memory;
    for (uint32_t i = 0; i < stream->n_requests; i++)
        append(stream, &stream->free, i);
    for (uint32_t i = 0; i < depth + LANDED; i++)
        stream->ranges[i].next = i + 1 < depth + LANDED ? i + 1 : NONE;
    for (uint32_t i = 0; i < n_buffers; i++)
        stream->buffers[stream->n_free_buffers++] = i;
    status = rl_reader_create(&stream->reader,
                              &(rl_reader_params){ .files = params->files,
                                                   .n_files = params->n_files,
                                                   .io = params->io,
                                                   .driver = params->driver,
                                                   .page_cache_bytes = params->page_cache_bytes,
                                                   .depth = depth,
                                                   .n_buffers = (uint32_t)n_buffers,
                                                   .range_bytes = params->range_bytes,
                                                   .fault = params->fault,
                                                   .fault_context = params->fault_context },
                              err);
    if (status) goto done;
    *out = stream;
    stream = NULL;
    goto done;

no_memory:
    status = rl_fail(err, RL_NOMEM, "no memory for streaming experts");
done:
    rl_stream_destroy(stream);
    return status;
}

void rl_stream_destroy(rl_stream *stream)
{
    if (!stream) return;
    rl_reader_destroy(stream->reader); /* waits: the kernel may still write into our buffers */
    free(stream->requests);
    free(stream->ranges);
    free(stream->buffers);
    free(stream);
}

/* ---- the way of a request ---------------------------------------------------------------------- */

static void answer(rl_stream *stream, uint32_t i)
{
    RL_ASSERT(!stream->requests[i].n_open && !stream->requests[i].queued);
    append(stream, &stream->answered, i);
}

/* Starts the next part of request i; false when depth or buffers are used up. */
static bool start_part(rl_stream *stream, uint32_t i)
{
    request *r = &stream->requests[i];
    const rl_stream_range *part = &r->what.parts[r->n_started];
    uint32_t tag = stream->free_range;
    if (tag == NONE || rl_reader_in_flight(stream->reader) == stream->depth) return false;
    if (r->what.prefetch && stream->open_needed && stream->open_ahead >= RL_STREAM_AHEAD)
        return false;
    rl_reader_read read = { .tag = tag,
                            .file = part->file,
                            .offset = part->offset,
                            .bytes = part->bytes,
                            .into = part->into,
                            .slack = part->slack,
                            .buffer = RL_NO_BUFFER };
    if (rl_reader_needs_buffer(stream->reader, &read)) {
        if (!stream->n_free_buffers) return false;
        read.buffer = stream->buffers[--stream->n_free_buffers];
    }
    range *flight = &stream->ranges[tag];
    stream->free_range = flight->next;
    *flight = (range){ .request = i, .part = r->n_started, .buffer = read.buffer };
    r->n_started++;
    r->n_open++;
    ++*open_of(stream, r);
    rl_reader_start(stream->reader, &read);
    return true;
}

static void start_queue(rl_stream *stream, list *queue)
{
    while (queue->first != NONE) {
        uint32_t i = queue->first;
        request *r = &stream->requests[i];
        while (r->n_started < r->what.n_parts && !r->status)
            if (!start_part(stream, i)) return;
        take_first(stream, queue);
        r->queued = false;
        if (!r->n_open) answer(stream, i);
    }
}

static void start_more(rl_stream *stream)
{
    start_queue(stream, &stream->needed);
    if (stream->needed.first == NONE) start_queue(stream, &stream->prefetch);
    rl_reader_flush(stream->reader);
}

/* One range has ended: hand its bytes on, free what it held. */
static void land(rl_stream *stream, const rl_reader_result *result)
{
    uint32_t tag = result->tag;
    range *flight = &stream->ranges[tag];
    request *r = &stream->requests[flight->request];
    const rl_stream_range *part = &r->what.parts[flight->part];
    if (!result->data) {
        if (!r->status)
            r->status = rl_reader_fail(stream->reader, part->file, result, r->what.key, &r->error);
    } else if (!r->status && !part->into) {
        r->status = stream->fill(stream->context, r->what.key, r->what.slot, flight->part,
                                 result->data, part->bytes, &r->error);
    } else if (!r->status && result->data != part->into) {
        memcpy(part->into, result->data, part->bytes);
    }
    if (flight->buffer != NONE) stream->buffers[stream->n_free_buffers++] = flight->buffer;
    uint32_t i = flight->request;
    flight->next = stream->free_range;
    stream->free_range = tag;
    r->n_open--;
    --*open_of(stream, r);
    if (r->status && r->queued) {
        take_out(stream, queue_of(stream, i), i);
        r->queued = false;
    }
    if (!r->queued && !r->n_open) answer(stream, i);
}

/* Lands what has come; with `wait` until there is an answer or nothing is in flight. */
static void pump(rl_stream *stream, bool wait)
{
    rl_reader_result results[LANDED];
    start_more(stream);
    for (;;) {
        bool sleep = wait && stream->answered.first == NONE;
        uint32_t n = rl_reader_reap(stream->reader, results, LANDED, sleep);
        if (!n) return;
        start_more(stream); /* while we copy */
        for (uint32_t i = 0; i < n; i++)
            land(stream, &results[i]);
        start_more(stream);
        if (stream->answered.first != NONE && n < LANDED) return;
    }
}

uint32_t rl_stream_submit(rl_stream *stream, const rl_stream_request *requests, uint32_t n)
{
    uint32_t n_accepted = 0;
    for (; n_accepted < n; n_accepted++) {
        const rl_stream_request *what = &requests[n_accepted];
        RL_ASSERT(what->n_parts >= 1 && what->n_parts <= RL_STREAM_PARTS);
        for (uint32_t p = 0; p < what->n_parts; p++) {
            RL_ASSERT(what->parts[p].bytes && what->parts[p].bytes <= stream->range_bytes);
            RL_ASSERT(what->parts[p].into || stream->fill);
        }
        uint32_t i = take_first(stream, &stream->free);
        if (i == NONE) break;
        request *r = &stream->requests[i];
        r->what = *what;
        r->n_started = r->n_open = 0;
        r->status = RL_OK;
        r->queued = true;
        append(stream, queue_of(stream, i), i);
        stream->n_pending++;
    }
    start_more(stream);
    return n_accepted;
}

void rl_stream_promote(rl_stream *stream, rl_slot slot)
{
    for (uint32_t i = 0; i < stream->n_requests; i++) {
        request *r = &stream->requests[i];
        bool waits = r->queued || r->n_open;
        if (!waits || r->what.slot.class != slot.class || r->what.slot.index != slot.index)
            continue;
        if (!r->what.prefetch) return;
        if (r->queued) take_out(stream, &stream->prefetch, i);
        stream->open_ahead -= r->n_open;
        stream->open_needed += r->n_open;
        r->what.prefetch = false;
        if (r->queued) append(stream, &stream->needed, i);
        return;
    }
}

static void cancel_queue(rl_stream *stream, list *queue)
{
    uint32_t i;
    while ((i = take_first(stream, queue)) != NONE) {
        request *r = &stream->requests[i];
        r->queued = false;
        if (!r->status)
            r->status =
                rl_fail(&r->error, RL_INTERRUPTED, "reading expert %u of layer %u was cancelled",
                        r->what.key.expert, r->what.key.layer);
        if (!r->n_open) answer(stream, i);
    }
}

void rl_stream_cancel(rl_stream *stream, bool only_prefetch)
{
    cancel_queue(stream, &stream->prefetch);
    if (!only_prefetch) cancel_queue(stream, &stream->needed);
}

static bool take_answer(rl_stream *stream, rl_stream_done *done, rl_error *err)
{
    uint32_t i = take_first(stream, &stream->answered);
    if (i == NONE) return false;
    request *r = &stream->requests[i];
    *done = (rl_stream_done){
        .key = r->what.key, .slot = r->what.slot, .status = r->status, .prefetch = r->what.prefetch
    };
    for (uint32_t p = 0; p < r->what.n_parts && !r->status; p++)
        done->bytes += r->what.parts[p].bytes;
    if (r->status && err) *err = r->error;
    append(stream, &stream->free, i);
    stream->n_pending--;
    return true;
}

bool rl_stream_poll(rl_stream *stream, rl_stream_done *done, rl_error *err)
{
    if (stream->answered.first == NONE && stream->n_pending) pump(stream, false);
    return take_answer(stream, done, err);
}

bool rl_stream_wait(rl_stream *stream, rl_stream_done *done, rl_error *err)
{
    if (stream->n_pending) pump(stream, stream->answered.first == NONE);
    return take_answer(stream, done, err);
}

uint32_t rl_stream_pending(const rl_stream *stream)
{
    return stream->n_pending;
}

uint32_t rl_stream_room(const rl_stream *stream)
{
    return stream->n_requests - stream->n_pending;
}

uint32_t rl_stream_in_flight(const rl_stream *stream, bool prefetch)
{
    return prefetch ? stream->open_ahead : stream->open_needed;
}

rl_status rl_stream_check_files(rl_stream *stream, rl_error *err)
{
    return rl_reader_check_files(stream->reader, err);
}

void rl_stream_accept_files(rl_stream *stream)
{
    rl_reader_accept_files(stream->reader);
}

rl_reader_info rl_stream_get_info(const rl_stream *stream)
{
    return rl_reader_get_info(stream->reader);
}

rl_reader_figures rl_stream_get_figures(const rl_stream *stream)
{
    return rl_reader_get_figures(stream->reader);
}
