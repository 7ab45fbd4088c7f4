// choose.glsl - chooses the k experts of one token, weighs them, and sees whether they are there.
//
// One workgroup does it, of which 64 invocations have numbers; all of them call it. The largest of
// each of 64 interleaved groups bound the k-th number from below; what is not below the bound is
// ranked exactly. So any input is right, and usual ones are fast. Numbers are compared as those of
// top.glsl; a group's largest gives up its lowest bits for the group's place, so that no two are equal.
// What can be on its way early is: the logits and whether their experts have a slot are loaded together.
//
// Needs    constants FORCED (the choice itself is given) and PER_GROUP (numbers of a group)
// Reads    logits f32 [n][E], E <= 1024, also those that this dispatch has written (router of
//          matvec.comp); residency u64 [E] of the layer: device address of the slot; 0: absent
// Writes   ids u32 [n][k], weights f32 [n][k], k <= 32; ids again where they are published;
//          token.halt = layer + 1 when an expert is absent and `check` is set
// Numerics f32; equal logits: lower index first; maximum subtracted before exp; the sum runs in order
//          of rank. NaN and -infinity are never ranked: where nothing else is left, the rank is the index,
//          with weight 0 beside others, which may repeat an expert
#include "top.glsl"

const uint GROUPS = 64, PLACES = GROUPS - 1u, MOST = 32;
shared uvec4 group_top[GROUPS / 4u];
shared uint bound, n_found;
shared uint64_t found[1024];
shared uint chosen[MOST]; // twice the expert, and one when it is absent
shared vec4 chosen_exp[MOST / 4u];

void rl_choose_set(uint rank, uint expert, float e)
{
    chosen[rank] = expert;
    chosen_exp[rank / 4u][rank % 4u] = e;
}

void rl_choose_forced(rl_route_push p, rl_floats_coherent logits, uint t, bool check)
{
    uint id = gl_LocalInvocationIndex;
    if (id >= MOST) return;
    rl_words forced = rl_words(p.forced + 4ul * uint64_t(t * p.k));
    uint e = forced.v[min(id, p.k - 1u)];
    float mine = logits.v[e], top = mine;
    for (uint i = 0u; i < p.k; i++)
        top = max(top, logits.v[forced.v[i]]);
    bool absent = check && rl_addresses(p.residency).v[e] == 0ul;
    rl_choose_set(id, 2u * e + uint(absent), id < p.k ? exp(mine - top) : 0.0);
}

void rl_choose_largest(rl_route_push p, rl_floats_coherent logits, bool check)
{
    uint id = gl_LocalInvocationIndex, key[PER_GROUP], top = 0u;
    uint64_t slot[PER_GROUP];
    [[unroll]] for (uint i = 0u; i < PER_GROUP; i++) {
        key[i] = floatBitsToUint(logits.v[min(id + i * GROUPS, p.n_expert - 1u)]);
        slot[i] = 1ul;
    }
    if (p.residency != 0ul)
        [[unroll]] for (uint i = 0u; i < PER_GROUP; i++)
            slot[i] = rl_addresses(p.residency).v[min(id + i * GROUPS, p.n_expert - 1u)];
    [[unroll]] for (uint i = 0u; i < PER_GROUP; i++) {
        key[i] = id < GROUPS && id + i * GROUPS < p.n_expert ? rl_top_key(key[i]) : 0u;
        top = max(top, key[i]);
    }
    top = (top & ~PLACES) | (PLACES - (id & PLACES));
    if (id < GROUPS) group_top[id / 4u][id % 4u] = top;
    if (id == 0u) n_found = 0u;
    barrier();
    if (id < GROUPS) {
        uint rank = 0u;
        [[dont_unroll]] for (uint i = 0u; i < GROUPS / 4u; i += 4u)
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uvec4 other = group_top[i + j];
                rank += uint(other.x > top) + uint(other.y > top) + uint(other.z > top) + uint(other.w > top);
            }
        if (rank == p.k - 1u) bound = max(top & ~PLACES, 1u);
    }
    barrier();
    uint least = bound, n = 0u;
    [[unroll]] for (uint i = 0u; i < PER_GROUP; i++)
        n += uint(key[i] >= least);
    if (n != 0u) {
        uint at = atomicAdd(n_found, n);
        [[unroll]] for (uint i = 0u; i < PER_GROUP; i++)
            if (key[i] >= least) {
                uint absent = uint(check && slot[i] == 0ul);
                found[at++] = rl_top_pack(key[i], 2u * (id + i * GROUPS) + absent);
            }
    }
    barrier();
    n = n_found;
    for (uint i = id; i < n; i += RL_LOCAL) {
        uint64_t mine = found[i], most = mine;
        uint rank = 0u;
        for (uint j = 0u; j < n; j++) {
            rank += uint(found[j] > mine);
            most = max(most, found[j]);
        }
        if (rank < p.k)
            rl_choose_set(rank, rl_top_index(mine), exp(rl_top_number(mine) - rl_top_number(most)));
    }
    if (id >= min(n, p.k) && id < MOST) {
        uint absent = uint(check && slot[0] == 0ul);
        rl_choose_set(id, 2u * id + absent, n == 0u && id < p.k ? 1.0 : 0.0);
    }
}

// The choice of token t. writes: false where the token has halted; what is shared is made all the same,
// so that invocations which see that at different times meet at the barriers.
void rl_choose(rl_route_push p, uint t, bool check, bool writes)
{
    rl_floats_coherent logits = rl_floats_coherent(p.logits + 4ul * uint64_t(t * p.n_expert));
    check = check && p.residency != 0ul;
    if (FORCED != 0u)
        rl_choose_forced(p, logits, t, check);
    else
        rl_choose_largest(p, logits, check);
    barrier();
    uint id = gl_LocalInvocationIndex;
    if (!writes || id >= p.k) return;
    uint e = chosen[id] >> 1, at = t * p.k + id;
    rl_words_out(p.ids).v[at] = e;
    rl_words_out(p.publish).v[at] = e;
    precise float sum = 0.0; // behind the k-th there are zeros
    [[dont_unroll]] for (uint i = 0u; i < (p.k + 3u) / 4u; i++) {
        vec4 v = chosen_exp[i];
        sum += v.x;
        sum += v.y;
        sum += v.z;
        sum += v.w;
    }
    rl_floats_out(p.weights).v[at] = chosen_exp[id / 4u][id % 4u] / sum;
    if ((chosen[id] & 1u) != 0u) rl_token(p.token).v.halt = p.layer + 1u;
}
