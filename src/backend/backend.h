/* backend.h - how to compute: the table of stages that the engine plays and a backend implements.
 *
 * The engine (engine/forward.c) states one batch of tokens in reading order as the stages below. A
 * backend executes them at once (cpu, oracle) or records them for a device (vulkan); it may fuse
 * what lies between two calls as it likes. It never sees a model or a file: shapes and weights
 * arrive as the structs of this file, experts by way of the residency table.
 *
 * The engine owns the order of calls. Per model, once:
 *     open, weight_alloc/weight_write for every tensor, pool_create, attach
 * per batch of tokens:
 *     begin, embed, { delta_in, delta_step | attn_in, attn_step }, mix_out, moe_in, route,
 *     moe_shared, moe_experts (any number of times), moe_out, ... next layer ..., head, end
 * then state_commit, or nothing when the batch is to be forgotten.
 *
 * Notation: n tokens in the batch, H n_embd, E n_expert, K n_expert_used, F n_ff_expert.
 * Threads: one caller at a time per backend. Errors: a stage that fails leaves the session state as
 * it was (it reads one copy and writes the other); the batch is then abandoned. */
#ifndef RL_BACKEND_BACKEND_H
#define RL_BACKEND_BACKEND_H

#include "base/status.h"

/* ---- shapes and weights ---------------------------------------------------------------------- */

/* The largest k of any router, and the rows of logits that `head` computes in one call. */
enum { RL_MAX_EXPERTS_USED = 32, RL_HEAD_ROWS = 64 };

typedef struct rl_shape {
    uint32_t n_layer, n_embd, n_vocab;
    float rms_eps;
    /* attention layers */
    uint32_t n_head, n_head_kv, head_dim; /* query heads, key/value heads, values per head */
    uint32_t n_rot;                       /* rotated values per head, even */
    float rope_base;
    /* gated delta net layers */
    uint32_t conv_taps;                           /* C */
    uint32_t n_key_head, n_value_head, delta_dim; /* Hk, Hv, D */
    /* mixture of experts, every layer */
    uint32_t n_expert, n_expert_used, n_ff_expert, n_ff_shared;
} rl_shape;

/* Channels of the convolution: q, k and v side by side, 2 Hk D + Hv D. */
static inline uint32_t rl_shape_conv_channels(const rl_shape *s)
{
    return (2 * s->n_key_head + s->n_value_head) * s->delta_dim;
}

/* A matrix of `rows` rows of `cols` weights of one ggml type, row after row; a vector has one row.
 * type, rows and cols are set by the engine; the rest by weight_alloc. */
typedef struct rl_weight {
    uint32_t type;
    uint32_t rows, cols;
    uint64_t bytes;
    void *host;       /* where the host can read it; NULL when it lives on a device only */
    uint64_t address; /* device address; 0 on host backends */
} rl_weight;

/* Gated delta net: u = qkv h (q heads, k heads, v heads), z = gate h, m = ba h (b and a interleaved
 * per key head, docs/qwen3next.md 4.1). conv [channels][C], dt and a [Hv], norm [D]: always F32. */
typedef struct rl_delta_weights {
    rl_weight qkv, gate, ba, conv, dt, a, norm, out;
} rl_delta_weights;

/* Gated attention: q holds per head head_dim query rows, then head_dim gate rows. Norms: F32. */
typedef struct rl_attn_weights {
    rl_weight q, k, v, q_norm, k_norm, out;
} rl_attn_weights;

/* How the three matrices of one expert lie in its slot. gate and up: [F][H], down: [H][F]. */
typedef struct rl_expert_layout {
    uint32_t gate_type, up_type, down_type;
    uint64_t gate_offset, up_offset, down_offset; /* bytes from the start of the slot */
    uint64_t bytes;                               /* of the whole expert */
    uint32_t slot_class;                          /* which size class of the pool */
} rl_expert_layout;

typedef struct rl_layer {
    bool recurrent;
    rl_weight mix_norm, moe_norm; /* [H], F32 */
    rl_delta_weights delta;       /* recurrent layers */
    rl_attn_weights attn;         /* attention layers */
    rl_weight router;             /* [E][H] */
    rl_weight shared_scale;       /* [H], F32: the shared expert's gate, one number per token */
    rl_weight shared_gate, shared_up, shared_down;
    rl_expert_layout expert;
    bool guessed; /* route_ahead will be asked for this layer; set before the first state is made */
} rl_layer;

