/* test_cpu_kernels.c - every table of the cpu backend that this machine can run, against double
 * precision: types x odd shapes, and the vector operations. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/bytes.h"

/* ---- matrices -------------------------------------------------------------------------------- */

/* Blocks of one type that are known to be sane: those of the fixtures, which hold every code. Float
 * types get normal numbers instead, since their fixtures reach the ends of the exponent range. */
typedef struct block_store {
    const rl_quant_info *info;
    uint8_t *blocks;
    size_t n_blocks;
} block_store;

static block_store store_open(const rl_quant_info *info)
{
    block_store s = { .info = info };
    if (info->block > 1) {
        size_t bytes = 0;
        s.blocks = rl_test_read(rl_test_fixture("quants/%s.blocks", info->name), &bytes);
        s.n_blocks = bytes / info->block_bytes;
        return s;
    }
    uint64_t seed = 11;
    s.n_blocks = 4096;
    s.blocks = malloc(s.n_blocks * info->block_bytes);
    assert_non_null(s.blocks);
    for (size_t i = 0; i < s.n_blocks; i++) {
        float value = rl_test_random_normal(&seed);
        uint32_t bits = rl_f32_bits(value);
        uint16_t half = (uint16_t)(bits >> 16);
        if (info->type == RL_QUANT_F16) half = rl_f16_from_f32(value);
        memcpy(s.blocks + i * info->block_bytes, info->block_bytes == 4 ? (void *)&bits : &half,
               info->block_bytes);
    }
    return s;
}

/* A problem: weights of random blocks (at an odd address), inputs, and the products in double. */
typedef struct problem {
    rl_cpu_matrix w;
    uint32_t n;
    uint8_t *data;
    float *x;         /* [n][cols]  */
    double *y, *size; /* [n][rows], sum of w x and of |w x| */
    double *spread;   /* [n][rows], expected error of 8-bit blocks of 32: a step / sqrt(12) each */
} problem;

static problem problem_make(const block_store *s, uint32_t rows, uint32_t cols, uint32_t n,
                            uint64_t seed)
{
    size_t row_bytes = (size_t)cols / s->info->block * s->info->block_bytes;
    problem p = {
        .w = { .type = s->info->type, .rows = rows, .cols = cols, .row_bytes = row_bytes }, .n = n
    };
    p.data = malloc(rows * row_bytes + 1);
    p.x = malloc((size_t)n * cols * sizeof *p.x);
    p.y = malloc((size_t)n * rows * sizeof *p.y);
    p.size = malloc((size_t)n * rows * sizeof *p.size);
    p.spread = malloc((size_t)n * rows * sizeof *p.spread);
    float *row = malloc(cols * sizeof *row);
    assert_true(p.data && p.x && p.y && p.size && p.spread && row);
    for (size_t at = 0; at < rows * row_bytes; at += s->info->block_bytes)
        memcpy(p.data + 1 + at,
               s->blocks + rl_test_random(&seed) % s->n_blocks * s->info->block_bytes,
               s->info->block_bytes);
    p.w.data = p.data + 1;
    for (size_t i = 0; i < (size_t)n * cols; i++)
        p.x[i] = rl_test_random_normal(&seed) * (i / 32 % 3 ? 1.0f : 0.05f);
    for (uint32_t r = 0; r < rows; r++) {
        rl_quant_decode(s->info, p.w.data + r * row_bytes, cols, row);
        for (uint32_t t = 0; t < n; t++) {
            double sum = 0, size = 0, variance = 0, max = 0, weight = 0;
            for (uint32_t c = 0; c < cols; c++) {
                double x = p.x[(size_t)t * cols + c];
                sum += row[c] * x;
                size += fabs(row[c] * x);
                weight += (double)row[c] * row[c];
                if (fabs(x) > max) max = fabs(x);
                if (c % 32 == 31 || c + 1 == cols) {
                    variance += weight * (max / 127) * (max / 127) / 12;
                    max = weight = 0;
                }
            }
            p.spread[(size_t)t * rows + r] = sqrt(variance);
            p.y[(size_t)t * rows + r] = sum;
            p.size[(size_t)t * rows + r] = size;
        }
    }
    free(row);
    return p;
}

static void problem_free(problem *p)
{
    free(p->data);
    free(p->x);
    free(p->y);
    free(p->size);
    free(p->spread);
}

