/* fuzz_session.c - session files: any bytes are refused or load, and never change a session when
 * refused.
 *
 * The input is a session file; bytes behind an 8-byte mark "REHASH!\n" at its start are given a
 * right checksum first, so that the fuzzer also reaches what stands behind that check. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/hash.h"
#include "engine/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static rl_session *session;
static const uint32_t tokens[] = { 3, 1, 4, 1, 5 };

static void open_session(void)
{
    rl_error err = { "" };
    rl_engine *engine = NULL;
    rl_engine_params params = { .ops = &rl_backend_oracle, .n_threads = 1, .n_batch = 8 };
    rl_session_params small = { .n_ctx = 16, .key_f32 = true, .value_f32 = true };
    if (rl_engine_open(&engine, RL_TEST_FIXTURES "/bad-gguf/good-base.gguf", &params, &err) ||
        rl_session_open(&session, engine, &small, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static void write_all(int fd, const void *data, size_t n)
{
    RL_ASSERT(write(fd, data, n) == (ssize_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rl_error err = { "" };
    if (!session) open_session();
    RL_ASSERT(!rl_session_reset(session, &err));
    RL_ASSERT(!rl_session_feed(session, tokens, 5, &err));
    float before = rl_session_logits(session)[7];

    char path[64];
    int fd = memfd_create("session", 0);
    RL_ASSERT(fd >= 0);
    if (n >= 8 && !memcmp(data, "REHASH!\n", 8)) {
        rl_hash hash = rl_hash_start();
        rl_hash_add(&hash, data + 8, n - 8);
        uint64_t value = rl_hash_value(&hash);
        write_all(fd, data + 8, n - 8);
        write_all(fd, &value, sizeof value);
    } else {
        write_all(fd, data, n);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (rl_session_load(session, path, &err)) {
        RL_ASSERT(err.text[0]);
        RL_ASSERT(rl_session_position(session) == 5);
        RL_ASSERT(rl_session_logits(session)[7] == before);
    } else {
        /* What loads can be saved and goes on. */
        char out[64];
        snprintf(out, sizeof out, "/tmp/redlite-fuzz-session-%d", getpid());
        RL_ASSERT(!rl_session_save(session, out, &err));
        unlink(out);
        if (rl_session_position(session) < 16)
            RL_ASSERT(!rl_session_feed(session, tokens, 1, &err));
    }
    close(fd);
    return 0;
}
