/* SPDX-License-Identifier: MIT
 *
 * num.c - integers and decimals from text.
 *
 * Digits are gathered with the overflow builtins, so a value that does not fit
 * is distinguished from text that is not a number. Decimals are first checked against our own
 * grammar and then converted by strtod_l in the C locale, which would also accept "inf", "nan",
 * "0x1p3" and leading spaces.
 * Durations and sizes are in num_unit.c.
 */
#include "base/num.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

enum digits {
    DIGITS_OK,
    DIGITS_NONE, /* not a number */
    DIGITS_OVER, /* a number, but not in 64 bits */
};

/* All of s as an unsigned integer. */
static enum digits read_digits(struct dz_str s, uint64_t *ret_value)
{
    uint64_t value = 0;
    int base = 10;
    bool over = false;

    if (dz_str_eat(&s, DZ_STR("0x")) || dz_str_eat(&s, DZ_STR("0X")))
        base = 16;
    if (s.n == 0 || s.n > DZ_NUM_TEXT_MAX)
        return DIGITS_NONE;
    for (size_t i = 0; i < s.n; i++) {
        int d = dz_hex_digit(s.p[i]);
        if (d < 0 || d >= base)
            return DIGITS_NONE;
        over = over || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
               __builtin_add_overflow(value, (uint64_t)d, &value);
    }
    if (over)
        return DIGITS_OVER;
    *ret_value = value;
    return DIGITS_OK;
}

static const char *complaint(enum digits how)
{
    return how == DIGITS_NONE ? "is not an integer" : "is out of range";
}

int dz_num_u64(struct dz_str s, uint64_t min, uint64_t max, uint64_t *ret_value, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    uint64_t value = 0;
    enum digits how = read_digits(s, &value);

    if (how == DIGITS_OK && value >= min && value <= max) {
        *ret_value = value;
        return 0;
    }
    return dz_fail(err, DZ_EINVAL, "%s %s: expected an integer from %" PRIu64 " to %" PRIu64,
                   dz_str_quote(s, text), complaint(how == DIGITS_OK ? DIGITS_OVER : how), min,
                   max);
}

int dz_num_i64(struct dz_str s, int64_t min, int64_t max, int64_t *ret_value, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    struct dz_str rest = s;
    uint64_t size = 0;
    bool minus = dz_str_eat(&rest, DZ_STR("-"));
    enum digits how = read_digits(rest, &size);

    if (how == DIGITS_OK && size > (uint64_t)INT64_MAX + (minus ? 1 : 0))
        how = DIGITS_OVER;
    if (how == DIGITS_OK) {
        /* Written so that INT64_MIN never overflows on the way. */
        int64_t value = minus && size > 0 ? -(int64_t)(size - 1) - 1 : (int64_t)size;
        if (value >= min && value <= max) {
            *ret_value = value;
            return 0;
        }
        how = DIGITS_OVER;
    }
    return dz_fail(err, DZ_EINVAL, "%s %s: expected an integer from %" PRId64 " to %" PRId64,
                   dz_str_quote(s, text), complaint(how), min, max);
}

static size_t skip_digits(struct dz_str *s)
{
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
        n++;
    *s = dz_str_sub(*s, n, s->n);
    return n;
}

/* -? (digits [. digits?] | . digits) ([eE] [-+]? digits)? */
static bool is_decimal(struct dz_str s)
{
    (void)dz_str_eat(&s, DZ_STR("-"));
    size_t whole = skip_digits(&s), part = 0;
    if (dz_str_eat(&s, DZ_STR(".")))
        part = skip_digits(&s);
    if (whole + part == 0)
        return false;
    if (dz_str_eat(&s, DZ_STR("e")) || dz_str_eat(&s, DZ_STR("E"))) {
        if (!dz_str_eat(&s, DZ_STR("-")))
            (void)dz_str_eat(&s, DZ_STR("+"));
        if (skip_digits(&s) == 0)
            return false;
    }
    return s.n == 0;
}

int dz_num_double(struct dz_str s, double min, double max, double *ret_value, struct dz_err *err)
{
    char text[DZ_STR_QUOTED], local[DZ_NUM_TEXT_MAX + 1];

    if (s.n > DZ_NUM_TEXT_MAX || !is_decimal(s))
        return dz_fail(err, DZ_EINVAL, "%s is not a decimal number: expected one from %g to %g",
                       dz_str_quote(s, text), min, max);
    memcpy(local, s.p, s.n);
    local[s.n] = '\0';
    /* glibc answers newlocale("C") with its static object: nothing to free. */
    double value = strtod_l(local, NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    if (!isfinite(value) || value < min || value > max)
        return dz_fail(err, DZ_EINVAL, "%s is out of range: expected a number from %g to %g",
                       dz_str_quote(s, text), min, max);
    *ret_value = value;
    return 0;
}