/* An activation buffer with the inputs of p, in the one format that the matrix reads. */
static void *prepare(const rl_cpu_kernels *k, const problem *p, rl_cpu_act *act)
{
    uint32_t formats = rl_cpu_act_format(k, p->w.type);
    size_t bytes = rl_cpu_act_bytes(formats, p->w.cols, p->n);
    void *storage = aligned_alloc(64, bytes);
    assert_non_null(storage);
    memset(storage, 0xaa, bytes);
    rl_cpu_act_init(act, formats, p->w.cols, p->n, storage);
    rl_cpu_prepare(k, act, 0, p->n, p->x, p->w.cols);
    return storage;
}

/* All products at once against the reference; then any other way of asking must give the same bits:
 * token by token, in two ranges of rows, and for a list of tokens. */
static void check_problem(const rl_cpu_kernels *k, const problem *p)
{
    rl_cpu_act act;
    void *storage = prepare(k, p, &act);
    uint32_t rows = p->w.rows, n = p->n;
    size_t stride = rows + 3;
    float *y = malloc(n * stride * sizeof *y), *other = malloc(n * stride * sizeof *y);
    uint32_t *tokens = malloc(n * sizeof *tokens);
    assert_true(y && other && tokens);
    for (size_t i = 0; i < n * stride; i++)
        y[i] = other[i] = 12345;
    const char *type = rl_quant_find(p->w.type)->name;
    bool is_float = rl_cpu_act_format(k, p->w.type) == RL_CPU_ACT_F32;
    rl_cpu_matmul(k, &p->w, &act, NULL, n, 0, rows, y, stride);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t r = 0; r < rows; r++) {
            double want = p->y[(size_t)t * rows + r], size = p->size[(size_t)t * rows + r];
            double error = fabs(y[t * stride + r] - want);
            double bound = is_float ? 0 : 6 * p->spread[(size_t)t * rows + r];
            if (!(error <= bound + 1e-6 * size + 1e-42))
                fail_msg("%s %s: %u x %u, token %u of %u, row %u: %g, not %g; off by %.2g of %g",
                         k->name, type, rows, p->w.cols, t, n, r, (double)y[t * stride + r], want,
                         error / size, size);
        }
        for (uint32_t r = rows; r < stride; r++)
            assert_true(y[t * stride + r] == 12345);
    }
    for (uint32_t t = 0; t < n; t++)
        rl_cpu_matmul(k, &p->w, &act, &t, 1, 0, rows, other + t * stride, stride);
    if (memcmp(y, other, n * stride * sizeof *y))
        fail_msg("%s %s: %u x %u, %u tokens: not the same as token by token", k->name, type, rows,
                 p->w.cols, n);
    uint32_t cut = rows / 3;
    rl_cpu_matmul(k, &p->w, &act, NULL, n, 0, cut, other, stride);
    rl_cpu_matmul(k, &p->w, &act, NULL, n, cut, rows, other, stride);
    if (memcmp(y, other, n * stride * sizeof *y))
        fail_msg("%s %s: %u x %u: rows depend on their range", k->name, type, rows, p->w.cols);
    for (uint32_t t = 0; t < n; t++)
        tokens[t] = n - 1 - t;
    rl_cpu_matmul(k, &p->w, &act, tokens, n, 0, rows, other, stride);
    for (uint32_t t = 0; t < n; t++)
        if (memcmp(y + tokens[t] * stride, other + t * stride, rows * sizeof *y))
            fail_msg("%s %s: token %u of a list differs", k->name, type, t);
    free(tokens);
    free(other);
    free(y);
    free(storage);
}

/* The rows and the vector of the fixtures, by the bound that their description states. */
static void check_fixture(const rl_cpu_kernels *k, const block_store *s)
{
    size_t bytes = 0;
    float *x = rl_test_read(rl_test_fixture("quants/x.f32"), &bytes);
    uint32_t cols = (uint32_t)(bytes / sizeof *x), formats = rl_cpu_act_format(k, s->info->type);
    void *storage = aligned_alloc(64, rl_cpu_act_bytes(formats, cols, 1));
    assert_non_null(storage);
    rl_cpu_act act;
    rl_cpu_act_init(&act, formats, cols, 1, storage);
    rl_cpu_prepare(k, &act, 0, 1, x, cols);
    rl_cpu_matrix w = { .type = s->info->type,
                        .rows = (uint32_t)(s->n_blocks * s->info->block / cols),
                        .cols = cols,
                        .row_bytes = cols / s->info->block * s->info->block_bytes,
                        .data = s->blocks };
    float y[256];
    assert_in_range(w.rows, 20, 256);
    rl_cpu_matmul(k, &w, &act, NULL, 1, 0, w.rows, y, w.rows);
    FILE *file = fopen(rl_test_fixture("quants/%s.dot", s->info->name), "r");
    assert_non_null(file);
    for (unsigned r = 0; r < w.rows; r++) {
        double exact, size;
        assert_int_equal(fscanf(file, "%*u %lf %lf %*s", &exact, &size), 2);
        double error = fabs(y[r] - exact);
        if (!(error <= (formats == RL_CPU_ACT_F32 ? 2e-6 : 4e-3) * size))
            fail_msg("%s %s: fixture row %u is %.9g, not %.9g; off by %.2g", k->name, s->info->name,
                     r, (double)y[r], exact, error / size);
    }
    fclose(file);
    free(storage);
    free(x);
}

