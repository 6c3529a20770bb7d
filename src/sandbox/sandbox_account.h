/* SPDX-License-Identifier: MIT
 *
 * sandbox_account.h - bytes buffered in the daemon's memory, counted for each tenant: bodies of
 * requests, input of commands, answers that a client has not read.
 *
 * Each holder of buffered bytes has a number, *had, of the bytes that are counted for it. Only
 * dz_account_hold() changes it, and the holder's end function sets it to 0. So the account of a
 * tenant is the sum of its holders' numbers, and it is freed when the sum is 0.
 */
#ifndef DZ_SANDBOX_SANDBOX_ACCOUNT_H
#define DZ_SANDBOX_SANDBOX_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

enum {
    DZ_ACCOUNTS_MAX = 1 << 20, /* tenants with buffered bytes */
};

struct dz_accounts {
    struct dz_map tenants; /* name -> struct account */
    uint64_t bytes;        /* bytes of all tenants */
    uint64_t tenant_max, all_max;
};
void dz_accounts_init(struct dz_accounts *a, uint64_t tenant_max, uint64_t all_max);
/* No holder may be left. */
void dz_accounts_release(struct dz_accounts *a);
/* Change the bytes counted for a holder from *had to `now`. False: there is no room for more, and
 * nothing has changed. With must the bytes are counted in any case, because they are in memory
 * already. */
bool dz_account_hold(struct dz_accounts *a, const char *tenant, size_t *had, size_t now, bool must);

#endif
