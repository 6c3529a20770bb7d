/* SPDX-License-Identifier: MIT
 *
 * control_daemon.h - the control plane as a whole: open, recover, drain, count.
 */
#ifndef DZ_CONTROL_CONTROL_DAEMON_H
#define DZ_CONTROL_CONTROL_DAEMON_H

#include "base/hash.h"
#include "control/control_quota.h"
#include "control/control_space.h"
#include "control/control_why.h"
#include "loop/loop.h"
#include "sandbox/sandbox.h"

struct dz_cell_pool;

struct dz_control_opts {
    struct dz_loop *loop;
    struct dz_cell_pool *pool; /* borrowed; made before the process had a thread */
    const char *data_path;     /* of the data directory; made when missing */
    const char *registry;      /* as of dz_registry_open */
    struct dz_ladder ladder;
    struct dz_quotas quotas; /* of a tenant that has none of its own; DZ_QUOTA_NONE */
    struct dz_space_opts space;
    uint64_t held_tenant, held_all; /* bytes that dz_control_account() lets wait; 0: the defaults */
};
/* Open everything. DZ_EBUSY: another process has the data directory. */
DZ_NODISCARD int dz_control_new(const struct dz_control_opts *opts, struct dz_control **ret_engine,
                                struct dz_err *err);
/* Finish or undo what an earlier process began; then requests may come. Blocks. */
DZ_NODISCARD int dz_control_recover(struct dz_control *e, struct dz_err *err);
/* The same in pieces: as dz_sandboxes_recover_some. Requests may come once it is over. */
DZ_NODISCARD int dz_control_recover_some(struct dz_control *e, int64_t until_ms,
                                         struct dz_err *err);
/* Put every sandbox to sleep; done(left) when none is awake or deadline_ms is over:
 * how many still were. New work is refused from now on with DZ_EBUSY. */
void dz_control_drain(struct dz_control *e, int64_t deadline_ms,
                      void (*done)(void *arg, size_t left), void *arg);
/* Another one from now on: of each sandbox when its row is next looked at. */
void dz_control_set_ladder(struct dz_control *e, const struct dz_ladder *ladder);
/* 0: recovered, and not draining; or DZ_EBUSY and why not. */
DZ_NODISCARD int dz_control_check_ready(const struct dz_control *e, struct dz_err *err);
void dz_control_free(struct dz_control *e); /* NULL is fine */

struct dz_control_counts {
    struct dz_sandbox_counts in; /* what happened in sandboxes */
    uint64_t busy;               /* operations under way */
    uint64_t creates;
    char died[16]; /* the signal that ended the daemon before this one, "none"; "": it stopped */
};
/* The daemon before this one died: an event, and in the counts. */
void dz_control_note_death(struct dz_control *e, int pid, const char *signal, bool rebooted);
/* An operation is over: told to who counts, one function. Of creations: those that start. */
struct dz_control_timing {
    const char *operation; /* "create", "wake", "suspend", "freeze", "archive", ... */
    const char *rung;      /* of a wake: "local", "cold", "fresh"; else "" */
    int code;              /* 0 or DZ_E* */
    int64_t us;
};
void dz_control_on_timed(struct dz_control *e,
                         void (*fn)(void *arg, const struct dz_control_timing *timing), void *arg);
/* Those that are awake: as dz_sandboxes_each_warm. */
int dz_control_each_warm(const struct dz_control *e,
                         int (*fn)(void *arg, const struct dz_sandbox_warm *warm), void *arg);
void dz_control_counts(const struct dz_control *e, struct dz_control_counts *ret_counts);

/* Compare the registry with the files: as dz_sandboxes_look. */
DZ_NODISCARD int dz_control_registry_check(struct dz_control *e,
                                           const struct dz_sandboxes_look_opts *o,
                                           struct dz_sandboxes_look **ret_look, struct dz_why *why);

#endif
