/* json.h - the little JSON that the commands write and read.
 *
 * The writer puts commas and quotes where they belong and never produces anything but valid JSON:
 * bytes that are no UTF-8 become U+FFFD, numbers that JSON cannot hold become null.
 * The reader pulls values out of a buffer one after the other; it takes no memory but for strings. */
#ifndef RL_CLI_JSON_H
#define RL_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct cli_json {
    FILE *out;
    bool separate; /* a comma is due before the next value or key */
} cli_json;

/* `bracket` is '{' or '[' and the matching one closes. A key is followed by one value. */
void cli_json_open(cli_json *json, char bracket);
void cli_json_close(cli_json *json, char bracket);
void cli_json_key(cli_json *json, const char *key);
void cli_json_string(cli_json *json, const char *text, size_t bytes);
void cli_json_text(cli_json *json, const char *text); /* terminated */
void cli_json_uint(cli_json *json, uint64_t value);
void cli_json_number(cli_json *json, double value, int decimals);
void cli_json_bool(cli_json *json, bool value);
void cli_json_null(cli_json *json);
void cli_json_ids(cli_json *json, const uint32_t *ids, size_t n); /* [1,2,3] */
void cli_json_end_line(cli_json *json);                           /* a line feed, and begin anew */

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct cli_json_in {
    const char *at, *end;
    unsigned depth;    /* of skipped values */
    const char *wrong; /* what was expected and not found, NULL so far */
} cli_json_in;

/* Skips blanks; true, and past it, when the next character is c. */
bool cli_json_take(cli_json_in *in, char c);
/* A string, unescaped, malloc'ed and terminated; it may hold NUL bytes. Surrogates must come in
 * pairs. Whether the rest is UTF-8 is not looked at. NULL: in->wrong says why. */
char *cli_json_take_string(cli_json_in *in, size_t *bytes);
/* An array of integers from 0 to 2^32-1, malloc'ed. NULL: in->wrong says why. */
uint32_t *cli_json_take_ids(cli_json_in *in, size_t *n);
/* Any value, passed over. */
bool cli_json_skip(cli_json_in *in);
/* Whether only blanks are left. */
bool cli_json_at_end(cli_json_in *in);

#endif
