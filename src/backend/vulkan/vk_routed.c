/* vk_routed.c - one token in segments that are recorded once and submitted in several ways.
 *
 * docs/gpu-routing.md tells what a segment is. Here: their recording, and the routed, resumed and
 * gated ways; the synchronous way is route() and head() of vk_stages.c. The segments are recorded
 * twice, one by one and as a whole token, whose stages may wait for each other (vk_link.h) where those
 * of a segment have barriers: the same kernels in the same order, so all ways give the same bits.
 *
 * Gates are values of one timeline semaphore: of a token, gate_base + layer + 1 opens segment
 * layer + 1. The stream's own timeline tells how far the device is. */
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/vk_backend.h"
#include "base/assert.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        rl_status try_status = (call);                                                             \
        if (try_status) return try_status;                                                         \
    } while (0)

/* ---- times ------------------------------------------------------------------------------------------------ */

enum { MARKS_PER_LAYER = 8 };

/* Everything since the last mark was `stage`. */
static void mark_any(const rl_vk_recording *r, rl_stage stage)
{
    rl_vk_marks *m = r->marks;
    if (!m) return;
    RL_ASSERT(m->n < m->room);
    m->stages[m->n] = stage;
    rl_vk_timer_mark(&m->timer, r->cmd, m->n++);
}

/* The same for a stage of a layer. Linked stages overlap, so that there is no time between them. */
static void mark(const rl_vk_recording *r, rl_stage stage)
{
    if (!r->cmd->links.on) mark_any(r, stage);
}

static void marks_fini(rl_vk_marks *m)
{
    if (m->timer.device) rl_vk_timer_fini(&m->timer);
    free(m->stages);
    free(m->ns);
    *m = (rl_vk_marks){ 0 };
}

static rl_status marks_init(rl_vk_backend *vk, rl_vk_marks *m, rl_error *err)
{
    m->n = 0;
    if (m->timer.device) return RL_OK;
    marks_fini(m);
    m->room = MARKS_PER_LAYER * (vk->net->shape.n_layer + 2);
    m->stages = calloc(m->room, sizeof *m->stages);
    m->ns = calloc(m->room, sizeof *m->ns);
    if (!m->stages || !m->ns)
        return rl_fail(err, RL_NOMEM, "no memory for %u marks of time", m->room);
    return rl_vk_timer_init(&m->timer, vk->device, m->room, err);
}

/* A token whose times cannot be read is a token all the same: it goes uncounted. */
static void marks_read(rl_vk_backend *vk, rl_vk_marks *m)
{
    if (rl_vk_timer_read(&m->timer, m->n, m->ns, NULL)) return;
    for (uint32_t i = 1; i < m->n; i++)
        vk->stage_times->ns[m->stages[i]] += (uint64_t)(m->ns[i] - m->ns[i - 1]);
    vk->stage_times->n_tokens++;
}

/* ---- recording ---------------------------------------------------------------------------------------- */

/* The second half of the shared expert waits until here: beside the choice, it might see the halt
 * that the choice sets, and that is for later segments only. */
