/* json.h - looking into the JSON that the program printed. */
#ifndef RL_TESTS_SUPPORT_JSON_H
#define RL_TESTS_SUPPORT_JSON_H

#include "support/test.h"

#include <cjson/cJSON.h>

/* Parses one JSON document that fills `text` but for blanks, or fails. cJSON_Delete() it. */
static inline cJSON *rl_test_json(const char *text)
{
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithOpts(text, &end, 0);
    if (!json) fail_msg("not JSON: %.500s", text);
    while (end && (*end == '\n' || *end == ' '))
        end++;
    if (end && *end) fail_msg("something behind the JSON: %.200s", end);
    return json;
}

/* A member that must be there. */
static inline cJSON *rl_test_member(const cJSON *json, const char *key)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!member) fail_msg("no key \"%s\"", key);
    return member;
}

static inline double rl_test_number(const cJSON *json, const char *key)
{
    cJSON *member = rl_test_member(json, key);
    if (!cJSON_IsNumber(member)) fail_msg("\"%s\" is not a number", key);
    return member->valuedouble;
}

static inline const char *rl_test_text(const cJSON *json, const char *key)
{
    cJSON *member = rl_test_member(json, key);
    if (!cJSON_IsString(member)) fail_msg("\"%s\" is not a string", key);
    return member->valuestring;
}

#endif
