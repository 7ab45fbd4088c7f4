// delta_step.comp - the gated delta net between its projections, for one token or a batch.
//
// Convolution and SiLU of q, k, v; L2 norms; gates; the delta rule token by token; the output gate.
// The RMS of the output norm spans a head, and a workgroup has only some of its columns: y leaves
// with the norm's weight and the gate applied, and the sums of squares leave beside it (the next
// product scales with them: RL_INPUT_HEADS).
//
// Grid     x: blocks of COLS value columns of a head, y: value heads
// Local    COLS x PARTS invocations; one holds D / PARTS numbers of its column of the state
// Reads    u, z, ba; weights; one copy of conv and state (token.side)
// Writes   y, sums; the other copy of conv and state
// RL_LINKS: u, z, ba, y and sums of one token may be numbered (link.glsl)
// Push     rl_delta_push
// Numerics f32; o is read as decayed S^T q + (k . q) e, which is S_new^T q
// Rule     docs/qwen3next.md section 4      Oracle backend/oracle      Test kernel.vulkan.delta_step*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define RL_LINK_CONSTANT 5
#include "link.glsl"

layout(constant_id = 1) const uint D = 128;
layout(constant_id = 2) const uint COLS = 16;
layout(constant_id = 3) const uint PARTS = 8;
layout(constant_id = 4) const uint TAPS = 4;
const uint SHARE = D / PARTS;
const uint CHANNELS = (D + COLS * PARTS - 1) / (COLS * PARTS); // of q, and of k, per invocation
const uint BOTH = 2 * CHANNELS + 1;                            // q, k, and v

layout(push_constant, std430) uniform Push { rl_delta_push p; };

shared float q_head[D], k_head[D], v_head[COLS];
shared vec2 partial[PARTS * COLS];
shared vec3 scratch[64];

// Which channel is the i-th of this invocation: CHANNELS of q, as many of k, one of v.
uint channel_of(uint i, uint head)
{
    uint key_head = head / (p.n_value_head / p.n_key_head), id = gl_LocalInvocationIndex;
    uint within = min(id + (i % CHANNELS) * COLS * PARTS, D - 1u);
    if (i < CHANNELS) return key_head * D + within;
    if (i < 2u * CHANNELS) return (p.n_key_head + key_head) * D + within;
    return 2u * p.n_key_head * D + head * D + gl_WorkGroupID.x * COLS + id % COLS;
}

