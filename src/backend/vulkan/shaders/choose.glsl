// choose.glsl - chooses the k experts of one token, weighs them, and sees whether they are there.
//
// One workgroup does it; all its invocations call it. The largest of each of 32 interleaved groups bound
// the k-th number from below; what is not below the bound is ranked exactly. So any input is right, and
// usual ones are fast. Numbers are compared as those of top.glsl; a group's largest gives up its lowest
// bits for the group's place, so that no two are equal.
// One workgroup runs this once per layer, so it takes as long as its code takes to arrive: little code
// that loops over shared memory is faster than straight code over registers.
//
// Needs    a constant FORCED (the choice itself is given); workgroups of 32 invocations or more; link.glsl
// Reads    logits f32 [n][E], E <= 1024, also those that this dispatch has written
//          (router.comp); residency u64 [E] of the layer: device address of the slot; 0: absent
// Writes   ids u32 [n][k], weights f32 [n][k], k <= 32; ids again where they are published;
//          token.halt = layer + 1 when an expert is absent and `check` is set
//          Where it takes its logits by numbers (link.glsl), the choice is given so, too: slots and weights,
//          void when it halts; and a void choice is given that, and nothing written
// Numerics f32; equal logits: lower index first; maximum subtracted before exp; the sum runs in order
//          of rank. NaN and -infinity are never ranked: where nothing else is left, the rank is the index,
//          with weight 0 beside others, which may repeat an expert
#include "top.glsl"

// How it chooses: for nothing, so that its code is there, or so that it counts.
const uint RL_CHOICE_AHEAD = 0, RL_CHOICE_MADE = 1;

const uint GROUPS = 32, PLACES = GROUPS - 1u, MOST = 32, AT_ONCE = 4; // loads of a round
shared uint keys[1024], group_top[GROUPS], bound, n_found;
shared uint64_t found[1024];
shared uint chosen[MOST]; // twice the expert, and one when it is absent
shared uint64_t slots[MOST];
shared vec4 chosen_exp[MOST / 4u];

void rl_choose_set(uint rank, uint expert, uint64_t slot, bool check, float e)
{
    chosen[rank] = 2u * expert + uint(check && slot == 0ul);
    slots[rank] = slot;
    chosen_exp[rank / 4u][rank % 4u] = e;
}

uint64_t rl_choose_slot(rl_route_push p, uint expert) // 0 as well where nobody asks
{
    return p.residency != 0ul ? rl_addresses(p.residency).v[expert] : 0ul;
}

void rl_choose_forced(rl_route_push p, rl_values logits, uint t, bool check)
{
    uint id = gl_LocalInvocationIndex;
    if (id >= MOST) return;
    rl_words forced = rl_words(p.forced + 4ul * uint64_t(t * p.k));
    uint e = forced.v[min(id, p.k - 1u)];
    float mine = logits.v[e], top = mine;
    for (uint i = 0u; i < p.k; i++)
        top = max(top, logits.v[forced.v[i]]);
    rl_choose_set(id, e, rl_choose_slot(p, e), check, id < p.k ? exp(mine - top) : 0.0);
}

