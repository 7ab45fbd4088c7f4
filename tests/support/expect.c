/* expect.c - tests/support/expect.h. */
#include "support/expect.h"

void expect_open(expect_set *out, const char *path)
{
    char name[1024];
    size_t bytes, index_bytes;
    snprintf(name, sizeof name, "%s.expect.bin", path);
    out->data = rl_test_read(name, &bytes);
    snprintf(name, sizeof name, "%s.expect.idx", path);
    char *index = rl_test_read(name, &index_bytes), *line = index;
    out->arrays = NULL;
    out->n_arrays = 0;
    for (char *next; *line; line = next) {
        char type[8];
        int used = 0, more = 0;
        expect_array a = { .n = 1 };
        next = strchr(line, '\n') + 1;
        assert_int_equal(sscanf(line, "%63s %7s %u%n", a.name, type, &a.n_dims, &used), 3);
        assert_true(a.n_dims <= 4);
        line += used;
        for (uint32_t d = 0; d < a.n_dims; d++) {
            assert_int_equal(sscanf(line, "%u%n", &a.dims[d], &more), 1);
            line += more;
            a.n *= a.dims[d];
        }
        size_t offset;
        assert_int_equal(sscanf(line, "%zu", &offset), 1);
        assert_true(offset + a.n * 4 <= bytes);
        a.data = (char *)out->data + offset;
        out->arrays = realloc(out->arrays, (out->n_arrays + 1) * sizeof a);
        assert_non_null(out->arrays);
        out->arrays[out->n_arrays++] = a;
    }
    free(index);
}

void expect_close(expect_set *set)
{
    free(set->arrays);
    free(set->data);
}

static const expect_array *find(const expect_set *set, const char *name)
{
    for (size_t i = 0; i < set->n_arrays; i++)
        if (!strcmp(set->arrays[i].name, name)) return &set->arrays[i];
    return NULL;
}

const expect_array *expect_find(const expect_set *set, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return find(set, name);
}

const float *expect_f32(const expect_set *set, const char *name)
{
    const expect_array *a = find(set, name);
    if (!a) fail_msg("no stored array %s", name);
    return a->data;
}

const int32_t *expect_i32(const expect_set *set, const char *name, uint32_t *n)
{
    const expect_array *a = find(set, name);
    if (!a) fail_msg("no stored array %s", name);
    if (n) *n = (uint32_t)a->n;
    return a->data;
}
