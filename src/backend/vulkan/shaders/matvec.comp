// matvec.comp - y = W x for one token: dense matrices, and the matrices of chosen experts.
//
// A kernel of a few microseconds is as fast as its longest chain of loads. So everything a workgroup
// needs is on its way before it waits for the first of it: the input, the codebook, and the words of
// the weights that it begins with (ROWS rows, ITERS chunks per lane). The input is prepared once and
// shared, by BLOCKS times ROWS rows of every team.
// And it is as slow as its instructions are many: a token runs a different kernel every few
// microseconds, so code is read afresh each time. The products are loops over one copy of the code;
// words that wait in registers move up one place per round, since registers cannot be indexed.
//
// Grid     x: teams of rows, y: ranks (routed), z: tokens
// Team     TEAM neighbouring lanes of a subgroup (a power of two) share rows; each lane takes every
//          TEAM-th chunk of 32 weights, so the order of additions is fixed
// Reads    x and, by INPUT, aux; the weights; with ADD what is added; routed: the chosen experts' ids
//          and where the residency table says that they are
// Writes   y [token][rank][rows]; nothing for ranks outside the mask or absent, or on a halt of
//          another value than `despite`
// Push     rl_matvec_push
// Numerics f32 on exactly decoded weights, or products of bytes to the same precision (RL_INTEGER,
//          dot.glsl); the RMS of the norm is found beside the products and
//          applied to the sums, since it is one factor for all of them
// RL_LINKS: dispatches that may wait for each other by themselves (link.glsl).
// RL_ROUTER: a router's product (RL_INPUT_NORM, one token) and the choice of experts in one dispatch.
//          The workgroup that is the last to have written its logits makes the choice (choose.glsl).
//          Who is last is counted in a word of memory, which the last sets back to 0; so workgroups of a
//          halted token are counted too. On a halt nothing is chosen either.
//          One workgroup more than the product needs chooses ahead, among old logits and for nothing: so
//          the code of the choice, which is read once per layer and would be waited for, has arrived.
//          Push     rl_router_push      Test kernel.vulkan.router*
// Oracle   matrix products of backend/oracle            Test kernel.vulkan.matvec*
#version 460
#extension GL_GOOGLE_include_directive : require
#define RL_PRODUCT
#ifdef RL_INTEGER
#extension GL_EXT_spirv_intrinsics : require
#endif
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"
#define RL_LINK_CONSTANT 10
#include "link.glsl"

layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint TEAM = 32;
layout(constant_id = 3) const uint INPUT = 0;
layout(constant_id = 4) const uint MATRIX = 0;
layout(constant_id = 5) const uint ADD = 0;
layout(constant_id = 6) const uint CHUNKS = 64;     // of a row
layout(constant_id = 7) const uint TILE = 64;       // chunks that are in shared memory at a time
layout(constant_id = 8) const uint HEAD_PARTS = 4;  // RL_INPUT_HEADS: partial sums per head
layout(constant_id = 9) const uint BLOCKS = 1;      // times ROWS rows of a team, one after the other

#ifdef RL_ROUTER
const uint FORCED = 0;
layout(push_constant, std430) uniform Push { rl_router_push router; };
rl_matvec_push p; // what of it a router needs
#include "choose.glsl"
#else
layout(push_constant, std430) uniform Push { rl_matvec_push p; };
#endif

const bool PAIR = MATRIX == RL_MATRIX_PAIR || MATRIX == RL_MATRIX_ROUTED_PAIR;
const bool ROUTED = MATRIX == RL_MATRIX_ROUTED || MATRIX == RL_MATRIX_ROUTED_PAIR;
const bool ACROSS_IN = ROUTED && INPUT != RL_INPUT_NORM, ACROSS_OUT = ROUTED && INPUT == RL_INPUT_NORM;
const uint OUTPUTS = PAIR ? ROWS / 2u : ROWS;       // per team
const uint ITERS = (TILE + TEAM - 1u) / TEAM;       // chunks per lane and tile
const uint SHARE = (8u * TILE + RL_LOCAL - 1u) / RL_LOCAL; // vectors of the input per invocation
const bool FETCHES_AHEAD = WAITS && !ROUTED && !RL_SOFTWARE; // before it waits
const bool EVEN = CHUNKS % TEAM == 0u && CHUNKS <= TILE; // every lane has a chunk in every step

const uint STAGE_LINE = TILE + 1u;
#include "stage.glsl"
shared float squares_of[64];
shared float head_scale[RL_VK_MAX_HEADS]; // RL_INPUT_HEADS

struct input_part {
    vec4 x, aux;
};

void load_input(rl_values4 x, uint i, bool with_norm, inout input_part v)
{
    if (ACROSS_IN) i = rl_across(i, CHUNKS);
    v.x = x.v[i];
    uint token = gl_WorkGroupID.z, rank = gl_WorkGroupID.y;
    if (INPUT == RL_INPUT_NORM) {
        if (with_norm) v.aux = rl_floats4(p.aux).v[i];
    } else if (INPUT == RL_INPUT_SWIGLU) {
        v.aux = rl_values4(p.aux + 4ul * uint64_t(token * p.x_token + rank * p.x_rank)).v[i];
    } else {
        v.aux = vec4(0.0);
    }
}

