/* SPDX-License-Identifier: MIT
 *
 * os_user.h - a range of ids that no account uses; each is a user id and a group id.
 *
 * A daemon that runs as root gives each tenant's processes an id of its own. The range is
 * aligned to its size, a power of two, so that a system call filter can check with one mask
 * whether an id is in the range. A process becomes one user of the range when it enters its jail
 * (os_jail.h). If the jail keeps the two capabilities for it, the process can become another user
 * of the range once.
 */
#ifndef DZ_OS_OS_USER_H
#define DZ_OS_OS_USER_H

#include "base/attr.h"
#include "base/err.h"
#include "os/os_jail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default of the setting cells.uids. Neither systemd nor any distribution assigns ids between
 * 1879048192 and 2147352575. */
#define DZ_OS_USERS_DEFAULT "1879048192-1879113727"

enum {
    DZ_OS_USERS_MIN = 512,     /* ids in a range */
    DZ_OS_USERS_MAX = 1 << 28, /* a larger range would include ids with a special meaning */
};

/* Is this a non-empty range that dz_os_users_parse() would accept? */
bool dz_os_users_sound(const struct dz_os_users *users);
/* Parse "FIRST-LAST", or "no" (count 0). DZ_EINVAL: err says what is wrong. */
DZ_NODISCARD int dz_os_users_parse(const char *text, struct dz_os_users *ret_users,
                                   struct dz_err *err);
/* Can this process and its children become users of the range, and kill processes of such users?
 * DZ_EDENIED: capabilities of root are missing, or the ids do not exist in this user namespace. */
DZ_NODISCARD int dz_os_users_check(const struct dz_os_users *users, struct dz_err *err);

/* Write the dz_os_jail_users_count rows of dz_os_jail_users for this range. */
void dz_os_users_calls(const struct dz_os_users *users, struct dz_os_syscall *ret_calls);

/* Set user and group to this id. If SECBIT_NO_SETUID_FIXUP is set, the capabilities are kept. */
DZ_NODISCARD int dz_os_user_become(uint32_t id, struct dz_err *err);
/* In a jail that kept the two capabilities: become this user and drop all capabilities. */
DZ_NODISCARD int dz_os_user_settle(uint32_t id, struct dz_err *err);

#endif
