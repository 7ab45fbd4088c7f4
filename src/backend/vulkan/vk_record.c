/* vk_record.c - every stage as kernels in a command buffer.
 *
 * A function records the dispatches of one stage that do not depend on each other without barriers
 * between them, and no barrier before or after: stages are separated by the callers, who know which
 * of them may overlap. Where a stage has two dependent steps, the barrier between them is here.
 *
 * One token uses matvec with the norm inside; many tokens norm first and use matmul. */
#include "backend/vulkan/vk_backend.h"
#include "base/assert.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        rl_status try_status = (call);                                                             \
        if (try_status) return try_status;                                                         \
    } while (0)

/* A dense product of the batch: y [n][rows] = W x [n][cols]. */
typedef struct product {
    const rl_weight *w;
    uint32_t input;
    uint64_t x, aux, y;
    const rl_weight *pair; /* silu(w x) * (pair x), one token only */
    uint64_t add;          /* 0: nothing */
    bool add_numbered;
    uint64_t also; /* y is numbered: where it goes without numbers; 0: nowhere */
    uint32_t head, parts;
    uint32_t beside;             /* rows of other products that run at the same time */
    const rl_route_push *choice; /* made in the same dispatch; NULL: none */
    uint64_t arrivals;           /* rl_vk_matvec.arrivals */
} product;

/* Where a stage finds what the ones before hand on, and where it hands on itself. */
static uint64_t taken(const rl_vk_recording *r, const rl_vk_span *plain, uint64_t numbered)
{
    return r->cmd->links.takes ? numbered : plain->address;
}

static bool gives(const rl_vk_recording *r)
{
    return r->cmd->links.end == RL_VK_END_NUMBERED;
}

static uint64_t given(const rl_vk_recording *r, const rl_vk_span *plain, uint64_t numbered)
{
    return gives(r) ? numbered : plain->address;
}

static rl_status record_product(const rl_vk_recording *r, const product *p, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    float eps = vk->net->shape.rms_eps;
    /* Tiles of many rows waste their work on a matrix of one row. */
    if (r->n > 1 && p->w->rows > 1 && p->input != RL_INPUT_NORM) {
        rl_vk_matmul m = { .type = p->w->type,
                           .input = p->input,
                           .add = p->add != 0,
                           .push = { .w = p->w->address,
                                     .x = p->x,
                                     .aux = p->aux,
                                     .y = p->y,
                                     .add = p->add,
                                     .cols = p->w->cols,
                                     .rows = p->w->rows,
                                     .n = r->n,
                                     .divide = 1,
                                     .head = p->head,
                                     .parts = p->parts,
                                     .eps = eps } };
        vk->counters.dense_passes += (r->n + 63) / 64;
        return rl_vk_op_matmul(&vk->ops, r->cmd, &m, err);
    }
    rl_vk_matvec m = { .type = p->w->type,
                       .input = p->input,
                       .matrix = p->pair ? RL_MATRIX_PAIR : RL_MATRIX_PLAIN,
                       .add = !p->add           ? RL_ADD_NOTHING
                              : p->add_numbered ? RL_ADD_NUMBERED
                                                : RL_ADD_PLAIN,
                       .n_ranks = 1,
                       .n_tokens = r->n,
                       .parts = p->parts,
                       .beside = p->beside,
                       .choice = p->choice,
                       .arrivals = p->arrivals,
                       .push = { .w = p->w->address,
                                 .second = p->pair ? p->pair->address - p->w->address : 0,
                                 .x = p->x,
                                 .aux = p->aux,
                                 .y = p->y,
                                 .add = p->add,
                                 .ids = p->also,
                                 .token = r->block->token,
                                 .cols = p->w->cols,
                                 .rows = p->w->rows,
                                 .head = p->head,
                                 .x_token = p->w->cols,
                                 .y_token = p->w->rows,
                                 .eps = eps,
                                 .despite = r->despite } };
    vk->counters.dense_passes += r->n * (p->pair ? 2 : 1);
    return rl_vk_op_matvec(&vk->ops, r->cmd, &m, err);
}

