/* SPDX-License-Identifier: MIT
 *
 * registry_meter.h - the journal of what sandboxes and snapshots occupy: memory and storage, for
 * usage and bills.
 *
 * The journal consists of intervals. In an interval, a sandbox has one state, one memory and one
 * size of its files; a snapshot has one size. The registry writes the journal itself: the
 * transaction that changes the state, the memory or the size of the cold copy in a row also ends
 * the interval and begins the next one, with the same time as its event. So the journal has every
 * change, in every order of crashes, and nothing samples states. The size of the live file is not
 * in a row: dz_registry_meter_file reports it.
 *
 * An interval has the dates of the wall clock. If that clock is set by a second or more while the
 * registry is open, the intervals that are not over end at the date before and begin again at the
 * date after: the length of intervals is the time that has passed, and intervals may overlap. A
 * slower correction of the clock counts as time. A machine that was off cannot tell how its clock
 * was set meanwhile.
 *
 * A sandbox has memory only while it is active. After the death of a daemon,
 * dz_registry_meter_resume ends that memory at the last sign of life in the journal; without it the
 * time until the next start would be charged.
 *
 * Invariants: (1) a row of `instances` or `snapshot` has one interval that is not over, others have
 * none; (2) the lengths of a sandbox's intervals add up to its age, but for set clocks.
 */
#ifndef DZ_REGISTRY_REGISTRY_METER_H
#define DZ_REGISTRY_REGISTRY_METER_H

#include "registry/registry.h"

#define DZ_REGISTRY_METER_KEPT_MS \
    (400 * INT64_C(24) * 3600 * 1000) /* how long an interval that is over is kept */

struct dz_registry_interval {
    const char *state; /* of the sandbox, or DZ_REGISTRY_METER_SNAPSHOT */
    int64_t since, until;
    int64_t memory, file, cold; /* bytes of memory, of live files and WALs, in cold storage */
};
#define DZ_REGISTRY_METER_SNAPSHOT "snapshot"

struct dz_registry_meter_filter {
    const char *tenant, *sandbox_id; /* NULL: any. Of a sandbox: with the snapshots of it */
    int64_t from, to;                /* only intervals within, cut to this span */
};
typedef void dz_registry_interval_fn(void *arg, const struct dz_registry_interval *i);

/* Call fn for each interval, in no particular order. An interval that is not over ends now. fn must
 * not use the registry. */
DZ_NODISCARD int dz_registry_meter_read(struct dz_registry *r,
                                        const struct dz_registry_meter_filter *f,
                                        dz_registry_interval_fn *fn, void *arg, struct dz_err *err);
/* From now on the live files of this sandbox have this size. Does nothing if there is no such
 * sandbox, or if the size is known already. */
DZ_NODISCARD int dz_registry_meter_file(struct dz_registry *r, const char *id, int64_t bytes,
                                        struct dz_err *err);
/* The tenant of a sandbox that exists or has existed, for as long as the journal has it: 1, and
 * *ret_tenant, which the caller frees; 0: there is none, or not of this tenant (NULL: any). */
DZ_NODISCARD int dz_registry_meter_tenant(struct dz_registry *r, const char *tenant,
                                          const char *sandbox_id, char **ret_tenant,
                                          struct dz_err *err);
/* A sign of life: the daemon that owns the registry calls this once a minute. */
DZ_NODISCARD int dz_registry_meter_mark(struct dz_registry *r, struct dz_err *err);
/* At the start of a daemon, before anything else changes a row: no sandbox is active. */
DZ_NODISCARD int dz_registry_meter_resume(struct dz_registry *r, struct dz_err *err);

#endif
