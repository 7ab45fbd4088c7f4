// experts_down.comp - y += sum over ranks of weight * (W_expert x) + scale * shared, for one token.
//
// As in product.glsl, all loads are on their way before the first is waited for, and the products are
// loops over one copy of the code.
//
// Grid     x: blocks of ROWS rows
// Local    teams of TEAM lanes (as in product.glsl); a team takes every n-th rank
// Reads    x [k][cols], across chunks (rl_across); the matrices of the chosen experts; weights; the shared expert's result
// Writes   y [rows]; nothing on a halt
// RL_LINKS: the choice, the scale, what is added and y may be numbered (link.glsl), y for the next layer
// Push     rl_experts_down_push
// Numerics the same operations in the same order as product.glsl (routed) and moe_sum.comp
// Test     kernel.vulkan.experts*
#version 460
#extension GL_GOOGLE_include_directive : require
#define RL_PRODUCT
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"
#define RL_LINK_CONSTANT 5
#include "link.glsl"

layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint TEAM = 16;
layout(constant_id = 3) const uint INPUT = 0; // plain or swiglu
layout(constant_id = 4) const uint CHUNKS = 16;
layout(push_constant, std430) uniform Push { rl_experts_down_push p; };

const uint ITERS = (CHUNKS + TEAM - 1u) / TEAM;
shared float product[32 * ROWS]; // [rank][row]
shared float weight[32];

rl_raw raw[ROWS * ITERS];

void fetch(rl_words w, uint first, uint lane)
{
    [[unroll]] for (uint i = 0u; i < ITERS; i++) {
        uint g = min(lane + i * TEAM, CHUNKS - 1u);
        [[unroll]] for (uint k = 0u; k < ROWS; k++)
            rl_fetch_row(w, min(first + k, p.rows - 1u) * p.row_bytes, g, CHUNKS, raw[i * ROWS + k]);
    }
}

// Address of the slot of a rank's expert; 0: absent, or void.
uint64_t slot_of(uint rank)
{
    if (!TAKES) return rl_addresses(p.residency).v[rl_numbers(p.ids).v[rank]];
    uint looks = 0u, off;
    uvec2 slot;
    do {
        off = 0u;
        slot = rl_look_slot(p.ids, rank, off);
    } while (rl_look_again(off, looks));
    return off == 0u ? packUint2x32(slot) : 0ul;
}

// What is small, all at once.
struct taken {
    float weight, before, scale; // of a rank; what a row is added to; of the shared expert
    uint64_t slot;               // of a rank's expert
};

void take(uint rank_of_slot, uint rank_of_weight, uint row, out taken t)
{
    if (!TAKES) {
        t.weight = rl_values(p.weights).v[rank_of_weight];
        t.before = rl_values(p.add).v[row];
        t.scale = rl_values(p.scale).v[0];
        t.slot = slot_of(rank_of_slot);
        return;
    }
    uint looks = 0u, off;
    uvec2 slot;
    rl_expect(p.ids, rank_of_slot * RL_CHOICE_WORDS + RL_CHOICE_SLOT);
    do {
        off = 0u;
        slot = rl_look_slot(p.ids, rank_of_slot, off);
        t.weight = uintBitsToFloat(rl_look(p.ids, rank_of_weight * RL_CHOICE_WORDS + RL_CHOICE_WEIGHT, off));
        t.before = uintBitsToFloat(rl_look(p.add, row, off));
        t.scale = uintBitsToFloat(rl_look(p.scale, 0u, off));
    } while (rl_look_again(off, looks));
    t.slot = off == 0u ? packUint2x32(slot) : 0ul;
}

