/* vk_backend.h - the Vulkan backend's insides, shared by its files.
 *
 *   vk_backend.c  opening, devices, weights, the pool, the table of stages
 *   vk_state.c    a session's memory: recurrent copies, KV cache
 *   vk_record.c   every stage as kernels in a command buffer
 *   vk_stages.c   the stage calls: who records, when is submitted, what is read back
 *   vk_routed.c   segments recorded once per state, and the ways to submit them (docs/gpu-routing.md)
 *
 * All activations live in buffers taken at attach and are used by every batch; a single token and a
 * batch differ only in the kernels that are recorded. */
#ifndef RL_BACKEND_VULKAN_VK_BACKEND_H
#define RL_BACKEND_VULKAN_VK_BACKEND_H

#include "backend/backend.h"
#include "backend/vulkan/vk_ops.h"

/* Parameters of one batch in memory that the host writes and kernels read: rl_vk_token, then token
 * ids, then pairs (cosine, sine). */
typedef struct rl_vk_block {
    rl_vk_span span;
    uint32_t max_tokens;
    uint64_t token, ids, rope; /* device addresses */
} rl_vk_block;

/* Marks of the GPU's clock in a state's whole token, and which stage ended at each. */
typedef struct rl_vk_marks {
    rl_vk_timer timer;
    rl_stage *stages; /* NULL: there are none */
    double *ns;       /* room for what was read */
    uint32_t n, room;
} rl_vk_marks;

/* One layer's part of a state. */
typedef struct rl_vk_layer_state {
    rl_vk_span conv, delta;  /* recurrent: [2][..], both copies */
    rl_vk_span keys, values; /* attention */
} rl_vk_layer_state;

enum { RL_VK_ARRIVALS_GUESS = 256, RL_VK_ARRIVALS_BYTES = 512 };

/* Numbers of one token that stages hand on: of rl_vk_buffers and rl_vk_numbered. */
typedef struct rl_vk_widths {
    uint64_t x, u, z, ba, k, v, y, sums;
    uint64_t part; /* of attention's parts, one for each piece of the positions */
    uint64_t router, shared;
} rl_vk_widths;
rl_vk_widths rl_vk_widths_of(const rl_shape *s);

/* What linked stages hand on (vk_link.h), by device address: counters, one per layer, and numbered values,
 * those of the layer and token under way. */
typedef struct rl_vk_numbered {
    uint64_t counters;
    uint64_t x, mixed; /* [H]: of the layer before, and behind the mixer */
    uint64_t u, z, ba, k, v, y, sums, parts, router, scale, shared_gate,
        shared_up;   /* as in rl_vk_buffers, of one token */
    uint64_t choice; /* [K][RL_CHOICE_WORDS] */
} rl_vk_numbered;

struct rl_state {
    rl_vk_arena *arena, *upload;
    rl_vk_layer_state *layers;
    rl_state_params params;
    uint32_t side; /* the current copy */
    rl_vk_block block;
    /* Counters of routers that choose, zero between tokens: the layer's, and at RL_VK_ARRIVALS_GUESS
     * that of the guess beside it. */
    rl_vk_span arrivals;
    rl_vk_span handed; /* all of `numbered` */
    rl_vk_numbered numbered;
    uint32_t turn;       /* tokens that have been through the linked stages */
    rl_vk_cmd *segments; /* [n_layer + 1]; recorded once */
    rl_vk_cmd whole;     /* all of them, for tokens that are submitted from the start */
    rl_vk_cmd top;       /* the largest logits, submitted behind the head when they are wanted */
    bool recorded;
    bool linked;           /* whole: its stages are linked where they can be */
    rl_vk_marks marks;     /* while somebody asks for times */
    uint64_t token_passes; /* dense matrices that one token walks over */
};

