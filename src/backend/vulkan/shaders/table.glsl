// table.glsl - the type's codebook in shared memory; RL_TABLE_START and RL_TABLE_SIZE are in words.
#ifndef RL_TABLE_SHIFT
#define RL_TABLE_SHIFT 0
#endif
// Entries are pairs of words (RL_TABLE_PAIRS) or words, and each is one load of its own type: an index
// into the parts of a vector would be several operations more.
#ifdef RL_TABLE_PAIRS
shared uvec2 rl_table[RL_TABLE_SIZE / 2];
#else
shared uint rl_table[RL_TABLE_SIZE];
#endif

// In two steps, so that other loads can be on their way meanwhile. The caller places the barrier.
const uint RL_TABLE_SHARE = (RL_TABLE_SIZE / 4u + RL_LOCAL - 1u) / RL_LOCAL; // vectors per invocation

struct rl_table_part {
    uvec4 v[RL_TABLE_SHARE];
};

void rl_table_fetch(uint64_t tables, out rl_table_part part)
{
    rl_words4 p = rl_words4(tables + 4ul * (RL_TABLE_START + RL_TABLE_SHIFT));
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++) {
        uint i = gl_LocalInvocationIndex + k * RL_LOCAL;
        part.v[k] = p.v[min(i, RL_TABLE_SIZE / 4u - 1u)];
    }
}

void rl_table_store(rl_table_part part)
{
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++) {
        uint i = gl_LocalInvocationIndex + k * RL_LOCAL;
        if (i >= RL_TABLE_SIZE / 4u) break;
#ifdef RL_TABLE_PAIRS
        rl_table[2u * i] = part.v[k].xy;
        rl_table[2u * i + 1u] = part.v[k].zw;
#else
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            rl_table[4u * i + j] = part.v[k][j];
#endif
    }
}

#ifdef RL_TABLE_PAIRS
uvec2 rl_table_pair(uint k) // words 2 k and 2 k + 1
{
    return rl_table[k];
}
#else
uint rl_table_word(uint k)
{
    return rl_table[k];
}
#endif
