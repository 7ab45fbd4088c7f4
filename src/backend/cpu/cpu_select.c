/* cpu_select.c - which table of kernels this machine runs. Asked once, at start. */
#include "backend/cpu/cpu_matrix.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
/* __builtin_cpu_supports() also asks whether the system saves the registers. */
static bool runs_avx2(void)
{
    unsigned a, b, c, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool runs_avx512(void)
{
    return runs_avx2() && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}

static bool runs_avx512vnni(void)
{
    return runs_avx512() && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bitalg");
}

#define X86(table, runs) &rl_cpu_kernels_##table, runs
#define ARM(table, runs) NULL, NULL
#elif defined(__aarch64__)
#if defined(__linux__)
static bool runs_dotprod(void)
{
    return getauxval(AT_HWCAP) >> 20 & 1; /* asimddp */
}

static bool runs_i8mm(void)
{
    return runs_dotprod() && getauxval(AT_HWCAP2) >> 13 & 1;
}
#elif defined(__APPLE__)
static bool has(const char *feature)
{
    int value = 0;
    size_t bytes = sizeof value;
    return !sysctlbyname(feature, &value, &bytes, NULL, 0) && value;
}

static bool runs_dotprod(void)
{
    return has("hw.optional.arm.FEAT_DotProd");
}

static bool runs_i8mm(void)
{
    return runs_dotprod() && has("hw.optional.arm.FEAT_I8MM");
}
#else
static bool runs_dotprod(void)
{
    return false;
}

static bool runs_i8mm(void)
{
    return false;
}
#endif

#define X86(table, runs) NULL, NULL
#define ARM(table, runs) &rl_cpu_kernels_##table, runs
#else
#define X86(table, runs) NULL, NULL
#define ARM(table, runs) NULL, NULL
#endif

/* From slow to fast: of the rows with one name the last that the machine can run counts, and the
 * last of all is the default. `exact` is only taken by name. */
static const struct {
    const char *name;
    const rl_cpu_kernels *table; /* NULL: another architecture's */
    bool (*runs)(void);
} tables[] = {
    { "exact", &rl_cpu_kernels_exact, always },
    { "exact", X86(exact_avx2, runs_avx2) },
    { "exact", X86(exact_avx512, runs_avx512) },
    { "exact", ARM(exact_neon, always) },
    { "scalar", &rl_cpu_kernels_scalar, always },
    { "avx2", X86(avx2, runs_avx2) },
    { "avx512", X86(avx512, runs_avx512) },
    { "avx512vnni", X86(avx512vnni, runs_avx512vnni) },
    { "neon", ARM(neon, always) },
    { "dotprod", ARM(dotprod, runs_dotprod) },
    { "i8mm", ARM(i8mm, runs_i8mm) },
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

rl_status rl_cpu_select(const rl_cpu_kernels **out, const char *wanted, rl_error *err)
{
    *out = NULL;
    if (!wanted) wanted = getenv("RL_CPU");
    if (!wanted || !*wanted) {
        for (uint32_t i = RL_COUNT_OF(tables); !*out; i--)
            *out = rl_cpu_kernels_at(i - 1);
        return RL_OK;
    }
    char known[128] = "";
    bool exists = false;
    for (uint32_t i = 0; i < RL_COUNT_OF(tables); i++) {
        if (!strcmp(wanted, tables[i].name)) {
            exists = true;
            if (rl_cpu_kernels_at(i)) *out = rl_cpu_kernels_at(i);
        }
        if (i && !strcmp(tables[i].name, tables[i - 1].name)) continue;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", tables[i].name);
    }
    if (*out) return RL_OK;
    if (exists)
        return rl_fail(err, RL_UNSUPPORTED, "RL_CPU=%s: this machine cannot run it", wanted);
    return rl_fail(err, RL_INVALID, "RL_CPU=%s: no such kernels; there are %s", wanted, known);
}
