/* backend.c - the list of backends in this build. */
#include "backend/backend.h"

#include <string.h>

static const rl_backend_ops *const backends[] = { &rl_backend_oracle };

const rl_backend_ops *rl_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (!strcmp(backends[i]->name, name)) return backends[i];
    return NULL;
}
