/* SPDX-License-Identifier: MIT
 *
 * cell_users.h - the user ids of the daemon's children.
 *
 *     first ........ first + 255   zygotes and calls: each that runs has one of its own
 *     first + 256 .. last          tenants: number 0, 1, 2, ...
 *
 * A tenant's number is the registry's. A waiting cell runs as its zygote's user, and becomes its
 * tenant's user when it gets a sandbox. The files that a cell works on stay the daemon's: the cell
 * gets their open descriptors, and may open no file by its path.
 *
 * Without a range (DZ_USER_NONE everywhere) all of them are the daemon's user. Any thread.
 */
#ifndef DZ_CELL_CELL_USERS_H
#define DZ_CELL_CELL_USERS_H

#include "base/attr.h"
#include "base/err.h"
#include "os/os_jail.h"

#include <stdint.h>

enum {
    DZ_USER_NONE = 0,
    DZ_USERS_HELPERS = 256, /* ids of zygotes and calls */
};

/* Set the range; NULL: none. The pool calls it while no child has a user of the range. */
void dz_cell_users_set(const struct dz_os_users *users);
struct dz_os_users dz_cell_users(void);

/* Take an id that no other zygote or call has; DZ_USER_NONE without a range. DZ_EBUSY: all are in
 * use. Each further process of that user holds the id, too. When all holders have released it, it
 * can be taken again; ids that have been free for longer are taken first. */
DZ_NODISCARD int dz_cell_user_acquire(uint32_t *ret_user, struct dz_err *err);
void dz_cell_user_hold(uint32_t user);
void dz_cell_user_release(uint32_t user);

/* The number of tenants that can have a user (INT64_MAX without a range), and the user of the
 * tenant with a number below that. */
int64_t dz_cell_users_tenants(void);
uint32_t dz_cell_user_of_tenant(int64_t number);

#endif
