/* test_vulkan_matmul.c - products of many tokens with weights of every type, plain and gathered by
 * expert, and rows of the embedding table. Reference: quant/ and sums in double. */
#include "support/test.h"

#ifdef RL_HAVE_VULKAN
#include <math.h>

#include "quant/quant.h"
#include "support/vulkan.h"

#define BOUND 2e-6

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void check_rows(const rl_test_matrix *m, const float *y, const double *x, const float *add,
                       const char *what)
{
    for (uint32_t r = 0; r < m->rows; r++) {
        double magnitude;
        double want = rl_test_dot(m->values + (size_t)r * m->cols, x, m->cols, &magnitude);
        if (add) {
            want += add[r];
            magnitude += fabs(add[r]);
        }
        if (!(fabs(y[r] - want) <= BOUND * magnitude + 1e-30))
            fail_msg("%s row %u: %.9g, expected %.9g", what, r, (double)y[r], want);
    }
}

static void check_plain(uint32_t type, uint32_t rows, uint32_t cols, uint32_t n, uint32_t input,
                        bool add)
{
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    const rl_quant_info *info = rl_quant_find(type);
    rl_test_matrix m = rl_test_matrix_make(type, rows, cols, 3);
    float *x = rl_test_random_vector((size_t)n * cols, 1, 1);
    float *aux = rl_test_random_vector((size_t)n * cols, 1, 2);
    float *plus = rl_test_random_vector((size_t)n * rows, 1, 3);
    float *y = calloc((size_t)n * rows, sizeof *y);
    double *xd = malloc(cols * sizeof *xd);
    assert_true(y && xd);
    rl_vk_span gy = rl_test_gpu_put(gpu, NULL, (size_t)n * rows * 4);
    rl_vk_matmul op = {
        .type = type,
        .input = input,
        .add = add,
        .push = { .w = rl_test_gpu_put(gpu, m.blocks, m.bytes).address,
                  .x = rl_test_gpu_put(gpu, x, (size_t)n * cols * 4).address,
                  .aux = rl_test_gpu_put(gpu, aux, (size_t)n * cols * 4).address,
                  .y = gy.address,
                  .add = rl_test_gpu_put(gpu, plus, (size_t)n * rows * 4).address,
                  .cols = cols,
                  .rows = rows,
                  .n = n,
                  .divide = 1 },
    };
    assert_ok(rl_vk_op_matmul(&gpu->ops, &gpu->cmd, &op, &err));
    rl_test_gpu_get(gpu, &gy, y, (size_t)n * rows * 4);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t i = 0; i < cols; i++) {
            size_t at = (size_t)t * cols + i;
            xd[i] = input == RL_INPUT_SWIGLU ? silu(x[at]) * aux[at] : x[at];
        }
        check_rows(&m, y + (size_t)t * rows, xd, add ? plus + (size_t)t * rows : NULL, info->name);
    }
    rl_test_matrix_free(&m);
    free(x);
    free(aux);
    free(plus);
    free(y);
    free(xd);
    rl_test_gpu_end(gpu);
}

/* Three experts, one of them absent; tokens of one expert in two tiles. */
static void check_gathered(uint32_t type, uint32_t rows, uint32_t cols)
{
    enum { N = 9, K = 3, E = 4 };
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    rl_test_matrix m = rl_test_matrix_make(type, E * rows, cols, 1);
    size_t expert_bytes = m.bytes / E;
    float *x = rl_test_random_vector((size_t)N * cols, 1, 1);
    float *y = malloc((size_t)N * K * rows * sizeof *y);
    assert_non_null(y);
    for (uint32_t i = 0; i < N * K * rows; i++)
        y[i] = -7;
    uint64_t residency[E];
    for (uint32_t e = 0; e < E; e++) { /* 32 bytes in: kernels add the offset */
        rl_vk_span slot = rl_test_gpu_put(gpu, NULL, expert_bytes + 32);
        assert_ok(rl_vk_upload(gpu->uploader, &slot, 32, m.blocks + e * expert_bytes, expert_bytes,
                               &err));
        residency[e] = e == 2 ? 0 : slot.address;
    }
    uint32_t list[N * K];
    rl_vk_tile tiles[N * K];
    uint32_t n_tiles = 0, n_list = 0;
    for (uint32_t e = 0; e < E; e++) {
        uint32_t first = n_list;
        for (uint32_t i = 0; i < N * K; i++)
            if ((i * 5 + i / 7) % E == e) list[n_list++] = i;
        for (uint32_t size = 4; first < n_list; first += size)
            tiles[n_tiles++] = (rl_vk_tile){
                .expert = e, .first = first, .count = n_list - first < size ? n_list - first : size
            };
    }
    rl_vk_span gy = rl_test_gpu_put(gpu, y, (size_t)N * K * rows * 4);
    rl_vk_matmul op = {
        .type = type,
        .n_tiles = n_tiles,
        .push = { .w = 32,
                  .x = rl_test_gpu_put(gpu, x, (size_t)N * cols * 4).address,
                  .y = gy.address,
                  .tiles = rl_test_gpu_put(gpu, tiles, n_tiles * sizeof tiles[0]).address,
                  .list = rl_test_gpu_put(gpu, list, sizeof list).address,
                  .residency = rl_test_gpu_put(gpu, residency, sizeof residency).address,
                  .cols = cols,
                  .rows = rows,
                  .divide = K },
    };
    assert_ok(rl_vk_op_matmul(&gpu->ops, &gpu->cmd, &op, &err));
    rl_test_gpu_get(gpu, &gy, y, (size_t)N * K * rows * 4);
    double *xd = malloc(cols * sizeof *xd);
    assert_non_null(xd);
    for (uint32_t i = 0; i < N * K; i++) {
        uint32_t e = (i * 5 + i / 7) % E;
        for (uint32_t c = 0; c < cols; c++)
            xd[c] = x[(size_t)(i / K) * cols + c];
        if (e == 2) {
            for (uint32_t r = 0; r < rows; r++)
                assert_true(y[i * rows + r] == -7);
            continue;
        }
        rl_test_matrix part = m;
        part.rows = rows;
        part.values = m.values + (size_t)e * rows * cols;
        check_rows(&part, y + (size_t)i * rows, xd, NULL, "gathered");
    }
    free(xd);
    free(x);
    free(y);
    rl_test_matrix_free(&m);
    rl_test_gpu_end(gpu);
}