/* Every type and shape for one table. */
static void check_matrices(const rl_cpu_kernels *k)
{
    static const struct {
        uint32_t rows, runs, n;
    } shapes[] = { { 1, 1, 1 },  { 3, 2, 2 },  { 17, 1, 9 }, { 4, 8, 1 },
                   { 16, 3, 7 }, { 5, 2, 70 }, { 33, 4, 3 }, { 2, 16, 17 } };
    for (uint32_t i = 0; i < rl_quant_count(); i++) {
        const rl_quant_info *info = rl_quant_at(i);
        block_store s = store_open(info);
        for (size_t j = 0; j < RL_COUNT_OF(shapes); j++) {
            problem p =
                problem_make(&s, shapes[j].rows, 256 * shapes[j].runs, shapes[j].n, 1000 * i + j);
            check_problem(k, &p);
            problem_free(&p);
        }
        for (uint32_t cols = info->block; cols < 256 * 3; cols += info->block * 7) {
            if (info->block < 32) cols += 31; /* odd lengths, where the type allows them */
            problem p = problem_make(&s, 3, cols, 3, 77 * i + cols);
            check_problem(k, &p);
            problem_free(&p);
        }
        if (info->type == RL_QUANT_F16 || info->type == RL_QUANT_IQ2_XS ||
            info->type == RL_QUANT_Q4_K || info->type == RL_QUANT_Q8_0) {
            problem p = problem_make(&s, 18, 16384 + 512, 2, i); /* longer than one chunk */
            check_problem(k, &p);
            problem_free(&p);
        }
        if (info->block > 1) check_fixture(k, &s);
        free(s.blocks);
    }
}

/* Calls `check` for every table of this name (`exact` has several) that the machine can run. */
static void each_table(const char *name, void (*check)(const rl_cpu_kernels *k))
{
    bool known = false, runs = false;
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        if (strcmp(rl_cpu_kernels_name(i), name)) continue;
        const rl_cpu_kernels *k = rl_cpu_kernels_at(i);
        known = true;
        if (!k) continue;
        runs = true;
        assert_string_equal(k->name, name);
        check(k);
    }
    if (!known) fail_msg("no table is named %s", name);
    if (!runs) rl_test_skip("this machine or build has no %s", name);
}

/* ---- vectors --------------------------------------------------------------------------------- */

#define MAX_N 700

static void random_vector(float *x, size_t n, float size, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * rl_test_random_normal(&seed);
}

/* |a - b| <= bound everywhere; NaN fails. */
static void close_to(const char *what, const char *table, const float *a, const double *b, size_t n,
                     double relative, double absolute)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= relative * fabs(b[i]) + absolute))
            fail_msg("%s %s: element %zu of %zu is %.9g, not %.9g", table, what, i, n, (double)a[i],
                     b[i]);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void check_elementwise(const rl_cpu_kernels *k, size_t n)
{
    float a[MAX_N + 1], b[MAX_N + 1], out[MAX_N + 1];
    double want[MAX_N], sum = 0, size = 0;
    random_vector(a, n, 3, n);
    random_vector(b, n, 2, n + 1);
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * b[i];
        size += fabs((double)a[i] * b[i]);
    }
    assert_true(fabs(k->dot(a, b, n) - sum) <= 1e-6 * size);
    out[n] = 99;

    memcpy(out, b, n * sizeof *b);
    k->axpy(out, 1.5f, a, n);
    for (size_t i = 0; i < n; i++)
        want[i] = b[i] + 1.5 * a[i];
    close_to("axpy", k->name, out, want, n, 1e-6, 2e-6);

    memcpy(out, b, n * sizeof *b);
    k->add(out, a, n);
    k->scale(out, -0.5f, n);
    for (size_t i = 0; i < n; i++)
        want[i] = -0.5 * ((double)a[i] + b[i]);
    close_to("add, scale", k->name, out, want, n, 1e-6, 1e-6);

    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)a[i] * a[i];
    k->rms_norm(out, a, b, n, 1e-6f);
    for (size_t i = 0; i < n; i++)
        want[i] = a[i] / sqrt(squares / (double)n + 1e-6) * b[i];
    close_to("rms_norm", k->name, out, want, n, 2e-6, 1e-30);

    random_vector(a, n, 12, n + 2);
    if (n > 5) {
        a[0] = 0;
        a[1] = -0.0f;
        a[2] = 88;
        a[3] = -88;
        a[4] = 300; /* exp overflows or vanishes */
        a[5] = -300;
    }
    k->silu_mul(out, a, b, n);
    for (size_t i = 0; i < n; i++)
        want[i] = a[i] * sigmoid(a[i]) * b[i];
    close_to("silu_mul", k->name, out, want, n, 4e-6, 1e-35);
    k->sigmoid_mul(out, a, b, n);
    for (size_t i = 0; i < n; i++)
        want[i] = sigmoid(a[i]) * b[i];
    close_to("sigmoid_mul", k->name, out, want, n, 4e-6, 1e-35);

    uint16_t half[MAX_N + 1];
    half[n] = 7;
    random_vector(a, n, 1, n + 3);
    k->to_f16(half, a, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(half[i], rl_f16_from_f32(a[i]));
    assert_int_equal(half[n], 7);
    assert_true(out[n] == 99);
}

