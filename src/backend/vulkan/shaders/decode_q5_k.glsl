// decode_q5_k.glsl - Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles.
#define RL_BLOCK       256
#define RL_BLOCK_BYTES 176
#define RL_OFFSET
// A chunk is 16 bytes of nibbles: two runs of low ones, and two of high ones 32 weights further.
uint rl_run(uint chunk, uint run)
{
    return 64u * (chunk >> 1) + 32u * (run >> 1) + 16u * (chunk & 1u) + 8u * (run & 1u);
}

// Scales and minimums of the groups 2 pair and 2 pair + 1, six bits each, from the twelve bytes s.
void rl_scales_k(uvec3 s, uint pair, out vec2 scale, out vec2 minimum)
{
    uint shift = 16u * (pair & 1u);
    uint a, b;
    if (pair < 2u) {
        a = (s.x >> shift) & 0x3f3fu;
        b = (s.y >> shift) & 0x3f3fu;
    } else {
        uint t = s.z >> shift;
        a = (t & 0x0f0fu) | ((s.x >> (shift + 2u)) & 0x3030u);
        b = ((t >> 4) & 0x0f0fu) | ((s.y >> (shift + 2u)) & 0x3030u);
    }
    scale = vec2(a & 0xffu, a >> 8);
    minimum = vec2(b & 0xffu, b >> 8);
}

void rl_decode(rl_words p, uint at, uint chunk, out rl_chunk c)
{
    rl_words4 p4 = rl_words4(uint64_t(p) + at);
    uint pair = chunk >> 1;
    uvec4 head = p4.v[0], high = p4.v[1u + (chunk & 1u)] >> (2u * pair), w = p4.v[3u + chunk];
    vec2 dm = unpackHalf2x16(head.x), scale, minimum;
    rl_scales_k(head.yzw, pair, scale, minimum);
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint lo = (w[i] & 0x0f0f0f0fu) | ((high[i] & 0x01010101u) << 4);
        uint hi = ((w[i] >> 4) & 0x0f0f0f0fu) | ((high[i] & 0x02020202u) << 3);
        c.q[i] = rl_fields5(lo, 32.0);
        c.q[4u + i] = rl_fields5(hi, 32.0);
    }
    scale *= dm.x;
    minimum *= -dm.y;
    c.a = scale.xxyy;
    c.b = minimum.xxyy;
}
