// decode_q3_k.glsl - Q3_K: 32 bytes of third bits, 64 bytes of codes, 12 bytes of 6-bit scales, f16 d.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 110
// A chunk is 8 bytes: the four 2-bit planes of these hold four runs, 32 weights apart.
uint rl_run(uint chunk, uint run)
{
    return 128u * (chunk >> 2) + 32u * run + 8u * (chunk & 3u);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint half_ = chunk >> 2, h = chunk & 3u;
    uvec2 high = rl_load2(p, at + 8u * h) >> (4u * half_);
    uvec2 low = rl_load2(p, at + 32u + 32u * half_ + 8u * h);
    uvec2 s_low = rl_load2(p, at + 96u);
    uint s_high = rl_load1(p, at + 104u);
    float d = rl_f16(rl_half(p, at + 108u));
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        uvec2 code = ((low >> (2u * r)) & 0x03030303u) | (((high >> r) & 0x01010101u) << 2);
        c.q[2u * r] = rl_fields4(code.x, 16.0 + 4.0);
        c.q[2u * r + 1u] = rl_fields4(code.y, 16.0 + 4.0);
        // group g = 8 half + 2 run + h/2
        uint g7 = 2u * r + (h >> 1);
        uint lo = (((r < 2u ? s_low.x : s_low.y) >> (8u * (g7 & 3u))) >> (4u * half_)) & 15u;
        uint hi = ((s_high >> (8u * (g7 & 3u))) >> (2u * (2u * half_ + (r >> 1)))) & 3u;
        c.a[r] = d * (float(lo | (hi << 4)) - 32.0);
    }
    c.b = vec4(0.0);
}
