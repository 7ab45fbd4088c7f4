/* fuzz_gguf.c - arbitrary bytes as a GGUF file, through everything that looks at one when a model
 * is opened: container, hyper-parameters, tensors, tokenizer, summary.
 *
 * Input that starts with "TWO" and a 16-bit number n is a split file: n bytes of first part, and
 * the rest as the second one.
 *
 * What must hold, whatever the bytes:
 *   - a refusal has a sentence, and leaves nothing behind (the sanitizers watch)
 *   - tensors lie inside their file, experts inside their tensors
 *   - what opened can be written again, and what was written opens with the same contents */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "gguf/gguf_write.h"
#include "model/summary.h"
#include "quant/quant.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- files in memory -------------------------------------------------------------------------- */

static char folder[64];

static void remove_folder(void)
{
    char path[128];
    for (int part = 1; part <= 2; part++) {
        snprintf(path, sizeof path, "%s/x-%05d-of-00002.gguf", folder, part);
        unlink(path);
    }
    rmdir(folder);
}

/* The parts of a split file need names; these are links to the files in memory. */
static void make_folder(void)
{
    if (folder[0]) return;
    snprintf(folder, sizeof folder, "/tmp/fuzz_gguf.XXXXXX");
    CHECK(mkdtemp(folder));
    atexit(remove_folder);
}

