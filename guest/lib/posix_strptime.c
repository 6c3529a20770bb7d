/* SPDX-License-Identifier: MIT
 *
 * posix_strptime.c - times from text. libc's own knows no time zones (%z, %Z) and
 * not what others take besides POSIX (%s, %F, %k, %l, %P, %G, %g, %u, %V).
 *
 * Of the C locale: its names, its formats. %U, %W, %V, %G and %g are read and have
 * no effect, as elsewhere. What was not named stays as it was; the day of the week
 * and that of the year follow from the date, where that is known.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char days[][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                "Thursday", "Friday", "Saturday"};
static const char months[][10] = {"January",   "February", "March",    "April",
                                  "May",       "June",     "July",     "August",
                                  "September", "October",  "November", "December"};

struct parse {
    struct tm *tm;
    int century, short_year, pm; /* -1: not named */
    int have_year, have_month, have_day, have_yday;
};

static const char *spaces(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

/* A number of at most `digits` digits between min and max. */
static const char *number(const char *s, int digits, int min, int max, int *ret)
{
    int v = 0, n = 0;

    s = spaces(s);
    for (; n < digits && isdigit((unsigned char)*s); n++)
        v = v * 10 + (*s++ - '0');
    if (n == 0 || v < min || v > max)
        return NULL;
    *ret = v;
    return s;
}

/* A name or its first three letters, any case. */
static const char *name(const char *s, const char list[][10], int count, int *ret)
{
    for (int i = 0; i < count; i++) {
        size_t full = strlen(list[i]);
        size_t n = strncasecmp(s, list[i], full) == 0 ? full : 3;
        if (strncasecmp(s, list[i], n) == 0) {
            *ret = i;
            return s + n;
        }
    }
    return NULL;
}

/* Z, +hh, +hhmm, +hh:mm. */
static const char *offset(const char *s, struct tm *tm)
{
    int h, m = 0;

    s = spaces(s);
    if (*s == 'Z') {
        tm->tm_gmtoff = 0;
        return s + 1;
    }
    if (*s != '+' && *s != '-')
        return NULL;
    int sign = *s++ == '-' ? -1 : 1;
    const char *at = isdigit((unsigned char)*s) ? number(s, 2, 0, 24, &h) : NULL;
    if (!at || at != s + 2)
        return NULL;
    s = at + (at[0] == ':' && isdigit((unsigned char)at[1]));
    if (isdigit((unsigned char)*s) && !(s = number(s, 2, 0, 59, &m)))
        return NULL;
    tm->tm_gmtoff = sign * (h * 3600 + m * 60);
    return s;
}

static const char *epoch(const char *s, struct tm *tm)
{
    time_t t = 0;
    int minus = *s == '-';

    s += minus;
    if (!isdigit((unsigned char)*s))
        return NULL;
    while (isdigit((unsigned char)*s))
        if (__builtin_mul_overflow(t, 10, &t) || __builtin_add_overflow(t, *s++ - '0', &t))
            return NULL;
    t = minus ? -t : t;
    return localtime_r(&t, tm) ? s : NULL;
}

static const char *half(const char *s, struct parse *p)
{
    if (strncasecmp(s, "AM", 2) != 0 && strncasecmp(s, "PM", 2) != 0)
        return NULL;
    p->pm = *s == 'P' || *s == 'p';
    return s + 2;
}

static const char *year(const char *s, struct parse *p)
{
    int minus = *(s = spaces(s)) == '-', v;

    s = number(s + minus, 4, 0, 9999, &v);
    p->tm->tm_year = (minus ? -v : v) - 1900;
    p->century = p->short_year = -1;
    p->have_year = 1;
    return s;
}

/* Shorthands for several conversions. */
static const char *whole(char c)
{
    switch (c) {
    case 'c':
        return "%a %b %e %T %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

static const char *date_field(char c, const char *s, struct parse *p)
{
    struct tm *tm = p->tm;

    switch (c) {
    case 'a':
    case 'A':
        return name(spaces(s), days, 7, &tm->tm_wday);
    case 'b':
    case 'B':
    case 'h':
        p->have_month = 1;
        return name(spaces(s), months, 12, &tm->tm_mon);
    case 'C':
        return number(s, 2, 0, 99, &p->century);
    case 'd':
    case 'e':
        p->have_day = 1;
        return number(s, 2, 1, 31, &tm->tm_mday);
    case 'j':
        p->have_yday = 1;
        s = number(s, 3, 1, 366, &tm->tm_yday);
        tm->tm_yday--;
        return s;
    case 'm':
        p->have_month = 1;
        s = number(s, 2, 1, 12, &tm->tm_mon);
        tm->tm_mon--;
        return s;
    case 'u':
        s = number(s, 1, 1, 7, &tm->tm_wday);
        tm->tm_wday %= 7;
        return s;
    case 'w':
        return number(s, 1, 0, 6, &tm->tm_wday);
    case 'Y':
        return year(s, p);
    case 'y':
        return number(s, 2, 0, 99, &p->short_year);
    default:
        return NULL;
    }
}

static const char *time_field(char c, const char *s, struct parse *p)
{
    struct tm *tm = p->tm;
    int skipped;

    switch (c) {
    case 'H':
    case 'k':
        return number(s, 2, 0, 23, &tm->tm_hour);
    case 'I':
    case 'l':
        s = number(s, 2, 1, 12, &tm->tm_hour);
        tm->tm_hour %= 12;
        return s;
    case 'M':
        return number(s, 2, 0, 59, &tm->tm_min);
    case 'p':
    case 'P':
        return half(spaces(s), p);
    case 'S':
        return number(s, 2, 0, 61, &tm->tm_sec);
    case 's':
        p->have_year = p->have_month = p->have_day = 1;
        return epoch(spaces(s), tm);
    case 'z':
        return offset(s, tm);
    case 'Z':
        for (s = spaces(s); isalpha((unsigned char)*s); s++)
            ;
        return s;
    case 'g':
    case 'U':
    case 'V':
    case 'W':
        return number(s, 2, 0, 99, &skipped);
    case 'G':
        return number(s, 4, 0, 9999, &skipped);
    default:
        return NULL;
    }
}

static const char *parse(const char *s, const char *fmt, struct parse *p)
{
    for (; s && *fmt; fmt++) {
        if (isspace((unsigned char)*fmt)) {
            s = spaces(s);
            continue;
        }
        if (*fmt != '%') {
            s = *s == *fmt ? s + 1 : NULL;
            continue;
        }
        fmt += fmt[1] == 'E' || fmt[1] == 'O' ? 2 : 1;
        if (*fmt == '%')
            s = *spaces(s) == '%' ? spaces(s) + 1 : NULL;
        else if (*fmt == 'n' || *fmt == 't')
            s = spaces(s);
        else if (whole(*fmt))
            s = parse(s, whole(*fmt), p);
        else if (*fmt && strchr("HIMPSUVWZgGklpsz", *fmt))
            s = time_field(*fmt, s, p);
        else
            s = *fmt ? date_field(*fmt, s, p) : NULL;
    }
    return s;
}

static void settle(struct parse *p)
{
    struct tm *tm = p->tm, copy;

    if (p->pm == 1 && tm->tm_hour < 12)
        tm->tm_hour += 12;
    if (p->short_year >= 0 || p->century >= 0) {
        int rest = p->short_year >= 0 ? p->short_year : 0;
        int century = p->century >= 0 ? p->century : rest < 69 ? 20 : 19;
        tm->tm_year = century * 100 + rest - 1900;
        p->have_year = 1;
    }
    if (p->have_yday && p->have_year && !(p->have_month && p->have_day)) {
        copy = (struct tm){.tm_year = tm->tm_year, .tm_mday = tm->tm_yday + 1};
        if (timegm(&copy) != -1) {
            tm->tm_mon = copy.tm_mon;
            tm->tm_mday = copy.tm_mday;
            p->have_month = p->have_day = 1;
        }
    }
    if (p->have_year && p->have_month && p->have_day) {
        copy = (struct tm){
            .tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday, .tm_hour = 12};
        (void)timegm(&copy);
        tm->tm_wday = copy.tm_wday;
        tm->tm_yday = copy.tm_yday;
    }
}

char *strptime(const char *restrict s, const char *restrict fmt, struct tm *restrict tm)
{
    struct parse p = {.tm = tm, .century = -1, .short_year = -1, .pm = -1};

    s = parse(s, fmt, &p);
    if (s)
        settle(&p);
    return (char *)s;
}
