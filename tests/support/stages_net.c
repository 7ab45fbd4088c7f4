/* stages_net.c - tests/support/stages_net.h. */
#include "support/stages_net.h"

#include <math.h>

#include "base/bytes.h"
#include "quant/quant.h"
#include "support/test.h"

enum { F32 = RL_QUANT_F32, F16 = RL_QUANT_F16 };

static void fill_bytes(rl_test_net *n, uint32_t type, uint64_t values, float spread, void *out)
{
    for (uint64_t i = 0; i < values; i++) {
        const float x = rl_test_random_normal(&n->seed) * spread;
        if (type == F32) {
            ((float *)out)[i] = x;
        } else if (type == F16) {
            ((uint16_t *)out)[i] = rl_f16_from_f32(x);
        } else { /* Q8_0: a scale and 32 bytes */
            uint8_t *block = (uint8_t *)out + i / 32 * 34;
            const uint16_t d = rl_f16_from_f32(spread / 40);
            memcpy(block, &d, 2);
            float q = x / (spread / 40);
            q = q > 127 ? 127 : q < -127 ? -127 : q;
            block[2 + i % 32] = (uint8_t)(int8_t)lrintf(q);
        }
    }
}

static float *add_weight(rl_test_net *n, rl_weight *w, uint32_t type, uint32_t rows, uint32_t cols,
                         float spread, float centre)
{
    rl_error err = { "" };
    *w = (rl_weight){ .type = type, .rows = rows, .cols = cols };
    assert_ok(n->ops->weight_alloc(n->be, w, "test.weight", &err));
    const uint64_t values = (uint64_t)rows * cols;
    uint8_t *bytes = malloc(w->bytes);
    fill_bytes(n, type, values, spread, bytes);
    if (centre != 0)
        for (uint64_t i = 0; i < values; i++)
            ((float *)(void *)bytes)[i] += centre;
    const uint64_t half = w->bytes / 3; /* in two writes */
    assert_ok(n->ops->weight_write(n->be, w, 0, bytes, half, &err));
    assert_ok(n->ops->weight_write(n->be, w, half, bytes + half, w->bytes - half, &err));
    float *plain = malloc(values * sizeof *plain);
    rl_quant_decode(rl_quant_find(type), bytes, values, plain);
    free(bytes);
    assert_true(n->n_plain < 256);
    n->weight[n->n_plain] = w;
    n->plain[n->n_plain++] = plain;
    return plain;
}

const float *rl_test_net_plain(const rl_test_net *n, const rl_weight *w)
{
    for (uint32_t i = 0; i < n->n_plain; i++)
        if (n->weight[i] == w) return n->plain[i];
    fail_msg("no such weight");
    return NULL;
}

static void add_experts(rl_test_net *n, uint32_t layer, uint32_t type, uint32_t down_type)
{
    rl_error err = { "" };
    const rl_shape *s = &n->net.shape;
    rl_expert_layout *e = &n->layers[layer].expert;
    const uint64_t values = (uint64_t)s->n_ff_expert * s->n_embd;
    for (int part = 0; part < 3; part++)
        n->experts[layer][part] = malloc(values * s->n_expert * sizeof(float));
    uint8_t *slot = malloc(e->bytes);
    for (uint32_t x = 0; x < s->n_expert; x++) {
        fill_bytes(n, type, values, 1.5f / sqrtf((float)s->n_embd), slot + e->gate_offset);
        fill_bytes(n, type, values, 1.5f / sqrtf((float)s->n_embd), slot + e->up_offset);
        fill_bytes(n, down_type, values, 1.5f / sqrtf((float)s->n_ff_expert),
                   slot + e->down_offset);
        rl_quant_decode(rl_quant_find(type), slot + e->gate_offset, values,
                        n->experts[layer][0] + x * values);
        rl_quant_decode(rl_quant_find(type), slot + e->up_offset, values,
                        n->experts[layer][1] + x * values);
        rl_quant_decode(rl_quant_find(down_type), slot + e->down_offset, values,
                        n->experts[layer][2] + x * values);
        /* Slots in another order than experts. */
        const uint32_t index = layer * s->n_expert + (s->n_expert - 1 - x);
        if (x % 2)
            memcpy(n->ops->slot_host(n->be, 1, index), slot, e->bytes);
        else
            assert_ok(n->ops->slot_write(n->be, 1, index, 0, slot, e->bytes, &err));
        n->ops->residency_set(n->be, layer, x, n->ops->slot_address(n->be, 1, index));
    }
    free(slot);
}

