// embed.comp - x = the embedding table's rows of the batch's tokens.
//
// Grid     x: chunks of 32 columns, 64 per workgroup; y: tokens
// Reads    the table, any type; token ids, which the host has checked
// Writes   y f32 [n][cols]
// Push     rl_embed_push
// Numerics exact        Oracle  rl_quant_decode()        Test kernel.vulkan.matmul*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"

layout(push_constant, std430) uniform Push { rl_embed_push p; };

void main()
{
    uint n_chunks = p.cols / 32u;
    uint g = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint n = gl_WorkGroupID.y;
    uint token = rl_words(p.tokens).v[n];
    rl_table_part table;
    rl_table_fetch(p.tables, table);
    rl_table_store(table);
    barrier();
    if (g >= n_chunks) return;
    uint64_t row = uint64_t(token) * p.row_bytes;
    // Rows begin at any even byte; the base that decoding counts from is a whole number of vectors.
    uint64_t base = row & ~15ul;
    rl_chunk c;
    rl_decode_row(rl_words(p.w + base), uint(row - base), g, n_chunks, c);
    rl_floats4_out y = rl_floats4_out(p.y + 4ul * uint64_t(n * p.cols));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint i = rl_index(g, r, n_chunks) >> 2;
        y.v[i] = fma(vec4(c.a[r]), c.q[2u * r], vec4(c.b[r]));
        y.v[i + 1u] = fma(vec4(c.a[r]), c.q[2u * r + 1u], vec4(c.b[r]));
    }
}