/* Many tokens: h = rms(x) * weight, and the products read h. One token: they norm by themselves. numbered:
 * where x is, if its stage takes numbered values. */
static rl_status record_norm(const rl_vk_recording *r, const rl_weight *weight, uint64_t numbered,
                             product *input, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    if (r->n == 1) {
        *input = (product){ .input = RL_INPUT_NORM,
                            .x = taken(r, &vk->buf.x, numbered),
                            .aux = weight->address };
        return RL_OK;
    }
    *input = (product){ .input = RL_INPUT_PLAIN, .x = vk->buf.h.address };
    rl_norm_push push = { .x = vk->buf.x.address,
                          .weight = weight->address,
                          .y = vk->buf.h.address,
                          .cols = vk->net->shape.n_embd,
                          .eps = vk->net->shape.rms_eps };
    TRY(rl_vk_op_norm(&vk->ops, r->cmd, r->n, &push, err));
    rl_vk_cmd_barrier(r->cmd);
    return RL_OK;
}

static rl_status record_to(const rl_vk_recording *r, product input, const rl_weight *w,
                           const rl_vk_span *y, uint64_t numbered, rl_error *err)
{
    input.w = w;
    input.y = given(r, y, numbered);
    return record_product(r, &input, err);
}

/* The same where the host, or a token that goes on after a halt, needs the plain values as well. */
static rl_status record_to_both(const rl_vk_recording *r, product input, const rl_weight *w,
                                const rl_vk_span *y, uint64_t numbered, rl_error *err)
{
    input.also = gives(r) ? y->address : 0;
    return record_to(r, input, w, y, numbered, err);
}

rl_status rl_vk_record_embed(const rl_vk_recording *r, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    rl_embed_push push = { .w = vk->net->embedding.address,
                           .tokens = r->block->ids,
                           .y = vk->buf.x.address,
                           .cols = vk->net->shape.n_embd };
    return rl_vk_op_embed(&vk->ops, r->cmd, vk->net->embedding.type, r->n, &push, err);
}

/* ---- gated delta net -------------------------------------------------------------------------------- */

rl_status rl_vk_record_delta_in(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    product input;
    const rl_vk_numbered *to = &r->state->numbered;
    TRY(record_norm(r, &l->mix_norm, to->x, &input, err));
    input.beside = l->delta.gate.rows;
    TRY(record_to(r, input, &l->delta.qkv, &vk->buf.u, to->u, err));
    input.beside = l->delta.qkv.rows;
    TRY(record_to(r, input, &l->delta.gate, &vk->buf.z, to->z, err));
    input.beside = 0; /* a few rows, spread as wide as they go */
    return record_to(r, input, &l->delta.ba, &vk->buf.ba, to->ba, err);
}

rl_status rl_vk_record_delta_step(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_delta_weights *w = &vk->net->layers[layer].delta;
    const rl_vk_layer_state *state = &r->state->layers[layer];
    const rl_vk_numbered *numbered = &r->state->numbered;
    rl_delta_push push = { .u = taken(r, &vk->buf.u, numbered->u),
                           .z = taken(r, &vk->buf.z, numbered->z),
                           .ba = taken(r, &vk->buf.ba, numbered->ba),
                           .conv_w = w->conv.address,
                           .dt = w->dt.address,
                           .a = w->a.address,
                           .norm = w->norm.address,
                           .conv = state->conv.address,
                           .state = state->delta.address,
                           .y = given(r, &vk->buf.y, numbered->y),
                           .sums = given(r, &vk->buf.sums, numbered->sums),
                           .token = r->block->token,
                           .n_key_head = s->n_key_head,
                           .n_value_head = s->n_value_head,
                           .taps = s->conv_taps };
    return rl_vk_op_delta_step(&vk->ops, r->cmd, s->delta_dim, &push, err);
}

/* ---- gated attention --------------------------------------------------------------------------------- */

