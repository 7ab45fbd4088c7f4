/* cpu_x86_quantise.h - activations to blocks of 8-bit codes: the layout around quantise32() and
 * sums16() of the including file. */

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
        memset(out->sums, 0, sizeof out->sums);
        for (uint32_t b = 0; b < 8; b++) {
            float d;
            int low, high;
            uint64_t groups[4];
            __m256i q = quantise_block(x, cols, first + 32 * b, &d);
            _mm256_storeu_si256((void *)groups, q);
            for (int k = 0; k < 4; k++)
                memcpy(out->q + 64 * k + 8 * b, &groups[k], 8);
            sums16(q, &low, &high);
            out->sums[4 * b] = (int16_t)low;
            out->sums[4 * b + 1] = (int16_t)high;
            out->d[2 * b] = out->d[2 * b + 1] = d;
        }
    }
}

static void quantise_row8(const float *x, uint32_t cols, rl_act_row8 *out)
{
    for (uint32_t first = 0; first < cols; first += RL_CPU_RUN, out++)
        for (uint32_t b = 0; b < 8; b++) {
            int low, high;
            __m256i q = quantise_block(x, cols, first + 32 * b, &out->d[b]);
            _mm256_storeu_si256((void *)(out->q + 32 * b), q);
            sums16(q, &low, &high);
            out->c[b] = out->d[b] * (float)(low + high);
        }
}
