/* test_gguf_write.c - the writer: what it writes, the reader reads back; what fails leaves nothing. */
#include "support/test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gguf/gguf_write.h"
#include "model/weights.h"
#include "quant/quant.h"
#include "support/remake.h"

/* Files in the scratch folder whose name starts so. */
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

static const uint64_t some_dims[4] = { 40, 3, 2, 1 };

/* Keys of every type, two tensors of sizes that need padding. */
static rl_gguf_writer *declare_sample(const char *path, uint32_t alignment)
{
    rl_error err = { "" };
    rl_gguf_writer *w = NULL;
    rl_gguf_writer_params params = { .alignment = alignment };
    assert_ok(rl_gguf_writer_create(&w, path, &params, &err));
    const int16_t i16 = -3;
    const uint64_t u64 = 1ull << 60;
    const double f64 = 0.1;
    const float floats[3] = { 1, 2, -0.5f };
    const rl_gguf_string strings[3] = { { "a\0b", 3 }, { "", 0 }, { "\xc3\xa4", 2 } };
    rl_gguf_writer_u32(w, "k.u32", 7);
    rl_gguf_writer_f32(w, "k.f32", 1e-6f);
    rl_gguf_writer_bool(w, "k.bool", true);
    rl_gguf_writer_scalar(w, "k.i16", RL_GGUF_I16, &i16);
    rl_gguf_writer_scalar(w, "k.u64", RL_GGUF_U64, &u64);
    rl_gguf_writer_scalar(w, "k.f64", RL_GGUF_F64, &f64);
    rl_gguf_writer_text(w, "k.text", "hello");
    rl_gguf_writer_array(w, "k.floats", RL_GGUF_F32, floats, 3);
    rl_gguf_writer_array(w, "k.empty", RL_GGUF_U8, NULL, 0);
    rl_gguf_writer_strings(w, "k.strings", strings, 3);
    rl_gguf_writer_tensor(w, "first.weight", RL_QUANT_F16, 3, some_dims);
    rl_gguf_writer_tensor(w, "second.weight", RL_QUANT_Q8_0, 2, (uint64_t[]){ 64, 5 });
    return w;
}

/* Byte i of tensor t. */
static unsigned char sample_byte(uint64_t t, uint64_t i)
{
    return (unsigned char)(i * 7 + t * 31 + 1);
}

static void write_sample_data(rl_gguf_writer *w)
{
    rl_error err = { "" };
    uint64_t tensor, left, at = 0, last = 0;
    while ((left = rl_gguf_writer_due(w, &tensor))) {
        unsigned char piece[37];
        size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
        if (tensor != last) at = 0;
        last = tensor;
        for (size_t i = 0; i < n; i++)
            piece[i] = sample_byte(tensor, at + i);
        assert_ok(rl_gguf_writer_append(w, piece, n, &err));
        at += n;
    }
}

static void check_sample(const rl_gguf *gguf)
{
    rl_error err = { "" };
    rl_gguf_value value;
    float f;
    bool b = false;
    uint32_t u;
    rl_gguf_string text;
    assert_ok(rl_gguf_get_u32(gguf, "k.u32", &u, NULL, &err));
    assert_int_equal(u, 7);
    assert_ok(rl_gguf_get_f32(gguf, "k.f32", &f, NULL, &err));
    assert_true(f == 1e-6f);
    assert_ok(rl_gguf_get_f32(gguf, "k.f64", &f, NULL, &err));
    assert_true(f == 0.1f);
    assert_ok(rl_gguf_get_bool(gguf, "k.bool", &b, NULL, &err));
    assert_true(b);
    assert_true(rl_gguf_find(gguf, "k.i16", &value) && value.type == RL_GGUF_I16);
    assert_int_equal((int16_t)rl_load_u16(value.data), -3);
    assert_true(rl_gguf_find(gguf, "k.u64", &value) && rl_load_u64(value.data) == 1ull << 60);
    assert_ok(rl_gguf_get_string(gguf, "k.text", &text, NULL, &err));
    assert_true(text.bytes == 5 && !memcmp(text.data, "hello", 5));
    assert_true(rl_gguf_find(gguf, "k.floats", &value) && value.count == 3);
    assert_true(rl_f32_from_bits(rl_load_u32((const char *)value.data + 8)) == -0.5f);
    assert_true(rl_gguf_find(gguf, "k.empty", &value) && value.count == 0);
    assert_true(rl_gguf_find(gguf, "k.strings", &value) && value.count == 3);
    text = rl_gguf_array_string(gguf, &value, 0);
    assert_true(text.bytes == 3 && !memcmp(text.data, "a\0b", 3));
    assert_int_equal(rl_gguf_array_string(gguf, &value, 1).bytes, 0);
    assert_memory_equal(rl_gguf_array_string(gguf, &value, 2).data, "\xc3\xa4", 2);
    assert_int_equal(rl_gguf_n_tensors(gguf), 2);
    const rl_gguf_tensor *first = rl_gguf_find_tensor(gguf, "first.weight");
    assert_non_null(first);
    assert_memory_equal(first->dims, some_dims, sizeof some_dims);
    for (uint64_t t = 0; t < 2; t++) {
        const rl_gguf_tensor *tensor = rl_gguf_tensor_at(gguf, t);
        unsigned char *bytes = malloc((size_t)tensor->bytes);
        assert_non_null(bytes);
        assert_ok(rl_file_read(rl_gguf_part(gguf, tensor->part), tensor->offset, bytes,
                               (size_t)tensor->bytes, &err));
        for (uint64_t i = 0; i < tensor->bytes; i++)
            assert_int_equal(bytes[i], sample_byte(t, i));
        free(bytes);
    }
}

