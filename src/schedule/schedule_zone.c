/* SPDX-License-Identifier: MIT
 *
 * Zone files: RFC 8536. A file has a block of 32-bit times, which is skipped if the file has
 * version 2 or later, a block of 64-bit times, and a line with a rule in the syntax of TZ, as
 * "CET-1CEST,M3.5.0,M10.5.0/3". Offsets in the rule count westwards, unlike those in the block.
 *
 * The file comes from the host, but it is checked like any input: each number is bounded, and what
 * does not fit is DZ_ECORRUPT.
 */
#include "schedule/schedule_zone.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_MAX = 256 << 10,
    TIMES_MAX = 4096,
    TYPES_MAX = 256,
    HEAD = 44,
    OFFSET_MAX = 26 * 3600, /* the widest that RFC 8536 allows */
    RULE_TIME_MAX = 168 * 3600,
    DAY = 86400,
};

/* A date of a rule: the moment of a change, in the local time before the change. */
struct rule_date {
    enum {
        JULIAN,
        ZERO_BASED,
        WEEKDAY
    } kind;
    int day, month, week; /* WEEKDAY: day 0 is Sunday, week 5 the last */
    int32_t time;
};

struct zone_rule {
    bool given, summer; /* summer: there are two offsets */
    int32_t standard, daylight;
    struct rule_date begin, end; /* of the daylight time */
};

struct dz_zone {
    size_t count;
    int64_t times[TIMES_MAX];
    uint8_t types[TIMES_MAX];
    size_t type_count;
    int32_t offsets[TYPES_MAX];
    struct zone_rule rule;
};

/* --- dates ------------------------------------------------------------------------------- */

