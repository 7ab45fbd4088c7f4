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
layout(constant_id = 2) const uint SHARE = 8; // logits per invocation
layout(push_constant, std430) uniform Push { rl_route_push p; };

const uint GROUPS = 64;
const float NONE = -3.4e38;
shared vec4 group_top[GROUPS / 4];
shared float bound;
shared uint n_found;
shared uint found_id[1024];
shared float found_logit[1024];
shared uint chosen[32];
shared float chosen_logit[32], chosen_exp[32];

void choose(rl_floats logits)
{
    uint id = gl_LocalInvocationIndex;
    float l[SHARE], m = NONE;
    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        l[i] = logits.v[min(id + i * GROUPS, p.n_expert - 1u)];
    [[unroll]] for (uint i = 0u; i < SHARE; i++) {
        if (id + i * GROUPS >= p.n_expert) l[i] = NONE;
        m = max(m, l[i]);
    }
    group_top[id / 4u][id % 4u] = m;
    if (id == 0u) {
        n_found = 0u;
        bound = NONE;
    }
    // What is not a number is never ranked: then these stand, and no index is out of range.
    if (id < p.k) {
        chosen[id] = id;
        chosen_logit[id] = NONE;
    }
    barrier();
    uint rank = 0u;
    for (uint i = 0u; i < GROUPS / 4u; i++) {
        vec4 other = group_top[i];
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            rank += uint(other[j] > m || (other[j] == m && 4u * i + j < id));
    }
    // With fewer groups than k (few experts) everything is a candidate.
    if (rank == p.k - 1u && id < p.n_expert) bound = m;
    barrier();
    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        if (id + i * GROUPS < p.n_expert && l[i] >= bound) {
            uint at = atomicAdd(n_found, 1u);
            found_id[at] = id + i * GROUPS;
            found_logit[at] = l[i];
        }
    barrier();
    uint n = n_found;
    for (uint i = id; i < n; i += GROUPS) {
        float mine = found_logit[i];
        uint e = found_id[i], r = 0u;
        for (uint j = 0u; j < n; j++)
            r += uint(found_logit[j] > mine || (found_logit[j] == mine && found_id[j] < e));
        if (r < p.k) {
            chosen[r] = e;
            chosen_logit[r] = mine;
        }
    }
    barrier();
}

void main()
{
    rl_token token = rl_token(p.token);
    // A guess (no table) runs beside a choice that may halt meanwhile, and all must agree below.
    uint halt = p.residency == 0ul ? 0u : token.v.halt, check = token.v.check;
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
    if (halt != 0u) return;
    if (id < p.k) {
        float top = chosen_logit[0];
        for (uint i = 1u; i < p.k; i++)
            top = max(top, chosen_logit[i]);
        chosen_exp[id] = exp(chosen_logit[id] - top);
    }
    barrier();
    if (id >= p.k) return;
    uint e = chosen[id], at = t * p.k + id;
    rl_words_out(p.ids).v[at] = e;
    rl_words_out(p.publish).v[at] = e;
    float sum = 0.0;
    for (uint i = 0u; i < p.k; i++)
        sum += chosen_exp[i];
    rl_floats_out(p.weights).v[at] = chosen_exp[id] / sum;
    bool look = check != 0u && p.residency != 0ul;
    if (look && rl_addresses(p.residency).v[e] == 0ul) token.v.halt = p.layer + 1u;
}
