/* file_write_posix.c - base/file_write.h on POSIX. */
#include "base/file_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

#define COLLECT_BYTES (64 << 10)
#define MAX_NAMES     1000

struct rl_file_writer {
    int descriptor; /* -1: sealed */
    bool failed;
    uint64_t bytes; /* appended, the collected ones included */
    size_t n_collected;
    char *path;
    char *temporary; /* NULL: the path is written to as it is */
    char collected[COLLECT_BYTES];
};

static void free_writer(rl_file_writer *writer)
{
    free(writer->path);
    free(writer->temporary);
    free(writer);
}

rl_status rl_file_writer_open(rl_file_writer **out, const char *path, rl_error *err)
{
    RL_ASSERT(out && path);
    *out = NULL;
    char real[PATH_MAX];
    struct stat there;
    bool direct = false;
    if (realpath(path, real)) {
        path = real;
        direct = stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
    }
    size_t room = strlen(path) + 48;
    rl_file_writer *writer = malloc(sizeof *writer);
    if (!writer) return rl_fail(err, RL_NOMEM, "%s: no memory to write it", path);
    writer->descriptor = -1;
    writer->failed = false;
    writer->bytes = writer->n_collected = 0;
    writer->path = malloc(room);
    writer->temporary = direct ? NULL : malloc(room);
    if (!writer->path || (!direct && !writer->temporary)) {
        free_writer(writer);
        return rl_fail(err, RL_NOMEM, "%s: no memory to write it", path);
    }
    memcpy(writer->path, path, strlen(path) + 1);
    if (direct) writer->descriptor = open(path, O_WRONLY | O_CLOEXEC);
    for (int i = 0; !direct && i < MAX_NAMES && writer->descriptor < 0; i++) {
        snprintf(writer->temporary, room, "%s.%ld-%d.part", path, (long)getpid(), i);
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor < 0 && errno != EEXIST) break;
    }
    if (writer->descriptor < 0) {
        rl_fail(err, RL_IO, "%s: cannot create: %s", path, strerror(errno));
        free_writer(writer);
        return RL_IO;
    }
    *out = writer;
    return RL_OK;
}

static rl_status write_out(rl_file_writer *writer, const char *bytes, size_t n, rl_error *err)
{
    while (n) {
        ssize_t wrote = write(writer->descriptor, bytes, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            writer->failed = true;
            return rl_fail(err, RL_IO, "%s: writing failed after %llu bytes: %s", writer->path,
                           (unsigned long long)writer->bytes,
                           wrote ? strerror(errno) : "nothing was written");
        }
        bytes += wrote;
        n -= (size_t)wrote;
    }
    return RL_OK;
}

static rl_status flush(rl_file_writer *writer, rl_error *err)
{
    rl_status status = write_out(writer, writer->collected, writer->n_collected, err);
    writer->n_collected = 0;
    return status;
}

rl_status rl_file_writer_append(rl_file_writer *writer, const void *bytes, size_t n, rl_error *err)
{
    rl_status status = RL_OK;
    RL_ASSERT(!writer->failed && writer->descriptor >= 0);
    if (n > COLLECT_BYTES - writer->n_collected) status = flush(writer, err);
    if (!status && n >= COLLECT_BYTES) {
        status = write_out(writer, bytes, n, err);
    } else if (!status) {
        memcpy(writer->collected + writer->n_collected, bytes, n);
        writer->n_collected += n;
    }
    if (!status) writer->bytes += n;
    return status;
}

rl_status rl_file_writer_sync(rl_file_writer *writer, rl_error *err)
{
    RL_ASSERT(!writer->failed && writer->descriptor >= 0);
    rl_status status = flush(writer, err);
    if (status || !fsync(writer->descriptor)) return status;
    writer->failed = true;
    return rl_fail(err, RL_IO, "%s: writing failed: %s", writer->path, strerror(errno));
}

rl_status rl_file_writer_seal(rl_file_writer *writer, rl_error *err)
{
    RL_ASSERT(!writer->failed);
    if (writer->descriptor < 0) return RL_OK;
    rl_status status = flush(writer, err);
    if (status) return status;
    int result = close(writer->descriptor);
    writer->descriptor = -1;
    if (!result) return RL_OK;
    writer->failed = true;
    return rl_fail(err, RL_IO, "%s: writing failed: %s", writer->path, strerror(errno));
}

rl_status rl_file_writer_commit(rl_file_writer *writer, rl_error *err)
{
    rl_status status = rl_file_writer_seal(writer, err);
    if (!status && writer->temporary && rename(writer->temporary, writer->path))
        status =
            rl_fail(err, RL_IO, "%s: cannot be given its name: %s", writer->path, strerror(errno));
    if (status)
        rl_file_writer_abandon(writer);
    else
        free_writer(writer);
    return status;
}

void rl_file_writer_abandon(rl_file_writer *writer)
{
    if (!writer) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    if (writer->temporary) unlink(writer->temporary);
    free_writer(writer);
}
