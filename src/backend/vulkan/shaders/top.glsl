// top.glsl - numbers in the order of sampling, as integers.
//
// An entry is a number and its index in 64 bits, the larger the earlier it stands: first by number,
// descending, then by index, ascending. No two are equal. 0 is no entry: NaN and -infinity. The key is
// the part for the number.

uint rl_top_key(uint bits)
{
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u || bits == 0xff800000u) return 0u;
    if (magnitude == 0u) bits = 0u; // -0 equals 0
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

uint64_t rl_top_pack(uint key, uint index)
{
    return (uint64_t(key) << 32) | uint64_t(~index);
}

uint64_t rl_top_entry(uint bits, uint index)
{
    uint key = rl_top_key(bits);
    return key == 0u ? 0ul : rl_top_pack(key, index);
}

uint rl_top_index(uint64_t entry)
{
    return ~uint(entry & 0xfffffffful);
}

float rl_top_number(uint64_t entry)
{
    uint key = uint(entry >> 32);
    return uintBitsToFloat((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

layout(buffer_reference, std430, buffer_reference_align = 8) buffer rl_entries { uint64_t v[]; };
