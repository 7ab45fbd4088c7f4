/* devices.c - `redlite devices`: what could compute here. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>

static void print_json(const rl_device_info *d, size_t n)
{
    cli_json json = { .out = stdout };
    cli_json_open(&json, '[');
    for (size_t i = 0; i < n; i++) {
        cli_json_open(&json, '{');
        cli_json_key(&json, "index");
        cli_json_uint(&json, i);
        const struct {
            const char *key, *value;
        } texts[] = {
            { "backend", d[i].backend }, { "name", d[i].name },         { "kind", d[i].kind },
            { "driver", d[i].driver },   { "features", d[i].features }, { "reason", d[i].reason },
        };
        for (size_t k = 0; k < CLI_LENGTH(texts); k++) {
            cli_json_key(&json, texts[k].key);
            cli_json_text(&json, texts[k].value);
        }
        cli_json_key(&json, "memory_bytes");
        cli_json_uint(&json, d[i].memory_bytes);
        cli_json_key(&json, "free_bytes");
        cli_json_uint(&json, d[i].free_bytes);
        cli_json_key(&json, "usable");
        cli_json_bool(&json, d[i].usable);
        cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
    cli_json_end_line(&json);
}

static void print_text(const rl_device_info *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("%zu: %s (%s, %s)\n", i, d[i].name, d[i].backend, d[i].kind);
        printf("   memory   %.1f GiB", (double)d[i].memory_bytes / (1 << 30));
        if (d[i].free_bytes) printf(", %.1f GiB free", (double)d[i].free_bytes / (1 << 30));
        putchar('\n');
        if (d[i].driver[0]) printf("   driver   %s\n", d[i].driver);
        if (d[i].features[0]) printf("   features %s\n", d[i].features);
        if (!d[i].usable) printf("   unusable %s\n", d[i].reason);
    }
}

static int run(const cli_call *call)
{
    enum { MOST = 64 };
    rl_error err = { "" };
    rl_device_info *devices = calloc(MOST, sizeof *devices);
    size_t n = 0;
    if (!devices) return cli_error("no memory for a list of devices");
    rl_status status = rl_devices(devices, MOST, &n, &err);
    int rc = status ? cli_error_of(status, &err) : CLI_DONE;
    if (n > MOST) n = MOST;
    if (rc == CLI_DONE) (call->globals.json ? print_json : print_text)(devices, n);
    free(devices);
    return rc;
}

const cli_command cli_devices = {
    .name = "devices",
    .summary = "compute devices, their memory and the features used",
    .usage = "[options]",
    .details = "--device takes the number or the name of a device in this list.\n",
    .show = CLI_SHOW_JSON,
    .run = run,
};
