/* SPDX-License-Identifier: MIT
 *
 * posix_tz.c - local time by the rule in TZ.
 *
 * TZ is POSIX's text: std offset [dst [offset] [,start[/time],end[/time]]], names
 * of letters or in <>, dates as Mm.w.d, Jn or n. Without rules the United States'
 * stand in, as everywhere else. There is no data base of zones: a name such as
 * Europe/Vienna, or a text that is no rule, is UTC. libc's localtime, mktime and
 * strftime ask the two functions at the end of this file.
 */
#include "posix_int.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DAY = 86400,
    ZONE_NAME_MAX = 15
};

struct date_rule {
    char kind; /* 'M' month.week.day, 'J' day 1..365 without 29 February, 'n' day 0..365 */
    int month, week, day;
    int at; /* seconds after midnight, local */
};

struct zone {
    char name[2][ZONE_NAME_MAX + 1];
    long east[2]; /* seconds east of Greenwich; [1] in summer */
    int has_dst;
    struct date_rule rule[2]; /* when summer begins and ends */
};

char *tzname[2] = {"UTC", "UTC"};
int daylight;
long timezone;
const char __utc[] = "UTC";

static struct zone zone = {.name = {"UTC", "UTC"}};
static char zone_text[128];

/* --- reading TZ: each takes what it knows off *s, 0, or -1 ------------------- */

static int take_number(const char **s, int most, int *ret)
{
    int n = 0;

    if (!isdigit((unsigned char)**s))
        return -1;
    while (isdigit((unsigned char)**s) && n <= most)
        n = n * 10 + (*(*s)++ - '0');
    *ret = n;
    return n <= most ? 0 : -1;
}

static int take_name(const char **s, char name[ZONE_NAME_MAX + 1])
{
    int quoted = **s == '<';
    const char *p = *s + quoted;
    size_t n = 0;

    while (quoted ? p[n] && p[n] != '>' : isalpha((unsigned char)p[n]))
        n++;
    if (n < 3 || n > ZONE_NAME_MAX || (quoted && !p[n]))
        return -1;
    memcpy(name, p, n);
    name[n] = 0;
    *s = p + n + quoted;
    return 0;
}

static int take_time(const char **s, int hours_max, int *ret)
{
    int sign = 1, h, m = 0, sec = 0;

    if (**s == '+' || **s == '-')
        sign = *(*s)++ == '-' ? -1 : 1;
    if (take_number(s, hours_max, &h) < 0)
        return -1;
    if (**s == ':' && (++*s, take_number(s, 59, &m) < 0))
        return -1;
    if (**s == ':' && (++*s, take_number(s, 59, &sec) < 0))
        return -1;
    *ret = sign * (h * 3600 + m * 60 + sec);
    return 0;
}

static int take_date(const char **s, struct date_rule *r)
{
    r->kind = 'n';
    if (**s == 'M') {
        r->kind = *(*s)++;
        if (take_number(s, 12, &r->month) < 0 || r->month < 1 || *(*s)++ != '.' ||
            take_number(s, 5, &r->week) < 0 || r->week < 1 || *(*s)++ != '.' ||
            take_number(s, 6, &r->day) < 0)
            return -1;
    } else {
        if (**s == 'J')
            r->kind = *(*s)++;
        if (take_number(s, 365, &r->day) < 0 || (r->kind == 'J' && r->day < 1))
            return -1;
    }
    r->at = 2 * 3600;
    return **s == '/' ? (++*s, take_time(s, 167, &r->at)) : 0;
}

static int parse(const char *s, struct zone *z)
{
    const char *rules = ",M3.2.0,M11.1.0";
    int west;

    if (take_name(&s, z->name[0]) < 0 || take_time(&s, 24, &west) < 0)
        return -1;
    z->east[0] = z->east[1] = -west;
    memcpy(z->name[1], z->name[0], sizeof z->name[1]);
    z->has_dst = 0;
    if (!*s)
        return 0;
    if (take_name(&s, z->name[1]) < 0)
        return -1;
    z->has_dst = 1;
    z->east[1] = z->east[0] + 3600;
    if (*s && *s != ',') {
        if (take_time(&s, 24, &west) < 0)
            return -1;
        z->east[1] = -west;
    }
    if (!*s)
        s = rules;
    for (int i = 0; i < 2; i++)
        if (*s++ != ',' || take_date(&s, &z->rule[i]) < 0)
            return -1;
    return *s ? -1 : 0;
}

void tzset(void)
{
    const char *s = getenv("TZ");
    struct zone z = {0};

    s = s ? s + (*s == ':') : "";
    if (strncmp(s, zone_text, sizeof zone_text) != 0) {
        if (strlen(s) >= sizeof zone_text || parse(s, &z) < 0)
            z = (struct zone){.name = {"UTC", "UTC"}};
        zone = z;
        strncpy(zone_text, s, sizeof zone_text - 1);
    }
    tzname[0] = zone.name[0];
    tzname[1] = zone.name[1];
    timezone = -zone.east[0];
    daylight = zone.has_dst;
}

/* --- the calendar, in seconds and days since 1970 ------------------------------ */

static int is_leap(long long y)
{
    return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

static long long floor_div(long long a, long long b)
{
    return a / b - (a % b < 0);
}

static long long year_start_day(long long y)
{
    long long p = y - 1;

    return (y - 1970) * 365 + floor_div(p, 4) - floor_div(p, 100) + floor_div(p, 400) - 477;
}

static long long year_of(long long sec)
{
    long long day = floor_div(sec, DAY), y = 1970 + floor_div(day * 400, 146097);

    while (year_start_day(y) > day)
        y--;
    while (year_start_day(y + 1) <= day)
        y++;
    return y;
}

/* The local second of year y at which the rule takes effect. */
static long long rule_second(const struct date_rule *r, long long y)
{
    static const short before[13] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    long long day = year_start_day(y);

    if (r->kind == 'n') {
        day += r->day;
    } else if (r->kind == 'J') {
        day += r->day - 1 + (is_leap(y) && r->day >= 60);
    } else {
        int length = before[r->month] - before[r->month - 1] + (r->month == 2 && is_leap(y));
        day += before[r->month - 1] + (r->month > 2 && is_leap(y));
        int weekday = (int)((day % 7 + 11) % 7); /* 1970 began on a Thursday */
        int offset = (r->day - weekday + 7) % 7 + (r->week - 1) * 7;
        day += offset < length ? offset : offset - 7;
    }
    return day * DAY + r->at;
}

/* Is it summer at t? t is UTC, or local time: then both borders are as local. */
static int is_summer(long long t, int local)
{
    if (!zone.has_dst)
        return 0;
    long long y = year_of(local ? t : t + zone.east[0]);
    long long begin = rule_second(&zone.rule[0], y), end = rule_second(&zone.rule[1], y);
    if (!local) {
        begin -= zone.east[0];
        end -= zone.east[1];
    }
    return begin < end ? t >= begin && t < end : t >= begin || t < end;
}

/* --- what libc asks --------------------------------------------------------------- */

void __secs_to_zone(long long t, int local, int *ret_dst, int *ret_east, long *ret_other,
                    const char **ret_name)
{
    tzset();
    int dst = is_summer(t, local);
    *ret_dst = dst;
    *ret_east = (int)zone.east[dst];
    if (ret_other)
        *ret_other = zone.east[!dst && zone.has_dst];
    *ret_name = zone.name[dst];
}

const char *__tm_to_tzname(const struct tm *tm)
{
    const char *name = tm->tm_zone;

    tzset();
    return name == __utc || name == zone.name[0] || name == zone.name[1] ? name : "";
}
