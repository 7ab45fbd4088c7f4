/* expect.h - the stored numbers of a fixture model (X.expect.idx and X.expect.bin).
 *
 * One line of the index is: name type n_dims dim0 .. byte_offset. Arrays are little-endian, C order.
 * What the arrays mean: tests/fixtures/models/README.md. */
#ifndef RL_TESTS_SUPPORT_EXPECT_H
#define RL_TESTS_SUPPORT_EXPECT_H

#include "support/test.h"

typedef struct expect_array {
    char name[64];
    uint32_t n_dims, dims[4];
    size_t n; /* values */
    const void *data;
} expect_array;

typedef struct expect_set {
    expect_array *arrays;
    size_t n_arrays;
    void *data;
} expect_set;

/* Reads PATH.expect.idx and PATH.expect.bin, or fails the test. */
void expect_open(expect_set *out, const char *path_without_suffix);
void expect_close(expect_set *set);

/* By printf-style name; NULL when there is no such array. */
const expect_array *expect_find(const expect_set *set, const char *format, ...) RL_PRINTF(2, 3);
/* The same, but a missing one fails the test. */
const float *expect_f32(const expect_set *set, const char *name);
const int32_t *expect_i32(const expect_set *set, const char *name, uint32_t *n);

#endif
