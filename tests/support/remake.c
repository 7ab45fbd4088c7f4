/* remake.c - tests/support/remake.h. */
#include "support/remake.h"

#include <unistd.h>

#include "base/bytes.h"
#include "gguf/gguf_write.h"
#include "model/weights.h"
#include "quant/quant.h"
#include "support/test.h"

/* ---- copying -------------------------------------------------------------------------------- */

static rl_gguf *open_source(const char *path)
{
    rl_error err = { "" };
    rl_gguf *gguf = NULL;
    assert_ok(rl_gguf_open(&gguf, path, &err));
    return gguf;
}

static rl_gguf_writer *create(const char *path)
{
    rl_error err = { "" };
    rl_gguf_writer *writer = NULL;
    assert_ok(rl_gguf_writer_create(&writer, path, NULL, &err));
    return writer;
}

static void finish(rl_gguf_writer *writer)
{
    rl_error err = { "" };
    assert_ok(rl_gguf_writer_finish(writer, &err));
    rl_gguf_writer_destroy(writer);
}

static void copy_keys(rl_gguf_writer *writer, const rl_gguf *gguf, const char *without)
{
    for (uint64_t i = 0; i < rl_gguf_n_keys(gguf); i++) {
        rl_gguf_value value;
        const char *key = rl_gguf_key_at(gguf, i, &value);
        if (!strcmp(key, "general.alignment") || !strncmp(key, "split.", 6)) continue;
        if (without && !strcmp(key, without)) continue;
        rl_gguf_writer_copy(writer, key, gguf, &value);
    }
}

static void *read_tensor(const rl_gguf *gguf, const rl_gguf_tensor *tensor)
{
    rl_error err = { "" };
    void *bytes = malloc((size_t)tensor->bytes);
    assert_non_null(bytes);
    assert_ok(rl_file_read(rl_gguf_part(gguf, tensor->part), tensor->offset, bytes,
                           (size_t)tensor->bytes, &err));
    return bytes;
}

static void append(rl_gguf_writer *writer, const void *bytes, size_t n)
{
    rl_error err = { "" };
    assert_ok(rl_gguf_writer_append(writer, bytes, n, &err));
}

static void copy_data(rl_gguf_writer *writer, const rl_gguf *gguf, const rl_gguf_tensor *tensor)
{
    void *bytes = read_tensor(gguf, tensor);
    append(writer, bytes, (size_t)tensor->bytes);
    free(bytes);
}

static void declare(rl_gguf_writer *writer, const rl_gguf_tensor *tensor)
{
    rl_gguf_writer_tensor(writer, tensor->name, tensor->type, tensor->n_dims, tensor->dims);
}

/* ---- three parts ---------------------------------------------------------------------------- */

static void make_split(const char *source, const char *out)
{
    rl_error err = { "" };
    rl_gguf *gguf = open_source(source);
    rl_gguf_writer *writer = create(out);
    uint64_t n = rl_gguf_n_tensors(gguf);
    copy_keys(writer, gguf, NULL);
    for (uint64_t i = 0; i < n; i++) {
        if (i == n / 3 || i == 2 * n / 3) rl_gguf_writer_next_part(writer);
        declare(writer, rl_gguf_tensor_at(gguf, i));
    }
    assert_ok(rl_gguf_writer_begin(writer, &err));
    for (uint64_t i = 0; i < n; i++)
        copy_data(writer, gguf, rl_gguf_tensor_at(gguf, i));
    finish(writer);
    rl_gguf_close(gguf);
}

/* ---- fused ssm_in --------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Moves rows of the modern tensor back to where the legacy one had them. */
static void scatter_rows(const rl_gguf *gguf, const rl_gguf_tensor *modern, const rl_row_run *runs,
                         uint32_t n, unsigned char *fused)
{
    size_t row = (size_t)rl_tensor_row_bytes(modern);
    unsigned char *bytes = read_tensor(gguf, modern);
    for (uint32_t i = 0; i < n; i++)
        memcpy(fused + runs[i].source * row, bytes + runs[i].target * row, runs[i].rows * row);
    free(bytes);
}

