/* SPDX-License-Identifier: MIT
 *
 * schedule_zone.h - time zones, read from the host's database (/usr/share/zoneinfo, RFC 8536).
 *
 * A zone answers one question: which offset from UTC applies at a moment, and from when to when. It
 * holds the transitions that its file lists, and the rule at the end of the file for the time after
 * the last of them.
 */
#ifndef DZ_SCHEDULE_SCHEDULE_ZONE_H
#define DZ_SCHEDULE_SCHEDULE_ZONE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdint.h>

enum {
    DZ_ZONE_NAME_MAX = 63, /* bytes of a name such as America/Argentina/ComodRivadavia */
};

struct dz_zone;

/* Read a zone by its name; "" and "UTC" need no database. dir: of the database, NULL:
 * /usr/share/zoneinfo. DZ_EINVAL: there is no such zone, or its name is malformed. DZ_ECORRUPT: its
 * file is damaged. */
DZ_NODISCARD int dz_zone_open(const char *dir, const char *name, struct dz_zone **ret_zone,
                              struct dz_err *err);
void dz_zone_free(struct dz_zone *z); /* NULL is fine */
static inline void dz_zone_freep(struct dz_zone **z)
{
    dz_zone_free(*z);
}

/* The stretch of time with one offset that contains a moment. All are seconds since 1970. */
struct dz_zone_span {
    int64_t begin, end;    /* INT64_MIN, INT64_MAX: no such transition */
    int32_t offset;        /* local time = UTC + offset */
    int32_t offset_before; /* before begin; offset if there is no transition */
    int32_t offset_after;  /* from end on */
};
struct dz_zone_span dz_zone_at(const struct dz_zone *z, int64_t at);

#endif