rl_status rl_vk_record_attn_in(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    product input;
    const rl_vk_numbered *to = &r->state->numbered;
    TRY(record_norm(r, &l->mix_norm, to->x, &input, err));
    TRY(record_to(r, input, &l->attn.q, &vk->buf.u, to->u, err));
    TRY(record_to(r, input, &l->attn.k, &vk->buf.k, to->k, err));
    return record_to(r, input, &l->attn.v, &vk->buf.v, to->v, err);
}

rl_status rl_vk_record_attn_step(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_attn_weights *w = &vk->net->layers[layer].attn;
    const rl_vk_layer_state *state = &r->state->layers[layer];
    rl_vk_cache_types types = { s->head_dim, r->state->params.key_type == 1,
                                r->state->params.value_type == 1 };
    uint32_t splits = vk->decode_splits / r->n > 0 ? vk->decode_splits / r->n : 1;
    if (r->n > 1) {
        rl_attn_prep_push prep = { .q = vk->buf.u.address,
                                   .k = vk->buf.k.address,
                                   .v = vk->buf.v.address,
                                   .q_norm = w->q_norm.address,
                                   .k_norm = w->k_norm.address,
                                   .keys = state->keys.address,
                                   .values = state->values.address,
                                   .rope = r->block->rope,
                                   .token = r->block->token,
                                   .n_head = s->n_head,
                                   .n_head_kv = s->n_head_kv,
                                   .n_rot = s->n_rot,
                                   .eps = s->rms_eps };
        TRY(rl_vk_op_attn_prep(&vk->ops, r->cmd, r->n, &types, &prep, err));
        rl_vk_cmd_barrier(r->cmd);
    }
    const rl_vk_numbered *numbered = &r->state->numbered;
    rl_attn_push push = { .q = taken(r, &vk->buf.u, numbered->u),
                          .k = taken(r, &vk->buf.k, numbered->k),
                          .v = taken(r, &vk->buf.v, numbered->v),
                          .q_norm = w->q_norm.address,
                          .k_norm = w->k_norm.address,
                          .keys = state->keys.address,
                          .values = state->values.address,
                          .rope = r->block->rope,
                          .parts = given(r, &vk->buf.parts, numbered->parts),
                          .token = r->block->token,
                          .n_head = s->n_head,
                          .n_head_kv = s->n_head_kv,
                          .n_rot = s->n_rot,
                          .splits = splits,
                          .eps = s->rms_eps };
    TRY(rl_vk_op_attn(&vk->ops, r->cmd, r->n, r->n == 1, &types, &push, err));
    rl_vk_cmd_end_stage(r->cmd);
    rl_vk_cmd_begin_stage(r->cmd, layer, RL_VK_END_NUMBERED);
    rl_attn_out_push join = { .parts = push.parts,
                              .q = push.q,
                              .y = given(r, &vk->buf.y, numbered->y),
                              .token = r->block->token,
                              .n_head = s->n_head,
                              .splits = splits };
    return rl_vk_op_attn_out(&vk->ops, r->cmd, r->n, s->head_dim, &join, err);
}

/* x += out y. The delta net's y is scaled here, head by head, by the RMS that its kernel left. */
rl_status rl_vk_record_mix_out(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    uint32_t d = vk->net->shape.delta_dim;
    const rl_vk_numbered *numbered = &r->state->numbered;
    const rl_weight *w = &l->attn.out;
    product p = { .x = taken(r, &vk->buf.y, numbered->y), .add = vk->buf.x.address };
    if (r->cmd->links.takes && layer) { /* the first layer's x comes from the embedding */
        p.add = numbered->x;
        p.add_numbered = true;
    }
    if (l->recurrent) {
        w = &l->delta.out;
        p.input = RL_INPUT_HEADS;
        p.aux = taken(r, &vk->buf.sums, numbered->sums);
        p.head = d;
        p.parts = d / rl_vk_delta_cols(d);
    }
    return record_to_both(r, p, w, &vk->buf.x, numbered->mixed, err);
}

/* ---- router and shared expert -------------------------------------------------------------------------- */

static uint64_t residency_row(const rl_vk_backend *vk, uint32_t layer)
{
    return vk->residency.address + 8ull * layer * vk->net->shape.n_expert;
}

