// attn.comp - attention of one token's heads over a part of the cached positions.
//
// The positions are cut into at most `splits` pieces of whole tiles; each workgroup takes one piece for
// HEADS query heads that share a key/value head, and leaves its sums for attn_out.comp. With FUSED the
// token is alone: its query is normed and rotated here, and its key and value join here too (the piece
// that they belong to writes them to the cache).
//
// Teams of lanes take BATCH positions at a time and know nothing of each other until the piece is done.
// A lane holds the same few of a head's values of everything: of the queries, of keys and values that are
// on their way, and of the sums. Products are summed over the team such that a lane ends up with the
// score of one head at one position: halves of the team exchange halves of the heads until a lane has
// one. So it also keeps that head's maximum and its share of the weights' sum.
//
// Code is fetched once per token like weights: that of eight heads takes longer to arrive than few keys
// take to be read. So tokens with few keys have a kernel of two heads, and each kernel leaves the other's
// positions alone.
//
// Grid     x: splits, y: groups of HEADS query heads, z: tokens
// Local    teams of TEAM lanes, neighbours in a subgroup
// Reads    q (and k, v with FUSED); the cache
// Writes   parts [n][splits][Hq][D + 2]; FUSED: the cache row of the token; nothing for a first token at a
//          position outside [from, until)
// RL_LINKS: q, k, v and parts of one token may be numbered (link.glsl)
// Push     rl_attn_push
// Numerics f32; keys and values as the cache rounds them       Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn.glsl"
#define RL_LINK_CONSTANT 7
#include "link.glsl"

layout(constant_id = 4) const uint HEADS = 8; // a power of two, at most TEAM
layout(constant_id = 5) const uint FUSED = 1;
layout(constant_id = 6) const uint TEAM = 32; // a power of two, such that 4 TEAM divides D

layout(push_constant, std430) uniform Push { rl_attn_push p; };

const uint KEY = HEADS * D, VALUE = (HEADS + 1) * D;     // in query
const uint TILE = 32;                                    // positions of which a piece has a multiple
const uint ROWS = FUSED != 0 ? HEADS + 1 : HEADS;        // heads to prepare: the last is the key
const uint BROUGHT = FUSED != 0 ? HEADS + 2 : HEADS;     // heads to bring: behind that, the value
const uint SHARE = (BROUGHT * D / 4 + RL_LOCAL - 1) / RL_LOCAL; // their vectors per invocation
const uint SPAN = D / 16;                                // invocations per head that sum squares
const uint TEAMS = RL_LOCAL / TEAM;
const uint VECTORS = D / (4 * TEAM);                     // of a head, per lane
const uint SAME = TEAM / HEADS;                          // lanes that have scores of the same head
const uint MOST = RL_SOFTWARE ? 2 : 4;
const uint BATCH = SAME < MOST ? SAME : MOST;            // positions of a team at a time
const uint STEP = TEAMS * BATCH;
const uint VALUES = (TEAMS > HEADS + 2 ? TEAMS : HEADS + 2) * D;

shared float query[VALUES];         // the queries, and behind them the key and the value of this token; at
                                    // last the sums of the teams: there is no room for both in 32 KiB
shared float squares[ROWS * SPAN];  // of 16 values, summed
shared float factor[HEADS + 1];     // what a head's norm scales by
shared vec2 team_of[TEAMS * HEADS]; // maximum, sum of weights

