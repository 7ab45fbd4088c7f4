// raw.glsl - the words of one chunk as they lie in memory, and how they are put straight.
struct rl_raw {
    uint w[RL_RAW];
};

// Words that were loaded from `at` rounded down to a whole word.
uint rl_align1(uvec2 w, uint at)
{
    return (at & 2u) != 0u ? (w.x >> 16) | (w.y << 16) : w.x;
}

uvec2 rl_align2(uvec3 w, uint at)
{
    return (at & 2u) != 0u ? (w.xy >> 16) | (w.yz << 16) : w.xy;
}

// Blocks that begin with an f16 and go on in words: the f16, and the i-th word behind it.
float rl_first_half(rl_raw r, uint at)
{
    return rl_f16((at & 2u) != 0u ? r.w[0] >> 16 : r.w[0]);
}

uint rl_behind_half(rl_raw r, uint at, uint i)
{
    return (at & 2u) != 0u ? r.w[i + 1u] : (r.w[i] >> 16) | (r.w[i + 1u] << 16);
}

// Codes come as `bias` + code. A product takes the bias into the offset, where it costs nothing per
// weight; elsewhere it goes at once, exactly.
void rl_unbias(inout rl_chunk c, float bias)
{
#ifdef RL_PRODUCT
    if (bias != 0.0) c.b -= c.a * bias;
#else
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        c.q[i] -= bias;
#endif
}