static rl_route_push choice_of(const rl_vk_recording *r, uint32_t layer, uint64_t publish)
{
    rl_vk_backend *vk = r->vk;
    return (rl_route_push){ .logits = vk->buf.router.address,
                            .ids = vk->buf.ids.address,
                            .weights = vk->buf.weights.address,
                            .publish = publish,
                            .residency = residency_row(vk, layer),
                            .token = r->block->token,
                            .n_expert = vk->net->shape.n_expert,
                            .k = vk->net->shape.n_expert_used,
                            .layer = layer };
}

/* A guess must not halt anything: it looks nothing up that could be absent. */
static rl_route_push guess_of(const rl_vk_recording *r, uint32_t next)
{
    rl_vk_backend *vk = r->vk;
    uint64_t k = vk->net->shape.n_expert_used;
    rl_route_push push = choice_of(r, next, vk->out.ahead.address + 4 * k * next);
    push.logits = vk->buf.ahead_router.address;
    push.ids = vk->buf.ahead_ids.address;
    push.weights = vk->buf.ahead_weights.address;
    push.residency = 0;
    return push;
}

rl_status rl_vk_record_moe_in(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    product input;
    RL_ASSERT(!r->cmd->links.takes && !gives(r));
    TRY(record_norm(r, &l->moe_norm, 0, &input, err));
    return record_to(r, input, &l->router, &vk->buf.router, 0, err);
}

/* The next layer's router on the present x. */
static product guess_product(const rl_vk_recording *r, uint32_t next)
{
    const rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[next];
    RL_ASSERT(r->n == 1);
    return (product){ .w = &l->router,
                      .input = RL_INPUT_NORM,
                      .x = vk->buf.x.address,
                      .aux = l->moe_norm.address,
                      .y = vk->buf.ahead_router.address };
}

rl_status rl_vk_record_ahead_in(const rl_vk_recording *r, uint32_t next, rl_error *err)
{
    product p = guess_product(r, next);
    return record_product(r, &p, err);
}

bool rl_vk_record_can_choose(const rl_vk_recording *r, uint32_t layer)
{
    return rl_vk_op_can_choose(&r->vk->ops, r->vk->net->layers[layer].router.type);
}

rl_status rl_vk_record_moe_in_and_route(const rl_vk_recording *r, uint32_t layer, uint64_t publish,
                                        rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    rl_route_push choice = choice_of(r, layer, publish);
    const rl_vk_numbered *numbered = &r->state->numbered;
    RL_ASSERT(r->n == 1);
    product p = { .w = &l->router,
                  .input = RL_INPUT_NORM,
                  .x = taken(r, &vk->buf.x, numbered->mixed),
                  .aux = l->moe_norm.address,
                  .y = given(r, &vk->buf.router, numbered->router),
                  .choice = &choice,
                  .arrivals = given(r, &r->state->arrivals, numbered->choice) };
    return record_product(r, &p, err);
}

rl_status rl_vk_record_ahead(const rl_vk_recording *r, uint32_t next, rl_error *err)
{
    rl_route_push guess = guess_of(r, next);
    product p = guess_product(r, next);
    p.choice = &guess;
    p.arrivals = r->state->arrivals.address + RL_VK_ARRIVALS_GUESS;
    return record_product(r, &p, err);
}

/* Whether one token's gate and up can be one dispatch. */
static bool is_pair(uint32_t gate_type, uint32_t up_type, uint32_t n)
{
    return n == 1 && gate_type == up_type;
}

rl_status rl_vk_record_shared_up(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    const rl_vk_numbered *numbered = &r->state->numbered;
    const rl_vk_buffers *b = &vk->buf;
    product input = { .input = RL_INPUT_PLAIN, .x = b->h.address };
    if (r->n == 1)
        input = (product){ .input = RL_INPUT_NORM,
                           .x = taken(r, &b->x, numbered->mixed),
                           .aux = l->moe_norm.address };
    product gate = input;
    bool pair = is_pair(l->shared_gate.type, l->shared_up.type, r->n);
    if (pair) gate.pair = &l->shared_up;
    TRY(record_to_both(r, gate, &l->shared_gate, &b->shared_gate, numbered->shared_gate, err));
    if (!pair) TRY(record_to_both(r, gate, &l->shared_up, &b->shared_up, numbered->shared_up, err));
    /* a single row: done soon */
    return record_to_both(r, input, &l->shared_scale, &b->scale, numbered->scale, err);
}