vec4 prepare(input_part v, uint i, inout float squares)
{
    if (INPUT == RL_INPUT_NORM) {
        squares += dot(v.x, v.x);
        return v.x * v.aux;
    }
    if (INPUT == RL_INPUT_SWIGLU) return rl_swiglu4(v.x, v.aux);
    if (INPUT == RL_INPUT_HEADS) return v.x * head_scale[4u * i / p.head];
    return v.x;
}

// Where vector n of the tile's input is in the row, in vectors.
uint source_of(uint n, uint first_chunk)
{
    return (rl_index(first_chunk + (n >> 3), (n & 7u) >> 1, CHUNKS) >> 2) + (n & 1u);
}

uint source_of_part(uint k, uint tile)
{
    uint n = min(gl_LocalInvocationIndex + k * RL_LOCAL, 8u * TILE - 1u);
    return source_of(min(n, 8u * (CHUNKS - tile) - 1u), tile);
}

void load_inputs(rl_values4 x, uint tile, bool with_norm, inout input_part parts[SHARE])
{
    [[unroll]] for (uint k = 0u; k < SHARE; k++)
        load_input(x, source_of_part(k, tile), with_norm, parts[k]);
}

// Byte of the matrix at which the team's k-th row begins.
uint row_of(uint first, uint k)
{
    return min(first + (PAIR ? k >> 1 : k), p.rows - 1u) * p.row_bytes;
}

rl_raw raw[ROWS * ITERS];

// The words of ROWS rows, from chunk g on: all are on their way before the first is waited for.
void fetch_rows(rl_words w, rl_words w_second, uint first, uint g)
{
    [[unroll]] for (uint i = 0u; i < ITERS; i++) {
        uint at = EVEN ? g + i * TEAM : min(g + i * TEAM, CHUNKS - 1u);
        [[unroll]] for (uint k = 0u; k < ROWS; k++)
            rl_fetch_row(PAIR && (k & 1u) != 0u ? w_second : w, row_of(first, k), at, CHUNKS,
                         raw[i * ROWS + k]);
    }
}