/* Everything a backend needs to know to run a network. */
typedef struct rl_net {
    rl_shape shape;
    rl_layer *layers;      /* [n_layer] */
    rl_weight embedding;   /* [n_vocab][H] */
    rl_weight output_norm; /* [H], F32 */
    rl_weight head;        /* [n_vocab][H]; the same storage as embedding when tied */
} rl_net;

/* ---- devices and opening --------------------------------------------------------------------- */

typedef struct rl_backend rl_backend;
typedef struct rl_state rl_state; /* one session's recurrent state and KV cache */

typedef struct rl_backend_params {
    uint32_t n_threads; /* host threads; 0: rl_cpu_count() */
    const char *device; /* name or index for backends with devices; NULL: the best one */
    const char *isa;    /* cpu: the instruction set (RL_CPU); NULL: the best one */
    void (*note)(void *ctx, const char *text); /* one-line remarks for the user; may be NULL */
    void *note_ctx;
} rl_backend_params;

/* What a backend can do, fixed after open. 0 means "not available". */
typedef struct rl_backend_caps {
    char description[160];    /* "cpu avx512vnni, 2 threads" */
    bool device_memory;       /* weights and slots are not host memory */
    bool rounds_activations;  /* 8-bit activations: judged by the 8-bit gate, not the float gate */
    bool slots_host_writable; /* slot_host() gives pointers */
    uint64_t memory_bytes;    /* device backends: what may still be allocated */
} rl_backend_caps;

/* Work done since open; monotonic. Tests prove claims with these. */
typedef struct rl_backend_counters {
    uint64_t tokens;         /* through begin */
    uint64_t dense_passes;   /* walks over one dense weight matrix */
    uint64_t expert_passes;  /* walks over one expert */
    uint64_t loops;          /* over the threads of a host backend; each ends in a barrier */
    uint64_t stages;         /* stages computed by the backend itself */
    uint64_t host_fallbacks; /* stages of a device backend that ran on the host instead */
    uint64_t submissions, waits, recordings; /* device queues */
    uint64_t state_bytes_copied; /* recurrent state moved other than by the delta step itself */
} rl_backend_counters;

/* ---- one batch ------------------------------------------------------------------------------- */

typedef struct rl_batch {
    bool observed; /* read_tap will be called between stages: do not fuse across them */
    bool top;      /* routed->read_top() will be called: find the largest logits, too */
    rl_state *state;
    const uint32_t *tokens; /* [n], each < n_vocab */
    uint32_t n;             /* 1 .. max_batch of attach */
    uint32_t position;      /* of tokens[0]; position + n <= n_ctx of the state */
} rl_batch;

/* The tokens of a batch that chose one expert. assign[i] = token * K + rank, ascending. */
typedef struct rl_expert_group {
    uint32_t expert;
    uint32_t n;
    const uint32_t *assign;
} rl_expert_group;

/* Intermediate values that parity and tests look at; valid at the named moment. */
typedef enum rl_tap {
    RL_TAP_HIDDEN,        /* [n][H]  the residual stream, after embed, mix_out or moe_out */
    RL_TAP_ROUTER,        /* [n][E]  router logits, after moe_in */
    RL_TAP_ROUTE_WEIGHTS, /* [n][K]  after route, in the order of the ids */
    RL_TAP_FINAL_NORM     /* [rows][H] after head */
} rl_tap;

/* Parts of a state in exchange form, the same for all backends. */
typedef enum rl_state_part {
    RL_STATE_CONV,  /* recurrent: f32 [C-1][channels], oldest column first */
    RL_STATE_DELTA, /* recurrent: f32 [Hv][D key][D value] */
    RL_STATE_KEY,   /* attention: [n_tokens][n_head_kv * head_dim] of the state's key type */
    RL_STATE_VALUE  /* attention: the same of the value type */
} rl_state_part;

typedef struct rl_state_params {
    uint32_t n_ctx;
    uint32_t key_type, value_type; /* ggml ids: 0 F32 or 1 F16 */
} rl_state_params;

/* ---- time ------------------------------------------------------------------------------------ */

/* The stages of the table below, where time is told apart. */
typedef enum rl_stage {
    RL_STAGE_EMBED,
    RL_STAGE_DELTA_IN,
    RL_STAGE_DELTA_STEP,
    RL_STAGE_ATTN_IN,
    RL_STAGE_ATTN_STEP,
    RL_STAGE_MIX_OUT,
    RL_STAGE_MOE_IN,
    RL_STAGE_ROUTE,   /* with moe_in, where a backend does both at once */
    RL_STAGE_EXPERTS, /* with what is waited for their bytes */
    RL_STAGE_MOE_OUT,
    RL_STAGE_LAYERS, /* instead of all between embed and head, where a backend lets them overlap */
    RL_STAGE_HEAD,
    RL_STAGES
} rl_stage;

