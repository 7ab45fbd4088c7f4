/* test_cpu.c - the cpu backend against the stored numbers of every fixture model.
 *
 * `exact` computes in f32 on decoded weights and must pass the float gate; every other table rounds
 * activations to 8 bits and is judged by the 8-bit gate, except on plain files, where it rounds
 * nothing. */
#include "support/golden.h"

#include "backend/cpu/cpu_kernels.h"
#include "golden/models.h"

static golden_setup setup_for(const char *file, const char *isa)
{
    return (golden_setup){ .model = rl_test_fixture("models/%s.gguf", file),
                           .expect = rl_test_fixture("models/%s", file),
                           .backend = "cpu",
                           .isa = isa };
}

/* Float gate: max abs difference < 1e-3 with an f32 cache, < 1e-2 with f16; the same top-1 and the
 * same greedy text where the stored gap is larger than that. */
static void float_gate(const char *file, const char *isa)
{
    golden_setup setup = setup_for(file, isa);
    golden_result r;
    golden_trace(&setup, 1e-4);
    golden_sequences(&setup, 0, &r);
    assert_true(r.worst_abs < 1e-3);
    assert_int_equal(r.same_top1, r.positions);
    assert_true(golden_greedy(&setup, 2e-3) >= 8);
    setup.kv_f16 = true;
    golden_sequences(&setup, 7, &r);
    assert_true(r.worst_abs < 1e-2);
}

/* 8-bit gate. The six sequences have 28 stored positions. */
static void rounded_gate(const char *file, const char *isa, uint32_t piece, double kl)
{
    golden_setup setup = setup_for(file, isa);
    golden_result r;
    golden_sequences(&setup, piece, &r);
    assert_true(r.mean_kl <= kl);
    assert_true(r.max_kl <= 0.15);
    assert_true(r.same_top1 + 3 >= r.positions);
    assert_true(r.nll_difference < 0.05 && r.nll_difference > -0.05);
}

static void check_rounded(const char *file, bool plain, double kl)
{
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++) {
        const char *isa = rl_cpu_kernels_name(i);
        if (!rl_cpu_kernels_at(i) || !strcmp(isa, "exact")) continue;
        if (plain)
            float_gate(file, isa);
        else
            rounded_gate(file, isa, 0, kl);
    }
    /* Token by token gives the same bits per product (kernel.cpu), so one table is enough. */
    if (!plain) rounded_gate(file, NULL, 1, kl);
}

#define X(name, file, plain, kl)                                                                   \
    static void cpu_exact_##name(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        float_gate(file, "exact");                                                                 \
    }                                                                                              \
    static void cpu_default_##name(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        check_rounded(file, plain, kl);                                                            \
    }
MODEL_LIST(X)
#undef X

#define X(name, file, plain, kl) RL_TEST(cpu, exact_##name), RL_TEST(cpu, default_##name),
RL_TEST_MAIN(MODEL_LIST(X))
