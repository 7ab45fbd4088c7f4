/* backend.c - the list of backends in this build. */
#include "backend/backend.h"

#include <string.h>

#include "base/bytes.h"

static const rl_backend_ops *const backends[] = {
#ifdef RL_HAVE_VULKAN
    &rl_backend_vulkan,
#endif
    &rl_backend_cpu,
    &rl_backend_oracle,
};

const rl_backend_ops *rl_backend_at(uint32_t index)
{
    return index < RL_COUNT_OF(backends) ? backends[index] : NULL;
}

const rl_backend_ops *rl_backend_find(const char *name)
{
    for (uint32_t i = 0; rl_backend_at(i); i++)
        if (!strcmp(backends[i]->name, name)) return backends[i];
    return NULL;
}
