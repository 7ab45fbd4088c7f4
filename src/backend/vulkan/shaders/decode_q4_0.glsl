// decode_q4_0.glsl - Q4_0: f16 d, 16 bytes of nibbles, low ones first; d (q - 8).
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 18
#define RL_RAW         5
#define RL_BIASED
#include "raw.glsl"

uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    [[unroll]] for (uint i = 0u; i < RL_RAW; i++)
        r.w[i] = p.v[(at >> 2) + i];
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = rl_behind_half(r, at, i);
        c.q[i] = rl_fields4(w);
        c.q[4u + i] = rl_fields4_high(w);
    }
    c.a = vec4(rl_first_half(r, at));
    c.b = vec4(0.0);
    rl_unbias(c, 16.0 + 8.0);
}
