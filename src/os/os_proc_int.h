/* SPDX-License-Identifier: MIT
 *
 * os_proc_int.h - shared by the files that start and watch processes.
 */
#ifndef DZ_OS_OS_PROC_INT_H
#define DZ_OS_OS_PROC_INT_H

#include "os/os_proc.h"

#include <spawn.h>

/* All that posix_spawn needs, prepared before any fork. */
struct os_plan {
    const struct dz_os_spawn_opts *opts;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int cwd;                  /* descriptor of opts->cwd, or -1 */
    int moved[DZ_OS_FDS_MAX]; /* our descriptors, moved above every number the child wants */
    size_t moved_count;
};

/* posix_spawnp by the plan: 0 or an errno. It takes no lock and allocates nothing of ours, so the
 * reaper may call it after a fork. */
int dz_os_plan_spawn(const struct os_plan *plan, pid_t *ret_pid);

/* The error for a program that could not be started. */
int dz_os_spawn_failed(const struct dz_os_spawn_opts *o, int sys, struct dz_err *err);

/* Start by the plan with a reaper above. */
DZ_NODISCARD int dz_os_reaper_start(const struct os_plan *plan, struct dz_os_proc *ret_proc,
                                    struct dz_err *err);

/* Requests to the reaper are single bytes: a signal for the child's group, or OS_REAPER_KILL to end
 * everything. Its end of file means OS_REAPER_KILL, too. */
enum {
    OS_REAPER_KILL = 0xff
};

/* What the reaper reports: once after the start, once at the end. */
struct os_report {
    int sys;     /* start: errno, 0 = it runs */
    pid_t pid;   /* start */
    int wstatus; /* end: as waitpid gives it */
};

int dz_os_pidfd_open(pid_t pid); /* -1 and errno */

/* The time on the monotonic clock at which a timeout is over, -1: never. And: how many milliseconds
 * poll may wait until then. */
int64_t dz_os_deadline(int64_t timeout_ms);
int dz_os_poll_timeout(int64_t deadline_ms);

#endif
