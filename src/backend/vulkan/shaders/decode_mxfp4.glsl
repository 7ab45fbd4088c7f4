// decode_mxfp4.glsl - MXFP4: exponent byte e, 16 bytes of nibbles that name E2M1 values; 2^(e - 128).
// Blocks are 17 bytes, so their words lie at any byte. e = 0 and 1 are subnormal and may flush to 0.
#define RL_BLOCK       32
#define RL_BLOCK_BYTES 17
#define RL_RAW         6
#define RL_TABLE_START RL_TABLE_MXFP4
#include "raw.glsl"
#include "values16.glsl"

uint rl_run(uint chunk, uint run)
{
    return 8u * run;
}

void rl_fetch(rl_words p, uint at, uint chunk, out rl_raw r)
{
    [[unroll]] for (uint i = 0u; i < 5u; i++)
        r.w[i] = p.v[((at + 1u) >> 2) + i];
    r.w[5] = rl_byte(p, at);
}

void rl_expand(rl_raw r, uint at, uint chunk, out rl_chunk c)
{
    uint e = r.w[5], shift = 8u * ((at + 1u) & 3u);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint w = shift == 0u ? r.w[i] : (r.w[i] >> shift) | (r.w[i + 1u] << (32u - shift));
        c.q[i] = rl_look_up(w);
        c.q[4u + i] = rl_look_up(w >> 4);
    }
    c.a = vec4(uintBitsToFloat(e >= 2u ? (e - 1u) << 23 : 0x00200000u << e));
    c.b = vec4(0.0);
}
