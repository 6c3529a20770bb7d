/* SPDX-License-Identifier: MIT
 *
 * schedule.h - schedules: commands that run in a sandbox at certain times.
 *
 * A schedule is a row of the registry's table `schedule`. It comes by a cron expression in a time
 * zone, at an interval, or once. The registry's index of `due` is the heap: one timer is set to the
 * earliest row, however many there are. What a run does is the host's.
 *
 * A run is a row of the table `schedule_run`. It is added before the schedule is moved on, and the
 * schedule before the command starts. So if the process dies, a run may be repeated as a missed
 * one, and is never lost without a row.
 *
 * Times are of the wall clock, in milliseconds since 1970. If that is set ahead, or the daemon does
 * not run, times are missed: the policy `missed` decides. If it is set back by more than
 * DZ_SCHEDULE_BACK_MS, schedules are planned anew from there; otherwise a time that came does not
 * come again.
 *
 * One thread.
 */
#ifndef DZ_SCHEDULE_SCHEDULE_H
#define DZ_SCHEDULE_SCHEDULE_H

#include "base/id.h"
#include "loop/loop.h"
#include "registry/registry_record.h"

enum {
    DZ_SCHEDULE_LATE_MS = 60 * 1000,       /* a time that is over for longer was missed */
    DZ_SCHEDULE_BACK_MS = 3 * 3600 * 1000, /* the clock was set back by more: plan anew */
    DZ_SCHEDULE_QUEUED_MAX = 100, /* runs of one schedule that wait; more are recorded as skipped or
                                     missed */
    DZ_SCHEDULE_EVERY_MIN_MS = 1000,
    DZ_SCHEDULE_STARTING_MAX = 64,        /* runs that start at a time */
    DZ_SCHEDULE_BUSY_MS = 10 * 60 * 1000, /* how long a start that meets DZ_EBUSY is repeated */
};

/* X(id, name): what happens with times that were missed, and with a time that comes while the run
 * before is not over. */
#define DZ_SCHEDULE_MISSED(X)  X(SKIP, "skip") X(ONCE, "once") X(ALL, "all")
#define DZ_SCHEDULE_OVERLAP(X) X(SKIP, "skip") X(QUEUE, "queue") X(PARALLEL, "parallel")

struct dz_schedules;
struct dz_schedule_run;

struct dz_schedules_host {
    /* Start the command of a schedule. 0: dz_schedule_run_started() and dz_schedule_run_ended()
     * follow, from the loop, or only the second. DZ_EBUSY, DZ_EQUOTA and DZ_ERATE: tried again. */
    int (*start)(void *arg, const struct dz_schedule_row *row, struct dz_schedule_run *run,
                 struct dz_err *err);
    /* Forget this run, whose start() returned 0: its command continues. */
    void (*forget)(void *arg, struct dz_schedule_run *run);
};

struct dz_schedules_opts {
    struct dz_loop *loop;
    struct dz_registry *registry;
    const struct dz_schedules_host *host;
    void *arg;
    const char *zones; /* directory of the time zones; NULL: the host's */
};
DZ_NODISCARD int dz_schedules_new(const struct dz_schedules_opts *opts,
                                  struct dz_schedules **ret_schedules, struct dz_err *err);
/* Forgets all runs. NULL is fine. */
void dz_schedules_free(struct dz_schedules *s);
/* Call once, before the first time is served: runs that an earlier process started are `lost`. */
DZ_NODISCARD int dz_schedules_begin(struct dz_schedules *s, struct dz_err *err);
/* Serve nothing from now on; runs in progress are followed on. */
void dz_schedules_stop(struct dz_schedules *s);

/* The first time after `after` at which the row comes; 0: never. DZ_EINVAL: its cron expression or
 * its zone is wrong; *ret_field is then "cron" or "zone". */
DZ_NODISCARD int dz_schedules_plan(struct dz_schedules *s, const struct dz_schedule_row *row,
                                   int64_t after, int64_t *ret_at, const char **ret_field,
                                   struct dz_err *err);
/* Call after a row was added or changed. */
void dz_schedules_arm(struct dz_schedules *s);
/* Call after a row was removed: its runs are forgotten. */
void dz_schedules_removed(struct dz_schedules *s, const char *id);
/* Run it now, besides its times. The id of the run goes to ret_id. */
DZ_NODISCARD int dz_schedules_run(struct dz_schedules *s, const struct dz_schedule_row *row,
                                  char ret_id[static DZ_ID_TEXT], struct dz_err *err);

/* The host's part of a run. */
void dz_schedule_run_own(struct dz_schedule_run *run, void *own);
void *dz_schedule_run_owned(const struct dz_schedule_run *run);
void dz_schedule_run_started(struct dz_schedule_run *run, const char *exec_id);
/* Frees the run. code: 0, or the DZ_E* of a command that could not start; exit_code: -1 if it was
 * killed; text: why it ended, or NULL. */
void dz_schedule_run_ended(struct dz_schedule_run *run, int code, int exit_code, const char *text);

#endif