static void check_vectors(const rl_cpu_kernels *k)
{
    for (size_t n = 1; n < 70; n++)
        check_elementwise(k, n);
    check_elementwise(k, 512);
    check_elementwise(k, 699);
}

#define TABLE_TESTS(name)                                                                          \
    static void cpu_##name##_matrices(void **state)                                                \
    {                                                                                              \
        (void)state;                                                                               \
        each_table(#name, check_matrices);                                                         \
    }                                                                                              \
    static void cpu_##name##_vectors(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        each_table(#name, check_vectors);                                                          \
    }

TABLE_TESTS(exact)
TABLE_TESTS(scalar)
TABLE_TESTS(avx2)
TABLE_TESTS(avx512)
TABLE_TESTS(avx512vnni)
TABLE_TESTS(neon)
TABLE_TESTS(dotprod)
TABLE_TESTS(i8mm)

/* RL_CPU chooses, and says what is wrong with a bad choice. */
static void cpu_obeys_the_variable(void **state)
{
    (void)state;
    rl_error err = { "" };
    const rl_cpu_kernels *k = NULL;
    const char *kept = getenv("RL_CPU");
    char *old = kept ? strdup(kept) : NULL;
    setenv("RL_CPU", "scalar", 1);
    assert_ok(rl_cpu_select(&k, NULL, &err));
    assert_string_equal(k->name, "scalar");
    setenv("RL_CPU", "exact", 1);
    assert_ok(rl_cpu_select(&k, NULL, &err));
    assert_string_equal(k->name, "exact");
    setenv("RL_CPU", "mmx", 1);
    assert_int_equal(rl_cpu_select(&k, NULL, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "mmx"));
    assert_non_null(strstr(err.text, "avx512vnni"));
#if defined(__x86_64__)
    setenv("RL_CPU", "neon", 1);
#else
    setenv("RL_CPU", "avx2", 1);
#endif
    assert_int_equal(rl_cpu_select(&k, NULL, &err), RL_UNSUPPORTED);
    unsetenv("RL_CPU");
    assert_ok(rl_cpu_select(&k, NULL, &err));
    assert_string_not_equal(k->name, "exact");
    if (old) setenv("RL_CPU", old, 1);
    free(old);
}

RL_TEST_MAIN(RL_TEST(cpu, exact_matrices), RL_TEST(cpu, exact_vectors),
             RL_TEST(cpu, scalar_matrices), RL_TEST(cpu, scalar_vectors),
             RL_TEST(cpu, avx2_matrices), RL_TEST(cpu, avx2_vectors), RL_TEST(cpu, avx512_matrices),
             RL_TEST(cpu, avx512_vectors), RL_TEST(cpu, avx512vnni_matrices),
             RL_TEST(cpu, avx512vnni_vectors), RL_TEST(cpu, neon_matrices),
             RL_TEST(cpu, neon_vectors), RL_TEST(cpu, dotprod_matrices),
             RL_TEST(cpu, dotprod_vectors), RL_TEST(cpu, i8mm_matrices), RL_TEST(cpu, i8mm_vectors),
             RL_TEST(cpu, obeys_the_variable))