/* Activations, by address; n: max_batch. */
typedef struct rl_vk_buffers {
    rl_vk_span x, h;         /* [n][H]           */
    rl_vk_span u;            /* [n][channels] or [n][Hq][2 d] */
    rl_vk_span z;            /* [n][Hv D]        */
    rl_vk_span ba;           /* [n][2 Hv]        */
    rl_vk_span k, v;         /* [n][Hkv d]       */
    rl_vk_span y;            /* [n][Hv D] or [n][Hq d] */
    rl_vk_span sums;         /* [n][Hv][parts]   */
    rl_vk_span parts;        /* attention        */
    rl_vk_span router;       /* [n][E]           */
    rl_vk_span scale;        /* [n]              */
    rl_vk_span shared_gate;  /* [n][Fs], or the pair's product */
    rl_vk_span shared_up;    /* [n][Fs]          */
    rl_vk_span shared_out;   /* [n][H]           */
    rl_vk_span expert_gate;  /* [n K][F], or the pair's product; of one token: rl_across */
    rl_vk_span expert_up;    /* [n K][F]         */
    rl_vk_span expert_out;   /* [n K][H]         */
    rl_vk_span ids, weights; /* [n][K]           */
    rl_vk_span logits;       /* [RL_HEAD_ROWS][V] */
    rl_vk_span argmax;       /* scratch          */
    rl_vk_span top;          /* scratch          */
    rl_vk_span ahead_router; /* [E]: the next layer's router on this layer's x */
    rl_vk_span ahead_ids, ahead_weights;
    rl_vk_span choices; /* [n_layer][K] of a token that is one command buffer */
} rl_vk_buffers;

/* What the host reads; mapped. */
typedef struct rl_vk_results {
    rl_vk_span ids;     /* u32 [n][K] of the batch's layer             */
    rl_vk_span choices; /* u32 [n_layer][K] of the token under way     */
    rl_vk_span ahead;   /* u32 [n_layer][K]: guesses for the next layer */
    rl_vk_span best;    /* bits of the largest logit, its index        */
    rl_vk_span top;     /* result of rl_vk_op_top                      */
    rl_vk_span logits;  /* [RL_HEAD_ROWS][V]                           */
} rl_vk_results;

typedef struct rl_vk_backend {
    rl_backend base;
    rl_backend_params params;
    rl_vk_device *device;
    rl_vk_uploader *uploader;
    rl_vk_stream *stream;
    rl_vk_ops ops;
    rl_backend_counters counters;

    rl_vk_arena *weight_arena;
    rl_vk_span *weights; /* every one allocated */
    uint32_t n_weights, weights_room;

    rl_vk_arena *pool_arena;
    uint32_t n_classes;
    rl_vk_span **slots; /* [class][index] */
    uint32_t *slot_counts;

    const rl_net *net;
    uint32_t max_batch;
    rl_vk_arena *buffer_arena, *upload_arena, *readback_arena;
    rl_vk_buffers buf;
    rl_vk_results out;
    rl_vk_span residency; /* u64 [n_layer][E], host-visible */
    rl_vk_block block;    /* for batches of many tokens */
    rl_vk_span lists;     /* groups of tokens by expert, host-visible */
    uint64_t lists_used;
    rl_vk_cmd cmd; /* stage mode */
    rl_vk_cmd copy;
    VkSemaphore gates;
    uint64_t gate_base, gate_open; /* values of gates: of this token, and reached */
    uint64_t uploads_seen; /* value of the uploader's clock that submissions have waited for */
    uint32_t spin_us;
    uint32_t decode_splits;
    VkCommandBuffer *handles; /* [n_layer + 2], scratch */
    rl_vk_batch *batches;     /* [n_layer + 2], scratch */
    uint32_t head_first, head_rows;
    rl_stage_times *stage_times; /* the GPU's time by stage is added there; NULL: nobody asks */

    /* the batch under way */
    rl_batch batch;
    rl_vk_block *now;     /* its parameters */
    bool by_segments;     /* one token by what its state has recorded; in stage mode: stages do
                             nothing, route and head submit segments */
    bool dirty;           /* cmd holds work that is not submitted */
    bool gated, resumed;  /* the token under way */
    uint64_t first_value; /* gated: stream clock before segment 0 */
    uint64_t last_value;  /* what the last submission signals */
    uint32_t waiting_at;  /* by_segments: layer whose experts the next segment computes */
    rl_expert_group parts[RL_MAX_EXPERTS_USED]; /* by_segments: experts announced so far */
    uint32_t part_assign[RL_MAX_EXPERTS_USED];
    uint32_t n_parts;
} rl_vk_backend;