// Brings the raw heads in, norms and rotates them, and scales the queries by 1 / sqrt(D). Loops, not
// straight code, where nothing is loaded: this runs once per token, and reading code takes longer than
// running it.
void prepare(uint t, uint first_head, uint kv_head)
{
    uint id = gl_LocalInvocationIndex;
    uint own = (t * p.n_head_kv + kv_head) * (D / 4u), looks = 0u, off;
    vec4 x[SHARE];
    if (TAKES) rl_expect(p.v, 4u * own);
    do {
        off = 0u;
        [[unroll]] for (uint n = 0u; n < SHARE; n++) {
            uint i = min(id + n * RL_LOCAL, BROUGHT * D / 4u - 1u), h = i / (D / 4u), within = i % (D / 4u);
            uint64_t from = h < HEADS ? p.q : h == HEADS ? p.k : p.v;
            uint at = within + (h < HEADS ? (t * p.n_head + first_head + h) * (D / 2u) : own);
            x[n] = TAKES ? rl_look4(from, at, off) : rl_values4(from).v[at];
        }
    } while (TAKES && rl_look_again(off, looks));
    [[dont_unroll]] for (uint n = 0u; n < SHARE; n++) {
        uint i = id + n * RL_LOCAL;
        if (i < BROUGHT * D / 4u)
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                query[4u * i + j] = x[0][j];
        [[unroll]] for (uint r = 0u; r + 1u < SHARE; r++)
            x[r] = x[r + 1u];
    }
    barrier();
    if (FUSED == 0u) { // prepared before
        [[dont_unroll]] for (uint i = id; i < HEADS * D; i += RL_LOCAL)
            query[i] *= inversesqrt(float(D));
        barrier();
        return;
    }
    // sums of squares: 16 values at a time, then the parts of a head
    [[dont_unroll]] for (uint i = id; i < ROWS * SPAN; i += RL_LOCAL) {
        float sum = 0.0;
        [[dont_unroll]] for (uint j = 0u; j < 16u; j++) {
            float a = query[(i / SPAN) * D + (i % SPAN) + j * SPAN];
            sum = fma(a, a, sum);
        }
        squares[i] = sum;
    }
    barrier();
    for (uint i = id; i < ROWS; i += RL_LOCAL) {
        float sum = 0.0;
        [[dont_unroll]] for (uint j = 0u; j < SPAN; j++)
            sum += squares[i * SPAN + j];
        factor[i] = inversesqrt(sum / float(D) + p.eps);
    }
    barrier();
    // A pair is turned together, or only scaled; each has one owner, so all happens in place.
    rl_floats angles = rl_floats(p.rope + 4ul * uint64_t(t * p.n_rot));
    uint half_ = p.n_rot / 2u, rest = (D - p.n_rot) / 2u;
    [[dont_unroll]] for (uint n = id; n < ROWS * (D / 2u); n += RL_LOCAL) {
        uint h = n / (D / 2u), j = n % (D / 2u);
        bool turns = j < half_;
        uint first = turns ? j : half_ + j, second = first + (turns ? half_ : rest);
        rl_floats weight = rl_floats(h < HEADS ? p.q_norm : p.k_norm);
        float a = query[h * D + first] * factor[h] * weight.v[first];
        float b = query[h * D + second] * factor[h] * weight.v[second];
        if (turns) {
            float c = angles.v[2u * j], s = angles.v[2u * j + 1u], x = a;
            a = x * c - b * s;
            b = b * c + x * s;
        }
        float scale = h < HEADS ? inversesqrt(float(D)) : 1.0;
        query[h * D + first] = a * scale;
        query[h * D + second] = b * scale;
    }
    barrier();
    [[dont_unroll]] for (uint i = id; i < 2u * D; i += RL_LOCAL)
        query[KEY + i] = rl_cache_round(query[KEY + i], i < D ? KEY_F16 : VALUE_F16);
    barrier();
}

uvec4 keys[BATCH * VECTORS], values[BATCH * VECTORS];
vec4 q[HEADS * VECTORS], acc[HEADS * VECTORS];
float s[HEADS];

// Keys, or values, of a batch whose first position is `at`: all loads at once. Behind the last position, and
// where this token's own belong, what is there: it is not used.
void load_keys(uint at, uint last, uint kv_head, uint lane)
{
    uint64_t from = p.keys + rl_cache_bytes(kv_head * D + 4u * lane, KEY_F16);
    uint row = rl_cache_bytes(p.n_head_kv * D, KEY_F16);
    [[unroll]] for (uint i = 0u; i < BATCH; i++) {
        uint64_t here = from + uint64_t(min(at + i, last)) * uint64_t(row);
        [[unroll]] for (uint j = 0u; j < VECTORS; j++)
            keys[i * VECTORS + j] = rl_cache_load4(here + rl_cache_bytes(4u * j * TEAM, KEY_F16), KEY_F16);
    }
}

