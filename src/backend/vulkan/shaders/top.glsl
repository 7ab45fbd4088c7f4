// top.glsl - numbers in the order of sampling, as integers.
//
// An entry is a number and its index in 64 bits, the larger the earlier it stands: first by number,
// descending, then by index, ascending. No two are equal. 0 is no entry: NaN and -infinity.

uint64_t rl_top_entry(uint bits, uint index)
{
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u || bits == 0xff800000u) return 0ul;
    if (magnitude == 0u) bits = 0u; // -0 equals 0
    uint key = (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
    return (uint64_t(key) << 32) | uint64_t(~index);
}

layout(buffer_reference, std430, buffer_reference_align = 8) buffer rl_entries { uint64_t v[]; };
