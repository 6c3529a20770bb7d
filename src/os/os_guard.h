/* SPDX-License-Identifier: MIT
 *
 * os_guard.h - end all children of a process when it dies, and give them a pid namespace.
 *
 * A guard is a process that waits for the end of its host. Then it gives the processes of its
 * group some time and kills those that are left. A host that is killed cannot do that itself.
 *
 * Where the system permits it, the guard is process 1 of a new pid namespace, and all later
 * children of the caller are in it. They cannot name a process outside, and the kernel kills them
 * with the guard. Processes that a dead child leaves behind become the guard's children, and it
 * kills them within a second or two. The children's /proc shows only that namespace. A jail makes
 * the directory DZ_OS_GUARD_ROOT their root; it contains nothing but that /proc.
 */
#ifndef DZ_OS_OS_GUARD_H
#define DZ_OS_OS_GUARD_H

#include "base/attr.h"
#include "base/err.h"

#define DZ_OS_GUARD_ROOT "/sys" /* a directory that every Linux has */

/* Start a guard, and make the caller the leader of a new session. `host` is the read end of a pipe
 * whose write end the host holds. If the pipe is closed, the guard waits at most grace_ms (in a pid
 * namespace only until no other process is left) and then kills. If a byte arrives, it kills at
 * once. *ret_guard becomes readable when the guard is gone; the caller should then exit, too,
 * because nothing else guards its children.
 *
 * Where no pid namespace can be made, the guard is an ordinary process, and that is no error. */
DZ_NODISCARD int dz_os_guard_start(int host, int grace_ms, int *ret_guard, struct dz_err *err);

#endif