rl_test_net *rl_test_net_create(const rl_test_net_params *p)
{
    rl_error err = { "" };
    rl_test_net *n = calloc(1, sizeof *n);
    n->ops = &rl_backend_cpu;
    n->seed = 42;
    assert_ok(
        n->ops->open(&n->be, &(rl_backend_params){ .n_threads = p->threads, .isa = p->isa }, &err));
    rl_shape *s = &n->net.shape;
    *s = p->shape;
    n->net.layers = n->layers;
    const float in = 1.5f / sqrtf((float)s->n_embd);
    const uint32_t h = s->n_embd, dense = p->dense_type;
    add_weight(n, &n->net.embedding, dense, s->n_vocab, h, 1, 0);
    add_weight(n, &n->net.output_norm, F32, 1, h, 0.3f, 1);
    add_weight(n, &n->net.head, dense, s->n_vocab, h, in, 0);
    const uint32_t vd = s->n_value_head * s->delta_dim, channels = rl_shape_conv_channels(s);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        rl_layer *l = &n->layers[i];
        l->recurrent = p->recurrent[i] == 'G';
        l->guessed = i > 0;
        add_weight(n, &l->mix_norm, F32, 1, h, 0.3f, 1);
        add_weight(n, &l->moe_norm, F32, 1, h, 0.3f, 1);
        if (l->recurrent) {
            rl_delta_weights *w = &l->delta;
            add_weight(n, &w->qkv, dense, channels, h, in, 0);
            add_weight(n, &w->gate, dense, vd, h, in, 0);
            add_weight(n, &w->ba, dense, 2 * s->n_value_head, h, in, 0);
            add_weight(n, &w->conv, F32, channels, s->conv_taps, 0.6f, 0);
            add_weight(n, &w->dt, F32, 1, s->n_value_head, 1, 0);
            float *a = add_weight(n, &w->a, F32, 1, s->n_value_head, 0.2f, 0.3f);
            for (uint32_t j = 0; j < s->n_value_head; j++)
                a[j] = -fabsf(a[j]);
            assert_ok(n->ops->weight_write(n->be, &w->a, 0, a, w->a.bytes, &err));
            add_weight(n, &w->norm, F32, 1, s->delta_dim, 0.3f, 1);
            add_weight(n, &w->out, dense, h, vd, 1.0f / sqrtf((float)vd), 0);
        } else {
            rl_attn_weights *w = &l->attn;
            const uint32_t d = s->head_dim;
            add_weight(n, &w->q, dense, 2 * s->n_head * d, h, in, 0);
            add_weight(n, &w->k, dense, s->n_head_kv * d, h, in, 0);
            add_weight(n, &w->v, dense, s->n_head_kv * d, h, in, 0);
            add_weight(n, &w->q_norm, F32, 1, d, 0.3f, 1.5f);
            add_weight(n, &w->k_norm, F32, 1, d, 0.3f, 1.5f);
            add_weight(n, &w->out, dense, h, s->n_head * d, 1.5f / sqrtf((float)s->n_head * d), 0);
        }
        add_weight(n, &l->router, F32, s->n_expert, h, in, 0);
        add_weight(n, &l->shared_scale, F32, 1, h, in, 0);
        add_weight(n, &l->shared_gate, dense, s->n_ff_shared, h, in, 0);
        add_weight(n, &l->shared_up, dense, s->n_ff_shared, h, in, 0);
        add_weight(n, &l->shared_down, dense, h, s->n_ff_shared,
                   1.5f / sqrtf((float)s->n_ff_shared), 0);
        uint64_t part, down;
        const uint64_t values = (uint64_t)s->n_ff_expert * h;
        assert_true(rl_quant_bytes(rl_quant_find(p->expert_type), values, &part));
        assert_true(rl_quant_bytes(rl_quant_find(p->down_type), values, &down));
        l->expert = (rl_expert_layout){ .gate_type = p->expert_type,
                                        .up_type = p->expert_type,
                                        .down_type = p->down_type,
                                        .gate_offset = down,
                                        .up_offset = down + part,
                                        .down_offset = 0,
                                        .bytes = down + 2 * part,
                                        .slot_class = 1 };
    }
    const uint64_t bytes[2] = { 4096, n->layers[0].expert.bytes };
    const uint32_t count[2] = { 1, s->n_layer * s->n_expert };
    assert_ok(n->ops->pool_create(n->be, 2, bytes, count, &err));
    assert_ok(n->ops->attach(n->be, &n->net, p->max_batch, &err));
    for (uint32_t i = 0; i < s->n_layer; i++)
        add_experts(n, i, p->expert_type, p->down_type);
    return n;
}

void rl_test_net_destroy(rl_test_net *n)
{
    n->ops->close(n->be);
    for (uint32_t i = 0; i < n->n_plain; i++)
        free(n->plain[i]);
    for (uint32_t i = 0; i < RL_TEST_NET_LAYERS; i++)
        for (int part = 0; part < 3; part++)
            free(n->experts[i][part]);
    free(n);
}
