/* out_file.c - apps/cli/out_file.h. */
#include "cli.h"
#include "out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAMES = 1000 };

/* The descriptor of ours that is this very file, because a shell opened it; -1: none. */
static int redirected(const struct stat *there)
{
    struct stat ours;
    for (int fd = 0; fd <= 2; fd++)
        if (fstat(fd, &ours) == 0 && ours.st_dev == there->st_dev && ours.st_ino == there->st_ino)
            return fd;
    return -1;
}

static int open_part(cli_out_file *out)
{
    int fd = -1;
    for (int i = 0; i < MAX_NAMES && fd < 0; i++) {
        int n =
            snprintf(out->part, sizeof out->part, "%s.%ld-%d.part", out->path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof out->part) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(out->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    return fd;
}

int cli_out_file_open(cli_out_file *out, const char *path)
{
    struct stat there;
    int fd;
    *out = (cli_out_file){ 0 };
    if (!realpath(path, out->path)) snprintf(out->path, sizeof out->path, "%s", path);
    const bool exists = stat(path, &there) == 0;
    const int ours = exists ? redirected(&there) : -1;
    if (ours >= 0) {
        fd = fcntl(ours, F_DUPFD_CLOEXEC, 3);
    } else if (exists ? !S_ISREG(there.st_mode) : lstat(path, &there) == 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); /* or a link to nothing */
    } else {
        fd = open_part(out);
    }
    if (fd >= 0) out->file = fdopen(fd, "wb");
    if (out->file) return -1;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (fd >= 0 && out->part[0]) unlink(out->part);
    return cli_error("%s: cannot be written: %s", path, strerror(why));
}

int cli_out_file_close(cli_out_file *out, bool whole)
{
    bool failed = ferror(out->file) != 0;
    failed = fclose(out->file) != 0 || failed;
    if (whole && !failed && out->part[0]) failed = rename(out->part, out->path) != 0;
    int rc = -1;
    if (failed) rc = cli_error("%s: cannot be written: %s", out->path, strerror(errno));
    if (out->part[0] && (failed || !whole)) unlink(out->part);
    return rc;
}
