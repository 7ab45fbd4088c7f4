// decode_q6_k.glsl - Q6_K: 128 bytes of low nibbles, 64 bytes of 2-bit planes, 16 signed scales, f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 210
// A chunk is 8 bytes: the four 2-bit planes of these hold four runs, 32 weights apart.
uint rl_run(uint chunk, uint run)
{
    return 128u * (chunk >> 2) + 32u * run + 8u * (chunk & 3u);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint half_ = chunk >> 2, h = chunk & 3u;
    uvec2 a = rl_load2(p, at + 64u * half_ + 8u * h);
    uvec2 b = rl_load2(p, at + 64u * half_ + 32u + 8u * h);
    uvec2 high = rl_load2(p, at + 128u + 32u * half_ + 8u * h);
    uvec2 sc = rl_load2(p, at + 192u + 8u * half_) >> (8u * (h >> 1));
    float d = rl_f16(rl_half(p, at + 208u));
    uvec2 q[4] = uvec2[4](a & 0x0f0f0f0fu, b & 0x0f0f0f0fu, (a >> 4) & 0x0f0f0f0fu,
                          (b >> 4) & 0x0f0f0f0fu);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uvec2 code = q[r] | (((high >> (2u * r)) & 0x03030303u) << 4);
        c.q[2u * r] = rl_fields6(code.x, 64.0 + 32.0);
        c.q[2u * r + 1u] = rl_fields6(code.y, 64.0 + 32.0);
    }
    c.a = d * vec4(bitfieldExtract(int(sc.x), 0, 8), bitfieldExtract(int(sc.x), 16, 8),
                   bitfieldExtract(int(sc.y), 0, 8), bitfieldExtract(int(sc.y), 16, 8));
    c.b = vec4(0.0);
}
