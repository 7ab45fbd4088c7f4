/* file_posix.c - base/file.h on POSIX. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

struct rl_file {
    int descriptor;
    uint64_t size;
    char path[];
};

rl_status rl_file_open(rl_file **out, const char *path, rl_error *err)
{
    RL_ASSERT(out && path);
    *out = NULL;
    size_t path_bytes = strlen(path) + 1;
    rl_file *file = malloc(sizeof *file + path_bytes);
    if (!file) return rl_fail(err, RL_NOMEM, "%s: no memory to open it", path);
    memcpy(file->path, path, path_bytes);
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) {
        int why = errno;
        free(file);
        return rl_fail(err, RL_IO, "%s: cannot open: %s", path, strerror(why));
    }
    struct stat info;
    rl_status status = RL_OK;
    if (fstat(file->descriptor, &info))
        status = rl_fail(err, RL_IO, "%s: cannot read its size: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = rl_fail(err, RL_IO, "%s: is a directory", path);
    else if (!S_ISREG(info.st_mode))
        status = rl_fail(err, RL_IO, "%s: is not a regular file", path);
    if (status) {
        rl_file_close(file);
        return status;
    }
    file->size = (uint64_t)info.st_size;
    *out = file;
    return RL_OK;
}

void rl_file_close(rl_file *file)
{
    if (!file) return;
    close(file->descriptor);
    free(file);
}

uint64_t rl_file_size(const rl_file *file)
{
    return file->size;
}

const char *rl_file_path(const rl_file *file)
{
    return file->path;
}

int rl_file_descriptor(const rl_file *file)
{
    return file->descriptor;
}

rl_status rl_file_read(const rl_file *file, uint64_t offset, void *out, size_t bytes, rl_error *err)
{
    char *to = out;
    size_t left = bytes;
    while (left) {
        ssize_t got = pread(file->descriptor, to, left, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return rl_fail(err, RL_IO, "%s: reading %zu bytes at %llu failed: %s", file->path,
                           bytes, (unsigned long long)offset, strerror(errno));
        if (got == 0)
            return rl_fail(err, RL_IO, "%s: the file ends at byte %llu, %zu bytes too early",
                           file->path, (unsigned long long)offset, left);
        to += got;
        offset += (uint64_t)got;
        left -= (size_t)got;
    }
    return RL_OK;
}

rl_status rl_file_read_all(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                           rl_error *err)
{
    *out = NULL;
    rl_file *file = NULL;
    char *text = NULL;
    rl_status status = rl_file_open(&file, path, err);
    if (status) return status;
    if (file->size > max_bytes) {
        status = rl_fail(err, RL_IO, "%s: %llu bytes, more than the %zu allowed here", path,
                         (unsigned long long)file->size, max_bytes);
        goto done;
    }
    text = malloc((size_t)file->size + 1);
    if (!text) {
        status = rl_fail(err, RL_NOMEM, "%s: no memory to read it", path);
        goto done;
    }
    status = rl_file_read(file, 0, text, (size_t)file->size, err);
    if (status) goto done;
    text[file->size] = 0;
    *out_bytes = (size_t)file->size;
    *out = text;
    text = NULL;
done:
    free(text);
    rl_file_close(file);
    return status;
}
