/* SPDX-License-Identifier: MIT
 *
 * os_cgroup.h - a cgroup with limits for a process and its descendants.
 *
 * A process enters the group before it forks, so its descendants are born there and need no call
 * of their own. The group is of version 2 if that has the controllers that are needed, else of
 * version 1. Under version 2 a group that contains processes cannot delegate controllers, so the
 * caller moves into a second group beside the new one. That requires that no other process is in
 * our group (a unit with Delegate=yes).
 *
 * Below the group, each process can have a group of its own, together with its later children.
 * These groups are numbered and reused. The version 2 group itself then contains no process:
 * processes without a group of their own are in its subgroup "rest".
 *
 * Not thread-safe. If the process dies, the group remains; the next dz_os_cgroup_make() with the
 * same name removes it.
 */
#ifndef DZ_OS_OS_CGROUP_H
#define DZ_OS_OS_CGROUP_H

#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0: no limit. */
struct dz_os_cgroup_limits {
    uint64_t memory_bytes;
    uint64_t cpu_percent; /* 100 is one processor */
    uint64_t processes;
    bool each; /* processes may have groups of their own, with limits on memory and threads */
};

enum {
    DZ_OS_CGROUP_PATH = 512,
    DZ_OS_CGROUP_PARTS = 3,
};
/* One hierarchy: the caller's own group, and the new group. */
struct dz_os_cgroup_part {
    char home[DZ_OS_CGROUP_PATH], group[DZ_OS_CGROUP_PATH];
    char entry[DZ_OS_CGROUP_PATH + 8]; /* where processes enter: the group, or "rest" in it */
    bool made_home;
    bool memory, pids; /* the hierarchy has this controller */
};
struct dz_os_cgroup {
    struct dz_os_cgroup_part parts[DZ_OS_CGROUP_PARTS];
    size_t count;
    bool v2;
};

/* Make the group NAME.PID below the caller's own, and remove the empty groups of this name whose
 * process is gone. DZ_EUNSUPPORTED: a controller that is needed is missing; DZ_EDENIED: we may not
 * make groups below our own. After an error no new group is left. */
DZ_NODISCARD int dz_os_cgroup_make(const char *name, const struct dz_os_cgroup_limits *limits,
                                   struct dz_os_cgroup *ret_group, struct dz_err *err);
DZ_NODISCARD int dz_os_cgroup_enter(const struct dz_os_cgroup *g, struct dz_err *err);
DZ_NODISCARD int dz_os_cgroup_leave(const struct dz_os_cgroup *g, struct dz_err *err);
/* Wait until the group is empty, at most one second, and remove it. A zeroed group is fine. */
void dz_os_cgroup_remove(struct dz_os_cgroup *g);

/* --- a group for each process ------------------------------------------------------------ */

struct dz_os_cgroup_one {
    uint64_t memory_bytes; /* the memory limit; 0: not set yet */
    uint32_t tasks;        /* the thread limit; 0: not set yet */
    uint64_t oom_kills;    /* the kernel's counter when the present process entered */
};
struct dz_os_cgroup_each {
    const struct dz_os_cgroup *of; /* made with limits.each; NULL: no groups */
    DZ_VEC(, struct dz_os_cgroup_one) all;
    DZ_VEC(, uint32_t) unused; /* the longest unused comes first */
};

/* With a zeroed struct all these functions do nothing. */
void dz_os_each_init(struct dz_os_cgroup_each *e, const struct dz_os_cgroup *of);
/* Free the memory. dz_os_cgroup_remove() removes the groups, once their processes have ended. */
void dz_os_each_release(struct dz_os_cgroup_each *e);
/* Move a process that has one thread and no child into an empty group. It and its later children
 * may have `tasks` threads together. */
DZ_NODISCARD int dz_os_each_enter(struct dz_os_cgroup_each *e, pid_t pid, uint32_t tasks,
                                  uint32_t *ret_number, struct dz_err *err);
/* Limit the group's memory. If the kernel accounts for swap, the group gets none. */
DZ_NODISCARD int dz_os_each_limit(struct dz_os_cgroup_each *e, uint32_t number,
                                  uint64_t memory_bytes, struct dz_err *err);
/* Has the kernel killed a process of this group because of the memory limit? Returns the limit, or
 * 0 if not. */
uint64_t dz_os_each_killed(const struct dz_os_cgroup_each *e, uint32_t number);
/* Release the group, whose process has ended or is about to: it is reused once it is empty. */
void dz_os_each_leave(struct dz_os_cgroup_each *e, uint32_t number);

#endif
