/* number.c - number.h on top of strtod and printf, which round correctly but obey the locale.
 *
 * The decimal point is what locales change, so strtod only ever sees digits and an exponent, and
 * from what printf writes only digits and exponent are taken. */
#include "text/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More digits than this cannot change a double, except by being nonzero at all. */
enum { MOST_DIGITS = 800 };

double rl_float_read(const char *text, size_t bytes)
{
    char digits[MOST_DIGITS + 32];
    size_t n = 0, i = 0;
    int64_t exponent = 0;
    bool point = false, negative = false, lost = false;
    if (i < bytes && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
    for (; i < bytes && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') point = true;
        if (text[i] < '0' || text[i] > '9') continue;
        if (point) exponent--;
        if (!n && text[i] == '0') continue;
        if (n < MOST_DIGITS) {
            digits[n++] = text[i];
        } else {
            lost |= text[i] != '0';
            exponent++;
        }
    }
    if (lost) digits[n - 1] = (char)(digits[n - 1] == '0' ? '1' : digits[n - 1]);
    if (i < bytes) {
        int64_t shift = 0;
        bool down = false;
        for (i++; i < bytes; i++) {
            if (text[i] == '-') down = true;
            if (text[i] >= '0' && text[i] <= '9' && shift < INT64_C(1) << 50)
                shift = shift * 10 + (text[i] - '0');
        }
        exponent += down ? -shift : shift;
    }
    if (!n) return negative ? -0.0 : 0.0;
    if (exponent > 100000) exponent = 100000;
    if (exponent < -100000) exponent = -100000;
    snprintf(digits + n, sizeof digits - n, "e%d", (int)exponent);
    double value = strtod(digits, NULL);
    return negative ? -value : value;
}

/* The n significant digits of a finite value > 0 and the exponent of the first one. */
static int digits_of(double value, int n, char digits[24])
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", n - 1, value);
    int found = 0;
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') digits[found++] = *at;
    digits[found] = '\0';
    return atoi(at + 1);
}

static bool reads_back(const char *digits, int exponent, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%se%d", digits, exponent - (int)strlen(digits) + 1);
    return strtod(text, NULL) == value;
}

/* The shortest digits that read back. For normal numbers 15 (without zeros behind) are the shortest
 * if they do at all; of 16 the nearest may fail where the next higher succeeds, at powers of two; 17
 * always suffice. Subnormal numbers have fewer. */
static int shortest_digits(double value, char digits[24])
{
    int exponent;
    for (int n = 1; value < DBL_MIN && n < 15; n++) {
        exponent = digits_of(value, n, digits);
        if (reads_back(digits, exponent, value)) return exponent;
    }
    exponent = digits_of(value, 15, digits);
    if (reads_back(digits, exponent, value)) return exponent;
    exponent = digits_of(value, 16, digits);
    if (reads_back(digits, exponent, value)) return exponent;
    if (digits[15] != '9') {
        digits[15]++;
        if (reads_back(digits, exponent, value)) return exponent;
    }
    return digits_of(value, 17, digits);
}

size_t rl_float_print(double value, char out[RL_NUMBER_ROOM])
{
    if (isnan(value)) return (size_t)snprintf(out, RL_NUMBER_ROOM, "nan");
    const char *sign = signbit(value) ? "-" : "";
    if (isinf(value)) return (size_t)snprintf(out, RL_NUMBER_ROOM, "%sinf", sign);
    if (value == 0) return (size_t)snprintf(out, RL_NUMBER_ROOM, "%s0.0", sign);

    char digits[24];
    int exponent = shortest_digits(fabs(value), digits);
    int n = (int)strlen(digits);
    while (n > 1 && digits[n - 1] == '0')
        digits[--n] = '\0';
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(out, RL_NUMBER_ROOM, "%s%c%s%se%c%02d", sign, digits[0],
                                n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                                abs(exponent));
    if (exponent < 0)
        return (size_t)snprintf(out, RL_NUMBER_ROOM, "%s0.%.*s%s", sign, -exponent - 1, "0000",
                                digits);
    if (n <= exponent + 1)
        return (size_t)snprintf(out, RL_NUMBER_ROOM, "%s%s%.*s.0", sign, digits, exponent + 1 - n,
                                "0000000000000000");
    return (size_t)snprintf(out, RL_NUMBER_ROOM, "%s%.*s.%s", sign, exponent + 1, digits,
                            digits + exponent + 1);
}

size_t rl_int_print(int64_t value, char out[RL_NUMBER_ROOM])
{
    return (size_t)snprintf(out, RL_NUMBER_ROOM, "%lld", (long long)value);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 0x20) - 'a' + 10;
}

bool rl_int_read(rl_arena *arena, const char *text, size_t bytes, int base, rl_value *out,
                 bool *too_long)
{
    size_t i = 0;
    bool negative = false;
    int64_t value = 0;
    *too_long = false;
    if (i < bytes && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
    while (i < bytes && (text[i] == '0' || text[i] == '_'))
        i++;
    size_t first = i;
    for (; i < bytes; i++) {
        if (text[i] == '_') continue;
        int digit = digit_value(text[i]);
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_sub_overflow(value, (int64_t)digit, &value)) /* downwards: INT64_MIN fits */
            break;
    }
    if (i == bytes && (negative || value != INT64_MIN)) {
        *out = rl_value_int(negative ? value : -value);
        return true;
    }
    *too_long = base != 10;
    if (*too_long) return false;
    char *digits = rl_arena_alloc(arena, bytes - first + 1);
    if (!digits) return false;
    size_t n = 0;
    if (negative) digits[n++] = '-';
    for (i = first; i < bytes; i++)
        if (text[i] != '_') digits[n++] = text[i];
    const rl_string *string = rl_string_over(arena, digits, n);
    if (!string) return false;
    *out = (rl_value){ .kind = RL_VALUE_BIGINT, .string = string };
    return true;
}
