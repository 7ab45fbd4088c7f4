// experts_down.comp - y += sum over ranks of weight * (W_expert x) + scale * shared, for one token.
//
// Grid     x: blocks of ROWS rows
// Local    teams of TEAM lanes (as in matvec.comp); a team takes every n-th rank
// Reads    x [k][cols]; the matrices of the chosen experts; weights; the shared expert's result
// Writes   y [rows] in place
// Push     rl_experts_down_push
// Numerics the same operations in the same order as matvec.comp (routed) and moe_sum.comp
// Test     kernel.vulkan.experts*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"

layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint TEAM = 16;
layout(constant_id = 3) const uint INPUT = 0; // plain or swiglu
layout(push_constant, std430) uniform Push { rl_experts_down_push p; };

shared float product[32 * ROWS]; // [rank][row]

float row_product(rl_words w, uint row, uint g, uint n_chunks, vec4 v[8], vec4 sums, float acc)
{
    rl_chunk c;
    rl_decode_row(w, min(row, p.rows - 1u) * p.row_bytes, g, n_chunks, c);
    return rl_dot_chunk(c, v, sums, acc);
}

void main()
{
    uint halt = rl_token(p.token).v.halt;
    rl_table_load(p.tables);
    if (halt != 0u) return;
    uint lanes = min(TEAM, gl_SubgroupSize), lane = gl_SubgroupInvocationID & (lanes - 1u);
    uint teams = gl_SubgroupSize / lanes * gl_NumSubgroups;
    uint team = gl_SubgroupID * (gl_SubgroupSize / lanes) + gl_SubgroupInvocationID / lanes;
    uint n_chunks = p.cols / 32u, first = gl_WorkGroupID.x * ROWS;

    for (uint round = 0u; round < p.k; round += teams) {
        uint rank = round + team;
        bool active_ = rank < p.k;
        uint expert = rl_words(p.ids).v[active_ ? rank : 0u];
        uint64_t slot = rl_addresses(p.residency).v[expert];
        active_ = active_ && slot != 0ul;
        float acc[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; i++)
            acc[i] = 0.0;
        if (active_) {
            rl_words w = rl_words(slot + p.w);
            rl_floats4 x = rl_floats4(p.x + 4ul * uint64_t(rank * p.cols));
            rl_floats4 aux = rl_floats4(p.aux + 4ul * uint64_t(rank * p.cols));
            for (uint g = lane; g < n_chunks; g += lanes) {
                vec4 v[8], sums = vec4(0.0);
                [[unroll]] for (uint r = 0u; r < 4u; r++) {
                    uint i = rl_index(g, r, n_chunks) >> 2;
                    v[2u * r] = x.v[i];
                    v[2u * r + 1u] = x.v[i + 1u];
                    if (INPUT == RL_INPUT_SWIGLU) {
                        v[2u * r] = rl_swiglu4(v[2u * r], aux.v[i]);
                        v[2u * r + 1u] = rl_swiglu4(v[2u * r + 1u], aux.v[i + 1u]);
                    }
#ifdef RL_OFFSET
                    sums[r] = rl_sum8(v[2u * r], v[2u * r + 1u]);
#endif
                }
                if (RL_SOFTWARE) {
                    [[dont_unroll]] for (uint i = 0u; i < ROWS; i++)
                        acc[i] = row_product(w, first + i, g, n_chunks, v, sums, acc[i]);
                } else {
                    [[unroll]] for (uint i = 0u; i < ROWS; i++)
                        acc[i] = row_product(w, first + i, g, n_chunks, v, sums, acc[i]);
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            acc[i] = rl_team_sum(acc[i], lanes);
            if (lane == 0u && rank < p.k) product[rank * ROWS + i] = acc[i];
        }
    }
    barrier();
    uint i = gl_LocalInvocationIndex, row = first + i;
    if (i >= ROWS || row >= p.rows) return;
    rl_floats_out y = rl_floats_out(p.y);
    precise float sum = y.v[row];
    for (uint rank = 0u; rank < p.k; rank++)
        sum = rl_fma(rl_floats(p.weights).v[rank], product[rank * ROWS + i], sum);
    sum = rl_fma(rl_sigmoid(rl_floats(p.scale).v[0]), rl_floats(p.shared_).v[row], sum);
    y.v[row] = sum;
}