void load_values(uint at, uint last, uint kv_head, uint lane)
{
    uint64_t from = p.values + rl_cache_bytes(kv_head * D + 4u * lane, VALUE_F16);
    uint row = rl_cache_bytes(p.n_head_kv * D, VALUE_F16);
    [[unroll]] for (uint i = 0u; i < BATCH; i++) {
        uint64_t here = from + uint64_t(min(at + i, last)) * uint64_t(row);
        [[unroll]] for (uint j = 0u; j < VECTORS; j++)
            values[i * VECTORS + j] = rl_cache_load4(here + rl_cache_bytes(4u * j * TEAM, VALUE_F16), VALUE_F16);
    }
}

vec4 shared_vector(uint row, uint j, uint lane) // of the queries, the key or the value
{
    uint i = row + 4u * (j * TEAM + lane);
    return vec4(query[i], query[i + 1u], query[i + 2u], query[i + 3u]);
}

// The sum over the team of s[lane / SAME], in every lane.
float exchange(uint lane)
{
    [[unroll]] for (uint n = HEADS / 2u, step = TEAM / 2u; n >= 1u; n /= 2u, step /= 2u) {
        bool upper = (lane & step) != 0u;
        [[unroll]] for (uint i = 0u; i < n; i++) {
            float other = subgroupShuffleXor(upper ? s[i] : s[i + n], step);
            s[i] = (upper ? s[i + n] : s[i]) + other;
        }
    }
    return rl_team_sum(s[0], SAME);
}

