/* test_vulkan_matvec.c - products of single tokens with weights of every type, against plain C.
 *
 * Weights are the blocks of tests/fixtures/quants laid out anew as matrices of odd shapes, so every
 * code of every type takes part; the reference decodes them with quant/ and sums in double. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>

#include "quant/quant.h"
#include "support/vulkan.h"

/* f32 sums of exactly decoded weights: the worst seen is 6e-7 of the sum of magnitudes. */
#define BOUND 2e-6

static void check(const char *what, uint32_t row, double have, double want, double magnitude)
{
    if (!(fabs(have - want) <= BOUND * magnitude + 1e-30))
        fail_msg("%s row %u: %.9g, expected %.9g +- %.3g", what, row, have, want,
                 BOUND * magnitude);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* How the device that a product is cut for differs from the one that computes it. */
typedef enum cut_for {
    AS_IT_IS,
    EASILY_FILLED, /* teams of many rows */
    FEW_UNITS,     /* a GPU that tells how many units it has: workgroups are balanced over them */
    WIDE_GROUPS    /* a GPU whose workgroups are no power of two, several blocks each */
} cut_for;

static void pretend(rl_test_gpu *gpu, cut_for device)
{
    rl_vk_ops *ops = &gpu->ops;
    if (device == AS_IT_IS) return;
    ops->lanes = 1;
    if (device == EASILY_FILLED) return;
    ops->software = false;
    ops->groups = 1;
    ops->workgroup = ops->subgroup < 8 ? 160 : 320; /* of up to 64 subgroups */
    gpu->device->info.compute_units = device == FEW_UNITS ? 3 : 0;
}

/* One dense product. */
static void check_shape(uint32_t type, uint32_t rows, uint32_t cols, uint32_t input, bool add,
                        cut_for device)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    const rl_vk_ops ops = gpu->ops;
    const uint32_t units = gpu->device->info.compute_units;
    rl_error err;
    const rl_quant_info *info = rl_quant_find(type);
    rl_test_matrix m = rl_test_matrix_make(type, rows, cols, rows);
    float *x = rl_test_random_vector(cols, 1, 1), *aux = rl_test_random_vector(cols, 1, 2),
          *plus = rl_test_random_vector(rows, 1, 3);
    float *y = calloc(rows, sizeof *y);
    double *xd = malloc(cols * sizeof *xd), squares = 0;
    assert_true(y && xd);
    const float eps = 1e-6f;
    for (uint32_t i = 0; i < cols; i++)
        squares += (double)x[i] * x[i];
    for (uint32_t i = 0; i < cols; i++) {
        xd[i] = x[i];
        if (input == RL_INPUT_NORM) xd[i] *= aux[i] / sqrt(squares / cols + eps);
        if (input == RL_INPUT_SWIGLU) xd[i] = silu(x[i]) * aux[i];
    }
    rl_vk_span gw = rl_test_gpu_put(gpu, m.blocks, m.bytes);
    rl_vk_span gx = rl_test_gpu_put(gpu, x, cols * sizeof *x);
    rl_vk_span ga = rl_test_gpu_put(gpu, aux, cols * sizeof *aux);
    rl_vk_span gp = rl_test_gpu_put(gpu, plus, rows * sizeof *plus);
    rl_vk_span gy = rl_test_gpu_put(gpu, NULL, rows * sizeof *y);
    rl_vk_matvec op = { .type = type,
                        .input = input,
                        .add = add,
                        .n_ranks = 1,
                        .n_tokens = 1,
                        .push = { .w = gw.address,
                                  .x = gx.address,
                                  .aux = ga.address,
                                  .y = gy.address,
                                  .add = gp.address,
                                  .token = gpu->token.address,
                                  .cols = cols,
                                  .rows = rows,
                                  .eps = eps } };
    pretend(gpu, device);
    assert_ok(rl_vk_op_matvec(&gpu->ops, &gpu->cmd, &op, &err));
    gpu->ops = ops;
    gpu->device->info.compute_units = units;
    rl_test_gpu_get(gpu, &gy, y, rows * sizeof *y);
    for (uint32_t r = 0; r < rows; r++) {
        double magnitude, want = rl_test_dot(m.values + (size_t)r * cols, xd, cols, &magnitude);
        check(info->name, r, y[r], add ? want + plus[r] : want,
              magnitude + (add ? fabs(plus[r]) : 0));
    }
    rl_test_gpu_end(gpu);
    rl_test_matrix_free(&m);
    free(x);
    free(aux);
    free(plus);
    free(y);
    free(xd);
}

static void sweep(uint32_t type, bool bytes)
{
    const rl_quant_info *info = rl_quant_find(type);
    assert_non_null(info);
    rl_vk_ops *ops = &rl_test_gpu_begin()->ops;
    const rl_vk_device_info *device = &ops->device->info;
    if (bytes && (!device->byte_products || device->subgroup_min < 8))
        rl_test_skip("no dot products of bytes in subgroups of %u", device->subgroup_min);
    ops->byte_weights = bytes;
    uint32_t unit = info->block > 32 ? info->block : 32;
    check_shape(type, 131, 512, RL_INPUT_PLAIN, false, AS_IT_IS); /* every code of the type */
    check_shape(type, 5, 3 * unit, RL_INPUT_NORM, true, AS_IT_IS);
    if (type != RL_QUANT_F32 && type != RL_QUANT_Q4_K && type != RL_QUANT_IQ1_M) return;
    check_shape(type, 1, unit, RL_INPUT_PLAIN, false, EASILY_FILLED);
    check_shape(type, 33, 2 * unit, RL_INPUT_SWIGLU, true, AS_IT_IS);
    check_shape(type, 3, 2048 + (unit < 256 ? 32 : 0), RL_INPUT_NORM, true, EASILY_FILLED);
    check_shape(type, 1003, 3 * unit, RL_INPUT_NORM, true, FEW_UNITS);
    check_shape(type, 1003, 3 * unit, RL_INPUT_NORM, true, WIDE_GROUPS);
}

#define RL_SHADER(OP, file, push)
#define RL_SHADER_PER_TYPE(OP, file, push)
#define RL_SHADER_PER_BYTE_TYPE(OP, file, push)
#define RL_SHADER_OF_TYPE(OP, op, file, push, NAME, id)
#define RL_SHADER_LINKED(OP, file, push)
#define RL_SHADER_PER_LINKED_TYPE(OP, file, push)
#define RL_SHADER_BYTE_TYPE(NAME, name, id)
#define RL_SHADER_TYPE(NAME, name, id)                                                             \
    static void vulkan_matvec_##name(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(id, false);                                                                          \
    }
#undef RL_SHADER_BYTE_TYPE
#define RL_SHADER_BYTE_TYPE(NAME, name, id)                                                        \
    static void vulkan_matvec_bytes_##name(void **state)                                           \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(id, true);                                                                           \
    }
#include "backend/vulkan/shaders.list"
#undef RL_SHADER_TYPE
#undef RL_SHADER_BYTE_TYPE
#define RL_SHADER_TYPE(NAME, name, id)      RL_TEST(vulkan, matvec_##name),
#define RL_SHADER_BYTE_TYPE(NAME, name, id) RL_TEST(vulkan, matvec_bytes_##name),

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#include "backend/vulkan/shaders.list"
    };
    return rl_test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
#else
static void vulkan_matvec(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, matvec))
#endif
