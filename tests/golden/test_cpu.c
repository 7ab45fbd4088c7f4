/* test_cpu.c - the cpu backend against the stored numbers of every fixture model.
 *
 * `exact` computes in f32 on decoded weights and must pass the float gate, and so must every other
 * table on plain files. */
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
    golden_sequences(&setup, 1, &r);
    assert_true(r.worst_abs < 1e-3);
    assert_true(golden_greedy(&setup, 2e-3) >= 8);
    setup.kv_f16 = true;
    golden_sequences(&setup, 7, &r);
    assert_true(r.worst_abs < 1e-2);
}

/* Plain files are multiplied in f32 by every table. */
static void every_table(const char *file)
{
    for (uint32_t i = 0; i < rl_cpu_kernels_count(); i++)
        if (rl_cpu_kernels_at(i) && strcmp(rl_cpu_kernels_name(i), "exact"))
            float_gate(file, rl_cpu_kernels_name(i));
}

#define X(name, file, plain, kl)                                                                   \
    static void cpu_exact_##name(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        float_gate(file, "exact");                                                                 \
        if (plain) every_table(file);                                                              \
    }
MODEL_LIST(X)
#undef X

#define X(name, file, plain, kl) RL_TEST(cpu, exact_##name),
RL_TEST_MAIN(MODEL_LIST(X))
