// scales_k.glsl - how Q4_K and Q5_K lay out their nibbles and pack their scales and minimums.

// A chunk is 16 bytes of nibbles: two runs of low ones, and two of high ones 32 weights further.
uint rl_run(uint chunk, uint run)
{
    return 64u * (chunk >> 1) + 32u * (run >> 1) + 16u * (chunk & 1u) + 8u * (run & 1u);
}

// Scales and minimums of the groups 2 pair and 2 pair + 1, six bits each, from the twelve bytes s.
void rl_scales_k(uvec3 s, uint pair, out vec2 scale, out vec2 minimum)
{
    uint shift = 16u * (pair & 1u);
    bool upper = pair >= 2u;
    uint t = s.z >> shift;
    uint a = upper ? (t & 0x0f0fu) | ((s.x >> (shift + 2u)) & 0x3030u) : (s.x >> shift) & 0x3f3fu;
    uint b = upper ? ((t >> 4) & 0x0f0fu) | ((s.y >> (shift + 2u)) & 0x3030u)
                   : (s.y >> shift) & 0x3f3fu;
    scale = vec2(a & 0xffu, a >> 8);
    minimum = vec2(b & 0xffu, b >> 8);
}
