/* SPDX-License-Identifier: MIT
 *
 * control_quota.h - what a tenant or a token may have, and bytes that wait in memory.
 */
#ifndef DZ_CONTROL_CONTROL_QUOTA_H
#define DZ_CONTROL_CONTROL_QUOTA_H

#include "control/control_why.h"
#include "registry/registry_record.h"

enum {
    DZ_CONTROL_HELD_TENANT = 128 << 20, /* bytes that wait in memory for one tenant, */
    DZ_CONTROL_HELD_ALL = 1 << 30,      /* and for all: defaults of dz_control_opts */
    DZ_CONTROL_FILE_CELLS_MAX = 64,     /* cells of a tenant that have only a file */
};

/* What a tenant may have, or what may be had by a token: X(name, what it bounds). */
#define DZ_QUOTAS(X)                                             \
    X(sandboxes, "sandboxes, awake or not")                      \
    X(warm_sandboxes, "sandboxes that are awake")                \
    X(creations, "creations under way")                          \
    X(creations_per_minute, "creations in a minute")             \
    X(memory_bytes, "limits of memory of those awake, together") \
    X(disk_bytes, "files of sandboxes and of snapshots, together")
struct dz_quotas {
#define X(name, text) uint64_t name;
    DZ_QUOTAS(X)
#undef X
};
#define DZ_QUOTA_NONE    UINT64_MAX              /* as much as there is */
#define DZ_QUOTA_DEFAULT (UINT64_MAX - 1)        /* as the next one says: tenant, server */
extern const struct dz_quotas dz_quotas_default; /* every one of them DZ_QUOTA_DEFAULT */

struct dz_control_usage {
    uint64_t sandboxes, warm_sandboxes, creations, memory_bytes, disk_bytes;
};

struct dz_control_quota_state {
    char tenant[DZ_CONTROL_VALUE_MAX + 1];
    struct dz_quotas quotas;      /* as they count: DZ_QUOTA_NONE or a number */
    struct dz_control_usage used; /* disk_bytes: when `measured` */
    bool measured, has_token;     /* it was asked with a token: */
    struct dz_quotas token_quotas;
    struct dz_control_usage token_used;
};
/* "self": who asks. */
DZ_NODISCARD int dz_control_quotas(struct dz_control *e, const struct dz_control_caller *who,
                                   const char *tenant, struct dz_control_quota_state *ret,
                                   struct dz_why *why);
/* Rows of tenants by name, those greater than `after` (NULL: from the first): who has a token, or
 * quotas of his own, and who asks. The operator's. */
DZ_NODISCARD int dz_control_tenants(struct dz_control *e, const struct dz_control_caller *who,
                                    const char *after, size_t limit, struct dz_tenant_rows *rows,
                                    struct dz_why *why);
/* json: an object of numbers, "unlimited", "default"; what is not in it stays. The operator's. */
DZ_NODISCARD int dz_control_set_quotas(struct dz_control *e, const struct dz_control_caller *who,
                                       const char *tenant, const char *json, struct dz_why *why);

/* Bytes that wait in memory for a tenant (bodies, answers, queues, input of commands). One holder
 * of them changes its part from *had to now; on success *had = now. False: together they would be
 * more than the tenant, or all tenants, may have. `must`: counted all the same, because they are
 * there already; the result says whether there was room. Less is always fine. */
bool dz_control_account(struct dz_control *e, const char *tenant, size_t *had, size_t now,
                        bool must);

#endif
