// matmul.comp - Y = X W^T for many tokens: weights are decoded once per tile of tokens.
//
// A workgroup makes BM rows x BN tokens, chunk by chunk of 32 columns, through two tiles in shared
// memory; an invocation keeps TM x TN sums. ROUTED: the tokens of one expert, gathered by a list.
// Matrix units would replace the inner loop and nothing else.
//
// Grid     x: blocks of BM rows, y: blocks of BN tokens, or tiles with ROUTED
// Local    (BM / TM) (BN / TN) invocations
// Reads    X and, by INPUT, aux; the weights; ROUTED: tiles, list, residency
// Writes   Y; rows of an absent expert stay as they are
// Push     rl_matmul_push
// Numerics f32 on exactly decoded weights, columns in order of chunks
// Oracle   matrix products of backend/oracle            Test kernel.vulkan.matmul*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"

layout(constant_id = 1) const uint BM = 128;
layout(constant_id = 2) const uint BN = 64;
layout(constant_id = 3) const uint TM = 8;
layout(constant_id = 4) const uint TN = 4;
layout(constant_id = 5) const uint INPUT = 0;
layout(constant_id = 6) const uint ROUTED = 0;
layout(constant_id = 7) const uint ADD = 0;
layout(constant_id = 8) const uint CHUNKS = 64; // of a row

layout(push_constant, std430) uniform Push { rl_matmul_push p; };

const uint W_SHARE = (BM + RL_LOCAL - 1u) / RL_LOCAL;      // rows per invocation
const uint X_SHARE = (4u * BN + RL_LOCAL - 1u) / RL_LOCAL; // runs of eight inputs per invocation
const uint X_VECTORS = 2u * X_SHARE;

shared float w_tile[32 * BM]; // [column of the chunk][row]
shared float x_tile[32 * BN]; // [column of the chunk][token]
shared uint x_rows[BN], y_rows[BN];

// Eight inputs of run r of chunk g.
void load_x(uint x_row, uint g, uint r, out vec4 a, out vec4 b)
{
    uint first = rl_index(g, r, CHUNKS);
    uint64_t at = 4ul * (uint64_t(x_row) * p.cols + first);
    a = rl_floats4(p.x + at).v[0];
    b = rl_floats4(p.x + at).v[1];
    if (INPUT == RL_INPUT_HEADS) {
        rl_floats part = rl_floats(p.aux);
        uint i = (x_row * (p.cols / p.head) + first / p.head) * p.parts;
        float s = 0.0;
        for (uint k = 0u; k < p.parts; k++)
            s += part.v[i + k];
        s = inversesqrt(s / float(p.head) + p.eps);
        a *= s;
        b *= s;
    } else if (INPUT == RL_INPUT_SWIGLU) {
        a = rl_swiglu4(a, rl_floats4(p.aux + at).v[0]);
        b = rl_swiglu4(b, rl_floats4(p.aux + at).v[1]);
    }
}

// Inputs are handed out from the other end of the workgroup, so that few invocations do both.
uint x_item(uint n)
{
    return RL_LOCAL - 1u - gl_LocalInvocationIndex + n * RL_LOCAL;
}

// The words and inputs of chunk g. A macro: arrays in parameters are copied, and not by every compiler
// in the same way.
#define FETCH(g)                                                                                   \
    [[unroll]] for (uint n = 0u; n < W_SHARE; n++) {                                               \
        uint i = min(id + n * RL_LOCAL, BM - 1u);                                                  \
        rl_fetch_row(w, min(first_row + i, p.rows - 1u) * p.row_bytes, g, CHUNKS, raw[n]);         \
    }                                                                                              \
    [[unroll]] for (uint n = 0u; n < X_SHARE; n++) {                                               \
        uint i = min(x_item(n), 4u * BN - 1u);                                                     \
        load_x(x_rows[i % BN], g, i / BN, x[2u * n], x[2u * n + 1u]);                              \
    }