rl_status rl_vk_record_shared_down(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_layer *l = &vk->net->layers[layer];
    bool pair = is_pair(l->shared_gate.type, l->shared_up.type, r->n);
    product p = { .w = &l->shared_down,
                  .input = pair ? RL_INPUT_PLAIN : RL_INPUT_SWIGLU,
                  .x = taken(r, &vk->buf.shared_gate, r->state->numbered.shared_gate),
                  .aux = taken(r, &vk->buf.shared_up, r->state->numbered.shared_up),
                  .y = vk->buf.shared_out.address };
    return record_product(r, &p, err);
}

/* ---- choice ----------------------------------------------------------------------------------------------- */

rl_status rl_vk_record_route(const rl_vk_recording *r, uint32_t layer, uint64_t publish,
                             uint64_t forced, rl_error *err)
{
    rl_route_push push = choice_of(r, layer, publish);
    push.forced = forced;
    return rl_vk_op_route(&r->vk->ops, r->cmd, r->n, forced != 0, &push, err);
}

rl_status rl_vk_record_ahead_route(const rl_vk_recording *r, uint32_t next, rl_error *err)
{
    rl_route_push push = guess_of(r, next);
    return rl_vk_op_route(&r->vk->ops, r->cmd, 1, false, &push, err);
}

/* ---- experts of one token ---------------------------------------------------------------------------------- */

rl_status rl_vk_record_experts_up(const rl_vk_recording *r, uint32_t layer, uint32_t mask,
                                  rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_layer *l = &vk->net->layers[layer];
    const rl_expert_layout *e = &l->expert;
    const rl_vk_numbered *numbered = &r->state->numbered;
    rl_vk_matvec m = { .type = e->gate_type,
                       .input = RL_INPUT_NORM,
                       .n_ranks = s->n_expert_used,
                       .n_tokens = 1,
                       .push = { .w = e->gate_offset,
                                 .x = taken(r, &vk->buf.x, numbered->mixed),
                                 .aux = l->moe_norm.address,
                                 .y = vk->buf.expert_gate.address,
                                 .ids = taken(r, &vk->buf.ids, numbered->choice),
                                 .residency = residency_row(vk, layer),
                                 .token = r->block->token,
                                 .cols = s->n_embd,
                                 .rows = s->n_ff_expert,
                                 .ranks = s->n_expert_used,
                                 .mask = mask,
                                 .eps = s->rms_eps } };
    if (is_pair(e->gate_type, e->up_type, 1)) {
        m.matrix = RL_MATRIX_ROUTED_PAIR;
        m.push.second = e->up_offset - e->gate_offset;
        return rl_vk_op_matvec(&vk->ops, r->cmd, &m, err);
    }
    m.matrix = RL_MATRIX_ROUTED;
    TRY(rl_vk_op_matvec(&vk->ops, r->cmd, &m, err));
    m.type = e->up_type;
    m.push.w = e->up_offset;
    m.push.y = vk->buf.expert_up.address;
    return rl_vk_op_matvec(&vk->ops, r->cmd, &m, err);
}

static uint32_t down_input(const rl_expert_layout *e)
{
    return is_pair(e->gate_type, e->up_type, 1) ? RL_INPUT_PLAIN : RL_INPUT_SWIGLU;
}

