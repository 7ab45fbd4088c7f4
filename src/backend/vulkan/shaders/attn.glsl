// attn.glsl - the KV cache in f32 or f16: shared by the attention kernels.

layout(constant_id = 1) const uint D = 256;      // values per head
layout(constant_id = 2) const uint KEY_F16 = 1;
layout(constant_id = 3) const uint VALUE_F16 = 1;

// Where element i of a row begins, from the start of the row.
uint rl_cache_bytes(uint i, uint f16)
{
    return f16 != 0u ? 2u * i : 4u * i;
}

// Four neighbouring values as they lie in a cache, and what they are: they wait in fewer registers as they
// lie. The first is element 4 n.
uvec4 rl_cache_load4(uint64_t at, uint f16)
{
    if (f16 != 0u) return uvec4(rl_words2(at).v[0], 0u, 0u);
    return rl_words4(at).v[0];
}

vec4 rl_cache_values4(uvec4 w, uint f16)
{
    if (f16 != 0u) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return uintBitsToFloat(w);
}

// To f16 and to the nearest, ties to even, whatever the driver's packHalf2x16 does.
uint rl_f16_bits(float x)
{
    uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u, mag = bits & 0x7fffffffu;
    if (mag >= 0x477ff000u) return sign | (mag > 0x7f800000u ? 0x7e00u : 0x7c00u);
    if (mag < 0x38800000u) { // subnormal: the adder rounds at 2^-24
        precise float shifted = uintBitsToFloat(mag) + 0.5;
        return sign | (floatBitsToUint(shifted) - 0x3f000000u);
    }
    return sign | ((mag + 0xfffu + ((mag >> 13) & 1u) - 0x38000000u) >> 13);
}

// A value as the cache will give it back.
float rl_cache_round(float v, uint f16)
{
    return f16 != 0u ? rl_f16(rl_f16_bits(v)) : v;
}

void rl_cache_store2(uint64_t cache, uint64_t i, vec2 v, uint f16)
{
    if (f16 != 0u) {
        rl_words_out(cache + 2ul * i).v[0] = rl_f16_bits(v.x) | (rl_f16_bits(v.y) << 16);
    } else {
        rl_floats_out f = rl_floats_out(cache + 4ul * i);
        f.v[0] = v.x;
        f.v[1] = v.y;
    }
}