static rl_status record_experts(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_COUNTED);
    TRY(rl_vk_record_experts_up(r, layer, UINT32_MAX, err));
    TRY(rl_vk_record_shared_down(r, layer, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, RL_STAGE_EXPERTS);
    bool last = layer + 1 == r->vk->net->shape.n_layer;
    rl_vk_cmd_begin_stage(r->cmd, layer, last ? RL_VK_END_BARRIER : RL_VK_END_NUMBERED);
    TRY(rl_vk_record_experts_out(r, layer, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, RL_STAGE_MOE_OUT);
    if (last && r->cmd->links.on) mark_any(r, RL_STAGE_LAYERS);
    return RL_OK;
}

static rl_status record_mixer(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    bool recurrent = r->vk->net->layers[layer].recurrent;
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_NUMBERED);
    if (recurrent)
        TRY(rl_vk_record_delta_in(r, layer, err));
    else
        TRY(rl_vk_record_attn_in(r, layer, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, recurrent ? RL_STAGE_DELTA_IN : RL_STAGE_ATTN_IN);
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_NUMBERED);
    if (recurrent)
        TRY(rl_vk_record_delta_step(r, layer, err));
    else
        TRY(rl_vk_record_attn_step(r, layer, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, recurrent ? RL_STAGE_DELTA_STEP : RL_STAGE_ATTN_STEP);
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_NUMBERED);
    TRY(rl_vk_record_mix_out(r, layer, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, RL_STAGE_MIX_OUT);
    return RL_OK;
}

/* Router and choice, in one dispatch where that can be, and then one stage. The choice keeps one
 * workgroup busy, so the first half of the shared expert runs beside it, and the guess: also when the
 * choice halts the token just there, since it goes on behind that. */
static rl_status record_router(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    const rl_shape *s = &r->vk->net->shape;
    const uint64_t publish = r->choices + 4ull * layer * s->n_expert_used;
    bool ahead = r->guesses && layer + 1 < s->n_layer && r->vk->net->layers[layer + 1].guessed;
    bool one =
        rl_vk_record_can_choose(r, layer) && (!ahead || rl_vk_record_can_choose(r, layer + 1));
    RL_ASSERT(!r->cmd->links.on || (one && !ahead)); /* guesses have no numbers */
    rl_vk_recording beside = *r;
    beside.despite = layer + 1;
    rl_vk_cmd_begin_stage(r->cmd, layer, one ? RL_VK_END_NUMBERED : RL_VK_END_BARRIER);
    if (one) {
        TRY(rl_vk_record_moe_in_and_route(r, layer, publish, err));
        TRY(rl_vk_record_shared_up(&beside, layer, err));
        return ahead ? rl_vk_record_ahead(&beside, layer + 1, err) : RL_OK;
    }
    TRY(rl_vk_record_moe_in(r, layer, err));
    if (ahead) TRY(rl_vk_record_ahead_in(r, layer + 1, err));
    rl_vk_cmd_end_stage(r->cmd);
    mark(r, RL_STAGE_MOE_IN);
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_BARRIER);
    TRY(rl_vk_record_route(r, layer, publish, 0, err));
    TRY(rl_vk_record_shared_up(&beside, layer, err));
    if (ahead) TRY(rl_vk_record_ahead_route(r, layer + 1, err));
    return RL_OK;
}

static rl_status record_segment(const rl_vk_recording *r, uint32_t i, rl_error *err)
{
    uint32_t n_layer = r->vk->net->shape.n_layer;
    if (i == 0) {
        TRY(rl_vk_record_embed(r, err));
        rl_vk_cmd_barrier(r->cmd);
        mark_any(r, RL_STAGE_EMBED);
    } else {
        TRY(record_experts(r, i - 1, err));
    }
    if (i < n_layer) {
        TRY(record_mixer(r, i, err));
        TRY(record_router(r, i, err));
    } else {
        rl_vk_cmd_begin_stage(r->cmd, i, RL_VK_END_BARRIER);
        TRY(rl_vk_record_head(r, 0, 1, err));
        rl_vk_cmd_end_stage(r->cmd);
        TRY(rl_vk_record_best(r, err));
        mark_any(r, RL_STAGE_HEAD);
    }
    return RL_OK;
}

/* One segment by itself, at whose end the host may look. */
static rl_status record_part(const rl_vk_recording *r, uint32_t i, rl_error *err)
{
    rl_vk_cmd_barrier_copies(r->cmd);
    TRY(record_segment(r, i, err));
    rl_vk_cmd_barrier_to_host(r->cmd);
    return RL_OK;
}

/* Linked stages have their choices in the routers' dispatches. */
static bool can_link(const rl_vk_recording *r)
{
    bool all = r->vk->ops.links;
    for (uint32_t i = 0; i < r->vk->net->shape.n_layer; i++)
        all = all && rl_vk_record_can_choose(r, i);
    return all;
}

/* All segments in a row. What the routers choose crosses the bus once, at the end: a kernel that
 * writes to the host's memory holds up the next one until that write has arrived. */