void main()
{
    uint id = gl_LocalInvocationIndex, n_local = gl_WorkGroupSize.x;
    uint64_t base = p.w;
    uint n_here;
    if (ROUTED != 0u) {
        rl_vk_tile tile = rl_tiles(p.tiles).v[gl_WorkGroupID.y];
        uint64_t slot = rl_addresses(p.residency).v[tile.expert];
        if (slot == 0ul) return;
        base += slot;
        n_here = tile.count;
        for (uint i = id; i < BN; i += n_local) {
            uint row = rl_words(p.list).v[tile.first + min(i, n_here - 1u)];
            y_rows[i] = row;
            x_rows[i] = row / p.divide;
        }
    } else {
        uint first = gl_WorkGroupID.y * BN;
        n_here = min(BN, p.n - first);
        for (uint i = id; i < BN; i += n_local)
            x_rows[i] = y_rows[i] = first + min(i, n_here - 1u);
    }
    rl_table_part table;
    rl_table_fetch(p.tables, table);
    rl_table_store(table);
    barrier();
    rl_words w = rl_words(base);
    uint first_row = gl_WorkGroupID.x * BM;
    uint tn = id % (BN / TN), tm = id / (BN / TN);

    // The next chunk's words and inputs are on their way while this one is multiplied.
    rl_raw raw[W_SHARE];
    vec4 x[X_VECTORS];
    FETCH(0u)
    float acc[TM * TN];
    [[unroll]] for (uint i = 0u; i < TM * TN; i++)
        acc[i] = 0.0;
    for (uint g = 0u; g < CHUNKS; g++) {
        [[unroll]] for (uint n = 0u; n < W_SHARE; n++) {
            uint i = id + n * RL_LOCAL;
            if (i < BM) {
                rl_chunk c;
                rl_expand_row(raw[n], min(first_row + i, p.rows - 1u) * p.row_bytes, g, CHUNKS, c);
                [[unroll]] for (uint q = 0u; q < 8u; q++) {
                    vec4 v = fma(vec4(c.a[q >> 1]), c.q[q], vec4(c.b[q >> 1]));
                    [[unroll]] for (uint j = 0u; j < 4u; j++)
                        w_tile[(4u * q + j) * BM + i] = v[j];
                }
            }
        }
        [[unroll]] for (uint n = 0u; n < X_SHARE; n++) {
            uint i = x_item(n), r = i / BN, token = i % BN;
            if (i < 4u * BN)
                [[unroll]] for (uint j = 0u; j < 4u; j++) {
                    x_tile[(8u * r + j) * BN + token] = x[2u * n][j];
                    x_tile[(8u * r + 4u + j) * BN + token] = x[2u * n + 1u][j];
                }
        }
        barrier();
        uint next = min(g + 1u, CHUNKS - 1u);
        FETCH(next)
        for (uint k = 0u; k < 32u; k++) {
            float a[TM], b[TN];
            [[unroll]] for (uint i = 0u; i < TM; i++)
                a[i] = w_tile[k * BM + tm * TM + i];
            [[unroll]] for (uint j = 0u; j < TN; j++)
                b[j] = x_tile[k * BN + tn * TN + j];
            [[unroll]] for (uint i = 0u; i < TM; i++)
                [[unroll]] for (uint j = 0u; j < TN; j++)
                    acc[i * TN + j] = fma(a[i], b[j], acc[i * TN + j]);
        }
        barrier();
    }
    [[unroll]] for (uint j = 0u; j < TN; j++) {
        uint token = tn * TN + j;
        uint64_t row_at = uint64_t(y_rows[token]) * p.rows;
        [[unroll]] for (uint i = 0u; i < TM; i++) {
            uint row = first_row + tm * TM + i;
            if (token < n_here && row < p.rows) {
                float v = acc[i * TN + j];
                if (ADD != 0u) v += rl_floats(p.add + 4ul * row_at).v[row];
                rl_floats_out(p.y + 4ul * row_at).v[row] = v;
            }
        }
    }
}