/* Where the time went, and of how many tokens it is. */
typedef struct rl_stage_times {
    uint64_t ns[RL_STAGES];
    uint64_t n_tokens;
} rl_stage_times;

/* ---- the largest logits ---------------------------------------------------------------------- */

/* How many are found: enough for top-k up to 60 even when a whole window of 64 penalties strikes
 * among them, and little enough to be sorted by one workgroup. */
enum { RL_TOP_LOGITS = 128 };

/* The beginning of all logits of a token in the order of sampling: by logit, descending, equal ones
 * by ascending id (-0 and 0 are equal). NaN and -infinity stand nowhere. */
typedef struct rl_top_logits {
    uint32_t n; /* min(RL_TOP_LOGITS, how many there are); 0 also when they could not be found */
    bool all;   /* no further logit is a number above -infinity; false: not known */
    uint32_t tokens[RL_TOP_LOGITS];
    float logits[RL_TOP_LOGITS];
} rl_top_logits;

/* ---- the GPU-routed step --------------------------------------------------------------------- */

/* How a routed token ended, or where it stands. */
typedef struct rl_routed_outcome {
    bool complete;  /* every layer ran: logits may be read and the state committed */
    uint32_t layer; /* otherwise the first layer with an absent expert: nothing behind its router
                       has run, and its choice stands in `ids` */
    uint32_t ids[RL_MAX_EXPERTS_USED];
} rl_routed_outcome;

/* A whole token, embedding to logits, in one submission: the device chooses the experts, finds them
 * in the residency table and runs them. Optional for a backend with a queue of its own; design and
 * rules: docs/gpu-routing.md. The same kernels on the same values as the stages: same bits.
 *
 *     submit, wait                              all resident
 *     submit, wait, (load, resume, wait)*       absent experts: the token goes on at that layer
 *     submit_gated, (await_choice, load, open_gate) for every layer in order, wait
 *
 * then read_logits and state_commit; or neither, and the token has never been. */
