/* file_write.h - files that appear whole or not at all.
 *
 * Bytes go to a temporary name beside the final one. Only commit gives the file its final name,
 * replacing what was there; anything else that ends the writing removes the temporary file. So a
 * full disk or an interrupted program leaves no half file where a whole one is expected. A link is
 * followed, and what is no file but a device or a pipe is written to as it is, never replaced.
 * Threads: one writer per rl_file_writer. */
#ifndef RL_BASE_FILE_WRITE_H
#define RL_BASE_FILE_WRITE_H

#include "base/status.h"

typedef struct rl_file_writer rl_file_writer;

/* Creates the temporary file. The path is copied. */
RL_MUST_CHECK rl_status rl_file_writer_open(rl_file_writer **out, const char *path, rl_error *err);

/* Appends. After a failure the writer can only be abandoned. Small pieces are collected. */
RL_MUST_CHECK rl_status rl_file_writer_append(rl_file_writer *writer, const void *bytes, size_t n,
                                              rl_error *err);

/* Everything to the system, the descriptor closed; the file still has its temporary name. Needed
 * before commit only where several files have to be complete before the first one appears. */
RL_MUST_CHECK rl_status rl_file_writer_seal(rl_file_writer *writer, rl_error *err);

/* What was appended so far is on the disk when this returns, should the machine lose power. */
RL_MUST_CHECK rl_status rl_file_writer_sync(rl_file_writer *writer, rl_error *err);

/* Seals if needed, and renames. Frees the writer, also on failure. */
RL_MUST_CHECK rl_status rl_file_writer_commit(rl_file_writer *writer, rl_error *err);

/* Removes the temporary file and frees the writer. NULL is fine. */
void rl_file_writer_abandon(rl_file_writer *writer);

#endif
