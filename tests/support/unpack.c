/* unpack.c - tests/support/unpack.h. Apart from test.c, so that the cross-compiled kernel tests need
 * no zlib. */
#include "support/unpack.h"

#include <zlib.h>

#include "support/test.h"

void *rl_test_unpack(const char *path, size_t *bytes)
{
    enum { ROOM = 16 << 20 };
    char *data = malloc(ROOM);
    gzFile file = gzopen(path, "rb");
    if (!file || !data) fail_msg("%s: cannot open", path);
    int n = gzread(file, data, ROOM);
    gzclose(file);
    if (n <= 0 || n >= ROOM) fail_msg("%s: cannot unpack", path);
    *bytes = (size_t)n;
    return data;
}
