// decode_iq2_s.glsl - IQ2_S: f16 d, 32 index bytes, 32 sign bytes, 8 bytes of index bits, 8 of scales.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 82
#define RL_TABLE_START RL_TABLE_IQ2_S
#define RL_TABLE_SIZE  2048
#include "table.glsl"
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}

void rl_grid(uint index, uint signs, out vec4 u, out vec4 v)
{
    u = rl_signed(rl_fields8(rl_table[2u * index], 256.0), signs);
    v = rl_signed(rl_fields8(rl_table[2u * index + 1u], 256.0), signs >> 4);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint low = rl_load1(p, at + 2u + 4u * chunk), signs = rl_load1(p, at + 34u + 4u * chunk);
    uint high = rl_byte(p, at + 66u + chunk), sc = rl_byte(p, at + 74u + chunk);
    float d = rl_f16(rl_half(p, at));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uint index = ((low >> (8u * r)) & 0xffu) | (((high >> (2u * r)) & 3u) << 8);
        rl_grid(index, (signs >> (8u * r)) & 0xffu, c.q[2u * r], c.q[2u * r + 1u]);
    }
    vec2 s = d * (0.125 + 0.25 * vec2(sc & 15u, sc >> 4));
    c.a = s.xxyy;
    c.b = vec4(0.0);
}
