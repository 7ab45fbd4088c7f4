// table.glsl - the type's codebook in shared memory; RL_TABLE_START and RL_TABLE_SIZE are in words.
#ifndef RL_TABLE_SHIFT
#define RL_TABLE_SHIFT 0
#endif
// An entry is a pair of words (RL_TABLE_PAIRS) or a word, and each is one load of its own type: an index
// into the parts of a vector would be several operations more. Neighbouring invocations copy
// neighbouring entries, so that their stores meet different banks.
#ifdef RL_TABLE_PAIRS
#define RL_TABLE_ENTRY  uvec2
#define RL_TABLE_SOURCE rl_words2
const uint RL_TABLE_ENTRIES = RL_TABLE_SIZE / 2u;
#else
#define RL_TABLE_ENTRY  uint
#define RL_TABLE_SOURCE rl_words
const uint RL_TABLE_ENTRIES = RL_TABLE_SIZE;
#endif
shared RL_TABLE_ENTRY rl_table[RL_TABLE_ENTRIES];

// In two steps, so that other loads can be on their way meanwhile. The caller places the barrier.
const uint RL_TABLE_SHARE = (RL_TABLE_ENTRIES + RL_LOCAL - 1u) / RL_LOCAL; // entries per invocation

struct rl_table_part {
    RL_TABLE_ENTRY v[RL_TABLE_SHARE];
};

void rl_table_fetch(uint64_t tables, out rl_table_part part)
{
    RL_TABLE_SOURCE p = RL_TABLE_SOURCE(tables + 4ul * (RL_TABLE_START + RL_TABLE_SHIFT));
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++)
        part.v[k] = p.v[min(gl_LocalInvocationIndex + k * RL_LOCAL, RL_TABLE_ENTRIES - 1u)];
}

void rl_table_store(rl_table_part part)
{
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++) {
        uint i = gl_LocalInvocationIndex + k * RL_LOCAL;
        if (i < RL_TABLE_ENTRIES) rl_table[i] = part.v[k];
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
