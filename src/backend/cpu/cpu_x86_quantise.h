/* cpu_x86_quantise.h - activations to blocks of 8-bit codes: the layout around quantise32() of the
 * including file. */

/* The sums of the four groups of 8 codes. */
INLINE void sums8(__m256i q, int16_t sums[4])
{
    __m256i sad =
        _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8((char)0x80)), _mm256_setzero_si256());
    uint64_t biased[4];
    _mm256_storeu_si256((void *)biased, sad);
    for (int k = 0; k < 4; k++)
        sums[k] = (int16_t)((int)biased[k] - 8 * 128);
}

/* Block b of a run; short and missing blocks are filled up with zeros. */
INLINE __m256i quantise_block(const float *x, uint32_t cols, uint32_t first, float *d)
{
    if (first + 32 <= cols) return quantise32(x + first, d);
    float padded[32] = { 0 };
    if (first < cols) memcpy(padded, x + first, (cols - first) * sizeof *x);
    return quantise32(padded, d);
}

static void quantise_run8(const float *x, uint32_t cols, rl_act_run8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++) {
        for (uint32_t b = 0; b < 8; b++) {
            float d;
            uint64_t groups[4];
            __m256i q = quantise_block(x, cols, first + 32 * b, &d);
            _mm256_storeu_si256((void *)groups, q);
            for (int k = 0; k < 4; k++)
                memcpy(out->q + 64 * k + 8 * b, &groups[k], 8);
            sums8(q, out->sums + 4 * b);
            out->d[2 * b] = out->d[2 * b + 1] = d;
        }
    }
}

static void quantise_row8(const float *x, uint32_t cols, rl_act_row8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++)
        for (uint32_t b = 0; b < 8; b++) {
            int16_t sums[4];
            __m256i q = quantise_block(x, cols, first + 32 * b, &out->d[b]);
            _mm256_storeu_si256((void *)(out->q + 32 * b), q);
            sums8(q, sums);
            out->c[b] = out->d[b] * (float)(sums[0] + sums[1] + sums[2] + sums[3]);
        }
}
