/* unicode.h - UTF-8 and Unicode NFC: what has to hold before text can become tokens.
 *
 * Lengths are in bytes; NUL is an ordinary character. "Ill-formed" is as in the Unicode standard:
 * stray or missing continuation bytes, overlong forms, surrogates, values above U+10FFFF. What is
 * ill-formed is cut into maximal subparts, the longest pieces that could still have begun a valid
 * sequence, or else single bytes; each counts as one error and is replaced by one U+FFFD.
 * Rules: docs/text.md. Threads: no state, any thread. */
#ifndef RL_TEXT_UNICODE_H
#define RL_TEXT_UNICODE_H

#include "text/text_buffer.h"

#define RL_UTF8_BAD         UINT32_MAX       /* in place of a code point: a maximal subpart       */
#define RL_UTF8_CUT         (UINT32_MAX - 1) /* the same, but only because the text ends here     */
#define RL_UTF8_REPLACEMENT "\xef\xbf\xbd"   /* U+FFFD */

/* Reads one character of the `bytes` >= 1 bytes at `text`. *code is its code point, RL_UTF8_BAD or
 * RL_UTF8_CUT. Returns the bytes that it, or the maximal subpart, takes: 1..4. */
size_t rl_utf8_decode(const char *text, size_t bytes, uint32_t *code);

/* Writes a code point (no surrogate, at most U+10FFFF: asserted) and returns its 1..4 bytes. */
size_t rl_utf8_encode(uint32_t code, char out[4]);

/* True when the text is well-formed. Otherwise *bad (may be NULL) is the offset of the first
 * maximal subpart that is not. */
bool rl_utf8_is_valid(const char *text, size_t bytes, size_t *bad);

/* Appends the text with every maximal subpart replaced by U+FFFD. At most three times as long. */
RL_MUST_CHECK rl_status rl_utf8_replace(const char *text, size_t bytes, rl_text_buffer *out,
                                        rl_error *err);

/* True when a glance shows that the well-formed text is in NFC: no character above U+02FF. */
bool rl_nfc_quick(const char *text, size_t bytes);

/* Appends the NFC form of well-formed text, at most three times as long. Time O(bytes), whatever
 * the text; memory O(longest stretch without a character below U+0300).
 * Tables: utf8proc (Unicode 14 or later). */
RL_MUST_CHECK rl_status rl_nfc(const char *text, size_t bytes, rl_text_buffer *out, rl_error *err);

#endif
