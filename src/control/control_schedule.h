/* SPDX-License-Identifier: MIT
 *
 * control_schedule.h - schedules of sandboxes: add, list, change, remove, run now.
 */
#ifndef DZ_CONTROL_CONTROL_SCHEDULE_H
#define DZ_CONTROL_CONTROL_SCHEDULE_H

#include "control/control_why.h"
#include "registry/registry_record.h"
#include "sandbox/sandbox_exec.h"

enum {
    DZ_CONTROL_SCHEDULES_MAX = 100,     /* of one sandbox */
    DZ_CONTROL_SCHEDULES_ALL = 1000000, /* of all sandboxes */
};
#define DZ_CONTROL_SCHEDULE_TIMEOUT_MS ((int64_t)7 * 24 * 3600 * 1000)
#define DZ_CONTROL_SCHEDULE_EVERY_MS   ((int64_t)366 * 24 * 3600 * 1000)

/* NULL, 0: not given. Of cron, every and at a new schedule has exactly one; a change with one of
 * them replaces the old one. The same holds for argv and shell, with cwd, user, env and the
 * timeout, which are replaced together with them. */
struct dz_control_schedule {
    const char *name, *cron, *zone, *missed, *overlap;
    int64_t every_ms, at;
    struct dz_exec_request command; /* argv, shell, cwd, user, env_json, timeout_ms */
    const char *service;            /* restart this service instead of running a command */
    int enabled;                    /* 1, 0; -1: not given */
};
DZ_NODISCARD int dz_control_schedule_add(struct dz_control *e, struct dz_control_target target,
                                         const struct dz_control_schedule *spec,
                                         struct dz_schedule_row *ret_row, struct dz_why *why);
/* `schedule` is an id or a name in all of these. The caller releases the rows. */
DZ_NODISCARD int dz_control_schedule_get(struct dz_control *e, struct dz_control_target target,
                                         const char *schedule, struct dz_schedule_row *ret_row,
                                         struct dz_why *why);
DZ_NODISCARD int dz_control_schedule_change(struct dz_control *e, struct dz_control_target target,
                                            const char *schedule,
                                            const struct dz_control_schedule *spec,
                                            struct dz_schedule_row *ret_row, struct dz_why *why);
DZ_NODISCARD int dz_control_schedule_remove(struct dz_control *e, struct dz_control_target target,
                                            const char *schedule, struct dz_why *why);
/* Run it now, besides its times, even if it is switched off or the run before is not over. */
DZ_NODISCARD int dz_control_schedule_run(struct dz_control *e, struct dz_control_target target,
                                         const char *schedule, struct dz_schedule_run_row *ret_run,
                                         struct dz_why *why);
/* Its last runs, the newest first: at most DZ_SCHEDULE_RUNS_MAX. */
DZ_NODISCARD int dz_control_schedule_runs(struct dz_control *e, struct dz_control_target target,
                                          const char *schedule, struct dz_schedule_run_rows *rows,
                                          struct dz_why *why);
/* All of a sandbox, or, without one (ref NULL), all that the caller sees. */
DZ_NODISCARD int dz_control_schedules(struct dz_control *e, struct dz_control_target target,
                                      const char *after, size_t limit,
                                      struct dz_schedule_rows *rows, struct dz_why *why);

#endif
