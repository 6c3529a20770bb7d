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
 * One thread. The group outlives the process: who comes later removes it.
 */
#ifndef DZ_OS_OS_CGROUP_H
#define DZ_OS_OS_CGROUP_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0: no such limit. */
struct dz_os_cgroup_limits {
    uint64_t memory_bytes;
    uint64_t cpu_percent; /* of one processor */
    uint64_t processes;
};

enum {
    DZ_OS_CGROUP_PATH = 512,
    DZ_OS_CGROUP_PARTS = 3,
};
/* In each hierarchy that is used: where the caller belongs, and the group. */
struct dz_os_cgroup {
    struct {
        char home[DZ_OS_CGROUP_PATH], group[DZ_OS_CGROUP_PATH];
        bool made_home;
    } parts[DZ_OS_CGROUP_PARTS];
    size_t count;
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

#endif
