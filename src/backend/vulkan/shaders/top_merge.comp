// top_merge.comp - the RL_VK_TOP largest of what top_pieces.comp has found, in order.
//
// Every STEP-th entry of a list is a sample: it says that STEP entries are at least as large. The
// SAMPLES-th largest sample is a bound with at least RL_VK_TOP entries not below it, and at most
// RL_VK_TOP + (STEP - 1) * RL_VK_TOP_GROUPS, which are ranked. The bound itself is found likewise: the
// samples of a list are dealt out to SLICES invocations, the largest of each bound it, and what is not
// below that (at most SAMPLES * SAMPLES / SLICES) is ranked. So no input takes more than 1152 steps
// of comparing; usual ones take some 520.
//
// Grid     one workgroup of 256 invocations: SLICES per list; any subgroup size
// Reads    lists u64 [groups][RL_VK_TOP], groups <= RL_VK_TOP_GROUPS; x f32 [n]
// Writes   result u32 pairs: (how many, 0), then (bits of the number, its index) [RL_VK_TOP]
// Push     rl_top_push
// Test     kernel.vulkan.top_*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "top.glsl"

layout(push_constant, std430) uniform Push { rl_top_push p; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer pairs { uvec2 v[]; };

const uint LANES = 256, SLICES = LANES / RL_VK_TOP_GROUPS, STEP = 4, SAMPLES = RL_VK_TOP / STEP;
const uint ROOM = RL_VK_TOP + (STEP - 1) * RL_VK_TOP_GROUPS; // more than LANES, SAMPLES * SAMPLES / SLICES
shared uint64_t pool[ROOM];
shared uint64_t bound, sample_bound;
shared uint n_samples, n_entries;

uint64_t entry(uint list, uint rank)
{
    return list < p.groups ? rl_entries(p.lists).v[list * RL_VK_TOP + rank] : 0ul;
}

uint rank_of(uint64_t mine, uint n)
{
    uint r = 0u;
    for (uint i = 0u; i < n; i++)
        r += uint(pool[i] > mine);
    return r;
}

void main()
{
    if (rl_token(p.token).v.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, list = id / SLICES, slice = id % SLICES;
    uint64_t mine = entry(list, STEP * slice + STEP - 1u);
    pool[id] = mine;
    if (id == 0u) {
        bound = sample_bound = 0ul;
        n_samples = n_entries = 0u;
    }
    barrier();
    // Too few samples leave the bounds at 0; then no more entries are there than fit, either.
    if (rank_of(mine, LANES) == SAMPLES - 1u) sample_bound = mine;
    barrier();
    uint64_t least = max(sample_bound, 1ul);
    for (uint i = slice; i < SAMPLES; i += SLICES) {
        uint64_t e = entry(list, STEP * i + STEP - 1u);
        if (e < least) break;
        pool[atomicAdd(n_samples, 1u)] = e;
    }
    barrier();
    mine = pool[id];
    if (id < n_samples && rank_of(mine, n_samples) == SAMPLES - 1u) bound = mine;
    barrier();
    least = max(bound, 1ul);
    for (uint i = slice; i < RL_VK_TOP; i += SLICES) {
        uint64_t e = entry(list, i);
        if (e < least) break;
        pool[atomicAdd(n_entries, 1u)] = e;
    }
    barrier();
    uint n = n_entries;
    pairs result = pairs(p.result);
    for (uint i = id; i < n; i += LANES) {
        uint r = rank_of(pool[i], n), index = rl_top_index(pool[i]);
        if (r < RL_VK_TOP) result.v[r + 1u] = uvec2(rl_words(p.x).v[index], index);
    }
    if (id == 0u) result.v[0] = uvec2(min(n, RL_VK_TOP), 0u);
}