static void write_fused(rl_gguf_writer *writer, const rl_gguf *gguf, const rl_config *config,
                        const rl_gguf_tensor *qkv, const rl_gguf_tensor *gate)
{
    rl_row_run runs[3 * 64];
    unsigned char *fused = malloc((size_t)(qkv->bytes + gate->bytes));
    assert_true(fused && config->n_key_head <= 64 && qkv->type == gate->type);
    scatter_rows(gguf, qkv, runs, rl_weights_qkv_runs(config, runs), fused);
    scatter_rows(gguf, gate, runs, rl_weights_gate_runs(config, runs), fused);
    append(writer, fused, (size_t)(qkv->bytes + gate->bytes));
    free(fused);
}

static void make_legacy(const char *source, const char *out)
{
    rl_error err = { "" };
    rl_gguf *gguf = open_source(source);
    rl_gguf_writer *writer = create(out);
    rl_config config;
    assert_ok(rl_config_read(&config, gguf, &err));
    copy_keys(writer, gguf, NULL);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < rl_gguf_n_tensors(gguf); i++) {
            const rl_gguf_tensor *tensor = rl_gguf_tensor_at(gguf, i);
            if (ends_with(tensor->name, ".attn_gate.weight")) continue;
            if (!ends_with(tensor->name, ".attn_qkv.weight")) {
                if (pass)
                    copy_data(writer, gguf, tensor);
                else
                    declare(writer, tensor);
                continue;
            }
            char name[96];
            snprintf(name, sizeof name, "%.*s.attn_gate.weight",
                     (int)(strlen(tensor->name) - strlen(".attn_qkv.weight")), tensor->name);
            const rl_gguf_tensor *gate = rl_gguf_find_tensor(gguf, name);
            assert_non_null(gate);
            snprintf(name, sizeof name, "%.*s.ssm_in.weight",
                     (int)(strlen(tensor->name) - strlen(".attn_qkv.weight")), tensor->name);
            uint64_t dims[2] = { tensor->dims[0], tensor->dims[1] + gate->dims[1] };
            if (pass)
                write_fused(writer, gguf, &config, tensor, gate);
            else
                rl_gguf_writer_tensor(writer, name, tensor->type, 2, dims);
        }
        if (!pass) assert_ok(rl_gguf_writer_begin(writer, &err));
    }
    finish(writer);
    rl_gguf_close(gguf);
}

/* ---- one MTP block -------------------------------------------------------------------------- */

/* Random but finite weights of small size. */
static void write_random(rl_gguf_writer *writer, uint32_t type, uint64_t n, uint64_t *seed)
{
    assert_true(type == RL_QUANT_F32 || type == RL_QUANT_Q8_0);
    if (type == RL_QUANT_F32) {
        for (uint64_t i = 0; i < n; i++) {
            float value = 0.1f * rl_test_random_normal(seed);
            append(writer, &value, sizeof value);
        }
        return;
    }
    for (uint64_t i = 0; i < n / 32; i++) {
        rl_block_q8_0 block;
        uint16_t scale = rl_f16_from_f32(0.002f);
        memcpy(block.d, &scale, 2);
        for (int k = 0; k < 32; k++)
            block.qs[k] = (int8_t)(rl_test_random(seed) >> 56);
        append(writer, &block, sizeof block);
    }
}