typedef struct rl_routed_ops {
    /* Batch of one token. One queue submission; records nothing after the first token of a state. */
    rl_status (*submit)(rl_backend *be, const rl_batch *batch, rl_error *err);
    /* One wait for what was submitted last. Gates that are still closed then are opened with the
     * rest of the token halted: that is how a gated token is abandoned. */
    rl_status (*wait)(rl_backend *be, rl_routed_outcome *out, rl_error *err);
    /* One submission: from the expert stage of `layer` on. The caller has made its choice resident. */
    rl_status (*resume)(rl_backend *be, uint32_t layer, rl_error *err);
    /* All layers at once, each waiting for its gate. NULL where the device cannot (no slots that the
     * host can write while the queue is busy). */
    rl_status (*submit_gated)(rl_backend *be, const rl_batch *batch, rl_error *err);
    /* The choice [K] of `layer`, as soon as the device has published it. Once it is there, the
     * experts of earlier layers are not read any more, and route_ahead() gives the guess for the
     * next layer, before and behind the opening of the gate. */
    rl_status (*await_choice)(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err);
    rl_status (*open_gate)(rl_backend *be, uint32_t layer, rl_error *err);
    /* What every layer of the completed token chose, [n_layer][K]. */
    void (*read_choices)(const rl_backend *be, uint32_t *ids);
    /* Logits [n_vocab] of the completed token, or of head() without a place for them, and the largest
     * one's index (lower index on ties); logits may be NULL when only the index is wanted. They stay
     * until the head computes again: a token that fails before has not touched them. */
    rl_status (*read_logits)(rl_backend *be, float *logits, uint32_t *best, rl_error *err);
    /* The largest of the same logits, when the batch had `top` set: they came with the token, in its
     * submission. NULL where they are never found. */
    void (*read_top)(const rl_backend *be, rl_top_logits *out);
} rl_routed_ops;

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct rl_backend_ops {
    const char *name; /* "cpu" */

    rl_status (*open)(rl_backend **out, const rl_backend_params *params, rl_error *err);
    void (*close)(rl_backend *be); /* frees weights and pool; states must be gone; NULL is fine */
    void (*get_caps)(const rl_backend *be, rl_backend_caps *out);
    void (*get_counters)(const rl_backend *be, rl_backend_counters *out);
    /* What rl_devices() says of this backend: as redlite.h describes it. Optional: may be NULL. */
    rl_status (*list_devices)(rl_device_info *out, size_t capacity, size_t *n_found, rl_error *err);
    /* Whether the backend can compute with this type: in an expert slot, or as a dense matrix. */
    bool (*supports)(const rl_backend *be, uint32_t type, bool expert);

    /* -- memory. Writes may be staged; they are visible to the next begin, or to the next
     * moe_experts for slots. */
    rl_status (*weight_alloc)(rl_backend *be, rl_weight *weight, const char *name, rl_error *err);
    rl_status (*weight_write)(rl_backend *be, const rl_weight *weight, uint64_t offset,
                              const void *bytes, uint64_t n, rl_error *err);
    /* Slots for experts: class c has count[c] slots of bytes[c]. Once. */
    rl_status (*pool_create)(rl_backend *be, uint32_t n_classes, const uint64_t *bytes,
                             const uint32_t *count, rl_error *err);
    uint64_t (*slot_address)(const rl_backend *be, uint32_t slot_class, uint32_t index); /* != 0 */
    /* Host memory of the slot to write into, or NULL where only slot_write works. */
    void *(*slot_host)(const rl_backend *be, uint32_t slot_class, uint32_t index);
    rl_status (*slot_write)(rl_backend *be, uint32_t slot_class, uint32_t index, uint64_t offset,
                            const void *bytes, uint64_t n, rl_error *err);
    /* The residency table entry of one expert; 0: not resident. Called by the engine when the cache
     * says so; only between stages. In a gated token also behind an open gate, for experts that
     * nothing before the next gate reads. */
    void (*residency_set)(rl_backend *be, uint32_t layer, uint32_t expert, uint64_t address);
    /* The entry as the backend's kernels will find it: for checks of a debug build. */
    uint64_t (*residency_get)(const rl_backend *be, uint32_t layer, uint32_t expert);
    /* Fixes the network and takes the activation buffers for batches of up to max_batch tokens. The
     * net is borrowed until close. Device backends build pipelines and warm up here. */
    rl_status (*attach)(rl_backend *be, const rl_net *net, uint32_t max_batch, rl_error *err);
    /* Bytes that attach takes for activations; for `info` and planning. */
    uint64_t (*batch_bytes)(const rl_shape *shape, uint32_t max_batch);

    /* -- states. Two copies of the recurrent part: a batch reads one and writes the other. */
    rl_status (*state_create)(rl_backend *be, rl_state **out, const rl_state_params *params,
                              rl_error *err);
    void (*state_destroy)(rl_backend *be, rl_state *state);                   /* NULL is fine */
    rl_status (*state_reset)(rl_backend *be, rl_state *state, rl_error *err); /* zeros */
    /* Makes what the last batch wrote the current copy. No bytes move. */
    void (*state_commit)(rl_backend *be, rl_state *state);
    /* Current copy, exchange form. n_tokens: for KEY and VALUE, the first so many positions. */
    rl_status (*state_read)(rl_backend *be, const rl_state *state, uint32_t layer,
                            rl_state_part part, uint32_t n_tokens, void *out, rl_error *err);
    rl_status (*state_write)(rl_backend *be, rl_state *state, uint32_t layer, rl_state_part part,
                             uint32_t n_tokens, const void *bytes, rl_error *err);

    /* -- stages, in the order of one batch. */
    rl_status (*begin)(rl_backend *be, const rl_batch *batch, rl_error *err);
    /* x = embedding[token] */
    rl_status (*embed)(rl_backend *be, rl_error *err);
    /* h = rms(x, mix_norm); u, z, m = projections of h */
    rl_status (*delta_in)(rl_backend *be, uint32_t layer, rl_error *err);
    /* convolution, SiLU, L2 norms, gates, delta rule, gated norm: y [n][Hv D] */
    rl_status (*delta_step)(rl_backend *be, uint32_t layer, rl_error *err);
    /* h = rms(x, mix_norm); query + gate, key, value = projections of h */
    rl_status (*attn_in)(rl_backend *be, uint32_t layer, rl_error *err);
    /* head norms, RoPE, KV append, attention, output gate: y [n][n_head head_dim] */
    rl_status (*attn_step)(rl_backend *be, uint32_t layer, rl_error *err);
    /* x += out y, with the layer's delta.out or attn.out */
    rl_status (*mix_out)(rl_backend *be, uint32_t layer, rl_error *err);
    /* h = rms(x, moe_norm); router logits; scale of the shared expert */
    rl_status (*moe_in)(rl_backend *be, uint32_t layer, rl_error *err);
    /* Chooses K experts per token (rl_router_topk's rule) and their weights, keeps both, and gives
     * the ids to the host: ids [n][K]. forced != NULL: these ids instead, with weights by the same
     * rule. Waits. */
    rl_status (*route)(rl_backend *be, uint32_t layer, const uint32_t *forced, uint32_t *ids,
                       rl_error *err);
    /* What the router of `layer` would choose for the x that the layer before it has routed: a guess
     * for prefetching, ids [K], batches of one token, layers that are `guessed`. Between route() of
     * the layer before and its moe_out(). Optional: may be NULL. */
    rl_status (*route_ahead)(rl_backend *be, uint32_t layer, uint32_t *ids, rl_error *err);
    /* The shared expert: kept aside, scaled. */
    rl_status (*moe_shared)(rl_backend *be, uint32_t layer, rl_error *err);
    /* The experts of these groups, all resident; each result is kept apart per (token, rank), so
     * that the order of calls cannot change a bit. */
    rl_status (*moe_experts)(rl_backend *be, uint32_t layer, const rl_expert_group *groups,
                             uint32_t n_groups, rl_error *err);
    /* Waits until everything recorded so far is computed, so that the slots it reads may be filled
     * anew. NULL: stages compute at once. */
    rl_status (*drain)(rl_backend *be, rl_error *err);
    /* x += sum over ranks, in order of rank, of weight * expert; + shared */
    rl_status (*moe_out)(rl_backend *be, uint32_t layer, rl_error *err);
    /* logits [rows][n_vocab] of the tokens first .. first+rows-1 of the batch, to `logits` in host
     * memory. rows <= RL_HEAD_ROWS. Waits. May be called several times. `logits` may be NULL for a
     * batch of one token where there is a routed step: they stay for routed->read_logits(). */
    rl_status (*head)(rl_backend *be, uint32_t first, uint32_t rows, float *logits, rl_error *err);
    /* Everything recorded is done; errors of the device surface here at the latest. */
    rl_status (*end)(rl_backend *be, rl_error *err);
    /* From now on the device's time for tokens of one submission is added to *times; NULL: no more.
     * Costs a little per stage. Optional: stages that compute at once are timed by the caller. */
    void (*time_stages)(rl_backend *be, rl_stage_times *times);
    /* Waits and copies an intermediate value as f32; batches that are `observed` only. */
    rl_status (*read_tap)(rl_backend *be, rl_tap tap, float *out, rl_error *err);

    const rl_routed_ops *routed; /* NULL: stages only */
} rl_backend_ops;

