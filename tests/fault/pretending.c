/* pretending.c - makes the program that it is linked into find one good GPU that is not there
 * (support/vulkan_fake.h), and lose it at the call of that number in RL_TEST_LOST_AT. */
#ifdef RL_HAVE_VULKAN
#include <stdlib.h>

#include "support/vulkan_fake.h"
#include "support/vulkan_guard.h"

__attribute__((constructor)) static void plug_in(void)
{
    static const rl_fake_gpu gpu = { .name = "Pretended GPU",
                                     .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU };
    static const rl_fake_machine machine = { .gpus = &gpu, .n_gpus = 1 };
    const char *at = getenv("RL_TEST_LOST_AT");
    rl_guard_install(rl_fake_vulkan(&machine));
    if (at) rl_guard_arm(strtoull(at, NULL, 10), VK_ERROR_DEVICE_LOST);
}
#else
typedef int rl_test_no_pretending;
#endif
