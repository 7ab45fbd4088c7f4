/* test_memory.c - a run takes no more memory than `info` says it will, whatever the size of the pool.
 *
 * On synthetic models of 48 layers, larger than any allowance: what is not bounded shows. */
#include "support/json.h"
#include "support/process.h"

#include <unistd.h>

#define MIB 1048576.0

/* What may come on top of the parts that the promise names: the program, its tables, stacks, and
 * the buffers for reading. */
enum { ALLOWANCE_MIB = 64, PROMPT = 520, LONG_S = 3600 };

typedef struct memory_case {
    const char *path;
    const char *cache_mib[3]; /* "0": everything */
    const char *generate;     /* tokens */
} memory_case;

static void skip_if_instrumented(void)
{
#ifdef RL_TEST_INSTRUMENTED
    rl_test_skip("sanitizers take memory of their own");
#endif
}

static rl_test_run run_long(const char *const *arguments)
{
    rl_test_run r = rl_test_execute(&(rl_test_streams){ .limit_s = LONG_S }, arguments);
    rl_test_expect_code(&r, 0);
    return r;
}

#define RUN_LONG(...) run_long((const char *const[]){ __VA_ARGS__, NULL })

/* Everything that the promise names. */
static double planned_bytes(const memory_case *c, const char *cache_mib)
{
    static const char *const named[] = { "dense", "embedding", "pool", "attention_cache",
                                         "state", "tokenizer", "batch" };
    bool all = !strcmp(cache_mib, "0");
    rl_test_run r = all ? RUN_LONG("info", "--json", "-m", c->path)
                        : RUN_LONG("info", "--json", "-m", c->path, "--cache-mib", cache_mib);
    cJSON *json = rl_test_json(r.out), *memory = rl_test_member(json, "memory");
    double bytes = 0;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        bytes += rl_test_number(memory, named[i]);
    if (!all) assert_true(rl_test_number(memory, "pool") <= atof(cache_mib) * MIB);
    if (all) assert_true(rl_test_number(memory, "pool") == rl_test_number(memory, "pool_full"));
    cJSON_Delete(json);
    rl_test_run_fini(&r);
    return bytes;
}

static void check_size(const memory_case *c, const char *cache_mib, const char *prompt)
{
    double planned = planned_bytes(c, cache_mib), allowed = planned + ALLOWANCE_MIB * MIB;
    bool all = !strcmp(cache_mib, "0");
    const char *const arguments[] = { "generate",     "--json",
                                      "-m",           c->path,
                                      "--tokens",     prompt,
                                      "-n",           c->generate,
                                      "-s",           "1",
                                      "--ignore-eos", "--backend",
                                      "cpu",          all ? NULL : "--cache-mib",
                                      cache_mib,      NULL };
    rl_test_run r = run_long(arguments);
    cJSON *json = rl_test_json(r.out), *cache = rl_test_member(json, "cache");
    cJSON *timings = rl_test_member(json, "timings");
    printf("%s: --cache-mib %-5s peak %7.1f MiB, planned %7.1f, allowed %7.1f; hit rate %.3f, "
           "prefill %.1f tok/s, decode %.1f\n",
           strrchr(c->path, '/') + 1, all ? "all" : cache_mib, (double)r.peak_bytes / MIB,
           planned / MIB, allowed / MIB, rl_test_number(cache, "hit_rate"),
           rl_test_number(timings, "prompt_tok_s"), rl_test_number(timings, "decode_tok_s"));
    assert_true((double)r.peak_bytes <= allowed);
    /* A peak far below would mean that the parts are not what was taken. */
    assert_true((double)r.peak_bytes >= 0.7 * planned);
    cJSON_Delete(json);
    rl_test_run_fini(&r);
}

/* Stands against: experts that stay mapped or in buffers, weights held twice, a plan that forgets a
 * part. */
static void check_case(const memory_case *c)
{
    char prompt[PROMPT * 8];
    size_t n = 0;
    for (int i = 0; i < PROMPT; i++)
        n += (size_t)snprintf(prompt + n, sizeof prompt - n, "%s%d", i ? "," : "", i * 7919 % 256);
    for (size_t i = 0; i < sizeof c->cache_mib / sizeof c->cache_mib[0]; i++)
        check_size(c, c->cache_mib[i], prompt);
    unlink(c->path);
}

/* Small enough for every run of the suite; weights and pool still dwarf the allowance. */
static void memory_stays_within_the_plan(void **state)
{
    (void)state;
    skip_if_instrumented();
    memory_case c = { rl_test_scratch("memory-small.gguf"), { "24", "64", "0" }, "6" };
    rl_test_run r =
        RUN_LONG("synth", "-o", c.path, "--mix", "target", "-s", "3", "--layers", "48",
                 "--attention-interval", "4", "--hidden", "1024", "--experts", "24",
                 "--experts-used", "8", "--expert-width", "256", "--shared-width", "256");
    rl_test_run_fini(&r);
    check_case(&c);
}

/* The geometry of the 80B model with a quarter of its experts. */
static void memory_of_gigabytes_stays_within_the_plan_long(void **state)
{
    (void)state;
    skip_if_instrumented();
    memory_case c = { rl_test_scratch("memory-large.gguf"), { "256", "1024", "0" }, "32" };
    rl_test_run r = RUN_LONG("synth", "-o", c.path, "--preset", "qwen3-next-80b-iq2_xxs",
                             "--experts", "128", "-s", "3");
    rl_test_run_fini(&r);
    check_case(&c);
}

RL_TEST_MAIN(RL_TEST(memory, stays_within_the_plan),
             RL_TEST(memory, of_gigabytes_stays_within_the_plan_long))
