/* fault.h - the n-th allocation or read fails, and somebody must notice.
 *
 * Programs in tests/fault are linked so that every call which the product or the test makes to
 * malloc, calloc, realloc, posix_memalign, aligned_alloc, strdup, strndup and pread comes through
 * here (linker option --wrap; calls inside shared libraries do not). While armed, calls are
 * counted, and one of them fails: allocations with ENOMEM, reads with EIO. The usual loop is
 *
 *     uint64_t n = 0;
 *     do {
 *         rl_fault_arm(n++);
 *         status = rl_thing_open(&thing, path, &err);
 *         fired = rl_fault_disarm();
 *         ... fired: status says so, err has a sentence, thing is NULL; not fired: all is well
 *         rl_thing_close(thing);
 *     } while (fired);
 *
 * with rl_fault_live() the same before and after. Threads: arming and disarming by one thread,
 * the wrapped calls from any. */
#ifndef RL_TESTS_SUPPORT_FAULT_H
#define RL_TESTS_SUPPORT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Counts from zero; call number `nth` (0-based) from now on fails, once. */
void rl_fault_arm(uint64_t nth);

/* As above, but that call and every one after it fail. */
void rl_fault_arm_from(uint64_t nth);

/* Ends it. True when a call was made to fail. */
bool rl_fault_disarm(void);

/* Calls counted between the last arming and disarming. */
uint64_t rl_fault_calls(void);

/* Blocks allocated minus blocks freed through the wrapped calls since the program started. */
int64_t rl_fault_live(void);

#endif
