/* file.h - files read at given positions.
 *
 * Nothing is mapped: a mapped file that shrinks kills the process, a positioned read only fails.
 * Threads: any number may read one rl_file at the same time. */
#ifndef RL_BASE_FILE_H
#define RL_BASE_FILE_H

#include "base/status.h"

typedef struct rl_file rl_file;

/* Opens a regular file for reading (a directory or device is refused). The path is copied.
 * On success *out owns the descriptor: rl_file_close(). */
RL_MUST_CHECK rl_status rl_file_open(rl_file **out, const char *path, rl_error *err);

/* NULL is fine. */
void rl_file_close(rl_file *file);

/* Size in bytes when the file was opened. */
uint64_t rl_file_size(const rl_file *file);

/* The path as given; borrowed until close. */
const char *rl_file_path(const rl_file *file);

/* The descriptor, for io_uring; borrowed until close. */
int rl_file_descriptor(const rl_file *file);

/* Reads exactly `bytes` at `offset`. A short file is RL_IO and the sentence says so. */
RL_MUST_CHECK rl_status rl_file_read(const rl_file *file, uint64_t offset, void *out, size_t bytes,
                                     rl_error *err);

/* Reads a whole file of at most `max_bytes` into a malloc'ed buffer with a NUL behind it. */
RL_MUST_CHECK rl_status rl_file_read_all(const char *path, size_t max_bytes, char **out,
                                         size_t *out_bytes, rl_error *err);

#endif
