// table.glsl - the type's codebook in shared memory; RL_TABLE_START and RL_TABLE_SIZE are in words.
#ifndef RL_TABLE_SHIFT
#define RL_TABLE_SHIFT 0
#endif
shared uvec4 rl_table[RL_TABLE_SIZE / 4];

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
        if (i < RL_TABLE_SIZE / 4u) rl_table[i] = part.v[k];
    }
}

uint rl_table_word(uint k)
{
    return rl_table[k >> 2][k & 3u];
}

uvec2 rl_table_pair(uint k) // words 2 k and 2 k + 1
{
    return uvec2(rl_table[k >> 1][2u * (k & 1u)], rl_table[k >> 1][2u * (k & 1u) + 1u]);
}
