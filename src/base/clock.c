/* SPDX-License-Identifier: MIT
 *
 * clock.c - the kernel's clocks, the test clock, and RFC 3339.
 *
 * Dates are counted in days of the proleptic Gregorian calendar: years are
 * taken to start in March, so that the leap day is the last of its year, and
 * are grouped in eras of 400 years, which all have 146,097 days.
 */
#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static struct dz_clock_test *_Atomic test_clock;

static int64_t kernel_ns(clockid_t id)
{
    struct timespec ts = {0};
    int rc = clock_gettime(id, &ts);
    assert(rc == 0); /* fails only for a clock that does not exist */
    (void)rc;
    return ts.tv_sec * DZ_NS_PER_S + ts.tv_nsec;
}

int64_t dz_clock_mono_ns(void)
{
    struct dz_clock_test *t = atomic_load(&test_clock);
    return t ? atomic_load(&t->mono_ns) : kernel_ns(CLOCK_MONOTONIC);
}

int64_t dz_clock_boot_ns(void)
{
    struct dz_clock_test *t = atomic_load(&test_clock);
    return t ? atomic_load(&t->boot_ns) : kernel_ns(CLOCK_BOOTTIME);
}

int64_t dz_clock_real_ns(void)
{
    struct dz_clock_test *t = atomic_load(&test_clock);
    return t ? atomic_load(&t->real_ns) : kernel_ns(CLOCK_REALTIME);
}

void dz_clock_use(struct dz_clock_test *t)
{
    atomic_store(&test_clock, t);
}

void dz_clock_advance(struct dz_clock_test *t, int64_t ns)
{
    assert(ns >= 0);
    (void)atomic_fetch_add(&t->mono_ns, ns);
    (void)atomic_fetch_add(&t->boot_ns, ns);
    (void)atomic_fetch_add(&t->real_ns, ns);
}

void dz_clock_set_real(struct dz_clock_test *t, int64_t real_ns)
{
    atomic_store(&t->real_ns, real_ns);
}

/* --- the calendar ---------------------------------------------------------- */

enum {
    ERA_DAYS = 146097,
    EPOCH_DAYS = 719468, /* from 0000-03-01 to 1970-01-01 */
    DAY_MS = 86400000,
};

struct date {
    int year, month, day; /* month and day from 1 */
};

/* Days from 1970-01-01; year >= 0. */
static int64_t days_of(struct date d)
{
    int year = d.month > 2 ? d.year : d.year - 1;
    int month = d.month > 2 ? d.month - 3 : d.month + 9; /* from March */
    int era = (year >= 0 ? year : year - 399) / 400;
    int of_era = year - era * 400;
    int day = (153 * month + 2) / 5 + d.day - 1;
    return (int64_t)era * ERA_DAYS + of_era * 365LL + of_era / 4 - of_era / 100 + day - EPOCH_DAYS;
}

static struct date date_of(int64_t days)
{
    days += EPOCH_DAYS;
    int era = (int)((days >= 0 ? days : days - (ERA_DAYS - 1)) / ERA_DAYS);
    int day = (int)(days - (int64_t)era * ERA_DAYS);
    int year = (day - day / 1460 + day / 36524 - day / (ERA_DAYS - 1)) / 365;
    day -= year * 365 + year / 4 - year / 100;
    int month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    month = month < 10 ? month + 3 : month - 9;
    return (struct date){year + era * 400 + (month <= 2), month, day + 1};
}

