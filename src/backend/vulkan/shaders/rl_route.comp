// rl_route.comp - chooses k experts per token, weighs them, and sees whether they are there.
//
// The 64 largest of interleaved groups bound the k-th logit from below; what is not below the bound
// is ranked exactly. So any input is right, and usual ones are fast.
//
// Grid     one workgroup of 64 invocations per token; any subgroup size
// Reads    logits f32 [n][E], E <= 1024; FORCED: the choice itself
//          residency u64 [E] of the layer: device address of the slot; 0: absent
// Writes   ids u32 [n][k], weights f32 [n][k]; ids again where the host reads them
//          token.halt = layer + 1 when an expert is absent and token.check is set
// Push     rl_route_push
// Numerics f32; equal logits: lower index first; maximum subtracted before exp; the sum runs in order
//          of rank
// Oracle   rl_router_topk(), backend/router.c          Test kernel.vulkan.route*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint FORCED = 0;
layout(push_constant, std430) uniform Push { rl_route_push p; };

const uint GROUPS = 64;
shared float group_top[GROUPS];
shared float bound;
shared uint n_found;
shared uint found_id[1024];
shared float found_logit[1024];
shared uint chosen[32];
shared float chosen_logit[32];

void choose(rl_floats logits)
{
    uint id = gl_LocalInvocationIndex;
    const float none = -3.4e38;
    float m = none;
    for (uint i = id; i < p.n_expert; i += GROUPS)
        m = max(m, logits.v[i]);
    group_top[id] = m;
    if (id == 0u) {
        n_found = 0u;
        bound = none;
    }
    // What is not a number is never ranked: then these stand, and no index is out of range.
    if (id < p.k) {
        chosen[id] = id;
        chosen_logit[id] = none;
    }
    barrier();
    uint rank = 0u;
    for (uint i = 0u; i < GROUPS; i++)
        rank += uint(group_top[i] > m || (group_top[i] == m && i < id));
    // With fewer groups than k (few experts) everything is a candidate.
    if (rank == p.k - 1u && id < p.n_expert) bound = m;
    barrier();
    for (uint i = id; i < p.n_expert; i += GROUPS) {
        float l = logits.v[i];
        if (l >= bound) {
            uint at = atomicAdd(n_found, 1u);
            found_id[at] = i;
            found_logit[at] = l;
        }
    }
    barrier();
    uint n = n_found;
    for (uint i = id; i < n; i += GROUPS) {
        float l = found_logit[i];
        uint e = found_id[i];
        uint r = 0u;
        for (uint j = 0u; j < n; j++)
            r += uint(found_logit[j] > l || (found_logit[j] == l && found_id[j] < e));
        if (r < p.k) {
            chosen[r] = e;
            chosen_logit[r] = l;
        }
    }
    barrier();
}

void main()
{
    rl_token token = rl_token(p.token);
    if (token.v.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, t = gl_WorkGroupID.x;
    rl_floats logits = rl_floats(p.logits + 4ul * uint64_t(t * p.n_expert));
    if (FORCED != 0u) {
        if (id < p.k) {
            uint e = rl_words(p.forced).v[t * p.k + id];
            chosen[id] = e;
            chosen_logit[id] = logits.v[e];
        }
        barrier();
    } else {
        choose(logits);
    }
    if (id >= p.k) return;
    float top = chosen_logit[0];
    for (uint i = 1u; i < p.k; i++)
        top = max(top, chosen_logit[i]);
    float sum = 0.0;
    for (uint i = 0u; i < p.k; i++)
        sum += exp(chosen_logit[i] - top);
    uint e = chosen[id], at = t * p.k + id;
    rl_words_out(p.ids).v[at] = e;
    rl_words_out(p.publish).v[at] = e;
    rl_floats_out(p.weights).v[at] = exp(chosen_logit[id] - top) / sum;
    bool look = token.v.check != 0u && p.residency != 0ul;
    if (look && rl_addresses(p.residency).v[e] == 0ul) token.v.halt = p.layer + 1u;
}