rl_status rl_vk_record_experts_down(const rl_vk_recording *r, uint32_t layer, uint32_t mask,
                                    rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_expert_layout *e = &vk->net->layers[layer].expert;
    rl_vk_matvec m = { .type = e->down_type,
                       .input = down_input(e),
                       .matrix = RL_MATRIX_ROUTED,
                       .n_ranks = s->n_expert_used,
                       .n_tokens = 1,
                       .floats = true, /* as experts_down.comp */
                       .push = { .w = e->down_offset,
                                 .x = vk->buf.expert_gate.address,
                                 .aux = vk->buf.expert_up.address,
                                 .y = vk->buf.expert_out.address,
                                 .ids = vk->buf.ids.address,
                                 .residency = residency_row(vk, layer),
                                 .token = r->block->token,
                                 .cols = s->n_ff_expert,
                                 .rows = s->n_embd,
                                 .x_rank = s->n_ff_expert,
                                 .ranks = s->n_expert_used,
                                 .mask = mask } };
    return rl_vk_op_matvec(&vk->ops, r->cmd, &m, err);
}

rl_status rl_vk_record_experts_out(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_expert_layout *e = &vk->net->layers[layer].expert;
    const rl_vk_numbered *numbered = &r->state->numbered;
    rl_experts_down_push push = { .w = e->down_offset,
                                  .x = vk->buf.expert_gate.address,
                                  .aux = vk->buf.expert_up.address,
                                  .ids = taken(r, &vk->buf.ids, numbered->choice),
                                  .weights = vk->buf.weights.address,
                                  .residency = residency_row(vk, layer),
                                  .scale = taken(r, &vk->buf.scale, numbered->scale),
                                  .shared_ = vk->buf.shared_out.address,
                                  .add = taken(r, &vk->buf.x, numbered->mixed),
                                  .y = given(r, &vk->buf.x, numbered->x),
                                  .token = r->block->token,
                                  .cols = s->n_ff_expert,
                                  .rows = s->n_embd,
                                  .k = s->n_expert_used };
    return rl_vk_op_experts_down(&vk->ops, r->cmd, e->down_type, down_input(e), &push, err);
}

/* ---- experts of many tokens ---------------------------------------------------------------------------------- */

/* Writes the tiles and the list of these groups where kernels read them. */
static uint32_t write_lists(rl_vk_backend *vk, const rl_expert_group *groups, uint32_t n_groups,
                            uint64_t *tiles_at, uint64_t *list_at)
{
    uint32_t n_list = 0, n_tiles = 0, tile_tokens = vk->ops.tile_tokens;
    for (uint32_t g = 0; g < n_groups; g++) {
        n_list += groups[g].n;
        n_tiles += (groups[g].n + tile_tokens - 1) / tile_tokens;
    }
    uint64_t bytes = n_tiles * sizeof(rl_vk_tile) + (n_list * 4ull + 15) / 16 * 16;
    RL_ASSERT(vk->lists_used + bytes <= vk->lists.bytes);
    rl_vk_tile *tile = (rl_vk_tile *)(void *)(vk->lists.host + vk->lists_used);
    uint32_t *list = (uint32_t *)(void *)(tile + n_tiles);
    *tiles_at = vk->lists.address + vk->lists_used;
    *list_at = *tiles_at + n_tiles * sizeof(rl_vk_tile);
    uint32_t at = 0;
    for (uint32_t g = 0; g < n_groups; g++)
        for (uint32_t i = 0; i < groups[g].n; i += tile_tokens) {
            uint32_t n = groups[g].n - i < tile_tokens ? groups[g].n - i : tile_tokens;
            *tile++ = (rl_vk_tile){ .expert = groups[g].expert, .first = at, .count = n };
            for (uint32_t k = 0; k < n; k++)
                list[at++] = groups[g].assign[i + k];
        }
    vk->lists_used += bytes;
    return n_tiles;
}

