// attn.comp - attention of one token's heads over a part of the cached positions.
//
// The positions are cut into at most `splits` pieces of whole tiles; each workgroup takes one piece
// for HEADS query heads that share a key/value head, keeps the running maximum, and leaves its sums
// for attn_out.comp. With FUSED the token is alone: its query is normed and rotated here, and its key
// and value join here too (the piece that they belong to writes them to the cache).
//
// Grid     x: splits, y: groups of HEADS query heads, z: tokens
// Local    128 invocations
// Reads    q (and k, v with FUSED); the cache
// Writes   parts [n][splits][Hq][D + 2]; FUSED: the cache row of the token
// Push     rl_attn_push
// Numerics f32; keys and values as the cache rounds them       Test kernel.vulkan.attention*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "group.glsl"
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

shared vec4 query[HEADS * D / 4];
shared float key_now[D], value_now[D];
shared float scratch[LOCAL * (HEADS > 1 ? HEADS : 2)]; // scores per slice; at the end sums per team
shared float score[TILE * HEADS];
shared float top[HEADS], shrink[HEADS];

// The token's own query, key and value: norm, rotation, rounding.
void prepare(uint t, uint first_head, uint kv_head)
{
    uint id = gl_LocalInvocationIndex;
    rl_floats angles = rl_floats(p.rope + 4ul * uint64_t(t * p.n_rot));
    float factor = inversesqrt(float(D));
    for (uint h = 0u; h < HEADS; h++) {
        rl_floats q = rl_floats(p.q + 8ul * uint64_t((t * p.n_head + first_head + h) * D));
        float scale = 1.0;
        if (FUSED != 0u) {
            float squares = 0.0;
            for (uint i = id; i < D; i += LOCAL)
                squares = fma(q.v[i], q.v[i], squares);
            scale = inversesqrt(rl_group_sum(squares) / float(D) + p.eps);
        }
        for (uint i = id; i < D; i += LOCAL) {
            float x = FUSED != 0u
                          ? rl_rotated(q, rl_floats(p.q_norm), scale, angles, p.n_rot, i)
                          : q.v[i];
            query[(h * D + i) / 4u][i & 3u] = x * factor;
        }
    }
    if (FUSED != 0u) {
        rl_floats k = rl_floats(p.k + 4ul * uint64_t((t * p.n_head_kv + kv_head) * D));
        rl_floats v = rl_floats(p.v + 4ul * uint64_t((t * p.n_head_kv + kv_head) * D));
        float squares = 0.0;
        for (uint i = id; i < D; i += LOCAL)
            squares = fma(k.v[i], k.v[i], squares);
        float scale = inversesqrt(rl_group_sum(squares) / float(D) + p.eps);
        for (uint i = id; i < D; i += LOCAL) {
            float x = rl_rotated(k, rl_floats(p.k_norm), scale, angles, p.n_rot, i);
            key_now[i] = rl_cache_round(vec2(x, 0.0), KEY_F16).x;
            value_now[i] = rl_cache_round(vec2(v.v[i], 0.0), VALUE_F16).x;
        }
    }
    barrier();
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u) return;
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
            rl_cache_store2(p.keys, at, vec2(key_now[i], key_now[i + 1u]), KEY_F16);
            rl_cache_store2(p.values, at, vec2(value_now[i], value_now[i + 1u]), VALUE_F16);
        }
    }
    if (id < HEADS) top[id] = -1e30;

    vec2 acc[HEADS * STEPS];
    [[unroll]] for (uint i = 0u; i < HEADS * STEPS; i++)
        acc[i] = vec2(0.0);
    float weight = 0.0; // of head id, for id < HEADS

    for (uint tile = begin; tile < end; tile += TILE) {
        // scores: an invocation takes one position and a slice of the values, for all heads
        {
            uint at = tile + id % TILE, slice = id / TILE;
            float s[HEADS];
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                s[h] = 0.0;
            if (at < end) {
                uint64_t from = uint64_t(at) * row + kv_head * D;
                bool now = FUSED != 0u && at == position;
                for (uint i = slice * (D / SLICES); i < (slice + 1u) * (D / SLICES); i += 4u) {
                    vec4 k = now ? vec4(key_now[i], key_now[i + 1u], key_now[i + 2u], key_now[i + 3u])
                                 : rl_cache_load4(p.keys, from + i, KEY_F16);
                    [[unroll]] for (uint h = 0u; h < HEADS; h++) {
                        vec4 q = query[(h * D + i) / 4u];
                        s[h] = fma(q.x, k.x, fma(q.y, k.y, fma(q.z, k.z, fma(q.w, k.w, s[h]))));
                    }
                }
            }
            [[unroll]] for (uint h = 0u; h < HEADS; h++)
                scratch[(slice * TILE + id % TILE) * HEADS + h] = s[h];
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
            for (uint i = 0u; i < TILE; i++)
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
            for (uint i = 0u; i < TILE; i++)
                weight += score[i * HEADS + id];
        }
        // weighted sum: an invocation takes pairs of values, for all heads
        uint team = id / LANES, lane = id % LANES;
        [[unroll]] for (uint h = 0u; h < HEADS; h++)
            [[unroll]] for (uint k = 0u; k < STEPS; k++)
                acc[h * STEPS + k] *= shrink[h];
        uint n = min(TILE, end - tile);
        if (team < TEAMS) {
            for (uint i = team; i < n; i += TEAMS) {
                uint64_t from = uint64_t(tile + i) * row + kv_head * D;
                bool now = FUSED != 0u && tile + i == position;
                [[unroll]] for (uint k = 0u; k < STEPS; k++) {
                    uint pair = lane + k * LANES;
                    if (pair >= PAIRS) break;
                    vec2 v = now ? vec2(value_now[2u * pair], value_now[2u * pair + 1u])
                                 : rl_cache_load2(p.values, from + 2u * pair, VALUE_F16);
                    [[unroll]] for (uint h = 0u; h < HEADS; h++)
                        acc[h * STEPS + k] = fma(vec2(score[i * HEADS + h]), v, acc[h * STEPS + k]);
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
