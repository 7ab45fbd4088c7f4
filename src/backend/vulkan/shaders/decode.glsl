// decode.glsl - one tensor type's weights, 32 at a time; which type is a macro of the compilation.
//
// A chunk is 32 weights of one row that are cheap to decode together: four runs of 8 neighbours each,
// not always next to one another. Every decode_TYPE.glsl defines
//   RL_BLOCK, RL_BLOCK_BYTES  as in the format
//   uint rl_run(chunk, run)   index in the block of a run's first weight
//   void rl_decode(p, at, chunk, out c)  decodes a chunk of the block at byte `at` from p
// and, where they apply, RL_OFFSET (b is not always zero) and RL_TABLE_... (a codebook in shared
// memory, table.glsl). Kernels use what stands at the end of this file: rl_table_load, then rl_index
// and rl_decode_row.
//
// weight(run, j) = a[run] * q[2 run + j/4][j%4] + b[run], exact for every type (docs/formats.md).
struct rl_chunk {
    vec4 q[8];
    vec4 a, b;
};

#if defined(RL_TYPE_F32)
#include "decode_f32.glsl"
#elif defined(RL_TYPE_F16)
#include "decode_f16.glsl"
#elif defined(RL_TYPE_BF16)
#include "decode_bf16.glsl"
#elif defined(RL_TYPE_Q4_0)
#include "decode_q4_0.glsl"
#elif defined(RL_TYPE_Q4_1)
#include "decode_q4_1.glsl"
#elif defined(RL_TYPE_Q5_0)
#include "decode_q5_0.glsl"
#elif defined(RL_TYPE_Q5_1)
#include "decode_q5_1.glsl"
#elif defined(RL_TYPE_Q8_0)
#include "decode_q8_0.glsl"
#elif defined(RL_TYPE_Q2_K)
#include "decode_q2_k.glsl"
#elif defined(RL_TYPE_Q3_K)
#include "decode_q3_k.glsl"
#elif defined(RL_TYPE_Q4_K)
#include "decode_q4_k.glsl"
#elif defined(RL_TYPE_Q5_K)
#include "decode_q5_k.glsl"
#elif defined(RL_TYPE_Q6_K)
#include "decode_q6_k.glsl"
#elif defined(RL_TYPE_IQ1_S)
#include "decode_iq1_s.glsl"
#elif defined(RL_TYPE_IQ1_M)
#include "decode_iq1_m.glsl"
#elif defined(RL_TYPE_IQ2_XXS)
#include "decode_iq2_xxs.glsl"
#elif defined(RL_TYPE_IQ2_XS)
#include "decode_iq2_xs.glsl"
#elif defined(RL_TYPE_IQ2_S)
#include "decode_iq2_s.glsl"
#elif defined(RL_TYPE_IQ3_XXS)
#include "decode_iq3_xxs.glsl"
#elif defined(RL_TYPE_IQ3_S)
#include "decode_iq3_s.glsl"
#elif defined(RL_TYPE_IQ4_NL)
#include "decode_iq4_nl.glsl"
#elif defined(RL_TYPE_IQ4_XS)
#include "decode_iq4_xs.glsl"
#elif defined(RL_TYPE_MXFP4)
#include "decode_mxfp4.glsl"
#else
#error "no tensor type"
#endif

#ifndef RL_TABLE_SIZE
#define rl_table_load(tables)
#endif

#ifndef RL_FLOAT_ROW
// Where run r of the row's g-th chunk begins, in weights from the start of the row.
#define RL_CHUNKS (RL_BLOCK / 32u)

uint rl_index(uint g, uint r, uint n_chunks)
{
    return (g / RL_CHUNKS) * RL_BLOCK + rl_run(g % RL_CHUNKS, r);
}

// The row's g-th chunk; the row starts at byte `row` from p.
void rl_decode_row(rl_words p, uint row, uint g, uint n_chunks, out rl_chunk c)
{
    rl_decode(p, row + (g / RL_CHUNKS) * RL_BLOCK_BYTES, g % RL_CHUNKS, c);
}
#else
// Eight chunks that fill a group of 256 weights interleave; the rest of the row does not.
uint rl_index(uint g, uint r, uint n_chunks)
{
    bool grouped = (g | 7u) < n_chunks;
    return grouped ? 32u * (g & ~7u) + 8u * (g & 7u) + 64u * r : 32u * g + 8u * r;
}

void rl_decode_row(rl_words p, uint row, uint g, uint n_chunks, out rl_chunk c)
{
    bool grouped = (g | 7u) < n_chunks;
    uint first = grouped ? 32u * (g & ~7u) + 8u * (g & 7u) : 32u * g;
    rl_decode(p, row + first * (RL_BLOCK_BYTES / 32u), grouped ? 1u : 0u, c);
}
#endif
