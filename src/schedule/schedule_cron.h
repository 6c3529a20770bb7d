/* SPDX-License-Identifier: MIT
 *
 * schedule_cron.h - cron expressions: when they come next, in a time zone.
 *
 * Five fields: minute, hour, day of the month, month, day of the week. A field is '*', a number, a
 * range a-b, any of these with a step /n, or a list of these with commas. Months and days of the
 * week also have their English names of three letters; Sunday is 0 or 7. If both days are
 * restricted, one of them must match. The words @hourly, @daily, @midnight, @weekly, @monthly,
 * @yearly and @annually stand for their usual expressions.
 *
 * A local time that the clocks skip and a local time that they show twice:
 *   - An expression with fixed hours comes once. A skipped time comes when the clocks have skipped
 *     it; several times that are skipped together come as one. A repeated time comes the first
 *     time.
 *   - An expression whose hour is '*' or '*' with a step follows the local time as it is: what is
 *     skipped does not come, and what is repeated comes twice.
 */
#ifndef DZ_SCHEDULE_SCHEDULE_CRON_H
#define DZ_SCHEDULE_SCHEDULE_CRON_H

#include "base/attr.h"
#include "base/err.h"
#include "schedule/schedule_zone.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_CRON_TEXT_MAX = 255, /* bytes of an expression */
    DZ_CRON_YEARS = 9,      /* how far dz_cron_next looks ahead: 29 February may be 8 years away */
};

struct dz_cron {
    uint64_t minutes;
    uint32_t hours, days, months, weekdays; /* bits; months from bit 1, Sunday is bit 0 */
    bool any_hour, any_day, any_weekday;    /* the field begins with '*' */
};

/* DZ_EINVAL with the field at fault. */
DZ_NODISCARD int dz_cron_parse(const char *text, struct dz_cron *ret_cron, struct dz_err *err);
/* The first moment after `after`, both in seconds since 1970. INT64_MAX: none within
 * DZ_CRON_YEARS. */
int64_t dz_cron_next(const struct dz_cron *c, const struct dz_zone *z, int64_t after);

#endif
