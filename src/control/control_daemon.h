/* SPDX-License-Identifier: MIT
 *
 * control_daemon.h - the control plane as a whole: open, recover, drain, count.
 */
#ifndef DZ_CONTROL_CONTROL_DAEMON_H
#define DZ_CONTROL_CONTROL_DAEMON_H

#include "base/hash.h"
#include "blob/blob_open.h"
#include "control/control_egress.h"
#include "control/control_quota.h"
#include "control/control_replica.h"
#include "control/control_space.h"
#include "control/control_usage.h"
#include "control/control_why.h"
#include "loop/loop.h"
#include "sandbox/sandbox.h"

struct dz_cell_pool;

struct dz_control_opts {
    struct dz_loop *loop;
    struct dz_cell_pool *pool; /* borrowed; made before the process had a thread */
    const char *data_path;     /* path of the data directory; made if missing */
    const char *registry;      /* name for dz_registry_open() */
    struct dz_idle_policy idle_policy;
    struct dz_quotas quotas; /* for tenants without quotas of their own; DZ_QUOTA_NONE: no limit */
    struct dz_usage_prices prices;
    struct dz_space_opts space;
    struct dz_blobs_place cold; /* without an owner; url NULL or "": "cold" in the data directory */
    struct dz_control_replica_opts replica; /* connections 0: the defaults */
    struct dz_control_egress_opts egress;
    uint64_t held_tenant, held_all; /* limits of dz_control_account(); 0: the defaults */
};
/* Open everything. DZ_EBUSY: another process has the data directory. */
DZ_NODISCARD int dz_control_new(const struct dz_control_opts *opts, struct dz_control **ret_engine,
                                struct dz_err *err);
/* Finish or undo the interrupted operations of an earlier daemon. Afterwards requests are accepted.
 * Blocks. */
DZ_NODISCARD int dz_control_recover(struct dz_control *e, struct dz_err *err);
/* The same in pieces, like dz_sandboxes_recover_some. */
DZ_NODISCARD int dz_control_recover_some(struct dz_control *e, int64_t until_ms,
                                         struct dz_err *err);
/* Suspend every sandbox. done(left) is called when none is awake, or after deadline_ms with the
 * number of those that still were. New work is refused with DZ_EBUSY from now on. */
void dz_control_drain(struct dz_control *e, int64_t deadline_ms,
                      void (*done)(void *arg, size_t left), void *arg);
/* Change the idle policy. It applies to each sandbox when its row is next read. */
void dz_control_set_idle_policy(struct dz_control *e, const struct dz_idle_policy *policy);
/* 0: recovered and not draining; otherwise DZ_EBUSY and the reason. */
DZ_NODISCARD int dz_control_check_ready(const struct dz_control *e, struct dz_err *err);
/* Before the loop is settled for the last time: requests to a cold storage that is far end now.
 * Their operations are undone, or recovery finishes them. NULL is fine. */
void dz_control_stop_far(struct dz_control *e);
void dz_control_free(struct dz_control *e); /* NULL is fine */

struct dz_control_counts {
    struct dz_sandbox_counts in; /* counts of the sandbox module */
    uint64_t busy;               /* operations in progress */
    uint64_t creates;
    char died[16]; /* signal that killed the previous daemon, or "none"; "": it stopped normally */
};
/* Record that the previous daemon died, as an event and in the counts. */
void dz_control_note_death(struct dz_control *e, int pid, const char *signal, bool rebooted);
/* Metrics hook: fn is called once for each completed operation. Creations are reported only if they
 * start the sandbox. */
struct dz_control_timing {
    const char *operation; /* "create", "wake", "suspend", "freeze", "archive", ... */
    const char *rung;      /* wakes: the wake source "local", "cold" or "fresh"; else "" */
    int code;              /* 0 or DZ_E* */
    int64_t us;
};
void dz_control_on_timed(struct dz_control *e,
                         void (*fn)(void *arg, const struct dz_control_timing *timing), void *arg);
/* List the active sandboxes, like dz_sandboxes_each_warm. */
int dz_control_each_warm(const struct dz_control *e,
                         int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg);
void dz_control_counts(const struct dz_control *e, struct dz_control_counts *ret_counts);

/* Compare the registry with the files, like dz_sandboxes_look. */
DZ_NODISCARD int dz_control_registry_check(struct dz_control *e,
                                           const struct dz_sandboxes_look_opts *o,
                                           struct dz_sandboxes_look **ret_look, struct dz_why *why);

#endif