static int memory_file(const uint8_t *data, size_t bytes, int part, char path[128])
{
    char target[64];
    int fd = memfd_create("fuzz_gguf", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(bytes == 0 || write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    snprintf(path, 128, "%s", target);
    if (part) {
        make_folder();
        snprintf(path, 128, "%s/x-%05d-of-00002.gguf", folder, part);
        unlink(path);
        CHECK(symlink(target, path) == 0);
    }
    return fd;
}

/* ---- what opened ------------------------------------------------------------------------------ */

static void check_values(const rl_gguf *gguf)
{
    for (uint64_t i = 0; i < rl_gguf_n_keys(gguf); i++) {
        rl_gguf_value value, again;
        rl_error err = { "" };
        const char *key = rl_gguf_key_at(gguf, i, &value);
        CHECK(rl_gguf_find(gguf, key, &again) && again.data == value.data);
        uint32_t u32;
        float f32;
        bool flag, found;
        rl_gguf_string text;
        int fits = 0;
        fits += rl_gguf_get_u32(gguf, key, &u32, &found, &err) == RL_OK;
        fits += rl_gguf_get_f32(gguf, key, &f32, &found, &err) == RL_OK;
        fits += rl_gguf_get_bool(gguf, key, &flag, &found, &err) == RL_OK;
        fits += rl_gguf_get_string(gguf, key, &text, &found, &err) == RL_OK;
        CHECK(found && fits <= 1 && (fits || err.text[0]));
        uint64_t sum = 0;
        for (uint64_t k = 0; value.type == RL_GGUF_ARRAY && k < value.count; k++) {
            if (value.element == RL_GGUF_STRING) {
                text = rl_gguf_array_string(gguf, &value, k);
                sum += text.bytes ? (unsigned char)text.data[text.bytes - 1] : 0;
            } else if (value.element != RL_GGUF_F32 && value.element != RL_GGUF_F64) {
                sum += (uint64_t)rl_gguf_array_int(&value, k);
            }
        }
        CHECK(sum != 0x123456789abcdefu); /* so that the reads stay */
    }
}

static void check_tensors(const rl_gguf *gguf)
{
    for (uint64_t i = 0; i < rl_gguf_n_tensors(gguf); i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(gguf, i);
        uint64_t size = rl_file_size(rl_gguf_part(gguf, t->part));
        CHECK(t->bytes && t->offset <= size && t->bytes <= size - t->offset);
        CHECK(rl_gguf_find_tensor(gguf, t->name) == t);
        CHECK(strcmp(rl_gguf_tensor_type_name(t), "unknown"));
    }
}

static void check_experts(const rl_weights *weights)
{
    const rl_config *c = weights->config;
    for (uint32_t l = 0; l < c->n_layer; l++)
        for (uint32_t e = 0; e<c->n_expert; e += c->n_expert> 1 ? c->n_expert - 1 : 1) {
            rl_slice slices[RL_EXPERT_MATRICES];
            uint64_t sum = 0;
            rl_weights_expert(weights, l, e, slices);
            for (int m = 0; m < RL_EXPERT_MATRICES; m++) {
                uint64_t size = rl_file_size(rl_gguf_part(weights->gguf, slices[m].part));
                CHECK(slices[m].offset <= size && slices[m].bytes <= size - slices[m].offset);
                sum += slices[m].bytes;
                CHECK(rl_quant_find(rl_weights_expert_type(&weights->layers[l], (uint32_t)m)));
            }
            CHECK(sum == weights->layers[l].expert_bytes);
        }
}

static void check_model(const rl_gguf *gguf)
{
    rl_error err = { "" };
    static rl_config config;
    static rl_summary summary;
    rl_weights weights;
    if (rl_config_read(&config, gguf, &err)) {
        CHECK(err.text[0]);
        return;
    }
    CHECK(config.n_layer >= 1 && config.n_layer <= RL_MAX_LAYERS);
    CHECK(config.n_expert_used >= 1 && config.n_expert_used <= config.n_expert);
    CHECK(config.n_head % config.n_head_kv == 0 && config.n_value_head % config.n_key_head == 0);
    if (rl_weights_open(&weights, gguf, &config, &err)) {
        CHECK(err.text[0] && !weights.layers);
        return;
    }
    check_experts(&weights);
    rl_summary_make(&summary, &weights);
    CHECK(summary.expert_bytes + summary.dense_bytes + summary.embedding_bytes +
              summary.other_bytes ==
          summary.tensor_bytes);
    rl_weights_close(&weights);
}

static void check_tokenizer(const rl_gguf *gguf)
{
    rl_error err = { "" };
    rl_tokenizer *tokenizer = NULL;
    if (rl_tokenizer_open(&tokenizer, gguf, &err)) CHECK(err.text[0] && !tokenizer);
    rl_tokenizer_close(tokenizer);
}

/* ---- writing it again ------------------------------------------------------------------------- */

static bool can_be_written(const rl_gguf *gguf)
{
    if (rl_gguf_n_tensors(gguf) > 200 || rl_gguf_total_bytes(gguf) > 1 << 20) return false;
    for (uint64_t i = 0; i < rl_gguf_n_tensors(gguf); i++)
        if (!rl_quant_find(rl_gguf_tensor_at(gguf, i)->type)) return false; /* I32 and so on */
    return true;
}

/* In two parts when the number of tensors is odd, and with another alignment than usual. */
static void write_again(const rl_gguf *gguf, const char *path, bool split)
{
    rl_error err = { "" };
    rl_gguf_writer *w = NULL;
    rl_gguf_writer_params params = { .alignment = split ? 128 : 0 };
    CHECK(rl_gguf_writer_create(&w, path, &params, &err) == RL_OK);
    for (uint64_t i = 0; i < rl_gguf_n_keys(gguf); i++) {
        rl_gguf_value value;
        const char *key = rl_gguf_key_at(gguf, i, &value);
        if (strcmp(key, "general.alignment") && strncmp(key, "split.", 6))
            rl_gguf_writer_copy(w, key, gguf, &value);
    }
    uint64_t n = rl_gguf_n_tensors(gguf);
    for (uint64_t i = 0; i < n; i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(gguf, i);
        if (split && i == n / 2) rl_gguf_writer_next_part(w);
        rl_gguf_writer_tensor(w, t->name, t->type, t->n_dims, t->dims);
    }
    CHECK(rl_gguf_writer_begin(w, &err) == RL_OK);
    for (uint64_t i = 0; i < n; i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(gguf, i);
        void *bytes = malloc((size_t)t->bytes);
        CHECK(bytes);
        CHECK(rl_file_read(rl_gguf_part(gguf, t->part), t->offset, bytes, (size_t)t->bytes, &err) ==
              RL_OK);
        CHECK(rl_gguf_writer_append(w, bytes, (size_t)t->bytes, &err) == RL_OK);
        free(bytes);
    }
    CHECK(rl_gguf_writer_finish(w, &err) == RL_OK);
    rl_gguf_writer_destroy(w);
}

static void check_round_trip(const rl_gguf *gguf)
{
    char path[128], second[128];
    rl_error err = { "" };
    rl_gguf *copy = NULL;
    bool split = rl_gguf_n_tensors(gguf) % 2 == 1;
    if (!can_be_written(gguf)) return;
    make_folder();
    snprintf(path, sizeof path, "%s/copy.gguf", folder);
    write_again(gguf, path, split);
    if (split) snprintf(path, sizeof path, "%s/copy-00001-of-00002.gguf", folder);
    snprintf(second, sizeof second, "%s/copy-00002-of-00002.gguf", folder);
    CHECK(rl_gguf_open(&copy, path, &err) == RL_OK);
    unlink(path);
    if (split) unlink(second);
    CHECK(rl_gguf_n_tensors(copy) == rl_gguf_n_tensors(gguf));
    for (uint64_t i = 0; i < rl_gguf_n_tensors(gguf); i++) {
        const rl_gguf_tensor *a = rl_gguf_tensor_at(gguf, i), *b = rl_gguf_tensor_at(copy, i);
        CHECK(!strcmp(a->name, b->name) && a->type == b->type && a->bytes == b->bytes);
        CHECK(!memcmp(a->dims, b->dims, sizeof a->dims));
    }
    rl_gguf_close(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    char first[128], second[128];
    int fd[2] = { -1, -1 };
    if (bytes >= 5 && !memcmp(data, "TWO", 3)) {
        size_t n = rl_load_u16(data + 3);
        if (n > bytes - 5) n = bytes - 5;
        fd[0] = memory_file(data + 5, n, 1, first);
        fd[1] = memory_file(data + 5 + n, bytes - 5 - n, 2, second);
    } else {
        fd[0] = memory_file(data, bytes, 0, first);
    }
    if (rl_gguf_open(&gguf, first, &err)) {
        CHECK(err.text[0] && !gguf);
    } else {
        check_values(gguf);
        check_tensors(gguf);
        check_model(gguf);
        check_tokenizer(gguf);
        check_round_trip(gguf);
    }
    rl_gguf_close(gguf);
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
    return 0;
}