static void gguf_write_round_trip(void **state)
{
    (void)state;
    static const uint32_t alignments[] = { 0, 1, 64, 4096 };
    for (size_t i = 0; i < RL_COUNT_OF(alignments); i++) {
        rl_error err = { "" };
        const char *path = rl_test_scratch("write_sample.gguf");
        rl_gguf_writer *w = declare_sample(path, alignments[i]);
        uint64_t align = alignments[i] ? alignments[i] : 32;
        assert_ok(rl_gguf_writer_begin(w, &err));
        write_sample_data(w);
        assert_ok(rl_gguf_writer_finish(w, &err));
        rl_gguf *gguf = NULL;
        assert_ok(rl_gguf_open(&gguf, path, &err));
        check_sample(gguf);
        const rl_gguf_tensor *a = rl_gguf_tensor_at(gguf, 0), *b = rl_gguf_tensor_at(gguf, 1);
        assert_int_equal(a->offset % align, 0);
        assert_int_equal(b->offset, a->offset + (a->bytes + align - 1) / align * align);
        assert_int_equal(rl_gguf_total_bytes(gguf), rl_gguf_writer_total_bytes(w));
        assert_int_equal(rl_gguf_total_bytes(gguf),
                         b->offset + (b->bytes + align - 1) / align * align);
        rl_gguf_close(gguf);
        rl_gguf_writer_destroy(w);
        assert_int_equal(count_files("write_sample"), 1);
    }
}