static inline rl_vk_backend *rl_vk_of(rl_backend *be)
{
    return (rl_vk_backend *)be;
}

/* ---- vk_backend.c --------------------------------------------------------------------------------- */

/* A line for the user, one sentence; nobody may be listening. */
void rl_vk_note(const rl_vk_backend *vk, const char *text);

/* ---- vk_state.c ----------------------------------------------------------------------------------- */

rl_status rl_vk_state_create(rl_backend *be, rl_state **out, const rl_state_params *params,
                             rl_error *err);
void rl_vk_state_destroy(rl_backend *be, rl_state *state);
rl_status rl_vk_state_reset(rl_backend *be, rl_state *state, rl_error *err);
void rl_vk_state_commit(rl_backend *be, rl_state *state);
rl_status rl_vk_state_read(rl_backend *be, const rl_state *state, uint32_t layer,
                           rl_state_part part, uint32_t n_tokens, void *out, rl_error *err);
rl_status rl_vk_state_write(rl_backend *be, rl_state *state, uint32_t layer, rl_state_part part,
                            uint32_t n_tokens, const void *bytes, rl_error *err);

/* Takes a block for up to n tokens; fills it for a batch. */
rl_status rl_vk_block_init(rl_vk_block *block, rl_vk_arena *upload, uint32_t n, uint32_t n_rot,
                           rl_error *err);
void rl_vk_block_fill(const rl_vk_block *block, const rl_shape *shape, const rl_batch *batch,
                      uint32_t side, bool check);

/* ---- vk_record.c ---------------------------------------------------------------------------------- */

/* What is recorded, for whom. */
typedef struct rl_vk_recording {
    rl_vk_backend *vk;
    rl_vk_cmd *cmd;
    rl_state *state;
    const rl_vk_block *block;
    uint32_t n;
    uint64_t choices;   /* where routers publish, [n_layer][K]: segments only */
    uint32_t despite;   /* a halt of this value does not stop dense products  */
    bool guesses;       /* the next layer's experts are guessed where somebody will ask */
    rl_vk_marks *marks; /* NULL: no times are wanted                          */
} rl_vk_recording;

rl_status rl_vk_record_embed(const rl_vk_recording *r, rl_error *err);
rl_status rl_vk_record_delta_in(const rl_vk_recording *r, uint32_t layer, rl_error *err);
rl_status rl_vk_record_delta_step(const rl_vk_recording *r, uint32_t layer, rl_error *err);
rl_status rl_vk_record_attn_in(const rl_vk_recording *r, uint32_t layer, rl_error *err);
rl_status rl_vk_record_attn_step(const rl_vk_recording *r, uint32_t layer, rl_error *err);
rl_status rl_vk_record_mix_out(const rl_vk_recording *r, uint32_t layer, rl_error *err);
/* Router logits; many tokens: the norm before. */
rl_status rl_vk_record_moe_in(const rl_vk_recording *r, uint32_t layer, rl_error *err);
/* The shared expert in two steps, the first with its scale, so that they can run beside the choice
 * and the other experts. */
rl_status rl_vk_record_shared_up(const rl_vk_recording *r, uint32_t layer, rl_error *err);
rl_status rl_vk_record_shared_down(const rl_vk_recording *r, uint32_t layer, rl_error *err);
/* publish: device address where the host reads the ids; forced: address of ids, 0: none. */
rl_status rl_vk_record_route(const rl_vk_recording *r, uint32_t layer, uint64_t publish,
                             uint64_t forced, rl_error *err);
/* Both in one dispatch, one token of a state's segments; where the device and the router's type allow. */
bool rl_vk_record_can_choose(const rl_vk_recording *r, uint32_t layer);
rl_status rl_vk_record_moe_in_and_route(const rl_vk_recording *r, uint32_t layer, uint64_t publish,
                                        rl_error *err);
