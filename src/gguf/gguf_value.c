/* gguf_value.c - metadata values as C types: any integer width, wrong types refused by name. */
#include "gguf/gguf_internal.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

const char *rl_gguf_type_name(uint32_t type)
{
    static const char *const names[] = { "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64" };
    return type < RL_COUNT_OF(names) ? names[type] : "unknown";
}

static int64_t load_signed(rl_gguf_type type, const unsigned char *p)
{
    switch (type) {
    case RL_GGUF_U8:
    case RL_GGUF_BOOL: return *p;
    case RL_GGUF_I8: return (int8_t)*p;
    case RL_GGUF_U16: return rl_load_u16(p);
    case RL_GGUF_I16: return (int16_t)rl_load_u16(p);
    case RL_GGUF_U32: return rl_load_u32(p);
    case RL_GGUF_I32: return (int32_t)rl_load_u32(p);
    default: return (int64_t)rl_load_u64(p);
    }
}

static bool is_integer(rl_gguf_type type)
{
    return type <= RL_GGUF_I32 || type == RL_GGUF_U64 || type == RL_GGUF_I64;
}

bool rl_gguf_value_u64(const rl_gguf_value *value, uint64_t *out)
{
    if (!is_integer(value->type)) return false;
    int64_t number = load_signed(value->type, value->data);
    if (number < 0 && value->type != RL_GGUF_U64) return false;
    *out = (uint64_t)number;
    return true;
}

rl_gguf_string rl_gguf_value_string(const rl_gguf_value *value)
{
    RL_ASSERT(value->type == RL_GGUF_STRING);
    return (rl_gguf_string){ .data = (const char *)value->data + 8,
                             .bytes = (size_t)rl_load_u64(value->data) };
}

/* Finds the key. A missing one is an error unless the caller can say so in *found. */
static rl_status look_up(const rl_gguf *gguf, const char *key, rl_gguf_value *value, bool *found,
                         bool *present, rl_error *err)
{
    *present = rl_gguf_find(gguf, key, value);
    if (found) *found = *present;
    if (*present || found) return RL_OK;
    return rl_fail(err, RL_FORMAT, "%s: key %s is missing", rl_gguf_path(gguf), key);
}

static rl_status wrong_type(const rl_gguf *gguf, const char *key, const rl_gguf_value *value,
                            const char *wanted, rl_error *err)
{
    return rl_fail(err, RL_FORMAT, "%s: key %s has type %s, %s is needed", rl_gguf_path(gguf), key,
                   rl_gguf_type_name(value->type), wanted);
}

rl_status rl_gguf_get_u32(const rl_gguf *gguf, const char *key, uint32_t *out, bool *found,
                          rl_error *err)
{
    rl_gguf_value value;
    bool present;
    uint64_t number;
    rl_status status = look_up(gguf, key, &value, found, &present, err);
    if (status || !present) return status;
    if (!is_integer(value.type)) return wrong_type(gguf, key, &value, "an integer", err);
    if (!rl_gguf_value_u64(&value, &number))
        return rl_fail(err, RL_FORMAT, "%s: key %s is negative (%lld)", rl_gguf_path(gguf), key,
                       (long long)load_signed(value.type, value.data));
    if (number > UINT32_MAX)
        return rl_fail(err, RL_FORMAT, "%s: key %s is %llu, which does not fit into 32 bits",
                       rl_gguf_path(gguf), key, (unsigned long long)number);
    *out = (uint32_t)number;
    return RL_OK;
}

rl_status rl_gguf_get_f32(const rl_gguf *gguf, const char *key, float *out, bool *found,
                          rl_error *err)
{
    rl_gguf_value value;
    bool present;
    rl_status status = look_up(gguf, key, &value, found, &present, err);
    if (status || !present) return status;
    if (value.type == RL_GGUF_F32) {
        *out = rl_f32_from_bits(rl_load_u32(value.data));
    } else if (value.type == RL_GGUF_F64) {
        double number;
        memcpy(&number, value.data, sizeof number);
        *out = (float)number;
    } else {
        return wrong_type(gguf, key, &value, "a float", err);
    }
    return RL_OK;
}

rl_status rl_gguf_get_bool(const rl_gguf *gguf, const char *key, bool *out, bool *found,
                           rl_error *err)
{
    rl_gguf_value value;
    bool present;
    rl_status status = look_up(gguf, key, &value, found, &present, err);
    if (status || !present) return status;
    if (value.type != RL_GGUF_BOOL) return wrong_type(gguf, key, &value, "a bool", err);
    *out = *(const unsigned char *)value.data != 0;
    return RL_OK;
}

rl_status rl_gguf_get_string(const rl_gguf *gguf, const char *key, rl_gguf_string *out, bool *found,
                             rl_error *err)
{
    rl_gguf_value value;
    bool present;
    rl_status status = look_up(gguf, key, &value, found, &present, err);
    if (status || !present) return status;
    if (value.type != RL_GGUF_STRING) return wrong_type(gguf, key, &value, "a string", err);
    *out = rl_gguf_value_string(&value);
    return RL_OK;
}

int64_t rl_gguf_array_int(const rl_gguf_value *array, uint64_t index)
{
    static const uint8_t width[] = { 1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0 };
    RL_ASSERT(array->type == RL_GGUF_ARRAY && index < array->count && width[array->element]);
    return load_signed(array->element,
                       (const unsigned char *)array->data + index * width[array->element]);
}
