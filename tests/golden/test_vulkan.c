/* test_vulkan.c - the vulkan backend against the stored numbers of every fixture model, on whatever
 * Vulkan device is there. The float gate: f32 arithmetic on exactly decoded weights. */
#include "support/golden.h"

#include "golden/models.h"

#ifdef RL_HAVE_VULKAN
#include "support/vulkan.h"

/* Whole sequences and token by token; where `pieces`, also batches of seven, cut anywhere, with an f16
 * cache. Stands against a kernel that is right only for some batch sizes. */
static void float_gate(const char *file, bool pieces)
{
    rl_vk_device_close(rl_test_vulkan_open()); /* skips without a device */
    golden_setup setup = { .model = rl_test_fixture("models/%s.gguf", file),
                           .expect = rl_test_fixture("models/%s", file),
                           .backend = "vulkan" };
    golden_result r;
    golden_trace(&setup, 1e-4);
    golden_sequences(&setup, 0, &r);
    assert_true(r.worst_abs < 1e-3);
    assert_int_equal(r.same_top1, r.positions);
    assert_true(golden_greedy(&setup, 2e-3) >= 8);
    if (!pieces) return;
    setup.kv_f16 = true;
    golden_sequences(&setup, 7, &r);
    assert_true(r.worst_abs < 1e-2);
}
#else
static void float_gate(const char *file, bool pieces)
{
    (void)file;
    (void)pieces;
    rl_test_skip("built without the Vulkan backend");
}
#endif

#define X(name, file, plain, kl)                                                                   \
    static void vulkan_##name(void **state)                                                        \
    {                                                                                              \
        (void)state;                                                                               \
        float_gate(file, !strcmp(file, "tiny-s-F32") || !strcmp(file, "tiny-b-IQ2_XXS"));          \
    }
MODEL_LIST(X)
#undef X

#define X(name, file, plain, kl) RL_TEST(vulkan, name),
RL_TEST_MAIN(MODEL_LIST(X))
