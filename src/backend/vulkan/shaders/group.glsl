// group.glsl - sums and maxima over a whole workgroup, any subgroup size; the result is everywhere.
// Each call holds two barriers; the order of operations is fixed for a device.
shared vec2 rl_group_scratch[64];

vec2 rl_group_sum2(vec2 v)
{
    v = subgroupAdd(v);
    if (gl_SubgroupInvocationID == 0u) rl_group_scratch[gl_SubgroupID] = v;
    barrier();
    vec2 s = vec2(0.0);
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        s += rl_group_scratch[i];
    barrier();
    return s;
}

float rl_group_sum(float v)
{
    return rl_group_sum2(vec2(v, 0.0)).x;
}