rl_status rl_vk_record_groups(const rl_vk_recording *r, uint32_t layer,
                              const rl_expert_group *groups, uint32_t n_groups, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    const rl_expert_layout *e = &vk->net->layers[layer].expert;
    rl_vk_matmul m = { .push = { .residency = residency_row(vk, layer), .eps = s->rms_eps } };
    uint32_t n_tiles = write_lists(vk, groups, n_groups, &m.push.tiles, &m.push.list);
    /* A grid has at most 65535 rows of workgroups. */
    for (uint32_t first = 0; first < n_tiles; first += 65535) {
        m.n_tiles = n_tiles - first < 65535 ? n_tiles - first : 65535;
        rl_vk_matmul up = m;
        up.push.tiles += first * sizeof(rl_vk_tile);
        up.push.x = vk->buf.h.address;
        up.push.cols = s->n_embd;
        up.push.rows = s->n_ff_expert;
        up.push.divide = s->n_expert_used;
        up.type = e->gate_type;
        up.push.w = e->gate_offset;
        up.push.y = vk->buf.expert_gate.address;
        TRY(rl_vk_op_matmul(&vk->ops, r->cmd, &up, err));
        up.type = e->up_type;
        up.push.w = e->up_offset;
        up.push.y = vk->buf.expert_up.address;
        TRY(rl_vk_op_matmul(&vk->ops, r->cmd, &up, err));
    }
    rl_vk_cmd_barrier(r->cmd);
    for (uint32_t first = 0; first < n_tiles; first += 65535) {
        rl_vk_matmul down = m;
        down.n_tiles = n_tiles - first < 65535 ? n_tiles - first : 65535;
        down.push.tiles += first * sizeof(rl_vk_tile);
        down.type = e->down_type;
        down.input = RL_INPUT_SWIGLU;
        down.push.w = e->down_offset;
        down.push.x = vk->buf.expert_gate.address;
        down.push.aux = vk->buf.expert_up.address;
        down.push.y = vk->buf.expert_out.address;
        down.push.cols = s->n_ff_expert;
        down.push.rows = s->n_embd;
        down.push.divide = 1;
        TRY(rl_vk_op_matmul(&vk->ops, r->cmd, &down, err));
    }
    return RL_OK;
}

rl_status rl_vk_record_moe_sum(const rl_vk_recording *r, uint32_t layer, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    (void)layer;
    rl_moe_sum_push push = { .d = vk->buf.expert_out.address,
                             .weights = vk->buf.weights.address,
                             .scale = vk->buf.scale.address,
                             .shared_ = vk->buf.shared_out.address,
                             .y = vk->buf.x.address,
                             .rows = s->n_embd,
                             .k = s->n_expert_used };
    return rl_vk_op_moe_sum(&vk->ops, r->cmd, r->n, &push, err);
}

/* ---- head --------------------------------------------------------------------------------------------------- */

rl_status rl_vk_record_head(const rl_vk_recording *r, uint32_t first, uint32_t rows, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    const rl_shape *s = &vk->net->shape;
    rl_vk_recording part = *r;
    part.n = rows;
    product p = { .w = &vk->net->head,
                  .input = RL_INPUT_NORM,
                  .x = vk->buf.x.address + 4ull * first * s->n_embd,
                  .aux = vk->net->output_norm.address,
                  .y = vk->buf.logits.address };
    if (rows > 1) {
        rl_norm_push push = {
            .x = p.x, .weight = p.aux, .y = vk->buf.h.address, .cols = s->n_embd, .eps = s->rms_eps
        };
        TRY(rl_vk_op_norm(&vk->ops, r->cmd, rows, &push, err));
        rl_vk_cmd_barrier(r->cmd);
        p.input = RL_INPUT_PLAIN;
        p.x = push.y;
    }
    return record_product(&part, &p, err);
}

rl_status rl_vk_record_best(const rl_vk_recording *r, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    rl_argmax_push push = { .x = vk->buf.logits.address,
                            .best = vk->out.best.address,
                            .token = r->block->token,
                            .n = vk->net->shape.n_vocab };
    return rl_vk_op_argmax(&vk->ops, r->cmd, &push, vk->buf.argmax.address, err);
}

rl_status rl_vk_record_top(const rl_vk_recording *r, rl_error *err)
{
    rl_vk_backend *vk = r->vk;
    rl_top_push push = { .x = vk->buf.logits.address,
                         .lists = vk->buf.top.address,
                         .result = vk->out.top.address,
                         .token = r->block->token,
                         .n = vk->net->shape.n_vocab };
    return push.n <= RL_VK_TOP_MOST ? rl_vk_op_top(&vk->ops, r->cmd, &push, err) : RL_OK;
}
