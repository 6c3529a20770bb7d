/* SPDX-License-Identifier: MIT
 *
 * num_unit.c - durations and sizes: numbers with a unit.
 *
 * Both are tables of (name, factor). Printed text is parsed back to the same value:
 * parse(print(x)) == x for every x.
 */
#include "base/num.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct unit {
    struct dz_str name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    /* largest first */
    {DZ_STR_INIT("d"), 86400000}, {DZ_STR_INIT("h"), 3600000}, {DZ_STR_INIT("m"), 60000},
    {DZ_STR_INIT("s"), 1000},     {DZ_STR_INIT("ms"), 1},
};

static const struct unit size_units[] = {
    {DZ_STR_INIT("B"), 1},
    {DZ_STR_INIT("kB"), 1000},
    {DZ_STR_INIT("KB"), 1000},
    {DZ_STR_INIT("KiB"), 1ull << 10},
    {DZ_STR_INIT("MB"), 1000000},
    {DZ_STR_INIT("MiB"), 1ull << 20},
    {DZ_STR_INIT("GB"), 1000000000},
    {DZ_STR_INIT("GiB"), 1ull << 30},
    {DZ_STR_INIT("TB"), 1000000000000},
    {DZ_STR_INIT("TiB"), 1ull << 40},
    {DZ_STR_INIT("PB"), 1000000000000000},
    {DZ_STR_INIT("PiB"), 1ull << 50},
    {DZ_STR_INIT("EB"), 1000000000000000000},
    {DZ_STR_INIT("EiB"), 1ull << 60},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Remove digits and then a unit (everything up to the next digit) from *s. False: there are no
 * digits; *ret_over: the number does not fit into 64 bits. */
static bool take_part(struct dz_str *s, uint64_t *ret_value, struct dz_str *ret_unit,
                      bool *ret_over)
{
    uint64_t value = 0;
    size_t i = 0, unit;

    *ret_over = false;
    for (; i < s->n && is_digit(s->p[i]); i++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s->p[i] - '0'), &value))
            *ret_over = true;
    if (i == 0)
        return false;
    for (unit = i; i < s->n && !is_digit(s->p[i]);)
        i++;
    *ret_value = value;
    *ret_unit = dz_str_sub(*s, unit, i - unit);
    *s = dz_str_sub(*s, i, s->n);
    return true;
}

static int find_unit(const struct unit *units, size_t count, struct dz_str name)
{
    for (size_t i = 0; i < count; i++)
        if (dz_str_eq(units[i].name, name))
            return (int)i;
    return -1;
}

enum part {
    PART_OK,
    PART_BAD,
    PART_OVER,
};

/* All of s as milliseconds. */
static enum part read_duration(struct dz_str s, uint64_t *ret_ms)
{
    uint64_t sum = 0, value;
    struct dz_str unit;
    int last = -1;
    bool over = false, part_over;

    if (s.n == 0 || s.n > DZ_NUM_TEXT_MAX)
        return PART_BAD;
    for (bool first = true; s.n > 0; first = false) {
        if (!take_part(&s, &value, &unit, &part_over))
            return PART_BAD;
        if (first && s.n == 0 && unit.n == 0)
            unit = DZ_STR("s");
        int at = find_unit(duration_units, DZ_ARRAY_LEN(duration_units), unit);
        if (at <= last)
            return PART_BAD;
        last = at;
        over = over || part_over ||
               __builtin_mul_overflow(value, duration_units[at].factor, &value) ||
               __builtin_add_overflow(sum, value, &sum);
    }
    if (over || sum > INT64_MAX)
        return PART_OVER;
    *ret_ms = sum;
    return PART_OK;
}

int dz_duration_parse(struct dz_str s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
                      struct dz_err *err)
{
    char text[DZ_STR_QUOTED], low[DZ_DURATION_TEXT], high[DZ_DURATION_TEXT];
    uint64_t ms = 0;

    assert(min_ms >= 0);
    enum part how = read_duration(s, &ms);
    if (how == PART_BAD)
        return dz_fail(err, DZ_EINVAL,
                       "%s is not a duration: expected seconds or text like 1500ms, 90s, 15m, "
                       "1h30m, 7d",
                       dz_str_quote(s, text));
    if (how == PART_OVER || (int64_t)ms < min_ms || (int64_t)ms > max_ms)
        return dz_fail(err, DZ_EINVAL, "%s is out of range: expected a duration from %s to %s",
                       dz_str_quote(s, text), dz_duration_print(min_ms, low),
                       dz_duration_print(max_ms, high));
    *ret_ms = (int64_t)ms;
    return 0;
}

char *dz_duration_print(int64_t ms, char out[static DZ_DURATION_TEXT])
{
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    size_t len = 0;

    if (ms == 0) {
        memcpy(out, "0s", 3);
        return out;
    }
    if (ms < 0)
        out[len++] = '-';
    for (size_t i = 0; i < DZ_ARRAY_LEN(duration_units); i++) {
        const struct unit *u = &duration_units[i];
        if (left < u->factor)
            continue;
        len += (size_t)snprintf(out + len, DZ_DURATION_TEXT - len, "%" PRIu64 "%s",
                                left / u->factor, u->name.p);
        left %= u->factor;
    }
    assert(left == 0 && len < DZ_DURATION_TEXT);
    return out;
}

static enum part read_size(struct dz_str s, uint64_t *ret_bytes)
{
    uint64_t value;
    struct dz_str unit;
    bool over;

    if (s.n > DZ_NUM_TEXT_MAX || !take_part(&s, &value, &unit, &over) || s.n != 0)
        return PART_BAD;
    int at = unit.n ? find_unit(size_units, DZ_ARRAY_LEN(size_units), unit) : 0;
    if (at < 0)
        return PART_BAD;
    if (over || __builtin_mul_overflow(value, size_units[at].factor, &value))
        return PART_OVER;
    *ret_bytes = value;
    return PART_OK;
}

int dz_size_parse(struct dz_str s, uint64_t min, uint64_t max, uint64_t *ret_bytes,
                  struct dz_err *err)
{
    char text[DZ_STR_QUOTED], low[DZ_SIZE_TEXT], high[DZ_SIZE_TEXT];
    uint64_t bytes = 0;

    enum part how = read_size(s, &bytes);
    if (how == PART_BAD)
        return dz_fail(err, DZ_EINVAL,
                       "%s is not a size: expected bytes or text like 64MB (decimal) or 4KiB "
                       "(binary)",
                       dz_str_quote(s, text));
    if (how == PART_OVER || bytes < min || bytes > max)
        return dz_fail(err, DZ_EINVAL, "%s is out of range: expected a size from %s to %s",
                       dz_str_quote(s, text), dz_size_print(min, low), dz_size_print(max, high));
    *ret_bytes = bytes;
    return 0;
}

char *dz_size_print(uint64_t bytes, char out[static DZ_SIZE_TEXT])
{
    const struct unit *best = &size_units[0];

    for (size_t i = 1; bytes > 0 && i < DZ_ARRAY_LEN(size_units); i++)
        if (bytes % size_units[i].factor == 0 && size_units[i].factor > best->factor)
            best = &size_units[i];
    (void)snprintf(out, DZ_SIZE_TEXT, "%" PRIu64 "%s", bytes / best->factor, best->name.p);
    return out;
}
