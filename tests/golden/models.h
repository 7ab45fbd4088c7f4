/* models.h - the fixture models that every backend is tested with. */
#ifndef RL_TESTS_GOLDEN_MODELS_H
#define RL_TESTS_GOLDEN_MODELS_H

/* X(name, file, plain: weights are F32, F16 or BF16, mean KL that the 8-bit gate allows) */
#define MODEL_LIST(X)                                                                              \
    X(tiny_s_f32, "tiny-s-F32", 1, 0)                                                              \
    X(tiny_s_f16, "tiny-s-F16", 1, 0)                                                              \
    X(tiny_s_bf16, "tiny-s-BF16", 1, 0)                                                            \
    X(tiny_s_q8_0, "tiny-s-Q8_0", 0, 2e-3)                                                         \
    X(tiny_a_iq2_xxs, "tiny-a-IQ2_XXS", 0, 2e-3)                                                   \
    X(tiny_a_q2_k, "tiny-a-Q2_K", 0, 1.5e-3)                                                       \
    X(tiny_a_mix, "tiny-a-MIX", 0, 2e-3)                                                           \
    X(tiny_b_iq2_xxs, "tiny-b-IQ2_XXS", 0, 2e-3)                                                   \
    X(demo_mix, "demo-mix", 0, 1e-3)

#endif
