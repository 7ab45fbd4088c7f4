/* assert.c - the end of a program that found a bug in itself. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void rl_assert_failed(const char *file, int line, const char *expression)
{
    fprintf(stderr, "redlite: internal error at %s:%d: %s\n", file, line, expression);
    abort();
}
