/* hash.h - a 64-bit hash of bytes, for damage and for telling models apart; not against attackers.
 *
 * FNV-1a over 8-byte words with a final mix. The same bytes give the same value however they are
 * cut into calls. */
#ifndef RL_ENGINE_HASH_H
#define RL_ENGINE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rl_hash {
    uint64_t value, pending;
    uint64_t bytes;
} rl_hash;

static inline rl_hash rl_hash_start(void)
{
    return (rl_hash){ .value = 0xcbf29ce484222325u };
}

static inline void rl_hash_word(rl_hash *h, uint64_t word)
{
    h->value = (h->value ^ word) * 0x100000001b3u;
    h->value ^= h->value >> 29;
}

static inline void rl_hash_add(rl_hash *h, const void *data, size_t n)
{
    const uint8_t *p = data;
    while (n) {
        if (h->bytes % 8 == 0 && n >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            rl_hash_word(h, word);
            p += 8, n -= 8, h->bytes += 8;
            continue;
        }
        h->pending |= (uint64_t)*p << (h->bytes % 8 * 8);
        p++, n--;
        if (++h->bytes % 8 == 0) {
            rl_hash_word(h, h->pending);
            h->pending = 0;
        }
    }
}

static inline uint64_t rl_hash_value(const rl_hash *h)
{
    rl_hash copy = *h;
    rl_hash_word(&copy, copy.pending);
    rl_hash_word(&copy, copy.bytes);
    return copy.value ^ (copy.value >> 32);
}

#endif
