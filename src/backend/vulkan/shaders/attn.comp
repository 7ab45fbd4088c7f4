// attn.comp - attention of one token's heads over a part of the cached positions.
//
// The positions are cut into at most `splits` pieces of whole tiles; each workgroup takes one piece
// for HEADS query heads that share a key/value head, keeps the running maximum, and leaves its sums
// for attn_out.comp. With FUSED the token is alone: its query is normed and rotated here, and its key
// and value join here too (the piece that they belong to writes them to the cache).
//
// The code of eight heads is 35 KiB, and code is fetched once per token like weights; so tokens with
// few keys to read have a kernel of two heads, and each kernel leaves the other's positions alone.
//
// Grid     x: splits, y: groups of HEADS query heads, z: tokens
// Local    128 invocations
// Reads    q (and k, v with FUSED); the cache
// Writes   parts [n][splits][Hq][D + 2]; FUSED: the cache row of the token; nothing for a first
//          token at a position outside [from, until)
// Push     rl_attn_push
// Numerics f32; keys and values as the cache rounds them       Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "attn.glsl"

layout(constant_id = 4) const uint HEADS = 8;
layout(constant_id = 5) const uint FUSED = 1;

layout(push_constant, std430) uniform Push { rl_attn_push p; };

const uint LOCAL = 128;
const uint TILE = 32;                                    // positions
const uint SLICES = LOCAL / TILE;                        // of a head's values, in the scores
const uint PAIRS = D / 2;                                // of values, in the weighted sum
const uint LANES = PAIRS < LOCAL ? PAIRS : LOCAL;        // that take one position
const uint STEPS = (PAIRS + LANES - 1) / LANES;          // pairs per lane
const uint TEAMS = LOCAL / LANES;                        // positions at a time
const uint AHEAD = 8;                                    // loads on their way
const uint ROWS = FUSED != 0 ? HEADS + 1 : HEADS;        // heads to prepare: the last is the key
const uint SHARE = (ROWS * D + LOCAL - 1) / LOCAL;       // their values per invocation
const uint SPAN = D / 16;                                // invocations per head that sum squares
const uint VECTORS = D / SLICES / 4;                     // of a slice
const uint PASS = VECTORS % 4 == 0 ? 4 : 1;              // of them, multiplied by one copy of the code

shared float query[(HEADS + 1) * D]; // the queries, and behind them the key of this token
shared float value_now[D];
shared float scratch[LOCAL * (HEADS > 1 ? HEADS : 2)]; // partial sums of several kinds
shared float score[TILE * HEADS];
shared float top[HEADS], shrink[HEADS];