static void check_embed(uint32_t type, uint32_t cols)
{
    enum { ROWS = 61 };
    rl_test_gpu *gpu = rl_test_gpu_begin();
    rl_error err;
    rl_test_matrix m = rl_test_matrix_make(type, ROWS, cols, 2);
    uint32_t tokens[] = { 60, 0, 7, 60, 33 };
    enum { N = 5 };
    float *y = malloc((size_t)N * cols * sizeof *y);
    assert_non_null(y);
    rl_vk_span gy = rl_test_gpu_put(gpu, NULL, (size_t)N * cols * 4);
    rl_embed_push push = { .w = rl_test_gpu_put(gpu, m.blocks, m.bytes).address,
                           .tokens = rl_test_gpu_put(gpu, tokens, sizeof tokens).address,
                           .y = gy.address,
                           .cols = cols };
    assert_ok(rl_vk_op_embed(&gpu->ops, &gpu->cmd, type, N, &push, &err));
    rl_test_gpu_get(gpu, &gy, y, (size_t)N * cols * 4);
    for (uint32_t t = 0; t < N; t++)
        for (uint32_t i = 0; i < cols; i++) {
            float want = m.values[(size_t)tokens[t] * cols + i], have = y[t * cols + i];
            /* MXFP4 holds subnormal values, which a GPU may flush */
            if (!(have == want || (fabsf(want) < 1.2e-38f && have == 0)))
                fail_msg("%s: token %u, column %u: %.9g, not %.9g", rl_quant_find(type)->name,
                         tokens[t], i, (double)have, (double)want);
        }
    free(y);
    rl_test_matrix_free(&m);
    rl_test_gpu_end(gpu);
}

static void sweep(uint32_t type)
{
    const rl_quant_info *info = rl_quant_find(type);
    uint32_t unit = info->block > 32 ? info->block : 32;
    check_embed(type, 3 * unit);
    check_plain(type, 131, 512, 5, RL_INPUT_PLAIN, false);
    check_gathered(type, 37, unit);
}

static void vulkan_matmul_shapes(void **state)
{
    (void)state;
    check_plain(RL_QUANT_Q4_K, 1, 256, 1, RL_INPUT_PLAIN, false);
    check_plain(RL_QUANT_Q4_K, 129, 256, 65, RL_INPUT_SWIGLU, true);
    check_plain(RL_QUANT_F32, 200, 96, 130, RL_INPUT_PLAIN, false);
}

#define RL_SHADER(OP, file, push)
#define RL_SHADER_PER_TYPE(OP, file, push)
#define RL_SHADER_PER_BYTE_TYPE(OP, file, push)
#define RL_SHADER_OF_TYPE(OP, op, file, push, NAME, id)
#define RL_SHADER_LINKED(OP, file, push)
#define RL_SHADER_PER_LINKED_TYPE(OP, file, push)
#define RL_SHADER_BYTE_TYPE(NAME, name, id)
#define RL_SHADER_TYPE(NAME, name, id)                                                             \
    static void vulkan_matmul_##name(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(id);                                                                                 \
    }
#include "backend/vulkan/shaders.list"
#undef RL_SHADER_TYPE
#define RL_SHADER_TYPE(NAME, name, id) RL_TEST(vulkan, matmul_##name),

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#include "backend/vulkan/shaders.list"
        RL_TEST(vulkan, matmul_shapes),
    };
    return rl_test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
#else
static void vulkan_matmul(void **state)
{
    (void)state;
    rl_test_skip("built without the Vulkan backend");
}
RL_TEST_MAIN(RL_TEST(vulkan, matmul))
#endif
