/* SPDX-License-Identifier: MIT
 *
 * engine_quota.c - what tenants use, and what they may.
 */
#include "engine/engine_int.h"

#include <string.h>

struct use {
    int64_t keys; /* -1: to be counted */
    char tenant[];
};

static struct use *use_of(struct dz_engine *e, const char *tenant)
{
    struct use *u = dz_map_get(&e->uses, dz_str(tenant));
    size_t n = strlen(tenant) + 1;
    if (u)
        return u;
    u = dz_zalloc(sizeof *u + n);
    if (!u)
        return NULL;
    memcpy(u->tenant, tenant, n);
    u->keys = -1;
    if (dz_map_put(&e->uses, dz_str(u->tenant), u, NULL) == 0)
        return u;
    dz_free(u);
    return NULL;
}

/* --- keys -------------------------------------------------------------------------------- */

int dz_use_key(struct dz_engine *e, const char *tenant, struct dz_engine_why *why)
{
    const struct dz_registry_record_filter f = {.tenant = tenant};
    struct use *u = use_of(e, tenant);
    int rc = u ? 0 : dz_why(why, DZ_ENOMEM, NULL, "out of memory");
    if (rc == 0 && u->keys < 0) {
        rc = dz_registry_idempotency_count(e->registry, &f, &u->keys, &why->err);
        if (rc < 0)
            return dz_why_err(why, rc, &why->err);
    }
    if (rc == 0 && u->keys >= DZ_ENGINE_KEYS_MAX)
        rc = dz_why(why, DZ_EQUOTA, "Idempotency-Key",
                    "tenant %s: %d idempotency keys are kept already, each for a day", tenant,
                    DZ_ENGINE_KEYS_MAX);
    u->keys += rc == 0;
    return rc;
}

void dz_uses_recount_keys(struct dz_engine *e)
{
    DZ_MAP_FOREACH(it, &e->uses)
        ((struct use *)it->value)->keys = -1;
}

void dz_uses_release(struct dz_engine *e)
{
    DZ_MAP_FOREACH(it, &e->uses)
        dz_free(it->value);
    dz_map_release(&e->uses);
}