static rl_status record_whole(const rl_vk_recording *r, uint32_t n, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    rl_vk_links_start(&r->cmd->links, can_link(r));
    if (r->marks) rl_vk_timer_reset(&r->marks->timer, r->cmd);
    rl_vk_cmd_barrier_copies(r->cmd);
    mark_any(r, RL_STAGE_EMBED); /* the beginning */
    for (uint32_t i = 0; i < n; i++) {
        TRY(record_segment(r, i, err));
        if (i + 1 == n) break;
        rl_vk_cmd_end_stage(r->cmd);
        mark(r, RL_STAGE_ROUTE);
    }
    rl_vk_cmd_barrier_copies(r->cmd);
    rl_vk_cmd_copy(r->cmd, &vk->buf.choices, 0, &vk->out.choices, 0, vk->out.choices.bytes);
    rl_vk_cmd_barrier_to_host(r->cmd);
    return RL_OK;
}

/* The largest logits, behind the head. By itself, since a greedy token goes without. */
static rl_status record_top(const rl_vk_recording *r, uint32_t unused, rl_error *err)
{
    (void)unused;
    rl_vk_cmd_barrier(r->cmd);
    TRY(rl_vk_record_top(r, err));
    rl_vk_cmd_barrier_to_host(r->cmd);
    return RL_OK;
}

static rl_status
record_into(rl_vk_cmd *cmd, const char *name, rl_vk_recording r, uint32_t i,
            rl_status (*record)(const rl_vk_recording *r, uint32_t i, rl_error *err), rl_error *err)
{
    r.cmd = cmd;
    if (!cmd->handle) TRY(rl_vk_cmd_init(cmd, r.vk->stream, name, err));
    TRY(rl_vk_cmd_begin(cmd, false, err));
    rl_status status = record(&r, i, err);
    rl_status end = rl_vk_cmd_end(cmd, status ? NULL : err);
    return status ? status : end;
}

rl_status rl_vk_segments_record(rl_vk_backend *vk, rl_state *state, rl_error *err)
{
    uint32_t n = vk->net->shape.n_layer + 1;
    bool marked = state->marks.n > 0, wanted = vk->stage_times != NULL;
    if (state->recorded && marked == wanted && state->linked == vk->ops.links) return RL_OK;
    uint64_t passes = vk->counters.dense_passes;
    if (!state->segments) state->segments = calloc(n, sizeof *state->segments);
    if (!state->segments) return rl_fail(err, RL_NOMEM, "no memory for a token's command buffers");
    rl_vk_recording r = { .vk = vk, .state = state, .block = &state->block, .n = 1 };
    r.choices = vk->out.choices.address;
    r.guesses = true; /* the synchronous and the gated way ask for them, and go part by part */
    if (!state->recorded) {
        for (uint32_t i = 0; i < n; i++)
            TRY(record_into(&state->segments[i], "segment", r, i, record_part, err));
        state->token_passes = vk->counters.dense_passes - passes;
        TRY(record_into(&state->top, "largest logits", r, 0, record_top, err));
    }
    state->recorded = false;
    if (wanted) {
        TRY(marks_init(vk, &state->marks, err));
        r.marks = &state->marks;
    } else {
        marks_fini(&state->marks);
    }
    r.choices = vk->buf.choices.address;
    r.guesses = false;
    TRY(record_into(&state->whole, "token", r, n, record_whole, err));
    vk->counters.dense_passes = passes;
    state->linked = vk->ops.links;
    state->recorded = true;
    return RL_OK;
}

void rl_vk_segments_free(rl_vk_backend *vk, rl_state *state)
{
    if (!state->segments) return;
    for (uint32_t i = 0; i <= vk->net->shape.n_layer; i++)
        rl_vk_cmd_fini(&state->segments[i]);
    rl_vk_cmd_fini(&state->whole);
    rl_vk_cmd_fini(&state->top);
    marks_fini(&state->marks);
    free(state->segments);
    state->segments = NULL;
    state->recorded = false;
}

/* ---- submitting --------------------------------------------------------------------------------------------- */

static volatile rl_vk_token *host_token(const rl_state *state)
{
    return (volatile rl_vk_token *)(void *)state->block.span.host;
}

static rl_status begin_token(rl_vk_backend *vk, const rl_batch *batch, bool check, rl_error *err)
{
    RL_ASSERT(batch->n == 1 && !vk->dirty);
    vk->batch = *batch;
    vk->now = &batch->state->block;
    vk->by_segments = true;
    vk->counters.tokens++;
    vk->counters.dense_passes += batch->state->token_passes;
    vk->counters.stages += 1;
    TRY(rl_vk_segments_record(vk, batch->state, err));
    rl_vk_block_fill(vk->now, &vk->net->shape, batch, batch->state->side, check);
    return RL_OK;
}

