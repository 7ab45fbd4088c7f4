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
// Push     rl_delta_push
// Numerics f32; o is read as decayed S^T q + (k . q) e, which is S_new^T q
// Rule     QWEN3NEXT.md section 4      Oracle backend/oracle      Test kernel.vulkan.delta_step*
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "group.glsl"

layout(constant_id = 1) const uint D = 128;
layout(constant_id = 2) const uint COLS = 32;
layout(constant_id = 3) const uint PARTS = 4;
const uint SHARE = D / PARTS;

layout(push_constant, std430) uniform Push { rl_delta_push p; };

shared float q_head[D], k_head[D], v_head[COLS];
shared vec2 partial[PARTS * COLS];

// Input number t of a channel; before the batch it is in the state, which ends with t = -1.
float window(rl_floats u, rl_floats conv, int t, uint channel, uint channels)
{
    return t < 0 ? conv.v[uint(t + int(p.taps) - 1) * channels + channel]
                 : u.v[uint(t) * channels + channel];
}

float convolve(rl_floats u, rl_floats conv, rl_floats w, uint t, uint channel, uint channels)
{
    float s = 0.0;
    for (uint j = 0u; j < p.taps; j++)
        s = fma(w.v[channel * p.taps + j],
                window(u, conv, int(t + j) - int(p.taps) + 1, channel, channels), s);
    return rl_silu(s);
}

void main()
{
    rl_vk_token token = rl_token(p.token).v;
    if (token.halt != 0u) return;
    uint id = gl_LocalInvocationIndex, col = id % COLS, part = id / COLS;
    uint head = gl_WorkGroupID.y, ratio = p.n_value_head / p.n_key_head, key_head = head / ratio;
    uint block = gl_WorkGroupID.x, n_blocks = gl_NumWorkGroups.x;
    uint channels = (2u * p.n_key_head + p.n_value_head) * D;
    uint q_first = key_head * D, k_first = (p.n_key_head + key_head) * D;
    uint v_first = 2u * p.n_key_head * D + head * D + block * COLS;
    uint values = p.n_value_head * D;
    uint column = block * COLS + col;

    uint64_t conv_bytes = 4ul * uint64_t((p.taps - 1u) * channels);
    uint64_t state_bytes = 4ul * uint64_t(p.n_value_head * D * D);
    rl_floats conv = rl_floats(p.conv + conv_bytes * token.side);
    rl_floats_out conv_out = rl_floats_out(p.conv + conv_bytes * (1u - token.side));
    uint64_t at = 4ul * uint64_t((head * D + part * SHARE) * D + column);
    rl_floats state = rl_floats(p.state + state_bytes * token.side + at);
    rl_floats_out state_out = rl_floats_out(p.state + state_bytes * (1u - token.side) + at);
    rl_floats u = rl_floats(p.u), w = rl_floats(p.conv_w);

    float s[SHARE];
    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        s[i] = state.v[i * D];
    float dt = rl_floats(p.dt).v[head], a_head = rl_floats(p.a).v[head];
    float norm = rl_floats(p.norm).v[column];

    for (uint t = 0u; t < token.n; t++) {
        // q, k and v of this head after convolution; q and k of length 1
        vec2 squares = vec2(0.0);
        for (uint i = id; i < D; i += COLS * PARTS) {
            float q = convolve(u, conv, w, t, q_first + i, channels);
            float k = convolve(u, conv, w, t, k_first + i, channels);
            q_head[i] = q;
            k_head[i] = k;
            squares += vec2(q * q, k * k);
        }
        if (part == 0u) v_head[col] = convolve(u, conv, w, t, v_first + col, channels);
        squares = rl_group_sum2(squares);
        float q_scale = inversesqrt(squares.x + 1e-6) * inversesqrt(float(D));
        float k_scale = inversesqrt(squares.y + 1e-6);

        rl_floats ba = rl_floats(p.ba + 8ul * uint64_t(t * p.n_value_head));
        uint pair = key_head * 2u * ratio + head % ratio;
        float beta = rl_sigmoid(ba.v[pair]);
        float decay = exp(a_head * rl_softplus(ba.v[pair + ratio] + dt));

        // what the decayed memory holds for k, and for q
        vec2 held = vec2(0.0);
        [[unroll]] for (uint i = 0u; i < SHARE; i++) {
            uint n = part * SHARE + i;
            s[i] *= decay;
            held = fma(vec2(s[i]), vec2(k_head[n], q_head[n]), held);
        }
        partial[id] = held;
        barrier();
        held = partial[col];
        [[unroll]] for (uint i = 1u; i < PARTS; i++)
            held += partial[i * COLS + col];
        float e = beta * (v_head[col] - held.x * k_scale);
        float ek = e * k_scale;
        float kq = 0.0;
        [[unroll]] for (uint i = 0u; i < SHARE; i++) {
            uint n = part * SHARE + i;
            s[i] = fma(k_head[n], ek, s[i]);
            kq = fma(k_head[n], q_head[n], kq);
        }
        // k . q needs all parts; every column has the same, so column 0's sums serve
        if (col == 0u) rl_group_scratch[part] = vec2(kq);
        barrier();
        kq = 0.0;
        [[unroll]] for (uint i = 0u; i < PARTS; i++)
            kq += rl_group_scratch[i].x;
        float o = q_scale * (held.y + kq * ek);
        barrier();
        if (part == 0u) {
            uint i = t * values + head * D + column;
            float z = rl_floats(p.z).v[i];
            rl_floats_out(p.y).v[i] = o * norm * rl_silu(z);
        }
        float sum = rl_group_sum(part == 0u ? o * o : 0.0);
        if (id == 0u)
            rl_floats_out(p.sums).v[(t * p.n_value_head + head) * n_blocks + block] = sum;
    }

    [[unroll]] for (uint i = 0u; i < SHARE; i++)
        state_out.v[i * D] = s[i];
    // The last taps - 1 inputs; q and k of a key head are kept by its first value head.
    for (uint j = 0u; j + 1u < p.taps; j++) {
        int t = int(token.n + j) - int(p.taps) + 1;
        if (part == 0u)
            conv_out.v[j * channels + v_first + col] = window(u, conv, t, v_first + col, channels);
        if (head % ratio != 0u || block != 0u) continue;
        for (uint i = id; i < D; i += COLS * PARTS) {
            conv_out.v[j * channels + q_first + i] = window(u, conv, t, q_first + i, channels);
            conv_out.v[j * channels + k_first + i] = window(u, conv, t, k_first + i, channels);
        }
    }
}
