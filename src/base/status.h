/* status.h - how functions say that something went wrong.
 *
 * rl_status and rl_error are part of the public interface; this file adds how they are filled.
 * A function that fails returns rl_fail(err, ...) so that status and sentence are made together. */
#ifndef RL_BASE_STATUS_H
#define RL_BASE_STATUS_H

#include "redlite.h"

#if defined(__GNUC__)
#define RL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RL_PRINTF(fmt, args)
#endif

/* Writes the sentence into *err (which may be NULL) and returns `status` unchanged. */
rl_status rl_fail(rl_error *err, rl_status status, const char *format, ...) RL_PRINTF(3, 4);

#endif