static rl_status submit_whole(rl_vk_backend *vk, rl_error *err)
{
    rl_state *state = vk->batch.state;
    volatile rl_vk_token *token = host_token(state);
    token->turn = state->turn + 1;
    token->counters = state->numbered.counters;
    vk->handles[0] = state->whole.handle;
    vk->handles[1] = state->top.handle;
    TRY(rl_vk_submit(vk, vk->handles, vk->batch.top ? 2 : 1, err));
    if (state->linked) state->turn++;
    return RL_OK;
}

static rl_status routed_submit(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    TRY(begin_token(vk, batch, true, err));
    vk->gated = vk->resumed = false;
    return submit_whole(vk, err);
}

/* A linked stage has waited for too long, and the token under way is worth nothing: this device does not
 * start workgroups in the order of their dispatches. The token runs again with barriers, as all will from
 * now on; it has changed nothing that counts, like one that has halted. */
static rl_status run_with_barriers(rl_vk_backend *vk, rl_error *err)
{
    rl_state *state = vk->batch.state;
    rl_vk_note(
        vk,
        "this GPU does not start kernels in order: there are barriers between them from now on");
    vk->ops.links = false;
    TRY(rl_vk_segments_record(vk, state, err));
    host_token(state)->halt = host_token(state)->late = 0;
    TRY(submit_whole(vk, err));
    return rl_vk_wait(vk, err);
}

/* The segments behind the router of `layer` in one submission. */
static rl_status routed_resume(rl_backend *be, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    rl_state *state = vk->batch.state;
    uint32_t first = layer + 1, n = vk->net->shape.n_layer + 1 - first;
    host_token(state)->halt = 0;
    for (uint32_t i = 0; i < n; i++)
        vk->handles[i] = state->segments[first + i].handle;
    if (vk->batch.top) vk->handles[n++] = state->top.handle;
    vk->gated = false;
    vk->resumed = true;
    return rl_vk_submit(vk, vk->handles, n, err);
}

static rl_status signal_gate(rl_vk_backend *vk, uint64_t value, rl_error *err)
{
    VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
        .semaphore = vk->gates,
        .value = value,
    };
    VkResult r = vk->device->api.SignalSemaphore(vk->device->handle, &info);
    if (r == VK_SUCCESS) vk->gate_open = value;
    return rl_vk_check(vk->device, r, "vkSignalSemaphore", err);
}

static rl_status routed_wait(rl_backend *be, rl_routed_outcome *out, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    const rl_shape *s = &vk->net->shape;
    volatile rl_vk_token *token = host_token(vk->batch.state);
    memset(out, 0, sizeof *out);
    bool abandoned = vk->gated && vk->gate_open < vk->gate_base + s->n_layer;
    rl_status reached = RL_OK;
    if (abandoned) {
        /* Nothing behind the closed gates may compute. What is before them ends first, since invocations
         * of one workgroup must agree on whether the token has halted. */
        uint64_t before = vk->first_value + 1 + vk->gate_open - vk->gate_base;
        reached = rl_vk_stream_await(vk->stream, before, vk->spin_us, err);
        token->halt = UINT32_MAX;
        TRY(signal_gate(vk, vk->gate_base + s->n_layer, reached ? NULL : err));
    }
    rl_status ended = rl_vk_wait(vk, reached ? NULL : err);
    if (reached || ended) return reached ? reached : ended;
    if (token->late) TRY(run_with_barriers(vk, err));
    uint32_t halt = token->halt;
    if (abandoned) return RL_OK;
    if (!halt) {
        out->complete = true;
        vk->counters.expert_passes += (uint64_t)s->n_layer * s->n_expert_used;
        if (vk->stage_times && !vk->resumed && !vk->gated) marks_read(vk, &vk->batch.state->marks);
        return RL_OK;
    }
    out->layer = halt - 1;
    RL_ASSERT(out->layer < s->n_layer);
    memcpy(out->ids, vk->out.choices.host + 4ull * out->layer * s->n_expert_used,
           4ull * s->n_expert_used);
    return RL_OK;
}

/* ---- gates ------------------------------------------------------------------------------------------------------ */

