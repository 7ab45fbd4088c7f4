// decode_iq3_s.glsl - IQ3_S: f16 d, 64 index bytes, 8 bytes of ninth bits, 32 sign bytes, 4 of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 110
#define RL_TABLE_START RL_TABLE_IQ3_S
#define RL_TABLE_SIZE  512
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uvec2 w = rl_load2(p, at + 2u + 8u * chunk);
    uint high = rl_byte(p, at + 66u + chunk);
    uint signs = rl_load1(p, at + 74u + 4u * chunk);
    uint sc = rl_byte(p, at + 106u + (chunk >> 1)) >> (4u * (chunk & 1u));
    float d = rl_f16(rl_half(p, at));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint two = (r < 2u ? w.x : w.y) >> (16u * (r & 1u));
        uint bits = high >> (2u * r), s = signs >> (8u * r);
        uint i = (two & 0xffu) | ((bits & 1u) << 8), j = ((two >> 8) & 0xffu) | ((bits & 2u) << 7);
        c.q[2u * r] = rl_signed(rl_fields8(rl_table[i], 256.0), s);
        c.q[2u * r + 1u] = rl_signed(rl_fields8(rl_table[j], 256.0), s >> 4);
    }
    c.a = vec4(d * float(1u + 2u * (sc & 15u)));
    c.b = vec4(0.0);
}