// Brings the raw heads in, norms and rotates them, and scales the queries by 1 / sqrt(D).
void prepare(uint t, uint first_head, uint kv_head)
{
    uint id = gl_LocalInvocationIndex;
    rl_floats q = rl_floats(p.q + 8ul * uint64_t((t * p.n_head + first_head) * D));
    rl_floats k = rl_floats(p.k + 4ul * uint64_t((t * p.n_head_kv + kv_head) * D));
    rl_floats v = rl_floats(p.v + 4ul * uint64_t((t * p.n_head_kv + kv_head) * D));
    float x[SHARE];
    [[unroll]] for (uint n = 0u; n < SHARE; n++) {
        uint i = min(id + n * LOCAL, ROWS * D - 1u), h = i / D;
        x[n] = h < HEADS ? q.v[h * 2u * D + i % D] : k.v[i % D];
    }
    if (FUSED != 0u)
        for (uint i = id; i < D; i += LOCAL)
            value_now[i] = rl_cache_round(v.v[i], VALUE_F16);
    [[unroll]] for (uint n = 0u; n < SHARE; n++) {
        uint i = id + n * LOCAL;
        if (i < ROWS * D) query[i] = x[n];
    }
    barrier();
    if (FUSED == 0u) { // prepared before
        for (uint i = id; i < HEADS * D; i += LOCAL)
            query[i] *= inversesqrt(float(D));
        barrier();
        return;
    }
    // sums of squares: 16 values at a time, then the parts of a head
    for (uint i = id; i < ROWS * SPAN; i += LOCAL) {
        float s = 0.0;
        [[unroll]] for (uint j = 0u; j < 16u; j++) {
            float a = query[(i / SPAN) * D + (i % SPAN) + j * SPAN];
            s = fma(a, a, s);
        }
        scratch[i] = s;
    }
    barrier();
    for (uint i = id; i < ROWS; i += LOCAL) {
        float s = 0.0;
        for (uint j = 0u; j < SPAN; j++)
            s += scratch[i * SPAN + j];
        score[i] = inversesqrt(s / float(D) + p.eps);
    }
    barrier();
    // A pair is turned together, or only scaled; each has one owner, so all happens in place. Loops, not
    // straight code: this runs once per token, and reading code takes longer than running it.
    rl_floats angles = rl_floats(p.rope + 4ul * uint64_t(t * p.n_rot));
    uint half_ = p.n_rot / 2u, rest = (D - p.n_rot) / 2u;
    [[dont_unroll]] for (uint n = id; n < ROWS * (D / 2u); n += LOCAL) {
        uint h = n / (D / 2u), j = n % (D / 2u);
        bool turns = j < half_;
        uint first = turns ? j : half_ + j, second = first + (turns ? half_ : rest);
        rl_floats weight = rl_floats(h < HEADS ? p.q_norm : p.k_norm);
        float a = query[h * D + first] * score[h] * weight.v[first];
        float b = query[h * D + second] * score[h] * weight.v[second];
        if (turns) {
            float c = angles.v[2u * j], s = angles.v[2u * j + 1u], x = a;
            a = x * c - b * s;
            b = b * c + x * s;
        }
        float scale = inversesqrt(float(D));
        query[h * D + first] = h < HEADS ? a * scale : rl_cache_round(a, KEY_F16);
        query[h * D + second] = h < HEADS ? b * scale : rl_cache_round(b, KEY_F16);
    }
    barrier();
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u || token.position < p.from || token.position >= p.until) return;
    uint id = gl_LocalInvocationIndex, t = gl_WorkGroupID.z;
    uint first_head = gl_WorkGroupID.y * HEADS, kv_head = first_head / (p.n_head / p.n_head_kv);
    uint position = token.position + t, count = position + 1u;
    // as many whole tiles per piece as it takes
    uint tiles = (count + TILE - 1u) / TILE;
    uint piece = (tiles + p.splits - 1u) / p.splits * TILE;
    uint begin = gl_WorkGroupID.x * piece, end = min(begin + piece, count);
    if (begin >= count) return;
    bool own = FUSED != 0u && end == count;

    prepare(t, first_head, kv_head);
    uint row = p.n_head_kv * D;
    if (own && first_head % (p.n_head / p.n_head_kv) == 0u) {
        for (uint i = 2u * id; i < D; i += 2u * LOCAL) {
            uint64_t at = uint64_t(position) * row + kv_head * D + i;
            rl_cache_store2(p.keys, at, vec2(query[HEADS * D + i], query[HEADS * D + i + 1u]), KEY_F16);
            rl_cache_store2(p.values, at, vec2(value_now[i], value_now[i + 1u]), VALUE_F16);
        }
    }
    if (id < HEADS) top[id] = -1e30;

    vec2 acc[HEADS * STEPS];
    [[unroll]] for (uint i = 0u; i < HEADS * STEPS; i++)
        acc[i] = vec2(0.0);
    float weight = 0.0; // of head id, for id < HEADS

    for (uint tile = begin; tile < end; tile += TILE) {
        // scores: an invocation takes one position and a slice of the values, for all heads. Neighbours
        // take the slices of one position, a vector each in turn: so a load meets few lines of the cache.
        {
            uint place = id / SLICES, slice = id % SLICES, at = min(tile + place, end - 1u);
            uint64_t from = uint64_t(at) * row + kv_head * D + 4u * slice;
            bool now = FUSED != 0u && at == position;
            vec4 k[VECTORS];
            if (!now)
                [[unroll]] for (uint i = 0u; i < VECTORS; i++)
                    k[i] = rl_cache_load4(p.keys, from + 4u * SLICES * i, KEY_F16);
            else
                [[unroll]] for (uint i = 0u; i < VECTORS; i++)
                    [[unroll]] for (uint j = 0u; j < 4u; j++)
                        k[i][j] = query[HEADS * D + 4u * (SLICES * i + slice) + j];
            float s[HEADS];
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                s[h] = 0.0;
            [[dont_unroll]] for (uint i = 0u; i < VECTORS; i += PASS) {
                [[unroll]] for (uint n = 0u; n < PASS; n++)
                    [[unroll]] for (uint h = 0u; h < HEADS; h++)
                        [[unroll]] for (uint j = 0u; j < 4u; j++)
                            s[h] = fma(query[h * D + 4u * (SLICES * (i + n) + slice) + j], k[n][j], s[h]);
                [[unroll]] for (uint n = 0u; n + PASS < VECTORS; n++)
                    k[n] = k[n + PASS]; // registers cannot be indexed
            }
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                scratch[(slice * TILE + place) * HEADS + h] = s[h];
        }
        barrier();
        for (uint i = id; i < TILE * HEADS; i += LOCAL) {
            float s = 0.0;
            [[unroll]] for (uint k = 0u; k < SLICES; k++)
                s += scratch[k * TILE * HEADS + i];
            score[i] = tile + i / HEADS < end ? s : -1e30;
        }
        barrier();
        if (id < HEADS) {
            float m = top[id];
            [[unroll]] for (uint i = 0u; i < TILE; i++)
                m = max(m, score[i * HEADS + id]);
            shrink[id] = exp(top[id] - m);
            top[id] = m;
        }
        barrier();
        for (uint i = id; i < TILE * HEADS; i += LOCAL)
            score[i] = exp(score[i] - top[i % HEADS]);
        barrier();
        if (id < HEADS) {
            weight *= shrink[id];
            [[unroll]] for (uint i = 0u; i < TILE; i++)
                weight += score[i * HEADS + id];
        }
        // weighted sum: an invocation takes pairs of values, for all heads. Scores behind the end are
        // zero, so the tile is gone through as a whole.
        uint team = id / LANES, lane = id % LANES;
        [[unroll]] for (uint h = 0u; h < HEADS; h++)
            [[unroll]] for (uint k = 0u; k < STEPS; k++)
                acc[h * STEPS + k] *= shrink[h];
        [[unroll]] for (uint k = 0u; k < STEPS; k++) {
            uint pair = min(lane + k * LANES, PAIRS - 1u);
            for (uint first = 0u; first < TILE && tile + first < end; first += AHEAD * TEAMS) {
                vec2 v[AHEAD];
                [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
                    uint at = min(tile + first + i * TEAMS + min(team, TEAMS - 1u), end - 1u);
                    bool now = FUSED != 0u && at == position;
                    if (now)
                        v[i] = vec2(value_now[2u * pair], value_now[2u * pair + 1u]);
                    else
                        v[i] = rl_cache_load2(p.values, uint64_t(at) * row + kv_head * D + 2u * pair,
                                              VALUE_F16);
                }
                [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
                    uint n = first + i * TEAMS + team;
                    if (team < TEAMS && n < TILE)
                        [[unroll]] for (uint h = 0u; h < HEADS; h++)
                            acc[h * STEPS + k] = fma(vec2(score[n * HEADS + h]), v[i], acc[h * STEPS + k]);
                }
            }
        }
        barrier();
    }

    // the teams' sums, head by head
    rl_floats_out out_ = rl_floats_out(
        p.parts + 4ul * ((uint64_t(t * p.splits + gl_WorkGroupID.x) * p.n_head + first_head) * (D + 2u)));
    uint team = id / LANES, lane = id % LANES;
    [[unroll]] for (uint h = 0u; h < HEADS; h++) {
        [[unroll]] for (uint k = 0u; k < STEPS; k++) {
            uint pair = lane + k * LANES;
            if (TEAMS == 1u) {
                if (pair < PAIRS) {
                    out_.v[h * (D + 2u) + 2u * pair] = acc[h * STEPS + k].x;
                    out_.v[h * (D + 2u) + 2u * pair + 1u] = acc[h * STEPS + k].y;
                }
            } else {
                if (team < TEAMS) {
                    scratch[2u * id] = acc[h * STEPS + k].x;
                    scratch[2u * id + 1u] = acc[h * STEPS + k].y;
                }
                barrier();
                if (team == 0u && pair < PAIRS) {
                    vec2 sum = vec2(0.0);
                    for (uint i = 0u; i < TEAMS; i++)
                        sum += vec2(scratch[2u * (i * LANES + lane)], scratch[2u * (i * LANES + lane) + 1u]);
                    out_.v[h * (D + 2u) + 2u * pair] = sum.x;
                    out_.v[h * (D + 2u) + 2u * pair + 1u] = sum.y;
                }
                barrier();
            }
        }
    }
    if (id < HEADS) {
        out_.v[id * (D + 2u) + D] = top[id];
        out_.v[id * (D + 2u) + D + 1u] = weight;
    }
}