/* The next layer's router on the present x, and its choice: in one dispatch, or in two. */
rl_status rl_vk_record_ahead(const rl_vk_recording *r, uint32_t next, rl_error *err);
rl_status rl_vk_record_ahead_in(const rl_vk_recording *r, uint32_t next, rl_error *err);
rl_status rl_vk_record_ahead_route(const rl_vk_recording *r, uint32_t next, rl_error *err);
/* One token, ranks of the mask: gate and up; then down, kept apart per rank. */
rl_status rl_vk_record_experts_up(const rl_vk_recording *r, uint32_t layer, uint32_t mask,
                                  rl_error *err);
rl_status rl_vk_record_experts_down(const rl_vk_recording *r, uint32_t layer, uint32_t mask,
                                    rl_error *err);
/* One token: down of all ranks and the sum in one. */
rl_status rl_vk_record_experts_out(const rl_vk_recording *r, uint32_t layer, rl_error *err);
/* Many tokens. */
rl_status rl_vk_record_groups(const rl_vk_recording *r, uint32_t layer,
                              const rl_expert_group *groups, uint32_t n_groups, rl_error *err);
rl_status rl_vk_record_moe_sum(const rl_vk_recording *r, uint32_t layer, rl_error *err);
/* Final norm and head of rows first .. first+rows-1. */
rl_status rl_vk_record_head(const rl_vk_recording *r, uint32_t first, uint32_t rows, rl_error *err);
rl_status rl_vk_record_best(const rl_vk_recording *r, rl_error *err);
/* The largest logits; two dependent steps. Vocabularies that are too large for it: none are found. */
rl_status rl_vk_record_top(const rl_vk_recording *r, rl_error *err);

/* ---- vk_stages.c ---------------------------------------------------------------------------------- */

/* Work of the stage mode: *out is being recorded. Starts recording when nothing is. */
rl_status rl_vk_stage_cmd(rl_vk_backend *vk, rl_vk_cmd **out, rl_error *err);
/* Submits it, if there is any, and waits. */
rl_status rl_vk_stage_flush(rl_vk_backend *vk, rl_error *err);
/* Submits command buffers behind all uploads so far. */
rl_status rl_vk_submit(rl_vk_backend *vk, const VkCommandBuffer *buffers, uint32_t n,
                       rl_error *err);
rl_status rl_vk_wait(rl_vk_backend *vk, rl_error *err);
/* Copies a device span to host memory; nothing may be recorded in vk->cmd. */
rl_status rl_vk_read(rl_vk_backend *vk, const rl_vk_span *span, uint64_t offset, void *out,
                     uint64_t bytes, rl_error *err);

rl_status rl_vk_begin(rl_backend *be, const rl_batch *batch, rl_error *err);
rl_status rl_vk_embed(rl_backend *be, rl_error *err);
rl_status rl_vk_delta_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_delta_step(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_attn_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_attn_step(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_mix_out(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_moe_in(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_route(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                      rl_error *err);
rl_status rl_vk_route_ahead(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err);
rl_status rl_vk_moe_shared(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_moe_experts(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                            uint32_t n_groups, rl_error *err);
rl_status rl_vk_drain(rl_backend *be, rl_error *err);
rl_status rl_vk_moe_out(rl_backend *be, uint32_t layer, rl_error *err);
rl_status rl_vk_head(rl_backend *be, uint32_t first, uint32_t rows, float *logits, rl_error *err);
rl_status rl_vk_end(rl_backend *be, rl_error *err);
rl_status rl_vk_read_tap(rl_backend *be, rl_tap tap, float *out, rl_error *err);

/* ---- vk_routed.c ---------------------------------------------------------------------------------- */

/* Records the segments of a state, one by one and as a whole token, if that has not been done; the
 * whole again when somebody begins or ceases to ask for times, or links have been given up. */
rl_status rl_vk_segments_record(rl_vk_backend *vk, rl_state *state, rl_error *err);
void rl_vk_segments_free(rl_vk_backend *vk, rl_state *state);

extern const rl_routed_ops rl_vk_routed_ops;       /* with gates */
extern const rl_routed_ops rl_vk_routed_ops_plain; /* without    */

#endif
