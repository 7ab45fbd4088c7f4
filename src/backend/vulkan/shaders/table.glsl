// table.glsl - the type's codebook in shared memory; RL_TABLE_START and RL_TABLE_SIZE are in words.
shared uint rl_table[RL_TABLE_SIZE];

// In two steps, so that other loads can be on their way meanwhile. The caller places the barrier.
const uint RL_TABLE_SHARE = (RL_TABLE_SIZE / 4u + RL_LOCAL - 1u) / RL_LOCAL; // vectors per invocation

struct rl_table_part {
    uvec4 v[RL_TABLE_SHARE];
};

void rl_table_fetch(uint64_t tables, out rl_table_part part)
{
    rl_words4 p = rl_words4(tables + 4ul * RL_TABLE_START);
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++) {
        uint i = gl_LocalInvocationIndex + k * RL_LOCAL;
        part.v[k] = p.v[min(i, RL_TABLE_SIZE / 4u - 1u)];
    }
}

void rl_table_store(rl_table_part part)
{
    [[unroll]] for (uint k = 0u; k < RL_TABLE_SHARE; k++) {
        uint i = gl_LocalInvocationIndex + k * RL_LOCAL;
        if (i < RL_TABLE_SIZE / 4u)
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                rl_table[4u * i + j] = part.v[k][j];
    }
}
