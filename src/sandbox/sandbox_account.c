/* SPDX-License-Identifier: MIT */
#include "sandbox/sandbox_account.h"

#include "base/mem.h"
#include "sandbox/sandbox.h"

#include <assert.h>
#include <stdio.h>

struct account {
    uint64_t bytes;
    char tenant[DZ_SANDBOX_TENANT_MAX + 1];
};

static struct account *account_of(struct dz_accounts *all, const char *tenant)
{
    struct account *a = dz_map_get(&all->tenants, dz_str(tenant));
    if (a || !(a = dz_zalloc(sizeof *a)))
        return a;
    (void)snprintf(a->tenant, sizeof a->tenant, "%s", tenant);
    if (dz_map_put(&all->tenants, dz_str(a->tenant), a, NULL) == 0)
        return a;
    dz_free(a);
    return NULL;
}

static void account_end(struct dz_accounts *all, struct account *a)
{
    if (a->bytes > 0)
        return;
    (void)dz_map_remove(&all->tenants, dz_str(a->tenant));
    dz_free(a);
}

bool dz_account_hold(struct dz_accounts *all, const char *tenant, size_t *had, size_t now,
                     bool must)
{
    struct account *a = now != *had ? account_of(all, tenant) : NULL;
    if (!a)
        return now == *had;
    assert(a->bytes >= *had && all->bytes >= *had);
    uint64_t mine = a->bytes - *had + now, sum = all->bytes - *had + now;
    bool room = now < *had || (mine <= all->tenant_max && sum <= all->all_max);
    if (room || must) {
        a->bytes = mine;
        all->bytes = sum;
        *had = now;
    }
    account_end(all, a);
    return room;
}

void dz_accounts_init(struct dz_accounts *a, uint64_t tenant_max, uint64_t all_max)
{
    *a = (struct dz_accounts){.tenant_max = tenant_max, .all_max = all_max};
    dz_map_init(&a->tenants, DZ_ACCOUNTS_MAX);
}

void dz_accounts_release(struct dz_accounts *a)
{
    assert(a->tenants.count == 0);
    dz_map_release(&a->tenants);
}