static rl_status routed_submit_gated(rl_backend *be, const rl_batch *batch, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint32_t n = vk->net->shape.n_layer + 1;
    TRY(begin_token(vk, batch, false, err));
    /* Uploads so far are waited for here; those of this token are finished before a gate opens. */
    TRY(rl_vk_uploader_finish(vk->uploader, err));
    vk->uploads_seen = rl_vk_uploader_value(vk->uploader);
    vk->gate_base = vk->gate_open;
    for (uint32_t i = 0; i < n; i++)
        vk->batches[i] = (rl_vk_batch){
            .buffer = batch->state->segments[i].handle,
            .wait = { i ? vk->gates : VK_NULL_HANDLE, vk->gate_base + i },
        };
    if (batch->top) vk->batches[n++] = (rl_vk_batch){ .buffer = batch->state->top.handle };
    TRY(rl_vk_stream_submit_batches(vk->stream, vk->batches, n, &vk->last_value, err));
    vk->first_value = vk->last_value - n;
    vk->gated = true;
    return RL_OK;
}

static rl_status routed_await_choice(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint32_t k = vk->net->shape.n_expert_used;
    TRY(rl_vk_stream_await(vk->stream, vk->first_value + layer + 1, vk->spin_us, err));
    memcpy(ids, vk->out.choices.host + 4ull * layer * k, 4ull * k);
    return RL_OK;
}

static rl_status routed_open_gate(rl_backend *be, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    TRY(rl_vk_uploader_finish(vk->uploader, err));
    vk->uploads_seen = rl_vk_uploader_value(vk->uploader);
    return signal_gate(vk, vk->gate_base + layer + 1, err);
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

static void routed_read_choices(const rl_backend *be, uint32_t *ids)
{
    const rl_vk_backend *vk = (const rl_vk_backend *)be;
    memcpy(ids, vk->out.choices.host, 4ull * vk->net->shape.n_layer * vk->net->shape.n_expert_used);
}

static rl_status routed_read_logits(rl_backend *be, float *logits, uint32_t *best, rl_error *err)
{
    rl_vk_backend *vk = rl_vk_of(be);
    uint32_t pair[2], n_vocab = vk->net->shape.n_vocab;
    memcpy(pair, vk->out.best.host, sizeof pair);
    *best = pair[1] < n_vocab ? pair[1] : 0; /* nothing is larger than what is not a number */
    return logits ? rl_vk_read(vk, &vk->buf.logits, 0, logits, 4ull * n_vocab, err) : RL_OK;
}

static void routed_read_top(const rl_backend *be, rl_top_logits *out)
{
    const rl_vk_backend *vk = (const rl_vk_backend *)be;
    _Static_assert(RL_VK_TOP == RL_TOP_LOGITS, "the kernels find as many as the engine asks for");
    uint32_t words[RL_VK_TOP_RESULT_WORDS], n_vocab = vk->net->shape.n_vocab;
    memcpy(words, vk->out.top.host, sizeof words);
    memset(out, 0, sizeof *out);
    if (n_vocab > RL_VK_TOP_MOST || words[0] > RL_TOP_LOGITS) return;
    for (uint32_t i = 0; i < words[0]; i++) {
        memcpy(&out->logits[i], &words[2 + 2 * i], sizeof out->logits[i]);
        out->tokens[i] = words[3 + 2 * i];
        if (out->tokens[i] >= n_vocab) return; /* no list is better than a wrong one */
    }
    out->n = words[0];
    out->all = out->n < RL_TOP_LOGITS || n_vocab <= RL_TOP_LOGITS;
}

const rl_routed_ops rl_vk_routed_ops = {
    .submit = routed_submit,
    .wait = routed_wait,
    .resume = routed_resume,
    .submit_gated = routed_submit_gated,
    .await_choice = routed_await_choice,
    .open_gate = routed_open_gate,
    .read_choices = routed_read_choices,
    .read_logits = routed_read_logits,
    .read_top = routed_read_top,
};

const rl_routed_ops rl_vk_routed_ops_plain = {
    .submit = routed_submit,
    .wait = routed_wait,
    .resume = routed_resume,
    .read_choices = routed_read_choices,
    .read_logits = routed_read_logits,
    .read_top = routed_read_top,
};
