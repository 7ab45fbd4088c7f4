/* number.h - decimal text to numbers and back, the same in every locale.
 *
 * Integers are exact (value.h); floats are read correctly rounded and written as the shortest
 * decimal that reads back as the same float, in the form that Python prints: 10.5, 1e-05, 1e+16.
 * Threads: no state, any thread. */
#ifndef RL_TEXT_NUMBER_H
#define RL_TEXT_NUMBER_H

#include "text/value.h"

/* Room for any float, and for any 64-bit integer. */
#define RL_NUMBER_ROOM 32

/* Writes a float as Python's repr() does, "inf", "-inf" and "nan" included. Returns the length;
 * out is terminated. */
size_t rl_float_print(double value, char out[RL_NUMBER_ROOM]);

/* Writes a 64-bit integer in decimal. */
size_t rl_int_print(int64_t value, char out[RL_NUMBER_ROOM]);

/* Reads [sign] digits [. digits] [e [sign] digits]; the caller has checked the form. Underscores are
 * skipped. Too large gives infinity, too small zero. */
double rl_float_read(const char *text, size_t bytes);

/* Reads [sign] digits of base 2, 8, 10 or 16; the caller has checked the digits. Underscores are
 * skipped. The result is INT, or BIGINT when base is 10 and 64 bits do not suffice. False when the
 * arena gives nothing more, or for more than 64 bits in another base (*too_long is then true). */
bool rl_int_read(rl_arena *arena, const char *text, size_t bytes, int base, rl_value *out,
                 bool *too_long);

#endif
