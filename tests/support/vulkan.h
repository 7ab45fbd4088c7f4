/* vulkan.h - one open Vulkan device for the kernel tests, and small helpers around it.
 *
 * The device is whatever is there: lavapipe counts. RL_TEST_DEVICE names another. Tests skip when
 * there is none. Everything is opened once per process and closed at exit; closing asserts that the
 * validation layer, when it was on, said nothing. */
#ifndef RL_TESTS_SUPPORT_VULKAN_H
#define RL_TESTS_SUPPORT_VULKAN_H

#include "backend/vulkan/vk_ops.h"
#include "support/test.h"

typedef struct rl_test_gpu {
    rl_vk_device *device;
    rl_vk_uploader *uploader;
    rl_vk_stream *stream;
    rl_vk_ops ops;
    rl_vk_cmd cmd;
    rl_vk_arena *data;     /* device memory; emptied by rl_test_gpu_begin */
    rl_vk_arena *readback; /* host-visible                                */
    rl_vk_span token;      /* an rl_vk_token: no halt, position 0, side 0, n 1 */
} rl_test_gpu;

/* Opens the test device; skips the test when there is none. The caller closes it. */
rl_vk_device *rl_test_vulkan_open(void);

/* The device, with empty arenas and the command buffer recording. Skips the test without a device. */
rl_test_gpu *rl_test_gpu_begin(void);

/* Writes the token block; between runs. */
void rl_test_gpu_set_token(rl_test_gpu *gpu, const rl_vk_token *token);

/* Submits what was recorded and waits; recording starts again. */
void rl_test_gpu_run(rl_test_gpu *gpu);

/* Ends the test: validation messages fail it. */
void rl_test_gpu_end(rl_test_gpu *gpu);

/* Device memory with these bytes (zeros for NULL), at a multiple of 256. */
rl_vk_span rl_test_gpu_put(rl_test_gpu *gpu, const void *bytes, size_t n);

/* Copies a span back; after rl_test_gpu_run. */
void rl_test_gpu_get(rl_test_gpu *gpu, const rl_vk_span *span, void *out, size_t n);

/* ---- weights and numbers ------------------------------------------------------------------------- */

/* A matrix of the type's fixture blocks (tests/fixtures/quants), taken again and again from block
 * `skip` on, and its values. The float types of the fixture are cut to a range that sums well. */
typedef struct rl_test_matrix {
    uint32_t type, rows, cols;
    uint8_t *blocks;
    size_t bytes;
    float *values; /* [rows][cols] */
} rl_test_matrix;
rl_test_matrix rl_test_matrix_make(uint32_t type, uint32_t rows, uint32_t cols, size_t skip);
void rl_test_matrix_free(rl_test_matrix *m);

/* n normal random numbers times scale; the caller frees. */
float *rl_test_random_vector(size_t n, float scale, uint64_t seed);

/* sum w x, and the sum of the magnitudes of its terms. */
double rl_test_dot(const float *w, const double *x, uint32_t n, double *magnitude);

#endif
