/* test_gguf.c - model files when the n-th allocation, read or write fails, for every n. */
#include "support/fault.h"
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "gguf/gguf_write.h"
#include "model/summary.h"
#include "model/synth.h"
#include "quant/quant.h"
#include "support/remake.h"

/* ---- writes and renames, wrapped like the calls of support/fault.c ----------------------------- */

static long write_calls, failing_write = -1;

static bool write_strikes(void)
{
    return write_calls++ == failing_write;
}

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    if (write_strikes()) {
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, bytes, n > 1000 ? n / 2 : n); /* short writes are normal */
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (write_strikes()) {
        errno = EACCES;
        return -1;
    }
    return __real_rename(from, to);
}

static int count_files(const char *prefix)
{
    int n = 0;
    DIR *folder = opendir(RL_TEST_SCRATCH);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        n += !strncmp(entry->d_name, prefix, strlen(prefix));
    closedir(folder);
    return n;
}

/* The number that the next descriptor will get: it grows when one was lost. */
static int next_descriptor(void)
{
    int fd = dup(0);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* Container, hyper-parameters and weights together.
 * Stands against: a part left behind by an open that failed half way. */
static void open_survives(const char *path)
{
    static rl_config config;
    int64_t live = rl_fault_live();
    int descriptor = next_descriptor();
    bool fired = true;
    uint64_t n = 0, failed = 0;
    for (; fired; n++) {
        rl_error err = { "" };
        rl_gguf *gguf = NULL;
        rl_weights weights = { 0 };
        rl_fault_arm(n);
        rl_status status = rl_gguf_open(&gguf, path, &err);
        if (!status) status = rl_config_read(&config, gguf, &err);
        if (!status) status = rl_weights_open(&weights, gguf, &config, &err);
        fired = rl_fault_disarm();
        if (status) {
            assert_true(fired && (status == RL_NOMEM || status == RL_IO));
            assert_true(err.text[0] != 0);
            failed++;
        } else {
            assert_non_null(weights.layers); /* a buffer that could not shrink is no failure */
        }
        rl_weights_close(&weights);
        rl_gguf_close(gguf);
        assert_int_equal(rl_fault_live(), live);
        assert_int_equal(next_descriptor(), descriptor);
    }
    assert_true(failed > 10 && failed + 5 > n);
}

static void gguf_open_survives_any_fault(void **state)
{
    (void)state;
    open_survives(rl_test_fixture("bad-gguf/good-base.gguf"));
    open_survives(rl_test_model("tiny-s-split-F16"));
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* A file of two parts; what failed leaves no file, and none that looks whole. */
static rl_status write_sample(const char *path, rl_error *err)
{
    static const char data[70000];
    static const rl_gguf_string strings[2] = { { "ab", 2 }, { "", 0 } };
    rl_gguf_writer *w = NULL;
    rl_status status = rl_gguf_writer_create(&w, path, NULL, err);
    if (status) return status;
    rl_gguf_writer_text(w, "general.architecture", "qwen3next");
    rl_gguf_writer_strings(w, "some.strings", strings, 2);
    rl_gguf_writer_tensor(w, "a", RL_QUANT_F32, 1, (uint64_t[]){ 17500 });
    rl_gguf_writer_next_part(w);
    rl_gguf_writer_tensor(w, "b", RL_QUANT_Q8_0, 2, (uint64_t[]){ 32, 3 });
    status = rl_gguf_writer_begin(w, err);
    uint64_t due;
    while (!status && (due = rl_gguf_writer_due(w, NULL)))
        status = rl_gguf_writer_append(w, data, (size_t)due, err);
    if (!status) status = rl_gguf_writer_finish(w, err);
    rl_gguf_writer_destroy(w);
    return status;
}

static void check_written(const char *prefix, rl_status status, bool fired, const rl_error *said)
{
    if (status) {
        assert_true(fired && said->text[0]);
        assert_int_equal(count_files(prefix), 0);
        return;
    }
    assert_false(fired);
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    const char *first = rl_test_scratch("%s-00001-of-00002.gguf", prefix);
    assert_ok(rl_gguf_open(&gguf, first, &err));
    rl_gguf_close(gguf);
    assert_int_equal(count_files(prefix), 2);
    remove(first);
    remove(rl_test_scratch("%s-00002-of-00002.gguf", prefix));
}

static void gguf_write_survives_any_fault(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("fault_write_a.gguf");
    int64_t live = rl_fault_live();
    bool fired = true;
    uint64_t n = 0;
    for (; fired; n++) {
        rl_error err = { "" };
        rl_fault_arm(n);
        rl_status status = write_sample(path, &err);
        fired = rl_fault_disarm();
        check_written("fault_write_a", status, fired, &err);
        assert_int_equal(rl_fault_live(), live);
    }
    assert_true(n > 10);
}

/* The disk is full at the n-th write; a file cannot get its name. */
static void gguf_write_survives_a_full_disk(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("fault_write_b.gguf");
    int64_t live = rl_fault_live();
    int descriptor = next_descriptor();
    bool fired = true;
    long n = 0;
    for (; fired; n++) {
        rl_error err = { "" };
        write_calls = 0;
        failing_write = n;
        rl_status status = write_sample(path, &err);
        fired = write_calls > n;
        failing_write = -1;
        check_written("fault_write_b", status, fired, &err);
        if (status) assert_int_equal(status, RL_IO);
        assert_int_equal(rl_fault_live(), live);
        assert_int_equal(next_descriptor(), descriptor);
    }
    assert_true(n > 5);
}

static void synth_survives_any_fault(void **state)
{
    (void)state;
    rl_synth_params params;
    assert_true(rl_synth_preset("tiny", &params));
    params.n_layer = 1;
    params.n_expert = params.n_expert_used = 2;
    params.n_vocab = 0;
    params.vocab = rl_test_fixture("bad-gguf/good-base.gguf");
    params.n_threads = 2;
    const char *path = rl_test_scratch("fault_synth.gguf");
    int64_t live = rl_fault_live();
    bool fired = true;
    uint64_t n = 0;
    for (; fired; n++) {
        rl_error err = { "" };
        rl_fault_arm(n);
        rl_status status = rl_synth_write(&params, path, &err);
        fired = rl_fault_disarm();
        if (status) {
            assert_true(fired && err.text[0]);
            assert_int_equal(count_files("fault_synth"), 0);
        } else {
            assert_int_equal(count_files("fault_synth"), 1);
            remove(path);
        }
        assert_int_equal(rl_fault_live(), live);
    }
    assert_true(n > 20);
}

RL_TEST_MAIN(RL_TEST(gguf, open_survives_any_fault), RL_TEST(gguf, write_survives_any_fault),
             RL_TEST(gguf, write_survives_a_full_disk), RL_TEST(synth, survives_any_fault))