static void make_mtp(const char *source, const char *out)
{
    rl_error err = { "" };
    rl_gguf *gguf = open_source(source);
    rl_gguf_writer *writer = create(out);
    rl_config c;
    assert_ok(rl_config_read(&c, gguf, &err));
    uint32_t last = c.n_layer - 1; /* an attention layer: the model for the new block */
    uint64_t seed = 20, n = rl_gguf_n_tensors(gguf);
    const struct {
        const char *name;
        uint32_t type, n_dims;
        uint64_t dims[2];
    } extra[] = {
        { "nextn.eh_proj.weight", RL_QUANT_Q8_0, 2, { 2 * (uint64_t)c.n_embd, c.n_embd } },
        { "nextn.enorm.weight", RL_QUANT_F32, 1, { c.n_embd, 1 } },
        { "nextn.hnorm.weight", RL_QUANT_F32, 1, { c.n_embd, 1 } },
        { "nextn.shared_head_norm.weight", RL_QUANT_F32, 1, { c.n_embd, 1 } },
    };
    char prefix[16], name[96];
    assert_false(c.recurrent[last]);
    snprintf(prefix, sizeof prefix, "blk.%u.", last);
    copy_keys(writer, gguf, "qwen3next.block_count");
    rl_gguf_writer_u32(writer, "qwen3next.block_count", c.n_layer + 1);
    rl_gguf_writer_u32(writer, "qwen3next.nextn_predict_layers", 1);
    for (uint64_t i = 0; i < n; i++)
        declare(writer, rl_gguf_tensor_at(gguf, i));
    for (uint64_t i = 0; i < n; i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(gguf, i);
        if (strncmp(t->name, prefix, strlen(prefix))) continue;
        snprintf(name, sizeof name, "blk.%u.%s", last + 1, t->name + strlen(prefix));
        rl_gguf_writer_tensor(writer, name, t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < RL_COUNT_OF(extra); i++) {
        snprintf(name, sizeof name, "blk.%u.%s", last + 1, extra[i].name);
        rl_gguf_writer_tensor(writer, name, extra[i].type, extra[i].n_dims, extra[i].dims);
    }
    assert_ok(rl_gguf_writer_begin(writer, &err));
    for (uint64_t i = 0; i < n; i++)
        copy_data(writer, gguf, rl_gguf_tensor_at(gguf, i));
    for (uint64_t i = 0; i < n; i++) {
        const rl_gguf_tensor *t = rl_gguf_tensor_at(gguf, i);
        if (!strncmp(t->name, prefix, strlen(prefix)))
            write_random(writer, t->type, t->dims[0] * rl_tensor_rows(t), &seed);
    }
    for (size_t i = 0; i < RL_COUNT_OF(extra); i++)
        write_random(writer, extra[i].type, extra[i].dims[0] * extra[i].dims[1], &seed);
    finish(writer);
    rl_gguf_close(gguf);
}

/* ---- models by name ------------------------------------------------------------------------- */

static const struct {
    const char *name, *source;
    void (*make)(const char *source, const char *out);
    const char *tail; /* of the file to name */
} made[] = {
    { "tiny-s-split-F16", "tiny-s-F16", make_split, "-00001-of-00003.gguf" },
    { "tiny-s-legacy-Q8_0", "tiny-s-Q8_0", make_legacy, ".gguf" },
    { "tiny-s-mtp-Q8_0", "tiny-s-Q8_0", make_mtp, ".gguf" },
};

const char *rl_test_model_source(const char *name)
{
    for (size_t i = 0; i < RL_COUNT_OF(made); i++)
        if (!strcmp(made[i].name, name)) return made[i].source;
    return name;
}

static void remove_made(void)
{
    for (size_t i = 0; i < RL_COUNT_OF(made); i++) {
        remove(rl_test_scratch("%s.%ld.gguf", made[i].name, (long)getpid()));
        for (int part = 1; part <= 3; part++)
            remove(
                rl_test_scratch("%s.%ld-%05d-of-00003.gguf", made[i].name, (long)getpid(), part));
    }
}

const char *rl_test_model(const char *name)
{
    static bool done[RL_COUNT_OF(made)], cleaning;
    for (size_t i = 0; i < RL_COUNT_OF(made); i++) {
        if (strcmp(made[i].name, name)) continue;
        if (!cleaning) atexit(remove_made);
        cleaning = true;
        if (!done[i])
            made[i].make(rl_test_fixture("models/%s.gguf", made[i].source),
                         rl_test_scratch("%s.%ld.gguf", name, (long)getpid()));
        done[i] = true;
        return rl_test_scratch("%s.%ld%s", name, (long)getpid(), made[i].tail);
    }
    return rl_test_fixture("models/%s.gguf", name);
}

/* ---- single changes ------------------------------------------------------------------------- */

static const char *full_name(const rl_test_change *change, char *room, size_t bytes)
{
    snprintf(room, bytes, "%s%s", change->name[0] == '.' ? "qwen3next" : "", change->name);
    return room;
}

static bool is_key(const rl_test_change *change)
{
    return change->kind <= RL_TEST_DROP_KEY;
}

static void write_key(rl_gguf_writer *writer, const rl_test_change *change)
{
    char key[128];
    int32_t i32 = (int32_t)change->number, numbers[64];
    uint8_t bools[64];
    full_name(change, key, sizeof key);
    assert_true(change->count <= 64);
    for (uint32_t i = 0; i < change->count; i++) {
        numbers[i] = i == change->at ? change->other : i32;
        bools[i] = numbers[i] != 0;
    }
    switch (change->kind) {
    case RL_TEST_SET_U32: rl_gguf_writer_u32(writer, key, (uint32_t)change->number); break;
    case RL_TEST_SET_I32: rl_gguf_writer_scalar(writer, key, RL_GGUF_I32, &i32); break;
    case RL_TEST_SET_U64: rl_gguf_writer_scalar(writer, key, RL_GGUF_U64, &change->number); break;
    case RL_TEST_SET_F32: rl_gguf_writer_f32(writer, key, (float)change->real); break;
    case RL_TEST_SET_TEXT: rl_gguf_writer_text(writer, key, change->text); break;
    case RL_TEST_SET_I32S:
        rl_gguf_writer_array(writer, key, RL_GGUF_I32, numbers, change->count);
        break;
    case RL_TEST_SET_BOOLS:
        rl_gguf_writer_array(writer, key, RL_GGUF_BOOL, bools, change->count);
        break;
    default: break;
    }
}

static const rl_test_change *find_change(const rl_test_change *changes, size_t n, const char *name,
                                         bool key)
{
    char full[128];
    for (size_t i = 0; i < n; i++)
        if (is_key(&changes[i]) == key && changes[i].kind != RL_TEST_ADD_TENSOR &&
            !strcmp(full_name(&changes[i], full, sizeof full), name))
            return &changes[i];
    return NULL;
}

static void declare_changed(rl_gguf_writer *writer, const rl_test_change *change)
{
    uint32_t n_dims = 0;
    while (n_dims < 4 && change->dims[n_dims])
        n_dims++;
    rl_gguf_writer_tensor(writer, change->name, (uint32_t)change->number, n_dims, change->dims);
}

static void write_zeros(rl_gguf_writer *writer)
{
    static const char zeros[1024];
    uint64_t tensor, first, left;
    assert_true(rl_gguf_writer_due(writer, &first));
    while ((left = rl_gguf_writer_due(writer, &tensor)) && tensor == first)
        append(writer, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros);
}

void rl_test_edit(const char *source, const char *out, const rl_test_change *changes, size_t n)
{
    rl_error err = { "" };
    rl_gguf *gguf = open_source(source);
    rl_gguf_writer *writer = create(out);
    for (uint64_t i = 0; i < rl_gguf_n_keys(gguf); i++) {
        rl_gguf_value value;
        const char *key = rl_gguf_key_at(gguf, i, &value);
        if (!strcmp(key, "general.alignment") || !strncmp(key, "split.", 6)) continue;
        if (!find_change(changes, n, key, true)) rl_gguf_writer_copy(writer, key, gguf, &value);
    }
    for (size_t i = 0; i < n; i++)
        if (is_key(&changes[i])) write_key(writer, &changes[i]);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < rl_gguf_n_tensors(gguf); i++) {
            const rl_gguf_tensor *tensor = rl_gguf_tensor_at(gguf, i);
            const rl_test_change *change = find_change(changes, n, tensor->name, false);
            if (change && change->kind == RL_TEST_DROP_TENSOR) continue;
            bool reshaped = change && change->kind == RL_TEST_RESHAPE;
            if (pass && reshaped)
                write_zeros(writer);
            else if (pass)
                copy_data(writer, gguf, tensor);
            else if (reshaped)
                declare_changed(writer, change);
            else
                rl_gguf_writer_tensor(writer, change ? change->text : tensor->name, tensor->type,
                                      tensor->n_dims, tensor->dims);
        }
        for (size_t i = 0; i < n; i++) {
            if (changes[i].kind != RL_TEST_ADD_TENSOR) continue;
            if (pass)
                write_zeros(writer);
            else
                declare_changed(writer, &changes[i]);
        }
        if (!pass) assert_ok(rl_gguf_writer_begin(writer, &err));
    }
    finish(writer);
    rl_gguf_close(gguf);
}
