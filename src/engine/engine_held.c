/* SPDX-License-Identifier: MIT
 *
 * engine_held.c - bytes that wait in the daemon's memory, counted for each tenant.
 *
 * Whoever keeps such bytes (a request, a command's input) has one number, *had: how many of them
 * this file counts. It is changed here only, and set to 0 by the holder's end function. So the
 * account of a tenant is the sum of its holders' numbers, and the account is gone when that is 0.
 */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <stdio.h>

struct account {
    uint64_t bytes;
    char tenant[DZ_ENGINE_VALUE_MAX + 1];
};

static struct account *account_of(struct dz_engine *e, const char *tenant)
{
    struct account *a = dz_map_get(&e->held.accounts, dz_str(tenant));
    if (a || !(a = dz_zalloc(sizeof *a)))
        return a;
    (void)snprintf(a->tenant, sizeof a->tenant, "%s", tenant);
    if (dz_map_put(&e->held.accounts, dz_str(a->tenant), a, NULL) == 0)
        return a;
    dz_free(a);
    return NULL;
}

static void account_end(struct dz_engine *e, struct account *a)
{
    if (a->bytes > 0)
        return;
    (void)dz_map_remove(&e->held.accounts, dz_str(a->tenant));
    dz_free(a);
}

bool dz_engine_account(struct dz_engine *e, const char *tenant, size_t *had, size_t now, bool must)
{
    struct account *a = now != *had ? account_of(e, tenant) : NULL;
    if (!a)
        return now == *had;
    assert(a->bytes >= *had && e->held.bytes >= *had);
    uint64_t mine = a->bytes - *had + now, all = e->held.bytes - *had + now;
    bool room = now < *had || (mine <= e->held.tenant_max && all <= e->held.all_max);
    if (room || must) {
        a->bytes = mine;
        e->held.bytes = all;
        *had = now;
    }
    account_end(e, a);
    return room;
}

void dz_held_open(struct dz_engine *e, uint64_t tenant_max, uint64_t all_max)
{
    dz_map_init(&e->held.accounts, DZ_ENGINE_ACCOUNTS_MAX);
    e->held.tenant_max = tenant_max ? tenant_max : DZ_ENGINE_HELD_TENANT;
    e->held.all_max = all_max ? all_max : DZ_ENGINE_HELD_ALL;
}

void dz_held_close(struct dz_engine *e)
{
    assert(e->held.accounts.count == 0);
    dz_map_release(&e->held.accounts);
}
