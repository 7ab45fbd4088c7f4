/* backend.c - the list of backends in this build, and whose device is meant. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
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

enum { MOST_DEVICES = 64 };

/* Looks through the devices of one backend; *index counts those of all. A device that can be used
 * is taken rather than one that cannot; the latter still tells whose it is. */
static const rl_backend_ops *find_among(const rl_backend_ops *ops, const char *device, bool by_name,
                                        size_t *index, rl_device_info *list, bool *usable)
{
    const rl_backend_ops *found = NULL;
    rl_error ignored;
    size_t n = 0;
    if (!ops->list_devices || ops->list_devices(list, MOST_DEVICES, &n, &ignored)) return NULL;
    if (n > MOST_DEVICES) n = MOST_DEVICES;
    for (size_t i = 0; i < n; i++, ++*index) {
        char number[24];
        snprintf(number, sizeof number, "%zu", *index);
        if (strcmp(number, device) && !(by_name && strcasestr(list[i].name, device))) continue;
        found = ops;
        *usable = *usable || list[i].usable;
    }
    return found;
}

rl_status rl_backend_find_device(const rl_backend_ops **out, const char *name, const char *device,
                                 rl_error *err)
{
    const bool any = !strcmp(name, "auto");
    const rl_backend_ops *named = any ? NULL : rl_backend_find(name), *found = NULL;
    *out = named;
    if (!any && !named)
        return rl_fail(err, RL_INVALID, "this build has no backend named \"%s\"", name);
    if (!strcmp(name, "vulkan")) return RL_OK;
    rl_device_info *list = calloc(MOST_DEVICES, sizeof *list);
    if (!list) return rl_fail(err, RL_NOMEM, "no memory for a list of devices");
    const char *among = strcmp(name, "oracle") ? name : "cpu";
    const bool number = device[strspn(device, "0123456789")] == 0; /* is no part of a name */
    size_t index = 0;
    for (uint32_t i = 0; rl_backend_at(i); i++) {
        bool fits = !number && (any || !strcmp(rl_backend_at(i)->name, among)), usable = false;
        const rl_backend_ops *here =
            find_among(rl_backend_at(i), device, fits, &index, list, &usable);
        if (here && (!found || (any && usable))) found = here;
        if (here && usable) break;
    }
    free(list);
    if (!found)
        return rl_fail(err, RL_DEVICE, "there is no device \"%s\"%s%s", device,
                       any ? "" : " for the backend ", any ? "" : name);
    if (!any && strcmp(found->name, among))
        return rl_fail(err, RL_DEVICE, "device %s is one of the backend %s, not of %s", device,
                       found->name, name);
    if (any) *out = found;
    return RL_OK;
}