void hand_on(uint i, float v) // among the parts
{
    if (GIVES)
        rl_give(p.parts, i, v);
    else
        rl_values(p.parts).v[i] = v;
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if ((!TAKES && token.halt != 0u) || token.position < p.from || token.position >= p.until) return;
    uint id = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, t = gl_WorkGroupID.z;
    uint lane = id % TEAM, team = id / TEAM, base = gl_SubgroupInvocationID - lane;
    uint first_head = gl_WorkGroupID.y * HEADS, kv_head = first_head / (p.n_head / p.n_head_kv);
    uint position = token.position + t, count = position + 1u;
    // as many whole tiles per piece as it takes
    uint tiles = (count + TILE - 1u) / TILE;
    uint piece = (tiles + p.splits - 1u) / p.splits * TILE;
    uint begin = gl_WorkGroupID.x * piece, end = min(begin + piece, count), last = end - 1u;
    if (begin >= count) return;
    bool own = FUSED != 0u && end == count;

    load_keys(begin + team * BATCH, last, kv_head, lane);
    load_values(begin + team * BATCH, last, kv_head, lane);
    rl_link_begin(p.token, p.link);
    prepare(t, first_head, kv_head);
    const uint out_ = ((t * p.splits + gl_WorkGroupID.x) * p.n_head + first_head) * (D + 2u); // in parts
    if (rl_is_void()) {
        if (GIVES && id < 2u * HEADS) rl_give_void(p.parts, out_ + id / 2u * (D + 2u) + D + id % 2u);
        return;
    }
    if (own && first_head % (p.n_head / p.n_head_kv) == 0u) {
        uint64_t row = (uint64_t(position) * p.n_head_kv + kv_head) * D;
        [[dont_unroll]] for (uint i = 2u * id; i < 2u * D; i += 2u * RL_LOCAL)
            rl_cache_store2(i < D ? p.keys : p.values, row + i % D, vec2(query[KEY + i], query[KEY + i + 1u]),
                            i < D ? KEY_F16 : VALUE_F16);
    }
    [[unroll]] for (uint h = 0u; h < HEADS; h++)
        [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
            q[h * VECTORS + j] = shared_vector(h * D, j, lane);
            acc[h * VECTORS + j] = vec4(0.0);
        }
    const float NONE = -1e30;
    float top = NONE, weight = 0.0; // of head lane / SAME

    [[dont_unroll]] for (uint step = begin; step < end; step += STEP) {
        uint at = step + team * BATCH, turns = min(BATCH, end - step);
        float mine = NONE; // the score at position at + lane % SAME
        [[dont_unroll]] for (uint i = 0u; i < turns; i++) {
            bool now = FUSED != 0u && at + i == position;
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                s[h] = 0.0;
            [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
                vec4 key = rl_cache_values4(keys[j], KEY_F16);
                if (now) key = shared_vector(KEY, j, lane);
                [[unroll]] for (uint h = 0u; h < HEADS; h++)
                    [[unroll]] for (uint c = 0u; c < 4u; c++)
                        s[h] = fma(q[h * VECTORS + j][c], key[c], s[h]);
            }
            float sum = exchange(lane);
            if (lane % SAME == i && at + i < end) mine = sum;
            [[unroll]] for (uint j = 0u; j + VECTORS < BATCH * VECTORS; j++)
                keys[j] = keys[j + VECTORS]; // registers cannot be indexed
        }
        if (step + STEP < end) load_keys(at + STEP, last, kv_head, lane);

        float most = max(mine, top);
        [[unroll]] for (uint i = 1u; i < SAME; i *= 2u)
            most = max(most, subgroupShuffleXor(most, i));
        float shrink = exp(top - most), e = mine <= NONE ? 0.0 : exp(mine - most); // of NaN: NaN
        top = most;
        weight = fma(weight, shrink, e);
        if (subgroupOr(shrink != 1.0 ? 1u : 0u) != 0u)
            [[unroll]] for (uint h = 0u; h < HEADS; h++) {
                float by = subgroupShuffle(shrink, base + h * SAME);
                [[unroll]] for (uint j = 0u; j < VECTORS; j++)
                    acc[h * VECTORS + j] *= by;
            }
        [[dont_unroll]] for (uint i = 0u; i < turns; i++) {
            bool now = FUSED != 0u && at + i >= position; // what is behind has no weight, but must be a number
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                s[h] = subgroupShuffle(e, base + h * SAME + i);
            [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
                vec4 value = rl_cache_values4(values[j], VALUE_F16);
                if (now) value = shared_vector(VALUE, j, lane);
                [[unroll]] for (uint h = 0u; h < HEADS; h++)
                    [[unroll]] for (uint c = 0u; c < 4u; c++)
                        acc[h * VECTORS + j][c] = fma(s[h], value[c], acc[h * VECTORS + j][c]);
            }
            [[unroll]] for (uint j = 0u; j + VECTORS < BATCH * VECTORS; j++)
                values[j] = values[j + VECTORS];
        }
        if (step + STEP < end) load_values(at + STEP, last, kv_head, lane);
    }

    // the teams' sums, all relative to the piece's maximum
    uint head = lane / SAME;
    weight = rl_team_sum(weight, SAME);
    if (lane % SAME == 0u) team_of[team * HEADS + head] = vec2(top, weight);
    barrier();
    float most = top;
    [[dont_unroll]] for (uint i = 0u; i < TEAMS; i++)
        most = max(most, team_of[i * HEADS + head].x);
    float shrink = exp(top - most);
    [[unroll]] for (uint h = 0u; h < HEADS; h++) {
        float by = subgroupShuffle(shrink, base + h * SAME);
        [[unroll]] for (uint j = 0u; j < VECTORS; j++)
            acc[h * VECTORS + j] *= by;
    }
    if (team == 0u && lane % SAME == 0u) {
        float sum = 0.0;
        [[dont_unroll]] for (uint i = 0u; i < TEAMS; i++)
            sum = fma(team_of[i * HEADS + head].y, exp(team_of[i * HEADS + head].x - most), sum);
        hand_on(out_ + head * (D + 2u) + D, most);
        hand_on(out_ + head * (D + 2u) + D + 1u, sum);
    }
    [[dont_unroll]] for (uint h = 0u; h < HEADS; h++) {
        [[unroll]] for (uint j = 0u; j < VECTORS; j++)
            [[unroll]] for (uint c = 0u; c < 4u; c++)
                query[team * D + 4u * (j * TEAM + lane) + c] = acc[j][c];
        barrier();
        for (uint i = id; i < D; i += RL_LOCAL) {
            float sum = 0.0;
            [[dont_unroll]] for (uint k = 0u; k < TEAMS; k++)
                sum += query[k * D + i];
            hand_on(out_ + h * (D + 2u) + i, sum);
        }
        barrier();
        [[unroll]] for (uint j = 0u; j + VECTORS < HEADS * VECTORS; j++)
            acc[j] = acc[j + VECTORS];
    }
}
