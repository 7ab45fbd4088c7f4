// matvec.comp - y = W x for one token: dense matrices, and the matrices of chosen experts.
//
// Grid     x: teams of rows (any number of workgroups is right), y: ranks (routed), z: tokens
// Team     up to TEAM neighbouring lanes of a subgroup (a power of two) share ROWS rows; each lane
//          takes every lanes-th chunk of 32 weights, so the order of additions is fixed
// Reads    x and, by INPUT, aux; the weights; with ADD what is added; routed: the chosen experts' ids
//          and where the residency table says that they are
// Writes   y [token][rank][rows]; nothing for ranks outside the mask or absent, or on a halt
// Push     rl_matvec_push
// Numerics f32 on exactly decoded weights; the RMS of the norm is found beside the products and
//          applied to the sums, since it is one factor for all of them
// Oracle   matrix products of backend/oracle            Test kernel.vulkan.matvec*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"
#include "dot.glsl"

layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint TEAM = 32;
layout(constant_id = 3) const uint INPUT = 0;
layout(constant_id = 4) const uint MATRIX = 0;
layout(constant_id = 5) const uint ADD = 0;

layout(push_constant, std430) uniform Push { rl_matvec_push p; };

const bool PAIR = MATRIX == RL_MATRIX_PAIR || MATRIX == RL_MATRIX_ROUTED_PAIR;
const bool ROUTED = MATRIX == RL_MATRIX_ROUTED || MATRIX == RL_MATRIX_ROUTED_PAIR;
const uint OUTPUTS = PAIR ? ROWS / 2u : ROWS; // per team

// The inputs of chunk g; adds to the sum of squares where the norm needs it.
void load_inputs(rl_floats4 x, rl_floats4 aux, uint g, uint n_chunks, out vec4 v[8],
                 out vec4 sums, inout float squares)
{
    sums = vec4(0.0);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint first = rl_index(g, r, n_chunks), i = first >> 2;
        vec4 a = x.v[i], b = x.v[i + 1u];
        if (INPUT == RL_INPUT_NORM) {
            squares += dot(a, a) + dot(b, b);
            a *= aux.v[i];
            b *= aux.v[i + 1u];
        } else if (INPUT == RL_INPUT_HEADS) {
            rl_floats part = rl_floats(p.aux + 4ul * uint64_t(gl_WorkGroupID.z * (p.cols / p.head) * p.parts));
            uint at = (first / p.head) * p.parts;
            float s = 0.0;
            for (uint k = 0u; k < p.parts; k++)
                s += part.v[at + k];
            s = inversesqrt(s / float(p.head) + p.eps);
            a *= s;
            b *= s;
        } else if (INPUT == RL_INPUT_SWIGLU) {
            a = rl_swiglu4(a, aux.v[i]);
            b = rl_swiglu4(b, aux.v[i + 1u]);
        }
        v[2u * r] = a;
        v[2u * r + 1u] = b;
#ifdef RL_OFFSET
        sums[r] = rl_sum8(a, b);
#endif
    }
}

float row_product(rl_words w, uint row, uint g, uint n_chunks, vec4 v[8], vec4 sums, float acc)
{
    rl_chunk c;
    rl_decode_row(w, row, g, n_chunks, c);
    return rl_dot_chunk(c, v, sums, acc);
}

void main()
{
    uint rank = gl_WorkGroupID.y, token = gl_WorkGroupID.z;
    uint64_t base = p.w;
    if (ROUTED) {
        if (((p.mask >> rank) & 1u) == 0u) return;
        uint expert = rl_words(p.ids).v[token * p.ranks + rank];
        uint64_t slot = rl_addresses(p.residency).v[expert];
        if (slot == 0ul) return;
        base += slot;
    }
    uint halt = rl_token(p.token).v.halt;
    rl_table_load(p.tables);
    if (halt != 0u) return;
    rl_words w = rl_words(base);
    rl_words w_second = rl_words(base + (PAIR ? p.second : 0ul));
    uint64_t x_at = 4ul * uint64_t(token * p.x_token + rank * p.x_rank);
    rl_floats4 x = rl_floats4(p.x + x_at);
    rl_floats4 aux = rl_floats4(p.aux + (INPUT == RL_INPUT_SWIGLU ? x_at : 0ul));
    rl_floats_out y = rl_floats_out(p.y + 4ul * uint64_t(token * p.y_token + rank * p.rows));
    rl_floats add = rl_floats(p.add + 4ul * uint64_t(token * p.y_token));

    uint lanes = min(TEAM, gl_SubgroupSize), lane = gl_SubgroupInvocationID & (lanes - 1u);
    uint teams = gl_SubgroupSize / lanes;
    uint team = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * teams +
                gl_SubgroupInvocationID / lanes;
    uint stride = gl_NumWorkGroups.x * gl_NumSubgroups * teams * OUTPUTS;
    uint n_chunks = p.cols / 32u;

    // Teams of one subgroup go through the same number of rounds, so that shuffles stay whole.
    for (uint round = 0u; round < p.rows; round += stride) {
        uint first = round + team * OUTPUTS;
        float acc[ROWS];
        uint row_at[ROWS];
        [[unroll]] for (uint k = 0u; k < ROWS; k++) {
            acc[k] = 0.0;
            row_at[k] = min(first + (PAIR ? k >> 1 : k), p.rows - 1u) * p.row_bytes;
        }
        float squares = 0.0;
        for (uint g = lane; g < n_chunks; g += lanes) {
            vec4 v[8], sums;
            load_inputs(x, aux, g, n_chunks, v, sums, squares);
            if (RL_SOFTWARE) {
                [[dont_unroll]] for (uint k = 0u; k < ROWS; k++)
                    acc[k] = row_product(PAIR && (k & 1u) != 0u ? w_second : w, row_at[k], g,
                                         n_chunks, v, sums, acc[k]);
            } else {
                [[unroll]] for (uint k = 0u; k < ROWS; k++)
                    acc[k] = row_product(PAIR && (k & 1u) != 0u ? w_second : w, row_at[k], g,
                                         n_chunks, v, sums, acc[k]);
            }
        }
        [[unroll]] for (uint k = 0u; k < ROWS; k++)
            acc[k] = rl_team_sum(acc[k], lanes);
        if (INPUT == RL_INPUT_NORM) {
            float scale = inversesqrt(rl_team_sum(squares, lanes) / float(p.cols) + p.eps);
            [[unroll]] for (uint k = 0u; k < ROWS; k++)
                acc[k] *= scale;
        }
        [[unroll]] for (uint k = 0u; k < OUTPUTS; k++) {
            uint row = first + k;
            if (lane == 0u && row < p.rows) {
                float value = PAIR ? rl_silu(acc[2u * k]) * acc[2u * k + 1u] : acc[k];
                if (ADD != 0u) value += add.v[row];
                y.v[row] = value;
            }
        }
    }
}