static bool is_leap(int64_t y)
{
    return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

/* Days since 1970 of a date in the Gregorian calendar. */
static int64_t days_of(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400,
            of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int64_t year_of(int64_t at)
{
    int64_t year = 1970 + at / 31556952;
    while (days_of(year, 1, 1) * DAY > at)
        year--;
    while (days_of(year + 1, 1, 1) * DAY <= at)
        year++;
    return year;
}

static int64_t date_of(const struct rule_date *d, int64_t year)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t first = days_of(year, 1, 1), day;
    if (d->kind == JULIAN) {
        day = first + d->day - 1 + (is_leap(year) && d->day >= 60);
    } else if (d->kind == ZERO_BASED) {
        day = first + d->day;
    } else {
        int64_t start = days_of(year, d->month, 1);
        int length = lengths[d->month - 1] + (d->month == 2 && is_leap(year));
        int weekday = (int)(((start + 4) % 7 + 7) % 7); /* day 0 was a Thursday */
        int at = (d->day - weekday + 7) % 7 + (d->week - 1) * 7;
        if (at >= length)
            at -= 7;
        day = start + at;
    }
    return day * DAY + d->time;
}

/* --- the rule ---------------------------------------------------------------------------- */

static bool read_number(const char **p, int most, int *ret)
{
    int n = 0;
    const char *s = *p;
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        if ((n = n * 10 + (*s - '0')) > most)
            return false;
    *p = s;
    *ret = n;
    return true;
}

/* [+-]hh[:mm[:ss]] */
static bool read_time(const char **p, int32_t *ret)
{
    int h, m = 0, s = 0, sign = **p == '-' ? -1 : 1;
    if (**p == '-' || **p == '+')
        ++*p;
    if (!read_number(p, 167, &h))
        return false;
    if (**p == ':' && (++*p, !read_number(p, 59, &m)))
        return false;
    if (**p == ':' && (++*p, !read_number(p, 59, &s)))
        return false;
    *ret = sign * (h * 3600 + m * 60 + s);
    return true;
}

static bool read_name(const char **p)
{
    const char *s = *p;
    if (*s == '<') {
        s = strchr(s, '>');
        if (!s)
            return false;
        *p = s + 1;
        return true;
    }
    while ((*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z'))
        s++;
    bool some = s != *p;
    *p = s;
    return some;
}

static bool read_date(const char **p, struct rule_date *d)
{
    *d = (struct rule_date){.kind = ZERO_BASED, .time = 7200};
    if (*(*p)++ != ',')
        return false;
    bool good;
    if (**p == 'J') {
        ++*p;
        d->kind = JULIAN;
        good = read_number(p, 365, &d->day) && d->day >= 1;
    } else if (**p == 'M') {
        ++*p;
        d->kind = WEEKDAY;
        good = read_number(p, 12, &d->month) && d->month >= 1 && *(*p)++ == '.' &&
               read_number(p, 5, &d->week) && d->week >= 1 && *(*p)++ == '.' &&
               read_number(p, 6, &d->day);
    } else {
        good = read_number(p, 365, &d->day);
    }
    if (good && **p == '/') {
        ++*p;
        good = read_time(p, &d->time) && d->time <= RULE_TIME_MAX;
    }
    return good;
}

static bool read_rule(const char *p, struct zone_rule *r)
{
    int32_t west;
    *r = (struct zone_rule){0};
    if (!*p) /* no rule: the last offset stays */
        return true;
    if (!read_name(&p) || !read_time(&p, &west) || west > OFFSET_MAX || west < -OFFSET_MAX)
        return false;
    r->given = true;
    r->standard = -west;
    if (!*p)
        return true;
    r->summer = true;
    r->daylight = r->standard + 3600;
    if (!read_name(&p))
        return false;
    if (*p != ',') {
        if (!read_time(&p, &west) || west > OFFSET_MAX || west < -OFFSET_MAX)
            return false;
        r->daylight = -west;
    }
    return read_date(&p, &r->begin) && read_date(&p, &r->end) && !*p;
}

/* --- the file ---------------------------------------------------------------------------- */

static int64_t big(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return n == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
}

struct zone_head {
    size_t utc, std, leaps, times, types, chars;
};

/* Read the head of a block; false: it is none. *ret_size: of the block behind it. */
static bool read_head(const uint8_t *p, size_t n, size_t wide, struct zone_head *h,
                      size_t *ret_size)
{
    if (n < HEAD || memcmp(p, "TZif", 4) != 0)
        return false;
    size_t counts[6];
    for (int i = 0; i < 6; i++) {
        int64_t v = big(p + 20 + (size_t)i * 4, 4);
        if (v < 0 || v > FILE_MAX)
            return false;
        counts[i] = (size_t)v;
    }
    *h = (struct zone_head){counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]};
    *ret_size =
        h->times * (wide + 1) + h->types * 6 + h->chars + h->leaps * (wide + 4) + h->std + h->utc;
    return *ret_size <= n - HEAD;
}

static bool read_block(const uint8_t *p, const struct zone_head *h, size_t wide, struct dz_zone *z)
{
    if (h->times > TIMES_MAX || h->types == 0 || h->types > TYPES_MAX)
        return false;
    z->count = h->times;
    z->type_count = h->types;
    const uint8_t *types = p + h->times * wide, *infos = types + h->times;
    for (size_t i = 0; i < h->times; i++) {
        z->times[i] = big(p + i * wide, (int)wide);
        z->types[i] = types[i];
        if (z->types[i] >= h->types || (i > 0 && z->times[i] <= z->times[i - 1]))
            return false;
    }
    for (size_t i = 0; i < h->types; i++) {
        int64_t offset = big(infos + i * 6, 4);
        if (offset > OFFSET_MAX || offset < -OFFSET_MAX)
            return false;
        z->offsets[i] = (int32_t)offset;
    }
    return true;
}

static bool read_file(const uint8_t *p, size_t n, struct dz_zone *z)
{
    struct zone_head h;
    size_t size;
    if (!read_head(p, n, 4, &h, &size))
        return false;
    if (p[4] < '2')
        return read_block(p + HEAD, &h, 4, z);
    p += HEAD + size;
    n -= HEAD + size;
    if (!read_head(p, n, 8, &h, &size) || !read_block(p + HEAD, &h, 8, z))
        return false;
    p += HEAD + size;
    n -= HEAD + size;
    char line[256];
    if (n < 2 || p[0] != '\n' || n - 2 >= sizeof line || p[n - 1] != '\n')
        return false;
    memcpy(line, p + 1, n - 2);
    line[n - 2] = '\0';
    return strlen(line) == n - 2 && read_rule(line, &z->rule);
}

/* A name is a path below the database: words of letters, digits, '_', '-' and '+', with '/'
 * between. So it cannot lead out. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    bool word = false;
    if (n > DZ_ZONE_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '+';
        if (!letter && !(c == '/' && word))
            return false;
        word = letter;
    }
    return word;
}

static int unknown(const char *name, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    return dz_fail(err, DZ_EINVAL,
                   "%s is not a time zone of this host; an example is Europe/Berlin",
                   dz_str_quote(dz_str(name), quoted));
}

int dz_zone_open(const char *dir, const char *name, struct dz_zone **ret_zone, struct dz_err *err)
{
    struct dz_zone *z;
    char path[512];
    if (name[0] && !is_name(name))
        return unknown(name, err);
    if (!name[0] || strcmp(name, "UTC") == 0) {
        z = dz_zalloc(sizeof *z);
        if (!z)
            return dz_fail(err, DZ_ENOMEM, "read a time zone: out of memory");
        z->type_count = 1;
        *ret_zone = z;
        return 0;
    }
    int n = snprintf(path, sizeof path, "%s/%s", dir ? dir : "/usr/share/zoneinfo", name);
    if (n < 0 || n >= (int)sizeof path)
        return unknown(name, err);
    DZ_AUTO(dz_fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return dz_fail_sys(err, errno, "open %s", path);
    if (fd < 0)
        return unknown(name, err);
    uint8_t *bytes = dz_alloc(FILE_MAX);
    z = dz_zalloc(sizeof *z);
    ssize_t got = bytes && z ? 0 : -1;
    size_t size = 0;
    while (got >= 0 && size < FILE_MAX && (got = read(fd, bytes + size, FILE_MAX - size)) > 0)
        size += (size_t)got;
    int rc = !bytes || !z ? dz_fail(err, DZ_ENOMEM, "read a time zone: out of memory")
             : got < 0    ? unknown(name, err) /* a directory */
             : size < 4 || memcmp(bytes, "TZif", 4) != 0 ? unknown(name, err)
             : !read_file(bytes, size, z)
                 ? dz_fail(err, DZ_ECORRUPT, "%s: the file of this time zone is damaged", path)
                 : 0;
    dz_free(bytes);
    if (rc < 0) {
        dz_free(z);
        return rc;
    }
    *ret_zone = z;
    return 0;
}

void dz_zone_free(struct dz_zone *z)
{
    dz_free(z);
}

/* --- looking up -------------------------------------------------------------------------- */

static int32_t offset_of(const struct dz_zone *z, size_t i)
{
    return z->offsets[z->types[i]];
}

/* The span by the rule alone: the changes of the years around. */
static struct dz_zone_span rule_at(const struct zone_rule *r, int64_t at)
{
    struct dz_zone_span s = {INT64_MIN, INT64_MAX, r->standard, r->standard, r->standard};
    if (!r->summer)
        return s;
    int64_t year = year_of(at);
    for (int64_t y = year - 2; y <= year + 2; y++) {
        const struct {
            int64_t at;
            int32_t before, after;
        } changes[] = {
            {date_of(&r->begin, y) - r->standard, r->standard, r->daylight},
            {date_of(&r->end, y) - r->daylight, r->daylight, r->standard},
        };
        for (int i = 0; i < 2; i++) {
            if (changes[i].at <= at && changes[i].at > s.begin) {
                s.begin = changes[i].at;
                s.offset_before = changes[i].before;
                s.offset = changes[i].after;
            }
            if (changes[i].at > at && changes[i].at < s.end) {
                s.end = changes[i].at;
                s.offset_after = changes[i].after;
            }
        }
    }
    return s;
}

struct dz_zone_span dz_zone_at(const struct dz_zone *z, int64_t at)
{
    size_t low = 0, high = z->count; /* the first transition after `at` */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (z->times[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == z->count && z->rule.given) {
        struct dz_zone_span s = rule_at(&z->rule, at);
        if (z->count > 0 && s.begin <= z->times[z->count - 1]) {
            s.begin = z->times[z->count - 1];
            s.offset_before = z->count > 1 ? offset_of(z, z->count - 2) : z->offsets[0];
        }
        return s;
    }
    struct dz_zone_span s = {INT64_MIN, INT64_MAX, low ? offset_of(z, low - 1) : z->offsets[0], 0,
                             0};
    s.offset_before = s.offset_after = s.offset;
    if (low > 0) {
        s.begin = z->times[low - 1];
        s.offset_before = low > 1 ? offset_of(z, low - 2) : z->offsets[0];
    }
    if (low < z->count) {
        s.end = z->times[low];
        s.offset_after = offset_of(z, low);
    }
    return s;
}
