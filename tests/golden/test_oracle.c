/* test_oracle.c - the oracle backend against the stored numbers of every fixture model. */
#include "support/golden.h"

#include "golden/models.h"

/* Oracle gate: relative L2 <= 1e-5 on plain files, <= 1e-4 on quantised ones, f32 KV. */
static void check(const char *file, bool plain)
{
    golden_setup setup = { .model = rl_test_fixture("models/%s.gguf", file),
                           .expect = rl_test_fixture("models/%s", file),
                           .backend = "oracle" };
    golden_result r;
    golden_trace(&setup, plain ? 1e-5 : 1e-4);
    golden_sequences(&setup, 0, &r);
    assert_true(r.worst_l2 <= (plain ? 1e-5 : 1e-4));
    assert_int_equal(r.same_top1, r.positions);
    assert_true(golden_greedy(&setup, 1e-3) >= 8);
}

#define X(name, file, plain, kl)                                                                   \
    static void oracle_##name(void **state)                                                        \
    {                                                                                              \
        (void)state;                                                                               \
        check(file, plain);                                                                        \
    }
MODEL_LIST(X)
#undef X

#define X(name, file, plain, kl) RL_TEST(oracle, name),
RL_TEST_MAIN(MODEL_LIST(X))
