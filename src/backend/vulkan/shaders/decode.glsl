// decode.glsl - one tensor type's weights, 32 at a time; which type is a macro of the compilation.
//
// A chunk is 32 weights of one row that are cheap to decode together: four runs of 8 neighbours each,
// not always next to one another. Every decode_TYPE.glsl defines
//   RL_BLOCK, RL_BLOCK_BYTES  as in the format
//   RL_RAW                    words that one chunk needs
//   uint rl_run(chunk, run)   index in the block of a run's first weight
//   void rl_fetch(p, at, chunk, out raw)   loads the words of a chunk of the block at byte `at` from p
//   void rl_expand(raw, at, chunk, out c)  makes weights of them
// and, where they apply, RL_SCALES (how many different a a chunk has, 1 when not said), RL_OFFSET (b is
// not always zero), RL_BIASED (products fold a bias into b),
// and RL_TABLE_... (a codebook in shared memory, of words or of pairs, table.glsl). Kernels use what stands at the end of
// this file: rl_index, rl_fetch_row, rl_expand_row. Fetching apart from expanding lets a kernel have
// all its loads on their way before it waits for the first.
//
// weight(run, j) = a[run] * q[2 run + j/4][j%4] + b[run], exact for every type (docs/formats.md);
// with RL_PRODUCT, q may be biased and the sum still the same.
#include "fields.glsl"

struct rl_chunk {
    rl_four q[8];
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

#if defined(RL_PRODUCT) && defined(RL_BIASED) && !defined(RL_OFFSET)
#define RL_OFFSET
#endif

#ifndef RL_TABLE_SIZE
struct rl_table_part {
    uint unused;
};
#define rl_table_fetch(tables, part)
#define rl_table_store(part)
#endif

#ifndef RL_FLOAT_ROW
#define RL_CHUNKS (RL_BLOCK / 32u)

// Where run r of the row's g-th chunk begins, in weights from the start of the row.
uint rl_index(uint g, uint r, uint n_chunks)
{
    return (g / RL_CHUNKS) * RL_BLOCK + rl_run(g % RL_CHUNKS, r);
}

// The row's g-th chunk; the row starts at byte `row` from p.
void rl_fetch_row(rl_words p, uint row, uint g, uint n_chunks, out rl_raw r)
{
    rl_fetch(p, row + (g / RL_CHUNKS) * RL_BLOCK_BYTES, g % RL_CHUNKS, r);
}

void rl_expand_row(rl_raw r, uint row, uint g, uint n_chunks, out rl_chunk c)
{
    rl_expand(r, row + (g / RL_CHUNKS) * RL_BLOCK_BYTES, g % RL_CHUNKS, c);
}
#else
// Eight chunks that fill a group of 256 weights interleave; the rest of the row does not.
uint rl_index(uint g, uint r, uint n_chunks)
{
    bool grouped = (g | 7u) < n_chunks;
    return grouped ? 32u * (g & ~7u) + 8u * (g & 7u) + 64u * r : 32u * g + 8u * r;
}

void rl_fetch_row(rl_words p, uint row, uint g, uint n_chunks, out rl_raw r)
{
    bool grouped = (g | 7u) < n_chunks;
    uint first = grouped ? 32u * (g & ~7u) + 8u * (g & 7u) : 32u * g;
    rl_fetch(p, row + first * (RL_BLOCK_BYTES / 32u), grouped ? 1u : 0u, r);
}

void rl_expand_row(rl_raw r, uint row, uint g, uint n_chunks, out rl_chunk c)
{
    rl_expand(r, row, 0u, c);
}
#endif

void rl_decode_row(rl_words p, uint row, uint g, uint n_chunks, out rl_chunk c)
{
    rl_raw r;
    rl_fetch_row(p, row, g, n_chunks, r);
    rl_expand_row(r, row, g, n_chunks, c);
}
