// table.glsl - the type's codebook in shared memory; RL_TABLE_START and RL_TABLE_SIZE are in words.
shared uint rl_table[RL_TABLE_SIZE];

void rl_table_load(uint64_t tables)
{
    rl_words p = rl_words(tables);
    for (uint i = gl_LocalInvocationIndex; i < RL_TABLE_SIZE; i += gl_WorkGroupSize.x)
        rl_table[i] = p.v[RL_TABLE_START + i];
    barrier();
}
