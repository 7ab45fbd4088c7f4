/* fuzz_json.c - the JSON reader on any bytes. What it accepts is written, read and written again: the
 * two texts must be the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool holds)
{
    if (!holds) abort();
}

/* Writes `value`, reads that and writes it again, in one style. */
static void round_trip(rl_arena *arena, rl_value value, const rl_json_style *style)
{
    rl_text_buffer first = { 0 }, second = { 0 };
    rl_error err;
    rl_value again;
    must(rl_json_write(&first, value, style, &err) == RL_OK);
    rl_status status =
        rl_json_read(arena, first.data, first.bytes, "what was written", 0, &again, &err);
    /* Floats beyond the largest one are written as Infinity, as Python does. */
    if (status == RL_FORMAT) must(memmem(first.data, first.bytes, "Infinity", 8) != NULL);
    if (!status) {
        must(rl_json_write(&second, again, style, &err) == RL_OK);
        must(first.bytes == second.bytes && !memcmp(first.data, second.data, first.bytes));
    }
    rl_text_buffer_fini(&first);
    rl_text_buffer_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    rl_arena arena;
    rl_error err = { { 0 } };
    rl_value value;
    rl_text_buffer none = { 0 };
    rl_arena_init(&arena, 65536 + 400 * bytes);
    rl_status status = rl_json_read(&arena, (const char *)data, bytes, "input", 50, &value, &err);
    must(status == RL_OK || err.text[0]);
    if (!status) {
        const rl_string *indent = rl_string_create(&arena, "  ", 2);
        const rl_string *colon = rl_string_create(&arena, ":", 1);
        must(indent && colon);
        const rl_json_style pretty = { .indent = indent, .sort_keys = true };
        const rl_json_style tight = { .ascii = true,
                                      .item_separator = rl_string_create(&arena, ",", 1),
                                      .key_separator = colon };
        round_trip(&arena, value, NULL);
        round_trip(&arena, value, &pretty);
        round_trip(&arena, value, &tight);
        must(rl_json_write(&none, value, &(rl_json_style){ .max_bytes = 8 }, &err) == RL_OK ||
             err.text[0]);
        must(none.bytes <= 8);
        rl_text_buffer_fini(&none);
    }
    rl_arena_fini(&arena);
    return 0;
}
