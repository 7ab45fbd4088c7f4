/* unpack.h - fixtures that are stored gzipped. */
#ifndef RL_TESTS_SUPPORT_UNPACK_H
#define RL_TESTS_SUPPORT_UNPACK_H

#include <stddef.h>

/* Unpacks a gzipped file, less than 16 MiB when unpacked, or fails the test. The caller frees. */
void *rl_test_unpack(const char *path, size_t *bytes);

#endif
