/* SPDX-License-Identifier: MIT
 *
 * Cron expressions: reading them, and searching the next moment. The search goes from one span of
 * constant offset to the next; inside a span it is a search in plain local time.
 */
#include "schedule/schedule_cron.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    MINUTE = 60,
    HOUR = 3600,
    DAY = 86400,
    SPANS_MAX = 64, /* changes of the offset in DZ_CRON_YEARS: Morocco has four a year */
};

/* --- reading ----------------------------------------------------------------------------- */

struct cron_field {
    const char *name;
    unsigned low, high;
    const char *const *words; /* names of the values from `first_word` on; NULL at the end */
    unsigned first_word;
};
static const char *const month_words[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_words[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};
static const struct cron_field cron_fields[] = {
    {"minute", 0, 59, NULL, 0},
    {"hour", 0, 23, NULL, 0},
    {"day of the month", 1, 31, NULL, 0},
    {"month", 1, 12, month_words, 1},
    {"day of the week", 0, 7, weekday_words, 0},
};

static bool read_value(const struct cron_field *f, const char **p, unsigned *ret)
{
    unsigned n = 0;
    for (unsigned i = 0; f->words && f->words[i]; i++)
        if (strncasecmp(*p, f->words[i], 3) == 0) {
            *p += 3;
            *ret = f->first_word + i;
            return true;
        }
    if (**p < '0' || **p > '9')
        return false;
    for (; **p >= '0' && **p <= '9'; ++*p)
        if ((n = n * 10 + (unsigned)(**p - '0')) > 99)
            return false;
    *ret = n;
    return n >= f->low && n <= f->high;
}

/* Read an element of a list: '*', a value or a range, perhaps with a step. */
static bool read_element(const struct cron_field *f, const char **p, uint64_t *set)
{
    unsigned from = f->low, to = f->high, step = 1;
    bool one = false;
    if (**p == '*') {
        ++*p;
    } else {
        if (!read_value(f, p, &from))
            return false;
        to = from;
        one = true;
        if (**p == '-') {
            ++*p;
            one = false;
            if (!read_value(f, p, &to) || to < from)
                return false;
        }
    }
    if (**p == '/') {
        ++*p;
        const struct cron_field steps = {"step", 1, f->high, NULL, 0};
        if (!read_value(&steps, p, &step))
            return false;
        if (one) /* "5/15": from 5 on */
            to = f->high;
    }
    for (unsigned v = from; v <= to; v += step)
        *set |= UINT64_C(1) << v;
    return true;
}

static const char *expand(const char *text)
{
    static const char *const words[][2] = {
        {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"},
    };
    for (size_t i = 0; i < DZ_ARRAY_LEN(words); i++)
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

int dz_cron_parse(const char *text, struct dz_cron *ret_cron, struct dz_err *err)
{
    uint64_t sets[DZ_ARRAY_LEN(cron_fields)] = {0};
    bool any[DZ_ARRAY_LEN(cron_fields)];
    char quoted[DZ_STR_QUOTED];
    const char *p = expand(text);
    (void)dz_str_quote(dz_str(text), quoted);
    if (strlen(text) > DZ_CRON_TEXT_MAX)
        return dz_fail(err, DZ_EINVAL, "a cron expression has at most %d bytes", DZ_CRON_TEXT_MAX);
    for (size_t i = 0; i < DZ_ARRAY_LEN(cron_fields); i++) {
        p += strspn(p, " \t");
        if (!*p)
            return dz_fail(
                err, DZ_EINVAL,
                "%s is not a cron expression: it needs the five fields minute, hour, day "
                "of the month, month, day of the week",
                quoted);
        any[i] = *p == '*';
        bool good = read_element(&cron_fields[i], &p, &sets[i]);
        while (good && *p == ',') {
            p++;
            good = read_element(&cron_fields[i], &p, &sets[i]);
        }
        if (!good || (*p && *p != ' ' && *p != '\t'))
            return dz_fail(err, DZ_EINVAL,
                           "%s is not a cron expression: its %s is wrong (%u to %u)", quoted,
                           cron_fields[i].name, cron_fields[i].low, cron_fields[i].high);
    }
    p += strspn(p, " \t");
    if (*p)
        return dz_fail(err, DZ_EINVAL, "%s is not a cron expression: it has more than five fields",
                       quoted);
    *ret_cron = (struct dz_cron){
        .minutes = sets[0],
        .hours = (uint32_t)sets[1],
        .days = (uint32_t)sets[2],
        .months = (uint32_t)sets[3],
        .weekdays = (uint32_t)((sets[4] | sets[4] >> 7) & 127),
        .any_hour = any[1],
        .any_day = any[2],
        .any_weekday = any[4],
    };
    return 0;
}

/* --- searching --------------------------------------------------------------------------- */

struct civil {
    int64_t year;
    unsigned month, day;
};

static struct civil civil_of(int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), m = (5 * of_year + 2) / 153;
    unsigned month = (unsigned)(m < 10 ? m + 3 : m - 9);
    return (struct civil){year + era * 400 + (month <= 2), month,
                          (unsigned)(of_year - (153 * m + 2) / 5 + 1)};
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool day_matches(const struct dz_cron *c, int64_t days)
{
    struct civil d = civil_of(days);
    unsigned weekday = (unsigned)(((days + 4) % 7 + 7) % 7);
    bool day = c->days >> d.day & 1, of_week = c->weekdays >> weekday & 1;
    if (!(c->months >> d.month & 1))
        return false;
    return c->any_day || c->any_weekday ? day && of_week : day || of_week;
}

/* The first local time from `from` on that matches, up to `until`; INT64_MAX: none. */
static int64_t next_local(const struct dz_cron *c, int64_t from, int64_t until)
{
    from = floor_div(from + MINUTE - 1, MINUTE) * MINUTE;
    int64_t day = floor_div(from, DAY), second = from - day * DAY;
    for (; day * DAY <= until; day++, second = 0) {
        if (!day_matches(c, day))
            continue;
        for (int hour = (int)(second / HOUR); hour < 24; hour++) {
            if (!(c->hours >> hour & 1))
                continue;
            int minute = second > hour * HOUR ? (int)(second - hour * HOUR) / MINUTE : 0;
            for (; minute < 60; minute++)
                if (c->minutes >> minute & 1)
                    return day * DAY + hour * HOUR + minute * MINUTE;
        }
    }
    return INT64_MAX;
}

int64_t dz_cron_next(const struct dz_cron *c, const struct dz_zone *z, int64_t after)
{
    const int64_t limit = after + (int64_t)DZ_CRON_YEARS * 366 * DAY;
    int64_t at = after + 1;
    for (int i = 0; i < SPANS_MAX && at <= limit; i++) {
        const struct dz_zone_span s = dz_zone_at(z, at);
        int64_t from = at + s.offset, end = s.end < limit ? s.end : limit;
        /* The clocks were set back at s.begin: skip the local times that they show again. */
        if (!c->any_hour && s.begin != INT64_MIN && s.offset_before > s.offset &&
            from < s.begin + s.offset_before)
            from = s.begin + s.offset_before;
        int64_t local = next_local(c, from, end + s.offset);
        if (local != INT64_MAX && local - s.offset < end)
            return local - s.offset;
        if (s.end > limit)
            break;
        /* The clocks skip the local times from s.end + s.offset on. */
        if (!c->any_hour && s.offset_after > s.offset) {
            local = next_local(c, s.end + s.offset, s.end + s.offset_after);
            if (local < s.end + s.offset_after)
                return s.end;
        }
        at = s.end;
    }
    return INT64_MAX;
}
