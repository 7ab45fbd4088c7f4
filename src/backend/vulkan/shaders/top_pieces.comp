// top_pieces.comp - the RL_VK_TOP largest numbers of each of several pieces, in order.
//
// As in rl_route.comp, the largest of interleaved groups bound the last one that is wanted from below,
// and what is not below the bound is ranked exactly: usually some 170 numbers, at worst all of
// RL_VK_TOP groups. A piece is every groups-th block of 16 numbers, so that rising, falling and
// regional numbers are spread over all pieces.
//
// Grid     push.groups workgroups of 256 invocations; any subgroup size
// Reads    x f32 [n], n <= groups * 256 * SHARE
// Writes   lists u64 [groups][RL_VK_TOP]: entries (top.glsl), descending, zeros behind
// Push     rl_top_push
// Test     kernel.vulkan.top_*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "top.glsl"

layout(constant_id = 1) const uint SHARE = 16; // numbers per invocation
layout(push_constant, std430) uniform Push { rl_top_push p; };

const uint LANES = 256, BLOCK = 16;
shared uint64_t group_top[LANES];
shared uint64_t bound;
shared uint n_found;
shared uint64_t found[SHARE * RL_VK_TOP];

void main()
{
    if (rl_token(p.token).v.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, group = gl_WorkGroupID.x;
    uint bits[SHARE];
    [[unroll]] for (uint i = 0u; i < SHARE; i++) {
        uint at = ((id / BLOCK + LANES / BLOCK * i) * p.groups + group) * BLOCK + id % BLOCK;
        bits[i] = rl_words(p.x).v[min(at, p.n - 1u)];
    }
    uint64_t e[SHARE], largest = 0ul;
    [[unroll]] for (uint i = 0u; i < SHARE; i++) {
        uint at = ((id / BLOCK + LANES / BLOCK * i) * p.groups + group) * BLOCK + id % BLOCK;
        e[i] = at < p.n ? rl_top_entry(bits[i], at) : 0ul;
        largest = max(largest, e[i]);
    }
    group_top[id] = largest;
    if (id == 0u) {
        n_found = 0u;
        bound = 0ul;
    }
    barrier();
    uint rank = 0u;
    for (uint i = 0u; i < LANES; i++)
        rank += uint(group_top[i] > largest);
    // With fewer groups that hold anything, everything is a candidate.
    if (rank == RL_VK_TOP - 1u) bound = largest;
    barrier();
    uint64_t least = max(bound, 1ul);
    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        if (e[i] >= least) found[atomicAdd(n_found, 1u)] = e[i];
    barrier();
    uint n = n_found;
    rl_entries list = rl_entries(p.lists + 8ul * RL_VK_TOP * uint64_t(group));
    for (uint i = id; i < n; i += LANES) {
        uint64_t mine = found[i];
        uint r = 0u;
        for (uint j = 0u; j < n; j++)
            r += uint(found[j] > mine);
        if (r < RL_VK_TOP) list.v[r] = mine;
    }
    for (uint i = n + id; i < RL_VK_TOP; i += LANES)
        list.v[i] = 0ul;
}
