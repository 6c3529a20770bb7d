/* SPDX-License-Identifier: MIT
 *
 * control_replica.h - continuous replication of sandboxes: settings and state.
 */
#ifndef DZ_CONTROL_CONTROL_REPLICA_H
#define DZ_CONTROL_CONTROL_REPLICA_H

#include "control/control_why.h"
#include "replica/replica.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_CONTROL_REPLICA_URL = 4096,
    DZ_CONTROL_REPLICA_LAGS = 4096,
};

/* What a sandbox's setting `replica` may be instead of a URL. */
#define DZ_CONTROL_REPLICA_OFF     "off"
#define DZ_CONTROL_REPLICA_DEFAULT "default"

/* The server's settings. */
struct dz_control_replica_opts {
    const char
        *url; /* the replica of a sandbox is at url/ID; NULL, "": only those that have a URL */
    struct dz_replica_access access; /* its texts must outlive the control plane */
    int64_t every_ms, snapshot_ms, keep_ms, behind_ms;
    unsigned connections; /* uploads at the same time */
};

struct dz_control_replica {
    bool on;
    const char *state; /* "off", "current", "lagging", "behind", "fenced" */
    uint64_t txid;     /* the newest in the replica; 0: none, or not known yet */
    int64_t at_ms;     /* its time */
    int64_t lag_ms;
    uint64_t uploads, bytes, errors; /* since the daemon's start */
    char url[DZ_CONTROL_REPLICA_URL], error[160];
};
/* The setting of a tenant: a URL, or one of the words above. Free it. DZ_ENOMEM. */
DZ_NODISCARD int dz_control_tenant_replica(struct dz_control *e, const char *tenant,
                                           char **ret_setting, struct dz_why *why);

void dz_control_replica_of(struct dz_control *e, const char *id, struct dz_control_replica *ret);

struct dz_control_replicas {
    uint64_t followed, lagging, behind, fenced, uploads, snapshots, bytes, errors, requests;
    int64_t lag_ms; /* the greatest */
    size_t lag_count;
    float lag_s[DZ_CONTROL_REPLICA_LAGS]; /* of uploads */
};
/* take: the lags are forgotten then. */
void dz_control_replicas(struct dz_control *e, bool take, struct dz_control_replicas *ret);

/* Make a new sandbox from a state of this one's replica: with its image, settings and labels, in
 * the state created. The row in the result is that of the new one. Neither the sandbox nor its
 * replica is changed. DZ_ESTATE: it is not replicated; DZ_ENOENT: the replica has no such state. */
struct dz_control_restore {
    const char *name; /* of the new sandbox; NULL: none */
    const char *at;   /* the newest state that is not younger, RFC 3339; or NULL */
    const char *txid; /* the state of this transaction; or NULL. Neither: the newest state */
};
DZ_NODISCARD int dz_control_restore(struct dz_control *e, struct dz_control_target target,
                                    const struct dz_control_restore *what, dz_sandbox_done_fn *done,
                                    void *arg, struct dz_why *why);

/* Take the replica of this sandbox over from another daemon. */
DZ_NODISCARD int dz_control_replica_take(struct dz_control *e, struct dz_control_target target,
                                         struct dz_why *why);

#endif