/* A file that another program wrote, copied key by key and tensor by tensor, is the same file. */
static void gguf_write_repeats_a_file(void **state)
{
    (void)state;
    const char *source = rl_test_fixture("models/tiny-s-Q8_0.gguf");
    const char *copy = rl_test_scratch("write_copy.gguf");
    size_t n, m;
    rl_test_edit(source, copy, NULL, 0);
    void *a = rl_test_read(source, &n), *b = rl_test_read(copy, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void gguf_write_splits(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *split = NULL, *whole = NULL;
    const char *path = rl_test_model("tiny-s-split-F16");
    assert_ok(rl_gguf_open(&split, path, &err));
    assert_ok(rl_gguf_open(&whole, rl_test_model("tiny-s-F16"), &err));
    assert_int_equal(rl_gguf_n_parts(split), 3);
    assert_int_equal(rl_gguf_n_tensors(split), rl_gguf_n_tensors(whole));
    for (uint64_t i = 0; i < rl_gguf_n_tensors(whole); i++) {
        const rl_gguf_tensor *a = rl_gguf_tensor_at(split, i), *b = rl_gguf_tensor_at(whole, i);
        assert_string_equal(a->name, b->name);
        void *x = malloc((size_t)a->bytes), *y = malloc((size_t)b->bytes);
        assert_true(x && y && a->bytes == b->bytes);
        assert_ok(rl_file_read(rl_gguf_part(split, a->part), a->offset, x, (size_t)a->bytes, &err));
        assert_ok(rl_file_read(rl_gguf_part(whole, b->part), b->offset, y, (size_t)b->bytes, &err));
        assert_memory_equal(x, y, (size_t)a->bytes);
        free(x);
        free(y);
    }
    rl_gguf_close(split);
    rl_gguf_close(whole);
}

/* The disk is full in the header, in the data, in the last padding: the old file stays, no
 * temporary one is left. */
static void gguf_write_leaves_no_half_file(void **state)
{
    (void)state;
    const char *path = rl_test_scratch("write_full.gguf");
    FILE *old = fopen(path, "wb");
    assert_non_null(old);
    fputs("old", old);
    fclose(old);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    bool finished = false;
    for (rlim_t bytes = 0; !finished; bytes += 100) {
        rl_error err = { "" };
        rl_gguf_writer *w = declare_sample(path, 64);
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &limit);
        rl_status status = rl_gguf_writer_begin(w, &err);
        uint64_t left;
        while (!status && (left = rl_gguf_writer_due(w, NULL))) {
            static const char zeros[70000];
            status = rl_gguf_writer_append(w, zeros, (size_t)left, &err);
        }
        if (!status) status = rl_gguf_writer_finish(w, &err);
        limit.rlim_cur = before;
        setrlimit(RLIMIT_FSIZE, &limit);
        finished = status == RL_OK;
        if (!finished) {
            assert_int_equal(status, RL_IO);
            assert_non_null(strstr(err.text, path));
        }
        rl_gguf_writer_destroy(w);
        assert_int_equal(count_files("write_full"), 1);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_true(finished ? info.st_size > 1000 : info.st_size == 3);
        assert_true(bytes < 100000);
    }
}

static void gguf_write_refuses(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf_writer *w = NULL;
    uint64_t dims[1] = { 4 };
    assert_ok(rl_gguf_writer_create(&w, rl_test_scratch("write_twice.gguf"), NULL, &err));
    rl_gguf_writer_tensor(w, "a", RL_QUANT_F32, 1, dims);
    rl_gguf_writer_tensor(w, "b", RL_QUANT_F32, 1, dims);
    rl_gguf_writer_tensor(w, "a", RL_QUANT_F32, 1, dims);
    assert_int_equal(rl_gguf_writer_begin(w, &err), RL_INVALID);
    assert_non_null(strstr(err.text, "tensor a"));
    rl_gguf_writer_destroy(w);
    assert_ok(rl_gguf_writer_create(&w, "/nonexistent/folder/x.gguf", NULL, &err));
    assert_int_equal(rl_gguf_writer_begin(w, &err), RL_IO);
    rl_gguf_writer_destroy(w);
    /* Begun and left: nothing stays. */
    w = declare_sample(rl_test_scratch("write_left.gguf"), 0);
    rl_gguf_writer_next_part(w);
    rl_gguf_writer_tensor(w, "third", RL_QUANT_F32, 1, dims);
    assert_ok(rl_gguf_writer_begin(w, &err));
    write_sample_data(w);
    rl_gguf_writer_destroy(w);
    assert_int_equal(count_files("write_left"), 0);
    assert_int_equal(count_files("write_twice"), 0);
}

/* ---- what tests make out of the shipped models ------------------------------------------------ */

/* Every row of the fused tensor is a row of the sources: the legacy map and its inverse agree. */
static void remake_legacy_rows(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *legacy = NULL, *modern = NULL;
    rl_config c;
    rl_weights old, new;
    assert_ok(rl_gguf_open(&legacy, rl_test_model("tiny-s-legacy-Q8_0"), &err));
    assert_ok(rl_gguf_open(&modern, rl_test_model("tiny-s-Q8_0"), &err));
    assert_ok(rl_config_read(&c, legacy, &err));
    assert_ok(rl_weights_open(&old, legacy, &c, &err));
    assert_ok(rl_weights_open(&new, modern, &c, &err));
    const rl_gguf_tensor *fused = old.layers[1].ssm_in, *qkv = new.layers[1].qkv;
    assert_true(fused && qkv && !old.layers[1].qkv && !old.layers[1].gate);
    size_t row = (size_t)rl_tensor_row_bytes(fused);
    char *a = malloc(row), *b = malloc(row);
    assert_true(a && b);
    /* v row 5 of value head 3 = key head 1, second of its two value heads (D = 32). */
    uint64_t source = 1 * 192 + 2 * 32 + 32 + 5, target = 2 * 64 + 3 * 32 + 5;
    assert_ok(rl_file_read(rl_gguf_part(legacy, 0), fused->offset + source * row, a, row, &err));
    assert_ok(rl_file_read(rl_gguf_part(modern, 0), qkv->offset + target * row, b, row, &err));
    assert_memory_equal(a, b, row);
    free(a);
    free(b);
    rl_weights_close(&old);
    rl_weights_close(&new);
    rl_gguf_close(legacy);
    rl_gguf_close(modern);
}

static void remake_mtp_block_is_ignored(void **state)
{
    (void)state;
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    rl_config c;
    rl_weights weights;
    assert_ok(rl_gguf_open(&gguf, rl_test_model("tiny-s-mtp-Q8_0"), &err));
    assert_ok(rl_config_read(&c, gguf, &err));
    assert_ok(rl_weights_open(&weights, gguf, &c, &err));
    assert_int_equal(c.n_layer, 4);
    assert_int_equal(c.n_mtp, 1);
    assert_int_equal(rl_gguf_n_tensors(gguf), 93);
    assert_non_null(rl_gguf_find_tensor(gguf, "blk.4.nextn.eh_proj.weight"));
    rl_weights_close(&weights);
    rl_gguf_close(gguf);
}

RL_TEST_MAIN(RL_TEST(gguf_write, round_trip), RL_TEST(gguf_write, repeats_a_file),
             RL_TEST(gguf_write, splits), RL_TEST(gguf_write, leaves_no_half_file),
             RL_TEST(gguf_write, refuses), RL_TEST(remake, legacy_rows),
             RL_TEST(remake, mtp_block_is_ignored))