void main()
{
    uint id = gl_LocalInvocationIndex, col = id % COLS, part = id / COLS;
    uint head = gl_WorkGroupID.y, ratio = p.n_value_head / p.n_key_head, key_head = head / ratio;
    uint block = gl_WorkGroupID.x, n_blocks = gl_NumWorkGroups.x;
    uint channels = (2u * p.n_key_head + p.n_value_head) * D;
    uint values = p.n_value_head * D, column = block * COLS + col;
    rl_values u = rl_values(p.u);

    // What depends on no other dispatch, then what does.
    float dt = rl_floats(p.dt).v[head], a_head = rl_floats(p.a).v[head];
    float norm = rl_floats(p.norm).v[column];
    float taps[BOTH * TAPS], newest[BOTH];
    uint channel[BOTH];
    [[unroll]] for (uint i = 0u; i < BOTH; i++) {
        channel[i] = channel_of(i, head);
        [[unroll]] for (uint j = 0u; j < TAPS; j++)
            taps[i * TAPS + j] = rl_floats(p.conv_w).v[channel[i] * TAPS + j];
        if (!TAKES) newest[i] = u.v[channel[i]];
    }
    uint pair = key_head * 2u * ratio + head % ratio;
    float a, b, z;
    if (!TAKES) {
        b = rl_values(p.ba).v[pair];
        a = rl_values(p.ba).v[pair + ratio];
        z = rl_values(p.z).v[head * D + column];
    }

    rl_vk_token token = rl_token(p.token).v;
    uint64_t conv_bytes = 4ul * uint64_t((TAPS - 1u) * channels);
    uint64_t state_bytes = 4ul * uint64_t(p.n_value_head * D * D);
    uint64_t at = 4ul * uint64_t((head * D + part * SHARE) * D + column);
    rl_floats conv = rl_floats(p.conv + conv_bytes * (token.side & 1u));
    rl_floats_out conv_out = rl_floats_out(p.conv + conv_bytes * (1u - (token.side & 1u)));
    rl_floats state = rl_floats(p.state + state_bytes * (token.side & 1u) + at);
    rl_floats_out state_out = rl_floats_out(p.state + state_bytes * (1u - (token.side & 1u)) + at);
    float s[SHARE], past[BOTH * TAPS]; // inputs of the last TAPS - 1 tokens, oldest first
    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        s[i] = state.v[i * D];
    [[unroll]] for (uint i = 0u; i < BOTH; i++)
        [[unroll]] for (uint j = 0u; j + 1u < TAPS; j++)
            past[i * TAPS + j] = conv.v[j * channels + channel[i]];
    rl_link_begin(p.token, p.link);
    if (TAKES) {
        uint looks = 0u, off;
        rl_expect(p.u, channel[BOTH - 1u]);
        do {
            off = 0u;
            [[unroll]] for (uint i = 0u; i < BOTH; i++)
                newest[i] = uintBitsToFloat(rl_look(p.u, channel[i], off));
            b = uintBitsToFloat(rl_look(p.ba, pair, off));
            a = uintBitsToFloat(rl_look(p.ba, pair + ratio, off));
            z = uintBitsToFloat(rl_look(p.z, head * D + column, off));
        } while (rl_look_again(off, looks));
    } else if (token.halt != 0u) {
        return;
    }

    const uint n = TAKES ? 1u : token.n;
    [[dont_unroll]] for (uint t = 0u; t < n; t++) {
        // q, k and v of this head after convolution; q and k of length 1
        vec2 squares = vec2(0.0);
        [[unroll]] for (uint i = 0u; i < BOTH; i++) {
            past[i * TAPS + TAPS - 1u] = newest[i];
            float c = 0.0;
            [[unroll]] for (uint j = 0u; j < TAPS; j++)
                c = fma(taps[i * TAPS + j], past[i * TAPS + j], c);
            c = rl_silu(c);
            uint within = id + (i % CHANNELS) * COLS * PARTS;
            if (i == 2u * CHANNELS) {
                if (part == 0u) v_head[col] = c;
            } else if (within < D) {
                if (i < CHANNELS) {
                    q_head[within] = c;
                    squares.x = fma(c, c, squares.x);
                } else {
                    k_head[within] = c;
                    squares.y = fma(c, c, squares.y);
                }
            }
            [[unroll]] for (uint j = 0u; j + 1u < TAPS; j++)
                past[i * TAPS + j] = past[i * TAPS + j + 1u];
        }
        float beta = rl_sigmoid(b), decay = exp(a_head * rl_softplus(a + dt)), gate = rl_silu(z);
        if (t + 1u < n) { // the next token's inputs are on their way meanwhile
            [[unroll]] for (uint i = 0u; i < BOTH; i++)
                newest[i] = u.v[(t + 1u) * channels + channel[i]];
            b = rl_values(p.ba).v[(t + 1u) * 2u * p.n_value_head + pair];
            a = rl_values(p.ba).v[(t + 1u) * 2u * p.n_value_head + pair + ratio];
            z = rl_values(p.z).v[(t + 1u) * values + head * D + column];
        }
        squares = subgroupAdd(squares);
        if (gl_SubgroupInvocationID == 0u) scratch[gl_SubgroupID].xy = squares;
        barrier();
        if (rl_is_void()) {
            if (GIVES && part == 0u) rl_give_void(p.y, head * D + column);
            if (GIVES && id == 0u) rl_give_void(p.sums, head * n_blocks + block);
            return;
        }

        // what the decayed memory holds for k, and for q; and k . q of this part
        vec2 held = vec2(0.0);
        float kq = 0.0;
        [[unroll]] for (uint i = 0u; i < SHARE; i++) {
            float k = k_head[part * SHARE + i], q = q_head[part * SHARE + i];
            s[i] *= decay;
            held = fma(vec2(s[i]), vec2(k, q), held);
            kq = fma(k, q, kq);
        }
        squares = vec2(0.0);
        for (uint i = 0u; i < gl_NumSubgroups; i++)
            squares += scratch[i].xy;
        partial[id] = held;
        if (col == 0u) scratch[part].z = kq;
        barrier();
        held = vec2(0.0);
        kq = 0.0;
        [[unroll]] for (uint i = 0u; i < PARTS; i++) {
            held += partial[i * COLS + col];
            kq += scratch[i].z;
        }
        float q_scale = inversesqrt(squares.x + 1e-6) * inversesqrt(float(D));
        float k_scale = inversesqrt(squares.y + 1e-6);
        float e = beta * (v_head[col] - held.x * k_scale) * k_scale;
        [[unroll]] for (uint i = 0u; i < SHARE; i++)
            s[i] = fma(k_head[part * SHARE + i], e, s[i]);
        float o = q_scale * (held.y + kq * e);
        if (part == 0u && GIVES) rl_give(p.y, head * D + column, o * norm * gate);
        if (part == 0u && !GIVES) rl_values(p.y).v[t * values + head * D + column] = o * norm * gate;
        float sum = subgroupAdd(part == 0u ? o * o : 0.0);
        barrier(); // scratch has been read
        if (gl_SubgroupInvocationID == 0u) scratch[gl_SubgroupID].x = sum;
        barrier();
        if (id == 0u) {
            sum = 0.0;
            for (uint i = 0u; i < gl_NumSubgroups; i++)
                sum += scratch[i].x;
            if (GIVES) rl_give(p.sums, head * n_blocks + block, sum);
            else rl_values(p.sums).v[(t * p.n_value_head + head) * n_blocks + block] = sum;
        }
        if (t + 1u < n) barrier();
    }

    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        state_out.v[i * D] = s[i];
    // The last inputs; q and k of a key head are kept by the first block of its first value head.
    bool keeps = head % ratio == 0u && block == 0u;
    [[unroll]] for (uint i = 0u; i < BOTH; i++) {
        bool mine = i == 2u * CHANNELS ? part == 0u
                                       : keeps && id + (i % CHANNELS) * COLS * PARTS < D;
        if (mine)
            [[unroll]] for (uint j = 0u; j + 1u < TAPS; j++)
                conv_out.v[j * channels + channel[i]] = past[i * TAPS + j];
    }
}