void main()
{
    uint id = gl_LocalInvocationIndex, first = gl_WorkGroupID.x * ROWS;
    uint lane = gl_SubgroupInvocationID & (TEAM - 1u);
    uint teams = gl_SubgroupSize / TEAM * gl_NumSubgroups;
    uint team = gl_SubgroupID * (gl_SubgroupSize / TEAM) + gl_SubgroupInvocationID / TEAM;

    rl_table_part table;
    if (TAKES) rl_table_fetch(p.tables, table); // what follows from the choice comes while the stage before runs
    rl_link_begin(p.token, p.link);
    uint halt = TAKES ? 0u : rl_token(p.token).v.halt;
    uint row = min(first + min(id, ROWS - 1u), p.rows - 1u);
    float shared_ = WAITS ? 0.0 : rl_values(p.shared_).v[row];
    taken t;
    take(min(team, p.k - 1u), min(id, p.k - 1u), row, t);
    if (!TAKES) rl_table_fetch(p.tables, table);

    for (uint round = 0u; round < p.k; round += teams) {
        uint rank = round + team, at = min(rank, p.k - 1u);
        if (TAKES && round != 0u) barrier(); // all have seen whether the first round was void
        uint64_t slot = round == 0u ? t.slot : slot_of(at);
        bool there = rank < p.k && slot != 0ul;
        rl_words w = rl_words(slot + p.w);
        rl_values4 x = rl_values4(p.x + 4ul * uint64_t(at * p.cols));
        rl_values4 aux = rl_values4(p.aux + 4ul * uint64_t(at * p.cols));
        vec4 v[8 * ITERS];
        if (WAITS && round == 0u) {
            if (there && !RL_SOFTWARE) fetch(w, first, lane);
            rl_await(p.token, p.link);
            shared_ = rl_values(p.shared_).v[row];
        }
        [[unroll]] for (uint i = 0u; i < ITERS; i++) {
            uint g = min(lane + i * TEAM, CHUNKS - 1u);
            [[unroll]] for (uint k = 0u; k < 8u; k++) {
                uint from = rl_across((rl_index(g, k >> 1, CHUNKS) >> 2) + (k & 1u), CHUNKS);
                v[8u * i + k] = x.v[from];
                if (INPUT == RL_INPUT_SWIGLU) v[8u * i + k] = rl_swiglu4(v[8u * i + k], aux.v[from]);
            }
        }
        if (there && !RL_SOFTWARE && !(WAITS && round == 0u)) fetch(w, first, lane);
        if (round == 0u) {
            rl_table_store(table);
            if (id < 32u) weight[id] = id < p.k ? t.weight : 0.0;
            barrier();
            if (halt != 0u) return;
            if (rl_is_void()) {
                rl_link_next_layer();
                if (GIVES && id < ROWS && first + id < p.rows) rl_give_void(p.y, first + id);
                return;
            }
        }
        float acc[ROWS];
        [[unroll]] for (uint k = 0u; k < ROWS; k++)
            acc[k] = 0.0;
        [[dont_unroll]] for (uint i = 0u; i < ITERS; i++) {
            uint g = lane + i * TEAM;
            vec4 part[8];
            [[unroll]] for (uint k = 0u; k < 8u; k++)
                part[k] = v[k];
            rl_input held = rl_input_of(part);
            [[dont_unroll]] for (uint k = 0u; k < ROWS; k++) {
                rl_chunk c;
                uint row = min(first + k, p.rows - 1u) * p.row_bytes;
                float sum = acc[0];
                if (there && g < CHUNKS) {
                    if (RL_SOFTWARE)
                        rl_decode_row(w, row, g, CHUNKS, c);
                    else
                        rl_expand_row(raw[0], row, g, CHUNKS, c);
                    sum = rl_dot_chunk(c, held, sum);
                }
                [[unroll]] for (uint r = 0u; r + 1u < ROWS; r++)
                    acc[r] = acc[r + 1u];
                acc[ROWS - 1u] = sum;
                [[unroll]] for (uint r = 0u; r + 1u < ROWS * ITERS; r++)
                    raw[r] = raw[r + 1u];
            }
            [[unroll]] for (uint k = 0u; k + 8u < 8u * ITERS; k++)
                v[k] = v[k + 8u];
        }
        [[unroll]] for (uint k = 0u; k < ROWS; k++) {
            acc[k] = rl_team_sum(acc[k], TEAM);
            if (lane == 0u && rank < p.k) product[rank * ROWS + k] = acc[k];
        }
    }
    barrier();
    if (id >= ROWS || first + id >= p.rows) return;
    precise float sum = t.before;
    for (uint rank = 0u; rank < p.k; rank++)
        sum = rl_fma(weight[rank], product[rank * ROWS + id], sum);
    sum = rl_fma(rl_sigmoid(t.scale), shared_, sum);
    if (GIVES) {
        rl_link_next_layer();
        rl_give(p.y, first + id, sum);
    } else {
        rl_values(p.y).v[first + id] = sum;
    }
}
