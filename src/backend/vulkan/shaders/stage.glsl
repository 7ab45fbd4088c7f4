// stage.glsl - a tile of the input in shared memory, as dot.glsl wants it.
//
// STAGE_LINE is a specialisation constant of the kernel: chunks of a tile, and one more, so that
// neighbouring lanes, which read neighbouring chunks, meet different banks.
#ifdef RL_INTEGER
shared uvec4 staged_digits[6u * STAGE_LINE];
shared float staged_scale[STAGE_LINE];
#ifdef RL_OFFSET
shared vec4 staged_sums[STAGE_LINE];
#endif

// Vector n & 7 of chunk n >> 3. Called by eight neighbouring lanes with the vectors of one chunk.
void rl_stage(uint n, bool inside, vec4 v)
{
    uint k = n & 7u, g = n >> 3;
    uint top = rl_top(v);
    [[unroll]] for (uint step = 1u; step < 8u; step *= 2u)
        top = max(top, subgroupShuffleXor(top, step));
    uvec3 digits = rl_digits(v, rl_inverse(top));
#ifdef RL_OFFSET
    vec4 other = subgroupShuffleXor(v, 1u);
    float sum = rl_sum8(v, other);
#endif
    if (!inside) return;
    [[unroll]] for (uint j = 0u; j < 3u; j++)
        staged_digits[(2u * j + (k >> 2)) * STAGE_LINE + g][k & 3u] = digits[j];
    if (k == 0u) staged_scale[g] = rl_scale(top);
#ifdef RL_OFFSET
    if ((k & 1u) == 0u) staged_sums[g][k >> 1] = sum;
#endif
}

rl_input rl_staged(uint g)
{
    rl_input x;
    [[unroll]] for (uint j = 0u; j < 6u; j++)
        x.digits[j] = staged_digits[j * STAGE_LINE + g];
    x.scale = staged_scale[g];
#ifdef RL_OFFSET
    x.sums = staged_sums[g];
#endif
    return x;
}
#else
shared vec4 staged[8u * STAGE_LINE];

void rl_stage(uint n, bool inside, vec4 v)
{
    if (inside) staged[(n & 7u) * STAGE_LINE + (n >> 3)] = v;
}

rl_input rl_staged(uint g)
{
    vec4 v[8];
    [[unroll]] for (uint k = 0u; k < 8u; k++)
        v[k] = staged[k * STAGE_LINE + g];
    return rl_input_of(v);
}
#endif
