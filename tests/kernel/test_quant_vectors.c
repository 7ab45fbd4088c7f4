/* test_quant_vectors.c - the plain-C decoders against vectors of the reference implementation.
 *
 * tests/fixtures/quants holds, per type, raw blocks with every code, the decoded floats, and dot
 * products with one vector. Decoding must be equal, not close: all types are exact in f32. */
#include "support/test.h"

#include <math.h>

#include "quant/quant.h"

#define COLS 512

typedef struct vectors {
    const rl_quant_info *info;
    uint32_t rows;
    size_t row_bytes;
} vectors;

/* Calls `check` for every line of the manifest, and demands that the manifest and the list of types
 * are about the same types and sizes. */
static void each_type(void (*check)(const vectors *v))
{
    FILE *manifest = fopen(rl_test_fixture("quants/manifest.txt"), "r");
    assert_non_null(manifest);
    char line[256], name[32];
    uint32_t n_types = 0;
    while (fgets(line, sizeof line, manifest)) {
        unsigned id, block, bytes, row_bytes, rows, encoded;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31s %u %u %u %u %u %u", name, &id, &block, &bytes,
                                &row_bytes, &rows, &encoded),
                         7);
        vectors v = { .info = rl_quant_find(id), .rows = rows, .row_bytes = row_bytes };
        assert_non_null(v.info);
        assert_string_equal(v.info->name, name);
        assert_int_equal(v.info->block, block);
        assert_int_equal(v.info->block_bytes, bytes);
        uint64_t computed = 0;
        assert_true(rl_quant_bytes(v.info, COLS, &computed));
        assert_int_equal(computed, row_bytes);
        check(&v);
        n_types++;
    }
    fclose(manifest);
    assert_int_equal(n_types, rl_quant_count());
}

/* The rows of one type, decoded by rl_quant_decode(). The caller frees. */
static float *decode_rows(const vectors *v)
{
    size_t bytes = 0;
    void *blocks = rl_test_read(rl_test_fixture("quants/%s.blocks", v->info->name), &bytes);
    assert_int_equal(bytes, v->rows * v->row_bytes);
    float *decoded = malloc(v->rows * COLS * sizeof *decoded);
    assert_non_null(decoded);
    rl_quant_decode(v->info, blocks, v->rows * (size_t)COLS, decoded);
    free(blocks);
    return decoded;
}

static void check_decode(const vectors *v)
{
    size_t bytes = 0;
    float *expected = rl_test_read(rl_test_fixture("quants/%s.f32", v->info->name), &bytes);
    assert_int_equal(bytes, v->rows * COLS * sizeof *expected);
    float *decoded = decode_rows(v);
    for (size_t i = 0; i < v->rows * (size_t)COLS; i++)
        if (!(decoded[i] == expected[i]))
            fail_msg("%s: row %zu column %zu is %.9g, not %.9g", v->info->name, i / COLS, i % COLS,
                     (double)decoded[i], (double)expected[i]);
    free(decoded);
    free(expected);
}

static void check_dot(const vectors *v)
{
    size_t bytes = 0;
    float *x = rl_test_read(rl_test_fixture("quants/x.f32"), &bytes);
    assert_int_equal(bytes, COLS * sizeof *x);
    float *decoded = decode_rows(v);
    FILE *file = fopen(rl_test_fixture("quants/%s.dot", v->info->name), "r");
    assert_non_null(file);
    for (unsigned r = 0; r < v->rows; r++) {
        unsigned row;
        double exact, size, sum = 0, sum_abs = 0;
        assert_int_equal(fscanf(file, "%u %lf %lf %*s", &row, &exact, &size), 3);
        assert_int_equal(row, r);
        for (unsigned c = 0; c < COLS; c++) {
            double product = (double)decoded[r * COLS + c] * x[c];
            sum += product;
            sum_abs += fabs(product);
        }
        /* Both are double sums of 512 terms, in different orders. */
        if (!(fabs(sum - exact) <= 1e-13 * size) || !(fabs(sum_abs - size) <= 1e-13 * size))
            fail_msg("%s: row %u gives %.17g, not %.17g", v->info->name, r, sum, exact);
    }
    fclose(file);
    free(decoded);
    free(x);
}

/* Stands against: any wrong bit position in any of the 29 layouts. */
static void quant_vectors_decode_exactly(void **state)
{
    (void)state;
    each_type(check_decode);
}

/* Stands against: rows or columns that change places, which element-wise tests of a permuted
 * fixture would not show. */
static void quant_vectors_dot_matches(void **state)
{
    (void)state;
    each_type(check_dot);
}

RL_TEST_MAIN(RL_TEST(quant_vectors, decode_exactly), RL_TEST(quant_vectors, dot_matches))
