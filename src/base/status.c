/* status.c - status names and error sentences. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

rl_status rl_fail(rl_error *err, rl_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

const char *rl_status_name(rl_status status)
{
    switch (status) {
    case RL_OK: return "ok";
    case RL_INVALID: return "invalid argument";
    case RL_IO: return "input/output error";
    case RL_FORMAT: return "malformed input";
    case RL_UNSUPPORTED: return "not supported";
    case RL_NOMEM: return "out of memory";
    case RL_DEVICE: return "device error";
    case RL_FULL: return "context is full";
    case RL_INTERRUPTED: return "interrupted";
    }
    return "unknown status";
}

const char *rl_version(void)
{
    return "0.1.0";
}
