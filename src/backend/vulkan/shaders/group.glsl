// group.glsl - the sum over a whole workgroup, any subgroup size; the result is everywhere.
// A call holds two barriers; the order of operations is fixed for a device.
shared float rl_group_scratch[64];

float rl_group_sum(float v)
{
    v = subgroupAdd(v);
    if (gl_SubgroupInvocationID == 0u) rl_group_scratch[gl_SubgroupID] = v;
    barrier();
    float s = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        s += rl_group_scratch[i];
    barrier();
    return s;
}
