// decode_q2_k.glsl - Q2_K: 16 bytes (scale, minimum), 64 bytes of codes, f16 d, f16 dmin.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 84
#define RL_OFFSET
// A chunk is 8 bytes: the four 2-bit planes of these hold four runs, 32 weights apart.
uint rl_run(uint chunk, uint run)
{
    return 128u * (chunk >> 2) + 32u * run + 8u * (chunk & 3u);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    uint i = at >> 2, half_ = chunk >> 2, h = chunk & 3u;
    uint i_codes = i + 4u + 8u * half_ + 2u * h;
    uint u = p.v[i_codes], v = p.v[i_codes + 1u];
    // groups of 16: 8 half + 2 run + h/2
    uvec2 sc = uvec2(p.v[i + 2u * half_], p.v[i + 2u * half_ + 1u]) >> (8u * (h >> 1));
    vec2 dm = unpackHalf2x16(p.v[i + 20u]);
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        c.q[2u * r] = rl_fields2(u >> (2u * r), 4.0);
        c.q[2u * r + 1u] = rl_fields2(v >> (2u * r), 4.0);
    }
    uvec4 s = uvec4(sc.x, sc.x >> 16, sc.y, sc.y >> 16);
    c.a = dm.x * vec4(s & 15u);
    c.b = -dm.y * vec4((s >> 4) & 15u);
}