static int days_in_month(int year, int month)
{
    static const char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* --- RFC 3339 -------------------------------------------------------------- */

/* width digits of value, most significant first; returns what follows. */
static char *put_digits(char *p, int value, int width)
{
    for (int i = width - 1; i >= 0; i--, value /= 10)
        p[i] = (char)('0' + value % 10);
    return p + width;
}

char *dz_rfc3339_print(int64_t unix_ms, char out[static DZ_RFC3339_TEXT])
{
    if (unix_ms < DZ_RFC3339_MIN_MS)
        unix_ms = DZ_RFC3339_MIN_MS;
    if (unix_ms > DZ_RFC3339_MAX_MS)
        unix_ms = DZ_RFC3339_MAX_MS;
    int64_t days = (unix_ms - DZ_RFC3339_MIN_MS) / DAY_MS + DZ_RFC3339_MIN_MS / DAY_MS;
    int ms = (int)(unix_ms - days * DAY_MS);
    struct date d = date_of(days);
    char *p = put_digits(out, d.year, 4);
    *p++ = '-';
    p = put_digits(p, d.month, 2);
    *p++ = '-';
    p = put_digits(p, d.day, 2);
    *p++ = 'T';
    p = put_digits(p, ms / 3600000, 2);
    *p++ = ':';
    p = put_digits(p, ms / 60000 % 60, 2);
    *p++ = ':';
    p = put_digits(p, ms / 1000 % 60, 2);
    *p++ = '.';
    p = put_digits(p, ms % 1000, 3);
    memcpy(p, "Z", 2);
    return out;
}

/* Exactly width digits, then (unless 0) the character after. */
static bool take_digits(struct dz_str *s, size_t width, char after, int *ret_value)
{
    int value = 0;
    size_t all = width + (after != 0);
    if (s->n < all)
        return false;
    for (size_t i = 0; i < width; i++) {
        if (s->p[i] < '0' || s->p[i] > '9')
            return false;
        value = value * 10 + (s->p[i] - '0');
    }
    if (after && s->p[width] != after && !(after == 'T' && s->p[width] == 't'))
        return false;
    *s = dz_str_sub(*s, all, s->n);
    *ret_value = value;
    return true;
}

/* ".123456789", of which the milliseconds count; nothing is nothing. */
static bool take_fraction(struct dz_str *s, int *ret_ms)
{
    int ms = 0;
    size_t n = 0;
    if (!dz_str_eat(s, DZ_STR(".")))
        return true;
    for (; n < s->n && n < 9 && s->p[n] >= '0' && s->p[n] <= '9'; n++)
        if (n < 3)
            ms = ms * 10 + (s->p[n] - '0');
    for (size_t i = n; i < 3; i++)
        ms *= 10;
    *s = dz_str_sub(*s, n, s->n);
    *ret_ms = ms;
    return n > 0;
}

/* Z, +hh:mm or -hh:mm, to the end of the text. */
static bool take_offset(struct dz_str *s, int *ret_minutes)
{
    int hours, minutes;
    if (dz_str_eat(s, DZ_STR("Z")) || dz_str_eat(s, DZ_STR("z")))
        return s->n == 0;
    bool west = dz_str_eat(s, DZ_STR("-"));
    if (!west && !dz_str_eat(s, DZ_STR("+")))
        return false;
    if (!take_digits(s, 2, ':', &hours) || !take_digits(s, 2, 0, &minutes) || s->n != 0 ||
        hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (west ? -1 : 1) * (hours * 60 + minutes);
    return true;
}

int dz_rfc3339_parse(struct dz_str s, int64_t *ret_unix_ms, struct dz_err *err)
{
    char text[DZ_STR_QUOTED];
    struct date d;
    struct dz_str r = s;
    int hour, minute, second, ms = 0, offset = 0;

    bool good = take_digits(&r, 4, '-', &d.year) && take_digits(&r, 2, '-', &d.month) &&
                take_digits(&r, 2, 'T', &d.day) && take_digits(&r, 2, ':', &hour) &&
                take_digits(&r, 2, ':', &minute) && take_digits(&r, 2, 0, &second) &&
                take_fraction(&r, &ms) && take_offset(&r, &offset);
    if (!good)
        return dz_fail(err, DZ_EINVAL,
                       "%s is not a time: expected RFC 3339, for example "
                       "2026-01-31T23:59:59.000Z",
                       dz_str_quote(s, text));
    if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_in_month(d.year, d.month) ||
        hour > 23 || minute > 59 || second > 59)
        return dz_fail(err, DZ_EINVAL, "%s is not a date of the calendar", dz_str_quote(s, text));
    int64_t value =
        days_of(d) * DAY_MS + hour * 3600000LL + (minute - offset) * 60000LL + second * 1000LL + ms;
    if (value < DZ_RFC3339_MIN_MS || value > DZ_RFC3339_MAX_MS)
        return dz_fail(err, DZ_EINVAL, "%s is out of range: expected a year from 0000 to 9999",
                       dz_str_quote(s, text));
    *ret_unix_ms = value;
    return 0;
}

void dz_clock_boot_id(char ret_id[static DZ_BOOT_ID])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, ret_id, DZ_BOOT_ID - 1);
    ret_id[n == DZ_BOOT_ID - 1 ? n : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}