// Logits i, i + RL_LOCAL, ...
void rl_choose_load(rl_route_push p, uint64_t logits, uint i, bool waits, out float number[AT_ONCE])
{
    uint looks = 0u, off;
    if (!TAKES) {
        [[unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            number[j] = rl_values(logits).v[min(i + j * RL_LOCAL, p.n_expert - 1u)];
        return;
    }
    do {
        off = 0u;
        [[unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            number[j] = uintBitsToFloat(rl_look(logits, min(i + j * RL_LOCAL, p.n_expert - 1u), off));
    } while (waits && rl_look_again(off, looks));
}

void rl_choose_largest(rl_route_push p, uint64_t logits, bool check, bool waits)
{
    uint id = gl_LocalInvocationIndex;
    if (id < GROUPS) group_top[id] = 0u;
    if (id == 0u) n_found = 0u;
    barrier();
    [[dont_unroll]] for (uint first = id; first < p.n_expert; first += AT_ONCE * RL_LOCAL) {
        float number[AT_ONCE];
        rl_choose_load(p, logits, first, waits, number);
        [[dont_unroll]] for (uint i = first; i < min(first + AT_ONCE * RL_LOCAL, p.n_expert); i += RL_LOCAL) {
            uint key = rl_top_key(floatBitsToUint(number[0]));
            keys[i] = key;
            atomicMax(group_top[i & PLACES], key);
            [[unroll]] for (uint r = 0u; r + 1u < AT_ONCE; r++)
                number[r] = number[r + 1u];
        }
    }
    barrier();
    if (id < GROUPS) {
        uint top = (group_top[id] & ~PLACES) | (PLACES - id), rank = 0u;
        [[dont_unroll]] for (uint i = 0u; i < GROUPS; i += 4u)
            [[unroll]] for (uint j = i; j < i + 4u; j++)
                rank += uint(((group_top[j] & ~PLACES) | (PLACES - j)) > top);
        if (rank == p.k - 1u) bound = max(top & ~PLACES, 1u);
    }
    barrier();
    uint least = bound;
    [[dont_unroll]] for (uint i = id; i < p.n_expert; i += RL_LOCAL)
        if (keys[i] >= least) found[atomicAdd(n_found, 1u)] = rl_top_pack(keys[i], i);
    barrier();
    uint n = n_found;
    [[dont_unroll]] for (uint i = id; i < n; i += RL_LOCAL) {
        uint64_t mine = found[i], most = mine;
        uint rank = 0u, expert = rl_top_index(mine);
        uint64_t slot = rl_choose_slot(p, expert);
        [[dont_unroll]] for (uint j = 0u; j < n; j++) {
            rank += uint(found[j] > mine);
            most = max(most, found[j]);
        }
        if (rank < p.k)
            rl_choose_set(rank, expert, slot, check, exp(rl_top_number(mine) - rl_top_number(most)));
    }
    if (id >= min(n, p.k) && id < MOST)
        rl_choose_set(id, id, rl_choose_slot(p, min(id, p.n_expert - 1u)), check,
                      n == 0u && id < p.k ? 1.0 : 0.0);
}

// The choice of token t, by all invocations of a workgroup. how: RL_CHOICE_...; numbered: where it is given
// so, if it is.
void rl_choose(rl_route_push p, uint64_t numbered, uint t, bool check, uint how)
{
    uint64_t logits = p.logits + 4ul * uint64_t(t * p.n_expert);
    check = check && p.residency != 0ul;
    if (FORCED != 0u)
        rl_choose_forced(p, rl_values(logits), t, check);
    else
        rl_choose_largest(p, logits, check, how == RL_CHOICE_MADE);
    barrier();
    uint id = gl_LocalInvocationIndex;
    if (how != RL_CHOICE_MADE || id >= p.k) return;
    uint e = chosen[id] >> 1, at = t * p.k + id;
    precise float sum = 0.0; // behind the k-th there are zeros
    [[dont_unroll]] for (uint i = 0u; i < (p.k + 3u) / 4u; i++) {
        vec4 v = chosen_exp[i];
        sum += v.x;
        sum += v.y;
        sum += v.z;
        sum += v.w;
    }
    float weight = chosen_exp[id / 4u][id % 4u] / sum;
    if (!rl_is_void()) {
        rl_numbers(p.ids).v[at] = e;
        rl_words_out(p.publish).v[at] = e;
        rl_values(p.weights).v[at] = weight;
        if ((chosen[id] & 1u) != 0u) rl_token(p.token).v.halt = p.layer + 1u;
    }
    if (GIVES) {
        uint absent = uint(rl_is_void());
        [[dont_unroll]] for (uint i = 0u; i < p.k; i++)
            absent |= chosen[i] & 1u;
        uint mark = absent != 0u ? RL_NUMBER_VOID : 0u, first = id * RL_CHOICE_WORDS;
        uvec2 slot = unpackUint2x32(slots[id]);
        [[unroll]] for (uint k = 0u; k < 2u; k++)
            rl_give_bits(numbered, first + RL_CHOICE_SLOT + k, slot[k], mark);
        rl_give_bits(numbered, first + RL_CHOICE_WEIGHT, floatBitsToUint(weight), mark);
    }
}
