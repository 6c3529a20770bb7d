/* SPDX-License-Identifier: MIT
 *
 * control_quota.h - quotas of tenants and tokens, and limits on bytes buffered for tenants.
 */
#ifndef DZ_CONTROL_CONTROL_QUOTA_H
#define DZ_CONTROL_CONTROL_QUOTA_H

#include "control/control_why.h"
#include "registry/registry_record.h"

enum {
    DZ_CONTROL_HELD_TENANT = 128 << 20, /* bytes buffered for one tenant */
    DZ_CONTROL_HELD_ALL =
        1 << 30, /* bytes buffered for all tenants; both are defaults of dz_control_opts */
    DZ_CONTROL_FILE_CELLS_MAX = 64, /* cells of a tenant that have only a file */
};

/* The quotas: X(name, what it limits). */
#define DZ_QUOTAS(X)                                               \
    X(sandboxes, "sandboxes in any state")                         \
    X(warm_sandboxes, "awake sandboxes")                           \
    X(creations, "concurrent creations")                           \
    X(creations_per_minute, "creations per minute")                \
    X(memory_bytes, "sum of the memory limits of awake sandboxes") \
    X(disk_bytes, "disk space of sandboxes and snapshots")         \
    X(schedules, "schedules of all sandboxes; of a tenant only")
struct dz_quotas {
#define X(name, text) uint64_t name;
    DZ_QUOTAS(X)
#undef X
};
#define DZ_QUOTA_NONE    UINT64_MAX       /* no limit */
#define DZ_QUOTA_DEFAULT (UINT64_MAX - 1) /* as the next level says: tenant, then daemon */

struct dz_control_usage {
    uint64_t sandboxes, warm_sandboxes, creations, memory_bytes, disk_bytes, schedules;
};

struct dz_control_quota_state {
    char tenant[DZ_CONTROL_VALUE_MAX + 1];
    struct dz_quotas quotas;      /* the effective quotas: DZ_QUOTA_NONE or a number */
    struct dz_control_usage used; /* disk_bytes is valid if `measured` */
    bool measured, has_token;     /* the caller used a token: */
    struct dz_quotas token_quotas;
    struct dz_control_usage token_used;
};
/* "self" is the caller's tenant. */
DZ_NODISCARD int dz_control_quotas(struct dz_control *e, const struct dz_control_caller *who,
                                   const char *tenant, struct dz_control_quota_state *ret,
                                   struct dz_why *why);
/* List tenants by name, those greater than `after` (NULL: from the first): tenants that have a
 * token or quotas of their own, and the caller's. Operator only. */
DZ_NODISCARD int dz_control_tenants(struct dz_control *e, const struct dz_control_caller *who,
                                    const char *after, size_t limit, struct dz_tenant_rows *rows,
                                    struct dz_why *why);
/* Operator only. */
struct dz_control_tenant_set {
    /* JSON: an object whose values are numbers, "unlimited" or "default"; other quotas stay.
     * NULL: all stay. */
    const char *quotas;
    /* Where to sandboxes without a setting of their own are replicated: a URL, or
     * DZ_CONTROL_REPLICA_*. NULL: as before. */
    const char *replica;
};
DZ_NODISCARD int dz_control_set_tenant(struct dz_control *e, const struct dz_control_caller *who,
                                       const char *tenant, const struct dz_control_tenant_set *set,
                                       struct dz_why *why);

/* Account for bytes buffered for a tenant (bodies, answers, queues, input of commands). A holder
 * changes its part from *had to `now`; on success *had = now. False: the limit of the tenant or of
 * all tenants would be exceeded. `must`: the bytes exist already and are counted in any case; the
 * result says whether they are within the limits. A smaller number always succeeds. */
bool dz_control_account(struct dz_control *e, const char *tenant, size_t *had, size_t now,
                        bool must);

#endif
