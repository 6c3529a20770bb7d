/* SPDX-License-Identifier: MIT
 *
 * os_guard.h - an end for all children of a process, and a world of process numbers of their own.
 *
 * A guard is a process that does nothing but wait for the end of its host: then it gives the
 * processes of its group some time, and ends those that are left. A host that is killed cannot
 * do that itself.
 *
 * Where the system grants it, the guard is process 1 of a pid namespace in which all later
 * children of the caller are, too: they cannot name a process outside, and the kernel ends them
 * with the guard. What a dead child leaves behind is the guard's child then, and is killed within a
 * second or two. Their /proc shows that namespace only, and the directory DZ_OS_GUARD_ROOT is
 * what a jail makes their root: it has nothing but that /proc.
 */
#ifndef DZ_OS_OS_GUARD_H
#define DZ_OS_OS_GUARD_H

#include "base/attr.h"
#include "base/err.h"

#define DZ_OS_GUARD_ROOT "/sys" /* of those who are guarded: a directory that every Linux has */

/* Makes the caller the leader of a session of its own. `host` is a pipe that the host holds the
 * other end of. Closed without a word: the guard waits grace_ms, or in a pid namespace until nobody
 * is left in it. A byte in it: the guard ends all at once. *ret_guard is readable when the guard is
 * gone: nobody waits for the guard, so the caller should end then, too.
 *
 * Nothing is missing to the caller where there is no pid namespace to be had: the guard is then
 * an ordinary process. */
DZ_NODISCARD int dz_os_guard_start(int host, int grace_ms, int *ret_guard, struct dz_err *err);

#endif
