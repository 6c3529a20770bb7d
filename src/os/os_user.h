/* SPDX-License-Identifier: MIT
 *
 * os_user.h - users that no account has: a range of ids, each a user and a group.
 *
 * A daemon that runs as root gives each tenant's processes an id of its own. The range is
 * aligned to its size, a power of two, so that a system call filter can compare an id with it
 * by one mask. A process enters the range in its jail (os_jail.h) as one user; if the jail
 * leaves it the two capabilities for that, it becomes another user of the range once.
 */
#ifndef DZ_OS_OS_USER_H
#define DZ_OS_OS_USER_H

#include "base/attr.h"
#include "base/err.h"
#include "os/os_jail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default of the setting cells.uids. systemd's table of ids has nothing between 1879048192 and
 * 2147352575, and neither has any distribution's. */
#define DZ_OS_USERS_DEFAULT "1879048192-1879113727"

enum {
    DZ_OS_USERS_MIN = 512,     /* ids of a range */
    DZ_OS_USERS_MAX = 1 << 28, /* so that none reaches the ids with a meaning of their own */
};

/* Is this a range as dz_os_users_parse() makes it, with at least one id? */
bool dz_os_users_sound(const struct dz_os_users *users);
/* "FIRST-LAST", or "no": *ret_users has the count 0. DZ_EINVAL says what is wrong. */
DZ_NODISCARD int dz_os_users_parse(const char *text, struct dz_os_users *ret_users,
                                   struct dz_err *err);
/* Can this process and its children become users of the range, and end processes of such users? 0,
 * or DZ_EDENIED: root's capabilities or the ids are missing here. */
DZ_NODISCARD int dz_os_users_check(const struct dz_os_users *users, struct dz_err *err);

/* The rows of dz_os_jail_users for this range: dz_os_jail_users_count of them. */
void dz_os_users_calls(const struct dz_os_users *users, struct dz_os_syscall *ret_calls);

/* Become this user and this group. If SECBIT_NO_SETUID_FIXUP is set, capabilities stay. */
DZ_NODISCARD int dz_os_user_become(uint32_t id, struct dz_err *err);
/* In the jail, with the two capabilities: become this user for good, without a capability. */
DZ_NODISCARD int dz_os_user_settle(uint32_t id, struct dz_err *err);

#endif
