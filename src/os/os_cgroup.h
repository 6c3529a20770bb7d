/* SPDX-License-Identifier: MIT
 *
 * os_cgroup.h - a group of processes with limits of its own.
 *
 * A process that enters the group before it forks leaves all of its descendants there: so
 * nothing is paid for each of them. By version 2 where that has the controllers which are
 * needed, else by version 1. Under version 2 a group with processes cannot hand controllers
 * down, so that the caller moves into a group beside the new one; that works where the group
 * is ours alone (a unit with Delegate=yes).
 *
 * Below such a group each of its processes, with the children that it gets later, can have one of
 * its own, numbered and used again. Then
 * the group of version 2 has no process itself: those that have none of their own are in its group
 * "rest".
 *
 * One thread. The group outlives the process: who comes later removes it.
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

/* 0: no such limit. */
struct dz_os_cgroup_limits {
    uint64_t memory_bytes;
    uint64_t cpu_percent; /* of one processor */
    uint64_t processes;
    bool each; /* processes may have groups of their own below, with limits of memory and number */
};

enum {
    DZ_OS_CGROUP_PATH = 512,
    DZ_OS_CGROUP_PARTS = 3,
};
/* In one hierarchy: where the caller belongs, and the group. */
struct dz_os_cgroup_part {
    char home[DZ_OS_CGROUP_PATH], group[DZ_OS_CGROUP_PATH];
    char entry[DZ_OS_CGROUP_PATH + 8]; /* where processes enter: the group, or "rest" in it */
    bool made_home;
    bool memory, pids; /* it has this controller */
};
struct dz_os_cgroup {
    struct dz_os_cgroup_part parts[DZ_OS_CGROUP_PARTS];
    size_t count;
    bool v2;
};

/* Make the group NAME.PID below the caller's own, and remove those of this name whose process
 * is gone and that are empty. DZ_EUNSUPPORTED: a controller that is needed is not there;
 * DZ_EDENIED: we may not divide our group. After an error nothing is left. */
DZ_NODISCARD int dz_os_cgroup_make(const char *name, const struct dz_os_cgroup_limits *limits,
                                   struct dz_os_cgroup *ret_group, struct dz_err *err);
DZ_NODISCARD int dz_os_cgroup_enter(const struct dz_os_cgroup *g, struct dz_err *err);
DZ_NODISCARD int dz_os_cgroup_leave(const struct dz_os_cgroup *g, struct dz_err *err);
/* Once it is empty, which it waits for, a second at most. A zeroed group is fine. */
void dz_os_cgroup_remove(struct dz_os_cgroup *g);

/* --- a group for each process ------------------------------------------------------------ */

struct dz_os_cgroup_one {
    uint64_t memory_bytes; /* its limit; 0: none yet */
    uint32_t tasks;        /* the same */
    uint64_t oom_kills;    /* when it was taken */
};
struct dz_os_cgroup_each {
    const struct dz_os_cgroup *of; /* made with `each`; NULL: there are none */
    DZ_VEC(, struct dz_os_cgroup_one) all;
    DZ_VEC(, uint32_t) unused; /* the longest unused first */
};

/* Zeroed is fine for all of these, which then do nothing. */
void dz_os_each_init(struct dz_os_cgroup_each *e, const struct dz_os_cgroup *of);
/* Remove all groups; their processes have ended. */
void dz_os_each_release(struct dz_os_cgroup_each *e);
/* Move a process that has one thread and no child yet into an empty group, in which it and its
 * children may be so many threads. */
DZ_NODISCARD int dz_os_each_enter(struct dz_os_cgroup_each *e, pid_t pid, uint32_t tasks,
                                  uint32_t *ret_number, struct dz_err *err);
/* Its memory; of swap it has none, where the kernel counts that. */
DZ_NODISCARD int dz_os_each_limit(struct dz_os_cgroup_each *e, uint32_t number,
                                  uint64_t memory_bytes, struct dz_err *err);
/* Has the kernel killed the process in this group at its memory limit? Returns the limit; 0: no. */
uint64_t dz_os_each_killed(const struct dz_os_cgroup_each *e, uint32_t number);
/* The process in this group has ended or is about to: the group is reused once it is empty. */
void dz_os_each_leave(struct dz_os_cgroup_each *e, uint32_t number);

#endif