/* Every backend's struct begins with this. */
struct rl_backend {
    const rl_backend_ops *ops;
};

/* ---- what is built in ------------------------------------------------------------------------ */

extern const rl_backend_ops rl_backend_cpu;
extern const rl_backend_ops rl_backend_oracle;
#ifdef RL_HAVE_VULKAN
extern const rl_backend_ops rl_backend_vulkan;
#endif

/* The backend of that name, or NULL. */
const rl_backend_ops *rl_backend_find(const char *name);
/* The i-th backend, best first; NULL behind the last. */
const rl_backend_ops *rl_backend_at(uint32_t index);
/* The backend of that name that has the device, "auto" being any. `device` is an index in the list of
 * all backends' devices, in the order of rl_backend_at(), or part of a name in any case. The oracle
 * runs on the cpu's device. With "vulkan" the device is looked for when that backend is opened.
 * RL_INVALID: no such backend. RL_DEVICE: no such device. */
RL_MUST_CHECK rl_status rl_backend_find_device(const rl_backend_ops **out, const char *name,
                                               const char *device, rl_error *err);

/* Selects the k experts of one token.
 *   logits  [n_expert]  f32, router output, not normalised
 *   ids     [k]   out   by logit, descending; equal logits: lower index first
 *   weights [k]   out   softmax over the chosen k, so they sum to 1
 * Requires 1 <= k <= n_expert (asserted). Cannot fail, allocates nothing, any thread.
 * Rule: docs/qwen3next.md 7, docs/numerics.md "router". */
void rl_router_topk(const float *logits, uint32_t n_expert, uint32_t k, uint32_t *ids,
                    float *weights);

/* The weights alone, for ids chosen elsewhere. */
void rl_router_weights(const float *logits, const uint32_t *ids, uint32_t k, float *weights);

#endif
