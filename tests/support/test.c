/* test.c - tests/support/test.h. */
#include "support/test.h"

#include <math.h>

static bool skipped;

int rl_test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n_tests)
{
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < n_tests; i++)
            puts(tests[i].name);
        return 0;
    }
    if (argc <= 1) return _cmocka_run_group_tests("tests", tests, n_tests, NULL, NULL) ? 1 : 0;
    for (size_t i = 0; i < n_tests; i++) {
        if (strcmp(tests[i].name, argv[1])) continue;
        if (_cmocka_run_group_tests(argv[1], &tests[i], 1, NULL, NULL)) return 1;
        return skipped ? 77 : 0;
    }
    fprintf(stderr, "no test named %s\n", argv[1]);
    return 1;
}

_Noreturn void rl_test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("skipped: ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    skipped = true;
    skip();
    abort();
}

static const char *join(const char *folder, const char *format, va_list args)
{
    static char paths[8][1024];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    int n = snprintf(path, sizeof paths[0], "%s/", folder);
    vsnprintf(path + n, sizeof paths[0] - (size_t)n, format, args);
    return path;
}

/* Built on another machine (bench/gpu/run.sh), the tests find their folders in the environment. */
static const char *folder_of(const char *name, const char *built)
{
    const char *elsewhere = getenv(name);
    return elsewhere ? elsewhere : built;
}

const char *rl_test_fixture(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *path = join(folder_of("RL_TEST_FIXTURES", RL_TEST_FIXTURES), format, args);
    va_end(args);
    return path;
}

const char *rl_test_scratch(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *path = join(folder_of("RL_TEST_SCRATCH", RL_TEST_SCRATCH), format, args);
    va_end(args);
    return path;
}

void *rl_test_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: cannot open", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), size);
    fclose(file);
    data[size] = 0;
    *bytes = (size_t)size;
    return data;
}

uint64_t rl_test_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float rl_test_random_normal(uint64_t *state)
{
    double u = ((double)(rl_test_random(state) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(rl_test_random(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

double rl_test_relative_l2(const float *a, const float *b, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - b[i];
        difference += d * d;
        size += (double)b[i] * b[i];
    }
    double r = sqrt(difference / (size > 0 ? size : 1));
    return isfinite(r) ? r : INFINITY;
}

double rl_test_max_abs(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= worst)) worst = isfinite(d) ? d : INFINITY;
    }
    return worst;
}
