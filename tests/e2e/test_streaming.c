/* test_streaming.c - the results of a run do not depend on how many experts are in memory, nor on how
 * the others are read. */
#include "support/process.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TOKENS = 40 };

typedef struct way {
    const char *cache_mib, *io, *prefetch;
} way;

static const char *shipped(void)
{
    return RL_TEST_MODELS "/redlite-demo-IQ2_XXS.gguf";
}

static void list_tokens(char out[TOKENS * 6], uint32_t n_vocab)
{
    size_t n = 0;
    for (uint32_t i = 0; i < TOKENS; i++)
        n += (size_t)snprintf(out + n, TOKENS * 6 - n, "%s%u", i ? "," : "", 7919 * i % n_vocab);
}

/* The bytes of all logits of a prompt (read in one batch), and of a text written after it (token by
 * token). */
static char *play(const char *model, const way *w, const char *tokens, size_t *bytes)
{
    const char *out = rl_test_scratch("streaming-%ld.f32", (long)getpid()); /* tests run at once */
    rl_test_run logits =
        RUN("logits", "-m", model, "--backend", "cpu", "--tokens", tokens, "--out", out,
            "--cache-mib", w->cache_mib, "--io", w->io, "--prefetch", w->prefetch);
    rl_test_expect_code(&logits, 0);
    rl_test_run text = RUN("generate", "--json", "-m", model, "--backend", "cpu", "--tokens",
                           tokens, "-n", "24", "--temp", "0", "--ignore-eos", "--cache-mib",
                           w->cache_mib, "--io", w->io, "--prefetch", w->prefetch);
    rl_test_expect_code(&text, 0);
    char *end = strstr(text.out, ",\"timings\"");
    assert_non_null(end);
    size_t n_logits, n_text = (size_t)(end - text.out);
    char *all = rl_test_read(out, &n_logits);
    all = realloc(all, n_logits + n_text);
    assert_non_null(all);
    memcpy(all + n_logits, text.out, n_text);
    /* The seed is not fixed and stands in the answer. */
    char *seed = memmem(all + n_logits, n_text, "\"seed\":", 7);
    if (seed) n_text = (size_t)(seed - (all + n_logits));
    *bytes = n_logits + n_text;
    unlink(out);
    rl_test_run_fini(&logits);
    rl_test_run_fini(&text);
    return all;
}

/* Stands against: an expert that is computed before it has arrived or after it has left, and sums
 * whose order follows the order of arrival. The smallest pools hold fewer experts than one token
 * uses in all layers. */
static void check_ways(const char *model, uint32_t n_vocab, const way *ways, size_t n)
{
    char tokens[TOKENS * 6];
    size_t want_bytes, bytes;
    list_tokens(tokens, n_vocab);
    char *want = play(model, &ways[0], tokens, &want_bytes);
    for (size_t i = 1; i < n; i++) {
        char *got = play(model, &ways[i], tokens, &bytes);
        assert_int_equal(bytes, want_bytes);
        if (memcmp(got, want, bytes))
            fail_msg("%s: other bytes with --cache-mib %s --io %s --prefetch %s", model,
                     ways[i].cache_mib, ways[i].io, ways[i].prefetch);
        free(got);
    }
    free(want);
}

static void streaming_any_pool_gives_the_same_bytes(void **state)
{
    (void)state;
    static const way ways[] = {
        { "7", "auto", "auto" },      { "0.2", "auto", "off" },      { "0.4", "auto", "off" },
        { "0.8", "auto", "auto" },    { "3.2", "auto", "auto" },     { "3.2", "auto", "off" },
        { "3.2", "direct", "auto" },  { "3.2", "buffered", "auto" }, { "0.2", "direct", "off" },
        { "0.2", "buffered", "off" },
    };
    check_ways(shipped(), 4096, ways, sizeof ways / sizeof ways[0]);
}

static void streaming_any_pool_of_a_fixture(void **state)
{
    (void)state;
    static const way ways[] = { { "64", "auto", "auto" },
                                { "0.13", "auto", "auto" },
                                { "0.5", "buffered", "auto" } };
    check_ways(rl_test_fixture("models/tiny-a-IQ2_XXS.gguf"), 512, ways,
               sizeof ways / sizeof ways[0]);
}

/* From now on, for this process and what it starts, the kernel says that io_uring is forbidden, as
 * containers do. */
static void forbid_uring(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        rl_test_skip("no filter of system calls here: %s", strerror(errno));
}

static void streaming_goes_on_without_uring(void **state)
{
    (void)state;
    static const way ways[] = { { "7", "auto", "auto" }, { "0.8", "direct", "auto" } };
    char tokens[TOKENS * 6];
    size_t want_bytes, bytes;
    list_tokens(tokens, 4096);
    char *want = play(shipped(), &ways[0], tokens, &want_bytes);
    forbid_uring();
    char *got = play(shipped(), &ways[1], tokens, &bytes);
    assert_int_equal(bytes, want_bytes);
    assert_memory_equal(got, want, bytes);
    free(got);
    free(want);
    rl_test_run r = RUN("generate", "-m", shipped(), "--backend", "cpu", "--tokens", "1", "-n", "2",
                        "--cache-mib", "0.8", "--io", "direct");
    rl_test_expect_code(&r, 0);
    const char *said = strstr(r.err, "io_uring");
    if (said && strstr(said, "not in this build"))
        rl_test_skip("this build reads with threads only");
    if (!said || strstr(said + 1, "io_uring")) fail_msg("said once? %s", r.err);
    rl_test_run_fini(&r);
}

RL_TEST_MAIN(RL_TEST(streaming, any_pool_gives_the_same_bytes),
             RL_TEST(streaming, any_pool_of_a_fixture), RL_TEST(streaming, goes_on_without_uring))
