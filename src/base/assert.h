/* assert.h - a caller's bug stops the program and says where.
 *
 * RL_ASSERT stays on in release builds; RL_DCHECK is for hot loops and only lives in debug builds.
 * Nothing that comes from a file, socket or terminal is ever asserted: that is rl_status work. */
#ifndef RL_BASE_ASSERT_H
#define RL_BASE_ASSERT_H

_Noreturn void rl_assert_failed(const char *file, int line, const char *expression);

#define RL_ASSERT(e) ((e) ? (void)0 : rl_assert_failed(__FILE__, __LINE__, #e))

#ifdef NDEBUG
#define RL_DCHECK(e) ((void)sizeof(!(e)))
#else
#define RL_DCHECK(e) RL_ASSERT(e)
#endif

#endif