void product()
{
    uint rank = gl_WorkGroupID.y, token = gl_WorkGroupID.z, id = gl_LocalInvocationIndex;
    if (ROUTED && ((p.mask >> rank) & 1u) == 0u) return;

    uint lane = gl_SubgroupInvocationID & (TEAM - 1u), teams = gl_SubgroupSize / TEAM;
    uint team = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * teams +
                gl_SubgroupInvocationID / TEAM;
    uint first = team * (BLOCKS * OUTPUTS);

    // First what depends on nothing, and if this dispatch waits, what depends on no other.
    input_part parts[SHARE];
    rl_table_part table;
    if (WAITS) {
        if (INPUT == RL_INPUT_NORM)
            [[unroll]] for (uint k = 0u; k < SHARE; k++)
                parts[k].aux = rl_floats4(p.aux).v[source_of_part(k, 0u)];
        rl_table_fetch(p.tables, table);
        if (FETCHES_AHEAD)
            fetch_rows(rl_words(p.w), rl_words(p.w + (PAIR ? p.second : 0ul)), first, lane);
        rl_await(p.token, p.link);
    }
    uint halt = rl_token(p.token).v.halt;
    uint expert = ROUTED ? rl_numbers(p.ids).v[token * p.ranks + rank] : 0u;
    rl_values4 x = rl_values4(p.x + 4ul * uint64_t(token * p.x_token + rank * p.x_rank));
    load_inputs(x, 0u, !WAITS, parts);
    if (!WAITS) rl_table_fetch(p.tables, table);
    if (INPUT == RL_INPUT_HEADS) {
        uint heads = p.cols / p.head;
        for (uint i = id; i < heads; i += RL_LOCAL) {
            float sum = 0.0;
            [[unroll]] for (uint k = 0u; k < HEAD_PARTS; k++)
                sum += rl_values(p.aux).v[(token * heads + i) * HEAD_PARTS + k];
            head_scale[i] = inversesqrt(sum / float(p.head) + p.eps);
        }
    }

    uint64_t base = p.w;
    if (ROUTED) {
        uint64_t slot = rl_addresses(p.residency).v[expert];
        if (slot == 0ul) return;
        base += slot;
    }
    rl_words w = rl_words(base), w_second = rl_words(base + (PAIR ? p.second : 0ul));
    rl_values y = rl_values(p.y + 4ul * uint64_t(token * p.y_token + rank * p.rows));
    rl_values add = rl_values(p.add + 4ul * uint64_t(token * p.y_token));
    float acc[ROWS];
    float squares = 0.0;

    for (uint tile = 0u; tile < CHUNKS; tile += TILE) {
        if (tile != 0u) load_inputs(x, tile, true, parts);
        if (!RL_SOFTWARE && !(FETCHES_AHEAD && tile == 0u)) fetch_rows(w, w_second, first, tile + lane);
        if (tile != 0u) {
            barrier(); // the tile before has been read
        } else {
            rl_table_store(table);
            if (INPUT == RL_INPUT_HEADS) barrier();
        }
        [[dont_unroll]] for (uint k = 0u; k < SHARE; k++) {
            uint n = id + k * RL_LOCAL;
            bool inside = n < 8u * TILE && tile + (n >> 3) < CHUNKS;
            rl_stage(n, inside, inside ? prepare(parts[0], source_of(n, tile), squares) : vec4(0.0));
            [[unroll]] for (uint r = 0u; r + 1u < SHARE; r++)
                parts[r] = parts[r + 1u];
        }
        if (INPUT == RL_INPUT_NORM && tile + TILE >= CHUNKS) {
            squares = subgroupAdd(squares);
            if (gl_SubgroupInvocationID == 0u) squares_of[gl_SubgroupID] = squares;
        }
        barrier();
        if (halt != 0u && halt != p.despite) return;

        [[dont_unroll]] for (uint b = 0u; b < BLOCKS; b++) {
            if (b != 0u) {
                first += OUTPUTS;
                if (!RL_SOFTWARE) fetch_rows(w, w_second, first, tile + lane);
            }
            if (tile == 0u)
                [[unroll]] for (uint k = 0u; k < ROWS; k++)
                    acc[k] = 0.0;
            [[dont_unroll]] for (uint i = 0u; i < ITERS; i++) {
                uint place = lane + i * TEAM, g = tile + place;
                rl_input v = rl_staged(min(place, TILE - 1u));
                [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
                    rl_chunk c;
                    uint row = row_of(first, k);
                    if (RL_SOFTWARE)
                        rl_decode_row(PAIR && (k & 1u) != 0u ? w_second : w, row, min(g, CHUNKS - 1u),
                                      CHUNKS, c);
                    else
                        rl_expand_row(raw[0], row, g, CHUNKS, c);
                    float sum = acc[0];
                    if (EVEN || (g < CHUNKS && place < TILE)) sum = rl_dot_chunk(c, v, sum);
                    [[unroll]] for (uint r = 0u; r + 1u < ROWS; r++)
                        acc[r] = acc[r + 1u];
                    acc[ROWS - 1u] = sum;
                    [[unroll]] for (uint r = 0u; r + 1u < ROWS * ITERS; r++)
                        raw[r] = raw[r + 1u];
                }
            }
            if (tile + TILE < CHUNKS) continue;
            vec2 mine = vec2(0.0); // sums of the row, or the pair of rows, that this lane writes
            [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
                float sum = rl_team_sum(acc[0], TEAM);
                [[unroll]] for (uint r = 0u; r + 1u < ROWS; r++)
                    acc[r] = acc[r + 1u];
                if (lane == (PAIR ? k >> 1 : k)) mine = vec2(PAIR && (k & 1u) != 0u ? mine.x : sum, sum);
            }
            if (INPUT == RL_INPUT_NORM) {
                squares = 0.0;
                [[dont_unroll]] for (uint k = 0u; k < gl_NumSubgroups; k++)
                    squares += squares_of[k];
                mine *= inversesqrt(squares / float(p.cols) + p.eps);
            }
            uint row = first + lane;
            if (lane < OUTPUTS && row < p.rows) {
                float value = PAIR ? rl_silu(mine.x) * mine.y : mine.x;
                if (ADD != 0u) value += add.v[row];
                if (ACROSS_OUT) row = 4u * rl_across(row >> 2, p.rows / 32u) + (row & 3u);
                y.v[row] = value;
            }
        }
    }
}

#ifdef RL_ROUTER
shared bool chooses;

void main()
{
    rl_route_push route = router.route;
    rl_token token = rl_token(route.token);
    uint check = token.v.check;
    p.w = router.w;
    p.x = router.x;
    p.aux = router.aux;
    p.y = route.logits;
    p.add = 0ul;
    p.token = route.token;
    p.cols = router.cols;
    p.rows = route.n_expert;
    p.row_bytes = router.row_bytes;
    p.x_rank = p.x_token = p.y_token = 0u; // there is one token
    p.despite = router.despite;
    p.eps = router.eps;
    p.link = router.link;
    bool ahead = gl_WorkGroupID.x == gl_NumWorkGroups.x - 1u; // the extra workgroup
    if (ahead) {
        if (gl_LocalInvocationIndex == 0u) chooses = true;
    } else {
        product();
        // What this workgroup has written comes before its arrival, and that before what the last one reads.
        rl_meet();
        if (gl_LocalInvocationIndex == 0u) {
            rl_counter arrivals = rl_counter(router.arrivals);
            uint before = atomicAdd(arrivals.n, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                                    gl_SemanticsAcquireRelease);
            bool last = before == gl_NumWorkGroups.x - 2u;
            uint halt = token.v.halt;
            if (last) arrivals.n = 0u;
            chooses = last && (halt == 0u || halt == p.despite); // one answer for all, whatever the others saw
        }
    }
    rl_meet();
    if (chooses) rl_choose(route, 0u, check != 0u, !ahead);
    rl_arrive(route.token, p.link);
}
#else
void main()
{
    product();
    rl_arrive(p.token, p.link);
}
#endif
