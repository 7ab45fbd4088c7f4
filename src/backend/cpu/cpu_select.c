/* cpu_select.c - which table of kernels this machine runs. Asked once, at start. */
#include "backend/cpu/cpu_matrix.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

static bool always(void)
{
    return true;
}

/* From slow to fast: the last one that the machine can run is the default. `exact` is only taken
 * by name. */
static const struct {
    const char *name;
    const rl_cpu_kernels *table; /* NULL: another architecture's */
    bool (*runs)(void);
} tables[] = {
    { "exact", &rl_cpu_kernels_exact, always },
    { "scalar", &rl_cpu_kernels_scalar, always },
    { "avx2", NULL, NULL },
    { "avx512", NULL, NULL },
    { "avx512vnni", NULL, NULL },
    { "neon", NULL, NULL },
    { "dotprod", NULL, NULL },
    { "i8mm", NULL, NULL },
};

uint32_t rl_cpu_kernels_count(void)
{
    return RL_COUNT_OF(tables);
}

const char *rl_cpu_kernels_name(uint32_t index)
{
    RL_ASSERT(index < RL_COUNT_OF(tables));
    return tables[index].name;
}

const rl_cpu_kernels *rl_cpu_kernels_at(uint32_t index)
{
    RL_ASSERT(index < RL_COUNT_OF(tables));
    return tables[index].table && tables[index].runs() ? tables[index].table : NULL;
}

rl_status rl_cpu_select(const rl_cpu_kernels **out, rl_error *err)
{
    *out = NULL;
    const char *wanted = getenv("RL_CPU");
    if (!wanted || !*wanted) {
        for (uint32_t i = RL_COUNT_OF(tables); !*out; i--)
            *out = rl_cpu_kernels_at(i - 1);
        return RL_OK;
    }
    char known[128] = "";
    for (uint32_t i = 0; i < RL_COUNT_OF(tables); i++) {
        if (!strcmp(wanted, tables[i].name)) {
            *out = rl_cpu_kernels_at(i);
            if (*out) return RL_OK;
            return rl_fail(err, RL_UNSUPPORTED, "RL_CPU=%s: this machine cannot run it", wanted);
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", tables[i].name);
    }
    return rl_fail(err, RL_INVALID, "RL_CPU=%s: no such kernels; there are %s", wanted, known);
}
